#include "train/device_peaks.h"

#include <algorithm>
#include <array>
#include <cctype>

#include "base/cat.h"

namespace glmtune::train {
namespace {

struct Peak {
  std::string_view name;
  double tflops;
};
// GB200 before B200, which its name holds.
constexpr std::array kPeaks{Peak{"H100", 989},   Peak{"H200", 989},  Peak{"H800", 989},
                            Peak{"GB200", 2500}, Peak{"B200", 2250}, Peak{"A100", 312}};

}  // namespace

std::optional<double> peak_of_device(std::string_view name) {
  std::string upper(name);
  std::transform(upper.begin(), upper.end(), upper.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  for (const Peak& peak : kPeaks)
    if (upper.find(peak.name) != std::string::npos) return peak.tflops;
  return std::nullopt;
}

std::string known_devices() {
  std::string list;
  for (const Peak& peak : kPeaks) list += cat(list.empty() ? "" : ", ", peak.name);
  return list;
}

}  // namespace glmtune::train
