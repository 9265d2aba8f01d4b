#include "train/reference.h"

#include <algorithm>
#include <limits>

#include "base/cat.h"

namespace glmtune::train {
namespace {

constexpr std::int32_t kNoLabel = -100;

// Hugging Face labels stand at the token they name; row t of ours holds the label of token t+1.
std::vector<std::int32_t> shift(const std::vector<std::int32_t>& labels,
                                const std::vector<std::int32_t>& cu) {
  std::vector<std::int32_t> shifted(labels.size(), kNoLabel);
  for (std::size_t d = 0; d + 1 < cu.size(); ++d)
    for (auto t = static_cast<std::size_t>(cu[d]); t + 1 < static_cast<std::size_t>(cu[d + 1]); ++t)
      shifted[t] = labels[t + 1];
  return shifted;
}

}  // namespace

Reference::Reference(const std::string& path) : file_(io::SafetensorsFile::open(path)) {
  const io::TensorInfo& ids = file_.at("input_ids");
  if (ids.shape.empty() || ids.shape.size() > 2 || ids.count() == 0)
    fail(cat(path, ": input_ids is ", ids.shape_string(), "; expected [B, S] or [T]"));
  ids_ = integers("input_ids");
  if (has("cu_seqlens")) {
    cu_seqlens_ = integers("cu_seqlens");
  } else {
    const auto length = static_cast<std::int32_t>(ids.shape.back());
    for (std::int32_t at = 0; at <= static_cast<std::int32_t>(ids_.size()); at += length)
      cu_seqlens_.push_back(at);
  }
  if (cu_seqlens_.size() < 2 || cu_seqlens_.front() != 0 || cu_seqlens_.back() != tokens() ||
      std::adjacent_find(cu_seqlens_.begin(), cu_seqlens_.end(), std::greater_equal<>()) !=
          cu_seqlens_.end())
    fail(cat(path, ": cu_seqlens must rise from 0 to the ", tokens(), " tokens of input_ids"));
  if (has("labels") && has("shifted_labels"))
    fail(cat(path, ": holds both labels and shifted_labels; keep one of them"));
  labels_.assign(ids_.size(), kNoLabel);
  for (const char* name : {"labels", "shifted_labels"}) {
    if (!has(name)) continue;
    const io::TensorInfo& info = file_.at(name);
    if (info.shape != ids.shape)
      fail(cat(path, ": ", name, " is ", info.shape_string(), ", input_ids ", ids.shape_string(),
               "; they must have one shape"));
    labels_ = integers(name);
    if (std::string_view(name) == "labels") labels_ = shift(labels_, cu_seqlens_);
  }
  label_tokens_ = static_cast<std::int64_t>(labels_.size()) -
                  std::count(labels_.begin(), labels_.end(), kNoLabel);
}

std::vector<std::int32_t> Reference::integers(const std::string& name) const {
  const io::TensorInfo& info = file_.at(name);
  std::vector<std::int32_t> values(static_cast<std::size_t>(info.count()));
  if (info.dtype == DType::kI32) {
    file_.read_bytes(info, 0, values.data(), info.bytes());
    return values;
  }
  if (info.dtype != DType::kI64)
    fail(cat(file_.path(), ": ", name, " is ", info.shape_string(), "; expected I64 or I32"));
  std::vector<std::int64_t> wide(values.size());
  file_.read_bytes(info, 0, wide.data(), info.bytes());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] < std::numeric_limits<std::int32_t>::min() ||
        wide[i] > std::numeric_limits<std::int32_t>::max())
      fail(cat(file_.path(), ": ", name, "[", i, "] is ", wide[i], ", beyond 32 bits"));
    values[i] = static_cast<std::int32_t>(wide[i]);
  }
  return values;
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

Reference::Choices Reference::choices(const std::string& name) const {
  const io::TensorInfo& info = file_.at(name);
  if (info.shape.size() < 2 || info.shape.back() < 1 ||
      info.count() != tokens() * info.shape.back())
    fail(cat(file_.path(), ": ", name, " is ", info.shape_string(), "; expected [T, K] with the ",
             tokens(), " tokens of input_ids"));
  return {.values = integers(name), .width = info.shape.back()};
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
