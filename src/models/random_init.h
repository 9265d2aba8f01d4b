#pragma once
// Randomly initialised checkpoints, for tests, demos and benchmarks. Every value depends on the
// seed, the tensor's name and its position only: never on threads, shards or other tensors.
#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "models/glm_config.h"
#include "nn/parameter.h"
#include "tensor/context.h"

namespace glmtune::models {

// The key of ops::RandomNormal for a tensor of that name.
std::uint64_t random_key(std::uint64_t seed, std::string_view name);

// Elements [first, first + out.count()) of a checkpoint tensor's initial values: normal(0,
// initializer_range), ones or zeros. out: rank 1, F64, F32 or BF16, on the CPU.
void initial_values(const TensorSpec& spec, double initializer_range, std::uint64_t seed,
                    std::int64_t first, Tensor out);

// The same for parameters in memory, made where they lie (F64 on the CPU only): matrices normal(0,
// deviation), norm weights one, biases zero, drawn under the parameter's own name.
void random_parameters(Context& ctx, std::span<nn::Parameter* const> parameters, double deviation,
                       std::uint64_t seed);

struct InitOptions {
  std::uint64_t seed = 0;
  std::optional<DType> dtype = {};  // none: the config's, float32 where it names none
  std::uint64_t shard_bytes = 5'000'000'000;
  const std::atomic<int>* stop = nullptr;  // looked at while weights are written; not 0: stop
};

// The flag of InitOptions was set; nothing is left of the folder.
struct InitInterrupted : Error {
  using Error::Error;
};

struct InitReport {
  std::vector<std::string> weight_files;
  std::vector<std::string> copied_files;  // found beside the config: tokenizer, template, ...
  std::uint64_t bytes = 0;
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;
  DType dtype = DType::kF32;
};

// Writes a Hugging Face folder. `folder` must not exist (an empty folder is fine); it appears under
// its name when all of it is on disk.
InitReport write_random_checkpoint(const std::string& config_json, const std::string& folder,
                                   const InitOptions& options = {});

}  // namespace glmtune::models
