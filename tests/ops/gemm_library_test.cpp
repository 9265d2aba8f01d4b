// The library's products against our own kernel, on any machine.
#include "ops/gemm_library.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace glmtune::ops {
namespace {

TEST(LibraryGemm, AgreesWithTheOwnKernel) {
  std::mt19937 rng(1);
  std::normal_distribution<float> normal;
  struct Size {
    std::int64_t M, N, K;
  };
  for (const Size s :
       {Size{1, 1, 1}, Size{7, 1, 9}, Size{1, 13, 5}, Size{33, 17, 65}, Size{64, 96, 128}})
    for (const bool trans_a : {false, true})
      for (const bool trans_b : {false, true})
        for (const double beta : {0.0, 1.0, 0.5}) {
          std::vector<float> a(static_cast<std::size_t>(s.M * s.K) + 1),
              b(static_cast<std::size_t>(s.N * s.K) + 1), c(static_cast<std::size_t>(s.M * s.N));
          for (auto* v : {&a, &b, &c})
            for (float& x : *v) x = normal(rng);
          std::vector<float> own(c.size(), NAN), library(c.size(), NAN);
          Gemm<float, float> g{.M = s.M, .N = s.N, .K = s.K};
          g.a = a.data();
          g.a_row = trans_a ? 1 : s.K;
          g.a_column = trans_a ? s.M : 1;
          g.b = b.data();
          g.b_row = trans_b ? 1 : s.N;
          g.b_column = trans_b ? s.K : 1;
          g.out_row = g.c_row = s.N;
          g.c = c.data();
          g.alpha = 0.75;
          g.beta = beta;
          g.out = own.data();
          gemm(g);  // by the library itself where it is the faster one
          g.out = library.data();
          library_gemm(g);
          for (std::size_t i = 0; i < c.size(); ++i)
            ASSERT_NEAR(own[i], library[i], 1e-5 * std::sqrt(1.0 + static_cast<double>(s.K)));
        }
}

}  // namespace
}  // namespace glmtune::ops
