#pragma once
// The comparisons of `glmtune verify` that are more than a norm of a difference.
#include <functional>

#include "train/reference.h"
#include "train/verify_report.h"

namespace glmtune::train {

// z [T, V] on the CPU against the reference's `logits`, row block by row block: neither side is
// ever held as doubles as a whole.
VerifyReport::Logits compare_logits(Tensor z, const Reference& reference);

// Rows whose choices count, each with the test whether a value was chosen for it.
struct ChosenRow {
  std::int64_t row = 0;  // in the reference
  std::function<bool(std::int32_t)> chosen;
};
// Negative values in the reference stand for nothing; a row without any is left out.
VerifyReport::Overlap compare_choices(const std::string& name, const std::vector<ChosenRow>& rows,
                                      const Reference::Choices& want);

}  // namespace glmtune::train
