#pragma once
// The reasoning in an assistant's turn, whatever tags a template writes around it.
#include <cstddef>
#include <string_view>
#include <vector>

#include "data/rendered_view.h"
#include "io/json.h"

namespace glmtune::data {

// Bytes of the render, the tags included that the template writes around the reasoning.
struct Reasoning {
  std::size_t begin = 0;
  std::size_t end = 0;
  bool empty = false;  // think tags with nothing between them
};

// The reasoning in bytes [begin, end) of a render: the model's own text of a turn, without its
// stop. Known are texts of a message's reasoning field, with the template's text before and behind
// them, and what stands between <think> and </think> where a turn begins (the <think> may be the
// last of the prompt).
std::vector<Reasoning> find_reasoning(const RenderedView& view, std::size_t begin, std::size_t end);

// Whether a message has a reasoning field that is not blank.
bool has_reasoning_field(const io::Value& message);
// The reasoning that a message brings in its content: what precedes </think> there, without
// <think> and white space. Empty where there is none.
std::string_view inline_reasoning(const io::Value& message);

}  // namespace glmtune::data
