#include "train/run_inputs.h"

#include <algorithm>
#include <filesystem>

#include "base/cat.h"
#include "base/error.h"
#include "train/log.h"
#include "train/named_errors.h"
#include "train/progress.h"
#include "train/training_data.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;

// The folder of a model or of a config, as a path or by its hub id.
RunModel found_model(const Recipe& recipe, io::RepoKind kind, const io::HubCache& hub) {
  RunModel model;
  const std::string& name = recipe.model.pretrained_model_name_or_path;
  io::ResolvedRepo found = io::resolve_repo(name, kind, hub, recipe.model.revision);
  model.folder = std::move(found.folder);
  model.commit = std::move(found.commit);
  if (!model.commit.empty()) log_info(cat("model: ", name, " at commit ", model.commit));
  return model;
}

RunModel shape_only(const Recipe& recipe, const io::HubCache& hub) {
  const fs::path path(recipe.model.pretrained_model_name_or_path);
  RunModel model;
  if (path.extension() == ".json" && fs::exists(path)) {
    model.folder = path.parent_path().string();
    model.config = models::read_glm_config(path.string());
  } else {
    model = found_model(recipe, io::RepoKind::kConfig, hub);
    model.config = models::read_glm_config((fs::path(model.folder) / "config.json").string());
  }
  model.dtype = recipe.model.torch_dtype.value_or(model.config.dtype.value_or(DType::kBF16));
  return model;
}

bool holds_f16(const models::HfCheckpoint& checkpoint) {
  const auto& tensors = checkpoint.files().tensors;
  return std::any_of(tensors.begin(), tensors.end(),
                     [](const auto& t) { return t.second.info->dtype == DType::kF16; });
}

std::unique_ptr<data::PackSource> open_source(TrainingData& data, const DatasetEntry& entry,
                                              const models::GlmConfig& config, bool terminal) {
  Progress progress(cat("Reading ", entry.key), 0, 1, terminal);
  auto source = data.open(entry, {.rows =
                                      [&](std::int64_t done, std::int64_t total) {
                                        progress.set_total(total);
                                        progress.update(done, "rows");
                                      },
                                  .notice = log_warning});
  log_info(cat(entry.key, ":\n", source->summary().text()));
  for (const data::Count& note : source->summary().notes)  // a misspelt switch changes nothing
    if (note.what.starts_with("chat_template_kwargs.")) log_warning(cat(entry.key, ".", note.what));
  const std::int64_t longest = source->summary().longest;
  if (config.max_position_embeddings > 0 && longest > config.max_position_embeddings)
    log_warning(cat(entry.key, ": the longest sample has ", longest, " tokens, beyond the ",
                    "model's max_position_embeddings ", config.max_position_embeddings));
  return source;
}

LrSchedule rates_of(const Recipe& recipe, std::int64_t total_steps) {
  const OptimizerSettings& o = recipe.optimizer;
  return recipe.lr_scheduler ? LrSchedule(*recipe.lr_scheduler, o.lr, o.weight_decay, total_steps)
                             : LrSchedule(o.lr, o.weight_decay);
}

RunModel opened(const Recipe& recipe, const io::HubCache& hub) {
  if (recipe.model.from_config) return shape_only(recipe, hub);
  RunModel model = found_model(recipe, io::RepoKind::kModel, hub);
  model.checkpoint.emplace(models::HfCheckpoint::open(model.folder));
  // What is saved is the tokenizer that the run trains with, whatever becomes of the folder.
  if (recipe.checkpoint.enabled) model.checkpoint->keep_companions();
  const models::HfCheckpoint& checkpoint = *model.checkpoint;
  model.config = checkpoint.config();
  if (model.config.num_nextn_predict_layers > 0 && !checkpoint.has_mtp())
    log_warning(cat(model.folder, ": config.json announces num_nextn_predict_layers ",
                    model.config.num_nextn_predict_layers, ", but no MTP tensor is there; what is ",
                    "saved lacks them too and cannot be served with speculative decoding"));
  model.dtype = recipe.model.torch_dtype.value_or(checkpoint.own_dtype());
  if (holds_f16(checkpoint))
    log_info(cat(model.folder, ": weights in F16 are trained in ", name_of(model.dtype),
                 " and saved in F16 again"));
  if (checkpoint.quantized() && recipe.checkpoint.dequantize_base_checkpoint == false)
    fail(cat(model.folder,
             " holds FP8 weights and checkpoint.dequantize_base_checkpoint is false: ",
             "set it to true (weights become BF16) or name a BF16 checkpoint"));
  if (!checkpoint.quantized() && recipe.checkpoint.dequantize_base_checkpoint == true)
    log_info("checkpoint.dequantize_base_checkpoint: the weights are not quantised");
  return model;
}

}  // namespace

std::string arithmetic_conflict(const Recipe& recipe, DType weights) {
  const auto type = recipe.distributed.param_dtype;
  if (!type || *type == weights) return "";
  return cat("not runnable yet: distributed.mp_policy.param_dtype ", name_of(*type),
             " with weights in ", name_of(weights), "; what runs: --model.torch_dtype ",
             models::config_dtype_name(*type));
}

RunModel open_run_model(const Recipe& recipe, const io::HubCache& hub) {
  return named(recipe.model.place, [&] {
    RunModel model = opened(recipe, hub);
    if (const std::string why = arithmetic_conflict(recipe, model.dtype); !why.empty()) fail(why);
    return model;
  });
}

RunData open_run_data(const Recipe& recipe, const RunModel& model, bool terminal) {
  TrainingData data(model.folder, model.config.vocab_size);
  RunData run;
  run.source = open_source(data, recipe.dataset, model.config, terminal);
  for (const DatasetEntry& entry : recipe.validation_datasets)
    run.validation.push_back(
        {.name = entry.name, .source = open_source(data, entry, model.config, terminal)});
  if (recipe.dataloader.shuffle && !run.source->may_shuffle())
    fail(cat("dataloader.shuffle: ", recipe.dataset.target,
             " gives its rows in order and cannot be shuffled; set it to false"));
  data::PackLength lengths;
  if (recipe.dataloader.group_by_length)
    lengths = [&source = *run.source](std::int64_t number) { return source.tokens(number); };
  run.sampler = std::make_unique<data::PackSampler>(
      run.source->size(),
      data::SamplerSettings{.global_batch_size = recipe.step_scheduler.global_batch_size,
                            .seed = recipe.seed,
                            .shuffle = recipe.dataloader.shuffle,
                            .drop_last = recipe.dataloader.drop_last},
      lengths);
  run.scheduler =
      std::make_unique<StepScheduler>(recipe.step_scheduler, 1, run.sampler->steps_per_epoch());
  return run;
}

StepScheduler schedule_from(const RunData& data, const TrainingPosition& at) {
  StepScheduler schedule = *data.scheduler;
  const data::SamplerCursor cursor = data.sampler->go_on(at.cursor);
  if (const auto left = data.sampler->steps_left(cursor))
    schedule.go_on(at.next_step, cursor.epoch, *left);
  return schedule;
}

void check_rates(const Recipe& recipe, std::int64_t total_steps) {
  (void)rates_of(recipe, total_steps);
}

void set_rates(RunData& data, const Recipe& recipe) {
  data.lr_schedule = std::make_unique<LrSchedule>(rates_of(recipe, data.scheduler->total_steps()));
}

void go_on(RunData& data, TrainingPosition& at) {
  *data.scheduler = schedule_from(data, at);
  const data::SamplerCursor next = data.sampler->go_on(at.cursor);
  if (const auto packs = data.source->size(); packs && at.cursor.next >= *packs)
    log_warning(cat("the checkpoint had taken ", at.cursor.next, " packs of epoch ",
                    at.cursor.epoch, ", and with this seed an epoch has ", *packs,
                    ": it is over, and epoch ", next.epoch, " begins"));
  at.cursor = next;
}

}  // namespace glmtune::train
