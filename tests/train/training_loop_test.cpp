// The loop on packs made by hand: batches without labels, accumulation, gradients that are not
// finite.
#include "train/training_loop.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <span>
#include <thread>

#include "base/cat.h"
#include "models/glm_moe_dsa.h"
#include "support/tiny_model.h"

namespace glmtune::train {
namespace {

class HandMadePacks : public data::PackSource {
 public:
  explicit HandMadePacks(std::vector<data::Pack> packs) : packs_(std::move(packs)) {}
  std::optional<std::int64_t> size() const override {
    return static_cast<std::int64_t>(packs_.size());
  }
  data::Pack pack(std::int64_t number) const override {
    return packs_[static_cast<std::size_t>(number)];
  }
  std::int64_t max_tokens() const override { return 32; }
  std::string fingerprint() const override { return "hand"; }
  const data::DataSummary& summary() const override { return summary_; }
  std::string where(std::int64_t, std::int64_t) const override { return "test"; }

 private:
  std::vector<data::Pack> packs_;
  data::DataSummary summary_;
};

data::Pack pack(std::int32_t length, std::uint64_t seed, bool labelled = true) {
  const test::TinyRow row = test::random_row({length, 3}, 19, seed);
  data::Pack p{.ids = row.ids, .labels = row.labels, .bounds = row.cu_seqlens};
  if (!labelled) std::fill(p.labels.begin(), p.labels.end(), data::kNoLabel);
  return p;
}

bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

// What on_step and on_message saw, and the final parameters.
struct Outcome {
  ExitCode code = ExitCode::kOk;
  std::vector<StepResult> steps;
  std::vector<std::string> messages;
  std::vector<double> parameters;
  std::vector<std::string> events;  // validation and saves, in order, with their steps
};

struct Poison {
  double value = 0;
  std::string parameter = "model.layers.1.self_attn.o_proj.weight";
  std::int64_t element = 0;
};

struct Training {
  Training(std::vector<data::Pack> packs, std::int64_t global, std::int64_t local,
           NonfinitePolicy policy = NonfinitePolicy::kStop, const Poison& poison = {})
      : source(std::move(packs)),
        sampler(source.size(),
                {.global_batch_size = global, .seed = 1, .shuffle = false, .drop_last = false}),
        engine(models::make_model(test::tiny_config(), DType::kF64, 1e-5), {.gradients = true}) {
    recipe.step_scheduler.global_batch_size = global;
    recipe.step_scheduler.local_batch_size = local;
    recipe.step_scheduler.num_epochs = 1;
    recipe.step_scheduler.ckpt_every_steps = 1000;
    recipe.step_scheduler.save_checkpoint_every_epoch = false;
    recipe.nonfinite_policy = policy;
    recipe.optimizer.lr = 0.01;
    test::randomize(engine.model(), 3);
    if (poison.value != 0)
      engine.model().visit_parameters([&](nn::Parameter& p) {
        if (p.name == poison.parameter) p.value.as<double>()[poison.element] = poison.value;
      });
  }

  // late: numbers arrive when the next step is under way.
  void loop(bool late) {
    Optimizer optimizer(engine.model(), recipe.optimizer, 1, Device::kCpu);
    const StepScheduler scheduler(recipe.step_scheduler, 1, sampler.steps_per_epoch());
    const LrSchedule schedule(recipe.optimizer.lr, 0);
    TrainingPosition position;
    const auto note = [&](const std::string& what, std::int64_t step) {
      outcome.events.push_back(cat(what, " ", step));
      std::this_thread::sleep_for(std::chrono::milliseconds(pause_ms));
      if (outcome.events.back() == signal_at) stop = 15;
    };
    outcome.code = run_loop(
        {.engine = engine,
         .optimizer = optimizer,
         .source = source,
         .sampler = sampler,
         .validation = validation,
         .scheduler = scheduler,
         .lr_schedule = schedule,
         .recipe = recipe,
         .stop_signal = &stop,
         .on_step =
             [&](const StepResult& r) {
               outcome.steps.push_back(r);
               if (cat("step ", r.step) == signal_at) stop = 15;
             },
         .on_validation = [&](const ValidationResult& v) { note(v.name, v.step); },
         .on_message = [&](const std::string& m) { outcome.messages.push_back(m); },
         .count_flops = {},
         .save = [&](std::int64_t, const StepResult& r, const std::vector<ValidationResult>& v,
                     bool) { note(cat("save with ", v.size()), r.step); },
         .add_validation =
             [&](const StepResult& r, const std::vector<ValidationResult>& v) {
               note(cat("add ", v.size()), r.step);
             },
         .numbers_come_late = late},
        position);
    outcome.parameters = parameters();
  }

  std::vector<double> parameters() {
    std::vector<double> list;
    engine.model().visit_parameters([&](nn::Parameter& p) {
      if (p.value.dtype == DType::kF64)
        list.insert(list.end(), p.value.as<double>(), p.value.as<double>() + p.value.count());
    });
    return list;
  }

  Recipe recipe;
  std::vector<ValidationSet> validation;
  std::string signal_at;  // "step 3", or an event: when a signal comes
  std::atomic<int> stop{0};
  int pause_ms = 0;  // that validation and saves take at least
  HandMadePacks source;
  data::PackSampler sampler;
  Engine engine;
  Outcome outcome;
};

// One epoch over `packs`, `global` a step; with numbers that arrive at once and with such that come
// when the next step is under way: nothing may differ.
Outcome run(const std::vector<data::Pack>& packs, std::int64_t global, std::int64_t local,
            NonfinitePolicy policy = NonfinitePolicy::kStop, const Poison& poison = {}) {
  Training first(packs, global, local, policy, poison),
      second(packs, global, local, policy, poison);
  first.loop(false);
  second.loop(true);
  const Outcome &at_once = first.outcome, &late = second.outcome;
  EXPECT_EQ(at_once.code, late.code);
  EXPECT_EQ(at_once.messages, late.messages);
  EXPECT_TRUE(same_bits(at_once.parameters, late.parameters));
  EXPECT_EQ(at_once.steps.size(), late.steps.size());
  for (std::size_t i = 0; i < std::min(at_once.steps.size(), late.steps.size()); ++i) {
    const StepResult &a = at_once.steps[i], &b = late.steps[i];
    EXPECT_EQ(a.step, b.step);
    EXPECT_EQ(a.applied, b.applied);
    EXPECT_EQ(a.loss.has_value(), b.loss.has_value());
    if (a.applied) {
      EXPECT_EQ(*a.loss, *b.loss);
      EXPECT_EQ(a.grad_norm, b.grad_norm);
    }
  }
  return at_once;
}

// recipes.md section 5, 13, and section 8, row 24.
TEST(TrainingLoop, BatchWithoutLabelsLeavesTheWeightsAndLogsNoLoss) {
  const Outcome with = run({pack(9, 1), pack(7, 2, false)}, 1, 1);
  const Outcome alone = run({pack(9, 1)}, 1, 1);
  ASSERT_EQ(with.steps.size(), 2U);
  EXPECT_FALSE(with.steps[1].loss.has_value());
  EXPECT_FALSE(with.steps[1].applied);
  EXPECT_EQ(with.steps[1].label_tokens, 0);
  EXPECT_EQ(with.parameters, alone.parameters);
  ASSERT_EQ(with.messages.size(), 1U);
  EXPECT_NE(with.messages[0].find("no token"), std::string::npos);
}

// recipes.md section 5, 12: the same packs in other micro-batches give the same step.
// user_reports.md 28, as far as one rank goes.
TEST(TrainingLoop, AccumulationDoesNotChangeTheStep) {
  const std::vector<data::Pack> packs{pack(9, 1), pack(4, 2), pack(12, 3, false), pack(6, 4)};
  const Outcome one = run(packs, 4, 4), four = run(packs, 4, 1), two = run(packs, 4, 2);
  for (const Outcome* other : {&four, &two}) {
    EXPECT_NEAR(*other->steps[0].loss, *one.steps[0].loss, 1e-12);
    EXPECT_NEAR(other->steps[0].grad_norm, one.steps[0].grad_norm, 1e-10);
    // Adam's first step is lr · g / (|g| + eps): it turns the rounding of a gradient near eps,
    // 1e-8, into one a million times as large.
    for (std::size_t i = 0; i < one.parameters.size(); ++i)
      EXPECT_NEAR(other->parameters[i], one.parameters[i], 1e-8);
  }
}

// The loop's steps by hand, with gradients that are filled with zeros and added to.
std::vector<double> steps_from_zeros(const std::vector<data::Pack>& packs, std::int64_t global) {
  Training by_hand(packs, global, 1);
  Engine& engine = by_hand.engine;
  Optimizer optimizer(engine.model(), by_hand.recipe.optimizer, 1, Device::kCpu);
  for (std::size_t begin = 0; begin < packs.size(); begin += static_cast<std::size_t>(global)) {
    const std::span batch = std::span(packs).subspan(begin, static_cast<std::size_t>(global));
    std::int64_t labels = 0;
    for (const data::Pack& p : batch) labels += p.label_tokens();
    engine.parameters().zero_gradients();
    for (const data::Pack& p : batch)
      engine.run({.ids = p.ids, .labels = p.labels, .cu_seqlens = p.bounds},
                 {.backward = true, .grad_scale = 1.0 / static_cast<double>(labels)});
    optimizer.gradient_norm(engine.context(), by_hand.recipe.max_grad_norm);
    optimizer.update(engine.context(), by_hand.recipe.optimizer.lr, 0,
                     1 + static_cast<std::int64_t>(begin) / global);
  }
  return by_hand.parameters();
}

TEST(TrainingLoop, StepsAreThoseOfGradientsThatStartAsZeros) {
  // The sixth has one token: experts without rows, in a step's first backward and in a later one.
  std::vector<data::Pack> packs;
  for (std::int32_t i = 0; i < 6; ++i) packs.push_back(pack(4 + 3 * i, static_cast<unsigned>(i)));
  packs[3].labels.assign(packs[3].labels.size(), data::kNoLabel);
  packs[5] = {.ids = {3}, .labels = {7}, .bounds = {0, 1}};
  for (const std::int64_t global : {1, 3}) {
    std::vector<data::Pack> used = packs;
    if (global == 1) used.erase(used.begin() + 3);  // a batch without labels is no step
    EXPECT_TRUE(same_bits(run(used, global, 1).parameters, steps_from_zeros(used, global)));
  }
}

// user_reports.md 27: the mean is over the label tokens of the batch, not a mean of means.
TEST(TrainingLoop, TheLossIsAMeanOverLabelTokensNotOfMeans) {
  data::Pack three = pack(8, 1, false), one = pack(8, 2, false);
  for (const std::size_t t : {0U, 1U, 2U}) three.labels[t] = three.ids[t + 1];
  one.labels[4] = one.ids[5];
  const double mean = *run({three}, 1, 1).steps[0].loss, single = *run({one}, 1, 1).steps[0].loss;
  EXPECT_NEAR(*run({three, one}, 2, 1).steps[0].loss, (3 * mean + single) / 4, 1e-12);
}

// user_reports.md 29: uneven batches weigh in by their label tokens.
TEST(TrainingLoop, TheValidationLossDoesNotDependOnTheBatchSize) {
  std::vector<data::Pack> packs;
  for (std::int32_t i = 0; i < 5; ++i) packs.push_back(pack(4 + 3 * i, static_cast<unsigned>(i)));
  Training training(packs, 1, 1);
  const ValidationSet set{.name = "v", .source = std::make_unique<HandMadePacks>(packs)};
  const ValidationResult two = evaluate(training.engine, set, 2).value();
  const ValidationResult five = evaluate(training.engine, set, 5).value();
  EXPECT_EQ(two.label_tokens, five.label_tokens);
  EXPECT_NEAR(two.loss, five.loss, 1e-12);
}

// What validation and saves there are where a signal comes: three steps, two validation sets after
// each, a checkpoint after the last.
std::vector<std::string> events_with_a_signal(const std::string& at, bool late, ExitCode code) {
  const std::vector<data::Pack> packs{pack(5, 1), pack(6, 2), pack(7, 3)};
  Training training(packs, 1, 1);
  training.recipe.step_scheduler.val_every_steps = 1;
  for (const char* name : {"a", "b"})
    training.validation.push_back({.name = name, .source = std::make_unique<HandMadePacks>(packs)});
  training.signal_at = at;
  training.loop(late);
  EXPECT_EQ(training.outcome.code, code) << at;
  return training.outcome.events;
}

// user_reports 85; recipes.md 1.4: a stop saves at once.
TEST(TrainingLoop, ASignalPutsTheCheckpointBeforeTheValidationThatIsDue) {
  using Events = std::vector<std::string>;
  for (const bool late : {false, true}) {
    const auto events = [&](const std::string& at, ExitCode code) {
      return events_with_a_signal(at, late, code);
    };
    EXPECT_EQ(events("", ExitCode::kOk),
              (Events{"a 0", "b 0", "a 1", "b 1", "a 2", "b 2", "save with 2 2"}));
    EXPECT_EQ(events("step 1", ExitCode::kPreempted), (Events{"a 0", "b 0", "save with 0 1"}));
    EXPECT_EQ(events("a 1", ExitCode::kPreempted), (Events{"a 0", "b 0", "a 1", "save with 1 1"}));
    // The last step's validation is not lost.
    const Events before{"a 0", "b 0", "a 1", "b 1"};
    const auto then = [&](Events rest) {
      rest.insert(rest.begin(), before.begin(), before.end());
      return rest;
    };
    EXPECT_EQ(events("step 2", ExitCode::kOk), then({"save with 0 2", "a 2", "b 2", "add 2 2"}));
    EXPECT_EQ(events("a 2", ExitCode::kOk), then({"a 2", "save with 1 2", "b 2", "add 2 2"}));
    EXPECT_EQ(events("b 2", ExitCode::kOk), then({"a 2", "b 2", "save with 2 2"}));
  }
}

// recipes.md 2.4: AutoModel's time of a step has what was done since the one before.
TEST(TrainingLoop, ValidationCountsToTheNextStepsTimeInAllAndNotToItsOwn) {
  for (const bool late : {false, true}) {
    const std::vector<data::Pack> packs{pack(5, 1), pack(6, 2), pack(7, 3), pack(4, 4)};
    Training training(packs, 1, 1);
    training.recipe.step_scheduler.val_every_steps = 2;  // after step 1
    training.validation.push_back({.name = "a", .source = std::make_unique<HandMadePacks>(packs)});
    training.pause_ms = 40;
    training.loop(late);
    ASSERT_EQ(training.outcome.steps.size(), 4U);
    for (const StepResult& r : training.outcome.steps) {
      const double between = r.seconds_in_all - r.seconds;
      if (r.step == 2)
        EXPECT_GE(between, 0.04);
      else
        EXPECT_EQ(between, 0) << r.step;
    }
  }
}

TEST(TrainingLoop, LastBatchOfAnEpochIsDividedByItsOwnLabels) {
  // Without labels the first batch leaves the weights, so that the second stands alone.
  const Outcome o = run({pack(9, 1, false), pack(4, 2, false), pack(6, 3)}, 2, 1);
  const Outcome alone = run({pack(6, 3)}, 1, 1);
  ASSERT_EQ(o.steps.size(), 2U);
  EXPECT_EQ(o.steps[1].label_tokens, pack(6, 3).label_tokens());
  EXPECT_EQ(*o.steps[1].loss, *alone.steps[0].loss);
  EXPECT_EQ(o.steps[1].grad_norm, alone.steps[0].grad_norm);
}

TEST(TrainingLoop, NonfiniteStopsBeforeTheStepAndNamesATensor) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Outcome o = run({pack(9, 1), pack(5, 2)}, 1, 1, NonfinitePolicy::kStop, {.value = nan});
  EXPECT_EQ(o.code, ExitCode::kNonFinite);
  EXPECT_EQ(o.steps.size(), 1U);
  ASSERT_FALSE(o.messages.empty());
  EXPECT_NE(o.messages[0].find("parameter model.layers.1.self_attn.o_proj.weight"),
            std::string::npos)
      << o.messages[0];
}

TEST(TrainingLoop, ANegativeNanIsCalledNan) {
  const double nan = -std::numeric_limits<double>::quiet_NaN();
  const Outcome o = run({pack(9, 1)}, 1, 1, NonfinitePolicy::kStop, {.value = nan});
  ASSERT_FALSE(o.messages.empty());
  EXPECT_NE(o.messages[0].find("rank 0: loss nan, gradient norm nan: not finite"),
            std::string::npos)
      << o.messages[0];
}

TEST(TrainingLoop, NonfiniteSkipPolicyGoesOnWithTheWeightsUnchanged) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Outcome o = run({pack(9, 1), pack(5, 2)}, 1, 1, NonfinitePolicy::kSkip, {.value = nan});
  EXPECT_EQ(o.code, ExitCode::kOk);
  ASSERT_EQ(o.steps.size(), 2U);
  EXPECT_FALSE(o.steps[1].applied);
  EXPECT_NE(o.messages[1].find("(2 so far)"), std::string::npos) << o.messages[1];
}

// The step is left out, its neighbours are not, and Adam counts the steps that were applied.
TEST(TrainingLoop, StepsAroundOneThatIsLeftOutAreThoseOfARunWithoutIt) {
  static constexpr std::int32_t kBroken = 18;  // its embedding is infinite
  const auto whole = [](std::uint64_t seed) {
    data::Pack p = pack(9, seed);
    std::replace(p.ids.begin(), p.ids.end(), kBroken, 17);
    return p;
  };
  data::Pack broken = whole(2);
  broken.ids[3] = kBroken;
  const double inf = std::numeric_limits<double>::infinity();
  const auto losses = [&](const std::vector<data::Pack>& packs) {
    return run(packs, 1, 1, NonfinitePolicy::kSkip,
               {.value = inf,
                .parameter = "model.embed_tokens.weight",
                .element = kBroken * test::tiny_config().hidden_size});
  };
  const Outcome with = losses({whole(1), broken, whole(3), whole(4)});
  const Outcome without = losses({whole(1), whole(3), whole(4)});
  ASSERT_EQ(with.steps.size(), 4U);
  EXPECT_TRUE(with.steps[0].applied);
  EXPECT_FALSE(with.steps[1].applied);
  EXPECT_EQ(*with.steps[2].loss, *without.steps[1].loss);
  EXPECT_EQ(*with.steps[3].loss, *without.steps[2].loss);
  EXPECT_TRUE(same_bits(with.parameters, without.parameters));
  ASSERT_EQ(with.messages.size(), 1U);
  EXPECT_NE(with.messages[0].find("model.embed_tokens.weight"), std::string::npos);
}

TEST(TrainingLoop, TheStepBeforeAnErrorIsWrittenDown) {
  for (const bool late : {false, true}) {
    data::Pack outside = pack(5, 2);
    outside.ids[0] = 1000;  // no such token
    Training training({pack(9, 1), outside}, 1, 1);
    EXPECT_THROW(training.loop(late), Error);
    EXPECT_EQ(training.outcome.steps.size(), 1U);
  }
}

}  // namespace
}  // namespace glmtune::train
