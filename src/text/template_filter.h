#pragma once
// The two halves of the filters.
#include <optional>

#include "text/template_runtime.h"

namespace glmtune::text::jinja {

// Filters over sequences; nothing where there is none of that name.
std::optional<Val> sequence_filter(Runtime& rt, const std::string& name, const Val& input,
                                   const Args& args);

}  // namespace glmtune::text::jinja
