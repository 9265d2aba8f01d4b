#include "train/checkpoint_manifest.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <vector>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "io/this_process.h"
#include "train/metrics_log.h"

namespace glmtune::train {
namespace {

namespace fs = std::filesystem;

std::string hex(std::uint32_t sum) {
  const std::string digits = cat(std::hex, sum);
  return std::string(8 - digits.size(), '0') + digits;
}

io::Value entry_of(const std::string& name, std::uintmax_t bytes, std::uint32_t checksum) {
  return io::Value::Object{
      {"name", name}, {"bytes", static_cast<std::int64_t>(bytes)}, {"crc32c", hex(checksum)}};
}

struct Entry {
  std::string name;
  std::int64_t bytes = 0;
  std::optional<std::string> checksum;
};

std::vector<Entry> read_entries(const std::string& folder) {
  const io::Value manifest = io::read_json_file((fs::path(folder) / kManifestName).string());
  const io::Value* files = manifest.is_object() ? manifest.find("files") : nullptr;
  if (files == nullptr) fail("manifest.json lists no files");
  std::vector<Entry> entries;
  for (const io::Value& file : files->as_array()) {
    const io::Value *name = file.find("name"), *bytes = file.find("bytes"),
                    *sum = file.find("crc32c");
    if (name == nullptr || bytes == nullptr) fail("manifest.json is damaged");
    Entry e{.name = name->as_string(), .bytes = bytes->as_int(), .checksum = {}};
    if (sum != nullptr) e.checksum = sum->as_string();
    entries.push_back(std::move(e));
  }
  return entries;
}

std::string wrong_size(const fs::path& folder, const Entry& e) {
  std::error_code ec;
  const auto size = fs::file_size(folder / e.name, ec);
  if (ec) return cat(e.name, " is missing");
  if (static_cast<std::int64_t>(size) == e.bytes) return "";
  return cat(e.name, " has ", size, " bytes instead of ", e.bytes);
}

std::string wrong_contents(const fs::path& folder, const Entry& e) {
  if (!e.checksum) return "";
  const std::string found = hex(io::file_checksum((folder / e.name).string()));
  if (found == *e.checksum) return "";
  return cat(e.name, " has changed since it was written: crc32c ", found, " instead of ",
             *e.checksum);
}

bool is_state(const Entry& e) {
  return e.name.starts_with("state.");
}

// A file that cannot be read is as good as a damaged one, and says nothing about the others.
template <class Check>
std::string problem_of(Check check, const fs::path& folder, const Entry& e) {
  try {
    return check(folder, e);
  } catch (const Error& error) {
    return error.what();
  }
}

}  // namespace

void write_manifest(const std::string& folder, std::int64_t epoch, std::int64_t step,
                    const io::Value& run, const Checksums& known, const std::string& except) {
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file() && entry.path().filename() != except)
      names.push_back(fs::relative(entry.path(), folder).string());
  std::sort(names.begin(), names.end());
  io::Value::Array files;
  for (const std::string& name : names) {
    const std::string path = (fs::path(folder) / name).string();
    const auto sum = known.find(name);
    files.push_back(entry_of(name, fs::file_size(path),
                             sum != known.end() ? sum->second : io::file_checksum(path)));
  }
  io::Value manifest(io::Value::Object{{"format", "glmtune checkpoint 1"},
                                       {"epoch", epoch},
                                       {"step", step},
                                       {"world_size", 1},
                                       {"saved_at", io::timestamp_now()}});
  if (!run.is_null()) manifest.set("run", run);
  manifest.set("files", std::move(files));
  io::write_file((fs::path(folder) / kManifestName).string(),
                 io::to_json(manifest, {.indent = 2}) + "\n");
}

void replace_listed_file(const std::string& folder, const std::string& name,
                         const std::string& text) {
  const std::string path = (fs::path(folder) / name).string();
  const std::string manifest_path = (fs::path(folder) / kManifestName).string();
  io::Value manifest = io::read_json_file(manifest_path);
  io::Value::Array files;
  if (const io::Value* listed = manifest.find("files"))
    for (const io::Value& file : listed->as_array())
      if (const io::Value* other = file.find("name");
          other != nullptr && other->as_string() != name)
        files.push_back(file);
  io::write_file(path, text);
  files.push_back(entry_of(name, text.size(), io::file_checksum(path)));
  std::sort(files.begin(), files.end(), [](const io::Value& a, const io::Value& b) {
    return a.find("name")->as_string() < b.find("name")->as_string();
  });
  manifest.set("files", std::move(files));
  io::write_file(manifest_path, io::to_json(manifest, {.indent = 2}) + "\n");
}

std::string saved_at(const std::string& folder) {
  try {
    const io::Value manifest = io::read_json_file((fs::path(folder) / kManifestName).string());
    const io::Value* at = manifest.is_object() ? manifest.find("saved_at") : nullptr;
    return at == nullptr ? "" : at->as_string();
  } catch (const Error&) {
    return "";
  }
}

std::string damage_of(const std::string& folder, const std::string& name) {
  try {
    for (const Entry& e : read_entries(folder)) {
      if (e.name != name) continue;
      const std::string size = problem_of(wrong_size, folder, e);
      return size.empty() ? problem_of(wrong_contents, folder, e) : size;
    }
    return cat(name, " is not in manifest.json");
  } catch (const Error& e) {
    return e.what();
  }
}

ManifestDamage check_manifest(const std::string& folder) {
  ManifestDamage damage;
  try {
    const std::vector<Entry> entries = read_entries(folder);
    for (const Entry& e : entries) {
      std::string& problem = is_state(e) ? damage.state : damage.others;
      if (problem.empty()) problem = problem_of(wrong_size, folder, e);
    }
    for (const Entry& e : entries)
      if (is_state(e) && damage.state.empty()) damage.state = problem_of(wrong_contents, folder, e);
  } catch (const Error& e) {
    damage.state = e.what();
  }
  return damage;
}

}  // namespace glmtune::train
