#pragma once
// UTF-8 validity (RFC 3629: no overlong forms, no surrogates, nothing beyond U+10FFFF).
#include <cstddef>
#include <string_view>

namespace glmtune::io {

// Bytes of the valid sequence at s[i], 0 when there is none.
std::size_t utf8_length(std::string_view s, std::size_t i);
bool is_utf8(std::string_view s);

}  // namespace glmtune::io
