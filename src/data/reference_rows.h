#pragma once
// The token part of a reference file (glmtune.PretokenizedDataset and `glmtune verify` read the
// same): a safetensors file with
//   input_ids        [B, S] or [T], integers
//   labels           same shape, Hugging Face convention (not shifted; -100 is ignored), or
//   shifted_labels   same shape, already shifted; one of the two, or none
//   cu_seqlens       [documents + 1], optional: bounds of the documents of all tokens
#include <string>
#include <vector>

#include "data/pack.h"
#include "io/safetensors.h"

namespace glmtune::data {

// A pack per row of input_ids, one document each; with cu_seqlens one pack of its documents. Labels
// are shifted, all kNoLabel where the file has none. vocab_size: ids at or above it are an error;
// 0: not checked. Errors name file, row and tensor.
std::vector<Pack> read_reference_rows(const io::SafetensorsFile& file, std::int64_t vocab_size);

// A tensor of I32, or of I64 that fits in 32 bits.
std::vector<std::int32_t> read_integers(const io::SafetensorsFile& file, const std::string& name);

}  // namespace glmtune::data
