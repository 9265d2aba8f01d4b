#pragma once
// What the benchmark programs share: their NAME=VALUE words, clocks, medians, timing on a device.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "cuda/device.h"

namespace glmtune::bench {

// The words of a command line from `first` on, over the defaults of all names; a bare NAME is
// NAME=1. Error for another name and for a number that is none.
class Arguments {
 public:
  Arguments(int argc, char** argv, int first, std::map<std::string, std::string> defaults)
      : values_(std::move(defaults)) {
    for (int i = first; i < argc; ++i) {
      const std::string word = argv[i];
      const std::size_t equals = word.find('=');
      const auto found = values_.find(word.substr(0, equals));
      if (found == values_.end()) fail(cat(argv[0], ": unknown argument ", word));
      found->second = equals == std::string::npos ? "1" : word.substr(equals + 1);
    }
  }
  const std::string& text(const std::string& name) const { return values_.at(name); }
  // The value where it is one of these words; Error for another.
  const std::string& one_of(const std::string& name,
                            std::initializer_list<std::string_view> words) const {
    const std::string& value = text(name);
    std::string known;
    for (const std::string_view word : words) {
      if (value == word) return value;
      known += cat(known.empty() ? "" : ", ", word);
    }
    fail(cat(name, "=", value, ": expected one of ", known));
  }
  std::int64_t number(const std::string& name) const {
    const std::string& value = text(name);
    std::size_t read = 0;
    try {
      const std::int64_t number = std::stoll(value, &read);
      if (read == value.size()) return number;
    } catch (const std::exception&) {
      read = 0;
    }
    fail(cat(name, "=", value, ": expected a whole number"));
  }
  bool is_on(const std::string& name) const { return number(name) != 0; }

 private:
  std::map<std::string, std::string> values_;
};

inline double seconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

inline double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

// Medians in milliseconds: burst after a rest, sustained after a second of the same work, where a
// card's power limit holds.
struct Times {
  double burst = 0, sustained = 0;
};

struct Timing {
  double rest = 1;                 // seconds before the burst
  int burst = 10, sustained = 25;  // samples
  // Work too short for the host's clock: a sample is several runs, this many at least and, until a
  // millisecond has gone by, at most.
  int fewest_runs = 1, most_runs = 1;
};

inline Times time_on_device(CudaContext& device, const Timing& timing,
                            const std::function<void()>& work) {
  const auto sample = [&] {
    const double begin = seconds();
    int runs = 0;
    while (runs < timing.fewest_runs || (runs < timing.most_runs && seconds() - begin < 1e-3)) {
      work();
      ++runs;
    }
    cuda_synchronize(device);
    return 1e3 * (seconds() - begin) / runs;
  };
  const auto median_of = [&](int samples) {
    std::vector<double> times;
    for (int i = 0; i < samples; ++i) times.push_back(sample());
    return median(times);
  };
  median_of(2);
  std::this_thread::sleep_for(std::chrono::duration<double>(timing.rest));
  Times times{.burst = median_of(timing.burst)};
  for (const double begin = seconds(); seconds() - begin < 1;) sample();
  times.sustained = median_of(timing.sustained);
  return times;
}

// A program's main: what `run` returns; 1 with the message of an error.
inline int report_errors(const std::function<int()>& run) {
  try {
    return run();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}

}  // namespace glmtune::bench
