#pragma once
// Compares the model's logits, loss, hidden states, gradients and choices with reference files.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tensor/dtype.h"
#include "train/verify_report.h"

namespace glmtune::train {

struct VerifyOptions {
  std::string model;  // checkpoint folder or hub id
  // safetensors files with input_ids and what to compare (docs/verify.md)
  std::vector<std::string> references;
  std::string device = "cpu";
  DType dtype = DType::kF32;
  double latent_norm_eps = 1e-5;
  double tolerance = 5e-6;
  bool json = false;
};

// One report per reference; the checkpoint is loaded once. Throws Error for a reference that does
// not fit the model.
std::vector<VerifyReport> verify(const VerifyOptions& options);
// Prints the reports; returns an exit status: 1 when anything is over its tolerance.
int run_verify(const VerifyOptions& options);

}  // namespace glmtune::train
