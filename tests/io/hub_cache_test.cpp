#include "io/hub_cache.h"

#include <gtest/gtest.h>
#include <pwd.h>
#include <unistd.h>

#include <filesystem>
#include <map>

#include "base/error.h"
#include "io/files.h"
#include "io/row_files.h"
#include "support/temp_folder.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";

Environment environment(std::map<std::string, std::string> values) {
  return [values = std::move(values)](const char* name) -> std::optional<std::string> {
    const auto it = values.find(name);
    return it == values.end() ? std::nullopt : std::optional(it->second);
  };
}

// A cache as the hub's client leaves it: blobs, and snapshots of links to them.
struct Cache {
  TempFolder folder;
  fs::path repo = fs::path(folder / "models--zai-org--GLM-5.2");
  HubCache cache{.root = folder.path()};

  Cache() {
    fs::create_directories(repo / "blobs");
    fs::create_directories(repo / "refs");
    fs::create_directories(repo / "snapshots" / kCommit);
    write_file((repo / "refs/main").string(), kCommit);
  }
  void add(const std::string& name, const std::string& text) const {
    write_file((repo / "blobs" / ("b-" + name)).string(), text);
    fs::create_symlink("../../blobs/b-" + name, repo / "snapshots" / kCommit / name);
  }
  std::string message(const std::string& revision = "main") const {
    try {
      return resolve_repo("zai-org/GLM-5.2", RepoKind::kModel, cache, revision).folder;
    } catch (const Error& e) {
      return e.what();
    }
  }
};

TEST(HubCache, RootFollowsTheEnvironment) {
  EXPECT_EQ(hub_cache(environment({{"HF_HUB_CACHE", "/c"}, {"HF_HOME", "/h"}})).root, "/c");
  EXPECT_EQ(hub_cache(environment({{"HUGGINGFACE_HUB_CACHE", "/o"}})).root, "/o");
  EXPECT_EQ(hub_cache(environment({{"HF_HOME", "~/h"}, {"HOME", "/u"}})).root, "/u/h/hub");
  EXPECT_EQ(hub_cache(environment({{"XDG_CACHE_HOME", "/x"}})).root, "/x/huggingface/hub");
  EXPECT_EQ(hub_cache(environment({{"HOME", "/u"}})).root, "/u/.cache/huggingface/hub");
  // Without HOME the account's folder, not the file system's root.
  EXPECT_EQ(hub_cache(environment({})).root,
            std::string(::getpwuid(::getuid())->pw_dir) + "/.cache/huggingface/hub");
  EXPECT_TRUE(hub_cache(environment({{"HF_HUB_OFFLINE", "yes"}})).offline);
  EXPECT_FALSE(hub_cache(environment({{"HF_HUB_OFFLINE", "0"}})).offline);
}

// As huggingface_hub's constants.py: expanduser, then expandvars, of HF_HOME and again of what is
// made of it.
TEST(HubCache, PathsOfTheEnvironmentAreExpanded) {
  const auto root = [](std::map<std::string, std::string> set) {
    set.insert({{"HOME", "/u/"}, {"SCRATCH", "/s/$X"}, {"TILDE", "~/t"}, {"X", "1"}});
    return hub_cache(environment(set)).root;
  };
  EXPECT_EQ(root({{"HF_HOME", "$SCRATCH/hf"}}), "/s/1/hf/hub");  // $X: by the second expansion
  EXPECT_EQ(root({{"HF_HUB_CACHE", "$SCRATCH/hf"}}), "/s/$X/hf");
  EXPECT_EQ(root({{"HUGGINGFACE_HUB_CACHE", "${X}/$NOPE/${NOPE}/$/${X"}}), "1/$NOPE/${NOPE}/$/${X");
  EXPECT_EQ(root({{"XDG_CACHE_HOME", "~/c$X"}}), "/u/c1/huggingface/hub");
  EXPECT_EQ(root({{"HF_HOME", "$TILDE"}}), "/u/t/hub");
  EXPECT_EQ(root({{"HF_HOME", "~"}}), "/u/hub");
  EXPECT_EQ(root({{"HF_HUB_CACHE", "~nobody-of-this-name/c"}}), "~nobody-of-this-name/c");
  EXPECT_EQ(root({{"HF_HUB_CACHE", std::string("~") + ::getpwuid(::getuid())->pw_name}}),
            ::getpwuid(::getuid())->pw_dir);
}

TEST(HubCache, ResolvesARevisionToItsSnapshot) {
  const Cache c;
  c.add("config.json", "{}");
  c.add("model.safetensors", "x");
  const std::string snapshot = (c.repo / "snapshots" / kCommit).string();
  EXPECT_EQ(c.message(), snapshot);
  EXPECT_EQ(c.message(kCommit), snapshot);
  fs::create_directories(c.repo / "refs/refs/pr");
  write_file((c.repo / "refs/refs/pr/1").string(), kCommit + "\n");
  EXPECT_EQ(c.message("refs/pr/1"), snapshot);
  EXPECT_EQ(resolve_repo(snapshot, RepoKind::kModel, c.cache).commit, "");
}

TEST(HubCache, AConfigNeedsNoWeights) {
  const Cache c;
  EXPECT_THROW((void)resolve_repo("zai-org/GLM-5.2", RepoKind::kConfig, c.cache), Error);
  c.add("config.json", "{}");
  const std::string snapshot = (c.repo / "snapshots" / kCommit).string();
  EXPECT_EQ(resolve_repo("zai-org/GLM-5.2", RepoKind::kConfig, c.cache).folder, snapshot);
  EXPECT_EQ(resolve_repo(snapshot, RepoKind::kConfig, c.cache).folder, snapshot);
  EXPECT_THROW((void)resolve_repo(c.folder.path(), RepoKind::kConfig, c.cache), Error);
}

TEST(HubCache, WhatIsMissingIsNamed) {
  const Cache c;
  c.add("config.json", "{}");
  EXPECT_NE(c.message().find("lacks model.safetensors"), std::string::npos) << c.message();
  c.add("model.safetensors.index.json",
        R"({"weight_map": {"a": "s1.safetensors", "b": "s2.safetensors", "c": "s3.safetensors"}})");
  c.add("s1.safetensors", "x");
  c.add("s2.safetensors", "x");
  fs::remove(c.repo / "blobs/b-s2.safetensors");
  EXPECT_NE(c.message().find("lacks s2.safetensors and 1 more"), std::string::npos) << c.message();
  EXPECT_NE(c.message("dev").find("revision \"dev\" is not in"), std::string::npos);
  EXPECT_NE(c.message("dev").find("(it has: main)"), std::string::npos) << c.message("dev");
  EXPECT_NE(c.message("dev").find("`hf download zai-org/GLM-5.2 --revision dev`"),
            std::string::npos)
      << c.message("dev");
  EXPECT_NE(c.message().find("`hf download zai-org/GLM-5.2`"), std::string::npos) << c.message();
  EXPECT_NE(c.message("../refs/main").find("is not in"), std::string::npos);
  EXPECT_NE(c.message(std::string(40, 'a')).find("no snapshot"), std::string::npos);
  write_file((c.repo / "refs/main").string(), "garbage");
  EXPECT_NE(c.message().find("40 hexadecimal digits"), std::string::npos);
  fs::remove_all(c.repo);
  EXPECT_NE(c.message().find("searched " + c.repo.string()), std::string::npos);
}

// A data set as another client leaves it while it fetches: the reference comes first.
TEST(HubCache, HalfADataSetIsNotTakenForAWholeOne) {
  const TempFolder folder;
  const HubCache cache{.root = folder.path()};
  const fs::path repo = folder / "datasets--org--chats";
  for (const char* sub : {"blobs", "refs", "snapshots"}) fs::create_directories(repo / sub);
  const fs::path data = repo / "snapshots" / kCommit / "data";
  fs::create_directories(data);
  write_file((repo / "refs/main").string(), kCommit);
  const auto add = [&](const std::string& name) {
    write_file((repo / "blobs" / name).string(), "x");
    fs::create_symlink("../../../blobs/" + name, data / name);
  };
  const auto message = [&] {
    try {
      return resolve_repo("org/chats", RepoKind::kDataset, cache).folder;
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  const auto suspected = [&] {
    return resolve_repo("org/chats", RepoKind::kDataset, cache).suspected;
  };
  const std::string whole = (repo / "snapshots" / kCommit).string();
  EXPECT_NE(message().find("lacks files of rows"), std::string::npos) << message();

  // Numbered files tell how many there are, whatever else is under way.
  add("train-00002-of-00003.parquet");
  EXPECT_EQ(suspected(), "data/train-00000-of-00003.parquet and 1 more file");
  add("train-00000-of-00003.parquet");
  EXPECT_EQ(suspected(), "data/train-00001-of-00003.parquet");
  EXPECT_EQ(message(), whole);
  add("train-00001-of-00003.parquet");
  write_file((repo / "blobs/0123.incomplete").string(), "x");
  EXPECT_EQ(suspected(), "");
  for (const char* name : {"part-00001-of-00002.parquet", "part-00002-of-00002.parquet"}) add(name);
  EXPECT_EQ(suspected(), "");  // some count from one

  add("part-00001-of-00009.jsonl");  // another form of the rows, which is not read
  EXPECT_EQ(suspected(), "");

  // The hub's older files have a hash of their own behind the number.
  add("val-00000-of-00003-a3ecf92900e5b2c1.parquet");
  add("val-00001-of-00003-0a17f92900e5b2c2.parquet");
  EXPECT_EQ(suspected(), "data/val-00002-of-00003-*.parquet");
  add("val-00002-of-00003-bbbbf92900e5b2c3.parquet");
  EXPECT_EQ(suspected(), "");

  // Of other names, a part that was left may be one of them.
  add("more.parquet");
  EXPECT_EQ(suspected(), "a file whose download was broken off or is under way (" +
                             (repo / "blobs/0123.incomplete").string() + ")");
  EXPECT_EQ(message(), whole);
  fs::remove(repo / "blobs/0123.incomplete");
  EXPECT_EQ(suspected(), "");
  fs::remove(repo / "blobs/more.parquet");
  EXPECT_NE(message().find("lacks data/more.parquet"), std::string::npos) << message();
}

TEST(HubCache, NamesOfNumberedFiles) {
  const auto shard = shard_name("data/train_sft-00003-of-00006.parquet");
  ASSERT_TRUE(shard);
  EXPECT_EQ(shard->before, "data/train_sft-");
  EXPECT_EQ(shard->number, 3);
  EXPECT_EQ(shard->count, 6);
  EXPECT_EQ(shard->after, ".parquet");
  EXPECT_EQ(shard->path(5), "data/train_sft-00005-of-00006.parquet");
  EXPECT_FALSE(shard->is_hashed);
  const auto hashed = shard_name("data/train-00000-of-00002-a3ecf92900e5b2c1.parquet");
  ASSERT_TRUE(hashed);
  EXPECT_TRUE(hashed->is_hashed);
  EXPECT_EQ(hashed->after, ".parquet");
  EXPECT_EQ(hashed->path(1), "data/train-00001-of-00002-*.parquet");
  for (const char* other :
       {"a-00000-of-00001-a3ecf92900e5b2c.parquet", "a-00000-of-00001-a3ecf92900e5b2c10.parquet"})
    EXPECT_FALSE(shard_name(other)->is_hashed) << other;
  ASSERT_TRUE(shard_name("00000-of-00001"));
  EXPECT_EQ(shard_name("c4-train.01023-of-01024.json.gz")->before, "c4-train.");
  for (const char* other : {"", "-of-", "a.jsonl", "a-00000-of-0001.jsonl", "a-0000-of-00001.jsonl",
                            "a-000000-of-00001.jsonl", "a-00000-of-000001.jsonl",
                            "00000-of-00001/a.jsonl", "a-00000/-of-00001", "a-00000-of-"})
    EXPECT_FALSE(shard_name(other)) << other;
  EXPECT_FALSE(shard_name(std::string(1'000'000, '0')));  // any length
}

TEST(HubCache, Ids) {
  EXPECT_TRUE(is_hub_id("zai-org/GLM-5.2"));
  EXPECT_TRUE(is_hub_id("gpt2"));
  for (const char* bad : {"", "/a", "a/", "a/b/c", "../a", "a/..", "a b", "./a", "a/b--c"}) {
    EXPECT_FALSE(is_hub_id(bad)) << bad;
  }
  EXPECT_THROW((void)resolve_repo("./nothing/here", RepoKind::kModel, {}), Error);
}

}  // namespace
}  // namespace glmtune::io
