#pragma once
// What becomes of a key that stands in a recipe: it runs, has no counterpart here, is ignored, or
// does not run yet.
#include <string>

#include "io/json.h"
#include "train/schema_check.h"

namespace glmtune::train {

// Adds to out's warnings, not_runnable and no_counterpart what the row's status says of this value
// (null: a section). A value that switches the feature off runs.
void report_status(const KeyRow& row, const YamlNode& node, const std::string& path,
                   const io::Value& value, CheckedDocument& out);

// what: as not_runnable says it; instead: the setting that runs, "distributed.pp_size 1".
void add_not_runnable(CheckedDocument& out, std::string what, std::string instead);

}  // namespace glmtune::train
