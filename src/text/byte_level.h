#pragma once
// The byte-level alphabet (GPT-2's): printable characters stand for their own bytes, the other
// bytes for U+0100 and on.
#include <string>
#include <string_view>

namespace glmtune::text {

// Appends the bytes that `text` stands for; false where a character is not of the alphabet.
bool append_byte_level(std::string_view text, std::string& out);

}  // namespace glmtune::text
