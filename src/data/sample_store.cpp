#include "data/sample_store.h"

#include <span>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::data {

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
      fail(cat(where, ": ", length, " tokens, more than dataset.seq_length ", *limit,
               "; raise it, or set dataset.truncation"));
  }
}

void SampleStore::add(const Sample& sample, std::int64_t row) {
  if (sample.labels.size() != sample.ids.size() || sample.ids.empty()) {
    fail(cat("a sample needs tokens and as many labels, found ", sample.ids.size(), " and ",
             sample.labels.size()));
  }
  const std::size_t last = sample.ids.size() - 1;
  for (std::size_t t = 0; t < last; ++t) {
    const bool labelled = sample.labels[t] != kNoLabel;
    if (labelled && sample.labels[t] != sample.ids[t + 1]) {
      fail(cat("label ", t, " must be the next id ", sample.ids[t + 1], " or ", kNoLabel,
               ", found ", sample.labels[t]));
    }
    labelled_.push_back(labelled);
  }
  labelled_.push_back(false);
  last_labels_.push_back(sample.labels[last]);
  ids_.insert(ids_.end(), sample.ids.begin(), sample.ids.end());
  offsets_.push_back(static_cast<std::int64_t>(ids_.size()));
  rows_.push_back(row);
}

void SampleStore::append_to(Pack& pack, std::int64_t i) const {
  const auto begin = static_cast<std::size_t>(offsets_[static_cast<std::size_t>(i)]);
  const auto end = static_cast<std::size_t>(offsets_[static_cast<std::size_t>(i) + 1]);
  for (std::size_t t = begin; t < end; ++t) {
    pack.ids.push_back(ids_[t]);
    pack.labels.push_back(labelled_[t] ? ids_[t + 1] : kNoLabel);
  }
  pack.labels.back() = last_labels_[static_cast<std::size_t>(i)];
  pack.bounds.push_back(static_cast<std::int32_t>(pack.ids.size()));
}

void SampleStore::add_to(ContentHash& hash) const {
  hash.add_bytes(std::as_bytes(std::span(ids_)));
  hash.add_bytes(std::as_bytes(std::span(offsets_)));
  hash.add_bytes(std::as_bytes(std::span(last_labels_)));
  std::int64_t word = 0;
  for (std::size_t t = 0; t < labelled_.size(); ++t) {
    word = word << 1 | static_cast<std::int64_t>(labelled_[t]);
    if (t % 63 == 62) {
      hash.add(word);
      word = 0;
    }
  }
  hash.add(word);
}

}  // namespace glmtune::data
