#pragma once
// GlmMoeDsa: the GLM-5 family, HF architecture GlmMoeDsaForCausalLM (model.md 3).
#include <vector>

#include "models/causal_lm.h"
#include "models/glm_config.h"
#include "nn/decoder_layer.h"
#include "nn/lm_head.h"

namespace glmtune::models {

class GlmMoeDsa final : public CausalLm {
 public:
  // Parameters have names, shapes and dtypes but no memory (ParameterStore gives it). dtype: of all
  // parameters but e_score_correction_bias (F32). latent_norm_eps: of q_a_layernorm,
  // kv_a_layernorm.
  GlmMoeDsa(const GlmConfig& config, DType dtype, double latent_norm_eps);

  std::int64_t vocab_size() const override { return config_.vocab_size; }
  void visit_parameters(const nn::ParameterVisitor& visit) override;
  void visit_routers(const std::function<void(std::int64_t, nn::Router&)>& visit) override;
  nn::AttentionSettings& attention() override { return attention_; }
  void run(Context& ctx, const nn::PackedRow& row, Tensor loss_sum, const PassOptions& options,
           const Probe* probe) const override;

  const GlmConfig& config() const { return config_; }
  const std::vector<nn::DecoderLayer>& layers() const { return layers_; }

 private:
  struct Tape;  // what the forward leaves for the backward
  void forward(Context& ctx, const nn::PackedRow& row, const PassOptions& options,
               const Probe* probe, Tape& tape) const;
  void backward(Context& ctx, const nn::PackedRow& row, const PassOptions& options, Tensor dx,
                Tape& tape) const;

  GlmConfig config_;
  nn::AttentionSettings attention_;
  nn::Parameter embed_tokens_;  // [V, C]
  std::vector<nn::DecoderLayer> layers_;
  nn::RmsNorm norm_;
  nn::Linear lm_head_;  // [V, C]; tied: a copy of embed_tokens_'s views, refreshed before use
  nn::LmHead head_;
};

// The model of a config; parse_glm_config refuses every other model_type by name, so that this is
// the one place where a second architecture would be chosen.
std::unique_ptr<CausalLm> make_model(const GlmConfig& config, DType dtype, double latent_norm_eps);

}  // namespace glmtune::models
