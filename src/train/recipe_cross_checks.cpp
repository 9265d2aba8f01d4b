#include "train/recipe_cross_checks.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "base/cat.h"
#include "base/error.h"
#include "data/rows.h"
#include "data/split_files.h"
#include "train/recipe_data.h"
#include "train/recipe_plan.h"
#include "train/schema_status.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;

void check_steps(const Recipe& recipe, const RecipeReader& reader) {
  const StepSchedulerSettings& s = recipe.step_scheduler;
  if (s.global_batch_size % s.local_batch_size != 0)
    reader.reject("step_scheduler.global_batch_size",
                  cat("expected a multiple of local_batch_size ", s.local_batch_size,
                      "; nearest: ", nearest_multiples(s.local_batch_size, s.global_batch_size)));
  const bool steps = s.max_steps && *s.max_steps > 0;  // without any nothing starts
  if (s.start_step > 0 && steps && s.start_step >= *s.max_steps)
    reader.reject("step_scheduler.start_step",
                  cat("expected a step before the last one: max_steps is ", *s.max_steps));
  if (s.start_epoch > 0 && s.num_epochs && s.start_epoch >= *s.num_epochs)
    reader.reject("step_scheduler.start_epoch",
                  cat("expected an epoch before the last one: num_epochs is ", *s.num_epochs));
}

void note_validation(const Recipe& recipe, const RecipeReader& reader, CheckedDocument& checked) {
  constexpr const char* kDrop = "validation_dataloader.drop_last";
  constexpr const char* kEvery = "step_scheduler.val_every_steps";
  if (recipe.validation_dataloader.drop_last && !recipe.validation_datasets.empty())
    checked.warnings.push_back(cat(reader.where(kDrop), ": ", kDrop,
                                   " has no effect: every row of a validation set is evaluated"));
  if (recipe.step_scheduler.val_every_steps && recipe.validation_datasets.empty())
    checked.warnings.push_back(cat(reader.where(kEvery), ": ", kEvery, " ",
                                   *recipe.step_scheduler.val_every_steps,
                                   " has no effect: there is no validation_dataset"));
}

// Rows of these are packs as they are.
void check_packing(const DatasetEntry& entry, const RecipeReader& reader) {
  const bool makes_rows = std::holds_alternative<data::MockSettings>(entry.settings) ||
                          std::holds_alternative<data::PretokenizedSettings>(entry.settings);
  if (makes_rows && entry.packing.packed_sequence_size > 0)
    reader.reject(
        "packed_sequence.packed_sequence_size",
        cat("rows of a ", entry.target, " (", entry.key, ") are packs already; set it to 0"));
}

// Of a file that is named itself all rows are taken, whatever the split: validation on the rows
// that are trained on would pass unnoticed.
void note_split(const DatasetEntry& entry, const RecipeReader& reader, CheckedDocument& checked) {
  const std::string split = std::visit(
      [](const auto& settings) -> std::string {
        if constexpr (requires { settings.rows.split; })
          return data::name_of_split(settings.rows.split);
        return "train";
      },
      entry.settings);
  if (split == "train") return;
  for (const std::string& source : entry.sources) {
    std::error_code error;
    const fs::path path = source;
    if (!fs::is_regular_file(path, error) || data::names_split(path.filename().string(), split))
      continue;
    const std::string key = entry.key + ".split";
    checked.warnings.push_back(cat(reader.where(key), ": ", key, " ", split,
                                   " selects nothing in a single file: all rows of ", source,
                                   " count as it; name a folder or a data set of the hub, or take "
                                   "a part of the rows, such as train[:100]"));
  }
}

void check_data(const Recipe& recipe, const RecipeReader& reader) {
  check_packing(recipe.dataset, reader);
  for (const DatasetEntry& entry : recipe.validation_datasets) check_packing(entry, reader);
  if (!is_endless(recipe.dataset.settings)) return;
  if (recipe.dataloader.shuffle)
    reader.reject("dataloader.shuffle",
                  "glmtune.PretokenizedDataset gives its rows in order; set shuffle to false");
  if (!recipe.step_scheduler.max_steps)
    fail(cat(reader.where("dataset._target_"),
             ": glmtune.PretokenizedDataset repeats without end; set step_scheduler.max_steps"));
}

void note_batch_size(const Recipe& recipe, const RecipeReader& reader, CheckedDocument& checked) {
  constexpr const char* kKey = "dataloader.batch_size";
  const StepSchedulerSettings& s = recipe.step_scheduler;
  const auto size = recipe.dataloader.batch_size;
  if (!size || *size == s.local_batch_size) return;
  checked.warnings.push_back(cat(
      reader.where(kKey), ": ", kKey, " ", *size,
      " is not taken: micro-batches hold step_scheduler.local_batch_size ", s.local_batch_size,
      ", a step global_batch_size ", s.global_batch_size, " samples. AutoModel would put ", *size,
      " into each micro-batch and train on ",
      static_cast<double>(s.global_batch_size / s.local_batch_size) * static_cast<double>(*size),
      " in a step"));
}

void check_checkpoint(const Recipe& recipe, const RecipeReader& reader) {
  if (!recipe.checkpoint.enabled && !recipe.checkpoint.restore_from.empty())
    reader.reject("checkpoint.restore_from",
                  "checkpoint.enabled is false, and such a run reads no checkpoint either; set it "
                  "to true, or remove restore_from");
}

void check_random_weights(const Recipe& recipe, const RecipeReader& reader) {
  const CheckpointSettings& settings = recipe.checkpoint;
  if (recipe.model.from_config && settings.enabled &&
      settings.save_consolidated != SaveConsolidated::kNever)
    reader.reject("checkpoint.enabled",
                  "from_config gives random weights without a checkpoint to save beside; set it to "
                  "false, or make a checkpoint with `glmtune init` and train that");
}

// LOWEST_VAL would never be made.
void check_best_metric(const Recipe& recipe, const RecipeReader& reader, CheckedDocument& checked) {
  constexpr const char* kKey = "checkpoint.best_metric_key";
  if (recipe.validation_datasets.empty()) return;
  std::string names;
  for (const DatasetEntry& set : recipe.validation_datasets) {
    if (set.name == recipe.checkpoint.best_metric_key) return;
    names += cat(names.empty() ? "" : ", ", set.name, " (", set.key, ")");
  }
  if (const CheckedKey* key = reader.key(kKey); key != nullptr && key->from_recipe)
    reader.reject(kKey, cat("expected the name of a validation set of the recipe: ", names));
  checked.warnings.push_back(cat(kKey, " is ", recipe.checkpoint.best_metric_key,
                                 ", and no validation set is that one: LOWEST_VAL is not made; set "
                                 "it to ",
                                 names));
}

// torch takes the names of its schedules in any case.
void check_pipeline(const Recipe& recipe, const RecipeReader& reader) {
  constexpr std::array kSchedules{"1f1b",      "interleaved1f1b",        "gpipe",
                                  "loopedbfs", "interleavedzerobubble",  "zbvzerobubble",
                                  "dualpipev", "pipelineschedulesingle", "pipelineschedulemulti"};
  if (!recipe.distributed.pipeline) return;
  std::string name = recipe.distributed.pipeline->schedule;
  std::transform(name.begin(), name.end(), name.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  std::string known;
  for (const char* schedule : kSchedules) {
    if (name == schedule) return;
    known += cat(known.empty() ? "" : ", ", schedule);
  }
  reader.reject("distributed.pipeline.pp_schedule", cat("expected one of: ", known));
}

void check_peft(const RecipeReader& reader) {
  const auto given = [&](const char* key) {
    const io::Value* value = reader.value(key);
    return value != nullptr && *value != io::Value(false);
  };
  const bool all = given("peft.match_all_linear");
  for (const char* key : {"peft.target_modules", "peft.exclude_modules"})
    if (all && given(key)) reader.reject(key, "not together with peft.match_all_linear");
  if (given("peft.target_modules") && given("peft.exclude_modules"))
    reader.reject("peft.exclude_modules", "not together with peft.target_modules");
}

// Sections that this recipe does not use.
void note_ignored(const Recipe& recipe, const RecipeReader& reader, CheckedDocument& checked) {
  for (std::string& warning : checked.warnings)
    if (warning.find(": rng is ignored") != std::string::npos)
      warning += cat(" It is ", recipe.seed, ".");
  const auto ignored = [&](const char* section, const std::string& why) {
    if (reader.has_section(section))
      checked.warnings.push_back(cat(reader.where(section), ": ", section, " is ignored: ", why));
  };
  if (recipe.kind != RecipeKind::kBenchmark)
    ignored("benchmark", "only the benchmark recipe reads it");
  if (recipe.distributed.pp_size == 1) ignored("distributed.pipeline", "distributed.pp_size is 1");
  if (recipe.distributed.ep_size == 1) ignored("distributed.moe", "distributed.ep_size is 1");
}

void note_numerics(const Recipe& recipe, const RecipeReader& reader, CheckedDocument& checked) {
  if (const auto gate = reader.dtype("model.backend.gate_precision");
      gate == DType::kBF16 || gate == DType::kF16)
    checked.warnings.push_back(cat(reader.where("model.backend.gate_precision"),
                                   ": model.backend.gate_precision is raised to float32: the "
                                   "router always computes in float32 or better"));
  const BackendSettings& backend = recipe.model.backend;
  if (backend.fake_gate_noise > 1)
    reader.reject("model.backend.fake_gate_noise", "expected a number from 0 to 1");
  if (backend.fake_balanced_gate) {
    const double factor = *reader.number("model.gate_bias_update_factor");
    checked.warnings.push_back(
        cat(reader.where("model.backend.fake_balanced_gate"),
            ": model.backend.fake_balanced_gate replaces the router: the run measures speed, it "
            "does not fine-tune",
            factor != 0 ? cat("; model.gate_bias_update_factor ", factor, " is taken as 0") : ""));
  }
  // On where the section stands without a word about it.
  if (const CheckedKey* repair = reader.key("embedding_row_repair.enabled");
      reader.has_section("embedding_row_repair") && (repair == nullptr || !repair->from_recipe))
    add_not_runnable(checked, "embedding_row_repair", "embedding_row_repair null");
  if (recipe.peft && recipe.model.gate_bias_update_factor != 0)
    checked.warnings.push_back(cat(reader.where("model.gate_bias_update_factor"),
                                   ": model.gate_bias_update_factor moves the router's bias, which "
                                   "an adapter does not contain"));
  // Without torch_dtype the checkpoint says the type: arithmetic_conflict() looks then.
  if (const auto type = recipe.distributed.param_dtype;
      type && recipe.model.torch_dtype && recipe.model.torch_dtype != type)
    add_not_runnable(
        checked,
        cat("distributed.mp_policy.param_dtype ", *reader.text("distributed.mp_policy.param_dtype"),
            " without the same model.torch_dtype"),
        cat("model.torch_dtype ", *reader.text("distributed.mp_policy.param_dtype")));
}

}  // namespace

void check_keys_together(const Recipe& recipe, const RecipeReader& reader, CheckedDocument& checked,
                         const std::string& file) {
  if (recipe.kind == RecipeKind::kBenchmark && !reader.has_section("benchmark"))
    fail(cat(file, ": the benchmark recipe needs the section benchmark"));
  if (recipe.distributed.pp_size > 1 && !recipe.distributed.pipeline)
    reader.reject("distributed.pp_size",
                  "it needs the section distributed.pipeline ({} takes its defaults)");
  check_pipeline(recipe, reader);
  check_steps(recipe, reader);
  note_validation(recipe, reader, checked);
  check_data(recipe, reader);
  note_batch_size(recipe, reader, checked);
  check_checkpoint(recipe, reader);
  check_random_weights(recipe, reader);
  check_best_metric(recipe, reader, checked);
  check_peft(reader);
  note_split(recipe.dataset, reader, checked);
  for (const DatasetEntry& entry : recipe.validation_datasets) note_split(entry, reader, checked);
  note_ignored(recipe, reader, checked);
  note_numerics(recipe, reader, checked);
}

}  // namespace glmtune::train
