#include "data/sample_store.h"

#include <span>

#include "base/cat.h"
#include "base/error.h"
#include "data/rows.h"

namespace glmtune::data {

void note_control_spellings(std::size_t spellings, std::vector<Count>& notes) {
  if (spellings > 0)
    add_count(notes, "spellings of control tokens in texts, encoded as ordinary text",
              static_cast<std::int64_t>(spellings));
}

Sample refused(const std::exception& error) {
  if (dynamic_cast<const BrokenArray*>(&error) != nullptr)
    fail(cat(error.what(),
             "; in a JSON array the rows behind such an element cannot be told apart, so it is not "
             "left out; mend the file, or write one row a line (.jsonl)"));
  Sample out;
  out.dropped = "bad row (skip_invalid_samples)";
  out.invalid = true;
  out.problem = error.what();
  return out;
}

void truncate(Sample& sample, std::int64_t limit) {
  const auto n = static_cast<std::size_t>(limit);
  if (sample.ids.size() <= n) return;
  sample.ids.resize(n);
  sample.labels.resize(n);
  if (n > 0) sample.labels.back() = kNoLabel;
  sample.truncated = true;
}

void fit(Sample& sample, std::optional<std::int64_t> limit, TooLong policy,
         const std::string& where) {
  const auto length = static_cast<std::int64_t>(sample.ids.size());
  if (!limit || length <= *limit || !sample.dropped.empty()) return;
  switch (policy) {
    case TooLong::kKeep:
      return;
    case TooLong::kTruncate:
      truncate(sample, *limit);
      return;
    case TooLong::kDrop:
      sample.dropped = cat("longer than dataset.seq_length ", *limit);
      return;
    case TooLong::kError:
      fail(cat(where, ": ", length, " tokens, more than ", *limit,
               " (dataset.seq_length, or a pack's size); raise it, or set dataset.truncation"));
  }
}

SampleStore::SampleStore(Arrays arrays) : arrays_(std::move(arrays)) {
  const Arrays& a = arrays_;
  bool fits = a.offsets.size() == a.rows.size() + 1 && a.last_labels.size() == a.rows.size() &&
              a.labelled.size() == (a.ids.size() + 63) / 64 && a.offsets.front() == 0 &&
              a.offsets.back() == static_cast<std::int64_t>(a.ids.size());
  for (std::size_t i = 1; fits && i < a.offsets.size(); ++i) {
    fits = a.offsets[i - 1] < a.offsets[i];
  }
  check(fits, "the arrays of stored samples do not fit each other");
}

void SampleStore::add(const Sample& sample, std::int64_t row) {
  if (sample.labels.size() != sample.ids.size() || sample.ids.empty()) {
    fail(cat("a sample needs tokens and as many labels, found ", sample.ids.size(), " and ",
             sample.labels.size()));
  }
  const std::size_t first = arrays_.ids.size();
  const std::size_t last = sample.ids.size() - 1;
  arrays_.ids.insert(arrays_.ids.end(), sample.ids.begin(), sample.ids.end());
  arrays_.labelled.resize((arrays_.ids.size() + 63) / 64);
  for (std::size_t t = 0; t < last; ++t) {
    if (sample.labels[t] == kNoLabel) continue;
    if (sample.labels[t] != sample.ids[t + 1]) {
      fail(cat("label ", t, " must be the next id ", sample.ids[t + 1], " or ", kNoLabel,
               ", found ", sample.labels[t]));
    }
    arrays_.labelled[(first + t) / 64] |= std::uint64_t{1} << ((first + t) % 64);
  }
  arrays_.last_labels.push_back(sample.labels[last]);
  arrays_.offsets.push_back(static_cast<std::int64_t>(arrays_.ids.size()));
  arrays_.rows.push_back(row);
}

void SampleStore::append_to(Pack& pack, std::int64_t i) const {
  const auto begin = static_cast<std::size_t>(arrays_.offsets[static_cast<std::size_t>(i)]);
  const auto end = static_cast<std::size_t>(arrays_.offsets[static_cast<std::size_t>(i) + 1]);
  for (std::size_t t = begin; t < end; ++t) {
    pack.ids.push_back(arrays_.ids[t]);
    pack.labels.push_back(labelled(t) ? arrays_.ids[t + 1] : kNoLabel);
  }
  pack.labels.back() = arrays_.last_labels[static_cast<std::size_t>(i)];
  pack.bounds.push_back(static_cast<std::int32_t>(pack.ids.size()));
}

void SampleStore::add_to(ContentHash& hash) const {
  hash.add_bytes(std::as_bytes(std::span(arrays_.ids)));
  hash.add_bytes(std::as_bytes(std::span(arrays_.labelled)));
  hash.add_bytes(std::as_bytes(std::span(arrays_.offsets)));
  hash.add_bytes(std::as_bytes(std::span(arrays_.last_labels)));
}

}  // namespace glmtune::data
