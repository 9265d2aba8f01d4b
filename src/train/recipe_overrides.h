#pragma once
// Settings on the command line: --a.b.c=value, --a.b.c value, --a.b.c alone (true). Order is kept,
// later ones win.
#include <span>
#include <string>
#include <vector>

#include "train/yaml_document.h"

namespace glmtune::train {

struct Override {
  std::string path;  // dotted
  YamlNode value;
};

struct Overrides {
  std::vector<Override> settings;
};

// `arguments` without the program's own options. Throws Error for a name that is no dotted key, for
// an empty value, and for a word that is neither an option nor its value.
Overrides parse_overrides(std::span<const std::string> arguments);

// Maps on the way are made where they are missing; a list is replaced as a whole. A key of the
// recipe that has dots itself is found before one that would be made.
void apply_overrides(YamlNode& root, const Overrides& overrides);

}  // namespace glmtune::train
