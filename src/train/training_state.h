#pragma once
// What a run needs to go on exactly where it stopped: position, parameters as they are in memory,
// and the optimizer's state. Lies in a step folder as state.json and state.safetensors.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "data/pack_sampler.h"
#include "io/json.h"
#include "models/causal_lm.h"
#include "models/hf_checkpoint.h"
#include "train/checkpoint_manifest.h"
#include "train/optimizer.h"

namespace glmtune::train {

// Of a step folder: the position.
inline constexpr const char* kPositionName = "state.json";

struct TrainingPosition {
  std::int64_t next_step = 0;  // steps done
  std::int64_t updates = 0;    // of these, steps that changed the weights (Adam's step)
  data::SamplerCursor cursor;  // where the next global batch begins
  std::uint64_t seed = 0;
  std::string data_fingerprint;  // PackSource::fingerprint()
  std::string template_sha256;   // of the chat template; empty without one (or an early version)
  std::string model_signature;   // of model_signature()
  io::Value settings;            // Recipe::settings; null in checkpoints of an early version
  // The rate that the next step would have; none in an early version or where no step was taken.
  std::optional<double> next_lr;
};

// What model_signature() begins with; checkpoints of earlier versions have other signatures.
inline constexpr std::string_view kSignatureVersion = "2-";

// Whether training can change a parameter: by its gradient or, the router's bias, by the sign rule.
bool training_changes(const nn::Parameter& p);

// A digest of every parameter's name, shape and dtype, and of the values of the frozen ones.
std::string model_signature(models::CausalLm& model, void* stream);

// Writes <folder>/state.json and state.safetensors: all parameters that training can change, then
// the optimizer's tensors. Returns the checksum of the latter.
Checksums save_state(const std::string& folder, const TrainingPosition& position,
                     models::CausalLm& model, Optimizer& optimizer, void* stream,
                     const models::ByteCount& progress = {});

TrainingPosition read_position(const std::string& folder);
// Fills parameters and optimizer; an error names the first tensor that is missing or does not fit.
void load_state(const std::string& folder, models::CausalLm& model, Optimizer& optimizer,
                void* stream, const models::ByteCount& progress = {});

// The command that writes the Hugging Face folder of a checkpoint that has none.
std::string export_command(const std::string& step_folder);

}  // namespace glmtune::train
