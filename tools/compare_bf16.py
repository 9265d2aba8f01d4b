"""Developer tool, on a GPU: how far our bf16 logits, selected keys and experts are from transformers' fp32
ones, beside its own bf16.

    python tools/compare_bf16.py build/cuda/glmtune --seeds 5 --work /dev/shm/compare

A real-width slice (GLM-5.2 widths, 3 dense + 1 MoE layer, by default 256 experts and the whole vocabulary: 13 G
parameters, 26 GB in --work, 80 GB on the GPU) with weights N(0, 0.02), rounded to bf16 for all three. Cases: 59
tokens (--short of them for every seed of weights, since one expert chosen otherwise moves so short a text by half),
4096 tokens in one document, a packed row of four documents (as separate documents for transformers).
Prints per case the relative L2 errors of the logits and their ratio, top-1 agreement, and the overlap of selected
keys (rows that see more than index_topk) and experts.
"""

import argparse
import json
import math
import os
import subprocess
import tempfile
import time

import numpy
import torch
from safetensors.torch import save_file
from transformers import GlmMoeDsaConfig, GlmMoeDsaForCausalLM

DTYPES = {torch.bfloat16: "BF16", torch.float32: "F32"}


def make_config(path, experts, vocab):
    with open(path) as f:
        c = json.load(f)
    c.update(num_hidden_layers=4, mlp_layer_types=["dense"] * 3 + ["sparse"],
             indexer_types=["full", "full", "full", "shared"], n_routed_experts=experts, vocab_size=vocab)
    return c


class WeightFile:
    """model.safetensors of one layout, filled again for every seed: written through pinned pages."""

    def __init__(self, path, tensors):
        header, offset = {"__metadata__": {"format": "pt"}}, 0
        for name, t in tensors.items():
            size = t.numel() * t.element_size()
            header[name] = {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "data_offsets": [offset, offset + size]}
            offset += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(path, "wb") as f:
            f.write(len(text).to_bytes(8, "little") + text)
            f.truncate(8 + len(text) + offset)
        self.bytes = torch.from_numpy(numpy.memmap(path, numpy.uint8, "r+"))
        self.begin = 8 + len(text)
        torch.cuda.cudart().cudaHostRegister(self.bytes.data_ptr(), self.bytes.numel(), 0)

    def fill(self, tensors):
        at = self.begin
        for t in tensors.values():
            raw = t.contiguous().view(-1).view(torch.uint8)
            self.bytes[at:at + raw.numel()].copy_(raw, non_blocking=True)
            at += raw.numel()
        torch.cuda.synchronize()


def state_of(model):
    state = {k: v.detach() for k, v in model.state_dict().items()}
    return {k: v.float() if k.endswith("e_score_correction_bias") else v for k, v in state.items()}


def randomize(model):
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("norm.weight"):
                p.fill_(1.0)
            elif p.dim() > 1:
                p.normal_(0, 0.02)
            else:
                p.zero_()
        for name, b in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                b.zero_()


class Choices:
    """Records the keys and experts that the layers choose; rows of several documents one after the other."""

    def __init__(self, model):
        self.lists = {}
        for n, layer in enumerate(model.model.layers):
            if layer.self_attn.indexer is not None:
                layer.self_attn.indexer.register_forward_hook(
                    lambda module, args, out, n=n: self.add(f"selection.{n}", self.visible(out[0])))
            if hasattr(layer.mlp, "gate"):
                layer.mlp.gate.register_forward_hook(
                    lambda module, args, out, n=n: self.add(f"experts.{n}", out[2]))

    @staticmethod
    def visible(keys):
        rows = torch.arange(keys.shape[0], device=keys.device)[:, None]
        return torch.where(keys <= rows, keys, -1)

    def add(self, name, value):
        self.lists.setdefault(name, []).append(value.int())

    def take(self):
        result = {}
        for name, parts in self.lists.items():
            width = max(p.shape[1] for p in parts)
            result[name] = torch.cat([torch.nn.functional.pad(p, (0, width - p.shape[1]), value=-1) for p in parts])
        self.lists = {}
        return result


def overlap(got, want, size):
    """Mean share of each row of `want` that is in `got`; rows without a choice are left out."""
    mask = torch.zeros(got.shape[0], size + 1, dtype=torch.bool, device=got.device)
    mask.scatter_(1, torch.where(got < 0, size, got).long(), True)
    mask[:, size] = False
    known = want >= 0
    both = mask.gather(1, want.clamp(min=0).long()) & known
    share = both.sum(1).double() / known.sum(1)
    return share[known.any(1)].mean().item()


def rel(a, b):
    """In float64, a block of rows at a time."""
    error = norm = 0.0
    for x, y in zip(a.split(256), b.split(256)):
        x, y = x.double(), y.double()
        error += (x - y).square().sum().item()
        norm += y.square().sum().item()
    return math.sqrt(error / norm)


@torch.no_grad()
def run(model, choices, documents):
    rows = torch.cat([model(input_ids=d[None].cuda(), use_cache=False).logits[0] for d in documents])
    return rows, choices.take()


def choosing(choices, documents, topk):
    """Selections of rows that see at most topk keys say nothing: -1."""
    position = torch.cat([torch.arange(len(d)) for d in documents]).cuda()
    for name in choices:
        if name.startswith("selection."):
            choices[name][position < topk] = -1
    return choices


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("glmtune")
    parser.add_argument("--config", default="bench/slice/config.json")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--short", type=int, default=8, help="texts of 59 tokens for every seed")
    parser.add_argument("--skip-long", action="store_true", help="texts of 59 tokens only")
    parser.add_argument("--experts", type=int, default=256)
    parser.add_argument("--vocab", type=int, default=154880)
    parser.add_argument("--work", default=tempfile.gettempdir())
    args = parser.parse_args()
    raw = make_config(args.config, args.experts, args.vocab)
    os.makedirs(args.work, exist_ok=True)
    with open(os.path.join(args.work, "config.json"), "w") as f:
        json.dump(raw, f)
    sums, weights, topk = {}, None, raw["index_topk"]
    for seed in range(args.first_seed, args.first_seed + args.seeds):
        began = time.time()
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.bfloat16)
        with torch.device("cuda"):
            model = GlmMoeDsaForCausalLM(GlmMoeDsaConfig(**raw)).eval()
        torch.set_default_dtype(torch.float32)
        randomize(model)
        state = state_of(model)
        if weights is None:
            weights = WeightFile(os.path.join(args.work, "model.safetensors"), state)
        weights.fill(state)
        del state
        cases = {f"59.{i}": [59] for i in range(args.short)}
        if not args.skip_long:
            cases.update({"4096": [4096], "packed": [700, 1300, 300, 1796]})
        documents = {k: [torch.randint(0, args.vocab, (n,)) for n in v] for k, v in cases.items()}
        choices = Choices(model)
        own = {k: run(model, choices, d) for k, d in documents.items()}
        model.float()
        found, paths = {}, []
        for case, docs in documents.items():
            exact, chosen = run(model, choices, docs)
            chosen = choosing(chosen, docs, topk)
            logits, mine = own.pop(case)
            found[case] = {
                "rel_l2": rel(logits, exact),
                "top1": (logits.argmax(-1) == exact.argmax(-1)).float().mean().item(),
                "overlaps": {n: overlap(mine[n], c, max(args.experts, 4096)) for n, c in chosen.items()
                             if (c >= 0).any()}}
            cu = torch.tensor([0] + [len(d) for d in docs]).cumsum(0).int()
            paths.append(os.path.join(args.work, f"{case}.safetensors"))
            chosen = {n: c.cpu().contiguous() for n, c in chosen.items() if (c >= 0).any()}
            save_file({"input_ids": torch.cat(docs), "cu_seqlens": cu, "logits": exact.cpu(), **chosen}, paths[-1])
            del exact, logits
        del model, choices
        torch.cuda.empty_cache()
        print(f"seed {seed}: transformers and files {time.time() - began:.1f} s", flush=True)
        began = time.time()
        out = subprocess.run([args.glmtune, "verify", "--model", args.work, "--reference", *paths, "--device", "cuda",
                              "--dtype", "bfloat16", "--latent-norm-eps", "1e-6", "--tolerance", "1", "--json"],
                             capture_output=True, text=True)
        lines = out.stdout.strip().splitlines()
        if len(lines) != len(paths):
            raise SystemExit(f"glmtune verify: {out.stderr}")
        print(f"seed {seed}: glmtune verify {time.time() - began:.1f} s", flush=True)
        for case, line in zip(documents, lines):
            ours, theirs = json.loads(line), found[case]
            ratio = ours["logits"]["rel_l2"] / theirs["rel_l2"]
            kind = case.split(".")[0]
            sums.setdefault((kind, "logits, ratio of rel. L2"), []).append((ratio, 1.0))
            sums.setdefault((kind, "logits, rel. L2"), []).append((ours["logits"]["rel_l2"], theirs["rel_l2"]))
            print(f"seed {seed} {case:>6}: ours {ours['logits']['rel_l2']:.4f} (top-1 {ours['logits']['top1']:.4f}, "
                  f"KL {ours['logits']['kl']:.2e}), transformers bf16 {theirs['rel_l2']:.4f} (top-1 "
                  f"{theirs['top1']:.4f}), ratio {ratio:.3f}", flush=True)
            layers = {**(ours["selections"] or {"layers": {}})["layers"], **(ours["experts"] or {"layers": {}})["layers"]}
            for name, share in theirs["overlaps"].items():
                sums.setdefault((kind, name), []).append((layers[name]["mean"], share))
        for path in paths:
            os.remove(path)
    os.remove(os.path.join(args.work, "model.safetensors"))
    print(f"means over {args.seeds} seeds: ours, transformers bf16")
    for (case, name), pairs in sums.items():
        ours, theirs = (sum(p[i] for p in pairs) / len(pairs) for i in range(2))
        print(f"  {case:>6} {name:<28} {ours:.5f} {theirs:.5f} ({len(pairs)} of them)")


if __name__ == "__main__":
    main()
