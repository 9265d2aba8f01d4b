// Rows: the run, its steps, optimizer, checkpoints and loggers.
#include "train/schema_rows.h"

namespace glmtune::train {
namespace {

using enum KeyType;
using enum KeyStatus;

// clang-format off
constexpr KeyRow kRows[] = {
{"recipe", kTarget, "required", "recipe", kRuns, "What to do: the class name of AutoModel's recipe, bare or dotted. Fine-tuning runs; the benchmark and distillation recipes are only checked."},
{"seed", kInt, "42", ">=0", kRuns, "Seeds sample order, dropout and random weights. The rank is not part of it: results do not depend on the number of ranks."},
{"nonfinite_policy", kChoice, "stop", "stop|skip", kRuns, "What a loss or gradient norm that is not finite does. The step is never applied; `stop` ends the run with its own exit code, `skip` counts it and goes on. A key of glmtune."},
{"nvtx", kBool, "false", "", kNoCounterpart, "Module ranges for NVIDIA's profilers."},

{"step_scheduler", kSection, "{}", "", kRuns, "Batch sizes, the length of the run and what happens after which step."},
{"step_scheduler.global_batch_size", kInt, "32", ">=1", kRuns, "Samples (packs, when packing) of one optimizer step over all ranks; a multiple of local_batch_size x data-parallel size."},
{"step_scheduler.local_batch_size", kInt, "1", ">=1", kRuns, "Samples of one micro-batch on one rank. global / (local x data-parallel size) micro-batches are accumulated."},
{"step_scheduler.num_epochs", kInt, "10", ">=1 null", kRuns, "Passes over the data; the run ends here or at max_steps, whichever comes first. An explicit null: as many as max_steps needs."},
{"step_scheduler.max_steps", kInt, "null", ">=0", kRuns, "Optimizer steps of the run; null: num_epochs whole epochs. 0 loads, saves and ends."},
{"step_scheduler.ckpt_every_steps", kInt, "100", ">=1 null", kRuns, "A checkpoint after every so many steps, besides ends of epochs and the last step. An explicit null: once an epoch."},
{"step_scheduler.save_checkpoint_every_epoch", kBool, "true", "", kRuns, "A checkpoint at the end of every epoch."},
{"step_scheduler.val_every_steps", kInt, "null", ">=1", kRuns, "Validation after every so many steps; it also runs before every checkpoint."},
{"step_scheduler.log_remote_every_steps", kInt, "1", ">=1", kDependent, "How often remote loggers get metrics. training.jsonl and the console get every step."},
{"step_scheduler.loss_average_window_steps", kInt, "50", ">=1", kNoCounterpart, "Window of AutoModel's averaged loss."},
{"step_scheduler.gc_every_steps", kInt, "null", ">=1", kNoCounterpart, "Python's garbage collector."},
{"step_scheduler.start_step", kInt, "0", ">=0", kNotYet, "Number of the first step. A resumed run counts on by itself."},
{"step_scheduler.start_epoch", kInt, "0", ">=0", kNotYet, "Number of the first epoch."},
{"step_scheduler.preemption_signal", kStringOrList, "[SIGTERM, SIGUSR1]", "null", kRuns, "Signals (names or numbers) after which the run finishes its step, saves and exits with status 75. null or []: none. Ctrl-C always does."},

{"optimizer", kSection, "required", "", kRuns, "The optimizer; `_target_` chooses it."},
{"optimizer._target_", kTarget, "required", "optimizer", kRuns, "Adam adds weight decay to the gradient, AdamW shrinks the weights; FusedAdam is AdamW unless adam_w_mode is false."},
{"optimizer.lr", kNumber, "0.001", ">=0", kRuns, "Learning rate."},
{"optimizer.betas", kNumbers, "[0.9, 0.999]", ">=0", kRuns, "Decay of the first and the second moment."},
{"optimizer.eps", kNumber, "1e-8", ">=0", kRuns, "Added to the root of the second moment."},
{"optimizer(Adam|FusedAdam).weight_decay", kNumber, "0", ">=0", kRuns, "Weight decay. Parameters that get no gradient are never decayed."},
{"optimizer(AdamW).weight_decay", kNumber, "0.01", ">=0", kRuns, "Weight decay. Parameters that get no gradient are never decayed."},
{"optimizer(Adam|AdamW).master_weights", kChoice, "fp32", "fp32|bf16|bf16_stochastic", kRuns, "fp32: bf16 weights keep an exact fp32 master (weight + 16-bit remainder) and fp32 moments. bf16: no master, bf16 moments, as torch does on bf16 parameters; use it to reproduce AutoModel's curves. bf16_stochastic: the same memory, but weights are rounded up or down at random so that small updates are kept on average: 10 instead of 16 bytes a parameter. A key of glmtune."},
{"optimizer(FusedAdam).master_weights", kChoice, "fp32", "fp32|bf16|bf16_stochastic|true|false", kRuns, "true or fp32: an exact fp32 master and fp32 moments. false or bf16: no master, moments as exp_avg_dtype and exp_avg_sq_dtype say; bf16_stochastic rounds the weights stochastically."},
{"optimizer(FusedAdam).adam_w_mode", kBool, "true", "", kRuns, "false: weight decay is added to the gradient, as in Adam."},
{"optimizer(FusedAdam).bias_correction", kBool, "true", "", kNotYet, "false leaves the moments' start-up correction out."},
{"optimizer(FusedAdam).exp_avg_dtype", kDtype, "float32", "", kRuns, "Type of the first moment when there is no master."},
{"optimizer(FusedAdam).exp_avg_sq_dtype", kDtype, "float32", "", kRuns, "Type of the second moment when there is no master."},
{"optimizer(FusedAdam).master_weight_dtype", kDtype, "float32", "", kNoCounterpart, "The master is exact fp32."},
{"optimizer(FusedAdam).store_param_remainders", kBool, "true", "", kNoCounterpart, "The master is always kept as weight + remainder."},
{"optimizer(Adam|AdamW).amsgrad", kBool, "false", "", kNotYet, "Largest second moment instead of the current one."},
{"optimizer(Adam|AdamW).maximize", kBool, "false", "", kNotYet, "Ascent instead of descent."},
{"optimizer(Adam|AdamW).foreach", kBool, "null", "", kNoCounterpart, "A speed option of torch."},
{"optimizer(Adam|AdamW).fused", kBool, "null", "", kNoCounterpart, "A speed option of torch."},
{"optimizer(Adam|AdamW).capturable", kBool, "null", "", kNoCounterpart, "A speed option of torch."},
{"optimizer(Adam|AdamW).differentiable", kBool, "null", "", kNoCounterpart, "An option of torch's autograd."},
{"optimizer.param_group_overrides", kSections, "", "", kRuns, "Other rates for some parameters; the first entry whose pattern is found in a parameter's name applies."},
{"optimizer.param_group_overrides[].pattern", kString, "required", "", kRuns, "Regular expression, searched in the name."},
{"optimizer.param_group_overrides[].lr_mult", kNumber, "1", ">=0", kRuns, "Factor on the learning rate."},
{"optimizer.param_group_overrides[].wd_mult", kNumber, "1", ">=0", kRuns, "Factor on the weight decay."},

{"lr_scheduler", kSection, "", "", kRuns, "Learning-rate schedule with Megatron's semantics; absent: constant. The rate is a function of the step alone."},
{"lr_scheduler.lr_decay_style", kChoice, "cosine", "cosine|linear|constant|inverse-square-root|WSD", kRuns, "Shape of the decay from max_lr to min_lr."},
{"lr_scheduler.lr_warmup_steps", kInt, "", ">=0", kRuns, "Steps of the linear rise from init_lr to max_lr. Default: the smaller of 1000 and a tenth of the run."},
{"lr_scheduler.lr_decay_steps", kInt, "", ">=1", kRuns, "Step at which the decay ends; later steps get min_lr (style constant: max_lr). Default: the whole run."},
{"lr_scheduler.init_lr", kNumber, "", ">=0", kRuns, "Rate at step 0 of the warm-up. Default: a tenth of the optimizer's lr."},
{"lr_scheduler.max_lr", kNumber, "", ">=0", kRuns, "Default: the optimizer's lr."},
{"lr_scheduler.min_lr", kNumber, "", ">=0", kRuns, "Default: a hundredth of the optimizer's lr."},
{"lr_scheduler.start_wd", kNumber, "", ">=0", kRuns, "Weight decay at step 0. Default: the optimizer's."},
{"lr_scheduler.end_wd", kNumber, "", ">=0", kRuns, "Weight decay after wd_incr_steps. Default: the optimizer's."},
{"lr_scheduler.wd_incr_steps", kInt, "", ">=1", kRuns, "Steps from start_wd to end_wd. Default: the whole run."},
{"lr_scheduler.wd_incr_style", kChoice, "constant", "constant|linear|cosine", kRuns, "Shape of that rise; constant needs start_wd = end_wd."},
{"lr_scheduler.wsd_decay_steps", kInt, "", ">=1", kRuns, "Steps of the final decay of style WSD, before lr_decay_steps."},
{"lr_scheduler.lr_wsd_decay_style", kChoice, "exponential", "exponential|linear|cosine|minus_sqrt", kRuns, "Shape of that final decay."},
{"lr_scheduler.use_checkpoint_opt_param_scheduler", kBool, "true", "", kNoCounterpart, "Rates are a function of the step and of the recipe, also on resume."},
{"lr_scheduler.override_opt_param_scheduler", kBool, "false", "", kNoCounterpart, "As above. Not together with the key above."},

{"clip_grad_norm", kSection, "{}", "", kRuns, "Gradient clipping, on also where the section is absent."},
{"clip_grad_norm.max_norm", kNumber, "1.0", ">=0 inf", kRuns, "Largest global L2 norm; 0 or .inf switches clipping off."},

{"loss_fn", kSection, "{}", "", kRuns, "The loss. All the cross entropies below are computed the same way here: in at least fp32, in chunks, on rows that have a label."},
{"loss_fn._target_", kTarget, "nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy", "loss_fn", kRuns, "Loss class."},
{"loss_fn.ignore_index", kInt, "-100", "", kRuns, "Label of rows without loss; -100 only."},
{"loss_fn.reduction", kChoice, "sum", "sum|!mean|!none", kRuns, "The sum is divided by the label tokens of the whole global batch."},
{"loss_fn(MaskedCrossEntropy|KDLoss).fp32_upcast", kBool, "true", "", kNoCounterpart, "The loss is always computed in at least fp32."},
{"loss_fn(ChunkedCrossEntropy).chunk_len", kInt, "32", ">=1", kNoCounterpart, "Rows of logits computed at a time; chosen by size here."},
{"loss_fn(ChunkedCrossEntropy).compile", kBool, "true", "", kNoCounterpart, "torch.compile."},
{"loss_fn(FusedLinearCrossEntropy).logit_softcapping", kNumber, "0", ">=0", kNotYet, "Soft cap of the logits; 0: none."},
{"loss_fn(KDLoss).temperature", kNumber, "1", ">0", kDependent, "Distillation temperature."},
{"loss_fn(KDLoss).chunk_size", kInt, "0", ">=0", kDependent, "Rows at a time."},

{"checkpoint", kSection, "{}", "", kRuns, "What is saved where, and where a run goes on."},
{"checkpoint.enabled", kBool, "true", "", kRuns, "false: nothing but the logs is written."},
{"checkpoint.checkpoint_dir", kString, "checkpoints/", "", kRuns, "Folder of the step folders epoch_E_step_S, of LATEST and of the logs."},
{"checkpoint.model_save_format", kChoice, "safetensors", "safetensors|!torch_save", kRuns, "Format of the weights."},
{"checkpoint.save_consolidated", kChoice, "final", "final|every|true|false|never", kRuns, "When a Hugging Face folder is written under model/consolidated: at the last step, at every checkpoint (every, true) or never (false)."},
{"checkpoint.max_recent_checkpoints", kInt, "null", ">=1", kRuns, "Older step folders are removed, except those LATEST and LOWEST_VAL point to; null keeps all."},
{"checkpoint.restore_from", kString, "null", "", kRuns, "Where the run goes on: a path, the name of a step folder, LATEST or LOWEST_VAL. null: the newest complete one of checkpoint_dir, if there is one."},
{"checkpoint.best_metric_key", kString, "default", "", kRuns, "Validation set whose loss LOWEST_VAL follows."},
{"checkpoint.dequantize_base_checkpoint", kBool, "null", "", kRuns, "true: block-FP8 weights become bf16 while they are read. null: so where the config says they are FP8. false: an error there."},
{"checkpoint.is_async", kBool, "false", "", kNoCounterpart, "Saves in the background."},
{"checkpoint.wait_for_staging", kBool, "false", "", kNoCounterpart, "Belongs to is_async."},
{"checkpoint.cpu_offload", kBool, "false", "", kNoCounterpart, "How AutoModel stages a save."},
{"checkpoint.single_rank_consolidation", kBool, "false", "", kNoCounterpart, "How AutoModel writes the consolidated folder."},
{"checkpoint.staging_dir", kString, "null", "", kNoCounterpart, "Where AutoModel stages a save."},
{"checkpoint.consolidation_timeout_minutes", kNumber, "30", ">0", kNoCounterpart, "Time-out of that."},
{"checkpoint.allow_legacy_pickle_restore", kBool, "false", "", kNoCounterpart, "Python pickles are never read."},
{"checkpoint.original_model_root_dir", kString, "null", "", kNoCounterpart, "Found from model.pretrained_model_name_or_path."},
{"checkpoint.skip_task_head_prefixes_for_base_model", kStrings, "null", "", kNoCounterpart, "For other model classes."},
{"checkpoint.v4_compatible", kBool, "false", "", kNoCounterpart, "Layout of transformers 4."},
{"checkpoint.diffusers_compatible", kBool, "false", "", kNoCounterpart, "For other model classes."},
{"checkpoint.model_cache_dir", kString, "null", "", kNoCounterpart, "Set the environment variable HF_HOME instead."},
{"checkpoint.model_repo_id", kString, "null", "", kNoCounterpart, "Filled in by AutoModel itself."},
{"checkpoint.is_peft", kBool, "false", "", kNoCounterpart, "Filled in by AutoModel itself."},

{"wandb", kOpen, "", "", kNotYet, "Weights & Biases; `enable: false` removes the section, a section without `enable` is on. training.jsonl has the same metrics."},
{"mlflow", kOpen, "", "", kNotYet, "MLflow."},
{"comet", kOpen, "", "", kNotYet, "Comet."},
{"moe_metrics", kSection, "", "", kDependent, "Expert-load metrics of the remote loggers."},
{"moe_metrics.enabled", kBool, "false", "", kNotYet, "Log them."},
{"moe_metrics.mode", kChoice, "brief", "brief|detailed", kDependent, "How many."},
{"moe_metrics.detailed_every_steps", kInt, "null", ">=1", kDependent, "How often."},
{"moe_metrics.top_k_experts", kInt, "null", ">=0", kDependent, "Experts listed one by one."},
{"mfu", kSection, "", "", kRuns, "Peak for the metric mfu; otherwise a table of device names."},
{"mfu.device", kString, "null", "", kNoCounterpart, "Name in that table; set peak_tflops instead."},
{"mfu.peak_tflops", kNumber, "null", ">0", kRuns, "TFLOP/s of one device."},
{"tool_call_eval", kOpen, "", "", kNotYet, "Generates tool calls at validation."},

{"benchmark", kSection, "", "", kDependent, "Settings of the benchmark recipe; ignored, with a warning, by the fine-tuning recipe."},
{"benchmark.warmup_steps", kInt, "required", ">=0", kDependent, "Steps that are not timed."},
{"benchmark.peak_tflops", kNumber, "required", ">0", kDependent, "TFLOP/s of one device."},
{"benchmark.nsys_start", kInt, "required", "", kDependent, "First profiled step; -1: none."},
{"benchmark.nsys_end", kInt, "required", "", kDependent, "Last profiled step."},
{"benchmark.nsys_ranks", kInts, "required", "", kDependent, "Profiled ranks."},
{"benchmark.json_output_path", kString, "null", "", kDependent, "File for the summary."},
{"benchmark.num_nodes", kInt, "null", ">=1", kDependent, "For information."},

{"ci", kOpen, "", "", kIgnored, "For AutoModel's test machines; nothing below it is looked at."},
{"rng", kOpen, "", "", kIgnored, "AutoModel ignores it too: the seed is the top-level `seed`."},
{"longalign", kOpen, "", "", kIgnored, "AutoModel ignores it too."},
{"mtp", kOpen, "", "", kIgnored, "AutoModel's GLM-5 class has no effect of it; MTP tensors are carried through to the saved checkpoint."},
{"skypilot", kOpen, "", "", kNotYet, "Starts the recipe on a cloud. On a cluster use mpirun or srun."},
{"nemo_run", kOpen, "", "", kNotYet, "Starts the recipe through NeMo-Run. On a cluster use mpirun or srun."},
{"teacher_model", kOpen, "", "", kDependent, "Of the distillation recipe."},
{"teacher_distributed", kOpen, "", "", kDependent, "Of the distillation recipe."},
{"offload_teacher_model", kBool, "false", "", kDependent, "Of the distillation recipe."},
{"kd_ratio", kNumber, "0.5", ">=0", kDependent, "Of the distillation recipe."},
{"kd_loss_fn", kOpen, "", "", kDependent, "Of the distillation recipe."},
};
// clang-format on

}  // namespace

std::span<const KeyRow> run_rows() {
  return kRows;
}

}  // namespace glmtune::train
