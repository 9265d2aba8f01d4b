#include "train/verify_report.h"

#include <gtest/gtest.h>

#include <limits>

#include "io/json.h"

namespace glmtune::train {
namespace {

TEST(VerifyReport, IsJsonWhereNumbersAreNotFinite) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  constexpr double kInf = std::numeric_limits<double>::infinity();
  VerifyReport report;
  report.loss = {.got = kNaN, .want = 1.5, .rel = kNaN};
  report.logits = {
      .error = {.name = "logits", .rel_l2 = kInf, .max_abs = kNaN}, .top1 = 0.5, .kl = kNaN};
  report.hidden = {{.name = "hidden.0", .rel_l2 = kNaN, .max_abs = kNaN}};
  report.grads = {{.name = "grad.a", .rel_l2 = kInf, .max_abs = kInf}};
  const io::Value json = io::parse_json(report.json(), "report");
  EXPECT_FALSE(json.find("ok")->as_bool());
  EXPECT_TRUE(json.find("loss")->find("got")->is_null());
  EXPECT_EQ(json.find("loss")->find("want")->as_double(), 1.5);
  EXPECT_TRUE(json.find("logits")->find("rel_l2")->is_null());
  EXPECT_EQ(json.find("logits")->find("top1")->as_double(), 0.5);
  EXPECT_TRUE(json.find("hidden")->find("max_rel_l2")->is_null());
  EXPECT_TRUE(json.find("grads")->find("max_rel_l2")->is_null());
  EXPECT_EQ(json.find("grads")->find("worst")->as_string(), "grad.a");
}

}  // namespace
}  // namespace glmtune::train
