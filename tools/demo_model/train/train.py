#!/usr/bin/env python3
"""Train the Strata demo model.

usage: train.py OUT_DIR [--minutes 8] [--rows 16] [--lr 0.002] [--seed 1] [--init CHECKPOINT_DIR]
"""
import argparse
import json
import math
import os
import queue
import tempfile
import threading
import time

import numpy as np

import data

ap = argparse.ArgumentParser()
ap.add_argument("out")
ap.add_argument("--minutes", type=float, default=8)
ap.add_argument("--rows", type=int, default=16)
ap.add_argument("--lr", type=float, default=2e-3)
ap.add_argument("--seed", type=int, default=1)
ap.add_argument("--workers", type=int, default=13)
ap.add_argument("--init", default="")
ap.add_argument(
    "--stop-at",
    type=float,
    default=0,
    help="seconds after the start at which training ends; overrides --minutes",
)
ap.add_argument("--warmup", type=int, default=150)
ap.add_argument("--no-compile", action="store_true")
ap.add_argument("--checks", type=int, default=700)
ap.add_argument("--profile", action="store_true")
ap.add_argument("--attention", default="flex", choices=["flex", "sdpa"])
args = ap.parse_args()
T0 = time.time()


def log(*a):
    print(f"[{time.time() - T0:6.1f}s]", *a, flush=True)


lexicon = data.load_lexicon()
if not os.path.exists("tokenizer.json"):
    data.train_tokenizer(lexicon, "tokenizer.json")
    log("tokenizer trained")
os.makedirs(args.out, exist_ok=True)
os.system(f"cp tokenizer.json {args.out}/")
stream = data.Stream(args.seed, args.workers, tempfile.mkdtemp(prefix="strata-demo-"))
encoder = data.Encoder()

import torch  # noqa: E402  (after the workers have been forked)
import model as M  # noqa: E402
import evaluate as E  # noqa: E402

torch.manual_seed(args.seed)
torch.set_float32_matmul_precision("high")
net = M.Model().cuda()
if args.init:
    E.load(net, args.init)
    log("weights loaded from", args.init)
n_params = sum(p.numel() for p in net.parameters())
log("parameters", n_params)
_l = torch.rand(16 * 8 * 64, 64, 64, device="cuda") * 0.1
for _ in range(3):
    M.tri_inv(_l)
torch.cuda.synchronize()
_t = time.time()
M.tri_inv(_l)
torch.cuda.synchronize()
log("triangular inverses of one layer: %.2f ms" % ((time.time() - _t) * 1e3))
del _l

decay = [p for n, p in net.named_parameters() if p.ndim == 2]
plain = [p for n, p in net.named_parameters() if p.ndim != 2]
opt = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
    lr=args.lr,
    betas=(0.9, 0.95),
    eps=1e-8,
    fused=True,
)
loss_fn = net.loss if args.no_compile else torch.compile(net.loss)


def batches():
    q = queue.Queue(8)

    def fill():
        r = np.random.RandomState(args.seed)
        while True:
            tokens, weights, docs = stream.next()
            order = r.permutation(len(tokens))
            for i in range(0, len(order) - args.rows + 1, args.rows):
                j = order[i : i + args.rows]
                q.put(
                    (
                        torch.from_numpy(tokens[j].astype(np.int64)).pin_memory(),
                        torch.from_numpy(
                            weights[j].astype(np.float32) / data.ASSISTANT_WEIGHT
                        ).pin_memory(),
                        torch.from_numpy(docs[j].astype(np.int32)).pin_memory(),
                    )
                )

    threading.Thread(target=fill, daemon=True).start()
    while True:
        yield tuple(x.cuda(non_blocking=True) for x in q.get())


val = data.make_shard(encoder, lexicon, "validation", rows=32)
val = [torch.from_numpy(x.astype(t)) for x, t in zip(val, (np.int64, np.float32, np.int32))]


def run_loss(ids, doc, weight):
    mask = M.document_mask(doc) if args.attention == "flex" else None
    with torch.autocast("cuda", dtype=torch.bfloat16):
        return loss_fn(ids, doc, weight, mask)


def validation():
    out = []
    for i in range(0, 32, args.rows):
        ids, w, doc = (x[i : i + args.rows].cuda() for x in val)
        out.append(run_loss(ids, doc, (w == data.ASSISTANT_WEIGHT).float()).item())
    return sum(out) / len(out)


feed = batches()
budget = args.minutes * 60
start = None
step, seen, last = 0, 0, time.time()
history = []
while True:
    ids, weight, doc = next(feed)
    progress = 0.0 if start is None else (time.time() - start) / budget
    if progress >= 1.0:
        break
    warm = min(1.0, (step + 1) / args.warmup)
    lr = args.lr * warm * (0.5 * (1 + math.cos(math.pi * progress)) * 0.98 + 0.02)
    for group in opt.param_groups:
        group["lr"] = lr
    loss = run_loss(ids, doc, weight)
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    opt.step()
    opt.zero_grad(set_to_none=True)
    step += 1
    seen += ids.numel()
    if step == 3:  # compiled: the clock starts
        torch.cuda.synchronize()
        start = time.time()
        if args.stop_at:
            budget = T0 + args.stop_at - start
        log(f"compiled; training for {budget:.0f}s")
    if args.profile and step == 40:
        from torch.profiler import ProfilerActivity, profile

        with profile(activities=[ProfilerActivity.CUDA]) as prof:
            for _ in range(2):
                run_loss(ids, doc, weight).backward()
            torch.cuda.synchronize()
        opt.zero_grad(set_to_none=True)
        print(
            prof.key_averages().table(
                sort_by="cuda_time_total", row_limit=25, max_name_column_width=70
            ),
            flush=True,
        )
    if step % 50 == 0 or step in (1, 10, 20):
        value = loss.item()
        now = time.time()
        history.append([step, seen, round(value, 4)])
        if step % 100 == 0 or step < 100:
            log(
                f"step {step} tokens {seen / 1e6:.1f}M loss {value:.4f} norm {norm.item():.2f} lr {lr:.2e} shard {stream.k} progress {progress:.3f}"
            )
    if step % 500 == 0:
        log("validation (assistant tokens)", round(validation(), 4))
torch.cuda.synchronize()
train_seconds = time.time() - start
E.round_to_f16(net)
E.save(net, args.out)
final = validation()
log(
    f"done: {step} steps, {seen / 1e6:.1f}M tokens in {train_seconds:.0f}s ({seen / train_seconds / 1e3:.0f}K tokens/s), peak memory {torch.cuda.max_memory_allocated() / 2**30:.1f} GiB"
)
log("final validation loss (assistant tokens)", round(final, 4))
stream.close()
report = {
    "parameters": n_params,
    "steps": step,
    "tokens": seen,
    "seconds": round(train_seconds),
    "lr": args.lr,
    "rows": args.rows,
    "loss": history,
    "validation": round(final, 4),
}
json.dump(report, open(f"{args.out}/report.json", "w"))
if args.checks:
    report["checks"] = E.checks(net, encoder, lexicon, log, args.checks)
    json.dump(report, open(f"{args.out}/report.json", "w"))
    E.samples(net, encoder, log)
E.reference(net, encoder, f"{args.out}/reference.json", log)
log("finished")
os._exit(0)
