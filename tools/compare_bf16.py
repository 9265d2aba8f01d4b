"""Developer tool, on a GPU: how far our bf16 logits are from transformers' fp32 ones, beside its own bf16.

    python tools/compare_bf16.py build/cuda/glmtune --seeds 5 --experts 32 --vocab 16384

A real-width slice (GLM-5.2 widths, 3 dense + 1 MoE layer) with weights N(0, 0.02), rounded to bf16 for all
three. Cases: 59 tokens, 4096 tokens in one document, a packed row of four documents (as separate documents
for transformers). Prints per case the relative L2 errors and their ratio.
"""

import argparse
import json
import os
import subprocess
import tempfile

import torch
from safetensors.torch import save_file
from transformers import GlmMoeDsaConfig, GlmMoeDsaForCausalLM


def make_config(path, experts, vocab):
    with open(path) as f:
        c = json.load(f)
    c.update(num_hidden_layers=4, mlp_layer_types=["dense"] * 3 + ["sparse"],
             indexer_types=["full", "full", "full", "shared"], n_routed_experts=experts, vocab_size=vocab)
    return c


def rel(a, b):
    return ((a.double() - b.double()).norm() / b.double().norm()).item()


@torch.no_grad()
def logits(model, documents):
    return torch.cat([model(input_ids=d[None].cuda(), use_cache=False).logits[0].float() for d in documents])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("glmtune")
    parser.add_argument("--config", default="bench/slice/config.json")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--experts", type=int, default=32)
    parser.add_argument("--vocab", type=int, default=16384)
    parser.add_argument("--work", default=tempfile.gettempdir())
    args = parser.parse_args()
    raw = make_config(args.config, args.experts, args.vocab)
    ratios = {}
    for seed in range(args.seeds):
        torch.manual_seed(seed)
        with torch.device("cuda"):
            torch.set_default_dtype(torch.bfloat16)
            model = GlmMoeDsaForCausalLM(GlmMoeDsaConfig(**raw))
            torch.set_default_dtype(torch.float32)
        with torch.no_grad():
            for name, p in model.named_parameters():
                if name.endswith("norm.weight"):
                    p.fill_(1.0)
                elif p.dim() > 1:
                    p.copy_(torch.randn(p.shape, device="cuda", dtype=torch.float32) * 0.02)
        model.eval()
        folder = os.path.join(args.work, f"slice_{seed}")
        os.makedirs(folder, exist_ok=True)
        state = {k: v.contiguous().cpu() for k, v in model.state_dict().items()}
        for k in state:
            if k.endswith("e_score_correction_bias"):
                state[k] = state[k].float()
        save_file(state, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(raw, f)
        cases = {"59": [59], "4096": [4096], "packed": [700, 1300, 300, 1796]}
        documents = {k: [torch.randint(0, args.vocab, (n,)) for n in v] for k, v in cases.items()}
        own = {k: logits(model, d) for k, d in documents.items()}
        model.float()
        for case, docs in documents.items():
            exact = logits(model, docs)
            cu = torch.tensor([0] + [len(d) for d in docs]).cumsum(0).int()
            reference = os.path.join(folder, f"{case}.safetensors")
            save_file({"input_ids": torch.cat(docs), "cu_seqlens": cu, "logits": exact.cpu()}, reference)
            out = subprocess.run([args.glmtune, "verify", "--model", folder, "--reference", reference, "--device",
                                  "cuda", "--dtype", "bfloat16", "--latent-norm-eps", "1e-6", "--tolerance", "1",
                                  "--json"], capture_output=True, text=True)
            if not out.stdout.strip():
                raise SystemExit(f"glmtune verify: {out.stderr}")
            ours = json.loads(out.stdout.strip().splitlines()[-1])["logits"]
            theirs = rel(own[case], exact)
            top1 = (own[case].argmax(-1) == exact.argmax(-1)).float().mean().item()
            ratios.setdefault(case, []).append(ours["rel_l2"] / theirs)
            print(f"seed {seed} {case:>6}: ours {ours['rel_l2']:.4f} (top-1 {ours['top1']:.4f}), transformers bf16 "
                  f"{theirs:.4f} (top-1 {top1:.4f}), ratio {ratios[case][-1]:.3f}", flush=True)
            os.remove(reference)
        del model, own
        torch.cuda.empty_cache()
        os.remove(os.path.join(folder, "model.safetensors"))
    for case, r in ratios.items():
        print(f"mean ratio {case}: {sum(r) / len(r):.3f} over {len(r)} seeds")


if __name__ == "__main__":
    main()
