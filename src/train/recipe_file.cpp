#include "train/recipe_file.h"

#include <algorithm>
#include <filesystem>

#include "base/cat.h"
#include "base/error.h"
#include "io/utf8.h"
#include "train/recipe_build.h"
#include "train/recipe_overrides.h"
#include "train/schema_scalar.h"
#include "train/yaml_emit.h"

namespace glmtune::train {
namespace {

// A wandb section is on unless `enable` says false; the flag itself is no setting of the logger.
void settle_wandb(YamlNode& root) {
  YamlNode* wandb = root.find("wandb");
  if (wandb == nullptr || !wandb->is_map()) return;
  if (const YamlNode* enable = wandb->find("enable"); enable != nullptr && !enable->is_null()) {
    const auto on = enable->is_scalar() ? bool_from_text(enable->text) : std::nullopt;
    if (!on)
      fail(
          cat(enable->where, ": wandb.enable is ", enable->describe(), "; expected true or false"));
    if (!*on) {
      root.erase("wandb");
      return;
    }
  }
  wandb->erase("enable");
  if (const YamlNode* mode = wandb->find("mode");
      mode != nullptr && mode->is_scalar() && mode->text == "disabled")
    root.erase("wandb");
}

// `dataset` inside `dataloader`: an older spelling of the section beside it.
void settle_dataset(YamlNode& root, std::vector<std::string>& warnings) {
  YamlNode* loader = root.find("dataloader");
  const YamlNode* inner = loader == nullptr ? nullptr : loader->find("dataset");
  if (inner == nullptr) return;
  if (root.find("dataset") != nullptr)
    fail(cat(inner->key_where, ": dataloader.dataset and dataset are both there; remove one"));
  warnings.push_back(
      cat(inner->key_where, ": dataloader.dataset is an older spelling of the top-level dataset"));
  YamlNode moved = *inner;
  loader->erase("dataset");
  root.members.emplace_back("dataset", std::move(moved));
}

// Arguments and variables of the environment are bytes; paths of the system end at a zero. What is
// saved with a checkpoint is text.
void check_text(const YamlNode& node) {
  if (node.is_scalar()) {
    if (!io::is_utf8(node.text))
      fail(cat(io::replace_invalid_utf8(node.where),
               ": not UTF-8 text: ", io::replace_invalid_utf8(node.text)));
    if (node.text.find('\0') != std::string::npos)
      fail(cat(node.where, ": ", node.text.substr(0, node.text.find('\0')),
               "\\0: a zero byte, which no name may have"));
  }
  for (const YamlNode& item : node.items) check_text(item);
  for (const YamlNode::Member& member : node.members) check_text(member.second);
}

void flatten(const std::string& path, const io::Value& value,
             std::vector<std::pair<std::string, io::Value>>& out) {
  if (!value.is_object() || value.as_object().empty()) {
    out.emplace_back(path, value);
    return;
  }
  for (const auto& [key, member] : value.as_object()) flatten(cat(path, ".", key), member, out);
}

// Defaults of keys without an effect of their own would only hide the others.
bool worth_showing(const CheckedKey& key) {
  return key.from_recipe || key.row->status == KeyStatus::kRuns ||
         key.row->status == KeyStatus::kNotYet;
}

std::string scalar_line(const io::Value& value) {
  return value.is_string() ? value.as_string() : io::to_json(value);
}

}  // namespace

RecipeFile parse_recipe(const std::string& text, const std::string& file,
                        std::span<const std::string> overrides, const Environment& environment) {
  YamlNode root = parse_yaml(text, file);
  const Overrides parsed = parse_overrides(overrides);
  apply_overrides(root, parsed);
  for (YamlNode::Member& member : root.members)
    if (member.first != "ci") interpolate(member.second, environment);
  check_text(root);
  std::vector<std::string> warnings;
  settle_wandb(root);
  settle_dataset(root, warnings);

  RecipeFile out;
  out.checked = check_document(root, file);
  out.checked.warnings.insert(out.checked.warnings.begin(), warnings.begin(), warnings.end());
  out.recipe = build_recipe(out.checked, file);
  out.yaml = yaml_text(root);
  out.recipe.yaml = out.yaml;
  out.recipe.settings = resolved_keys(out.checked);
  // Its default is the data set's; what was trained with counts, however it was written.
  out.recipe.settings.set("dataloader.shuffle", out.recipe.dataloader.shuffle);
  return out;
}

RecipeFile read_recipe(const std::string& path, std::span<const std::string> overrides,
                       const Environment& environment) {
  const std::string text = read_text_file(path);
  if (!path.ends_with(".yaml") && !path.ends_with(".yml"))
    fail(cat(path, ": a recipe's name ends in .yaml or .yml"));
  return parse_recipe(text, path, overrides, environment);
}

void use_vocabulary(RecipeFile& file, std::int64_t vocab_size) {
  Recipe& recipe = file.recipe;
  auto* mock = std::get_if<data::MockSettings>(&recipe.dataset.settings);
  if (mock == nullptr || recipe.kind != RecipeKind::kBenchmark || !recipe.model.from_config) return;
  mock->vocab_size = vocab_size;
  CheckedKey* key = file.checked.find("dataset.vocab_size");
  key->value = key->shown = vocab_size;
}

std::vector<std::string> backend_choices(const CheckedDocument& checked) {
  std::vector<std::string> out;
  const auto chosen = [&](const char* name, const auto& what) {
    const CheckedKey* key = checked.find(cat("model.backend.", name));
    if (key == nullptr || !key->from_recipe || key->value.is_null()) return;
    const std::string& value = key->value.as_string();
    out.push_back(cat(key->path, " ", value, ": ", what(value)));
  };
  const auto always = [](const char* what) { return [what](const std::string&) { return what; }; };
  chosen("attn", [](const std::string& value) {
    return is_native_attn(value) ? "glmtune's own kernels: short documents dense, longer ones over "
                                   "their selected keys"
                                 : "dense kernels, selected keys as a mask; documents of a pack "
                                   "never see each other";
  });
  chosen("linear", always("one dense matrix product, accumulating in fp32"));
  chosen("rms_norm", always("one norm, computing in fp32"));
  chosen("rope", always("one rotation, angles in fp32"));
  chosen("experts", always("one grouped matrix product, accumulating in fp32"));
  chosen("dispatcher", always("glmtune's own exchange of tokens, none with ep_size 1"));
  chosen("gate_precision", always("the router computes in fp32, in a float64 run in float64"));
  return out;
}

std::string not_runnable_line(const CheckedDocument& checked) {
  std::string line;
  for (const std::string& what : checked.not_runnable) line += (line.empty() ? "" : ", ") + what;
  return line.empty() ? line : "not runnable yet: " + line;
}

std::string runs_with(const CheckedDocument& checked) {
  std::string line;
  for (const std::string& setting : checked.runs_with) line += " --" + setting;
  return line.empty() ? line : "; what runs:" + line;
}

io::Value resolved_keys(const CheckedDocument& checked) {
  io::Value::Object object;
  for (const CheckedKey& key : checked.keys) {
    if (!worth_showing(key)) continue;
    std::vector<std::pair<std::string, io::Value>> flat;
    flatten(key.path, key.shown, flat);
    for (auto& member : flat) {
      const io::Value& value = member.second;
      const bool infinite = value.is_number() && !value.is_int() && value.as_double() > 1e308;
      object.emplace_back(member.first, infinite ? io::Value(".inf") : value);
    }
  }
  return object;
}

std::string resolved_lines(const CheckedDocument& checked) {
  std::string out;
  for (const CheckedKey& key : checked.keys) {
    if (!worth_showing(key)) continue;
    std::vector<std::pair<std::string, io::Value>> flat;
    flatten(key.path, key.shown, flat);
    for (const auto& [path, value] : flat)
      out += cat(path, ": ", scalar_line(value), key.from_recipe ? "\n" : "   # default\n");
  }
  return out;
}

}  // namespace glmtune::train
