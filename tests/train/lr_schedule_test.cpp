#include "train/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"

namespace glmtune::train {
namespace {

TEST(LrSchedule, IsConstantWithoutASection) {
  const LrSchedule schedule(1e-5, 0.1);
  for (const int step : {0, 1, 1000000}) {
    EXPECT_EQ(schedule.learning_rate(step), 1e-5);
    EXPECT_EQ(schedule.weight_decay(step), 0.1);
  }
}

TEST(LrSchedule, WarmsUpFromATenthOverATenthOfTheRun) {
  const LrSchedule schedule(LrScheduleSettings{}, 1.0, 0, 100);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(5), 0.55);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(10), 1.0);
}

TEST(LrSchedule, WarmUpIsAtMostAThousandSteps) {
  const LrSchedule schedule(LrScheduleSettings{}, 1.0, 0, 1000000);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1000), 1.0);
  EXPECT_LT(schedule.learning_rate(999), 1.0);
}

TEST(LrSchedule, CosineFallsToAHundredthAndStaysThere) {
  LrScheduleSettings settings;
  settings.warmup_steps = 0;
  const LrSchedule schedule(settings, 1.0, 0, 100);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0), 1.0);
  EXPECT_NEAR(schedule.learning_rate(50), 0.505, 1e-12);
  EXPECT_NEAR(schedule.learning_rate(100), 0.01, 1e-12);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(101), 0.01);
}

TEST(LrSchedule, LinearFallsEvenlyAfterTheWarmUp) {
  LrScheduleSettings settings;
  settings.decay_style = DecayStyle::kLinear;
  settings.warmup_steps = 10;
  settings.min_lr = 0;
  const LrSchedule schedule(settings, 1.0, 0, 110);
  EXPECT_NEAR(schedule.learning_rate(60), 0.5, 1e-12);
  EXPECT_NEAR(schedule.learning_rate(110), 0, 1e-12);
}

TEST(LrSchedule, ConstantStyleStaysAtTheTopPastTheDecay) {
  LrScheduleSettings settings;
  settings.decay_style = DecayStyle::kConstant;
  settings.warmup_steps = 0;
  settings.min_lr = 2e-5;
  const LrSchedule schedule(settings, 1e-4, 0, 20);
  for (const int step : {0, 10, 20, 500}) EXPECT_DOUBLE_EQ(schedule.learning_rate(step), 1e-4);
}

TEST(LrSchedule, InverseSquareRootFollowsTheWarmUp) {
  LrScheduleSettings settings;
  settings.decay_style = DecayStyle::kInverseSquareRoot;
  settings.warmup_steps = 100;
  const LrSchedule schedule(settings, 1.0, 0, 100000);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(400), 0.5);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(99999999), 0.01);
}

TEST(LrSchedule, WsdHoldsThenDecays) {
  LrScheduleSettings settings;
  settings.decay_style = DecayStyle::kWsd;
  settings.warmup_steps = 0;
  settings.min_lr = 0;
  settings.wsd_decay_steps = 20;
  const struct {
    WsdDecayStyle style;
    double half;
  } cases[] = {{WsdDecayStyle::kLinear, 0.5},
               {WsdDecayStyle::kCosine, 0.5},
               {WsdDecayStyle::kExponential, 2 * std::sqrt(0.5) - 1},
               {WsdDecayStyle::kMinusSqrt, 1 - std::sqrt(0.5)}};
  for (const auto& c : cases) {
    settings.wsd_decay_style = c.style;
    const LrSchedule schedule(settings, 1.0, 0, 100);
    EXPECT_DOUBLE_EQ(schedule.learning_rate(80), 1.0);
    EXPECT_NEAR(schedule.learning_rate(90), c.half, 1e-12);
    EXPECT_NEAR(schedule.learning_rate(100), 0, 1e-12);
  }
}

TEST(LrSchedule, WeightDecayRisesWhenAsked) {
  LrScheduleSettings settings;
  settings.start_weight_decay = 0;
  settings.end_weight_decay = 0.1;
  settings.weight_decay_style = DecayStyle::kLinear;
  const LrSchedule linear(settings, 1.0, 0.1, 100);
  EXPECT_DOUBLE_EQ(linear.weight_decay(0), 0);
  EXPECT_DOUBLE_EQ(linear.weight_decay(50), 0.05);
  EXPECT_DOUBLE_EQ(linear.weight_decay(101), 0.1);
  settings.weight_decay_style = DecayStyle::kCosine;
  const LrSchedule cosine(settings, 1.0, 0.1, 100);
  EXPECT_NEAR(cosine.weight_decay(50), 0.05, 1e-12);
  EXPECT_NEAR(cosine.weight_decay(100), 0.1, 1e-12);
}

TEST(LrSchedule, RefusesContradictionsByKey) {
  const auto message = [](LrScheduleSettings settings) {
    try {
      LrSchedule(settings, 1.0, 0.1, 100);
    } catch (const Error& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  LrScheduleSettings settings;
  settings.min_lr = 2;
  EXPECT_EQ(message(settings), "lr_scheduler.min_lr: 2 is above max_lr 1");
  settings = {};
  settings.warmup_steps = 100;
  EXPECT_NE(message(settings).find("lr_scheduler.lr_warmup_steps: 100"), std::string::npos);
  settings = {};
  settings.decay_style = DecayStyle::kWsd;
  EXPECT_NE(message(settings).find("lr_scheduler.wsd_decay_steps"), std::string::npos);
  settings = {};
  settings.end_weight_decay = 0.2;
  EXPECT_NE(message(settings).find("lr_scheduler.wd_incr_style"), std::string::npos);
}

}  // namespace
}  // namespace glmtune::train
