#include "train/resume.h"

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <string_view>

#include "base/cat.h"
#include "base/error.h"

namespace glmtune::train {
namespace {

struct Change {
  std::string key, there, here;
};

std::string text_of(const io::Value* value) {
  if (value == nullptr || value->is_null()) return "not set";
  return value->is_string() ? value->as_string() : io::to_json(*value);
}

bool same(const io::Value* a, const io::Value* b) {
  if (a == nullptr || b == nullptr)
    return (a == nullptr || a->is_null()) && (b == nullptr || b->is_null());
  // A whole number comes back from JSON as an integer.
  if (a->is_number() && b->is_number()) return a->as_double() == b->as_double();
  return *a == *b || text_of(a) == text_of(b);
}

// Keys with different values, by the first run's order; none where either run has no settings.
std::vector<Change> changes(const io::Value& there, const io::Value& here) {
  std::vector<Change> list;
  if (!there.is_object() || !here.is_object()) return list;
  for (const auto& [key, value] : there.as_object())
    if (const io::Value* now = here.find(key); !same(&value, now))
      list.push_back({key, text_of(&value), text_of(now)});
  for (const auto& [key, value] : here.as_object())
    if (there.find(key) == nullptr && !same(nullptr, &value))
      list.push_back({key, text_of(nullptr), text_of(&value)});
  return list;
}

void add(std::string& list, const std::string& item) {
  list += cat(list.empty() ? "" : ", ", item);
}

std::string both(const std::string& key, const std::string& there, const std::string& here) {
  return cat(key, " is ", there, " there and ", here, " here");
}

// The changes below the sections; `otherwise` when there are none.
std::string named(const std::vector<Change>& changes, std::initializer_list<std::string_view> below,
                  const std::string& otherwise) {
  std::string list;
  for (const Change& c : changes)
    for (const std::string_view section : below)
      if (c.key.starts_with(section)) add(list, both(c.key, c.there, c.here));
  return list.empty() ? otherwise : list;
}

}  // namespace

std::string difference(const TrainingPosition& saved, const TrainingPosition& now) {
  const std::vector<Change> all = changes(saved.settings, now.settings);
  std::string list;
  if (saved.seed != now.seed)
    add(list, both("seed", std::to_string(saved.seed), std::to_string(now.seed)));
  if (!now.model_signature.empty() && saved.model_signature != now.model_signature)
    add(list, named(all, {"model."},
                    saved.model_signature.starts_with(kSignatureVersion)
                        ? "the model's parameters, dtypes or frozen weights are others"
                        : "its model has the signature of an earlier version of this program"));
  // One that renders these rows alike may render others differently, and is saved with the model.
  const bool other_template = !saved.template_sha256.empty() && !now.template_sha256.empty() &&
                              saved.template_sha256 != now.template_sha256;
  if (other_template)
    add(list, cat("the chat template is another one (sha256 ", saved.template_sha256.substr(0, 12),
                  "... there, ", now.template_sha256.substr(0, 12), "... here)"));
  if (saved.data_fingerprint != now.data_fingerprint) {
    // Packs are made in seeded order: another seed alone makes other ones.
    const std::string keys = named(all, {"dataset.", "packed_sequence."}, "");
    if (!keys.empty())
      add(list, keys);
    else if (saved.seed == now.seed && !other_template)
      add(list, cat("the contents of the data",
                    saved.template_sha256 == now.template_sha256
                        ? " or the tokenizer have changed"
                        : ", the tokenizer or the chat template have changed",
                    now.template_sha256.empty()
                        ? ""
                        : "; a chat template that writes the day (strftime_now) makes other data "
                          "on another day: pin it from the first run on with "
                          "dataset.chat_template_kwargs.strftime_now"));
  }
  for (const Change& c : all)  // an early version has it where the recipe says it only
    if (c.key == "dataloader.shuffle" && c.there != text_of(nullptr))
      add(list, both(c.key, c.there, c.here));
  return list;
}

std::string changed_settings(const TrainingPosition& saved, const TrainingPosition& now) {
  std::string list;
  for (const Change& c : changes(saved.settings, now.settings))
    if (!c.key.starts_with("checkpoint.")) add(list, cat(c.key, " ", c.there, " -> ", c.here));
  return list;
}

std::string changed_rate(const TrainingPosition& saved, double now) {
  constexpr double kRounding = 1e-9;
  if (!saved.next_lr || std::abs(*saved.next_lr - now) <= kRounding * std::abs(now)) return "";
  return cat("the learning rate of step ", saved.next_step, " would have been ", *saved.next_lr,
             " in the run that saved it and is ", now,
             " here: it follows from this recipe's optimizer.lr, lr_scheduler and number of steps ",
             "(step_scheduler.max_steps, num_epochs, global_batch_size)");
}

bool other_data(const TrainingPosition& saved, const TrainingPosition& now) {
  if (saved.data_fingerprint == now.data_fingerprint) return false;
  return saved.seed == now.seed ||
         !named(changes(saved.settings, now.settings), {"dataset.", "packed_sequence."}, "")
              .empty();
}

bool same_validation(const TrainingPosition& saved, const TrainingPosition& now) {
  const std::vector<Change> all = changes(saved.settings, now.settings);
  return std::none_of(all.begin(), all.end(), [](const Change& c) {
    return c.key.starts_with("validation_dataset") || c.key == "checkpoint.best_metric_key";
  });
}

std::vector<StepFolder> of_this_run(const std::vector<StepFolder>& candidates,
                                    const TrainingPosition& now, const std::string& root) {
  std::vector<StepFolder> own;
  std::string first_other;
  for (const StepFolder& folder : candidates) {
    std::string why;
    try {
      why = difference(read_position(folder.path), now);
      if (!why.empty() && !damage_of(folder.path, kPositionName).empty()) why = "";
    } catch (const Error&) {
      why = "";
    }
    if (why.empty())
      own.push_back(folder);
    else if (first_other.empty())
      first_other = cat(folder.path, ": ", why);
  }
  if (own.empty() && !first_other.empty())
    fail(cat("checkpoint.checkpoint_dir: ", root, " holds checkpoints of another run (",
             first_other,
             "); name another folder, or, to go on from that checkpoint with this recipe, set ",
             "checkpoint.restore_from to it or to LATEST"));
  return own;
}

bool belongs_to_run(const StepFolder& folder, const TrainingPosition& now) {
  try {
    return difference(read_position(folder.path), now).empty();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace glmtune::train
