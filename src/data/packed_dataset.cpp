#include "data/packed_dataset.h"

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <numeric>
#include <span>
#include <thread>

#include "base/cat.h"
#include "base/error.h"
#include "data/hash.h"
#include "data/shuffle.h"
#include "text/tokenizer.h"

namespace glmtune::data {
namespace {

// Rows handed out to the threads at once; bounds the memory that samples in flight take.
constexpr std::int64_t kRowsInFlight = 2048;
// Rows below this number are too few for their share of bad ones to mean anything.
constexpr std::int64_t kRowsBeforeCeiling = 100;
constexpr std::uint64_t kSampleOrderStream = 1;
constexpr std::size_t kProblemsShown = 5;

std::vector<std::vector<std::int64_t>> next_fit(const std::vector<std::int64_t>& lengths,
                                                std::int64_t capacity) {
  std::vector<std::vector<std::int64_t>> packs;
  std::int64_t room = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (packs.empty() || lengths[i] > room) {
      packs.emplace_back();
      room = capacity;
    }
    packs.back().push_back(static_cast<std::int64_t>(i));
    room -= lengths[i];
  }
  return packs;
}

std::vector<std::vector<std::int64_t>> best_fit(const std::vector<std::int64_t>& lengths,
                                                std::int64_t capacity) {
  std::vector<std::vector<std::int64_t>> packs;
  std::multimap<std::int64_t, std::size_t> open;  // room -> pack
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    std::size_t pack = packs.size();
    std::int64_t room = capacity;
    if (const auto fit = open.lower_bound(lengths[i]); fit != open.end()) {
      room = fit->first;
      pack = fit->second;
      open.erase(fit);
    } else {
      packs.emplace_back();
    }
    packs[pack].push_back(static_cast<std::int64_t>(i));
    if (room > lengths[i]) open.emplace(room - lengths[i], pack);
  }
  return packs;
}

struct Made {
  Sample sample;
  std::exception_ptr error;
};

// Of the errors, the one whose row comes first in the files; there is one.
std::exception_ptr first_error(const std::vector<Made>& made,
                               const std::function<std::int64_t(std::int64_t)>& place) {
  std::exception_ptr error;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!made[i].error) continue;
    const std::int64_t at = place(static_cast<std::int64_t>(i));
    if (error && at > first) continue;
    error = made[i].error;
    first = at;
  }
  return error;
}

// make(i, thread) for i in [0, n), each once.
void in_parallel(std::int64_t n, std::int64_t threads,
                 const std::function<void(std::int64_t, std::int64_t)>& make) {
  std::atomic<std::int64_t> next{0};
  const auto work = [&](std::int64_t thread) {
    for (std::int64_t i = next++; i < n; i = next++) make(i, thread);
  };
  std::vector<std::jthread> others;
  for (std::int64_t t = 1; t < std::min(threads, n); ++t) others.emplace_back(work, t);
  work(0);
}

}  // namespace

std::vector<std::vector<std::int64_t>> lay_into_packs(const std::vector<std::int64_t>& lengths,
                                                      std::int64_t capacity,
                                                      PackingStrategy strategy) {
  for (const std::int64_t n : lengths) {
    if (n < 1 || n > capacity) fail(cat("a sample of ", n, " tokens for packs of ", capacity));
  }
  return strategy == PackingStrategy::kThd ? next_fit(lengths, capacity)
                                           : best_fit(lengths, capacity);
}

PackedDataset::PackedDataset(std::unique_ptr<SampleMaker> maker, const PackingSettings& packing,
                             std::int64_t vocab_size, const Progress& progress)
    : maker_(std::move(maker)), packing_(packing) {
  if (packing_.packed_sequence_size < 0) {
    fail(cat("packed_sequence.packed_sequence_size must not be negative, found ",
             packing_.packed_sequence_size));
  }
  const auto make = [&] {
    make_contents(progress, vocab_size);
    return std::move(contents_);
  };
  if (packing_.cache_folder.empty()) {
    contents_ = make();
  } else {
    contents_ = PackCache(packing_.cache_folder, cache_key(vocab_size)).get(make, progress.notice);
  }
  finish();
}

std::string PackedDataset::cache_key(std::int64_t vocab_size) const {
  ContentHash hash;
  hash.add(kSampleVersion);
  maker_->add_to(hash);
  hash.add(vocab_size);
  hash.add(packing_.packed_sequence_size);
  hash.add(static_cast<std::int64_t>(packing_.strategy));
  hash.add(packing_.max_packs.value_or(-1));
  hash.add(static_cast<std::int64_t>(packing_.drop_long_samples));
  hash.add(cat(maker_->max_dropped_fraction()));  // what is kept has passed that ceiling
  hash.add(packing_.shuffle ? static_cast<std::int64_t>(packing_.seed) : -1);
  return hash.hex();
}

void PackedDataset::make_contents(const Progress& progress, std::int64_t vocab_size) {
  contents_.summary.rows = maker_->size();
  contents_.summary.notes = maker_->notes();
  contents_.summary.pack_size = packing_.packed_sequence_size;
  make_samples(progress, vocab_size);
  for (auto& [place, problem] : problems_) contents_.summary.problems.push_back(std::move(problem));
  make_packs();
  contents_.summary.samples = static_cast<std::int64_t>(contents_.documents.size());
  for (const std::int64_t d : contents_.documents) {
    contents_.summary.tokens += contents_.store.length(d);
  }
  contents_.summary.packs = *PackedDataset::size();
  check_dropped();
}

void PackedDataset::make_samples(const Progress& progress, std::int64_t vocab_size) {
  const std::int64_t rows = maker_->size();
  std::vector<std::int64_t> order;
  if (packing_.shuffle && packing_.packed_sequence_size > 0) {
    order = permutation(rows, packing_.seed, kSampleOrderStream);
  } else {
    order.resize(static_cast<std::size_t>(rows));
    std::iota(order.begin(), order.end(), 0);
  }
  const std::int64_t threads =
      packing_.threads > 0 ? packing_.threads : std::max(1U, std::thread::hardware_concurrency());
  std::vector<text::EncodeCache> caches(static_cast<std::size_t>(threads));
  std::vector<Made> made;
  for (std::int64_t first = 0; first < rows; first += kRowsInFlight) {
    const std::int64_t n = std::min(kRowsInFlight, rows - first);
    made.assign(static_cast<std::size_t>(n), {});
    in_parallel(n, threads, [&](std::int64_t i, std::int64_t thread) {
      Made& m = made[static_cast<std::size_t>(i)];
      try {
        m.sample = maker_->sample(order[static_cast<std::size_t>(first + i)],
                                  caches[static_cast<std::size_t>(thread)]);
      } catch (...) {
        m.error = std::current_exception();
      }
    });
    const auto place = [&](std::int64_t i) {
      return maker_->in_files(order[static_cast<std::size_t>(first + i)]);
    };
    for (std::int64_t i = 0; i < n; ++i) {
      Made& m = made[static_cast<std::size_t>(i)];
      if (m.error) std::rethrow_exception(first_error(made, place));
      if (!keep(std::move(m.sample), order[static_cast<std::size_t>(first + i)], vocab_size))
        return;
    }
    if (progress.rows) progress.rows(first + n, rows);
  }
}

bool PackedDataset::keep(Sample&& sample, std::int64_t row, std::int64_t vocab_size) {
  const std::int64_t capacity = packing_.packed_sequence_size;
  for (const Count& c : sample.notes) add_count(contents_.summary.notes, c.what, c.count);
  if (sample.dropped.empty()) {
    const auto length = static_cast<std::int64_t>(sample.ids.size());
    const bool labelled = std::any_of(sample.labels.begin(), sample.labels.end(),
                                      [](std::int32_t l) { return l != kNoLabel; });
    if (length == 0 || !labelled) {
      sample.dropped = length == 0        ? "no tokens"
                       : sample.truncated ? "no token to train on before the cut"
                                          : "no token to train on";
      sample.invalid = true;
    } else if (capacity > 0 && length > capacity) {
      if (!packing_.drop_long_samples) {
        fail(cat(maker_->where(row), ": ", length,
                 " tokens, more than packed_sequence.packed_sequence_size ", capacity,
                 "; raise it, or set dataset.truncation or packed_sequence.drop_long_samples"));
      }
      sample.dropped = cat("longer than the pack of ", capacity);
    }
  }
  if (!sample.dropped.empty()) {
    add_count(contents_.summary.dropped, sample.dropped);
    bad_rows_ += sample.invalid ? 1 : 0;
    if (!sample.problem.empty()) note_problem(row, std::move(sample.problem));
    return true;
  }
  if (vocab_size > 0) {
    for (const auto* ids : {&sample.ids, &sample.labels}) {
      for (const std::int32_t id : *ids) {
        if (id >= vocab_size || (id < 0 && id != kNoLabel)) {
          fail(cat(maker_->where(row), ": token id ", id, " is outside the model's vocabulary of ",
                   vocab_size, " ids; is this the model's own tokenizer?"));
        }
      }
    }
  }
  const auto length = static_cast<std::int64_t>(sample.ids.size());
  // Only next-fit knows a pack is closed before all samples are seen.
  if (packing_.max_packs && packing_.strategy == PackingStrategy::kThd) {
    const bool closes = capacity == 0 || fill_ + length > capacity;
    if (closes && fill_ > 0 && ++full_packs_ >= *packing_.max_packs) return false;
    fill_ = closes ? length : fill_ + length;
  }
  contents_.summary.truncated += sample.truncated ? 1 : 0;
  count_length(contents_.summary, length);
  contents_.summary.label_tokens += std::count_if(sample.labels.begin(), sample.labels.end(),
                                                  [](std::int32_t l) { return l != kNoLabel; });
  contents_.store.add(sample, row);
  return true;
}

void PackedDataset::note_problem(std::int64_t row, std::string problem) {
  const std::int64_t place = maker_->in_files(row);
  const auto after = std::upper_bound(problems_.begin(), problems_.end(), place,
                                      [](auto at, const auto& p) { return at < p.first; });
  problems_.emplace(after, place, std::move(problem));
  if (problems_.size() > kProblemsShown) problems_.pop_back();
}

void PackedDataset::make_packs() {
  if (packing_.packed_sequence_size == 0) {
    contents_.documents.resize(static_cast<std::size_t>(contents_.store.size()));
    std::iota(contents_.documents.begin(), contents_.documents.end(), 0);
    contents_.starts.resize(contents_.documents.size() + 1);
    std::iota(contents_.starts.begin(), contents_.starts.end(), 0);
    return;
  }
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < contents_.store.size(); ++i)
    lengths.push_back(contents_.store.length(i));
  auto packs = lay_into_packs(lengths, packing_.packed_sequence_size, packing_.strategy);
  if (packing_.max_packs && static_cast<std::int64_t>(packs.size()) > *packing_.max_packs) {
    packs.resize(static_cast<std::size_t>(*packing_.max_packs));
  }
  for (const auto& pack : packs) {
    contents_.documents.insert(contents_.documents.end(), pack.begin(), pack.end());
    contents_.starts.push_back(static_cast<std::int64_t>(contents_.documents.size()));
  }
}

void PackedDataset::check_dropped() const {
  const std::int64_t rows = contents_.summary.rows;
  const auto limit = maker_->max_dropped_fraction();
  if (contents_.store.size() == 0) {
    fail(cat(maker_->where(0), " and the rows after it: of ", rows, rows == 1 ? " row" : " rows",
             " none is left to train on\n", contents_.summary.text()));
  }
  if (rows >= kRowsBeforeCeiling &&
      static_cast<double>(bad_rows_) > limit * static_cast<double>(rows)) {
    fail(cat(maker_->where(0), " and the rows after it: ", bad_rows_, " of ", rows,
             " rows are bad or hold nothing to train on, more than the ceiling of ", limit,
             " of all (dataset.max_dropped_fraction)\n", contents_.summary.text()));
  }
}

void PackedDataset::finish() {
  ContentHash hash;
  contents_.store.add_to(hash);
  hash.add(packing_.packed_sequence_size);
  hash.add_bytes(std::as_bytes(std::span(contents_.documents)));
  hash.add_bytes(std::as_bytes(std::span(contents_.starts)));
  fingerprint_ = hash.hex();
  for (std::int64_t p = 0; p < *size(); ++p) {
    const auto at = static_cast<std::size_t>(p);
    max_tokens_ = std::max(max_tokens_, tokens(p));
    most_documents_ = std::max(most_documents_, contents_.starts[at + 1] - contents_.starts[at]);
  }
}

std::int64_t PackedDataset::document(std::int64_t pack, std::int64_t document) const {
  if (pack < 0 || pack >= *size()) fail(cat("pack ", pack, " of ", *size()));
  return contents_.documents[static_cast<std::size_t>(
      contents_.starts[static_cast<std::size_t>(pack)] + document)];
}

Pack PackedDataset::pack(std::int64_t number) const {
  if (number < 0 || number >= *size()) fail(cat("pack ", number, " of ", *size()));
  Pack pack;
  const auto p = static_cast<std::size_t>(number);
  for (std::int64_t d = contents_.starts[p]; d < contents_.starts[p + 1]; ++d) {
    contents_.store.append_to(pack, contents_.documents[static_cast<std::size_t>(d)]);
  }
  return pack;
}

std::int64_t PackedDataset::tokens(std::int64_t number) const {
  if (number < 0 || number >= *size()) fail(cat("pack ", number, " of ", *size()));
  std::int64_t tokens = 0;
  const auto p = static_cast<std::size_t>(number);
  for (std::int64_t d = contents_.starts[p]; d < contents_.starts[p + 1]; ++d)
    tokens += contents_.store.length(contents_.documents[static_cast<std::size_t>(d)]);
  return tokens;
}

std::string PackedDataset::where(std::int64_t pack, std::int64_t d) const {
  return maker_->where(contents_.store.row(document(pack, d)));
}

}  // namespace glmtune::data
