#include "data/pack.h"

#include <algorithm>
#include <bit>
#include <iomanip>
#include <sstream>

#include "base/cat.h"
#include "base/error.h"
#include "base/format.h"

namespace glmtune::data {

std::int64_t Pack::label_tokens() const {
  return std::count_if(labels.begin(), labels.end(), [](std::int32_t l) { return l != kNoLabel; });
}

void Pack::append(const Pack& other) {
  const std::int32_t offset = bounds.back();
  ids.insert(ids.end(), other.ids.begin(), other.ids.end());
  labels.insert(labels.end(), other.labels.begin(), other.labels.end());
  for (std::size_t d = 1; d < other.bounds.size(); ++d) bounds.push_back(offset + other.bounds[d]);
}

void check_pack(const Pack& pack, std::int64_t vocab_size, const std::string& where) {
  if (pack.labels.size() != pack.ids.size()) {
    fail(cat(where, ": ", pack.labels.size(), " labels for ", pack.ids.size(), " tokens"));
  }
  if (pack.bounds.empty() || pack.bounds.front() != 0 || pack.bounds.back() != pack.tokens()) {
    fail(cat(where, ": document bounds must begin with 0 and end with the number of tokens, ",
             pack.tokens()));
  }
  for (std::size_t d = 1; d < pack.bounds.size(); ++d) {
    if (pack.bounds[d] <= pack.bounds[d - 1]) {
      fail(cat(where, ": document bounds must increase; entry ", d, " is ", pack.bounds[d],
               " after ", pack.bounds[d - 1]));
    }
  }
  for (std::size_t t = 0; t < pack.ids.size(); ++t) {
    if (pack.ids[t] < 0)
      fail(cat(where, ": token ", t, " has id ", pack.ids[t], "; expected 0 or more"));
    if (pack.ids[t] >= vocab_size) {
      fail(cat(where, ": token ", t, " has id ", pack.ids[t], ", but the model's vocabulary has ",
               vocab_size, " ids; is this the model's own tokenizer?"));
    }
    if (pack.labels[t] != kNoLabel && (pack.labels[t] < 0 || pack.labels[t] >= vocab_size)) {
      fail(cat(where, ": token ", t, " has label ", pack.labels[t], ", which is neither ", kNoLabel,
               " nor an id of the model's vocabulary of ", vocab_size));
    }
  }
}

void add_count(std::vector<Count>& counts, const std::string& what, std::int64_t n) {
  for (Count& c : counts) {
    if (c.what == what) {
      c.count += n;
      return;
    }
  }
  counts.push_back({what, n});
}

void count_length(DataSummary& summary, std::int64_t tokens) {
  summary.longest = std::max(summary.longest, tokens);
  const auto bin = static_cast<std::size_t>(std::bit_width(static_cast<std::uint64_t>(tokens)) - 1);
  if (summary.length_histogram.size() <= bin) summary.length_histogram.resize(bin + 1);
  ++summary.length_histogram[bin];
}

std::int64_t DataSummary::dropped_rows() const {
  std::int64_t sum = 0;
  for (const Count& c : dropped) sum += c.count;
  return sum;
}

namespace {

std::string percent(std::int64_t part, std::int64_t whole) {
  std::ostringstream out;
  out << std::fixed << std::setprecision(1)
      << (whole == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole))
      << " %";
  return out.str();
}

void print_histogram(std::ostream& out, const std::vector<std::int64_t>& histogram) {
  const auto first = std::find_if(histogram.begin(), histogram.end(), [](auto n) { return n > 0; });
  if (first == histogram.end()) return;
  const std::int64_t most = *std::max_element(histogram.begin(), histogram.end());
  for (auto it = first; it != histogram.end(); ++it) {
    const std::int64_t low = std::int64_t{1} << (it - histogram.begin());
    const std::string range = cat(grouped(low), "-", grouped(2 * low - 1));
    const auto bar = static_cast<std::size_t>(std::max<std::int64_t>(*it > 0, 40 * *it / most));
    out << "  " << std::setw(18) << range << " " << std::setw(9) << grouped(*it) << " "
        << std::string(bar, '#') << "\n";
  }
}

}  // namespace

std::string DataSummary::text() const {
  std::ostringstream out;
  out << "rows " << grouped(rows) << ", samples " << grouped(samples) << ", packs "
      << grouped(packs);
  if (pack_size > 0) {
    out << " of " << grouped(pack_size) << " (" << percent(tokens, packs * pack_size) << " filled)";
  }
  out << "\ntokens " << grouped(tokens) << ", trained on " << grouped(label_tokens) << " ("
      << percent(label_tokens, tokens) << "), longest sample " << grouped(longest) << "\n";
  out << "truncated " << grouped(truncated) << ", dropped " << grouped(dropped_rows()) << "\n";
  for (const Count& c : dropped) out << "  dropped " << grouped(c.count) << ": " << c.what << "\n";
  for (const std::string& p : problems) out << "  skipped: " << p << "\n";
  for (const Count& c : notes) out << "  note: " << c.what << ": " << grouped(c.count) << "\n";
  if (!length_histogram.empty()) {
    out << "samples by number of tokens\n";
    print_histogram(out, length_histogram);
  }
  return out.str();
}

}  // namespace glmtune::data
