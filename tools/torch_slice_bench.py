"""Developer tool, on a GPU: forward and backward of a real-width slice in transformers, for bench/step_bench.

    python tools/torch_slice_bench.py bench/slice/config.json 4x4096 16x1024

bf16, sdpa attention, grouped_mm experts, no checkpointing, no head, no optimizer; each sequence a document.
"""

import json
import statistics
import sys
import time

import torch
from transformers import GlmMoeDsaConfig

from torch_model import random_model


def main():
    with open(sys.argv[1]) as f:
        config = GlmMoeDsaConfig(**json.load(f))
    model = random_model(config)
    for shape in sys.argv[2:]:
        batch, length = (int(x) for x in shape.split("x"))
        times = []
        torch.cuda.reset_peak_memory_stats()
        for step in range(10):
            ids = torch.randint(0, config.vocab_size, (batch, length), device="cuda")
            torch.cuda.synchronize()
            begin = time.perf_counter()
            out = model(input_ids=ids, use_cache=False).last_hidden_state
            out.backward(torch.full_like(out, 1e-6))
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
            model.zero_grad(set_to_none=False)
        print(f"transformers {shape}: {1e3 * statistics.median(times[2:]):.1f} ms forward+backward, peak "
              f"{torch.cuda.max_memory_allocated() / 1e9:.1f} GB", flush=True)


if __name__ == "__main__":
    main()
