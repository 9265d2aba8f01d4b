#pragma once
// What devices compute at most, for the metric mfu: AutoModel's table, dense bfloat16.
#include <optional>
#include <string>
#include <string_view>

namespace glmtune::train {

// TFLOP/s of the device whose name holds one of the table's, in any case ("NVIDIA H200", "h100");
// none for others.
std::optional<double> peak_of_device(std::string_view name);
// "H100, H200, ...", for messages.
std::string known_devices();

}  // namespace glmtune::train
