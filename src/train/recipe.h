#pragma once
// Recipe: everything a recipe file and the command line settle, typed, with the recipe language's
// defaults (docs/recipe.md). read_recipe() is the only way in; each member is one consumer's
// settings.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "data/settings.h"
#include "io/json.h"
#include "tensor/dtype.h"
#include "train/lr_schedule.h"
#include "train/step_scheduler.h"

namespace glmtune::train {

enum class RecipeKind : std::uint8_t { kFinetune, kBenchmark, kDistillation };

// Native: dense for short documents, selected keys beyond (docs/recipe.md, model.backend.attn).
// Dense: always the dense kernels, with a selection mask where the model selects.
enum class AttentionBackend : std::uint8_t { kNative, kDense };

// model.backend. Names of vendor libraries choose a numerics class, not a library.
struct BackendSettings {
  AttentionBackend attn = AttentionBackend::kNative;
  std::string attn_name;  // as the recipe spells it, for the log line; empty: absent
  bool fake_balanced_gate = false;
  double fake_gate_noise = 0;
  bool strict_backend = false;  // a fallback to another kernel is an error
  // With gradient accumulation: reduce over ranks once a step instead of once a micro-batch.
  bool enable_fsdp_optimizations = false;
};

struct ModelSettings {
  std::string pretrained_model_name_or_path;  // folder or hub id, as written
  std::string place;                          // "recipe.yaml:12: KEY", begins its errors
  std::string revision = "main";              // branch, tag or commit of a hub id
  bool from_config = false;                   // random weights of that config's shape
  std::optional<DType> torch_dtype;           // storage and compute; none: the checkpoint's own
  double latent_norm_eps = 1e-5;              // of q_a_layernorm and kv_a_layernorm
  double gate_bias_update_factor = 0;         // sign rule of e_score_correction_bias; 0: fixed
  BackendSettings backend;
};

enum class ActivationCheckpointing : std::uint8_t { kOff, kFull, kSelective };

struct PipelineSettings {
  std::string schedule = "1f1b";
  std::int64_t microbatch_size = 1;
  std::optional<std::int64_t> layers_per_stage;
  std::string round_virtual_stages;  // "", "up" or "down"
  std::optional<std::int64_t> seq_len;
};

// Section distributed (and dist_env.timeout_minutes). Sizes as written, 1 where absent.
struct DistributedSettings {
  std::string strategy = "fsdp2";
  std::optional<std::int64_t> dp_size;            // none: world / (tp · cp · pp)
  std::optional<std::int64_t> dp_replicate_size;  // none: 1
  std::int64_t tp_size = 1, pp_size = 1, cp_size = 1, ep_size = 1;
  bool sequence_parallel = false;
  ActivationCheckpointing activation_checkpointing = ActivationCheckpointing::kOff;
  bool reshard_after_forward = false;      // of the dense blocks
  bool moe_reshard_after_forward = false;  // of the experts
  std::optional<DType> param_dtype;        // mp_policy: compute in another type than storage
  std::optional<PipelineSettings> pipeline;
  double timeout_minutes = 1;
};

// dataloader; what it says about packing stands in DatasetEntry::packing.
struct DataloaderSettings {
  bool shuffle = false;
  bool drop_last = false;
  bool group_by_length = false;            // within a global batch, the longest samples first
  std::optional<std::int64_t> batch_size;  // none: step_scheduler.local_batch_size
};

// One data set. Sources are as written: the paths inside `settings` are the same words, so a hub
// id must be replaced by the files it stands for before the data set is opened.
struct DatasetEntry {
  std::string key;                   // "dataset", "validation_dataset_math": for messages
  std::string name;                  // "" training, "default" or "math" validation
  std::string target;                // "ChatDataset"
  std::vector<std::string> sources;  // files, folders or one hub id; empty: mock data
  // "recipe.yaml:12: KEY" of the section, the sources and the tokenizer; begin errors.
  std::string place, sources_place, tokenizer_place;
  std::string revision = "main";  // branch, tag or commit of a hub data set
  std::string subset;             // of a hub data set; empty: the only one
  std::string tokenizer;          // folder or hub id; empty: the model's
  std::string tokenizer_revision = "main";
  data::DatasetSettings settings;
  data::PackingSettings packing;
};

enum class OptimizerKind : std::uint8_t { kAdam, kAdamW };  // coupled, decoupled weight decay
// How parameters of lower precision are updated. kFp32: an exact fp32 master (bf16 weight + 16-bit
// remainder) and fp32 moments. kBf16: no master, moments in the types named below.
enum class MasterWeights : std::uint8_t { kFp32, kBf16 };

struct ParamGroupOverride {
  std::string pattern;  // regular expression searched in the parameter's name
  double lr_mult = 1, wd_mult = 1;
};

struct OptimizerSettings {
  OptimizerKind kind = OptimizerKind::kAdam;
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0;
  bool bias_correction = true;
  MasterWeights master_weights = MasterWeights::kFp32;
  bool stochastic_rounding = false;   // of bf16 weights without a master
  bool round_each_operation = false;  // as torch.optim on bf16 tensors: ops::Adam
  DType exp_avg_dtype = DType::kF32, exp_avg_sq_dtype = DType::kF32;
  std::vector<ParamGroupOverride> overrides;  // the first that matches a name applies
};

// Label id without loss; cross entropy is summed in at least fp32 whatever the recipe's loss_fn.
struct LossSettings {
  std::string name = "MaskedCrossEntropy";
  std::int64_t ignore_index = -100;
  std::optional<std::int64_t> chunk_len;  // rows of logits at a time; none: chosen by size
};

enum class SaveConsolidated : std::uint8_t { kNever, kFinal, kEvery };

struct CheckpointSettings {
  bool enabled = true;
  std::string checkpoint_dir = "checkpoints/";  // logs go here also when not enabled
  SaveConsolidated save_consolidated = SaveConsolidated::kFinal;
  std::optional<std::int64_t> max_recent_checkpoints;  // none: all are kept
  std::string restore_from;  // empty: newest complete one; path, folder name, LATEST, LOWEST_VAL
  std::string best_metric_key = "default";
  // Dequantise an FP8 checkpoint while loading; none: where its config asks for it.
  std::optional<bool> dequantize_base_checkpoint;
};

// Which modules get adapters, and how large these are (AutoModel's PeftConfig).
struct LoraSettings {
  std::vector<std::string> target_modules = {};   // "*" is any text; none of the three: *_proj
  std::vector<std::string> exclude_modules = {};  // all other linear modules
  bool match_all_linear = false;
  std::int64_t dim = 8;
  bool use_dora = false;
  bool moe_rank_scaling = false;    // experts: dim / num_experts_per_tok
  std::optional<DType> dtype = {};  // of A and B; none: the weight's
};

enum class NonfinitePolicy : std::uint8_t { kStop, kSkip };

struct Recipe {
  RecipeKind kind = RecipeKind::kFinetune;
  std::string path;  // of the file, for messages
  std::uint64_t seed = 42;
  ModelSettings model;
  StepSchedulerSettings step_scheduler;
  DistributedSettings distributed;
  DatasetEntry dataset;
  std::vector<DatasetEntry> validation_datasets;
  DataloaderSettings dataloader;
  DataloaderSettings validation_dataloader;
  OptimizerSettings optimizer;
  std::optional<LrScheduleSettings> lr_scheduler;  // none: constant
  LossSettings loss;
  double max_grad_norm = 1;  // 0 or infinity: no clipping
  CheckpointSettings checkpoint;
  NonfinitePolicy nonfinite_policy = NonfinitePolicy::kStop;
  std::optional<LoraSettings> peft;   // none: full fine-tuning
  std::optional<double> peak_tflops;  // mfu: of one device
  std::string mfu_device;             // mfu: a name in the table of peaks
  std::string yaml;                   // the recipe as run, with overrides: config.yaml
  io::Value settings;                 // resolved_keys(): every dotted key, without secrets
};

}  // namespace glmtune::train
