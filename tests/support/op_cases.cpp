#include "support/op_cases.h"

namespace glmtune::test {

std::vector<OpCase> all_op_cases(Sizes sizes) {
  std::vector<OpCase> all;
  for (const auto family : {elementwise_cases, matmul_cases, norm_cases, rope_cases, swiglu_cases,
                            embedding_cases, cross_entropy_cases, router_cases, rows_cases,
                            optimizer_cases, indexer_cases, attention_cases})
    for (OpCase& c : family(sizes)) all.push_back(std::move(c));
  return all;
}

}  // namespace glmtune::test
