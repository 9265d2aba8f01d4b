#include "train/recipe_data.h"

#include <filesystem>

#include "base/cat.h"
#include "base/error.h"
#include "data/rows.h"
#include "io/folder_files.h"
#include "io/json.h"
#include "text/chat_template.h"
#include "train/yaml_document.h"

namespace glmtune::train {
namespace {

// The template itself, or what a file holds.
std::string chat_template(const RecipeReader& reader, const std::string& path) {
  const auto text = reader.text(path);
  if (!text || text->empty()) return "";
  if (text->find("{{") != std::string::npos || text->find("{%") != std::string::npos) return *text;
  std::error_code error;
  if (std::filesystem::is_directory(*text, error))
    reader.reject(path, "that is a folder; expected a file, or the template itself");
  if (!std::filesystem::exists(*text, error))
    reader.reject(path, cat(io::unreachable(*text), "; a template itself would hold {{ or {%"));
  std::string source;
  if (text->ends_with(".json")) {
    const io::Value json = io::read_json_file(*text);
    const io::Value* member = json.find("chat_template");
    if (member == nullptr || !member->is_string())
      reader.reject(path, "the file has no string chat_template");
    source = member->as_string();
  } else {
    source = read_text_file(*text, "a chat template");
  }
  if (const std::string problem = text::problem_of_template(source); !problem.empty())
    reader.reject(path, cat("the file's template ", problem));
  return source;
}

struct Section {
  const RecipeReader& reader;
  std::string name;

  std::string at(const char* key) const { return name + "." + key; }
  bool flag(const char* key, bool otherwise) const {
    return reader.flag(at(key)).value_or(otherwise);
  }
  data::RowSelection rows(const char* limit) const {
    data::RowSelection out;
    out.split = reader.text(at("split")).value_or(out.split);
    if (const std::string problem = data::problem_of_split(out.split); !problem.empty())
      reader.reject(at("split"), problem);
    if (const auto seed = reader.integer(at("shuffle_seed")))
      out.shuffle_seed = static_cast<std::uint64_t>(*seed);
    if (limit != nullptr) out.limit = reader.integer(at(limit));
    return out;
  }
  data::BadRows bad_rows() const {
    data::BadRows out;
    out.skip = flag("skip_invalid_samples", out.skip);
    out.ceiling = reader.number(at("max_dropped_fraction")).value_or(out.ceiling);
    if (out.ceiling > 1) reader.reject(at("max_dropped_fraction"), "expected a share from 0 to 1");
    return out;
  }
  data::TooLong too_long() const {
    const std::string truncation = reader.text(at("truncation")).value_or("false");
    if (truncation == "drop") return data::TooLong::kDrop;
    if (truncation == "error") return data::TooLong::kError;
    const bool off = truncation == "false" || truncation == "do_not_truncate";
    return off ? data::TooLong::kKeep : data::TooLong::kTruncate;
  }
};

data::ChatSettings chat(const Section& section) {
  data::ChatSettings out;
  out.paths = section.reader.strings(section.at("path_or_dataset_id"));
  out.rows = section.rows(nullptr);
  out.seq_length = section.reader.integer(section.at("seq_length"));
  out.too_long = section.too_long();
  out.chat_template = chat_template(section.reader, section.at("chat_template"));
  if (const io::Value* kwargs = section.reader.value(section.at("chat_template_kwargs")))
    out.chat_template_kwargs = *kwargs;
  out.mask_reasoning_content = section.flag("mask_reasoning_content", out.mask_reasoning_content);
  out.mask_history = section.flag("mask_history", out.mask_history);
  out.mask_empty_think = section.flag("mask_empty_think", out.mask_empty_think);
  out.supervise_role_header = section.flag("supervise_role_header", out.supervise_role_header);
  out.supervise_next_role = section.flag("supervise_next_role", out.supervise_next_role);
  out.supervise_last_stop = section.flag("supervise_last_stop", out.supervise_last_stop);
  out.allow_control_tokens = section.flag("allow_control_tokens", out.allow_control_tokens);
  out.bad_rows = section.bad_rows();
  return out;
}

data::HellaSwagSettings hellaswag(const Section& section) {
  data::HellaSwagSettings out;
  out.paths = section.reader.strings(section.at("path_or_dataset"));
  out.rows = section.rows("num_samples_limit");
  out.bad_rows = section.bad_rows();
  return out;
}

data::SquadSettings squad(const Section& section) {
  data::SquadSettings out;
  out.paths = section.reader.strings(section.at("dataset_name"));
  out.rows = section.rows("limit_dataset_samples");
  out.bad_rows = section.bad_rows();
  out.seq_length = section.reader.integer(section.at("seq_length"));
  out.too_long = section.too_long();
  out.chat_template = chat_template(section.reader, section.at("chat_template"));
  out.use_chat_template = true;  // where there is one
  return out;
}

data::ColumnMappedSettings column_mapped(const Section& section) {
  data::ColumnMappedSettings out;
  out.paths = section.reader.strings(section.at("path_or_dataset_id"));
  out.rows = section.rows("limit_dataset_samples");
  out.bad_rows = section.bad_rows();
  out.seq_length = section.reader.integer(section.at("seq_length"));
  out.too_long = section.too_long();
  out.answer_only_loss_mask = section.flag("answer_only_loss_mask", out.answer_only_loss_mask);
  out.use_hf_chat_template = section.flag("use_hf_chat_template", out.use_hf_chat_template);
  const std::string key = section.at("column_mapping");
  const io::Value* mapping = section.reader.value(key);
  static constexpr const char* kExpected =
      "expected a map from roles (context, question, answer) to column names";
  if (mapping == nullptr) section.reader.reject(key, kExpected);
  bool has_answer = false;
  for (const auto& [role, column] : mapping->as_object()) {
    const bool known = role == "context" || role == "question" || role == "answer";
    if (!known || !column.is_string()) section.reader.reject(key, kExpected);
    has_answer = has_answer || role == "answer";
    out.column_mapping.emplace_back(role, column.as_string());
  }
  if (!has_answer) section.reader.reject(key, "the role answer is missing");
  return out;
}

data::MockSettings mock(const Section& section, std::uint64_t seed) {
  data::MockSettings out;
  out.vocab_size = section.reader.integer(section.at("vocab_size")).value_or(out.vocab_size);
  out.seq_len = section.reader.integer(section.at("seq_len")).value_or(out.seq_len);
  out.num_samples = section.reader.integer(section.at("num_samples")).value_or(out.num_samples);
  out.seed = seed;
  return out;
}

}  // namespace

bool is_endless(const data::DatasetSettings& settings) {
  return std::holds_alternative<data::PretokenizedSettings>(settings);
}

bool shuffles(const RecipeReader& reader, const data::DatasetSettings& settings) {
  const bool has_rows =
      !is_endless(settings) && !std::holds_alternative<data::MockSettings>(settings);
  return reader.flag("dataloader.shuffle").value_or(has_rows);
}

DatasetEntry build_dataset(const RecipeReader& reader, const std::string& section_name,
                           std::uint64_t seed) {
  const Section section{reader, section_name};
  DatasetEntry out;
  out.key = section_name;
  if (section_name != "dataset") {
    static constexpr std::size_t kPrefix = std::string_view("validation_dataset").size();
    out.name = section_name.size() == kPrefix ? "default" : section_name.substr(kPrefix + 1);
  }
  out.target = reader.variant(section_name);
  out.subset = reader.text(section.at("name")).value_or("");
  out.revision = reader.text(section.at("revision")).value_or(out.revision);
  out.tokenizer = reader.text(section.at("tokenizer.pretrained_model_name_or_path")).value_or("");
  out.tokenizer_revision =
      reader.text(section.at("tokenizer.revision")).value_or(out.tokenizer_revision);
  if (out.target == "ChatDataset") {
    out.settings = chat(section);
  } else if (out.target == "HellaSwag") {
    out.settings = hellaswag(section);
  } else if (out.target == "make_squad_dataset") {
    out.settings = squad(section);
  } else if (out.target == "ColumnMappedTextInstructionDataset") {
    out.settings = column_mapped(section);
  } else if (out.target == "MockIterableDataset") {
    out.settings = mock(section, seed);
  } else if (out.target == "PretokenizedDataset") {
    out.settings = data::PretokenizedSettings{*reader.text(section.at("path"))};
  } else {
    fail(cat("schema: no builder for data set ", out.target));
  }
  for (const char* key : {"path_or_dataset_id", "path_or_dataset", "dataset_name", "path"}) {
    const std::vector<std::string> sources = reader.strings(section.at(key));
    out.sources.insert(out.sources.end(), sources.begin(), sources.end());
    if (!sources.empty()) out.sources_place = reader.place(section.at(key));
  }
  out.place = cat(reader.where(section.at("_target_")), ": ", section_name);
  if (out.sources.empty()) out.sources_place = out.place;
  out.tokenizer_place = reader.place(section.at("tokenizer.pretrained_model_name_or_path"));

  const bool training = section_name == "dataset";
  out.packing.packed_sequence_size =
      reader.integer("packed_sequence.packed_sequence_size").value_or(0);
  if (reader.text("packed_sequence.packing_strategy").value_or("thd") == "neat")
    out.packing.strategy = data::PackingStrategy::kNeat;
  out.packing.prepacked = reader.flag("packed_sequence.prepacked").value_or(false);
  if (training) out.packing.max_packs = reader.integer("packed_sequence.max_packs");
  out.packing.drop_long_samples = reader.flag("packed_sequence.drop_long_samples").value_or(true);
  out.packing.cache_folder = reader.text("packed_sequence.cache_dir").value_or("");
  out.packing.shuffle = training && shuffles(reader, out.settings) && !is_endless(out.settings);
  out.packing.seed = seed;
  return out;
}

DataloaderSettings build_dataloader(const RecipeReader& reader, const std::string& section) {
  DataloaderSettings out;
  out.shuffle = reader.flag(section + ".shuffle").value_or(out.shuffle);
  out.drop_last = reader.flag(section + ".drop_last").value_or(out.drop_last);
  out.group_by_length = reader.flag(section + ".group_by_length").value_or(out.group_by_length);
  out.batch_size = reader.integer(section + ".batch_size");
  return out;
}

}  // namespace glmtune::train
