#!/usr/bin/env python3
"""Check the training kernels against transformers' chunked rule, and the chat template against chat_format.py."""
import json
import random
import time

import jinja2
import torch

import chat_format
import gen
import model as M
from transformers.models.qwen3_5.modeling_qwen3_5 import (
    torch_chunk_gated_delta_rule,
    torch_recurrent_gated_delta_rule,
)

# --- template
env = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
env.filters["tojson"] = lambda v: json.dumps(v, ensure_ascii=False)
template = env.from_string(open("chat_template.jinja").read())
lex = json.load(open("lexicon.json"))
r = random.Random(3)
for i in range(400):
    messages, options, _ = gen.conversation(r, lex)
    for extra in ({}, {"add_generation_prompt": True}):
        a = chat_format.render(messages, **options, **extra)
        b = template.render(messages=messages, **options, **extra)
        assert a == b, (a, b)
print("template equals chat_format on 400 conversations")

# --- gated delta rule
torch.manual_seed(0)
torch.set_float32_matmul_precision("highest")


def inputs(B, T, H):
    q, k, v = (torch.randn(B, T, H, 64, device="cuda") for _ in range(3))
    k = k + 0.7 * k[:, :1]  # similar keys: hard for the inverse
    g = -torch.rand(B, T, H, device="cuda") * 0.2
    beta = torch.rand(B, T, H, device="cuda")
    return [x.requires_grad_() for x in (q, k, v, g, beta)]


def rel(a, b):
    return ((a - b).norm() / b.norm()).item()


x = inputs(2, 256, 3)
weight = torch.randn(2, 256, 3, 64, device="cuda")
ref, _ = torch_chunk_gated_delta_rule(
    x[0], x[1], x[2], g=x[3], beta=x[4], use_qk_l2norm_in_kernel=True
)
rec, _ = torch_recurrent_gated_delta_rule(
    x[0], x[1], x[2], g=x[3], beta=x[4], use_qk_l2norm_in_kernel=True
)
gr = torch.autograd.grad((ref * weight).sum(), x)
for precision in ("highest", "high"):
    torch.set_float32_matmul_precision(precision)
    out = M.gated_delta_rule(*x)
    gm = torch.autograd.grad((out * weight).sum(), x)
    print(
        precision,
        "forward",
        rel(out, ref),
        "chunk vs recurrent",
        rel(rec, ref),
        "gradients",
        [f"{rel(a, b):.1e}" for a, b in zip(gm, gr)],
        flush=True,
    )

# --- speed of one rule, forward and backward, uncompiled and compiled
torch.set_float32_matmul_precision("high")
x = inputs(16, 4096, 8)
for name, fn in (("eager", M.gated_delta_rule), ("compiled", torch.compile(M.gated_delta_rule))):
    for i in range(5):
        if i == 2:
            torch.cuda.synchronize()
            t = time.time()
        out = fn(*x)
        torch.autograd.grad(out.sum(), x)
    torch.cuda.synchronize()
    print(
        name,
        "gated delta rule, 65536 tokens, forward+backward",
        (time.time() - t) / 3 * 1000,
        "ms",
        flush=True,
    )
L = torch.rand(16 * 8 * 64, 64, 64, device="cuda") * 0.1
for name, fn in (("tri_inv", lambda: M.tri_inv(L)), ("scan", lambda: M.scan(*scan_args))):
    scan_args = [torch.randn(16, 8, 64, 64, 64, device="cuda") * 0.1 for _ in range(3)] + [
        torch.rand(16, 8, 64, device="cuda")
    ]
    fn()
    torch.cuda.synchronize()
    t = time.time()
    for _ in range(5):
        fn()
    torch.cuda.synchronize()
    print(name, (time.time() - t) / 5 * 1000, "ms", flush=True)
