#pragma once
// Errors. Everything a user, a file or a caller can get wrong ends in one of these; the message
// says what, where, what was found, what was expected and what to do. apps/main turns the class
// into an exit code.
#include <stdexcept>
#include <string>
#include <string_view>

namespace glmtune {

// A user's error (recipe, data, checkpoint, arguments) or a broken precondition: exit code 1.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A failure of the machine: full disk, unreadable device, out of memory.
struct MachineError : Error {
  using Error::Error;
};

[[noreturn]] void fail(const std::string& message);
[[noreturn]] void fail_machine(const std::string& message);

// Always on. Where the message needs values, test first and call fail(cat(...)).
inline void check(bool ok, std::string_view message) {
  if (!ok) fail(std::string(message));
}

}  // namespace glmtune
