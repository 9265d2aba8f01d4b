// What becomes of a snapshot of the cache that the hub has more of, or that it has lost.
#include <gtest/gtest.h>

#include <filesystem>
#include <thread>

#include "base/error.h"
#include "fake_hub.h"
#include "io/files.h"
#include "io/hub_download.h"
#include "io/whole_note.h"
#include "support/message_of.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// A data set of the hub; what add() names of it is in the cache.
class HubCompletion : public ::testing::Test {
 protected:
  HubCompletion() {
    hub_.id = "org/chats";
    hub_.prefix = "datasets/";
    snapshot_ = hub_.repo() + "/snapshots/" + hub_.commit;
    for (const char* folder : {"/refs", "/blobs"}) fs::create_directories(hub_.repo() + folder);
    write_file(hub_.repo() + "/refs/main", hub_.commit);
    hub_.files["README.md"] = {"---\nlicense: mit\n---\n"};
  }
  void on_hub(const std::vector<std::string>& names) {
    for (const std::string& name : names) hub_.files[name] = {"rows of " + name};
  }
  void add(const std::string& name) const {
    const fs::path path = snapshot_ + "/" + name;
    fs::create_directories(path.parent_path());
    write_file(path.string(), hub_.files.at(name).content);
  }
  bool has(const std::string& name) const { return fs::exists(snapshot_ + "/" + name); }
  std::string fetch(FetchOptions options = FakeHub::options()) {
    notices_.clear();
    options.notice = [&](const std::string& n) { notices_ += n + "\n"; };
    return fetch_repo(hub_.id, RepoKind::kDataset, hub_.cache(), options).folder;
  }
  // Of every file; the list is open to all.
  void refuse_files() {
    hub_.on_hub = [](const ServedRequest& r) -> std::optional<ServedAnswer> {
      if (contains(r.target, "/resolve/")) return FakeHub::refusal(403, "GatedRepo");
      return std::nullopt;
    };
  }

  FakeHub hub_;
  std::string snapshot_, notices_;
};

TEST_F(HubCompletion, AFormatThatIsWholeIsNotCompletedByAnother) {
  on_hub({"train.jsonl", "data/train-0.parquet", "data/train-1.parquet"});
  for (const char* name : {"train.jsonl", "README.md"}) add(name);
  EXPECT_EQ(fetch(), snapshot_);
  EXPECT_EQ(notices_, "");
  EXPECT_FALSE(has("data/train-0.parquet"));
  const std::size_t asked = hub_.hub.requests().size();
  fetch();
  EXPECT_EQ(hub_.hub.requests().size(), asked);
}

TEST_F(HubCompletion, TheFormatOfWhichMoreIsThereIsCompleted) {
  on_hub({"a.jsonl", "b.jsonl", "c.jsonl", "data/train-0.parquet", "data/train-1.parquet"});
  for (const char* name : {"data/train-0.parquet", "README.md"}) add(name);
  fetch();
  EXPECT_TRUE(has("data/train-1.parquet"));
  EXPECT_FALSE(has("a.jsonl"));
  EXPECT_TRUE(contains(notices_, "lacks data/train-1.parquet, which the hub has; fetched now"))
      << notices_;
}

TEST_F(HubCompletion, SubsetsAndSplitsOfTheOtherFormOnlyAreFetchedToo) {
  on_hub({"data/en/train-00000-of-00003.parquet", "data/en/train-00001-of-00003.parquet",
          "data/en/train-00002-of-00003.parquet", "data/en/test-00000-of-00001.parquet",
          "en/train.jsonl", "en/test.jsonl", "en/dev.jsonl", "fr/train.jsonl.gz",
          "fr/train.jsonl"});
  fetch();
  for (const char* name : {"data/en/train-00001-of-00003.parquet",
                           "data/en/test-00000-of-00001.parquet", "en/dev.jsonl", "fr/train.jsonl"})
    EXPECT_TRUE(has(name)) << name;
  for (const char* name : {"en/train.jsonl", "en/test.jsonl", "fr/train.jsonl.gz"})
    EXPECT_FALSE(has(name)) << name;
}

// As an interrupted `hf download` leaves it.
TEST_F(HubCompletion, WhatIsAddedToAWholeSnapshotIsNotRead) {
  on_hub({"sub/train.jsonl", "sub/train-0.parquet", "sub/train-1.parquet"});
  for (const char* name : {"sub/train.jsonl", "README.md"}) add(name);
  const std::vector<std::string> all{"train-0.parquet", "train-1.parquet", "train.jsonl"};
  EXPECT_EQ(form_to_read(snapshot_ + "/sub", all).chosen.size(), 2U);
  fetch();
  for (const char* name : {"sub/train-0.parquet", "sub/train-1.parquet"}) add(name);
  fetch();
  const OneForm form = form_to_read(snapshot_ + "/sub", all);
  EXPECT_EQ(form.chosen, std::vector<std::string>{"train.jsonl"});
  EXPECT_EQ(form.others, (std::vector<std::string>{"train-0.parquet", "train-1.parquet"}));
  // A file of then that is gone: nobody knows any longer what is whole.
  fs::remove(snapshot_ + "/README.md");
  EXPECT_EQ(form_to_read(snapshot_ + "/sub", all).chosen.size(), 2U);
}

TEST_F(HubCompletion, HiddenFilesAreNotFetched) {
  on_hub({"a.jsonl", ".ipynb_checkpoints/a-checkpoint.jsonl"});
  fetch();
  EXPECT_TRUE(has("a.jsonl"));
  EXPECT_FALSE(has(".ipynb_checkpoints"));
}

TEST_F(HubCompletion, AllRowsServeWithoutACardWhereTheCacheCannotBeWrittenTo) {
  on_hub({"a.jsonl"});
  add("a.jsonl");
  write_file(hub_.folder / "hub/.locks", "no folder can be made here");
  EXPECT_EQ(fetch(), snapshot_);
  EXPECT_TRUE(
      contains(notices_, "lacks README.md, which the hub has and which cannot be fetched ("))
      << notices_;
  EXPECT_TRUE(contains(notices_, "folder cannot be made")) << notices_;
}

TEST_F(HubCompletion, AllRowsServeWithoutACardOfADataSetWithoutAccess) {
  on_hub({"a.jsonl"});
  add("a.jsonl");
  refuse_files();
  EXPECT_EQ(fetch(), snapshot_);
  EXPECT_TRUE(contains(notices_, "access is restricted")) << notices_;
  EXPECT_TRUE(contains(notices_, "this run does without")) << notices_;
}

TEST_F(HubCompletion, AllRowsServeWithoutACardWhereTheConnectionBreaks) {
  on_hub({"a.jsonl"});
  add("a.jsonl");
  hub_.on_hub = [](const ServedRequest& r) -> std::optional<ServedAnswer> {
    if (!contains(r.target, "/resolve/") || r.method != "GET") return std::nullopt;
    return ServedAnswer{.body = "---\nlicense: mit\n---\n", .cut_after = 0};
  };
  EXPECT_EQ(fetch(), snapshot_);
  EXPECT_TRUE(contains(notices_, "this run does without")) << notices_;
}

TEST_F(HubCompletion, APartOfTheRowsIsNeverTakenForAll) {
  on_hub({"a.jsonl", "b.jsonl"});
  add("a.jsonl");
  refuse_files();
  const std::string refused = test::message_of([&] { fetch(); });
  EXPECT_TRUE(contains(refused, "access is restricted")) << refused;
  EXPECT_TRUE(contains(notices_, "lacks 2 files that the hub has, b.jsonl first; fetched now"))
      << notices_;
  EXPECT_TRUE(contains(notices_, "HF_HUB_OFFLINE=1 takes what is there")) << notices_;
  fs::remove_all(hub_.folder / "hub/.locks");
  write_file(hub_.folder / "hub/.locks", "no folder can be made here");
  EXPECT_TRUE(contains(test::message_of([&] { fetch(); }), "folder cannot be made"));
}

// A hub whose history was rewritten: of all commits it has only a new one.
void rewrite_history(FakeHub& hub) {
  const std::string lost = hub.commit;
  hub.commit = std::string(40, 'b');
  hub.on_hub = [lost](const ServedRequest& r) -> std::optional<ServedAnswer> {
    if (contains(r.target, "/revision/" + lost)) return FakeHub::refusal(404, "RevisionNotFound");
    return std::nullopt;
  };
}

TEST_F(HubCompletion, ForACommitThatTheHubHasLostTheNewestServes) {
  on_hub({"a.jsonl"});
  rewrite_history(hub_);
  EXPECT_EQ(fetch(), hub_.repo() + "/snapshots/" + hub_.commit);
  EXPECT_TRUE(contains(notices_, "which the hub no longer has; nothing of it is here")) << notices_;
  EXPECT_EQ(read_file(hub_.repo() + "/refs/main"), hub_.commit);
}

TEST_F(HubCompletion, OfACommitThatTheHubHasLostAPartIsNotReplacedUnasked) {
  on_hub({"a.jsonl", "b.jsonl"});
  add("a.jsonl");
  fs::create_symlink("../../blobs/gone", snapshot_ + "/b.jsonl");
  rewrite_history(hub_);
  const std::string message = test::message_of([&] { fetch(); });
  EXPECT_TRUE(contains(message, "has no revision")) << message;
  EXPECT_TRUE(contains(message, hub_.repo() + "/refs/main says")) << message;
  EXPECT_TRUE(contains(message, "`hf download --repo-type dataset org/chats` or remove"))
      << message;
}

TEST_F(HubCompletion, EqualFilesAreFetchedOnceAndNobodyWaits) {
  for (const char* name : {"a.jsonl", "b.jsonl", "c/d.jsonl", "c/e.jsonl"})
    hub_.files[name] = {many_bytes(50'000, 7), true};
  hub_.on_cdn = [](const ServedRequest&) -> std::optional<ServedAnswer> {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    return std::nullopt;
  };
  FetchOptions options = FakeHub::options();
  FetchProgress last;
  options.progress = [&](const FetchProgress& p) { last = p; };
  fetch(options);
  EXPECT_EQ(notices_.find("waiting"), std::string::npos) << notices_;
  EXPECT_EQ(hub_.cdn.requests().size(), 1U);
  EXPECT_EQ(last.files_done, 5);
  EXPECT_EQ(last.bytes_done, last.bytes);
  for (const char* name : {"a.jsonl", "b.jsonl", "c/d.jsonl", "c/e.jsonl"})
    EXPECT_EQ(read_file(snapshot_ + "/" + name), hub_.files.at(name).content) << name;
}

TEST_F(HubCompletion, ABrokenConnectionIsGivenUpEarlierThanABusyHub) {
  on_hub({"a.jsonl"});
  FetchOptions options = FakeHub::options();
  options.retries.tries = 6;
  options.retries.tries_to_connect = 2;
  const auto tries = [&](const FakeHub::Hook& answer) {
    hub_.on_hub = answer;
    const std::size_t before = hub_.hub.requests().size();
    EXPECT_NE(test::message_of([&] { fetch(options); }), "no error");
    return hub_.hub.requests().size() - before;
  };
  const ServedAnswer busy{.status = 503},
      broken{.body = std::string(100, ' '), .cut_after = std::size_t{10}};
  EXPECT_EQ(tries([&](const ServedRequest&) { return broken; }), 2U);
  EXPECT_EQ(tries([&](const ServedRequest&) { return busy; }), 6U);
  // An answer between them says that the hub is there.
  std::atomic<int> n{0};
  EXPECT_EQ(tries([&](const ServedRequest&) { return n++ % 2 == 0 ? broken : busy; }), 6U);
}

}  // namespace
}  // namespace glmtune::io
