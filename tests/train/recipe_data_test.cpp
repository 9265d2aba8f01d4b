// The recipe's data sections: data sets, loaders, packing.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "support/temp_folder.h"
#include "train/recipe_support.h"

namespace glmtune::train {
namespace {

TEST(RecipeData, DataSettingsArriveTyped) {
  const RecipeFile file =
      small({"--dataset.split=train[:10]", "--dataset.shuffle_seed=7", "--dataset.truncation=true",
             "--dataset.seq_length=64", "--dataset.supervise_next_role=false",
             "--dataset.chat_template_kwargs={enable_thinking: false}", "--dataset.name=en",
             "--dataset.tokenizer.pretrained_model_name_or_path=/tok",
             "--packed_sequence.packed_sequence_size=128", "--dataloader.shuffle=true",
             "--dataset.path_or_dataset_id=[a.jsonl, b.jsonl]", "--seed=9"});
  const DatasetEntry& entry = file.recipe.dataset;
  EXPECT_EQ(entry.target, "ChatDataset");
  EXPECT_EQ(entry.sources, (std::vector<std::string>{"a.jsonl", "b.jsonl"}));
  EXPECT_EQ(entry.subset, "en");
  EXPECT_EQ(entry.tokenizer, "/tok");
  EXPECT_EQ(entry.packing.packed_sequence_size, 128);
  EXPECT_TRUE(entry.packing.shuffle);
  EXPECT_EQ(entry.packing.seed, 9u);
  const auto& chat = std::get<data::ChatSettings>(entry.settings);
  EXPECT_EQ(chat.rows.split, "train[:10]");
  EXPECT_EQ(chat.rows.shuffle_seed, 7u);
  EXPECT_EQ(chat.too_long, data::TooLong::kTruncate);
  EXPECT_EQ(chat.seq_length, 64);
  EXPECT_FALSE(chat.supervise_next_role);
  EXPECT_TRUE(chat.supervise_last_stop);
  EXPECT_EQ(chat.chat_template_kwargs.find("enable_thinking")->as_bool(), false);
}

// AutoModel shuffles map-style data unless told otherwise.
TEST(RecipeData, DataAreShuffledByDefaultUnlessTheyComeInOrder) {
  EXPECT_TRUE(small().recipe.dataloader.shuffle);
  EXPECT_TRUE(small().recipe.dataset.packing.shuffle);
  EXPECT_FALSE(small({"--dataloader.shuffle=false"}).recipe.dataloader.shuffle);
  const Recipe mock =
      parse(
          "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
          "model: {pretrained_model_name_or_path: m}\noptimizer: {_target_: torch.optim.Adam}\n"
          "dataset: {_target_: nemo_automodel.components.datasets.llm.mock_iterable_dataset."
          "MockIterableDataset}\n")
          .recipe;
  EXPECT_FALSE(mock.dataloader.shuffle);
}

// recipes.md 1.6, with glmtune's words for samples that are too long (user_reports.md 15).
TEST(RecipeData, TruncationWords) {
  const auto policy = [](const char* word) {
    return std::get<data::ChatSettings>(
               small({std::string("--dataset.truncation=") + word}).recipe.dataset.settings)
        .too_long;
  };
  for (const char* word : {"true", "True", "longest_first", "only_first"})
    EXPECT_EQ(policy(word), data::TooLong::kTruncate) << word;
  for (const char* word : {"false", "do_not_truncate", "null"})
    EXPECT_EQ(policy(word), data::TooLong::kKeep) << word;
  EXPECT_EQ(policy("drop"), data::TooLong::kDrop);
  EXPECT_EQ(policy("error"), data::TooLong::kError);
}

TEST(RecipeData, SeveralValidationSetsByName) {
  const std::string set =
      ":\n  _target_: nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset\n"
      "  path_or_dataset_id: v.jsonl\n"
      "  tokenizer: {pretrained_model_name_or_path: /t}\n";
  const RecipeFile file =
      parse(kSmallRecipe + ("validation_dataset" + set) + "validation_dataset_math" + set +
            "validation_dataset-code" + set + "validation_dataset.law" + set);
  ASSERT_EQ(file.recipe.validation_datasets.size(), 4u);
  EXPECT_EQ(file.recipe.validation_datasets[0].name, "default");
  EXPECT_EQ(file.recipe.validation_datasets[1].name, "math");
  EXPECT_EQ(file.recipe.validation_datasets[2].name, "code");
  EXPECT_EQ(file.recipe.validation_datasets[3].name, "law");
  EXPECT_EQ(file.recipe.validation_datasets[3].key, "validation_dataset.law");
}

TEST(RecipeData, EveryDataSetKindIsBuilt) {
  const std::string llm = "--dataset._target_=nemo_automodel.components.datasets.llm.";
  const std::string head =
      "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
      "model: {pretrained_model_name_or_path: m}\noptimizer: {_target_: torch.optim.Adam}\n"
      "step_scheduler: {max_steps: 1}\n";
  const auto entry = [&](const std::vector<std::string>& arguments) {
    return parse(head, arguments).recipe.dataset;
  };
  EXPECT_EQ(std::get<data::HellaSwagSettings>(
                entry({llm + "hellaswag.HellaSwag", "--dataset.path_or_dataset=rowan/hellaswag",
                       "--dataset.num_samples_limit=64"})
                    .settings)
                .rows.limit,
            64);
  EXPECT_EQ(std::get<data::SquadSettings>(entry({llm + "squad.make_squad_dataset"}).settings).paths,
            (std::vector<std::string>{"squad"}));
  EXPECT_EQ(std::get<data::MockSettings>(
                entry({llm + "mock_iterable_dataset.MockIterableDataset"}).settings)
                .num_samples,
            1000000);
  const std::string mapped =
      "column_mapped_text_instruction_dataset.ColumnMappedTextInstructionDataset";
  EXPECT_EQ(std::get<data::ColumnMappedSettings>(
                entry({llm + mapped, "--dataset.path_or_dataset_id=x.jsonl",
                       "--dataset.column_mapping={question: q, answer: a}"})
                    .settings)
                .column_mapping.size(),
            2u);
  EXPECT_EQ(
      std::get<data::PretokenizedSettings>(
          entry({"--dataset._target_=glmtune.PretokenizedDataset", "--dataset.path=r.st"}).settings)
          .path,
      "r.st");
}

// recipes.md 1.6: make_squad_dataset and ColumnMappedTextInstructionDataset.
TEST(RecipeData, TextDataHaveALimitAndAChatForm) {
  const std::string llm = "--dataset._target_=nemo_automodel.components.datasets.llm.";
  const std::string head =
      "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
      "model: {pretrained_model_name_or_path: m}\noptimizer: {_target_: torch.optim.Adam}\n";
  const auto squad = [&](const std::string& more) {
    return std::get<data::SquadSettings>(
        parse(head, {llm + "squad.make_squad_dataset", more}).recipe.dataset.settings);
  };
  EXPECT_EQ(squad("--dataset.limit_dataset_samples=5").rows.limit, 5);
  EXPECT_TRUE(squad("--dataset.seq_length=9").use_chat_template);
  EXPECT_EQ(squad("--dataset.chat_template='{{ messages }}'").chat_template, "{{ messages }}");
  const auto mapped = [&](const std::string& more) {
    return std::get<data::ColumnMappedSettings>(
        parse(head, {llm + "column_mapped_text_instruction_dataset."
                           "ColumnMappedTextInstructionDataset",
                     "--dataset.path_or_dataset_id=x.jsonl",
                     "--dataset.column_mapping={question: q, answer: a}", more})
            .recipe.dataset.settings);
  };
  EXPECT_EQ(mapped("--dataset.limit_dataset_samples=7").rows.limit, 7);
  EXPECT_TRUE(mapped("--dataset.use_hf_chat_template").use_hf_chat_template);
  EXPECT_FALSE(mapped("--dataset.answer_only_loss_mask=false").answer_only_loss_mask);
}

TEST(RecipeData, ASplitThatSelectsNothingInAFileIsSaid) {
  const TempFolder temp;
  for (const char* name : {"train.jsonl", "my_val.jsonl"}) std::ofstream(temp / name) << "{}\n";
  const auto said = [&](const std::string& file, const std::string& split) {
    std::string all;
    for (const std::string& warning :
         small({"--dataset.path_or_dataset_id=" + file, "--dataset.split=" + split})
             .checked.warnings)
      all += warning;
    return all;
  };
  EXPECT_TRUE(contains(said(temp / "train.jsonl", "validation[:10]"),
                       "dataset.split validation selects nothing in a single file: all rows of " +
                           (temp / "train.jsonl")))
      << said(temp / "train.jsonl", "validation[:10]");
  EXPECT_EQ(said(temp / "my_val.jsonl", "validation"), "");
  EXPECT_EQ(said(temp / "train.jsonl", "train"), "");
  EXPECT_EQ(said(temp.path(), "validation"), "");
  EXPECT_EQ(said("org/data", "validation"), "");
}

TEST(RecipeData, PretokenizedDataAreInOrderAndNeedAnEnd) {
  const std::string head =
      "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
      "model: {pretrained_model_name_or_path: m}\noptimizer: {_target_: torch.optim.Adam}\n"
      "dataset: {_target_: glmtune.PretokenizedDataset, path: r.safetensors}\n";
  EXPECT_TRUE(contains(error_of(head), "set step_scheduler.max_steps"));
  EXPECT_TRUE(
      contains(error_of(head, {"--step_scheduler.max_steps=1", "--dataloader.shuffle=true"}),
               "set shuffle to false"));
  EXPECT_EQ(error_of(head, {"--step_scheduler.max_steps=1"}), "");
}

TEST(RecipeData, OldModulePathsAndSpellingsAreRead) {
  EXPECT_EQ(small_error({"--model.backend._target_=nemo_automodel.models.common.BackendConfig"}),
            "");
  const std::string text =
      "recipe: nemo_automodel.recipes.llm.train_ft.TrainFinetuneRecipeForNextTokenPrediction\n"
      "model: {pretrained_model_name_or_path: m}\noptimizer: {_target_: torch.optim.Adam}\n"
      "dataloader:\n  dataset:\n    _target_: "
      "nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset\n    path_or_dataset_id: "
      "x\n";
  EXPECT_EQ(parse(text).recipe.dataset.target, "ChatDataset");
  EXPECT_TRUE(contains(parse(text).checked.warnings.at(0), "older spelling"));
  EXPECT_TRUE(contains(error_of(text + "dataset: {_target_: x}\n"), "remove one"));
}

TEST(RecipeData, CollateFnMayBeAWordAPathOrAMap) {
  const std::string thd = "nemo_automodel.components.datasets.utils.packed_sequence_thd_collater";
  EXPECT_EQ(small_error({"--dataloader.collate_fn=" + thd}), "");
  EXPECT_EQ(small_error({"--dataloader.collate_fn=default"}), "");
  const RecipeFile map =
      small({"--dataloader.collate_fn._target_=nemo_automodel.components.datasets.utils."
             "default_collater",
             "--dataloader.collate_fn.pad_seq_len_divisible=160"});
  EXPECT_EQ(value(map, "dataloader.collate_fn.pad_seq_len_divisible").as_int(), 160);
  EXPECT_NE(small_error({"--dataloader.collate_fn.x=1"}), "");
}

TEST(RecipeData, ChatTemplatesComeAsTextFileOrJson) {
  const TempFolder temp;
  const std::filesystem::path dir = temp.path();
  std::ofstream(dir / "t.jinja") << "{{ messages }}";
  std::ofstream(dir / "t.json") << "{\"chat_template\": \"{{ x }}\"}";
  std::ofstream(dir / "bad.json") << "{\"template\": 1}";
  const auto read = [](const std::string& text) {
    return std::get<data::ChatSettings>(
               small({"--dataset.chat_template=" + text}).recipe.dataset.settings)
        .chat_template;
  };
  EXPECT_EQ(read("{% for m in messages %}"), "{% for m in messages %}");
  EXPECT_EQ(read((dir / "t.jinja").string()), "{{ messages }}");
  EXPECT_EQ(read((dir / "t.json").string()), "{{ x }}");
  EXPECT_TRUE(contains(small_error({"--dataset.chat_template=" + (dir / "bad.json").string()}),
                       "no string chat_template"));
}

TEST(RecipeData, FilesThatHoldNoChatTemplateAreRefused) {
  const TempFolder temp;
  const std::filesystem::path dir = temp.path();
  std::ofstream(dir / "empty.jinja") << "\n";
  std::ofstream(dir / "empty.json") << "{\"chat_template\": \"\"}";
  std::ofstream(dir / "latin.jinja") << "{{ messages }}\ncaf\xe9";
  std::filesystem::create_symlink("nowhere", dir / "link.jinja");
  for (const auto& [file, part] : std::vector<std::pair<std::string, std::string>>{
           {"empty.jinja", "empty.jinja'; the file's template is empty; expected a chat template"},
           {"empty.json", "empty.json'; the file's template is empty; expected a chat template"},
           {"latin.jinja", "latin.jinja'; the file's template is not UTF-8 text (line 2)"},
           {"link.jinja", "link.jinja: a link that leads nowhere"},
           {"none.jinja", "none.jinja: no such file or folder; a template itself would hold {{"},
           {"", "that is a folder; expected a file, or the template itself"}}) {
    const std::string error = small_error({"--dataset.chat_template=" + (dir / file).string()});
    EXPECT_TRUE(contains(error, part)) << error;
  }
}

}  // namespace
}  // namespace glmtune::train
