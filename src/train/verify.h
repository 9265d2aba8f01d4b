#pragma once
// Compares the model's logits, loss, hidden states and gradients with a reference file.
#include <cstdint>
#include <optional>
#include <string>

#include "tensor/dtype.h"
#include "train/verify_report.h"

namespace glmtune::train {

struct VerifyOptions {
  std::string model;      // checkpoint folder or hub id
  std::string reference;  // safetensors file with input_ids and what to compare
  std::string device = "cpu";
  DType dtype = DType::kF32;
  double latent_norm_eps = 1e-5;
  double tolerance = 5e-6;
  bool json = false;
};

// Throws Error for a reference that does not fit the model.
VerifyReport verify(const VerifyOptions& options);
// Prints the report; returns an exit status: 1 when anything is over its tolerance.
int run_verify(const VerifyOptions& options);

}  // namespace glmtune::train
