#include "data/reference_rows.h"

#include <limits>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::data {
namespace {

using Limits = std::numeric_limits<std::int32_t>;

// labels[t + 1] is what row t predicts; a document's last row predicts nothing.
std::vector<std::int32_t> shift(const std::vector<std::int32_t>& labels,
                                const std::vector<std::int32_t>& bounds) {
  std::vector<std::int32_t> out(labels.size(), kNoLabel);
  for (std::size_t d = 1; d < bounds.size(); ++d) {
    for (std::int32_t t = bounds[d - 1]; t + 1 < bounds[d]; ++t) {
      out[static_cast<std::size_t>(t)] = labels[static_cast<std::size_t>(t) + 1];
    }
  }
  return out;
}

// The labels as they stand in the file.
std::vector<std::int32_t> read_labels(const io::SafetensorsFile& file,
                                      const io::TensorInfo& input) {
  for (const char* name : {"labels", "shifted_labels"}) {
    const io::TensorInfo* found = file.find(name);
    if (found == nullptr) continue;
    if (found->shape != input.shape) {
      fail(cat(file.path(), ": ", name, " is ", found->shape_string(), ", input_ids ",
               input.shape_string(), "; they must be the same shape"));
    }
    return read_integers(file, name);
  }
  return std::vector<std::int32_t>(static_cast<std::size_t>(input.count()), kNoLabel);
}

}  // namespace

std::vector<std::int32_t> read_integers(const io::SafetensorsFile& file, const std::string& name) {
  const io::TensorInfo& info = file.at(name);
  // Document bounds are 32-bit; a tensor beyond this is no training row.
  if (info.count() > Limits::max()) {
    fail(cat(file.path(), ": ", name, " has ", info.count(), " elements, at most ", Limits::max(),
             " are read"));
  }
  std::vector<std::int32_t> values(static_cast<std::size_t>(info.count()));
  if (info.dtype == DType::kI32) {
    file.read_bytes(info, 0, values.data(), info.bytes());
    return values;
  }
  if (info.dtype != DType::kI64) {
    fail(cat(file.path(), ": ", name, ": expected I64 or I32, found ", info.shape_string()));
  }
  std::vector<std::int64_t> wide(values.size());
  file.read_bytes(info, 0, wide.data(), info.bytes());
  for (std::size_t i = 0; i < wide.size(); ++i) {
    if (wide[i] < Limits::min() || wide[i] > Limits::max()) {
      fail(cat(file.path(), ": ", name, "[", i, "] is ", wide[i], ", beyond 32 bits"));
    }
    values[i] = static_cast<std::int32_t>(wide[i]);
  }
  return values;
}

std::vector<Pack> read_reference_rows(const io::SafetensorsFile& file, std::int64_t vocab_size) {
  const io::TensorInfo& input = file.at("input_ids");
  if (input.shape.empty() || input.shape.size() > 2 || input.count() == 0) {
    fail(cat(file.path(), ": input_ids: expected [B, S] or [T], found ", input.shape_string()));
  }
  const bool has_labels = file.find("labels") != nullptr;
  if (has_labels && file.find("shifted_labels") != nullptr) {
    fail(cat(file.path(), ": expected either labels or shifted_labels, found both"));
  }
  const bool is_packed = file.find("cu_seqlens") != nullptr;
  const std::int64_t rows = input.shape.size() == 2 && !is_packed ? input.shape[0] : 1;
  const std::int64_t length = input.count() / rows;
  const std::vector<std::int32_t> ids = read_integers(file, "input_ids");
  const std::vector<std::int32_t> labels = read_labels(file, input);
  std::vector<Pack> packs;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto begin = static_cast<std::ptrdiff_t>(r * length), end = begin + length;
    Pack pack;
    pack.ids.assign(ids.begin() + begin, ids.begin() + end);
    pack.labels.assign(labels.begin() + begin, labels.begin() + end);
    if (is_packed) {
      pack.bounds = read_integers(file, "cu_seqlens");
    } else {
      pack.bounds.push_back(static_cast<std::int32_t>(length));
    }
    check_pack(pack, vocab_size > 0 ? vocab_size : Limits::max(), cat(file.path(), ": row ", r));
    if (has_labels) pack.labels = shift(pack.labels, pack.bounds);
    packs.push_back(std::move(pack));
  }
  return packs;
}

}  // namespace glmtune::data
