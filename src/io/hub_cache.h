#pragma once
// Hub ids ("zai-org/GLM-5.2") resolved in the local cache of the Hugging Face hub, without a
// connection. Layout: ROOT/models--ORG--NAME/{refs/REVISION, snapshots/COMMIT/FILE -> blobs/ETAG}.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace glmtune::io {

// The value of an environment variable; none when unset. Given by the program, so that this layer
// reads no environment of its own.
using Environment = std::function<std::optional<std::string>(const char* name)>;

struct HubCache {
  std::string root;
  bool offline = false;  // HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE
  std::string endpoint = "https://huggingface.co";
  std::string token = {};       // empty: none; never part of a message
  std::string token_from = {};  // what a message may say of it: "HF_TOKEN", a file's name
};

// HF_HUB_CACHE, HUGGINGFACE_HUB_CACHE, $HF_HOME/hub, $XDG_CACHE_HOME/huggingface/hub or
// ~/.cache/huggingface/hub, the first that is set; endpoint: HF_ENDPOINT; token: HF_TOKEN, else
// the file HF_TOKEN_PATH or $HF_HOME/token, as `hf auth login` leaves it. In paths ~, ~NAME, $NAME
// and ${NAME} are expanded, as the client does.
HubCache hub_cache(const Environment& environment);

// kTokenizer: a model's repository of which the weights are not needed; kConfig: one of which only
// config.json is.
enum class RepoKind : std::uint8_t { kModel, kTokenizer, kConfig, kDataset };

struct ResolvedRepo {
  std::string folder;
  std::string commit = {};  // empty when a path was given
  // Of a data set that nobody compared with the hub: what its files suggest that it lacks, such as
  // "data/train-00001-of-00003.parquet and 2 more files"; empty where nothing does.
  std::string suspected = {};
};

// What a message tells users to run: "hf download --repo-type dataset org/name --revision dev".
std::string download_command(const std::string& id, RepoKind kind, const std::string& revision);

// 40 hexadecimal digits.
bool is_commit(std::string_view text);
// ROOT/models--ORG--NAME or ROOT/datasets--ORG--NAME.
std::string repo_folder(const HubCache& cache, const std::string& id, RepoKind kind);

// True for "ORG/NAME" and "NAME" of the characters that the hub allows.
bool is_hub_id(std::string_view text);

// The commit that the cache knows a revision as, whether or not its files are there.
std::optional<std::string> cached_commit(const std::string& id, RepoKind kind,
                                         const HubCache& cache, const std::string& revision);

// A folder that exists is used as it is; otherwise the snapshot of `revision` (branch, tag or
// commit) of a hub id. A model's snapshot must hold config.json and its weights, every shard of the
// index; a tokenizer's tokenizer.json; a config's config.json; a data set's some file of rows and
// no link into nowhere. The error names the folder that was searched and what is missing. What a
// data set only seems to lack, of files that are numbered (train-00000-of-00006.parquet) or because
// of a download that was broken off, is `suspected`, and nothing of one that was compared with the
// hub (hub_selection.h).
ResolvedRepo resolve_repo(const std::string& path_or_id, RepoKind kind, const HubCache& cache,
                          const std::string& revision = "main");

}  // namespace glmtune::io
