"""Developer tool, on a GPU: transformers' side of bench/layer_bench, the same shapes and the same way of timing.

    python tools/torch_layer_bench.py bench/slice/config.json [head] [moe] [--tokens 4096]

bf16, sdpa attention, grouped_mm experts, bf16 gradients. Milliseconds in "burst" (after a second of rest) and
"sustained" (after a second of the same work); medians of 10 and 25 runs.
"""

import argparse
import json
import time

import torch
from transformers import GlmMoeDsaConfig
from transformers.masking_utils import create_causal_mask

from torch_model import random_model


def measure(name, work):
    def median(runs):
        times = []
        for _ in range(runs):
            begin = time.perf_counter()
            work()
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
        return 1e3 * sorted(times)[len(times) // 2]

    median(3)
    time.sleep(1)
    burst = median(10)
    begin = time.perf_counter()
    while time.perf_counter() - begin < 1:
        median(1)
    print(f"{name:<64} {burst:9.2f} ms {median(25):9.2f} ms", flush=True)


def bench_head(raw, tokens, vocab=154880):
    hidden = raw["hidden_size"]
    weight = torch.nn.Parameter(0.02 * torch.randn(vocab, hidden, device="cuda", dtype=torch.bfloat16))
    h = torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    labels = torch.randint(0, vocab, (tokens,), device="cuda")

    def work():
        weight.grad = h.grad = None
        torch.nn.functional.cross_entropy((h @ weight.T).float(), labels).backward()

    measure(f"torch: head + cross_entropy {tokens} x {vocab} x {hidden}", work)


def bench_layer(raw, tokens, shared):
    raw = dict(raw, vocab_size=512, num_hidden_layers=2 if shared else 1,
               mlp_layer_types=["dense", "sparse"] if shared else ["sparse"],
               indexer_types=["full", "shared"] if shared else ["full"])
    raw.pop("layer_types", None)
    config = GlmMoeDsaConfig(**raw)
    model = random_model(config)
    x = torch.randn(1, tokens, config.hidden_size, device="cuda", dtype=torch.bfloat16, requires_grad=True)
    dy = 1e-3 * torch.randn_like(x)
    position_ids = torch.arange(tokens, device="cuda")[None]
    mask = create_causal_mask(config=config, inputs_embeds=x, attention_mask=None, past_key_values=None,
                              position_ids=position_ids, allow_is_causal_skip=False)
    common = dict(attention_mask=mask, position_ids=position_ids,
                  position_embeddings=model.rotary_emb(x, position_ids=position_ids))
    selected = None
    if shared:
        with torch.no_grad():
            selected = model.layers[0](x, **common)[1]
    layer = model.layers[-1]

    def work():
        x.grad = None
        layer.zero_grad(set_to_none=True)
        layer(x, prev_topk_indices=selected, **common)[0].backward(dy)

    kind = "shared selection" if shared else "own indexer"
    measure(f"transformers: MoE layer, {kind}, 1 x {tokens}, {config.n_routed_experts} experts", work)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("what", nargs="*", default=["head", "moe"])
    parser.add_argument("--tokens", type=int, default=4096)
    args = parser.parse_args()
    with open(args.config) as f:
        raw = json.load(f)
    if "head" in args.what:
        bench_head(raw, args.tokens)
    if "moe" in args.what:
        for shared in (False, True):
            bench_layer(raw, args.tokens, shared)
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
