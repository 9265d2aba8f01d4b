// libFuzzer: any bytes as a recipe end in a Recipe or in an Error. What was accepted can be
// printed, and its printed form is accepted again.
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "train/recipe_file.h"

using namespace glmtune;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  // Lines that begin with '!' are words of the command line.
  std::string yaml;
  std::vector<std::string> overrides;
  const std::string input(reinterpret_cast<const char*>(data), size);
  for (std::size_t at = 0; at < input.size();) {
    const std::size_t end = std::min(input.find('\n', at), input.size());
    if (input[at] == '!') {
      overrides.push_back(input.substr(at + 1, end - at - 1));
    } else {
      yaml.append(input, at, end + 1 - at);
    }
    at = end + 1;
  }
  const auto environment = [](const std::string& name) -> std::optional<std::string> {
    return name == "SET" ? std::optional<std::string>("value: [1") : std::nullopt;
  };
  try {
    const train::RecipeFile file = train::parse_recipe(yaml, "fuzz.yaml", overrides, environment);
    (void)train::not_runnable_line(file.checked);
    (void)train::resolved_keys(file.checked);
    (void)train::resolved_lines(file.checked);
  } catch (const MachineError&) {
    __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
