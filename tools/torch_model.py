"""Developer module: a GlmMoeDsaModel of random bf16 weights on the GPU, for the torch_*_bench.py programs."""

import torch
from transformers import GlmMoeDsaModel


def random_model(config):
    """sdpa attention, grouped_mm experts; matrices normal(0, 0.02), norms one, biases zero."""
    config._attn_implementation = "sdpa"
    config._experts_implementation = "grouped_mm"
    torch.manual_seed(0)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        model = GlmMoeDsaModel(config)
    torch.set_default_dtype(torch.float32)
    with torch.no_grad():
        for name, p in model.named_parameters():
            if p.dim() > 1:
                p.normal_(0, 0.02)
            else:
                p.fill_(1 if name.endswith("weight") else 0)
    return model.train()
