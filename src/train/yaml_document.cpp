#include "train/yaml_document.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <sstream>
#include <unordered_map>

#include "base/cat.h"
#include "base/error.h"
#include "io/files.h"
#include "io/utf8.h"
#include "train/schema_scalar.h"

namespace glmtune::train {
namespace {

constexpr std::size_t kMaxFileBytes = std::size_t{16} << 20;
constexpr std::size_t kMaxNodes = 200000;  // aliases of aliases grow without bound

bool is_null_word(std::string_view s) {
  return s == "~" || s == "null" || s == "Null" || s == "NULL" || s == "none" || s == "None";
}

std::size_t count_nodes(const YamlNode& node) {
  std::size_t n = 1;
  for (const YamlNode& item : node.items) n += count_nodes(item);
  for (const YamlNode::Member& member : node.members) n += count_nodes(member.second);
  return n;
}

// "?" is a value without a tag.
bool is_known_tag(const std::string& tag) {
  if (tag.empty() || tag == "?") return true;
  for (const char* name : {"str", "int", "float", "bool", "null", "seq", "map"})
    if (tag == cat("tag:yaml.org,2002:", name)) return true;
  return false;
}

// Builds the tree from yaml-cpp's events: its own nodes forget duplicate keys and quoting.
class TreeBuilder : public YAML::EventHandler {
 public:
  // strict: {a:b} is refused, as in a recipe; other YAML may mean it.
  TreeBuilder(const std::string& text, std::string file, bool strict)
      : file_(std::move(file)), strict_(strict) {
    for (std::size_t at = 0; at <= text.size();) {
      const std::size_t end = std::min(text.find('\n', at), text.size());
      lines_.push_back(std::string_view(text).substr(at));  // up to the end of the file
      at = end + 1;
    }
  }

  YamlNode take() { return std::move(root_); }
  bool empty() const { return !has_root_; }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    add(scalar(mark, "", false), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    // "?" plain, "!" quoted or block.
    const bool is_string = tag == "!" || tag == "tag:yaml.org,2002:str";
    if (!is_string && !is_known_tag(tag)) bad_tag(mark, tag);
    if (tag == "!") check_quote(mark);
    add(scalar(mark, value, is_string), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) fail(cat(at(mark), ": an alias inside the value it names"));
    YamlNode copy = found->second;
    nodes_ += count_nodes(copy);
    limit(mark);
    add(std::move(copy), 0);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value style) override {
    open(mark, tag, anchor, YamlNode::Kind::kMap);
    levels_.back().in_braces = style == YAML::EmitterStyle::Flow;
  }
  void OnMapEnd() override { close(); }

 private:
  struct Level {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    bool in_braces = false;                // {...}
    std::optional<YamlNode> key;           // of a map, while its value is awaited
    std::vector<YamlNode::Member> merged;  // from merge keys
  };

  std::string at(const YAML::Mark& mark) const { return cat(file_, ":", mark.line + 1); }
  [[noreturn]] void bad_tag(const YAML::Mark& mark, const std::string& tag) const {
    fail(cat(at(mark), ": the tag ", tag, " means nothing in a recipe; remove it"));
  }
  // yaml-cpp takes the end of the file for a closing quote, so a truncated recipe would pass.
  void check_quote(const YAML::Mark& mark) const {
    const auto line = static_cast<std::size_t>(mark.line);
    const auto column = static_cast<std::size_t>(mark.column);
    if (line >= lines_.size() || column >= lines_[line].size()) return;
    const std::string_view rest = lines_[line].substr(column);
    const char quote = rest.front();
    if (quote != '"' && quote != '\'') return;
    for (std::size_t i = 1; i < rest.size(); ++i) {
      if (quote == '"' && rest[i] == '\\') {
        ++i;
      } else if (rest[i] == quote) {
        if (quote == '"' || i + 1 == rest.size() || rest[i + 1] != quote) return;
        ++i;
      }
    }
    fail(cat(at(mark), ": the quote ", quote, " that opens here is never closed"));
  }
  // YAML reads {a:b} as the key "a:b" without a value, whatever was meant.
  void check_colon(const Level& level, const YamlNode& key, const YamlNode& value) const {
    const std::size_t colon = key.text.find(':');
    const bool no_value = value.is_null() && value.text.empty();
    if (!strict_ || !level.in_braces || key.quoted || !no_value || colon == std::string::npos)
      return;
    const std::string name = key.text.substr(0, colon + 1);
    const std::string meant = is_secret_key(key.text.substr(0, colon))
                                  ? kHiddenSecret
                                  : without_userinfo(key.text.substr(colon + 1));
    fail(cat(key.where, ": {", name, meant, "} is the key '", name, meant,
             "' without a value; write a space after the colon: {", name, " ", meant, "}"));
  }
  void limit(const YAML::Mark& mark) const {
    if (nodes_ > kMaxNodes) fail(cat(at(mark), ": more than ", kMaxNodes, " values"));
  }
  YamlNode scalar(const YAML::Mark& mark, const std::string& text, bool quoted) {
    YamlNode node;
    node.text = text;
    node.quoted = quoted;
    node.where = at(mark);
    ++nodes_;
    limit(mark);
    return node;
  }
  void open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
            YamlNode::Kind kind) {
    if (tag != "!" && !is_known_tag(tag)) bad_tag(mark, tag);
    Level level;
    level.node.kind = kind;
    level.node.where = at(mark);
    level.anchor = anchor;
    ++nodes_;
    limit(mark);
    levels_.push_back(std::move(level));
  }
  void close() {
    Level level = std::move(levels_.back());
    levels_.pop_back();
    for (YamlNode::Member& member : level.merged)
      if (level.node.find(member.first) == nullptr) level.node.members.push_back(std::move(member));
    add(std::move(level.node), level.anchor);
  }
  std::string path_of(const std::string& key) const {
    std::string path;
    for (const Level& level : levels_)
      if (level.node.is_map() && level.key && &level != &levels_.back())
        path += level.key->text + ".";
    return path + key;
  }
  void add(YamlNode node, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = node;
    if (levels_.empty()) {
      root_ = std::move(node);
      has_root_ = true;
      return;
    }
    Level& level = levels_.back();
    if (level.node.is_list()) {
      level.node.items.push_back(std::move(node));
      return;
    }
    if (!level.key) {
      if (!node.is_scalar()) fail(cat(node.where, ": a key must be a word, not ", node.describe()));
      if (const YamlNode* first = level.node.find(node.text)) {
        fail(cat(node.where, ": duplicate key ", path_of(node.text), "; first at ",
                 first->key_where));
      }
      level.key = std::move(node);
      return;
    }
    const YamlNode key = *std::exchange(level.key, std::nullopt);
    if (key.text == "<<" && !key.quoted) {
      merge(level, node);
      return;
    }
    check_colon(level, key, node);
    node.key_where = key.where;
    level.node.members.emplace_back(key.text, std::move(node));
  }
  // Keys written beside << win over merged ones, earlier merged maps over later ones.
  static void merge(Level& level, const YamlNode& node) {
    if (node.is_map()) {
      for (const YamlNode::Member& member : node.members) {
        const bool known = std::any_of(level.merged.begin(), level.merged.end(),
                                       [&](const auto& m) { return m.first == member.first; });
        if (!known) level.merged.push_back(member);
      }
      return;
    }
    if (!node.is_list()) fail(cat(node.where, ": << takes a map or a list of maps"));
    for (const YamlNode& item : node.items) merge(level, item);
  }

  std::string file_;
  bool strict_;
  std::vector<std::string_view> lines_;
  YamlNode root_;
  bool has_root_ = false;
  std::size_t nodes_ = 0;
  std::vector<Level> levels_;
  std::unordered_map<YAML::anchor_t, YamlNode> anchors_;
};

// The line of the first byte that is not UTF-8, or is 0; none when all is well.
std::optional<std::size_t> line_of_bad_utf8(std::string_view s) {
  const std::size_t at = std::min(io::first_invalid_utf8(s), s.find('\0'));
  if (at >= s.size()) return std::nullopt;
  return 1 + static_cast<std::size_t>(
                 std::count(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
}

YamlNode parse_one(const std::string& text, const std::string& file, bool strict = true) {
  std::istringstream stream(text);
  TreeBuilder builder(text, file, strict);
  try {
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    TreeBuilder second(text, file, strict);
    if (!builder.empty() && parser.HandleNextDocument(second) && !second.empty())
      fail(cat(second.take().where, ": a second YAML document; a recipe is one"));
  } catch (const YAML::Exception& e) {
    fail(cat(file, ":", e.mark.line + 1, ": not valid YAML: ", e.msg, " (column ",
             e.mark.column + 1, ")"));
  }
  return builder.take();
}

void set_where(YamlNode& node, const std::string& where) {
  node.where = node.key_where = where;
  for (YamlNode& item : node.items) set_where(item, where);
  for (YamlNode::Member& member : node.members) set_where(member.second, where);
}

}  // namespace

YamlNode::YamlNode() = default;
YamlNode::YamlNode(const YamlNode&) = default;
YamlNode::YamlNode(YamlNode&&) noexcept = default;
YamlNode& YamlNode::operator=(const YamlNode&) = default;
YamlNode& YamlNode::operator=(YamlNode&&) noexcept = default;
YamlNode::~YamlNode() = default;

bool YamlNode::is_null() const {
  return is_scalar() && !quoted && (text.empty() ? !unexpanded : is_null_word(text));
}

bool YamlNode::spells_null() const {
  return is_scalar() && !text.empty() && is_null_word(text);
}

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const Member& member : members)
    if (member.first == key) return &member.second;
  return nullptr;
}

YamlNode* YamlNode::find(std::string_view key) {
  return const_cast<YamlNode*>(std::as_const(*this).find(key));
}

bool YamlNode::erase(std::string_view key) {
  return std::erase_if(members, [&](const Member& m) { return m.first == key; }) > 0;
}

std::string YamlNode::describe() const {
  if (is_list()) return items.empty() ? "an empty list" : "a list";
  if (is_map()) return "a map";
  if (is_null()) return text.empty() ? "empty" : text;
  const std::string shown = without_userinfo(unexpanded ? *unexpanded : text);
  return shown.size() <= 80 ? "'" + shown + "'" : "'" + shown.substr(0, 77) + "...'";
}

std::string without_userinfo(std::string text) {
  constexpr std::string_view kScheme = "://";
  for (std::size_t at = text.find(kScheme); at != std::string::npos;
       at = text.find(kScheme, at + 1)) {
    const std::size_t begin = at + kScheme.size();
    const std::size_t end = std::min(text.find_first_of("/?# \t\n\"'", begin), text.size());
    const std::size_t sign = text.rfind('@', end);
    if (sign != std::string::npos && sign > begin && sign < end)
      text.replace(begin, sign - begin, kHiddenSecret);
  }
  return text;
}

YamlNode parse_yaml(const std::string& text, const std::string& file, std::string_view what) {
  if (const auto line = line_of_bad_utf8(text))
    fail(cat(file, ":", *line, ": not UTF-8 text, or a zero byte; ", what,
             " is YAML text in UTF-8"));
  YamlNode root = parse_one(text, file, what == kRecipe);
  if (root.is_scalar() && root.text.empty())
    fail(cat(file, ": is empty; expected ", what, ": a YAML map",
             what == kRecipe ? " with recipe, model, dataset and so on" : ""));
  if (!root.is_map())
    fail(cat(root.where, ": ", what, " is a YAML map (key: value lines), found ", root.describe()));
  return root;
}

namespace fs = std::filesystem;

std::string read_text_file(const std::string& path, std::string_view what) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) fail(cat(path, ": no such file; expected ", what));
  if (fs::is_directory(status)) fail(cat(path, ": is a folder; expected ", what));
  const io::ReadFile file(path);
  if (file.size() > kMaxFileBytes)
    fail(cat(path, ": larger than ", kMaxFileBytes >> 20, " MiB; expected ", what));
  std::string text(file.size(), '\0');
  file.read(0, text.data(), text.size());
  return text;
}

YamlNode parse_argument_value(const std::string& text, const std::string& where) {
  YamlNode node;
  const char first = text.empty() ? '\0' : text.front();
  const char last = text.empty() ? '\0' : text.back();
  const bool is_template = text.starts_with("{{") || text.starts_with("{%");
  const bool list =
      !is_template && ((first == '[' && last == ']') || (first == '{' && last == '}') ||
                       (first == '(' && last == ')'));
  const bool quoted = text.size() >= 2 && (first == '\'' || first == '"') && last == first;
  if (list || quoted) {
    std::string yaml = text;
    if (first == '(') {
      yaml.front() = '[';
      yaml.back() = ']';
    }
    node = parse_one(yaml, where);
  } else {
    node.text = text;
  }
  set_where(node, where);
  return node;
}

}  // namespace glmtune::train
