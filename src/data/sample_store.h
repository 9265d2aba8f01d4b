#pragma once
// SampleStore: all kept samples of a data set in memory, 4 bytes and one bit a token. A label is
// the next id or nothing, except a document's last one, which is kept apart.
#include <cstdint>
#include <string>
#include <vector>

#include "data/hash.h"
#include "data/pack.h"
#include "data/sample.h"

namespace glmtune::data {

class SampleStore {
 public:
  struct Arrays {
    std::vector<std::int32_t> ids;
    std::vector<std::uint64_t> labelled;    // bit t % 64 of word t / 64
    std::vector<std::int64_t> offsets{0};   // sample i: ids[offsets[i] .. offsets[i + 1])
    std::vector<std::int32_t> last_labels;  // per sample
    std::vector<std::int64_t> rows;         // per sample: the row it was made from
  };

  SampleStore() = default;
  // Throws Error when the arrays do not fit each other.
  explicit SampleStore(Arrays arrays);

  // Throws Error when a label is neither the next id nor kNoLabel.
  void add(const Sample& sample, std::int64_t row);
  std::int64_t size() const { return static_cast<std::int64_t>(arrays_.rows.size()); }
  std::int64_t length(std::int64_t i) const {
    return arrays_.offsets[static_cast<std::size_t>(i) + 1] -
           arrays_.offsets[static_cast<std::size_t>(i)];
  }
  std::int64_t row(std::int64_t i) const { return arrays_.rows[static_cast<std::size_t>(i)]; }
  void append_to(Pack& pack, std::int64_t i) const;
  void add_to(ContentHash& hash) const;
  const Arrays& arrays() const { return arrays_; }

 private:
  bool labelled(std::size_t t) const { return (arrays_.labelled[t / 64] >> (t % 64) & 1U) != 0; }

  Arrays arrays_;
};

}  // namespace glmtune::data
