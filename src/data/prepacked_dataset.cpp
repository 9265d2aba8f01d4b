#include "data/prepacked_dataset.h"

#include <algorithm>
#include <limits>
#include <span>

#include "base/cat.h"
#include "base/error.h"
#include "data/hash.h"
#include "data/split_files.h"

namespace glmtune::data {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int32_t>::max();

std::vector<std::int32_t> integers(const io::Value& list, const char* name,
                                   const std::string& where) {
  if (!list.is_array())
    fail(cat(where, ": ", name, ": expected a list of integers, found ", list.kind_name()));
  std::vector<std::int32_t> out;
  out.reserve(list.size());
  for (const io::Value& item : list.as_array()) {
    if (!item.is_int() || item.as_int() < -kLargest || item.as_int() > kLargest)
      fail(cat(where, ": ", name, "[", out.size(), "]: expected an integer, found ",
               item.kind_name()));
    out.push_back(static_cast<std::int32_t>(item.as_int()));
  }
  return out;
}

Pack read_pack(const io::Value& row, const std::string& where) {
  Pack out;
  for (const char* name : {"input_ids", "labels"})
    if (row.find(name) == nullptr)
      fail(cat(where, ": ", name, " is missing; a row that is a pack has input_ids, labels and, ",
               "for several documents, seq_lens (packed_sequence.prepacked)"));
  out.ids = integers(*row.find("input_ids"), "input_ids", where);
  out.labels = integers(*row.find("labels"), "labels", where);
  if (out.labels.size() != out.ids.size())
    fail(cat(where, ": ", out.labels.size(), " labels for ", out.ids.size(), " input_ids"));
  std::vector<std::int32_t> lengths{static_cast<std::int32_t>(out.ids.size())};
  const auto list = [&](const char* name) {
    const io::Value* value = row.find(name);
    return value == nullptr || value->is_null() ? nullptr : value;
  };
  if (list("seq_lens") != nullptr) lengths = integers(*list("seq_lens"), "seq_lens", where);
  std::vector<std::int32_t> padded = lengths;
  if (list("seq_lens_padded") != nullptr)
    padded = integers(*list("seq_lens_padded"), "seq_lens_padded", where);
  if (padded.size() != lengths.size())
    fail(cat(where, ": ", padded.size(), " seq_lens_padded for ", lengths.size(), " seq_lens"));
  std::int64_t from = 0, end = 0;  // in the row, of the pack
  for (std::size_t d = 0; d < lengths.size(); ++d) {
    const std::int64_t length = lengths[d], room = padded[d];
    if (length < 1 || room < length || from + room > static_cast<std::int64_t>(out.ids.size()))
      fail(cat(where, ": seq_lens: a document of ", length, " tokens in ", room, " from token ",
               from, " on does not fit the row's ", out.ids.size()));
    for (std::vector<std::int32_t>* of : {&out.ids, &out.labels})
      if (from != end) std::copy_n(of->begin() + from, length, of->begin() + end);
    from += room;
    end += length;
    out.bounds.push_back(static_cast<std::int32_t>(end));
  }
  out.ids.resize(static_cast<std::size_t>(end));
  out.labels.resize(static_cast<std::size_t>(end));
  return out;
}

}  // namespace

PrepackedDataset::PrepackedDataset(const std::vector<std::string>& paths,
                                   const RowSelection& selection, const PackingSettings& packing,
                                   std::int64_t vocab_size)
    : rows_(paths, selection, {.columns = {"input_ids", "labels", "seq_lens", "seq_lens_padded"}}),
      vocab_size_(vocab_size > 0 ? vocab_size : kLargest) {
  ContentHash hash;
  std::int64_t packs = rows_.size();
  if (packing.max_packs) packs = std::min(packs, *packing.max_packs);
  for (std::int64_t i = 0; i < packs; ++i) {
    const Pack pack = PrepackedDataset::pack(i);
    if (packing.packed_sequence_size > 0 && pack.tokens() > packing.packed_sequence_size)
      fail(cat(rows_.where(i), ": a pack of ", pack.tokens(),
               " tokens, more than packed_sequence.packed_sequence_size ",
               packing.packed_sequence_size));
    hash.add_bytes(std::as_bytes(std::span(pack.ids)));
    hash.add_bytes(std::as_bytes(std::span(pack.labels)));
    hash.add_bytes(std::as_bytes(std::span(pack.bounds)));
    max_tokens_ = std::max(max_tokens_, pack.tokens());
    most_documents_ = std::max(most_documents_, pack.documents());
    summary_.tokens += pack.tokens();
    summary_.label_tokens += pack.label_tokens();
    summary_.samples += pack.documents();
    for (std::size_t d = 1; d < pack.bounds.size(); ++d)
      count_length(summary_, pack.bounds[d] - pack.bounds[d - 1]);
  }
  summary_.rows = rows_.size();
  summary_.packs = packs;
  summary_.notes = files_left_out(paths, name_of_split(selection.split));
  summary_.pack_size = packing.packed_sequence_size;
  if (summary_.label_tokens == 0)
    fail(cat(rows_.where(0), " and after: every label is ", kNoLabel, ": nothing to train on"));
  fingerprint_ = hash.hex();
}

Pack PrepackedDataset::pack(std::int64_t number) const {
  if (number < 0 || number >= rows_.size()) fail(cat("pack ", number, " of ", rows_.size()));
  const std::string where = rows_.where(number);
  Pack out = read_pack(rows_.row(number), where);
  check_pack(out, vocab_size_, where);
  return out;
}

std::string PrepackedDataset::where(std::int64_t pack, std::int64_t /*document*/) const {
  return rows_.where(pack);
}

}  // namespace glmtune::data
