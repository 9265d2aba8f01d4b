#include "train/recipe_docs.h"

#include <utility>

#include "base/cat.h"
#include "train/schema.h"

namespace glmtune::train {
namespace {

constexpr std::string_view kIntroduction = R"(# The recipe language

This page is generated from the table that parses and checks recipes: `glmtune docs-recipe > docs/recipe.md`.

A recipe is a YAML file in the format of NVIDIA NeMo AutoModel; recipes written for AutoModel's GLM-5 family are taken
unchanged. `glmtune RECIPE.yaml` trains, `glmtune check RECIPE.yaml` only reads it and says what it means.

- **Strict.** An unknown key is an error that names file, line and the nearest known key; a key written twice is an error.
- **Scalars** follow YAML 1.2, and the key decides the type: `1e-5`, `1.0e-5` and `"1e-5"` are the same number, `010` is ten,
  `yes` is a word, and refused without quotes where a key takes anything. `null`, `~` and `none` mean the default, except where a row says what an explicit null does; in quotes they are
  text where text is wanted. A list of numbers may be a tuple of Python's: `0.9, 0.95`.
- **Targets.** `_target_` names are looked up in the table at the end; nothing is imported.
- **Overrides** on the command line: `--a.b.c=value`, `--a.b.c value`, `--a.b.c` (true). Later ones win. Lists are replaced as
  a whole: `--optimizer.betas='[0.9, 0.95]'`. An empty value (`--a.b.c=`, as of a variable that is not set) is an error; an empty
  text is `'""'`.
- **Variables.** `${VAR}`, `${VAR,default}`, `${oc.env:VAR}`, `${oc.env:VAR,default}` and `$VAR` are taken from the environment;
  a missing one without default is an error. What is printed keeps the text before replacement, and what stands under keys that
  hold secrets (password, secret, token, api_key, authorization and the like) is hidden, lists and maps too.

What becomes of a key:

- **runs**: it has its effect. These keys are listed by section below.
- **refused**: read and checked; a run that would need it ends at once with the line `not runnable yet: ...`, `check` says the
  same. Left out, null or at its default it refuses nothing. Words and targets in brackets are refused, too.
- **no effect**: accepted and checked for its type, so that recipes can stay as they are; the row says why it changes nothing.

What a recipe of AutoModel meets here that no row below says:

- A word on the command line that is neither a setting nor the value of one is an error; AutoModel skips it.
- SIGTERM and SIGUSR1 stop a run where the recipe names no `preemption_signal`; AutoModel acts on SIGTERM alone.
- A `checkpoint_dir` with checkpoints of another model, other data or another seed only is refused; AutoModel goes on from checkpoints of
  other data and seeds, and begins anew, with a warning, beside those of another model.
- `training.jsonl` and `validation*.jsonl` hold every step once: lines of an earlier run for steps that are done again move to
  `<log>.superseded`. AutoModel appends to what is there.

A recipe that trains, and nothing it could do without:

```yaml
)";

constexpr std::string_view kMinimal =
    R"(recipe: TrainFinetuneRecipeForNextTokenPrediction
model:
  pretrained_model_name_or_path: build/demo/model      # a folder, or a Hugging Face id
dataset:
  _target_: nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset
  path_or_dataset_id: examples/chat/train.jsonl        # docs/data.md says what a row looks like
optimizer:
  _target_: torch.optim.AdamW
  lr: 1e-4
step_scheduler:
  global_batch_size: 8
  max_steps: 20
packed_sequence:
  packed_sequence_size: 512
checkpoint:
  checkpoint_dir: build/minimal
)";

constexpr std::string_view kAfterMinimal = R"(```

Paths are relative to the working directory, not to the recipe. `recipes/tiny_chat_cpu.yaml` is a longer example,
with a `validation_dataset`: a section like `dataset`, whose loss is measured with every checkpoint. Steps count from 0: the checkpoint
of a run's tenth step is `epoch_E_step_9`. [run_folder.md](run_folder.md) says what a run writes.
)";

// In the order in which a recipe is written.
constexpr std::string_view kUsual[] = {"recipe",
                                       "seed",
                                       "model.pretrained_model_name_or_path",
                                       "model.torch_dtype",
                                       "model.latent_norm_eps",
                                       "dataset._target_",
                                       "dataset.path_or_dataset_id",
                                       "dataset.split",
                                       "dataset.shuffle_seed",
                                       "dataset.seq_length",
                                       "dataset.truncation",
                                       "dataset.chat_template",
                                       "dataset.mask_reasoning_content",
                                       "dataset.mask_empty_think",
                                       "dataset.mask_history",
                                       "dataset.skip_invalid_samples",
                                       "packed_sequence.packed_sequence_size",
                                       "packed_sequence.packing_strategy",
                                       "packed_sequence.cache_dir",
                                       "dataloader.shuffle",
                                       "step_scheduler.global_batch_size",
                                       "step_scheduler.local_batch_size",
                                       "step_scheduler.max_steps",
                                       "step_scheduler.num_epochs",
                                       "step_scheduler.ckpt_every_steps",
                                       "step_scheduler.val_every_steps",
                                       "step_scheduler.save_checkpoint_every_epoch",
                                       "step_scheduler.preemption_signal",
                                       "optimizer._target_",
                                       "optimizer.lr",
                                       "optimizer.betas",
                                       "optimizer.eps",
                                       "optimizer.weight_decay",
                                       "optimizer.master_weights",
                                       "lr_scheduler.lr_decay_style",
                                       "lr_scheduler.lr_warmup_steps",
                                       "lr_scheduler.min_lr",
                                       "clip_grad_norm.max_norm",
                                       "distributed.activation_checkpointing",
                                       "checkpoint.enabled",
                                       "checkpoint.checkpoint_dir",
                                       "checkpoint.save_consolidated",
                                       "checkpoint.max_recent_checkpoints",
                                       "checkpoint.restore_from",
                                       "nonfinite_policy"};

std::string_view type_name(const KeyRow& row) {
  switch (row.type) {
    case KeyType::kBool:
      return "bool";
    case KeyType::kInt:
      return "int";
    case KeyType::kNumber:
      return "number";
    case KeyType::kString:
      return "string";
    case KeyType::kChoice:
      return "choice";
    case KeyType::kDtype:
      return "dtype";
    case KeyType::kTarget:
      return "target";
    case KeyType::kTargetOrSection:
      return "target or map";
    case KeyType::kStringOrList:
      return "string or list";
    case KeyType::kInts:
      return "list of ints";
    case KeyType::kNumbers:
      return "list of numbers";
    case KeyType::kStrings:
      return "list of strings";
    case KeyType::kSection:
      return "map";
    case KeyType::kSections:
      return "list of maps";
    case KeyType::kOpenMap:
      return "map of any keys";
    case KeyType::kOpen:
      return "anything";
  }
  return "";
}

// "a|!b" as "a, (b)".
std::string choices(std::string_view values) {
  std::string out;
  while (!values.empty()) {
    const std::size_t bar = values.find('|');
    std::string_view word = values.substr(0, bar);
    const bool later = word.starts_with('!');
    if (later) word.remove_prefix(1);
    out += cat(out.empty() ? "" : ", ", later ? "(" : "", word, later ? ")" : "");
    if (bar == std::string_view::npos) break;
    values.remove_prefix(bar + 1);
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string default_text(const KeyRow& row) {
  if (row.fallback == "required") return "required";
  if (row.fallback.empty() || row.type == KeyType::kSection) return "";
  return cat("`", row.fallback, "`");
}

// The variants of `dataset(ChatDataset|HellaSwag).split`; empty for keys of all.
std::string variants(std::string_view path) {
  const std::size_t open = path.find('('), close = path.find(')');
  if (open == std::string_view::npos) return "";
  return " (" + choices(path.substr(open + 1, close - open - 1)) + ")";
}

std::string name_of(std::string_view path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    inside = inside || c == '(';
    if (!inside) out += c;
    inside = inside && c != ')';
  }
  return out;
}

std::string top_level(std::string_view path) {
  return std::string(path.substr(0, path.find_first_of(".([")));
}

enum class Effect : std::uint8_t { kRuns, kRefused, kNone };

// What a row's refusal hangs on where it is not the row itself: "`peft`"; empty when nothing does.
std::string refused_with(const KeyRow& row) {
  const std::string name = name_of(row.path);
  for (const KeyRow& above : schema_rows()) {
    const std::string section = name_of(above.path);
    const bool refused = above.status == KeyStatus::kNotYet;
    if (refused && name.starts_with(section + ".")) return cat("`", section, "`");
    // A section with a switch of its own: fp8.enabled.
    if (!refused || !section.ends_with(".enabled")) continue;
    const std::string switched = section.substr(0, section.rfind('.'));
    if (name == switched || (name.starts_with(switched + ".") && name != section))
      return cat("`", section, "`");
  }
  static constexpr std::pair<const char*, const char*> kGates[] = {
      {"distributed.pipeline", "`distributed.pp_size`"},
      {"distributed.moe", "`distributed.ep_size`"},
      {"distributed.tp_plan", "`distributed.tp_size`"},
      {"distributed.enable_async_tensor_parallel", "`distributed.tp_size`"},
      {"benchmark", "the benchmark recipe"},
      {"teacher_", "the distillation recipe"},
      {"kd_", "the distillation recipe"},
      {"loss_fn(KDLoss)", "KDLoss"}};
  for (const auto& [prefix, gate] : kGates)
    if (row.path.starts_with(prefix)) return gate;
  return "";
}

Effect effect_of(const KeyRow& row) {
  if (row.status == KeyStatus::kNotYet) return Effect::kRefused;
  if (row.status == KeyStatus::kRuns) return Effect::kRuns;
  if (row.status != KeyStatus::kDependent || refused_with(row).empty()) return Effect::kNone;
  return Effect::kRefused;
}

std::string status_text(const KeyRow& row) {
  if (row.status == KeyStatus::kIgnored) return "no effect, warned of";
  switch (effect_of(row)) {
    case Effect::kRuns:
      return "runs";
    case Effect::kRefused:
      return row.status == KeyStatus::kNotYet ? "refused" : cat("refused with ", refused_with(row));
    case Effect::kNone:
      return "no effect";
  }
  return "";
}

std::string type_text(const KeyRow& row) {
  if (row.type == KeyType::kChoice || (row.type == KeyType::kDtype && !row.values.empty()))
    return choices(row.values);
  if (row.type == KeyType::kStrings && !row.values.empty())
    return cat("list of: ", choices(row.values));
  return std::string(type_name(row));
}

std::string key_cells(const KeyRow& row) {
  return cat("| `", name_of(row.path), "`", variants(row.path), " | ", escaped(type_text(row)),
             " | ", escaped(default_text(row)));
}

bool is_section(const KeyRow& row) {
  return row.type == KeyType::kSection || row.type == KeyType::kSections;
}

constexpr std::string_view kHead = "| key | type | default | meaning |\n|---|---|---|---|\n";
constexpr std::string_view kStatusHead =
    "| key | type | default | status | meaning |\n|---|---|---|---|---|\n";

std::string usual_keys() {
  std::string out = cat("\n## The usual keys\n\n", kHead);
  for (const std::string_view name : kUsual)
    for (const KeyRow& row : schema_rows())
      if (name_of(row.path) == name && effect_of(row) == Effect::kRuns) {
        out += cat(key_cells(row), " | ", escaped(row.doc), " |\n");
        break;
      }
  return out;
}

// The keys that run, each top-level section with a heading of its own.
std::string running_keys() {
  std::string single, sections, table, heading;
  const auto close = [&] {
    if (!table.empty()) sections += cat(heading, kHead, table);
    table.clear();
  };
  std::string last;
  for (const KeyRow& row : schema_rows()) {
    const std::string top = top_level(row.path);
    const bool opens = is_section(row) && row.path == top;
    if (opens) {
      close();
      heading = cat("\n### `", top, "`\n\n", row.doc, "\n\n");
      last = top;
    }
    if (opens || effect_of(row) != Effect::kRuns) continue;
    (top == last ? table : single) += cat(key_cells(row), " | ", escaped(row.doc), " |\n");
  }
  close();
  return cat("\n## Every key that runs\n\n### Outside sections\n\n", kHead, single, sections);
}

std::string keys_without(Effect effect) {
  std::string out(kStatusHead);
  for (const KeyRow& row : schema_rows())
    if (effect_of(row) == effect)
      out += cat(key_cells(row), " | ", status_text(row), " | ", escaped(row.doc), " |\n");
  return out;
}

std::string targets() {
  std::string out =
      "\n## Targets\n\nThose in brackets are accepted by `check` and refused by a run.\n\n"
      "| where | known |\n|---|---|\n";
  std::string group;
  for (const TargetRow& target : schema_targets()) {
    const bool next = target.group != group;
    if (next) out += cat(group.empty() ? "" : " |\n", "| ", target.group, " | ");
    out += cat(next ? "" : ", ", target.runs ? "`" : "(`", target.path, target.runs ? "`" : "`)");
    group = target.group;
  }
  return out + " |\n";
}

}  // namespace

std::string_view minimal_recipe() {
  return kMinimal;
}

std::string recipe_docs() {
  return cat(kIntroduction, kMinimal, kAfterMinimal, usual_keys(), running_keys(),
             "\n## Refused by a run\n\nRead and checked, so that `check` can plan with them.\n\n",
             keys_without(Effect::kRefused),
             "\n## Accepted without effect\n\nWhat recipes of AutoModel say that nothing here ",
             "corresponds to, or that one rank has no use for.\n\n", keys_without(Effect::kNone),
             targets());
}

}  // namespace glmtune::train
