#pragma once
// The three groups of filters, and what they share.
#include <string_view>

#include "text/template_runtime.h"

namespace glmtune::text::jinja {

using FilterFunction = Val (*)(Runtime&, const Val& input, const Args&);

// Null where the group has none of that name.
FilterFunction sequence_filter(std::string_view name);
FilterFunction text_filter(std::string_view name);

// float(v), also of a text.
double to_double(Runtime& rt, const Val& v);
// pprint: the repr, with the keys of mappings in order, on several lines where one is too long.
Val pretty_print(Runtime& rt, const Val& v, const Args& args);

}  // namespace glmtune::text::jinja
