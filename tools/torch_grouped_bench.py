"""Developer tool, on a GPU: torch's side of bench/grouped_bench, the same shapes and the same way of timing.

    python tools/torch_grouped_bench.py [--rows 131072] [--experts 4 256] [--only WORDS]

torch._grouped_mm on bf16 operands. Its weight gradients are bf16 results: nothing is added to. Milliseconds and TFLOP/s
in "burst" (after half a second of rest) and "sustained" (after a second of the same work); medians of 5 and 9 runs.
"""

import argparse
import time

import torch


def measure(name, flop, work):
    def sample():
        begin = time.perf_counter()
        for _ in range(3):
            work()
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) / 3

    def median(samples):
        return sorted(sample() for _ in range(samples))[samples // 2]

    median(2)
    time.sleep(0.5)
    burst = median(5)
    begin = time.perf_counter()
    while time.perf_counter() - begin < 1:
        sample()
    sustained = median(9)
    print(f"{name:<36} " + "   ".join(f"{1e3 * t:9.3f} ms {flop / t * 1e-12:6.0f} TFLOP/s" for t in (burst, sustained)),
          flush=True)


def products(name, offsets, rows, n, k, only):
    def normal(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    experts = len(offsets)
    x, dy, w = normal(rows, k), normal(rows, n), normal(experts, n, k)
    flop = 2 * rows * n * k
    for what, work in (
            ("forward", lambda: torch._grouped_mm(x, w.transpose(1, 2), offs=offsets)),
            ("input gradient", lambda: torch._grouped_mm(dy, w, offs=offsets)),
            ("weight gradient, bf16, not added", lambda: torch._grouped_mm(dy.T, x, offs=offsets))):
        if only in f"{name} {what}":
            measure(f"{name} {what}", flop, work)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=131072)
    parser.add_argument("--experts", type=int, nargs="+", default=[4, 256])
    parser.add_argument("--only", default="", help="lines whose names have this in them")
    args = parser.parse_args()
    torch.manual_seed(3)
    for experts in args.experts:
        even = experts == 4
        counts = (torch.full((experts,), args.rows // experts) if even else
                  torch.bincount(torch.randint(experts, (args.rows,)), minlength=experts))
        offsets = counts.cumsum(0).to("cuda", torch.int32)
        name = f"{experts} {'even' if even else 'ragged'}"
        products(f"{name} FC1", offsets, args.rows, 4096, 6144, args.only)
        products(f"{name} FC2", offsets, args.rows, 6144, 2048, args.only)


if __name__ == "__main__":
    main()
