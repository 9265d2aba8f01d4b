#include "data/pretokenized_dataset.h"

#include <limits>
#include <span>

#include "base/cat.h"
#include "base/error.h"
#include "data/hash.h"
#include "io/safetensors.h"

namespace glmtune::data {
namespace {

// Document bounds are 32-bit; a file beyond this is no training row.
constexpr std::int64_t kMaxTokens = std::numeric_limits<std::int32_t>::max();

std::vector<std::int32_t> read_ids(const io::SafetensorsFile& file, const io::TensorInfo& info) {
  std::vector<std::int32_t> out;
  if (info.count() > kMaxTokens) {
    fail(cat(file.path(), ": ", info.name, " has ", info.count(), " elements, at most ", kMaxTokens,
             " are read"));
  }
  const auto n = static_cast<std::size_t>(info.count());
  out.resize(n);
  if (info.dtype == DType::kI32) {
    file.read_bytes(info, 0, out.data(), n * sizeof(std::int32_t));
    return out;
  }
  if (info.dtype != DType::kI64) {
    fail(cat(file.path(), ": ", info.name, ": expected I64 or I32, found ", info.shape_string()));
  }
  std::vector<std::int64_t> wide(n);
  file.read_bytes(info, 0, wide.data(), n * sizeof(std::int64_t));
  for (std::size_t i = 0; i < n; ++i) {
    if (wide[i] < -kMaxTokens || wide[i] > kMaxTokens) {
      fail(cat(file.path(), ": ", info.name, ": element ", i, " is ", wide[i], ", not a token id"));
    }
    out[i] = static_cast<std::int32_t>(wide[i]);
  }
  return out;
}

void same_shape(const std::string& path, const io::TensorInfo& found,
                const io::TensorInfo& expected) {
  if (found.shape != expected.shape) {
    fail(cat(path, ": ", found.name, " has shape ", found.shape_string(), ", input_ids ",
             expected.shape_string(), "; they must be the same"));
  }
}

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

}  // namespace

PretokenizedDataset::PretokenizedDataset(const PretokenizedSettings& settings,
                                         std::int64_t vocab_size)
    : path_(settings.path) {
  check(!path_.empty(), "dataset.path: the path of a safetensors file is required");
  const auto file = io::SafetensorsFile::open(path_);
  const io::TensorInfo& input = file.at("input_ids");
  const io::TensorInfo* labels = file.find("labels");
  const io::TensorInfo* shifted = file.find("shifted_labels");
  const io::TensorInfo* bounds = file.find("cu_seqlens");
  if ((labels == nullptr) == (shifted == nullptr)) {
    fail(cat(path_, ": expected either labels or shifted_labels beside input_ids, found ",
             labels == nullptr ? "neither" : "both"));
  }
  if (input.shape.empty() || input.shape.size() > 2 || input.count() == 0) {
    fail(cat(path_, ": input_ids: expected [B, S] or [T], found ", input.shape_string()));
  }
  const io::TensorInfo& target = labels != nullptr ? *labels : *shifted;
  same_shape(path_, target, input);
  const std::int64_t rows = input.shape.size() == 2 ? input.shape[0] : 1;
  const std::int64_t length = input.count() / rows;
  if (bounds != nullptr && rows != 1) {
    fail(cat(path_, ": cu_seqlens divides one row into documents, but input_ids has ", rows,
             " rows"));
  }
  const auto ids = read_ids(file, input);
  const auto targets = read_ids(file, target);
  ContentHash hash;
  for (std::int64_t r = 0; r < rows; ++r) {
    const auto begin = static_cast<std::ptrdiff_t>(r * length);
    const auto end = static_cast<std::ptrdiff_t>((r + 1) * length);
    Pack pack;
    pack.ids.assign(ids.begin() + begin, ids.begin() + end);
    pack.labels.assign(targets.begin() + begin, targets.begin() + end);
    pack.bounds.push_back(static_cast<std::int32_t>(length));
    if (bounds != nullptr) pack.bounds = read_ids(file, *bounds);
    const std::string name = PretokenizedDataset::where(r, 0);
    const auto any = std::numeric_limits<std::int32_t>::max();
    check_pack(pack, vocab_size > 0 ? vocab_size : any, name);
    if (labels != nullptr) pack.labels = shift(pack.labels, pack.bounds);
    hash.add_bytes(std::as_bytes(std::span(pack.ids)));
    hash.add_bytes(std::as_bytes(std::span(pack.labels)));
    hash.add_bytes(std::as_bytes(std::span(pack.bounds)));
    summary_.label_tokens += pack.label_tokens();
    summary_.samples += pack.documents();
    for (std::size_t d = 1; d < pack.bounds.size(); ++d) {
      count_length(summary_, pack.bounds[d] - pack.bounds[d - 1]);
    }
    rows_.push_back(std::move(pack));
  }
  if (summary_.label_tokens == 0) {
    fail(cat(path_, ": every label is ", kNoLabel, ": nothing to train on"));
  }
  fingerprint_ = hash.hex();
  summary_.rows = summary_.packs = rows;
  summary_.tokens = rows * length;
}

std::int64_t PretokenizedDataset::row_of(std::int64_t pack) const {
  if (pack < 0) fail(cat("pack number ", pack, " is negative"));
  return pack % static_cast<std::int64_t>(rows_.size());
}

Pack PretokenizedDataset::pack(std::int64_t number) const {
  return rows_[static_cast<std::size_t>(row_of(number))];
}

std::int64_t PretokenizedDataset::max_tokens() const {
  return rows_.front().tokens();
}

std::string PretokenizedDataset::where(std::int64_t pack, std::int64_t /*document*/) const {
  return cat(path_, ": row ", rows_.empty() ? pack : row_of(pack));
}

}  // namespace glmtune::data
