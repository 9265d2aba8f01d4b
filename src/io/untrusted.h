#pragma once
// Texts from others: what a server, a data set or a tokenizer says.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace glmtune::io {

// Whether a relative path with '/' stays in its folder: no empty part, no "." or "..", and no
// control character, which names of a hub never need.
bool is_inside(std::string_view path);

// The text with its control characters (C0, DEL, C1, which act on a terminal) and its bytes that
// are no UTF-8 as escapes: "\x1b". kEscape: also line ends and tabs.
enum class LineEnds : std::uint8_t { kKeep, kEscape };
std::string printable(std::string_view text, LineEnds line_ends = LineEnds::kEscape);

// "a, b, c and 4 more": the first `most` names, printable.
std::string printable_list(const std::vector<std::string>& names, std::size_t most = 3);

}  // namespace glmtune::io
