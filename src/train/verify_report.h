#pragma once
// What `glmtune verify` found, and how it is shown.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace glmtune::train {

// got against want: ‖got − want‖ / ‖want‖ (‖got‖ where want is zero) and the largest |got − want|.
struct TensorError {
  std::string name;
  double rel_l2 = 0, max_abs = 0;
};
// ‖error‖ / ‖norm‖ from sums of squares; ‖got‖ where the norm is zero.
double relative(double error, double norm, double got_norm);
TensorError compare(std::string name, const std::vector<double>& got,
                    const std::vector<double>& want);

struct VerifyReport {
  double tolerance = 0;
  struct Loss {
    double got = 0, want = 0, rel = 0;
  };
  struct Logits {
    TensorError error;
    double top1 = 0;  // share of rows whose largest logit is the same token
    double kl = 0;    // mean KL(reference ‖ ours) per row, nats
  };
  // Of one layer's choices, over the rows that have a choice: documents' rows that see more than
  // index_topk keys, and every row where experts are chosen.
  struct Overlap {
    std::string name;
    std::int64_t rows = 0;
    double mean = 0;       // of |ours ∩ reference| / |reference|
    double same_rows = 0;  // share of rows whose sets are equal
  };
  std::optional<Loss> loss;
  std::optional<Logits> logits;
  std::vector<TensorError> hidden, grads;
  std::vector<Overlap> selections, experts;  // reported, not judged: rounding moves choices

  // Limits of design: logits and hidden states X, loss X/5, each gradient 3X. NaN fails.
  bool ok() const;
  std::string text() const;  // a table for people
  std::string json() const;  // one object, one line
};

}  // namespace glmtune::train
