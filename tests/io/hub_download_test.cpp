#include "io/hub_download.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "base/error.h"
#include "fake_hub.h"
#include "io/files.h"

namespace glmtune::io {
namespace {

namespace fs = std::filesystem;

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

void expect_model(const FakeHub& hub, const std::string& folder) {
  for (const char* name : {"config.json", "tokenizer.json", "model-1.safetensors",
                           "model-2.safetensors", "model.safetensors.index.json"}) {
    const FakeHub::File& file = hub.files.at(name);
    EXPECT_EQ(read_file(folder + "/" + name), file.content) << name;
    EXPECT_EQ(fs::read_symlink(folder + "/" + name).string(), "../../blobs/" + file.etag());
  }
}

TEST(HubDownload, AModelIsLaidOutAsTheOfficialClientDoesIt) {
  FakeHub hub;
  fill_with_a_model(hub);
  FetchProgress last;
  FetchOptions options = FakeHub::options();
  options.progress = [&](const FetchProgress& p) { last = p; };
  const ResolvedRepo got = fetch_repo(hub.id, RepoKind::kModel, hub.cache(), options);
  EXPECT_EQ(got.commit, hub.commit);
  EXPECT_EQ(got.folder, hub.repo() + "/snapshots/" + hub.commit);
  EXPECT_EQ(read_file(hub.repo() + "/refs/main"), hub.commit);
  expect_model(hub, got.folder);
  for (const char* other : {"README.md", "pytorch_model.bin", "consolidated.safetensors"}) {
    EXPECT_FALSE(fs::exists(got.folder + "/" + other)) << other;
  }
  EXPECT_EQ(last.files_done, 2);
  EXPECT_EQ(last.bytes_done, 350'000U);
  EXPECT_EQ(last.bytes, 350'000U);

  // It is all there: nothing is asked any more, and it resolves without a network.
  const std::size_t asked = hub.hub.requests().size();
  EXPECT_EQ(hub.message(hub.cache()), got.folder);
  EXPECT_EQ(hub.hub.requests().size(), asked);
  HubCache offline = hub.cache();
  offline.offline = true;
  EXPECT_EQ(hub.message(offline), got.folder);
}

TEST(HubDownload, ATokenizerComesWithoutTheWeights) {
  FakeHub hub;
  fill_with_a_model(hub);
  const auto got = fetch_repo(hub.id, RepoKind::kTokenizer, hub.cache(), FakeHub::options());
  EXPECT_TRUE(fs::exists(got.folder + "/tokenizer.json"));
  EXPECT_FALSE(fs::exists(got.folder + "/model-1.safetensors"));
  EXPECT_EQ(hub.cdn.count("GET", "/model"), 0U);
  // The model is not whole yet, so its weights are fetched when they are wanted.
  expect_model(hub, hub.message(hub.cache()));
}

TEST(HubDownload, AConfigComesAloneAndIsNotAskedForAgain) {
  FakeHub hub;
  fill_with_a_model(hub);
  const auto got = fetch_repo(hub.id, RepoKind::kConfig, hub.cache(), FakeHub::options());
  EXPECT_EQ(read_file(got.folder + "/config.json"), "{}");
  EXPECT_FALSE(fs::exists(got.folder + "/tokenizer.json"));
  const std::size_t asked = hub.hub.requests().size();
  EXPECT_EQ(hub.message(hub.cache(), RepoKind::kConfig), got.folder);
  EXPECT_EQ(hub.hub.requests().size(), asked);
  expect_model(hub, hub.message(hub.cache()));  // the rest is still fetched when it is wanted

  FakeHub without;
  without.files["README.md"] = {"no model"};
  EXPECT_TRUE(
      contains(without.message(without.cache(), RepoKind::kConfig), "has no config.json in it"));
}

TEST(HubDownload, FilesOfADataSetInFoldersAndOfTheFormatMostFilesHave) {
  FakeHub hub;
  hub.id = "allenai/tulu";
  hub.prefix = "datasets/";
  hub.files["data/train-0.parquet"] = {"rows 0", true};
  hub.files["data/train-1.parquet"] = {"rows 1", true};
  hub.files["extra.jsonl"] = {"{}"};
  hub.files["dataset_infos.json"] = {"{}"};
  const auto got = fetch_repo(hub.id, RepoKind::kDataset, hub.cache(), FakeHub::options(), "v1/x");
  EXPECT_EQ(read_file(got.folder + "/data/train-1.parquet"), "rows 1");
  EXPECT_EQ(fs::read_symlink(got.folder + "/data/train-0.parquet").string(),
            "../../../blobs/" + hub.files["data/train-0.parquet"].etag());
  EXPECT_FALSE(fs::exists(got.folder + "/extra.jsonl"));
  EXPECT_EQ(read_file(hub.repo() + "/refs/v1/x"), hub.commit);
  EXPECT_EQ(hub.hub.count("GET", "/api/datasets/allenai/tulu/revision/v1%2Fx"), 1U);
}

TEST(HubDownload, TheTokenStaysWithTheEndpoint) {
  FakeHub hub;
  fill_with_a_model(hub);
  (void)fetch_repo(hub.id, RepoKind::kModel, hub.cache("hf_secret"), FakeHub::options());
  for (const ServedRequest& r : hub.hub.requests()) {
    EXPECT_EQ(r.header("authorization"), "Bearer hf_secret") << r.target;
  }
  EXPECT_GE(hub.cdn.requests().size(), 3U);
  for (const ServedRequest& r : hub.cdn.requests()) {
    EXPECT_EQ(r.headers.count("authorization"), 0U) << r.target;
    EXPECT_FALSE(contains(r.target, "secret"));
  }
}

TEST(HubDownload, ACutConnectionIsContinuedWhereItBroke) {
  FakeHub hub;
  fill_with_a_model(hub);
  std::atomic<int> cuts{0};
  hub.on_cdn = [&](const ServedRequest& r) -> std::optional<ServedAnswer> {
    // More cuts than tries in a row are allowed: each brought bytes.
    if (!r.target.starts_with("/model-1") || cuts >= 5) return std::nullopt;
    ++cuts;
    ServedAnswer answer = FakeHub::bytes_of(r, hub.files["model-1.safetensors"].content);
    answer.cut_after = 20'000;
    return answer;
  };
  expect_model(hub, hub.message(hub.cache()));
  std::vector<std::string> ranges;
  for (const ServedRequest& r : hub.cdn.requests()) {
    if (r.target.starts_with("/model-1")) ranges.push_back(r.header("range"));
  }
  EXPECT_EQ(ranges, (std::vector<std::string>{"", "bytes=20000-", "bytes=40000-", "bytes=60000-",
                                              "bytes=80000-", "bytes=100000-"}));
}

TEST(HubDownload, APartFromAnEarlierRunIsContinuedAndChecked) {
  FakeHub hub;
  fill_with_a_model(hub);
  const FakeHub::File& shard = hub.files["model-1.safetensors"];
  fs::create_directories(hub.repo() + "/blobs");
  const std::string part = hub.repo() + "/blobs/" + shard.etag() + ".incomplete";
  write_file(part, shard.content.substr(0, 70'000));
  // The other shard's part is not what the file begins with.
  write_file(hub.repo() + "/blobs/" + hub.files["model-2.safetensors"].etag() + ".incomplete",
             std::string(1000, 'x'));
  expect_model(hub, hub.message(hub.cache()));
  std::vector<std::string> first, second;
  for (const ServedRequest& r : hub.cdn.requests()) {
    if (r.target.starts_with("/model-1")) first.push_back(r.header("range"));
    if (r.target.starts_with("/model-2")) second.push_back(r.header("range"));
  }
  EXPECT_EQ(first, std::vector<std::string>{"bytes=70000-"});
  EXPECT_EQ(second, (std::vector<std::string>{"bytes=1000-", ""}));
  EXPECT_FALSE(fs::exists(part));
}

TEST(HubDownload, AServerWithoutRangesSendsTheFileFromItsBeginning) {
  FakeHub hub;
  fill_with_a_model(hub);
  std::atomic<int> asked{0};
  hub.on_cdn = [&](const ServedRequest& r) -> std::optional<ServedAnswer> {
    if (!r.target.starts_with("/model-1")) return std::nullopt;
    ServedAnswer answer{.body = hub.files["model-1.safetensors"].content};
    if (asked++ == 0) answer.cut_after = 50'000;
    return answer;
  };
  expect_model(hub, hub.message(hub.cache()));
  EXPECT_EQ(asked, 2);
}

TEST(HubDownload, AFileThatArrivesDamagedTwiceIsRefusedAndRemoved) {
  FakeHub hub;
  fill_with_a_model(hub);
  hub.on_cdn = [&](const ServedRequest& r) -> std::optional<ServedAnswer> {
    if (!r.target.starts_with("/model-2")) return std::nullopt;
    std::string damaged = hub.files["model-2.safetensors"].content;
    damaged[77] = static_cast<char>(damaged[77] ^ 1);
    return FakeHub::bytes_of(r, damaged);
  };
  const std::string message = hub.message(hub.cache());
  EXPECT_TRUE(contains(message, "model-2.safetensors arrived damaged twice (sha256 ")) << message;
  EXPECT_EQ(hub.cdn.count("GET", "/model-2"), 2U);
  const std::string blob = hub.repo() + "/blobs/" + hub.files["model-2.safetensors"].etag();
  EXPECT_FALSE(fs::exists(blob));
  EXPECT_FALSE(fs::exists(blob + ".incomplete"));
  // Half a model has no reference.
  EXPECT_FALSE(fs::exists(hub.repo() + "/refs/main"));
}

TEST(HubDownload, RefusalsSayWhatToDoAndNeverTheToken) {
  FakeHub hub;
  fill_with_a_model(hub);
  const auto says = [&](int status, const std::string& code, const std::string& token) {
    hub.on_hub = [=](const ServedRequest&) { return FakeHub::refusal(status, code); };
    const std::string message = hub.message(hub.cache(token));
    EXPECT_FALSE(contains(message, "hf_secret")) << message;
    return message;
  };
  std::string m = says(401, "RepoNotFound", "");
  EXPECT_TRUE(contains(m, "no such model, or it is private")) << m;
  EXPECT_TRUE(contains(m, "no token was sent (set HF_TOKEN")) << m;
  m = says(404, "", "hf_secret");
  EXPECT_TRUE(contains(m, "the token of HF_TOKEN was sent")) << m;
  m = says(403, "GatedRepo", "hf_secret");
  EXPECT_TRUE(contains(m, "accept its terms at " + hub.hub.url() + "/zai-org/GLM-5.2")) << m;
  m = says(404, "RevisionNotFound", "");
  EXPECT_TRUE(contains(m, "has no revision \"main\"")) << m;
  m = says(403, "", "");
  EXPECT_TRUE(contains(m, "HTTP status 403")) << m;
  EXPECT_EQ(hub.cdn.requests().size(), 0U);
}

TEST(HubDownload, BusyServersAreAskedAgain) {
  FakeHub hub;
  fill_with_a_model(hub);
  std::atomic<int> busy{0};
  const auto sometimes = [&](const ServedRequest&) -> std::optional<ServedAnswer> {
    const int n = busy++;
    if (n % 3 == 0) return ServedAnswer{.status = 503};
    if (n % 3 == 1) return ServedAnswer{.status = 429, .headers = {{"Retry-After", "0"}}};
    return std::nullopt;
  };
  hub.on_hub = sometimes;
  FetchOptions options = FakeHub::options();
  options.threads = 1;
  std::vector<std::string> notices;
  options.notice = [&](const std::string& n) { notices.push_back(n); };
  expect_model(hub, fetch_repo(hub.id, RepoKind::kModel, hub.cache(), options).folder);
  ASSERT_GE(notices.size(), 2U);
  EXPECT_TRUE(contains(notices[0], "HTTP status 503; trying again in")) << notices[0];

  hub.on_hub = [](const ServedRequest&) { return ServedAnswer{.status = 500, .body = "oh"}; };
  fs::remove_all(hub.repo());
  const std::string message = hub.message(hub.cache());
  EXPECT_TRUE(contains(message, "HTTP status 500 (oh)")) << message;
}

TEST(HubDownload, AFileThatChangesAfterItsHeadIsAskedForAgain) {
  FakeHub hub;
  fill_with_a_model(hub);
  std::atomic<int> heads{0};
  hub.on_hub = [&](const ServedRequest& r) -> std::optional<ServedAnswer> {
    if (r.method != "HEAD" || !r.target.ends_with("/model-1.safetensors") || heads++ > 0) {
      return std::nullopt;
    }
    return ServedAnswer{.status = 302,
                        .headers = {{"Location", hub.cdn.url() + "/model-1.safetensors"},
                                    {"X-Linked-Etag", '"' + std::string(64, 'a') + '"'},
                                    {"X-Linked-Size", "200000"},
                                    {"X-Repo-Commit", hub.commit}}};
  };
  expect_model(hub, hub.message(hub.cache()));
  EXPECT_EQ(heads, 2);
}

TEST(HubDownload, ARenamedRepositoryIsFollowedOnTheSameHost) {
  FakeHub hub;
  fill_with_a_model(hub);
  hub.on_hub = [&](const ServedRequest& r) -> std::optional<ServedAnswer> {
    const std::size_t old = r.target.find("old-org/Name");
    if (old == std::string::npos) return std::nullopt;
    std::string target = r.target;
    return ServedAnswer{.status = 307, .headers = {{"Location", target.replace(old, 12, hub.id)}}};
  };
  const auto got = fetch_repo("old-org/Name", RepoKind::kModel, hub.cache("t"), FakeHub::options());
  expect_model(hub, got.folder);
  EXPECT_TRUE(contains(got.folder, "models--old-org--Name"));
}

TEST(HubDownload, WithoutAHubTheFolderThatWasSearchedIsNamed) {
  FakeHub hub;
  HubCache nobody = hub.cache();
  nobody.endpoint = "http://127.0.0.1:9";
  EXPECT_THROW((void)fetch_repo(hub.id, RepoKind::kModel, nobody, FakeHub::options()),
               MachineError);
  const std::string message = hub.message(nobody);
  EXPECT_TRUE(contains(message, "searched " + hub.repo())) << message;
  EXPECT_TRUE(contains(message, "127.0.0.1:9")) << message;
  nobody.endpoint = "https://hub.invalid";  // no name: the connection fails earlier
  const std::string no_name = hub.message(nobody);
  EXPECT_TRUE(contains(no_name, "https://hub.invalid/api/models/")) << no_name;
  EXPECT_TRUE(contains(no_name, "cannot be fetched")) << no_name;
  nobody.offline = true;
  const std::string offline = hub.message(nobody);
  EXPECT_TRUE(contains(offline, "searched " + hub.repo())) << offline;
  EXPECT_TRUE(contains(offline, "HF_HUB_OFFLINE")) << offline;
}

TEST(HubDownload, AnEndpointOfAnotherSchemeIsRefusedAtOnce) {
  const FakeHub hub;
  for (const char* endpoint : {"file:///tmp", "ftp://mirror", "notaurl", "https://"}) {
    HubCache cache = hub.cache();
    cache.endpoint = endpoint;
    const std::string message = hub.message(cache);
    EXPECT_TRUE(contains(message, "HF_ENDPOINT: expected")) << message;
    EXPECT_TRUE(contains(message, endpoint)) << message;
  }
}

TEST(HubDownload, NamesThatLeadOutOfTheSnapshotAreRefused) {
  FakeHub hub;
  fill_with_a_model(hub);
  hub.files["../config.json"] = {"{}"};
  EXPECT_TRUE(contains(hub.message(hub.cache()), "without a usable name"));
  hub.files.erase("../config.json");
  hub.on_hub = [&](const ServedRequest& r) -> std::optional<ServedAnswer> {
    if (r.method != "HEAD") return std::nullopt;
    return ServedAnswer{.headers = {{"ETag", "\"../../x\""}, {"X-Repo-Commit", hub.commit}}};
  };
  EXPECT_TRUE(contains(hub.message(hub.cache()), "no usable ETag"));
}

TEST(HubDownload, WhatTheRepositoryLacksIsNamed) {
  FakeHub hub;
  hub.files["config.json"] = {"{}"};
  hub.files["pytorch_model.bin"] = {"pickle"};
  EXPECT_TRUE(contains(hub.message(hub.cache()), "has no model.safetensors in it"));
  hub.files["model.safetensors.index.json"] = {R"({"weight_map": {"a": "gone.safetensors"}})"};
  fs::remove_all(hub.repo());
  EXPECT_TRUE(contains(hub.message(hub.cache()), "has no gone.safetensors in it"));
}

TEST(HubDownload, ADiskTooSmallIsSeenBeforeAnythingIsFetched) {
  FakeHub hub;
  fill_with_a_model(hub);
  hub.announced_size = std::int64_t{1} << 60;
  const std::string message = hub.message(hub.cache());
  EXPECT_TRUE(contains(message, "are still to be fetched")) << message;
  EXPECT_EQ(hub.cdn.requests().size(), 0U);
}

TEST(HubDownload, TheTokenComesFromTheEnvironmentOrTheFileOfALogin) {
  const TempFolder home;
  std::map<std::string, std::string> set = {{"HF_HOME", home.path()}};
  const auto cache = [&] {
    return hub_cache([&](const char* name) -> std::optional<std::string> {
      const auto at = set.find(name);
      return at == set.end() ? std::nullopt : std::optional(at->second);
    });
  };
  EXPECT_EQ(cache().token, "");
  EXPECT_EQ(cache().endpoint, "https://huggingface.co");
  write_file(home / "token", "hf_file\n");
  EXPECT_EQ(cache().token, "hf_file");
  EXPECT_EQ(cache().token_from, home / "token");
  set["HF_TOKEN_PATH"] = home / "other";
  EXPECT_EQ(cache().token, "");
  set["HF_TOKEN"] = " hf_environment\n";
  EXPECT_EQ(cache().token, "hf_environment");
  EXPECT_EQ(cache().token_from, "HF_TOKEN");
  set["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1";
  EXPECT_EQ(cache().token, "");
  set["HF_ENDPOINT"] = "https://mirror.example/";
  EXPECT_EQ(cache().endpoint, "https://mirror.example");
}

TEST(HubDownload, AddressesAreEncodedAndCompared) {
  EXPECT_EQ(percent_encoded("refs/pr 1", false), "refs%2Fpr%201");
  EXPECT_EQ(percent_encoded("a/b+\xC3\xA9.json", true), "a/b%2B%C3%A9.json");
  EXPECT_EQ(origin_of("https://HF.co/a"), "https://hf.co:443");
  EXPECT_EQ(origin_of("http://hf.co:8080/a"), "http://hf.co:8080");
  EXPECT_EQ(absolute_url("http://a/b/c?d", "/e"), "http://a/e");
  EXPECT_EQ(absolute_url("http://a/b", "https://c/d"), "https://c/d");
}

// The examples of FIPS 180-4, and one longer than a block by every remainder that matters.
TEST(Sha256, StandardVectors) {
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
            "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  const std::string million(1'000'000, 'a');
  const std::string want = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
  EXPECT_EQ(sha256_hex(million), want);
  for (const std::size_t step : {1U, 55U, 56U, 63U, 64U, 65U, 1000U}) {
    Sha256 sha;
    for (std::size_t i = 0; i < million.size(); i += step) {
      sha.add(std::string_view(million).substr(i, step));
    }
    EXPECT_EQ(sha.hex(), want) << step;
  }
}

}  // namespace
}  // namespace glmtune::io
