#include <gtest/gtest.h>

#include <cstdlib>

#include "apps/cli_support.h"
#include "io/json.h"

namespace glmtune::apps {
namespace {

const std::string kModel = "--model.pretrained_model_name_or_path=";

class Check : public CommandLine {
 protected:
  // A checkpoint of random weights, tokenizer included.
  std::string tiny() const {
    const std::string folder = (folder_ / "tiny").string();
    EXPECT_EQ(glmtune({"init", GLMTUNE_SOURCE "/examples/tiny/config.json", folder}).status, 0);
    return folder;
  }
};

TEST_F(Check, PrintsWhatARunWouldNeed) {
  const Outcome outcome = glmtune({"check", recipe(), "--optimizer.lr=2e-5"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "743,377,019,904 parameters"));
  EXPECT_TRUE(contains(outcome.out, "optimizer.lr: 2e-05"));
  EXPECT_TRUE(contains(outcome.out, "dataset: ChatDataset"));
  EXPECT_TRUE(contains(outcome.out, "all 1 rows read"));
  EXPECT_TRUE(contains(outcome.out, "not runnable here:\n  - memory: "));
}

TEST_F(Check, OfSizesThatNoMemoryHoldsLeavesTheMemoryOut) {
  for (const char* setting :
       {"--packed_sequence.packed_sequence_size=99999999999999", "--model.torch_dtype=float16"}) {
    const Outcome outcome = glmtune({"check", recipe(), setting});
    EXPECT_EQ(outcome.status, 0) << setting << outcome.err;
  }
  const Outcome none = glmtune({"check", recipe(), "--dataset.path_or_dataset_id=[]"});
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(contains(none.err, "r.yaml:4: dataset: no path is given")) << none.err;
}

TEST_F(Check, PrintsOneJsonObjectOfDottedKeys) {
  const Outcome outcome = glmtune({"check", recipe(), "--json", "--distributed.ep_size=8"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const io::Value json = io::parse_json(outcome.out, "stdout");
  EXPECT_EQ(json.find("optimizer.lr")->as_double(), 1e-5);
  EXPECT_EQ(json.find("distributed.ep_size")->as_int(), 8);
  EXPECT_EQ(json.find("check.not_runnable")->as_array().at(0).as_string(), "distributed.ep_size 8");
  EXPECT_EQ(json.find("check.mesh.experts_per_rank")->as_int(), 32);
}

TEST_F(Check, NamesConflictsOfAGivenWorld) {
  const Outcome outcome = glmtune({"check", recipe(), "--world-size", "3"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, "global_batch_size 32 is no multiple")) << outcome.err;
}

TEST_F(Check, PlansOneRankWhereOverridesNoLongerFitTheRecipesOwnWorld) {
  const std::vector<std::string> words{"check",
                                       recipe(),
                                       cat(kModel, tiny()),
                                       "--ci.nodes=32",
                                       "--step_scheduler.global_batch_size=4",
                                       "--step_scheduler.max_steps=1"};
  const Outcome outcome = glmtune(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "1 rank (what runs here)")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "= 1 x dp 1 x accumulation 4")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "own 256 ranks (ci.nodes x 8) do not fit")) << outcome.out;
  EXPECT_FALSE(contains(outcome.out, "conflict")) << outcome.out;
}

TEST_F(Check, NamesDataAndModelsThatAreNotThere) {
  const Outcome data = glmtune({"check", recipe(), "--dataset.path_or_dataset_id=/no/chat.jsonl"});
  EXPECT_EQ(data.status, 1);
  EXPECT_TRUE(contains(data.err,
                       "error: argument --dataset.path_or_dataset_id: /no/chat.jsonl: no such file "
                       "or folder"))
      << data.err;
  const std::string key = "--model.pretrained_model_name_or_path=";
  const Outcome model = glmtune({"check", recipe(), key + "/no/model"});
  EXPECT_EQ(model.status, 1);
  EXPECT_TRUE(contains(model.err,
                       "model.pretrained_model_name_or_path: /no/model: no such file or folder"));
  // user_reports 83
  const Outcome other = glmtune({"check", recipe(), key + "zai-org/GLM-5.3-Flash"});
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(contains(other.err, "glm5_next"));
  const Outcome elsewhere = glmtune({"check", recipe(), key + "nobody/nothing"});
  EXPECT_EQ(elsewhere.status, 0);
  EXPECT_TRUE(contains(elsewhere.out, "not on this machine"));
}

TEST_F(Check, AcceptsEveryPublishedRecipe) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  int count = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(cat(shared, "/recipes"))) {
    if (entry.path().extension() != ".yaml") continue;
    const Outcome outcome = glmtune({"check", entry.path().string(), "--json"});
    EXPECT_EQ(outcome.status, 0) << entry.path() << outcome.err;
    const io::Value json = io::parse_json(outcome.out, "stdout");
    EXPECT_EQ(json.find("check.conflicts")->size(), 0u) << entry.path();
    EXPECT_GT(json.find("check.not_runnable")->size(), 0u) << entry.path();
    EXPECT_FALSE(json.find("check.runnable")->as_bool()) << entry.path();
    ++count;
  }
  EXPECT_EQ(count, 11);
}

TEST_F(Check, ThePagesVariantChecksButFailsOn256Ranks) {
  const char* shared = std::getenv("GLMTUNE_SHARED");
  if (shared == nullptr) GTEST_SKIP() << "GLMTUNE_SHARED is not set";
  const std::string path = cat(shared, "/recipes/glm_5.3_tulu3_4k_cudnn_100step.yaml");
  EXPECT_EQ(glmtune({"check", path, "--distributed.pp_size=null"}).status, 0);
  const Outcome outcome =
      glmtune({"check", path, "--distributed.pp_size=null", "--world-size=256"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err,
                       "nearest: global_batch_size 1024; or step_scheduler.local_batch_size 1; or "
                       "distributed.pp_size 4"))
      << outcome.err;
}

TEST_F(Check, ARecipeThatRunsHereIsSaidTo) {
  const Outcome outcome =
      glmtune({"check", recipe(), cat(kModel, tiny()), "--step_scheduler.max_steps=3"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(outcome.out.ends_with("\nruns here\n")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "not checked: the values of the weights"));
  EXPECT_TRUE(contains(outcome.out, "1 samples of ")) << outcome.out;
}

// The memory of a run is that of its packs, not of packs that its data never fill.
TEST_F(Check, PlansMemoryForThePacksThatAllTheDataMake) {
  std::string rows;
  for (int i = 0; i < 5; ++i) rows += kChat;
  const Outcome outcome = glmtune(
      {"check", recipe(), cat(kModel, tiny()), "--packed_sequence.packed_sequence_size=16384",
       cat("--dataset.path_or_dataset_id=", write("five.jsonl", rows)), "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  const io::Value json = io::parse_json(outcome.out, "stdout");
  const std::int64_t tokens = json.find("check.rows")->as_array()[0].find("tokens")->as_int();
  EXPECT_GT(tokens, 0);
  EXPECT_EQ(json.find("check.memory.row_tokens")->as_int(),
            tokens * json.find("step_scheduler.local_batch_size")->as_int());
}

TEST_F(Check, NamesTheModeOfActivationCheckpointing) {
  const std::string model = cat(kModel, tiny());
  for (const auto& [word, mode] :
       {std::pair{"null", "off"}, {"selective", "selective"}, {"true", "full"}}) {
    const std::string setting = cat("--distributed.activation_checkpointing=", word);
    const Outcome text = glmtune({"check", recipe(), model, setting});
    EXPECT_TRUE(contains(text.out, cat("activation checkpointing ", mode))) << text.out;
    const Outcome json = glmtune({"check", recipe(), model, setting, "--json"});
    EXPECT_EQ(io::parse_json(json.out, "stdout")
                  .find("check.memory.activation_checkpointing")
                  ->as_string(),
              mode);
  }
}

TEST_F(Check, ReasonsAgainstARunAreNamedInTextAndJson) {
  const std::string key = cat(kModel, "zai-org/GLM-5.2");
  const Outcome text = glmtune({"check", recipe(), key, "--world-size", "1"});
  EXPECT_EQ(text.status, 0);
  EXPECT_TRUE(contains(text.out, "not runnable here:")) << text.out;
  EXPECT_TRUE(contains(text.out, "only a smaller model does, or several ranks")) << text.out;
  EXPECT_TRUE(contains(text.out, "neither a folder here nor in the hub cache")) << text.out;
  EXPECT_FALSE(contains(text.out, "\nruns here"));

  const Outcome several =
      glmtune({"check", recipe(), cat(kModel, tiny()), "--world-size", "4", "--json"});
  EXPECT_EQ(several.status, 0);
  const io::Value json = io::parse_json(several.out, "stdout");
  EXPECT_FALSE(json.find("check.runnable")->as_bool());
  ASSERT_EQ(json.find("check.reasons")->size(), 1u) << several.out;
  EXPECT_TRUE(contains(json.find("check.reasons")->as_array()[0].as_string(), "4 ranks"));
  EXPECT_GT(json.find("check.unchecked")->size(), 0u);
  EXPECT_EQ(json.find("check.rows")->as_array()[0].find("rows")->as_int(), 1);
}

TEST_F(Check, BadRowsAreErrorsWithFileAndLine) {
  std::string rows;
  for (int i = 0; i < 3; ++i) rows += kChat;
  const std::string bad = write("bad.jsonl", rows + "{\"text\": \"no chat\"}\n" + kChat);
  const std::string path = cat("--dataset.path_or_dataset_id=", bad);
  // With a tokenizer and, of a model that is not here, without.
  for (const std::string& model : {tiny(), std::string("zai-org/GLM-5.2")}) {
    const Outcome outcome = glmtune({"check", recipe(), path, cat(kModel, model)});
    EXPECT_EQ(outcome.status, 1) << model;
    EXPECT_TRUE(contains(outcome.err, cat("dataset: ", bad, ":4: neither messages nor")))
        << outcome.err;
    const Outcome skipped =
        glmtune({"check", recipe(), path, cat(kModel, model), "--dataset.skip_invalid_samples"});
    EXPECT_EQ(skipped.status, 0) << skipped.err;
  }
}

// Rows are read in a shuffled order; a file is mended from its top.
TEST_F(Check, IntegersThatARunRefusesAreRefusedWithoutATokenizerToo) {
  const std::string big = write(
      "big.jsonl",
      cat(kChat, R"({"mess\u0061ges": [{"role": "user", "content": "a"}, {"role": "assistant", )",
          R"("content": "b", "n": 123456789012345678901234}]})"));
  for (const std::string& model : {tiny(), std::string("zai-org/GLM-5.2")}) {
    const Outcome outcome =
        glmtune({"check", recipe(), cat(kModel, model), cat("--dataset.path_or_dataset_id=", big)});
    EXPECT_EQ(outcome.status, 1) << outcome.out;
    EXPECT_TRUE(contains(outcome.err, "big.jsonl:2: the integer 123456789012345678901234"))
        << outcome.err;
  }
}

TEST_F(Check, BadRowsAreNamedInTheOrderOfTheFile) {
  std::string rows;
  for (int line = 1; line <= 60; ++line)
    rows += line % 7 == 0 ? std::string("{\"text\": \"no chat\"}\n") : std::string(kChat);
  const std::string bad = write("bad.jsonl", rows);
  for (const std::string& model : {tiny(), std::string("zai-org/GLM-5.2")}) {
    const Outcome outcome = glmtune(
        {"check", recipe(), cat("--dataset.path_or_dataset_id=", bad), "--dataset.shuffle_seed=3",
         "--packed_sequence.packed_sequence_size=256", cat(kModel, model)});
    EXPECT_EQ(outcome.status, 1) << model;
    std::size_t at = 0;
    for (const int line : {7, 14, 21, 28, 35}) {
      const std::size_t next = outcome.err.find(cat("bad.jsonl:", line, ": "), at);
      ASSERT_NE(next, std::string::npos) << line << "\n" << outcome.err;
      at = next;
    }
    EXPECT_TRUE(contains(outcome.err, "... and 3 more bad rows")) << outcome.err;
  }
}

TEST_F(Check, AFolderThatIsNoModelOrHasNoRowsIsNamedWithItsPlaceInTheRecipe) {
  fs::create_directories(folder_ / "empty");
  const std::string empty = (folder_ / "empty").string();
  const std::string text = cat(
      "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
      "model:\n"
      "  pretrained_model_name_or_path: ",
      empty,
      "\ndataset:\n"
      "  _target_: nemo_automodel.components.datasets.llm.chat_dataset.ChatDataset\n"
      "  path_or_dataset_id: ",
      empty, "\noptimizer: {_target_: torch.optim.AdamW, lr: 1e-5}\ncheckpoint: {checkpoint_dir: ",
      (folder_ / "out").string(), "}\n");
  const std::string path = write("empty.yaml", text), whole = cat(kModel, tiny());
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{path}, {"check", path}, {"preview", path}}) {
    const Outcome model = glmtune(words);
    EXPECT_EQ(model.status, 1);
    EXPECT_TRUE(contains(model.err, cat(path, ":3: model.pretrained_model_name_or_path: ", empty)))
        << model.err;
    std::vector<std::string> with_model = words;
    with_model.push_back(whole);
    const Outcome data = glmtune(with_model);
    EXPECT_EQ(data.status, 1);
    EXPECT_TRUE(contains(data.err, cat(path, ":6: dataset.path_or_dataset_id: ", empty)))
        << data.err;
  }
}

TEST_F(Check, PrintsSizesInOneUnit) {
  const Outcome outcome =
      glmtune({"check", recipe(), cat(kModel, "zai-org/GLM-5.2"), "--world-size", "1"});
  EXPECT_TRUE(contains(outcome.out, "GiB")) << outcome.out;
  for (const char* other : {" GB", " MB", " kB", " TB"})
    EXPECT_FALSE(contains(outcome.out, other)) << outcome.out;
}

// What is planned for several ranks and is too large for them.
TEST_F(Check, SaysHowManyRanksWouldHoldAModel) {
  const Outcome outcome = glmtune({"check", recipe(), "--distributed.ep_size=8",
                                   "--packed_sequence.packed_sequence_size=4096",
                                   "--step_scheduler.global_batch_size=1024", "--world-size=8"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(contains(outcome.out, "on an H200")) << outcome.out;
  EXPECT_TRUE(contains(outcome.out, "256 ranks, or a smaller model, would do")) << outcome.out;
}

TEST_F(Check, PreviewSaysWhatOrderItShows) {
  const std::string model = cat(kModel, tiny());
  const auto order = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"preview", recipe(), model};
    words.insert(words.end(), more.begin(), more.end());
    const std::string out = glmtune(words).out;
    const std::size_t at = out.find("order: ");
    return at == std::string::npos ? out : out.substr(at, out.find('\n', at) - at);
  };
  EXPECT_EQ(order({}),
            "order: as the rows stand in the files; training takes the packs in another order in "
            "each epoch (dataloader.shuffle)");
  EXPECT_EQ(order({"--dataloader.shuffle=false", "--dataset.shuffle_seed=7"}),
            "order: as dataset.shuffle_seed 7 shuffles the rows; training takes the packs in this "
            "order");
  EXPECT_TRUE(order({"--packed_sequence.packed_sequence_size=64", "--seed=5"})
                  .starts_with("order: samples are shuffled (seed 5) before they are packed; "));
}

// user_reports 20: labels are shifted exactly once, whatever the key says.
TEST_F(Check, PreviewShowsTheSameLabelsForUnshiftedOnes) {
  const std::string model = cat(kModel, tiny());
  const Outcome plain = glmtune({"preview", recipe(), model});
  const Outcome unshifted = glmtune({"preview", recipe(), model, "--dataset.unshifted=true"});
  EXPECT_EQ(unshifted.status, 0) << unshifted.err;
  EXPECT_EQ(unshifted.out, plain.out);
  EXPECT_EQ(plain.err, "");
  EXPECT_TRUE(contains(unshifted.err, "dataset.unshifted is ignored: Labels are shifted exactly"))
      << unshifted.err;
}

TEST_F(Check, AScheduleThatDoesNotFitIntoTheRunIsAnError) {
  const std::string warmup = "--lr_scheduler.lr_warmup_steps=10";
  const Outcome written = glmtune({"check", recipe(), "--step_scheduler.max_steps=2", warmup});
  EXPECT_EQ(written.status, 1);
  EXPECT_TRUE(contains(written.err, "lr_warmup_steps: 10 leaves none of the run's 2 steps"))
      << written.err;
  // One row, two epochs: only the data tell.
  const Outcome counted =
      glmtune({"check", recipe(), cat(kModel, tiny()), "--step_scheduler.global_batch_size=1",
               "--step_scheduler.num_epochs=2", warmup});
  EXPECT_EQ(counted.status, 1);
  EXPECT_TRUE(contains(counted.err, "leaves none of the run's 2 steps")) << counted.err;
  // Steps of a run that goes on were of other sizes, perhaps.
  const fs::path out = folder_ / "out";
  fs::create_directories(out / "epoch_0_step_8");
  std::ofstream(out / "epoch_0_step_8/manifest.json") << "{}";
  const Outcome goes_on =
      glmtune({"check", recipe(), kModel + (folder_ / "tiny").string(),
               "--step_scheduler.global_batch_size=1", "--step_scheduler.num_epochs=2", warmup,
               "--checkpoint.checkpoint_dir=" + out.string()});
  EXPECT_EQ(goes_on.status, 0) << goes_on.err;
  EXPECT_TRUE(contains(
      goes_on.out, cat("lr_scheduler against the steps of a run that goes on in ", out.string())))
      << goes_on.out;
}

// A run says the same, before it reads the weights.
TEST_F(Check, APatternThatDecidesForNoParameterIsAnError) {
  const std::string model = cat(kModel, tiny());
  const auto said = [&](const std::string& patterns) {
    const std::string overrides = "--optimizer.param_group_overrides=" + patterns;
    const Outcome checked = glmtune({"check", recipe(), model, overrides});
    const Outcome trained =
        glmtune({recipe(), model, overrides,
                 cat("--checkpoint.checkpoint_dir=", (folder_ / "out").string()),
                 "--step_scheduler.max_steps=0"});
    EXPECT_EQ(checked.status, trained.status);
    const std::size_t at = checked.err.find("optimizer.param_group_overrides");
    if (at == std::string::npos) return checked.err;
    const std::string message = checked.err.substr(at);
    EXPECT_TRUE(contains(trained.err, message)) << trained.err << checked.err;
    return message;
  };
  EXPECT_EQ(said("[{pattern: 'q_a_proj', lr_mult: 2}, {pattern: 'norm'}]"), "");
  EXPECT_TRUE(contains(said("[{pattern: 'q_a_prj'}]"),
                       "pattern 'q_a_prj' decides for no parameter: it is found in no parameter's "
                       "name"));
  EXPECT_TRUE(contains(said("[{pattern: 'indexer'}]"),
                       "it is found only in names of parameters that are not trained, such as "
                       "model.layers."));
  EXPECT_TRUE(contains(said("[{pattern: 'proj'}, {pattern: 'q_a_proj'}]"),
                       "pattern 'proj', which stands before it, decides where it is found"));
  EXPECT_TRUE(contains(said("[{pattern: '('}]"), "not a regular expression"));
}

TEST_F(Check, AFolderOfARunIsToldFromAModel) {
  const fs::path run = folder_ / "run";
  fs::create_directories(run / "epoch_0_step_4/model/consolidated");
  std::ofstream(run / "epoch_0_step_4/model/consolidated/config.json") << "{}";
  fs::create_directory_symlink("epoch_0_step_4", run / "LATEST");
  for (const char* given : {"run", "run/LATEST", "run/LATEST/model"}) {
    const Outcome outcome = glmtune({"check", recipe(), cat(kModel, (folder_ / given).string())});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(contains(outcome.err, cat("its Hugging Face folder is ",
                                          (run / "LATEST/model/consolidated").string())))
        << outcome.err;
  }
}

TEST_F(Check, NamesTheFilesOfAFolderThatAreOfOtherSplits) {
  fs::create_directories(folder_ / "rows");
  for (const char* name : {"rows/train.jsonl", "rows/val.jsonl"}) write(name, kChat);
  const Outcome outcome =
      glmtune({"check", recipe(), cat(kModel, tiny()),
               cat("--dataset.path_or_dataset_id=", (folder_ / "rows").string())});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_TRUE(
      contains(outcome.out, "files of 2 that are not of split train, left out (val.jsonl): 1"))
      << outcome.out;
}

TEST_F(Check, ReadsTheFilesThatTheCardOfADataSetNames) {
  fs::create_directories(folder_ / "rows");
  write("rows/README.md",
        "---\nconfigs:\n- config_name: a\n  data_files:\n  - split: train\n    path: one.jsonl\n"
        "  - split: validation\n    path: two.jsonl\n- config_name: b\n  data_files: three.jsonl\n"
        "---\n");
  write("rows/one.jsonl", kChat);
  write("rows/two.jsonl", cat(kChat, kChat));
  write("rows/three.jsonl", cat(kChat, kChat, kChat));
  const std::string path = cat("--dataset.path_or_dataset_id=", (folder_ / "rows").string());
  // With a tokenizer and, of a model that is not here, without.
  for (const std::string& model : {tiny(), std::string("zai-org/GLM-5.2")}) {
    const auto read = [&](const std::string& name, const std::string& split) {
      const Outcome outcome =
          glmtune({"check", recipe(), path, cat(kModel, model), cat("--dataset.name=", name),
                   cat("--dataset.split=", split)});
      EXPECT_EQ(outcome.status, 0) << outcome.err;
      return outcome.out;
    };
    EXPECT_TRUE(contains(read("a", "train"), "all 1 rows read"));
    EXPECT_TRUE(contains(read("a", "validation"), "all 2 rows read"));
    EXPECT_TRUE(contains(read("b", "train"), "all 3 rows read"));
  }
  const Outcome none = glmtune({"check", recipe(), path, "--dataset.name=c"});
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(contains(none.err, "dataset.path_or_dataset_id: ") &&
              contains(none.err, "no subset c; there are: a, b"))
      << none.err;
}

TEST_F(Check, SaysWhatIsWrongWithTheCacheOfADataSet) {
  const fs::path repo = folder_ / "hub/datasets--org--chats";
  fs::create_directories(repo / "refs");
  write("hub/datasets--org--chats/refs/main", "not a commit");
  ::setenv("HF_HUB_CACHE", (folder_ / "hub").c_str(), 1);
  const std::string model = cat(kModel, tiny());
  const auto check = [&] {
    return glmtune({"check", recipe(), model, "--dataset.path_or_dataset_id=org/chats"}).out;
  };
  const std::string corrupt = check();
  const std::string commit(40, 'a');
  write("hub/datasets--org--chats/refs/main", commit);
  fs::create_directories(repo / "snapshots" / commit);
  fs::create_symlink("../../blobs/gone", repo / "snapshots" / commit / "rows.jsonl");
  const std::string dangling = check();
  ::unsetenv("HF_HUB_CACHE");
  EXPECT_TRUE(contains(corrupt, "not on this machine")) << corrupt;
  EXPECT_TRUE(contains(corrupt, "expected a commit of 40 hexadecimal digits")) << corrupt;
  EXPECT_TRUE(contains(dangling, "lacks rows.jsonl")) << dangling;
}

TEST_F(Check, PreviewNamesTheKeyOfAFolderOfPacksThatCannotBeMade) {
  const std::string folder = recipe() + "/packs";
  const Outcome outcome = glmtune(
      {"preview", recipe(), cat(kModel, tiny()), cat("--packed_sequence.cache_dir=", folder)});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, cat("error: packed_sequence.cache_dir: ", folder,
                                        ": the cache's folder cannot be made: ")))
      << outcome.err;
}

TEST_F(Check, OfAPathWithATildeSaysThatItIsNotExpanded) {
  const Outcome outcome = glmtune({"check", recipe(), "--dataset.path_or_dataset_id=~/chat.jsonl"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_TRUE(contains(outcome.err, "~/chat.jsonl: no such file or folder (~ is not expanded"))
      << outcome.err;
}

TEST_F(Check, OfALinkThatLeadsNowhereSaysSo) {
  const std::string link = (folder_ / "chats").string();
  fs::create_symlink("nowhere", link);
  for (const std::string& path : {link, link + "/a.jsonl"}) {
    const Outcome outcome = glmtune({"check", recipe(), "--dataset.path_or_dataset_id=" + path});
    EXPECT_EQ(outcome.status, 1);
    EXPECT_TRUE(contains(outcome.err, cat("path_or_dataset_id: ", link, ": a link that leads")))
        << outcome.err;
  }
}

TEST_F(Check, PathsAreToldFromHubIds) {
  fs::create_directories(folder_ / "models");
  const fs::path here = fs::current_path();
  fs::current_path(folder_);
  const Outcome model = glmtune({"check", recipe(), cat(kModel, "models/nope")});
  const Outcome data =
      glmtune({"preview", recipe(), cat(kModel, tiny()), "--dataset.path_or_dataset_id=no.jsonl"});
  fs::current_path(here);
  EXPECT_EQ(model.status, 1);
  EXPECT_TRUE(contains(model.err, "models/nope: no such file or folder (relative to the working"))
      << model.err;
  EXPECT_EQ(data.status, 1);
  EXPECT_TRUE(contains(data.err, "dataset.path_or_dataset_id: no.jsonl: no such file or folder"))
      << data.err;
  EXPECT_FALSE(contains(data.err, "hf download")) << data.err;
}

}  // namespace
}  // namespace glmtune::apps
