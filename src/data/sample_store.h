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
  // Throws Error when a label is neither the next id nor kNoLabel.
  void add(const Sample& sample, std::int64_t row);
  std::int64_t size() const { return static_cast<std::int64_t>(rows_.size()); }
  std::int64_t tokens() const { return offsets_.back(); }
  std::int64_t length(std::int64_t i) const {
    return offsets_[static_cast<std::size_t>(i) + 1] - offsets_[static_cast<std::size_t>(i)];
  }
  std::int64_t row(std::int64_t i) const { return rows_[static_cast<std::size_t>(i)]; }
  void append_to(Pack& pack, std::int64_t i) const;
  void add_to(ContentHash& hash) const;

 private:
  std::vector<std::int32_t> ids_;
  std::vector<bool> labelled_;
  std::vector<std::int64_t> offsets_{0};
  std::vector<std::int32_t> last_labels_;
  std::vector<std::int64_t> rows_;
};

}  // namespace glmtune::data
