#pragma once
// Reference files of `glmtune verify` (docs/architecture.md): a safetensors file with input_ids and
// any of labels, shifted_labels, cu_seqlens, logits, loss, hidden.N, grad.<parameter>, selection.N,
// experts.N.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/pack.h"
#include "io/safetensors.h"
#include "train/engine.h"

namespace glmtune::train {

class Reference {
 public:
  // Reads the token part and checks that shapes fit together; the rest is read on demand.
  explicit Reference(const std::string& path);

  // All rows as one packed row: [B, S] becomes B documents, [T] one, or what cu_seqlens says.
  RowInput row() const { return {rows_.ids, rows_.labels, rows_.bounds}; }
  std::int64_t tokens() const { return rows_.tokens(); }
  std::int64_t label_tokens() const { return rows_.label_tokens(); }

  bool has(const std::string& name) const { return file_.find(name) != nullptr; }
  // Values as doubles; throws when the element count is another.
  std::vector<double> values(const std::string& name, std::int64_t count) const;
  void expect_count(const std::string& name, std::int64_t count) const;
  // A part of them, `first` and `n` in elements, of a tensor that has() is true for.
  void read(const std::string& name, std::int64_t first, std::int64_t n, double* out) const;
  std::optional<double> loss() const;
  // Rows of integers, [T, K] or [B, S, K]: the keys or experts chosen for each token, each below
  // `limit`; a negative one stands for nothing.
  struct Choices {
    std::vector<std::int32_t> values;
    std::int64_t width = 0;
  };
  Choices choices(const std::string& name, std::int64_t limit) const;
  // Names that begin with `prefix`, without it.
  std::vector<std::string> names(const std::string& prefix) const;

 private:
  io::SafetensorsFile file_;
  data::Pack rows_;
};

}  // namespace glmtune::train
