#include "data/pretokenized_dataset.h"

#include <algorithm>
#include <span>

#include "base/cat.h"
#include "base/error.h"
#include "data/hash.h"
#include "data/reference_rows.h"
#include "io/safetensors.h"

namespace glmtune::data {
PretokenizedDataset::PretokenizedDataset(const PretokenizedSettings& settings,
                                         std::int64_t vocab_size)
    : path_(settings.path) {
  check(!path_.empty(), "dataset.path: the path of a safetensors file is required");
  const auto file = io::SafetensorsFile::open(path_);
  if (file.find("labels") == nullptr && file.find("shifted_labels") == nullptr) {
    fail(cat(path_, ": expected either labels or shifted_labels beside input_ids, found neither"));
  }
  const io::TensorInfo* input = file.find("input_ids");
  if (input != nullptr && input->shape.size() == 2 && input->shape[0] != 1 &&
      file.find("cu_seqlens") != nullptr) {
    fail(cat(path_, ": cu_seqlens divides one row into documents, but input_ids has ",
             input->shape[0], " rows"));
  }
  rows_ = read_reference_rows(file, vocab_size);
  ContentHash hash;
  for (const Pack& pack : rows_) {
    hash.add_bytes(std::as_bytes(std::span(pack.ids)));
    hash.add_bytes(std::as_bytes(std::span(pack.labels)));
    hash.add_bytes(std::as_bytes(std::span(pack.bounds)));
    summary_.tokens += pack.tokens();
    summary_.label_tokens += pack.label_tokens();
    summary_.samples += pack.documents();
    for (std::size_t d = 1; d < pack.bounds.size(); ++d) {
      count_length(summary_, pack.bounds[d] - pack.bounds[d - 1]);
    }
  }
  if (summary_.label_tokens == 0) {
    fail(cat(path_, ": every label is ", kNoLabel, ": nothing to train on"));
  }
  fingerprint_ = hash.hex();
  summary_.rows = summary_.packs = static_cast<std::int64_t>(rows_.size());
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

std::int64_t PretokenizedDataset::most_documents() const {
  std::int64_t most = 0;
  for (const Pack& row : rows_) most = std::max(most, row.documents());
  return most;
}

std::string PretokenizedDataset::where(std::int64_t pack, std::int64_t /*document*/) const {
  return cat(path_, ": row ", row_of(pack));
}

}  // namespace glmtune::data
