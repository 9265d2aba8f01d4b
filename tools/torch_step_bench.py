"""Developer tool: the same training step as bench/step_bench, in transformers on the CPU.

    python tools/torch_step_bench.py bench/small/config.json --packs 4 --tokens 1024 --threads 2

Packs are single documents. Prints one line per step and the median, for comparison in the same run.
"""

import argparse
import json
import statistics
import time

import torch
from transformers import GlmMoeDsaConfig, GlmMoeDsaForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("config")
    parser.add_argument("--packs", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--attn", default="sdpa")
    parser.add_argument("--experts", default=None)
    parser.add_argument("--together", action="store_true", help="all packs as one batch")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    with open(args.config) as f:
        config = GlmMoeDsaConfig(**json.load(f))
    config._attn_implementation = args.attn
    if args.experts:
        config._experts_implementation = args.experts
    model = GlmMoeDsaForCausalLM(config).float()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    times = []
    for step in range(args.steps):
        ids = torch.randint(0, config.vocab_size, (args.packs, args.tokens))
        begin = time.perf_counter()
        total = 0.0
        batches = [ids] if args.together else list(ids.split(1))
        for batch in batches:
            loss = model(input_ids=batch, labels=batch, use_cache=False).loss / len(batches)
            loss.backward()
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(time.perf_counter() - begin)
        print(f"step {step}  {1e3 * times[-1]:.1f} ms  loss {total:.4f}", flush=True)
    median = statistics.median(times)
    print(f"median {1e3 * median:.1f} ms, {args.packs * args.tokens / median:.0f} tokens/s")


if __name__ == "__main__":
    main()
