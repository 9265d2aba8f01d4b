#pragma once
// YamlNode: a YAML file as the recipe language sees it: maps in order, lists, scalars as written
// with their place in the file. Types are the schema's business (schema.h).
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace glmtune::train {

struct YamlNode {
  enum class Kind : std::uint8_t { kScalar, kList, kMap };
  using Member = std::pair<std::string, YamlNode>;

  // Defined where the type is complete: clang asks for them inside the class otherwise.
  YamlNode();
  YamlNode(const YamlNode&);
  YamlNode(YamlNode&&) noexcept;
  YamlNode& operator=(const YamlNode&);
  YamlNode& operator=(YamlNode&&) noexcept;
  ~YamlNode();

  Kind kind = Kind::kScalar;
  std::string text;                       // scalar, after interpolation
  std::optional<std::string> unexpanded;  // scalar, as written, where interpolation changed it
  bool quoted = false;          // scalar: a string whatever it spells, unless a number is wanted
  bool implied = false;         // scalar: "true" because the command line gives no value
  std::vector<YamlNode> items;  // list
  std::vector<Member> members;  // map; keys are unique
  std::string where;            // "recipe.yaml:12", or "argument --a.b=1"
  std::string key_where;        // of a map member: where its key stands

  bool is_scalar() const { return kind == Kind::kScalar; }
  bool is_list() const { return kind == Kind::kList; }
  bool is_map() const { return kind == Kind::kMap; }
  // An absent value, ~, null or none; never when quoted, or when a variable's text is empty.
  bool is_null() const;
  bool spells_null() const;  // ~, null or none, quoted or not
  const YamlNode* find(std::string_view key) const;
  YamlNode* find(std::string_view key);
  bool erase(std::string_view key);
  // What an error message calls it: "'text'", "a list", "a map", "nothing".
  std::string describe() const;
};

inline constexpr const char* kHiddenSecret = "********";

// A text as it may be shown: the userinfo of a URL in it (https://user:secret@host) is hidden.
std::string without_userinfo(std::string text);

inline constexpr std::string_view kRecipe = "a recipe";

// One document; its top must be a map. Duplicate keys, several documents, keys that are no
// scalars, unknown tags, invalid UTF-8 and YAML errors throw Error naming file and line; so does
// {a:b} in a recipe, a key without a value. Anchors, aliases and merge keys (<<) are resolved.
// what: what a message calls the document.
YamlNode parse_yaml(const std::string& text, const std::string& file,
                    std::string_view what = kRecipe);

// A file's text; Error where there is none or it is absurdly large for `what` is expected there.
std::string read_text_file(const std::string& path, std::string_view what = kRecipe);

// A value on the command line: [..], (..) and {..} are lists and maps, 'x' and "x" quoted
// strings, the rest one scalar as it stands. `where` is every node's.
YamlNode parse_argument_value(const std::string& text, const std::string& where);

// Variables of the environment, given by the caller; nothing below apps reads them itself.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;

// Replaces ${VAR}, ${VAR,default}, ${oc.env:VAR}, ${oc.env:VAR,default} and $VAR in every scalar.
// A variable that is neither set nor given a default throws Error naming it and the place.
void interpolate(YamlNode& node, const Environment& environment);

}  // namespace glmtune::train
