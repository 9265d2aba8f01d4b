#include "data/pack_cache.h"

#include <chrono>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "base/cat.h"
#include "base/error.h"
#include "data/hash.h"
#include "io/file_lock.h"
#include "io/files.h"
#include "io/json.h"
#include "io/this_process.h"

namespace glmtune::data {
namespace {

using io::Value;

// Layout: magic, u64 bytes of a JSON header, the header, the arrays in the header's order, and a
// 32-digit hash of all before it.
constexpr std::string_view kMagic = "glmtpak1";
constexpr std::size_t kHashDigits = 32;

Value counts_value(const std::vector<Count>& counts) {
  Value::Array out;
  for (const Count& c : counts) out.push_back(Value(Value::Array{Value(c.what), Value(c.count)}));
  return Value(std::move(out));
}

std::vector<Count> counts_of(const Value& value) {
  std::vector<Count> out;
  for (const Value& c : value.as_array()) {
    out.push_back({c.as_array().at(0).as_string(), c.as_array().at(1).as_int()});
  }
  return out;
}

// The numbers of a summary, by name, in one place for both directions.
template <class Summary, class Visit>
void visit_numbers(Summary& s, Visit visit) {
  visit("rows", s.rows);
  visit("samples", s.samples);
  visit("packs", s.packs);
  visit("tokens", s.tokens);
  visit("label_tokens", s.label_tokens);
  visit("truncated", s.truncated);
  visit("longest", s.longest);
  visit("pack_size", s.pack_size);
}

Value summary_value(const DataSummary& summary) {
  Value out{Value::Object{}};
  visit_numbers(summary, [&](const char* name, const std::int64_t& n) { out.set(name, Value(n)); });
  out.set("dropped", counts_value(summary.dropped));
  out.set("notes", counts_value(summary.notes));
  Value::Array problems(summary.problems.begin(), summary.problems.end());
  out.set("problems", Value(std::move(problems)));
  Value::Array histogram(summary.length_histogram.begin(), summary.length_histogram.end());
  out.set("histogram", Value(std::move(histogram)));
  return out;
}

const Value& member(const Value& object, const char* name) {
  const Value* v = object.find(name);
  if (v == nullptr) fail(cat("no ", name));
  return *v;
}

DataSummary summary_of(const Value& value) {
  DataSummary out;
  visit_numbers(out, [&](const char* name, std::int64_t& n) { n = member(value, name).as_int(); });
  out.dropped = counts_of(member(value, "dropped"));
  out.notes = counts_of(member(value, "notes"));
  for (const Value& p : member(value, "problems").as_array()) out.problems.push_back(p.as_string());
  for (const Value& n : member(value, "histogram").as_array()) {
    out.length_histogram.push_back(n.as_int());
  }
  return out;
}

// Every array of the contents in file order: visit(name, vector).
template <class Contents, class Arrays, class Visit>
void visit_arrays(Contents& contents, Arrays& arrays, Visit visit) {
  visit("ids", arrays.ids);
  visit("labelled", arrays.labelled);
  visit("offsets", arrays.offsets);
  visit("last_labels", arrays.last_labels);
  visit("rows", arrays.rows);
  visit("documents", contents.documents);
  visit("starts", contents.starts);
}

// The lock's file says who makes the packs, and afterwards why that failed.
constexpr std::string_view kFailed = "failed: ";
std::string failure_of(const std::string& maker) {
  return cat(kFailed, maker, "\n");
}

// Who is waited for.
class WaitForMaker {
 public:
  WaitForMaker(const std::string& path, const std::function<void(const std::string&)>& notice)
      : path_(path), notice_(notice) {}

  // While another has the lock; `note`: what its file says.
  void busy(const std::string& note) {
    rethrow(note);
    if (note.starts_with(kFailed)) return;  // of a run before; its maker has not written yet
    const auto now = std::chrono::steady_clock::now();
    if (note != maker_) {
      maker_ = note;
      since_ = now;
      is_said_ = false;
    }
    if (is_said_ || now - since_ < kSaidAfter) return;
    is_said_ = true;
    if (notice_)
      notice_(cat("waiting for ", maker_.empty() ? "another process" : maker_, ", which makes ",
                  path_));
  }

  // The error of a maker that was waited for; not one that an earlier run has left.
  void rethrow(const std::string& note) const {
    const std::string failure = failure_of(maker_);
    if (!maker_.empty() && note.starts_with(failure)) fail(note.substr(failure.size()));
  }

 private:
  static constexpr std::chrono::seconds kSaidAfter{2};

  const std::string& path_;
  const std::function<void(const std::string&)>& notice_;
  std::string maker_;
  std::chrono::steady_clock::time_point since_ = std::chrono::steady_clock::now();
  bool is_said_ = false;
};

}  // namespace

PackCache::PackCache(const std::string& folder, const std::string& key)
    : folder_(folder), path_(folder + "/" + key + ".packs") {
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) fail(cat(folder_, ": the cache's folder cannot be made: ", error.message()));
}

PackedContents PackCache::get(const std::function<PackedContents()>& make,
                              const std::function<void(const std::string&)>& notice) const {
  if (auto found = read()) return std::move(*found);
  WaitForMaker wait(path_, notice);
  const auto lock =
      io::wait_for_lock(path_ + ".lock", [&](const std::string& maker) { wait.busy(maker); });
  wait.rethrow(lock->note());
  if (lock->state() == io::FileLock::State::kUnsupported && notice)
    notice(cat(path_, ": the file system has no locks; every process makes the file for itself"));
  // Whoever held the lock before may have made it meanwhile.
  io::look_again(folder_);
  if (auto found = read()) return std::move(*found);
  const std::string maker = io::this_process();
  const bool is_held = lock->state() == io::FileLock::State::kHeld;
  if (is_held) {
    io::remove_left_behind(path_);
    lock->set_note(maker);
  }
  try {
    PackedContents made = make();
    write(made);
    return made;
  } catch (const MachineError&) {
    throw;  // others may have more room
  } catch (const Error& e) {
    if (is_held) lock->set_note(failure_of(maker) + e.what());
    throw;
  }
}

std::optional<PackedContents> PackCache::read() const {
  if (!std::filesystem::exists(path_)) return std::nullopt;
  const io::ReadFile file(path_);
  const std::uint64_t fixed = kMagic.size() + sizeof(std::uint64_t);
  if (file.size() < fixed + kHashDigits) return std::nullopt;
  try {
    ContentHash hash;
    std::uint64_t at = 0;
    const auto take = [&](void* dst, std::size_t bytes) {
      if (bytes > file.size() - kHashDigits - at) fail("too short");
      file.read(at, dst, bytes);
      hash.add_bytes({static_cast<const std::byte*>(dst), bytes});
      at += bytes;
    };
    std::string magic(kMagic.size(), ' ');
    take(magic.data(), magic.size());
    if (magic != kMagic) fail("another format");
    std::uint64_t header_bytes = 0;
    take(&header_bytes, sizeof header_bytes);
    if (header_bytes > file.size()) fail("header too long");
    std::string text(header_bytes, ' ');
    take(text.data(), text.size());
    const Value header = io::parse_json(text, path_);
    PackedContents out;
    SampleStore::Arrays arrays;
    visit_arrays(out, arrays, [&](const char* name, auto& array) {
      const auto n = static_cast<std::uint64_t>(member(header, name).as_int());
      using Element = typename std::remove_reference_t<decltype(array)>::value_type;
      if (n > file.size() / sizeof(Element)) fail("array too long");
      array.resize(n);
      take(array.data(), n * sizeof(Element));
    });
    std::string digits(kHashDigits, ' ');
    file.read(at, digits.data(), digits.size());
    if (digits != hash.hex() || at + kHashDigits != file.size()) fail("checksum");
    out.summary = summary_of(member(header, "summary"));
    out.store = SampleStore(std::move(arrays));
    return out;
  } catch (const MachineError&) {
    throw;
  } catch (const Error&) {
    return std::nullopt;  // damaged, or of another version: made again
  }
}

void PackCache::write(const PackedContents& contents) const {
  const SampleStore::Arrays& arrays = contents.store.arrays();
  Value header{Value::Object{}};
  visit_arrays(contents, arrays, [&](const char* name, const auto& array) {
    header.set(name, Value(static_cast<std::int64_t>(array.size())));
  });
  header.set("summary", summary_value(contents.summary));
  const std::string text = io::to_json(header);
  const std::uint64_t header_bytes = text.size();
  io::AtomicFile file(path_);
  ContentHash hash;
  const auto put = [&](const void* data, std::size_t bytes) {
    file.append(data, bytes);
    hash.add_bytes({static_cast<const std::byte*>(data), bytes});
  };
  put(kMagic.data(), kMagic.size());
  put(&header_bytes, sizeof header_bytes);
  put(text.data(), text.size());
  visit_arrays(contents, arrays, [&](const char* /*name*/, const auto& array) {
    put(array.data(), array.size() * sizeof(array[0]));
  });
  file.append(hash.hex());
  file.commit();
}

}  // namespace glmtune::data
