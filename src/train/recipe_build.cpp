#include "train/recipe_build.h"

#include "base/cat.h"
#include "base/error.h"
#include "train/device_peaks.h"
#include "train/name_pattern.h"
#include "train/recipe_cross_checks.h"
#include "train/recipe_data.h"
#include "train/recipe_reader.h"
#include "train/schema.h"
#include "train/schema_status.h"
#include "train/signals.h"

namespace glmtune::train {
namespace {

ModelSettings model(const RecipeReader& reader) {
  ModelSettings out;
  out.from_config = reader.variant("model") == "from_config";
  const char* key = out.from_config ? "model.config.pretrained_model_name_or_path"
                                    : "model.pretrained_model_name_or_path";
  out.pretrained_model_name_or_path = *reader.text(key);
  out.place = reader.place(key);
  out.revision = reader.text("model.revision").value_or(out.revision);
  out.torch_dtype = reader.dtype("model.torch_dtype");
  out.latent_norm_eps = *reader.number("model.latent_norm_eps");
  out.gate_bias_update_factor = *reader.number("model.gate_bias_update_factor");
  BackendSettings& backend = out.backend;
  backend.attn_name = reader.text("model.backend.attn").value_or("");
  const bool native = backend.attn_name.empty() || is_native_attn(backend.attn_name);
  backend.attn = native ? AttentionBackend::kNative : AttentionBackend::kDense;
  backend.fake_balanced_gate = *reader.flag("model.backend.fake_balanced_gate");
  if (backend.fake_balanced_gate) out.gate_bias_update_factor = 0;  // its loads say nothing
  backend.fake_gate_noise = reader.number("model.backend.fake_gate_noise").value_or(0);
  backend.strict_backend = *reader.flag("model.backend.strict_backend");
  backend.enable_fsdp_optimizations =
      reader.flag("model.backend.enable_fsdp_optimizations").value_or(false);
  return out;
}

LoraSettings lora(const RecipeReader& reader) {
  LoraSettings out;
  out.target_modules = reader.strings("peft.target_modules");
  out.exclude_modules = reader.strings("peft.exclude_modules");
  out.match_all_linear = reader.flag("peft.match_all_linear").value_or(out.match_all_linear);
  out.dim = reader.integer("peft.dim").value_or(out.dim);
  out.use_dora = reader.flag("peft.use_dora").value_or(out.use_dora);
  out.moe_rank_scaling = reader.flag("peft.moe_rank_scaling").value_or(out.moe_rank_scaling);
  out.dtype = reader.dtype("peft.lora_dtype");
  return out;
}

StepSchedulerSettings step_scheduler(const RecipeReader& reader) {
  StepSchedulerSettings out;
  out.global_batch_size = *reader.integer("step_scheduler.global_batch_size");
  out.local_batch_size = *reader.integer("step_scheduler.local_batch_size");
  out.num_epochs = reader.integer("step_scheduler.num_epochs");
  out.max_steps = reader.integer("step_scheduler.max_steps");
  out.ckpt_every_steps = reader.integer("step_scheduler.ckpt_every_steps");
  out.save_checkpoint_every_epoch = *reader.flag("step_scheduler.save_checkpoint_every_epoch");
  out.val_every_steps = reader.integer("step_scheduler.val_every_steps");
  out.log_remote_every_steps = *reader.integer("step_scheduler.log_remote_every_steps");
  out.loss_average_window_steps = *reader.integer("step_scheduler.loss_average_window_steps");
  out.start_step = *reader.integer("step_scheduler.start_step");
  out.start_epoch = *reader.integer("step_scheduler.start_epoch");
  out.preemption_signals.clear();
  for (const std::string& name : reader.strings("step_scheduler.preemption_signal")) {
    const auto number = signal_number(name);
    if (!number)
      reader.reject("step_scheduler.preemption_signal",
                    cat("'", name,
                        "' is no signal a process can catch; expected SIGTERM, SIGUSR1 "
                        "or a number"));
    out.preemption_signals.push_back(*number);
  }
  return out;
}

ActivationCheckpointing activation_checkpointing(const std::string& word) {
  if (word == "selective") return ActivationCheckpointing::kSelective;
  const bool on =
      word == "true" || word == "full" || word == "on" || word == "enabled" || word == "yes";
  return on ? ActivationCheckpointing::kFull : ActivationCheckpointing::kOff;
}

DistributedSettings distributed(const RecipeReader& reader) {
  DistributedSettings out;
  out.strategy = *reader.text("distributed.strategy");
  out.dp_size = reader.integer("distributed.dp_size");
  out.dp_replicate_size = reader.integer("distributed.dp_replicate_size");
  out.tp_size = *reader.integer("distributed.tp_size");
  out.pp_size = *reader.integer("distributed.pp_size");
  out.cp_size = *reader.integer("distributed.cp_size");
  out.ep_size = *reader.integer("distributed.ep_size");
  out.sequence_parallel = *reader.flag("distributed.sequence_parallel");
  out.activation_checkpointing =
      activation_checkpointing(*reader.text("distributed.activation_checkpointing"));
  const auto reshard = reader.flag("distributed.reshard_after_forward");
  out.reshard_after_forward = reshard.value_or(out.pp_size == 1);
  out.moe_reshard_after_forward =
      reshard.value_or(reader.flag("distributed.moe.reshard_after_forward").value_or(false));
  out.param_dtype = reader.dtype("distributed.mp_policy.param_dtype");
  out.timeout_minutes = reader.number("dist_env.timeout_minutes").value_or(out.timeout_minutes);
  if (!reader.has_section("distributed.pipeline")) return out;
  PipelineSettings& pipeline = out.pipeline.emplace();
  pipeline.schedule = reader.text("distributed.pipeline.pp_schedule").value_or(pipeline.schedule);
  pipeline.microbatch_size =
      reader.integer("distributed.pipeline.pp_microbatch_size").value_or(pipeline.microbatch_size);
  pipeline.layers_per_stage = reader.integer("distributed.pipeline.layers_per_stage");
  pipeline.round_virtual_stages =
      reader.text("distributed.pipeline.round_virtual_stages_to_pp_multiple").value_or("");
  pipeline.seq_len = reader.integer("distributed.pipeline.pp_seq_len");
  return out;
}

OptimizerSettings optimizer(const RecipeReader& reader) {
  OptimizerSettings out;
  const std::string_view variant = reader.variant("optimizer");
  const bool adam_w =
      variant == "AdamW" || (variant == "FusedAdam" && *reader.flag("optimizer.adam_w_mode"));
  out.kind = adam_w ? OptimizerKind::kAdamW : OptimizerKind::kAdam;
  out.lr = *reader.number("optimizer.lr");
  const std::vector<double> betas = reader.numbers("optimizer.betas");
  if (betas.size() != 2 || betas[0] >= 1 || betas[1] >= 1)
    reader.reject("optimizer.betas", "expected two numbers from 0 up to, not including, 1");
  out.beta1 = betas[0];
  out.beta2 = betas[1];
  out.eps = *reader.number("optimizer.eps");
  out.weight_decay = *reader.number("optimizer.weight_decay");
  out.bias_correction = reader.flag("optimizer.bias_correction").value_or(true);
  const std::string master = *reader.text("optimizer.master_weights");
  out.stochastic_rounding = master == "bf16_stochastic";
  if (master == "bf16" || master == "false" || out.stochastic_rounding) {
    out.master_weights = MasterWeights::kBf16;
    // FusedAdam's kernel computes in float32 and rounds once.
    out.round_each_operation = variant != "FusedAdam" && !out.stochastic_rounding;
    const DType moments = variant == "FusedAdam" ? DType::kF32 : DType::kBF16;
    out.exp_avg_dtype = reader.dtype("optimizer.exp_avg_dtype").value_or(moments);
    out.exp_avg_sq_dtype = reader.dtype("optimizer.exp_avg_sq_dtype").value_or(moments);
  }
  for (std::size_t i = 0;; ++i) {
    const std::string at = cat("optimizer.param_group_overrides[", i, "].");
    const auto pattern = reader.text(at + "pattern");
    if (!pattern) return out;
    try {
      const NamePattern compiles(*pattern);
    } catch (const Error& e) {
      reader.reject(at + "pattern", e.what());
    }
    out.overrides.push_back({.pattern = *pattern,
                             .lr_mult = *reader.number(at + "lr_mult"),
                             .wd_mult = *reader.number(at + "wd_mult")});
  }
}

DecayStyle decay_style(const std::string& word) {
  if (word == "constant") return DecayStyle::kConstant;
  if (word == "linear") return DecayStyle::kLinear;
  if (word == "inverse-square-root") return DecayStyle::kInverseSquareRoot;
  return word == "WSD" ? DecayStyle::kWsd : DecayStyle::kCosine;
}

WsdDecayStyle wsd_style(const std::string& word) {
  if (word == "linear") return WsdDecayStyle::kLinear;
  if (word == "cosine") return WsdDecayStyle::kCosine;
  return word == "minus_sqrt" ? WsdDecayStyle::kMinusSqrt : WsdDecayStyle::kExponential;
}

std::optional<LrScheduleSettings> lr_scheduler(const RecipeReader& reader,
                                               const OptimizerSettings& optimizer_settings,
                                               std::optional<std::int64_t> max_steps) {
  if (!reader.has_section("lr_scheduler")) return std::nullopt;
  LrScheduleSettings out;
  out.decay_style = decay_style(*reader.text("lr_scheduler.lr_decay_style"));
  out.warmup_steps = reader.integer("lr_scheduler.lr_warmup_steps");
  out.decay_steps = reader.integer("lr_scheduler.lr_decay_steps");
  out.init_lr = reader.number("lr_scheduler.init_lr");
  out.max_lr = reader.number("lr_scheduler.max_lr");
  out.min_lr = reader.number("lr_scheduler.min_lr");
  out.start_weight_decay = reader.number("lr_scheduler.start_wd");
  out.end_weight_decay = reader.number("lr_scheduler.end_wd");
  out.weight_decay_incr_steps = reader.integer("lr_scheduler.wd_incr_steps");
  out.weight_decay_style = decay_style(*reader.text("lr_scheduler.wd_incr_style"));
  out.wsd_decay_steps = reader.integer("lr_scheduler.wsd_decay_steps");
  out.wsd_decay_style = wsd_style(*reader.text("lr_scheduler.lr_wsd_decay_style"));
  // Without effect here; AutoModel refuses both together.
  const CheckedKey* use = reader.key("lr_scheduler.use_checkpoint_opt_param_scheduler");
  if (*reader.flag("lr_scheduler.override_opt_param_scheduler") && use->from_recipe &&
      *reader.flag("lr_scheduler.use_checkpoint_opt_param_scheduler"))
    reader.reject("lr_scheduler.override_opt_param_scheduler",
                  "not together with use_checkpoint_opt_param_scheduler");
  check_lr_settings(out, optimizer_settings.lr, optimizer_settings.weight_decay, max_steps);
  return out;
}

LossSettings loss(const RecipeReader& reader, CheckedDocument& checked) {
  LossSettings out;
  out.name = reader.variant("loss_fn");
  out.ignore_index = *reader.integer("loss_fn.ignore_index");
  out.chunk_len = reader.integer("loss_fn.chunk_len");
  if (out.ignore_index != -100)
    add_not_runnable(checked, cat("loss_fn.ignore_index ", out.ignore_index),
                     "loss_fn.ignore_index -100");
  return out;
}

// LATEST and LOWEST_VAL may be written in any case.
std::string pointer_or_name(const std::string& text) {
  std::string upper = text;
  for (char& c : upper)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return upper == "LATEST" || upper == "LOWEST_VAL" ? upper : text;
}

CheckpointSettings checkpoint(const RecipeReader& reader) {
  CheckpointSettings out;
  out.enabled = *reader.flag("checkpoint.enabled");
  out.checkpoint_dir = *reader.text("checkpoint.checkpoint_dir");
  if (out.checkpoint_dir.empty()) reader.reject("checkpoint.checkpoint_dir", "expected a folder");
  const std::string consolidated = *reader.text("checkpoint.save_consolidated");
  if (consolidated == "every" || consolidated == "true")
    out.save_consolidated = SaveConsolidated::kEvery;
  if (consolidated == "never" || consolidated == "false")
    out.save_consolidated = SaveConsolidated::kNever;
  out.max_recent_checkpoints = reader.integer("checkpoint.max_recent_checkpoints");
  out.restore_from = pointer_or_name(reader.text("checkpoint.restore_from").value_or(""));
  out.best_metric_key = *reader.text("checkpoint.best_metric_key");
  out.dequantize_base_checkpoint = reader.flag("checkpoint.dequantize_base_checkpoint");
  return out;
}

// What AutoModel's benchmark recipe does whatever its recipe file says.
void settle_benchmark(Recipe& recipe, CheckedDocument& checked) {
  recipe.max_grad_norm = 0;
  CheckedKey* clip = checked.find("clip_grad_norm.max_norm");
  if (clip->from_recipe)
    checked.warnings.push_back(
        cat(clip->where, ": ", clip->path, " is ignored: the benchmark recipe does not clip"));
  clip->value = recipe.max_grad_norm;
  clip->shown = "not applied";
  if (CheckedKey* ids = checked.find("dataset.vocab_size"); ids && recipe.model.from_config)
    ids->shown = "the model's";
}

}  // namespace

bool is_native_attn(std::string_view name) {
  return name == "cudnn" || name == "tilelang" || name == "flashmla";
}

Recipe build_recipe(CheckedDocument& checked, const std::string& file) {
  const RecipeReader reader(checked);
  Recipe out;
  out.path = file;
  const TargetRow* kind = find_target(
      "recipe", *reader.text(reader.has_section("recipe") ? "recipe._target_" : "recipe"));
  if (kind->name == "benchmark") out.kind = RecipeKind::kBenchmark;
  if (kind->name == "distillation") out.kind = RecipeKind::kDistillation;
  out.seed = static_cast<std::uint64_t>(*reader.integer("seed"));
  out.model = model(reader);
  out.step_scheduler = step_scheduler(reader);
  out.distributed = distributed(reader);
  for (const std::string& section : checked.top_level) {
    if (schema_section(section) != "dataset") continue;
    DatasetEntry entry = build_dataset(reader, section, out.seed);
    // Recipes name the model a second time for its tokenizer; both are of one commit.
    if (entry.tokenizer == out.model.pretrained_model_name_or_path &&
        !reader.text(section + ".tokenizer.revision"))
      entry.tokenizer_revision = out.model.revision;
    if (section == "dataset") {
      out.dataset = std::move(entry);
    } else {
      out.validation_datasets.push_back(std::move(entry));
    }
  }
  out.dataloader = build_dataloader(reader, "dataloader");
  out.dataloader.shuffle = shuffles(reader, out.dataset.settings);
  out.validation_dataloader = build_dataloader(reader, "validation_dataloader");
  out.optimizer = optimizer(reader);
  out.lr_scheduler = lr_scheduler(reader, out.optimizer, out.step_scheduler.max_steps);
  out.loss = loss(reader, checked);
  out.max_grad_norm = *reader.number("clip_grad_norm.max_norm");
  out.checkpoint = checkpoint(reader);
  if (*reader.text("nonfinite_policy") == "skip") out.nonfinite_policy = NonfinitePolicy::kSkip;
  if (reader.has_section("peft")) out.peft = lora(reader);
  out.peak_tflops = reader.number("mfu.peak_tflops");
  out.mfu_device = reader.text("mfu.device").value_or("");
  if (!out.mfu_device.empty() && !peak_of_device(out.mfu_device))
    reader.reject("mfu.device",
                  cat("known here: ", known_devices(), "; for others set mfu.peak_tflops instead"));
  if (out.kind == RecipeKind::kBenchmark) settle_benchmark(out, checked);
  check_keys_together(out, reader, checked, file);
  return out;
}

}  // namespace glmtune::train
