// What ties a run to the files it began with: the revision of a hub id, and the chat template that
// its checkpoints remember.
#include <gtest/gtest.h>

#include <cstdlib>

#include "apps/cli_support.h"
#include "io/files.h"
#include "io/json.h"
#include "io/sha256.h"

namespace glmtune::apps {
namespace {

const std::string kModel = "--model.pretrained_model_name_or_path=";

class Pinned : public CommandLine {
 protected:
  void SetUp() override {
    CommandLine::SetUp();
    tiny_ = (folder_ / "tiny").string();
    ASSERT_EQ(glmtune({"init", GLMTUNE_SOURCE "/examples/tiny/config.json", tiny_}).status, 0);
  }
  // Two steps, a checkpoint after each.
  Outcome run(const std::vector<std::string>& more) const {
    std::vector<std::string> words{recipe(),
                                   kModel + tiny_,
                                   "--step_scheduler.global_batch_size=1",
                                   "--step_scheduler.max_steps=2",
                                   "--step_scheduler.ckpt_every_steps=1",
                                   "--checkpoint.checkpoint_dir",
                                   (folder_ / "out").string()};
    words.insert(words.end(), more.begin(), more.end());
    return glmtune(words);
  }
  io::Value facts() const {
    const io::Value manifest = io::read_json_file((folder_ / "out/LATEST/manifest.json").string());
    return *manifest.find("run");
  }

  std::string tiny_;
};

// user_reports 13: the manifest has the template's digest; another template is refused.
TEST_F(Pinned, ACheckpointRemembersTheChatTemplate) {
  const std::string file = tiny_ + "/chat_template.jinja";
  const std::string text = io::read_file(file);
  ASSERT_EQ(run({}).status, 0);
  EXPECT_EQ(facts().find("model")->as_string(), tiny_);
  EXPECT_EQ(facts().find("chat_template_sha256")->as_string(), io::sha256_hex(text));
  EXPECT_EQ(facts().find("untrained")->size(), 0U);

  // One byte, in a comment: the rows render as before.
  io::write_file(file, "{# #}" + text);
  const Outcome other = run({"--step_scheduler.max_steps=3"});
  EXPECT_EQ(other.status, 1);
  EXPECT_TRUE(contains(other.err, cat("the chat template is another one (sha256 ",
                                      io::sha256_hex(text).substr(0, 12), "... there")))
      << other.err;
  const Outcome named = run({"--step_scheduler.max_steps=3", "--checkpoint.restore_from=LATEST"});
  EXPECT_EQ(named.status, 0) << named.err;
  EXPECT_TRUE(contains(named.err, "the chat template is another one")) << named.err;
  EXPECT_EQ(facts().find("chat_template_sha256")->as_string(), io::sha256_hex("{# #}" + text));
}

// user_reports section 3, stop marker.
TEST_F(Pinned, AStopThatIsNotTrainedIsInTheManifest) {
  ASSERT_EQ(run({"--dataset.supervise_last_stop=false"}).status, 0);
  ASSERT_EQ(facts().find("untrained")->size(), 1U);
  EXPECT_TRUE(contains(facts().find("untrained")->as_array()[0].as_string(),
                       "dataset.supervise_last_stop is false"));
}

TEST_F(Pinned, ARevisionChoosesTheSnapshot) {
  const std::string commit(40, 'b');
  const fs::path repo = folder_ / "hub/models--org--tiny";
  fs::create_directories(repo / "snapshots");
  fs::create_directories(repo / "refs");
  fs::copy(tiny_, repo / "snapshots" / commit);
  io::write_file((repo / "refs/v2").string(), commit);
  ::setenv("HF_HUB_CACHE", (folder_ / "hub").c_str(), 1);
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  const Outcome main = run({kModel + "org/tiny"});
  EXPECT_EQ(main.status, 1);
  EXPECT_TRUE(contains(main.err, "revision \"main\" is not in")) << main.err;
  EXPECT_TRUE(contains(main.err, "(it has: v2)")) << main.err;
  const Outcome pinned = run({kModel + "org/tiny", "--model.revision=v2"});
  EXPECT_EQ(pinned.status, 0) << pinned.err;
  EXPECT_TRUE(contains(pinned.out, cat("model: org/tiny at commit ", commit))) << pinned.out;
  EXPECT_EQ(facts().find("model_commit")->as_string(), commit);
  // The tokenizer that recipes name beside the model is of the same commit.
  const Outcome preview = glmtune({"preview", recipe(), kModel + "org/tiny", "--model.revision=v2",
                                   "--dataset.tokenizer.pretrained_model_name_or_path=org/tiny"});
  EXPECT_EQ(preview.status, 0) << preview.err;
  const Outcome checked =
      glmtune({"check", recipe(), kModel + "org/tiny", cat("--model.revision=", commit)});
  EXPECT_TRUE(contains(checked.out, "runs here")) << checked.out;
  ::unsetenv("HF_HUB_CACHE");
}

// from_config wants the shape alone: config.json of the cache, and for a run nothing in its place.
TEST_F(Pinned, AConfigIsFoundByItsHubId) {
  const std::string path =
      write("shape.yaml",
            "recipe: TrainFinetuneRecipeForNextTokenPrediction\n"
            "model:\n"
            "  _target_: nemo_automodel.NeMoAutoModelForCausalLM.from_config\n"
            "  config: {_target_: transformers.AutoConfig.from_pretrained, "
            "pretrained_model_name_or_path: zai-org/GLM-5}\n"
            "dataset:\n"
            "  _target_: nemo_automodel.components.datasets.llm.mock_iterable_dataset."
            "MockIterableDataset\n"
            "  seq_len: 16\n  num_samples: 4\n"
            "step_scheduler: {global_batch_size: 1, max_steps: 1}\n"
            "optimizer: {_target_: torch.optim.AdamW, lr: 1e-5}\n"
            "checkpoint: {enabled: false, checkpoint_dir: " +
                (folder_ / "out").string() + "}\n");
  ::setenv("HF_HUB_CACHE", (folder_ / "hub").c_str(), 1);
  ::setenv("HF_HUB_OFFLINE", "1", 1);
  // Facts of the released model do for planning, and for nothing else.
  const Outcome planned = glmtune({"check", path, "--world-size", "1"});
  EXPECT_EQ(planned.status, 0) << planned.err;
  EXPECT_TRUE(contains(planned.out, "facts of the released model")) << planned.out;
  EXPECT_TRUE(contains(planned.out, "not runnable here")) << planned.out;
  const std::string place = path + ":4: model.config.pretrained_model_name_or_path: ";
  EXPECT_TRUE(contains(planned.out, place + "zai-org/GLM-5: neither a folder here nor in the hub"))
      << planned.out;
  const Outcome refused = glmtune({path});
  EXPECT_EQ(refused.status, 1);
  EXPECT_TRUE(contains(refused.err, place + "zai-org/GLM-5: neither a folder here nor in the hub"))
      << refused.err;

  const fs::path repo = folder_ / "hub/models--zai-org--GLM-5";
  const std::string commit(40, 'c');
  fs::create_directories(repo / "refs");
  fs::create_directories(repo / "snapshots" / commit);
  io::write_file((repo / "refs/main").string(), commit);
  fs::copy(tiny_ + "/config.json", repo / "snapshots" / commit / "config.json");
  const Outcome found = glmtune({"check", path});
  EXPECT_TRUE(found.out.ends_with("runs here\n")) << found.out;
  const Outcome trained = glmtune({path});
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_TRUE(contains(trained.out, cat("model: zai-org/GLM-5 at commit ", commit))) << trained.out;
  ::unsetenv("HF_HUB_CACHE");
}

}  // namespace
}  // namespace glmtune::apps
