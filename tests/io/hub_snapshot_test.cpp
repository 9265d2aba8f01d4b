// What belongs to a snapshot, that it is whole, and what a download waits for.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "base/error.h"
#include "fake_hub.h"
#include "io/file_lock.h"
#include "io/files.h"
#include "io/hub_download.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// Two files of rows and a card.
void fill_with_data(FakeHub& hub) {
  hub.id = "org/chats";
  hub.prefix = "datasets/";
  hub.files["a.jsonl"] = {"{\"a\": 1}\n"};
  hub.files["b.jsonl"] = {"{\"b\": 1}\n"};
  hub.files["README.md"] = {"---\nlicense: mit\n---\n"};
}

TEST(HubSnapshot, TheCardOfADataSetComesWithItsRows) {
  FakeHub hub;
  fill_with_data(hub);
  const auto got = fetch_repo(hub.id, RepoKind::kDataset, hub.cache(), FakeHub::options());
  EXPECT_EQ(read_file(got.folder + "/README.md"), "---\nlicense: mit\n---\n");
}

// `hf download` writes the reference first; hf_hub_download fetches single files.
TEST(HubSnapshot, WhatAnotherClientLeftIsComparedWithTheHubOnceAndCompleted) {
  FakeHub hub;
  fill_with_data(hub);
  const std::string snapshot = hub.repo() + "/snapshots/" + hub.commit;
  const auto leave_half = [&] {
    fs::remove_all(hub.folder / "hub");
    for (const std::string& folder : {snapshot, hub.repo() + "/refs", hub.repo() + "/blobs"})
      fs::create_directories(folder);
    write_file(hub.repo() + "/refs/main", hub.commit);
    write_file(snapshot + "/a.jsonl", hub.files["a.jsonl"].content);
  };
  leave_half();
  FetchOptions options = FakeHub::options();
  std::vector<std::string> notices;
  options.notice = [&](const std::string& n) { notices.push_back(n); };
  const auto fetch = [&](const HubCache& from) {
    notices.clear();
    return fetch_repo(hub.id, RepoKind::kDataset, from, options).folder;
  };
  EXPECT_EQ(fetch(hub.cache()), snapshot);
  EXPECT_EQ(read_file(snapshot + "/b.jsonl"), "{\"b\": 1}\n");
  EXPECT_TRUE(fs::exists(snapshot + "/README.md"));
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_TRUE(contains(notices[0], "lacks 2 files that the hub has")) << notices[0];
  const std::size_t asked = hub.hub.requests().size();
  fetch(hub.cache());
  EXPECT_EQ(hub.hub.requests().size(), asked);  // once
  EXPECT_TRUE(notices.empty());
  fs::remove(snapshot + "/b.jsonl");
  fetch(hub.cache());
  EXPECT_TRUE(fs::exists(snapshot + "/b.jsonl"));

  // Nobody to ask: what is there is used, and that is said.
  leave_half();
  HubCache elsewhere = hub.cache();
  elsewhere.offline = true;
  EXPECT_EQ(fetch(elsewhere), snapshot);
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_TRUE(contains(notices[0], "lacks files of rows")) << notices[0];
  elsewhere.offline = false;
  elsewhere.endpoint = "http://127.0.0.1:9";
  EXPECT_EQ(fetch(elsewhere), snapshot);
  ASSERT_EQ(notices.size(), 1U);
  EXPECT_TRUE(contains(notices[0], "is not known (http://127.0.0.1:9")) << notices[0];
}

// A snapshot in the cache of which the hub's branch has moved on.
struct OldSnapshot {
  FakeHub hub;
  std::string snapshot;
  std::vector<std::string> notices;

  explicit OldSnapshot(const std::vector<std::string>& names) {
    hub.id = "org/chats";
    hub.prefix = "datasets/";
    for (const std::string& name : names) hub.files[name] = {"{\"a\": 1}\n"};
    hub.on_hub = [](const ServedRequest& request) -> std::optional<ServedAnswer> {
      if (!contains(request.target, "/revision/main")) return std::nullopt;
      return ServedAnswer{.body = R"({"sha": "ffffffffffffffffffffffffffffffffffffffff",
                                      "siblings": [{"rfilename": "new.jsonl", "size": 1}]})"};
    };
    snapshot = hub.repo() + "/snapshots/" + hub.commit;
    for (const std::string& folder : {snapshot, hub.repo() + "/refs", hub.repo() + "/blobs"})
      fs::create_directories(folder);
    write_file(hub.repo() + "/refs/main", hub.commit);
  }
  void add(const std::string& name) const { write_file(snapshot + "/" + name, "{\"a\": 1}\n"); }
  // What is fetched: always the old commit.
  void fetch(bool offline) {
    notices.clear();
    HubCache cache = hub.cache();
    cache.offline = offline;
    FetchOptions options = FakeHub::options();
    options.notice = [&](const std::string& n) { notices.push_back(n); };
    EXPECT_EQ(fetch_repo(hub.id, RepoKind::kDataset, cache, options).folder, snapshot);
    EXPECT_EQ(read_file(hub.repo() + "/refs/main"), hub.commit);
  }
};

TEST(HubSnapshot, GapsInTheHubsOwnNumbersAreNoLack) {
  OldSnapshot old({"part-00001-of-00004.jsonl", "part-00003-of-00004.jsonl"});
  old.add("part-00001-of-00004.jsonl");
  old.fetch(true);
  ASSERT_EQ(old.notices.size(), 1U);
  EXPECT_TRUE(contains(old.notices[0], "seems to lack part-00000-of-00004.jsonl and 2 more"))
      << old.notices[0];
  old.fetch(false);  // compared with the same commit
  EXPECT_TRUE(fs::exists(old.snapshot + "/part-00003-of-00004.jsonl"));
  EXPECT_FALSE(fs::exists(old.snapshot + "/part-00000-of-00004.jsonl"));
  const std::size_t asked = old.hub.hub.requests().size();
  for (const bool offline : {true, false}) {
    old.fetch(offline);
    EXPECT_TRUE(old.notices.empty()) << old.notices[0];
    EXPECT_EQ(resolve_repo(old.hub.id, RepoKind::kDataset, old.hub.cache()).suspected, "");
  }
  EXPECT_EQ(old.hub.hub.requests().size(), asked);
}

TEST(HubSnapshot, ADownloadOfSomethingElseIsNoLack) {
  OldSnapshot old({"a.jsonl"});
  old.add("a.jsonl");
  write_file(old.hub.repo() + "/blobs/0123.incomplete", "x");
  old.fetch(true);
  ASSERT_EQ(old.notices.size(), 1U);
  EXPECT_TRUE(contains(old.notices[0], "broken off or is under way")) << old.notices[0];
  old.fetch(false);
  EXPECT_TRUE(old.notices.empty()) << old.notices[0];
  old.fetch(true);
  EXPECT_TRUE(old.notices.empty()) << old.notices[0];
}

TEST(HubSnapshot, WhatIsCertainlyMissingComesFromTheCommitOfTheCache) {
  OldSnapshot old({"a.jsonl", "b.jsonl"});
  old.add("a.jsonl");
  fs::create_symlink("../../blobs/gone", old.snapshot + "/b.jsonl");
  EXPECT_THROW(old.fetch(true), Error);
  old.fetch(false);
  EXPECT_EQ(read_file(old.snapshot + "/b.jsonl"), "{\"a\": 1}\n");
  ASSERT_EQ(old.notices.size(), 1U);
  EXPECT_TRUE(contains(old.notices[0], "knows main as commit " + old.hub.commit)) << old.notices[0];
}

TEST(HubSnapshot, ATokenizerWithoutItsTemplateIsCompleted) {
  FakeHub hub;
  fill_with_a_model(hub);
  const std::string snapshot = hub.repo() + "/snapshots/" + hub.commit;
  fs::create_directories(snapshot);
  fs::create_directories(hub.repo() + "/refs");
  write_file(hub.repo() + "/refs/main", hub.commit);
  write_file(snapshot + "/tokenizer.json", hub.files["tokenizer.json"].content);
  EXPECT_EQ(hub.message(hub.cache(), RepoKind::kTokenizer), snapshot);
  EXPECT_EQ(read_file(snapshot + "/chat_template.jinja"), "{{ messages }}");
}

TEST(HubSnapshot, AWaitEndsWhenAnotherFileHasFailed) {
  FakeHub hub;
  fill_with_data(hub);
  std::atomic<bool> waits{false};
  hub.on_hub = [&](const ServedRequest& r) -> std::optional<ServedAnswer> {
    if (r.method != "HEAD") return std::nullopt;
    if (r.target.ends_with("/a.jsonl")) {
      waits = true;
      return ServedAnswer{.status = 429, .headers = {{"Retry-After", "300"}}};
    }
    while (!waits) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FakeHub::refusal(403, "GatedRepo");
  };
  const auto begin = std::chrono::steady_clock::now();
  const std::string message = hub.message(hub.cache(), RepoKind::kDataset);
  EXPECT_TRUE(contains(message, "access is restricted")) << message;
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(60));
}

TEST(HubSnapshot, AWaitForAnotherProcessIsSaidAndEndsWhenAnotherFileHasFailed) {
  FakeHub hub;
  fill_with_data(hub);
  const fs::path locks = fs::path(hub.folder / "hub/.locks") / fs::path(hub.repo()).filename();
  fs::create_directories(locks);
  FileLock other((locks / (hub.files["a.jsonl"].etag() + ".lock")).string());
  other.set_note("process 7 on host n");
  std::atomic<bool> waits{false};
  hub.on_hub = [&](const ServedRequest& r) -> std::optional<ServedAnswer> {
    if (r.method != "HEAD" || r.target.ends_with("/a.jsonl")) return std::nullopt;
    for (int i = 0; i < 10'000 && !waits; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return FakeHub::refusal(403, "GatedRepo");
  };
  FetchOptions options = FakeHub::options();
  std::string notice;
  options.notice = [&](const std::string& n) {
    notice = n;
    waits = true;
  };
  EXPECT_THROW((void)fetch_repo(hub.id, RepoKind::kDataset, hub.cache(), options), Error);
  EXPECT_TRUE(contains(notice, "waiting for process 7 on host n, which fetches a.jsonl")) << notice;
}

TEST(HubSnapshot, ASmallFileThatArrivesDamagedIsFoundByGitsName) {
  FakeHub hub;
  fill_with_data(hub);
  hub.on_hub = [&](const ServedRequest& r) -> std::optional<ServedAnswer> {
    if (r.method != "GET" || !r.target.ends_with("/b.jsonl")) return std::nullopt;
    return ServedAnswer{.body = "{\"b\": 2}\n"};
  };
  const std::string message = hub.message(hub.cache(), RepoKind::kDataset);
  EXPECT_TRUE(contains(message, "b.jsonl arrived damaged twice (git's sha1 ")) << message;
  EXPECT_FALSE(fs::exists(hub.repo() + "/refs/main"));
}

TEST(HubSnapshot, AListWithoutAnEndIsRefused) {
  FakeHub hub;
  fill_with_data(hub);
  FetchOptions options = FakeHub::options();
  options.http.longest_list = hub.listing().size() - 1;
  try {
    (void)fetch_repo(hub.id, RepoKind::kDataset, hub.cache(), options);
    FAIL();
  } catch (const Error& e) {
    EXPECT_TRUE(contains(e.what(), "the list of files is longer than")) << e.what();
  }
  options.http.longest_list += 1;
  EXPECT_NO_THROW((void)fetch_repo(hub.id, RepoKind::kDataset, hub.cache(), options));
}

TEST(HubSnapshot, WhatAServerSaysCannotActOnTheTerminal) {
  FakeHub hub;
  fill_with_a_model(hub);
  hub.on_hub = [](const ServedRequest&) {
    return ServedAnswer{.status = 403, .body = "\x1b]0;owned\x07 \xC2\x9B"};
  };
  const std::string message = hub.message(hub.cache());
  EXPECT_TRUE(contains(message, "(\\x1b]0;owned\\x07 \\xc2\\x9b)")) << message;
}

TEST(HubSnapshot, PartsOfOtherFilesDoNotCountAsRoom) {
  FakeHub hub;
  fill_with_data(hub);
  // A large part without a byte on the disk.
  fs::create_directories(hub.repo() + "/blobs");
  const std::string unrelated = hub.repo() + "/blobs/" + std::string(64, 'a') + ".incomplete";
  write_file(unrelated, "");
  std::error_code refused;
  fs::resize_file(unrelated, std::uintmax_t{1} << 43, refused);
  if (refused) GTEST_SKIP() << "this file system has no sparse files of 8 TiB";
  hub.announced_size = std::int64_t{1} << 41;  // three of them: 6 TiB
  const std::string message = hub.message(hub.cache(), RepoKind::kDataset);
  EXPECT_TRUE(contains(message, human_bytes(std::uint64_t{3} << 41) + " are still to be fetched"))
      << message;
}

}  // namespace
}  // namespace glmtune::io
