#!/usr/bin/env python3
"""Prints what torch.optim makes of bfloat16 parameters, as bits, for tests/ops/optimizer_test.cpp
(developer tool; PyPI: torch)."""
import torch

COUNT, STEPS = 16, 60


def bits(tensor):
    return ", ".join(f"0x{b & 0xffff:04x}" for b in tensor.view(torch.int16).tolist())


def values(step):
    i = torch.arange(COUNT)
    x = ((i * 7919 + step * 104729) % 257 - 128).double() / 128
    return x * 2.0 ** -(i % 8).double()


for name, make, decay in [("Adam", torch.optim.Adam, 0.0), ("AdamW", torch.optim.AdamW, 0.1)]:
    p = torch.nn.Parameter(values(0).bfloat16())
    optimizer = make([p], lr=1e-2, betas=(0.9, 0.999), eps=1e-8, weight_decay=decay, foreach=False)
    for step in range(1, STEPS + 1):
        p.grad = values(step).bfloat16()
        optimizer.step()
    state = optimizer.state[p]
    print(name, torch.__version__)
    for what in (p.detach(), state["exp_avg"], state["exp_avg_sq"]):
        print(f"    {{{bits(what)}}},")
