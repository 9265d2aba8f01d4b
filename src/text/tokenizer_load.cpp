// Reading tokenizer.json. The vocabulary and the merges (most of a 20 MB file) are read on demand,
// everything else goes through io::Value.
#include <simdjson.h>

#include <algorithm>
#include <filesystem>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/json.h"
#include "text/byte_level.h"
#include "text/merge_loader.h"
#include "text/nfc.h"
#include "text/tokenizer_impl.h"
#include "text/unicode.h"

namespace glmtune::text {
namespace {

namespace od = simdjson::ondemand;
using io::Value;

class Loader {
 public:
  Loader(std::string_view where) : where_(where), impl_(std::make_shared<Tokenizer::Impl>()) {
    impl_->where = where_;
  }

  void read_tokenizer(const simdjson::padded_string& padded) {
    size_ = padded.size();
    od::parser parser;
    od::document document;
    try {
      document = parser.iterate(padded);
      od::object root = document.get_object();
      // In the order files have them, so that nothing is skipped twice.
      read_added_tokens(small(root, "added_tokens"));
      read_normalizer(small(root, "normalizer"));
      read_pre_tokenizer(small(root, "pre_tokenizer"));
      read_post_processor(small(root, "post_processor"));
      read_decoder(small(root, "decoder"));
      od::object model;
      if (root.find_field_unordered("model").get(model) != simdjson::SUCCESS) {
        bad("has no object \"model\"");
      }
      read_model(model);
    } catch (const simdjson::simdjson_error& e) {
      const char* at = nullptr;
      std::string where;
      if (document.is_alive() && document.current_location().get(at) == simdjson::SUCCESS)
        where = cat(" near byte ", at - padded.data());
      bad(cat(e.error() == simdjson::INCORRECT_TYPE ? "a value is of another type than expected"
                                                    : "is not valid JSON",
              where, " (", e.what(), ")"));
    }
    finish();
  }

  void read_config(std::string_view json, const std::string& where) {
    const Value config = io::parse_json(json, where);
    const auto name = [&](std::string_view key) -> std::string {
      const Value* v = config.find(key);
      if (v != nullptr && v->is_object()) v = v->find("content");
      return v != nullptr && v->is_string() ? v->as_string() : std::string();
    };
    impl_->bos_token = name("bos_token");
    impl_->eos_token = name("eos_token");
    impl_->pad_token = name("pad_token");
  }

  std::shared_ptr<const Tokenizer::Impl> take() { return std::move(impl_); }

 private:
  [[noreturn]] void bad(const std::string& what) const { fail(cat(where_, ": ", what)); }
  [[noreturn]] void unknown(std::string_view kind, std::string_view found,
                            std::string_view known) const {
    bad(cat(kind, " ", found, " is not known to this version (known: ", known, ")"));
  }

  // A member of the root, null where it is absent.
  Value small(od::object& object, std::string_view key) const {
    od::value v;
    const auto error = object.find_field_unordered(key).get(v);
    if (error == simdjson::NO_SUCH_FIELD) return {};
    if (error != simdjson::SUCCESS) throw simdjson::simdjson_error(error);
    const std::string_view json = simdjson::to_json_string(v).value();
    return io::parse_json(json, cat(where_, ": \"", key, "\""));
  }

  std::string type_of(const Value& v, std::string_view kind) const {
    const Value* type = v.is_object() ? v.find("type") : nullptr;
    if (type == nullptr || !type->is_string()) {
      bad(cat(kind, ": expected an object with a \"type\", found ", io::to_json(v)));
    }
    return type->as_string();
  }
  static bool flag(const Value& v, std::string_view key, bool otherwise) {
    const Value* f = v.find(key);
    return f != nullptr && f->is_bool() ? f->as_bool() : otherwise;
  }

  void read_normalizer(const Value& v) {
    if (v.is_null()) return;
    const std::string type = type_of(v, "normalizer");
    if (type == "Sequence") {
      const Value* list = v.find("normalizers");
      if (list == nullptr) bad("normalizer Sequence has no \"normalizers\"");
      for (const Value& n : list->as_array()) read_normalizer(n);
    } else if (type == "NFC") {
      impl_->nfc = true;
    } else {
      unknown("normalizer", type, "none, NFC");
    }
  }

  void read_pre_tokenizer(const Value& v) {
    const std::string type = v.is_null() ? "null" : type_of(v, "pre_tokenizer");
    const Value* list = type == "Sequence" ? v.find("pretokenizers") : nullptr;
    if (list == nullptr || !list->is_array() || list->size() != 2) {
      unknown("pre_tokenizer", type == "Sequence" ? io::to_json(v) : type,
              "a Sequence of Split and ByteLevel");
    }
    const Value& split = list->as_array()[0];
    const Value& bytes = list->as_array()[1];
    if (type_of(split, "pre_tokenizer") != "Split" ||
        type_of(bytes, "pre_tokenizer") != "ByteLevel") {
      unknown("pre_tokenizer", io::to_json(v), "a Sequence of Split and ByteLevel");
    }
    const Value* pattern = split.find("pattern");
    const Value* regex =
        pattern != nullptr && pattern->is_object() ? pattern->find("Regex") : nullptr;
    if (regex == nullptr || !regex->is_string()) {
      unknown("pre_tokenizer Split pattern", pattern ? io::to_json(*pattern) : "(none)",
              "{\"Regex\": ...}");
    }
    impl_->splitter = Splitter::recognise(regex->as_string());
    if (!impl_->splitter) {
      unknown("the split regex", regex->as_string(),
              "those of GLM and Llama-3, of Qwen, and of cl100k_base");
    }
    const Value* behavior = split.find("behavior");
    if (behavior == nullptr || *behavior != Value("Isolated") || flag(split, "invert", false)) {
      unknown("pre_tokenizer Split", io::to_json(split), "behavior Isolated, invert false");
    }
    if (flag(bytes, "add_prefix_space", true) || flag(bytes, "use_regex", true)) {
      unknown("pre_tokenizer ByteLevel", io::to_json(bytes),
              "add_prefix_space false, use_regex false");
    }
  }

  void read_decoder(const Value& v) const {
    const std::string type = v.is_null() ? "null" : type_of(v, "decoder");
    if (type != "ByteLevel") unknown("decoder", type, "ByteLevel");
  }

  // Nothing of it is applied, because encoding adds no tokens; but only those are accepted that
  // leave the other ids alone.
  void read_post_processor(const Value& v) const {
    if (v.is_null()) return;
    const std::string type = type_of(v, "post_processor");
    if (type == "Sequence") {
      const Value* list = v.find("processors");
      if (list == nullptr) bad("post_processor Sequence has no \"processors\"");
      for (const Value& p : list->as_array()) read_post_processor(p);
    } else if (type != "ByteLevel" && type != "TemplateProcessing") {
      unknown("post_processor", type, "none, ByteLevel, TemplateProcessing, Sequence of them");
    }
  }

  void read_added_tokens(const Value& v) {
    if (v.is_null()) return;
    if (!v.is_array()) bad(cat("\"added_tokens\" is ", v.kind_name(), ", expected an array"));
    for (const Value& a : v.as_array()) {
      const Value* id = a.is_object() ? a.find("id") : nullptr;
      const Value* content = a.is_object() ? a.find("content") : nullptr;
      if (id == nullptr || content == nullptr || !id->is_int() || !content->is_string() ||
          !valid_id(id->as_int())) {
        bad(cat("added token ", io::to_json(a), ": expected an \"id\" and a \"content\""));
      }
      AddedToken token;
      token.id = static_cast<std::int32_t>(id->as_int());
      token.content = content->as_string();
      token.special = flag(a, "special", false);
      token.lstrip = flag(a, "lstrip", false);
      token.rstrip = flag(a, "rstrip", false);
      token.single_word = flag(a, "single_word", false);
      token.normalized = flag(a, "normalized", !token.special);
      impl_->added.push_back(std::move(token));
    }
    auto& added = impl_->added;
    std::sort(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    for (std::size_t i = 0; i < added.size(); ++i) {
      const AddedToken& token = added[i];
      if (!impl_->added_by_id.emplace(token.id, i).second ||
          !impl_->added_by_content.emplace(token.content, token.id).second) {
        bad(cat("added token ", token.id, " \"", token.content, "\" is there twice"));
      }
      std::string bytes;
      if (!append_byte_level(token.content, bytes)) bytes = token.content;
      impl_->added_bytes.push_back(std::move(bytes));
    }
  }

  static bool valid_id(std::int64_t id) { return id >= 0 && id < (1 << 24); }

  // Whether the vocabulary's entry `token` with the id of an added token stays an ordinary token. A
  // marker does not: text that users wrote must never give its id. But a word that was added once
  // more (so that it is found whole) stays one in other words, as in the official library.
  bool is_ordinary_too(const AddedToken& added, std::string_view token) const {
    if (added.special || added.content != token) return false;
    for (std::size_t i = 0; i < token.size();) {
      const Decoded d = decode_utf8(token, i);
      if (!is_word_character(d.code)) return false;
      i += d.length;
    }
    return true;
  }

  void read_model(od::object& model) {
    check_model(model);
    read_vocabulary(model);
    read_merges(model);
  }

  void check_model(od::object& model) {
    const auto text = [&](std::string_view key) -> std::string {
      const Value v = small(model, key);
      return v.is_null() ? std::string() : v.is_string() ? v.as_string() : io::to_json(v);
    };
    const std::string type = text("type");
    if (!type.empty() && type != "BPE") unknown("model", type, "BPE");
    const Value dropout = small(model, "dropout");
    if (dropout.is_number() && dropout.as_double() != 0) {
      unknown("BPE dropout", io::to_json(dropout), "none");
    }
    for (const char* key : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (!text(key).empty()) unknown(cat("BPE ", key), text(key), "none");
    }
    if (text("byte_fallback") == "true") unknown("BPE byte_fallback", "true", "false");
    impl_->ignore_merges = text("ignore_merges") == "true";
  }

  void read_vocabulary(od::object& model) {
    od::object vocabulary;
    if (model.find_field_unordered("vocab").get(vocabulary) != simdjson::SUCCESS) {
      bad("model has no object \"vocab\"");
    }
    impl_->vocabulary.reserve(std::min(std::size_t(1) << 18U, size_ / 64), size_ / 16);
    std::string bytes;
    for (auto member : vocabulary) {
      const std::string_view token = member.unescaped_key().value();
      od::value value = member.value();
      std::int64_t id = 0;
      if (const auto error = value.get_int64().get(id); error == simdjson::INCORRECT_TYPE)
        bad(cat("model.vocab: token \"", token, "\" has an id that is no whole number"));
      else if (error != simdjson::SUCCESS)
        throw simdjson::simdjson_error(error);
      if (!valid_id(id)) bad(cat("token \"", token, "\" has id ", id));
      const auto id32 = static_cast<std::int32_t>(id);
      const auto added = impl_->added_by_id.find(id32);
      if (added != impl_->added_by_id.end() && !is_ordinary_too(impl_->added[added->second], token))
        continue;
      bytes.clear();
      if (!append_byte_level(token, bytes)) {
        bad(cat("token ", id, " \"", token, "\" is not written in the byte-level alphabet"));
      }
      if (!impl_->vocabulary.add(id32, bytes)) {
        bad(cat("token ", id, " \"", token, "\": its id or its text is there twice"));
      }
    }
    for (std::size_t b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      impl_->byte_ids[b] = impl_->vocabulary.find(std::string_view(&byte, 1));
    }
  }

  void read_merges(od::object& model) {
    od::array merges;
    if (model.find_field_unordered("merges").get(merges) != simdjson::SUCCESS) {
      bad("model has no array \"merges\"");
    }
    impl_->merges.reserve(std::min(std::size_t(1) << 19U, size_ / 32));
    MergeLoader loader(impl_->vocabulary, impl_->merges,
                       [&](std::uint32_t rank, std::string_view left, std::string_view right) {
                         check_missing_merge(rank, left, right);
                       });
    for (auto element : merges) {
      od::value merge = element.value();
      if (merge.type().value() == od::json_type::string) {
        const std::string_view both = merge.get_string().value();
        const std::size_t space = both.find(' ');
        if (space == std::string_view::npos || both.find(' ', space + 1) != both.npos) {
          bad(cat("merge ", loader.rank(), " is \"", both, "\", expected two tokens and a space"));
        }
        loader.add(both.substr(0, space), both.substr(space + 1));
      } else {
        std::array<std::string_view, 2> parts;
        std::size_t n = 0;
        for (auto part : merge.get_array()) {
          const std::string_view text = part.get_string().value();
          if (n < 2) parts[n] = text;
          ++n;
        }
        if (n != 2) bad(cat("merge ", loader.rank(), " has ", n, " parts, expected two"));
        loader.add(parts[0], parts[1]);
      }
    }
    loader.finish();
  }

  // Merges of added tokens have no effect on ordinary text; others must not lack a token.
  void check_missing_merge(std::uint32_t rank, std::string_view left,
                           std::string_view right) const {
    for (const std::string& token : {std::string(left), std::string(right), cat(left, right)}) {
      std::string bytes;
      const bool there = append_byte_level(token, bytes) && impl_->vocabulary.find(bytes) >= 0;
      if (!there && impl_->added_by_content.count(token) == 0) {
        bad(cat("merge ", rank, " needs token \"", token, "\", which the vocabulary lacks"));
      }
    }
  }

  void finish() {
    for (const AddedToken& token : impl_->added) {
      if (token.normalized) {
        impl_->normalized_matcher.add(
            token, impl_->nfc ? normalize_nfc(token.content).text : token.content);
      } else {
        impl_->raw_matcher.add(token, token.content);
      }
    }
  }

  std::string where_;
  std::shared_ptr<Tokenizer::Impl> impl_;
  std::size_t size_ = 0;  // of the file: what tables are made for
};

}  // namespace

Tokenizer Tokenizer::parse(std::string_view tokenizer_json, std::string_view config_json,
                           std::string_view where) {
  Loader loader(where);
  loader.read_tokenizer(simdjson::padded_string(tokenizer_json));
  if (!config_json.empty()) loader.read_config(config_json, cat(where, " (configuration)"));
  return Tokenizer(loader.take());
}

Tokenizer Tokenizer::load(const std::string& folder) {
  const std::filesystem::path path(folder);
  const std::string file = (path / "tokenizer.json").string();
  if (!std::filesystem::exists(file)) {
    fail(cat(folder, ": no tokenizer.json; expected the tokenizer files of the checkpoint there"));
  }
  Loader loader(file);
  const io::ReadFile source(file);
  simdjson::padded_string json(source.size());
  source.read(0, json.data(), json.size());
  loader.read_tokenizer(json);
  const std::filesystem::path config = path / "tokenizer_config.json";
  if (std::filesystem::exists(config))
    loader.read_config(io::read_file(config.string()), config.string());
  return Tokenizer(loader.take());
}

}  // namespace glmtune::text
