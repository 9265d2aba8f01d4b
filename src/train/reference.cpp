#include "train/reference.h"

#include <algorithm>

#include "base/cat.h"
#include "data/reference_rows.h"

namespace glmtune::train {

Reference::Reference(const std::string& path) : file_(io::SafetensorsFile::open(path)) {
  for (const data::Pack& pack : data::read_reference_rows(file_, 0)) rows_.append(pack);
}

void Reference::expect_count(const std::string& name, std::int64_t count) const {
  const io::TensorInfo& info = file_.at(name);
  if (info.count() != count)
    fail(cat(file_.path(), ": ", name, " is ", info.shape_string(), ", the model's has ", count,
             " elements"));
}

std::vector<double> Reference::values(const std::string& name, std::int64_t count) const {
  expect_count(name, count);
  std::vector<double> v(static_cast<std::size_t>(count));
  read(name, 0, count, v.data());
  return v;
}

void Reference::read(const std::string& name, std::int64_t first, std::int64_t n,
                     double* out) const {
  file_.read_elements(file_.at(name), first, n, out, DType::kF64);
}

Reference::Choices Reference::choices(const std::string& name, std::int64_t limit) const {
  const io::TensorInfo& info = file_.at(name);
  if (info.shape.size() < 2 || info.shape.back() < 1 ||
      info.count() != tokens() * info.shape.back())
    fail(cat(file_.path(), ": ", name, " is ", info.shape_string(), "; expected [T, K] with the ",
             tokens(), " tokens of input_ids"));
  Choices out{.values = data::read_integers(file_, name), .width = info.shape.back()};
  for (std::size_t i = 0; i < out.values.size(); ++i)
    if (out.values[i] >= limit)
      fail(cat(file_.path(), ": ", name, " has ", out.values[i], " for token ",
               static_cast<std::int64_t>(i) / out.width, "; expected numbers below ", limit));
  return out;
}

std::optional<double> Reference::loss() const {
  if (!has("loss")) return std::nullopt;
  return values("loss", 1)[0];
}

std::vector<std::string> Reference::names(const std::string& prefix) const {
  std::vector<std::string> found;
  for (const io::TensorInfo& t : file_.tensors())
    if (t.name.starts_with(prefix)) found.push_back(t.name.substr(prefix.size()));
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace glmtune::train
