#pragma once
// SHA-1 (FIPS 180-4), which names git's objects. Tells a damaged file, not an attacker.
#include <string>
#include <string_view>

namespace glmtune::io {

// 40 hexadecimal digits.
std::string sha1_hex(std::string_view bytes);

// Git's name of a file's contents: the sha1 of "blob SIZE\0" and the bytes.
std::string git_blob_name(std::string_view contents);

}  // namespace glmtune::io
