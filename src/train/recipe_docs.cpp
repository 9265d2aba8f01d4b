#include "train/recipe_docs.h"

#include "base/cat.h"
#include "train/schema.h"

namespace glmtune::train {
namespace {

constexpr std::string_view kIntroduction = R"(# The recipe language

This page is generated from the table that parses and checks recipes: `glmtune docs-recipe > docs/recipe.md`.

A recipe is a YAML file in the format of NVIDIA NeMo AutoModel; recipes written for AutoModel's GLM-5 family are taken
unchanged. `glmtune RECIPE.yaml` trains, `glmtune check RECIPE.yaml` only reads it and says what it means.

- **Strict.** An unknown key is an error that names file, line and the nearest known key; a key written twice is an error.
- **Scalars** follow YAML 1.2, and the key decides the type: `1e-5`, `1.0e-5` and `"1e-5"` are the same number, `010` is ten,
  `yes` is a word. `null`, `~` and `none` mean the default, except where a row says what an explicit null does.
- **Targets.** `_target_` names are looked up in the table at the end; nothing is imported.
- **Overrides** on the command line: `--a.b.c=value`, `--a.b.c value`, `--a.b.c` (true). Later ones win. Lists are replaced as
  a whole: `--optimizer.betas='[0.9, 0.95]'`.
- **Variables.** `${VAR}`, `${VAR,default}`, `${oc.env:VAR}`, `${oc.env:VAR,default}` and `$VAR` are taken from the environment;
  a missing one without default is an error. What is printed keeps the text before replacement, and values of keys that hold
  secrets are hidden.

Columns: *status* is `runs`, `part of` (belongs to a feature another row stands for), `no counterpart` (accepted and
type-checked; nothing here corresponds to it), `ignored` (with a warning), or `not yet` (accepted by `check`, refused by a run
unless it has its default). Words in brackets are accepted by `check` and do not run yet.
)";

std::string_view type_name(const KeyRow& row) {
  switch (row.type) {
    case KeyType::kBool:
      return "bool";
    case KeyType::kInt:
      return "int";
    case KeyType::kNumber:
      return "number";
    case KeyType::kString:
      return "string";
    case KeyType::kChoice:
      return "choice";
    case KeyType::kDtype:
      return "dtype";
    case KeyType::kTarget:
      return "target";
    case KeyType::kTargetOrSection:
      return "target or map";
    case KeyType::kStringOrList:
      return "string or list";
    case KeyType::kInts:
      return "list of ints";
    case KeyType::kNumbers:
      return "list of numbers";
    case KeyType::kStrings:
      return "list of strings";
    case KeyType::kSection:
      return "map";
    case KeyType::kSections:
      return "list of maps";
    case KeyType::kOpen:
      return "anything";
  }
  return "";
}

std::string_view status_name(KeyStatus status) {
  switch (status) {
    case KeyStatus::kRuns:
      return "runs";
    case KeyStatus::kDependent:
      return "part of";
    case KeyStatus::kNoCounterpart:
      return "no counterpart";
    case KeyStatus::kIgnored:
      return "ignored";
    case KeyStatus::kNotYet:
      return "not yet";
  }
  return "";
}

// "a|!b" as "a, (b)".
std::string choices(std::string_view values) {
  std::string out;
  while (!values.empty()) {
    const std::size_t bar = values.find('|');
    std::string_view word = values.substr(0, bar);
    const bool later = word.starts_with('!');
    if (later) word.remove_prefix(1);
    out += cat(out.empty() ? "" : ", ", later ? "(" : "", word, later ? ")" : "");
    if (bar == std::string_view::npos) break;
    values.remove_prefix(bar + 1);
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

std::string default_text(const KeyRow& row) {
  if (row.fallback == "required") return "required";
  if (row.fallback.empty() || row.type == KeyType::kSection) return "";
  return cat("`", row.fallback, "`");
}

// The variants of `dataset(ChatDataset|HellaSwag).split`; empty for keys of all.
std::string variants(std::string_view path) {
  const std::size_t open = path.find('('), close = path.find(')');
  if (open == std::string_view::npos) return "";
  return " (" + choices(path.substr(open + 1, close - open - 1)) + ")";
}

std::string name_of(std::string_view path) {
  std::string out;
  bool inside = false;
  for (const char c : path) {
    inside = inside || c == '(';
    if (!inside) out += c;
    inside = inside && c != ')';
  }
  return out;
}

std::string top_level(std::string_view path) {
  return std::string(path.substr(0, path.find_first_of(".([")));
}

std::string row_line(const KeyRow& row) {
  std::string type(type_name(row));
  if (row.type == KeyType::kChoice || (row.type == KeyType::kDtype && !row.values.empty()))
    type = choices(row.values);
  return cat("| `", name_of(row.path), "`", variants(row.path), " | ", escaped(type), " | ",
             escaped(default_text(row)), " | ", status_name(row.status), " | ", escaped(row.doc),
             " |\n");
}

}  // namespace

std::string recipe_docs() {
  std::string out(kIntroduction);
  static constexpr std::string_view kHead =
      "| key | type | default | status | meaning |\n|---|---|---|---|---|\n";
  std::string last;
  for (const KeyRow& row : schema_rows()) {
    const bool is_section = row.type == KeyType::kSection || row.type == KeyType::kSections;
    const std::string top = top_level(row.path);
    const bool opens = is_section && row.path == top;
    const std::string heading = opens || top == last ? top : "Single keys";
    if (heading != last) {
      const std::string title = opens ? cat("`", top, "`") : heading;
      const std::string what = opens ? cat(row.doc, "\n\n") : "";
      out += cat("\n## ", title, "\n\n", what, kHead);
      last = heading;
    }
    if (!opens) out += row_line(row);
  }
  out +=
      "\n## Targets\n\nThose in brackets are accepted by `check` and do not run yet.\n\n"
      "| where | known |\n|---|---|\n";
  std::string group;
  for (const TargetRow& target : schema_targets()) {
    const bool next = target.group != group;
    if (next) out += cat(group.empty() ? "" : " |\n", "| ", target.group, " | ");
    out += cat(next ? "" : ", ", target.runs ? "`" : "(`", target.path, target.runs ? "`" : "`)");
    group = target.group;
  }
  return out + " |\n";
}

}  // namespace glmtune::train
