// Rows: data sets, loaders, packing; and the table of targets.
#include "train/schema_rows.h"

namespace glmtune::train {
namespace {

using enum KeyType;
using enum KeyStatus;

// clang-format off
constexpr KeyRow kRows[] = {
{"dataset", kSection, "required", "", kRuns, "Training data; `_target_` chooses the kind. validation_dataset and validation_dataset_NAME take the same keys."},
{"dataset._target_", kTarget, "required", "dataset", kRuns, "Kind of data set."},
{"dataset(ChatDataset).path_or_dataset_id", kStringOrList, "required", "", kRuns, "Chat rows (`messages`): json, jsonl or parquet files, folders of them, or a Hugging Face id, fetched where the local cache lacks it."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset).name", kString, "null", "", kRuns, "Subset of a Hugging Face data set: a config_name of its card (README.md), else a folder of that name in it."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|HellaSwag|make_squad_dataset).revision", kString, "main", "", kRuns, "Branch, tag or commit of a Hugging Face data set. A key of glmtune."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|HellaSwag|make_squad_dataset).split", kString, "train", "", kRuns, "Part of the data: train, train[:1000], train[10%:20%], train[-5:]. The shuffle happens before the slice, for local files too."},
{"dataset(ChatDataset).shuffle_seed", kInt, "null", ">=0", kRuns, "Shuffles the rows before the split's slice; null: the order of the files."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|make_squad_dataset).seq_length", kInt, "null", ">=1", kRuns, "Longest sample in tokens, see truncation; null: the pack's size."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|make_squad_dataset).truncation", kChoice, "false", "true|false|do_not_truncate|longest_first|only_first|drop|error", kRuns, "Samples longer than seq_length are cut at the end (true), kept unless they exceed the pack (false), left out and counted (drop), or end the run (error). The last two are values of glmtune."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|make_squad_dataset).padding", kChoice, "false", "true|false|do_not_pad|max_length|longest", kNoCounterpart, "There is no padding here."},
{"dataset(ChatDataset|make_squad_dataset).chat_template", kString, "null", "", kRuns, "Another chat template than the model's: the template itself, a file with it, or a json file that has it under chat_template."},
{"dataset(ChatDataset).chat_template_kwargs", kOpenMap, "{}", "", kRuns, "More variables for the template, such as enable_thinking. A key of glmtune."},
{"dataset(ChatDataset).start_of_turn_token", kString, "null", "", kNoCounterpart, "Turns are found by the template's own structure."},
{"dataset(ChatDataset).mask_reasoning_content", kBool, "false", "", kRuns, "Reasoning (the message's reasoning field with the tags around it, or <think>...</think> at the begin of an answer) is shown to the model but not trained on. Tags with nothing between them: mask_empty_think."},
{"dataset(ChatDataset).mask_history", kBool, "false", "", kRuns, "Only the last assistant turn is trained on."},
{"dataset(ChatDataset).mask_empty_think", kBool, "false", "", kRuns, "Think tags with nothing between them are not trained on. A key of glmtune."},
{"dataset(ChatDataset).supervise_role_header", kBool, "false", "", kRuns, "Also trains on the role marker that the prompt gives the model for free; true reproduces AutoModel. Without effect (and a note) where the chat template has generation blocks. A key of glmtune."},
{"dataset(ChatDataset).supervise_next_role", kBool, "true", "", kRuns, "Trains on the role marker that ends an assistant turn, in templates without an end token: it is the stop. Without effect where the chat template has generation blocks. A key of glmtune."},
{"dataset(ChatDataset).supervise_last_stop", kBool, "true", "", kRuns, "Gives the last turn's final position its stop as a label, without an input token, where the template renders none there; no effect on role markers when supervise_next_role is false, nor where the chat template has generation blocks. A key of glmtune."},
{"dataset(ChatDataset).allow_control_tokens", kBool, "false", "", kRuns, "Text in messages that spells a control token becomes that token. A key of glmtune."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|HellaSwag|make_squad_dataset).skip_invalid_samples", kBool, "false", "", kRuns, "Bad rows are left out and counted instead of ending the run, which otherwise names file, line and reason. For other kinds than ChatDataset a key of glmtune."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|HellaSwag|make_squad_dataset).max_dropped_fraction", kNumber, "0.5", ">=0", kRuns, "More rows than this share left out end the run. A key of glmtune."},
{"dataset(ChatDataset).unshifted", kBool, "false", "", kIgnored, "Labels are shifted exactly once here, also with true. It is meant for models that shift inside; AutoModel's fine-tuning recipe, whose loss shifts nothing, would train each position on its own token."},
{"dataset(HellaSwag).path_or_dataset", kStringOrList, "required", "", kRuns, "Files, or a Hugging Face id, fetched where the local cache lacks it."},
{"dataset(HellaSwag).num_samples_limit", kInt, "null", ">=1", kRuns, "At most so many rows."},
{"dataset(HellaSwag).pad_to_max_length", kBool, "true", "", kNoCounterpart, "There is no padding here."},
{"dataset(make_squad_dataset).dataset_name", kStringOrList, "squad", "", kRuns, "Files, or a Hugging Face id, fetched where the local cache lacks it."},
{"dataset(ColumnMappedTextInstructionDataset|make_squad_dataset).limit_dataset_samples", kInt, "null", ">=1", kRuns, "At most so many rows."},
{"dataset(make_squad_dataset).fp8", kBool, "false", "", kNoCounterpart, "Pads for FP8 kernels."},
{"dataset(ColumnMappedTextInstructionDataset).path_or_dataset_id", kStringOrList, "required", "", kRuns, "Files, or a Hugging Face id, fetched where the local cache lacks it."},
{"dataset(ColumnMappedTextInstructionDataset).column_mapping", kOpenMap, "required", "", kRuns, "Columns by role: context, question, answer. answer is needed."},
{"dataset(ColumnMappedTextInstructionDataset).answer_only_loss_mask", kBool, "true", "", kRuns, "Trains on the answer only."},
{"dataset(ColumnMappedTextInstructionDataset).use_hf_chat_template", kBool, "false", "", kRuns, "Renders the columns as a chat."},
{"dataset(MockIterableDataset).vocab_size", kInt, "1024", ">=1", kRuns, "Ids are below this. The benchmark recipe takes the model's."},
{"dataset(MockIterableDataset).seq_len", kInt, "1024", ">=1", kRuns, "Tokens of a sample."},
{"dataset(MockIterableDataset).num_samples", kInt, "1000000", ">=1", kRuns, "Samples of an epoch."},
{"dataset(MockIterableDataset).batch_size", kInt, "1", ">=1", kNoCounterpart, "step_scheduler.local_batch_size decides."},
{"dataset(PretokenizedDataset).path", kString, "required", "", kRuns, "safetensors file with input_ids [B, S] or [T], labels or shifted_labels, and cu_seqlens for packed rows. Rows come in order and repeat. A key of glmtune."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|HellaSwag|make_squad_dataset).tokenizer", kSection, "", "", kRuns, "Another tokenizer than the model's."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|HellaSwag|make_squad_dataset).tokenizer._target_", kTarget, "transformers.AutoTokenizer.from_pretrained", "tokenizer", kRuns, "How it is found."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|HellaSwag|make_squad_dataset).tokenizer.pretrained_model_name_or_path", kString, "required", "", kRuns, "Folder with tokenizer.json, or a Hugging Face id."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|HellaSwag|make_squad_dataset).tokenizer.revision", kString, "null", "", kRuns, "Branch, tag or commit of that id. Default: model.revision where the id is the model's, else main."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|HellaSwag|make_squad_dataset).tokenizer.trust_remote_code", kBool, "false", "", kNoCounterpart, "No code is ever taken from a checkpoint."},
{"dataset(ChatDataset|ColumnMappedTextInstructionDataset|HellaSwag|make_squad_dataset).tokenizer.use_fast", kBool, "true", "", kNoCounterpart, "There is one tokenizer here."},

{"packed_sequence", kSection, "{}", "", kRuns, "Several documents in one row; documents never see each other and positions restart."},
{"packed_sequence.packed_sequence_size", kInt, "0", ">=0", kRuns, "Tokens of a pack; 0: a sample is a row of its own length."},
{"packed_sequence.packing_strategy", kChoice, "thd", "thd|neat", kRuns, "thd: next fit in sample order. neat: best fit."},
{"packed_sequence.max_packs", kInt, "null", ">=1", kRuns, "At most so many packs."},
{"packed_sequence.drop_long_samples", kBool, "true", "", kRuns, "A sample longer than the pack is left out and counted (true) or an error (false)."},
{"packed_sequence.cache_dir", kString, "null", "", kRuns, "Folder that keeps the tokenised packs, by content: made once, then read by all ranks, runs and resumes; null: made anew. A key of glmtune."},
{"packed_sequence.prepacked", kBool, "false", "", kRuns, "The rows of the data set (json, jsonl or parquet) are packs already: input_ids, labels (shifted, -100: none) and, for several documents, seq_lens, with seq_lens_padded where each is padded. Padding is left out."},
{"packed_sequence.num_proc", kInt, "1", ">=1", kNoCounterpart, "Tokenising uses all cores."},
{"packed_sequence.split_across_pack", kBool, "", "", kIgnored, "Documents are never split."},

{"dataloader", kSection, "{}", "", kRuns, "Order of the samples. validation_dataloader takes the same keys and serves all validation sets; these are evaluated whole, in their own order, so that only batch_size has an effect there."},
{"dataloader._target_", kTarget, "torchdata.stateful_dataloader.StatefulDataLoader", "dataloader", kRuns, "Without effect: the position is always part of a checkpoint."},
{"dataloader.shuffle", kBool, "", "", kRuns, "A new order in every epoch, from the seed; the same for any number of ranks. Default: true as in AutoModel, false for mock and pretokenised data."},
{"dataloader.drop_last", kBool, "false", "", kRuns, "Leaves out an epoch's last global batch when it is incomplete; otherwise it is one smaller step."},
{"dataloader.batch_size", kInt, "null", ">=1 null", kRuns, "Samples of a validation batch; null: local_batch_size. Training always takes step_scheduler.local_batch_size, and another number here is warned about: AutoModel would fill its micro-batches with so many."},
{"dataloader.collate_fn", kTargetOrSection, "", "collate_fn", kNoCounterpart, "How rows become a batch; here rows keep their own length, with document bounds."},
{"dataloader.collate_fn._target_", kTarget, "", "collate_fn", kNoCounterpart, "The function."},
{"dataloader.collate_fn.pad_seq_len_divisible", kInt, "null", ">=1", kNoCounterpart, "There is no padding here."},
{"dataloader.group_by_length", kBool, "false", "", kRuns, "Deals a global batch's samples (packs) longest first, so that those of a micro-batch, and of the micro-batches that ranks run side by side, are of similar length. Which samples make up a step, and so what it learns, stays as without it: shuffle, drop_last and a resume mean the same (docs/decisions/0012). AutoModel sorts the whole data set by length, and shuffles groups of it whatever shuffle says."},
{"dataloader.shuffle_buffer_size", kInt, "10000", ">=1", kNoCounterpart, "For data sets without a length."},
{"dataloader.num_workers", kInt, "0", ">=0", kNoCounterpart, "Python processes."},
{"dataloader.pin_memory", kBool, "false", "", kNoCounterpart, "Host memory of batches."},
{"dataloader.persistent_workers", kBool, "false", "", kNoCounterpart, "Python processes."},
{"dataloader.prefetch_factor", kInt, "null", ">=1", kNoCounterpart, "Python processes."},
{"dataloader.dataloader_type", kString, "null", "", kNoCounterpart, "For other data sets."},
};

constexpr TargetRow kTargets[] = {
{"recipe", "TrainFinetuneRecipeForNextTokenPrediction", "finetune", true},
{"recipe", "nemo_automodel.recipes.llm.train_ft.TrainFinetuneRecipeForNextTokenPrediction", "finetune", true},
{"recipe", "BenchmarkingRecipeForNextTokenPrediction", "benchmark", false},
{"recipe", "nemo_automodel.recipes.llm.benchmark.BenchmarkingRecipeForNextTokenPrediction", "benchmark", false},
{"recipe", "KnowledgeDistillationRecipeForNextTokenPrediction", "distillation", false},
{"recipe", "nemo_automodel.recipes.llm.kd.KnowledgeDistillationRecipeForNextTokenPrediction", "distillation", false},
{"model", "nemo_automodel.NeMoAutoModelForCausalLM.from_pretrained", "from_pretrained", true},
{"model", "nemo_automodel.NeMoAutoModelForCausalLM.from_config", "from_config", true},
{"model", "nemo_automodel._transformers.auto_model.NeMoAutoModelForCausalLM.from_pretrained", "from_pretrained", true},
{"model", "nemo_automodel._transformers.auto_model.NeMoAutoModelForCausalLM.from_config", "from_config", true},
{"model.config", "transformers.AutoConfig.from_pretrained", "AutoConfig", true},
{"model.backend", "nemo_automodel.components.models.common.BackendConfig", "BackendConfig", true},
{"model.backend", "nemo_automodel.components.models.common.utils.BackendConfig", "BackendConfig", true},
{"tokenizer", "transformers.AutoTokenizer.from_pretrained", "AutoTokenizer", true},
{"tokenizer", "nemo_automodel.NeMoAutoTokenizer.from_pretrained", "AutoTokenizer", true},
{"tokenizer", "nemo_automodel._transformers.auto_tokenizer.NeMoAutoTokenizer.from_pretrained", "AutoTokenizer", true},
{"optimizer", "torch.optim.Adam", "Adam", true},
{"optimizer", "torch.optim.AdamW", "AdamW", true},
{"optimizer", "transformer_engine.pytorch.optimizers.FusedAdam", "FusedAdam", true},
{"optimizer", "transformer_engine.pytorch.optimizers.fused_adam.FusedAdam", "FusedAdam", true},
{"loss_fn", "nemo_automodel.components.loss.masked_ce.MaskedCrossEntropy", "MaskedCrossEntropy", true},
{"loss_fn", "nemo_automodel.components.loss.chunked_ce.ChunkedCrossEntropy", "ChunkedCrossEntropy", true},
{"loss_fn", "nemo_automodel.components.loss.linear_ce.FusedLinearCrossEntropy", "FusedLinearCrossEntropy", true},
{"loss_fn", "nemo_automodel.components.loss.te_parallel_ce.TEParallelCrossEntropy", "TEParallelCrossEntropy", true},
{"loss_fn", "nemo_automodel.components.loss.kd_loss.KDLoss", "KDLoss", false},
{"dataset", "nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset", "ChatDataset", true},
{"dataset", "nemo_automodel.components.datasets.llm.hellaswag.HellaSwag", "HellaSwag", true},
{"dataset", "nemo_automodel.components.datasets.llm.squad.make_squad_dataset", "make_squad_dataset", true},
{"dataset", "nemo_automodel.components.datasets.llm.column_mapped_text_instruction_dataset.ColumnMappedTextInstructionDataset", "ColumnMappedTextInstructionDataset", true},
{"dataset", "nemo_automodel.components.datasets.llm.mock_iterable_dataset.MockIterableDataset", "MockIterableDataset", true},
{"dataset", "glmtune.PretokenizedDataset", "PretokenizedDataset", true},
{"dataloader", "torchdata.stateful_dataloader.StatefulDataLoader", "StatefulDataLoader", true},
{"dataloader", "torch.utils.data.DataLoader", "DataLoader", true},
{"collate_fn", "nemo_automodel.components.datasets.utils.default_collater", "default_collater", true},
{"collate_fn", "nemo_automodel.components.datasets.utils.packed_sequence_thd_collater", "packed_sequence_thd_collater", true},
{"collate_fn", "default", "default", true},
{"peft", "nemo_automodel.components._peft.lora.PeftConfig", "PeftConfig", true},
{"rng", "nemo_automodel.components.training.rng.StatefulRNG", "StatefulRNG", true},
{"mp_policy", "torch.distributed.fsdp.MixedPrecisionPolicy", "MixedPrecisionPolicy", true},
{"offload_policy", "torch.distributed.fsdp.CPUOffloadPolicy", "CPUOffloadPolicy", true},
};
// clang-format on

}  // namespace

std::span<const KeyRow> data_rows() {
  return kRows;
}

std::span<const TargetRow> schema_targets() {
  return kTargets;
}

std::span<const KeyRow> schema_rows() {
  static const std::vector<KeyRow> rows = [] {
    std::vector<KeyRow> all;
    for (const auto part : {run_rows(), model_rows(), data_rows()})
      all.insert(all.end(), part.begin(), part.end());
    return all;
  }();
  return rows;
}

}  // namespace glmtune::train
