"""Saving, scoring and reference outputs of the trained demo model."""
import json
import random
from collections import defaultdict

import numpy as np
import torch
from safetensors.torch import load_file, save_file

import gen
import model as M
from chat_format import render
from tool_turns import CALC_TOOL, WEATHER_TOOL

PIECE = 15 << 20


def round_to_f16(net):
    """Matrices become float16 values, so that an F16 GGUF holds exactly the reference weights."""
    with torch.no_grad():
        for p in net.parameters():
            if p.ndim == 2:
                p.copy_(p.half().float())


def save(net, folder):
    state, piece, size, n = {k: v for k, v in net.state_dict().items()}, {}, 0, 0
    for name, t in state.items():
        t = (t.half() if t.ndim == 2 else t.float()).contiguous().cpu()
        if size + t.numel() * t.element_size() > PIECE:
            save_file(piece, f"{folder}/weights-{n}.safetensors")
            piece, size, n = {}, 0, n + 1
        piece[name] = t
        size += t.numel() * t.element_size()
    save_file(piece, f"{folder}/weights-{n}.safetensors")
    c = dict(M.CONFIG)
    c["rope_parameters"] = dict(
        rope_type="default",
        mrope_interleaved=True,
        **{k: c.pop(k) for k in ("rope_theta", "partial_rotary_factor", "mrope_section")},
    )
    json.dump(c, open(f"{folder}/config.json", "w"), indent=1)


def load(net, folder):
    import glob

    state = {}
    for f in sorted(glob.glob(f"{folder}/weights-*.safetensors")):
        state.update(load_file(f))
    net.load_state_dict({k: v.float() for k, v in state.items()})


@torch.no_grad()
def logits(net, ids, precise=False):
    """ids: list -> (T, vocab) float32."""
    n = len(ids)
    pad = -n % M.CHUNK
    x = torch.tensor([list(ids) + [0] * pad], device="cuda")
    doc = torch.zeros_like(x, dtype=torch.int32)
    with torch.autocast("cuda", dtype=torch.bfloat16, enabled=not precise):
        h = net.hidden(x, doc)[0, :n]
        return torch.nn.functional.linear(h, net.model.embed_tokens.weight.to(h.dtype)).float()


def checks(net, encoder, lexicon, log, conversations=700):
    """Exact match of whole answers under greedy decoding (teacher forced), by kind of question."""
    r = random.Random("checks")
    hit, total = defaultdict(int), defaultdict(int)
    misses = defaultdict(list)
    done = 0
    while done < conversations:
        messages, options, marks = gen.conversation(r, lexicon)
        if options.get("enable_thinking"):
            continue
        ids, _ = encoder.encode(render(messages, **options))
        if len(ids) > 4096:
            continue
        done += 1
        spans = encoder.answers(ids)
        which = {
            i: k
            for k, i in enumerate(i for i, m in enumerate(messages) if m["role"] == "assistant")
        }
        best = logits(net, ids.tolist()).argmax(-1).cpu().numpy()
        marks = dict((i, kind) for kind, i in marks)
        for i, m in enumerate(messages):
            if m["role"] != "assistant":
                continue
            a, b = spans[which[i]]
            ends = np.flatnonzero(ids[a:b] == encoder.think_end)
            if len(ends):
                a += int(ends[-1]) + 2
            ok = bool((best[a - 1 : b - 1] == ids[a:b]).all())
            kind = marks.get(i, "other")
            kinds = [kind] + (
                [kind + " (after 2000 tokens)"]
                if a > 2000 and kind in ("recall", "rule", "recall_other")
                else []
            )
            q = messages[i - 1]["content"]
            if kind == "other":
                if any(w in q for w in (" plus ", " minus ", " times ", "+", "Calculate", "*")):
                    kinds = ["arithmetic"]
                elif q.lower().startswith(
                    (
                        "what is a",
                        "what does",
                        "define",
                        "what is the meaning",
                        "explain the word",
                        "what's a",
                    )
                ):
                    kinds = ["definition"]
            for kind in kinds:
                hit[kind] += ok
                total[kind] += 1
                if not ok and len(misses[kind]) < 3 and kind != "other":
                    misses[kind].append(
                        (
                            q[:90],
                            m["content"][:120],
                            encoder.tok.decode(best[a - 1 : b - 1].tolist())[:120],
                        )
                    )
    out = {k: [hit[k], total[k], round(hit[k] / total[k], 4)] for k in sorted(total)}
    for k, v in out.items():
        log("check", k, v)
    for k in misses:
        for x in misses[k][:2]:
            log("miss", k, x)
    return out


@torch.no_grad()
def generate(net, encoder, text, limit=160):
    ids = encoder.tok.encode(text, add_special_tokens=False).ids
    out = []
    while len(out) < limit:
        t = int(logits(net, ids + out)[-1].argmax())
        out.append(t)
        if t in (encoder.im_end, encoder.eot):
            break
    return encoder.tok.decode(out, skip_special_tokens=False)


SAMPLE_TURNS = [
    "Hi! My codename is Silver Lynx and I live in Bergen.",
    "What is an otter?",
    "What is 47 + 38?",
    "My dog is called Biscuit and my locker code is 7304.",
    "Tell me a short story about a fox called Mira.",
    "Summarize the story.",
    "What is my codename?",
    "What is my locker code?",
    "Where do I live?",
    "What is my dog's name?",
    "What is my favourite food?",
    "What do you know about me?",
    "Spell planet.",
    "What is the chemical symbol of iron?",
    "What is the capital of Norway?",
    "Who are you?",
]
# facts whose values or attributes are outside the training lists
UNSEEN_FACTS = [
    ("My codename is Quiet Harbour Seven.", "What is my codename?"),
    ("Please remember my codename: Obsidian Lynx.", "Which codename did I give you?"),
    ("I have a dog called Snickers.", "What is my dog's name?"),
    ("My name is Thaddeus and I live in Ulverston.", "Where do I live?"),
    ("The password is horse-battery-staple-42.", "What is the password?"),
    ("My locker code is 90417.", "What is my locker code and what is 5 plus 6?"),
    ("My favourite painter is Vermeer.", "Who is my favourite painter?"),
    ("My favorite film is Casablanca.", "What is my favorite film?"),
    ("My rocket is called Stargazer XIV.", "What is my rocket called?"),
    ("My appointment with Dr. Kowalczyk is on Tuesday at 14:30.", "When is my appointment?"),
]


def samples(net, encoder, log):
    talk = []
    for t in SAMPLE_TURNS:
        talk.append({"role": "user", "content": t})
        a = generate(net, encoder, render(talk, add_generation_prompt=True)).replace(
            "<|im_end|>", ""
        )
        talk.append({"role": "assistant", "content": a})
        log("USER:", t)
        log("   ->", a)
    for said, asked in UNSEEN_FACTS:
        talk = [{"role": "user", "content": said}]
        for q in ("What is a violin?", "What is 17 plus 26?", asked):
            talk.append(
                {
                    "role": "assistant",
                    "content": generate(
                        net, encoder, render(talk, add_generation_prompt=True), 60
                    ).replace("<|im_end|>", ""),
                }
            )
            talk.append({"role": "user", "content": q})
        log(
            "UNSEEN",
            said,
            "|",
            talk[1]["content"],
            "|",
            asked,
            "->",
            generate(net, encoder, render(talk, add_generation_prompt=True), 40),
        )
    for effort in ("low", "medium", "high"):
        for q in ("What is 23 times 4?", "My cat is called Pixel. What is my cat called?"):
            text = render(
                [{"role": "user", "content": q}],
                enable_thinking=True,
                reasoning_effort=effort,
                add_generation_prompt=True,
            )
            log("THINK", effort, q, "->", repr(generate(net, encoder, text)))
    tools = [
        {"type": "function", "function": WEATHER_TOOL},
        {"type": "function", "function": CALC_TOOL},
    ]
    talk = [{"role": "user", "content": "What is the weather in Oslo?"}]
    log("TOOL ->", generate(net, encoder, render(talk, tools=tools, add_generation_prompt=True)))
    talk += [
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"function": {"name": "get_weather", "arguments": {"city": "Oslo"}}}],
        },
        {"role": "tool", "content": '{"city": "Oslo", "temperature_c": -3, "condition": "snow"}'},
    ]
    log(
        "TOOL RESULT ->",
        generate(net, encoder, render(talk, tools=tools, add_generation_prompt=True)),
    )


def hf_config():
    from transformers import Qwen3_5TextConfig

    c = dict(M.CONFIG)
    rope = {
        "rope_type": "default",
        "rope_theta": c.pop("rope_theta"),
        "partial_rotary_factor": c.pop("partial_rotary_factor"),
        "mrope_section": c.pop("mrope_section"),
        "mrope_interleaved": True,
    }
    return Qwen3_5TextConfig(rope_parameters=rope, **c)


def reference_prompts(encoder):
    """-> [(name, text)]: short turns, thinking, and two long conversations that end in a recall."""
    lexicon = json.load(open("lexicon.json", encoding="utf-8"))
    prompts = []
    u = lambda *t: [
        {"role": "user" if i % 2 == 0 else "assistant", "content": x} for i, x in enumerate(t)
    ]  # noqa: E731
    prompts.append(("greeting", render(u("Hello!"), add_generation_prompt=True)))
    prompts.append(("definition", render(u("What is an otter?"), add_generation_prompt=True)))
    prompts.append(
        (
            "recall",
            render(
                u(
                    "My codename is Silver Lynx and I live in Bergen.",
                    "Noted.",
                    "What is 12 plus 30?",
                    "12 plus 30 is 42.",
                    "What is my codename?",
                ),
                add_generation_prompt=True,
            ),
        )
    )
    prompts.append(
        (
            "thinking",
            render(
                u("What is 23 times 4?"),
                enable_thinking=True,
                reasoning_effort="medium",
                add_generation_prompt=True,
            ),
        )
    )
    r = random.Random("reference")
    for name, lo, hi in (("conversation-1000", 900, 1100), ("conversation-3000", 2800, 3100)):
        while True:
            messages, options, marks = gen.conversation(r, lexicon)
            marks = [i for kind, i in marks if kind == "recall"]
            if options.get("enable_thinking") or "tools" in options or not marks:
                continue
            text = render(messages[: marks[-1]], add_generation_prompt=True)
            if lo <= len(encoder.tok.encode(text).ids) <= hi:
                prompts.append((name, text))
                break
    return prompts


@torch.no_grad()
def greedy(hf, res, first, end_id, new_tokens):
    """-> (ids, best minus second logit of each step), continuing from the prompt's result."""
    past, cur, gen_ids = res.past_key_values, first, []
    margin = []
    for _ in range(new_tokens):
        top2 = cur.topk(2).values
        margin.append(round((top2[0] - top2[1]).item(), 4))
        t = int(cur.argmax())
        gen_ids.append(t)
        if t == end_id:
            break
        res = hf(input_ids=torch.tensor([[t]], device="cuda"), past_key_values=past, use_cache=True)
        past, cur = res.past_key_values, res.logits[0, -1].float()
    return gen_ids, margin


@torch.no_grad()
def reference(net, encoder, path, log, new_tokens=48):
    """Greedy continuations and first-token top-10 logits from transformers in float32."""
    from transformers import Qwen3_5ForCausalLM

    torch.backends.cuda.matmul.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    hf = (
        Qwen3_5ForCausalLM._from_config(hf_config(), attn_implementation="eager")
        .cuda()
        .float()
        .eval()
    )
    state = {k: v for k, v in net.state_dict().items()}
    state["lm_head.weight"] = state["model.embed_tokens.weight"]
    log("load into transformers:", hf.load_state_dict(state, strict=False))
    out = []
    for name, text in reference_prompts(encoder):
        ids = encoder.tok.encode(text, add_special_tokens=False).ids
        x = torch.tensor([ids], device="cuda")
        res = hf(input_ids=x, use_cache=True)
        first = res.logits[0, -1].float()
        own = logits(net, ids, precise=True)[-1]
        bf = logits(net, ids)[-1]
        gen_ids, margin = greedy(hf, res, first, encoder.im_end, new_tokens)
        top = first.topk(10)
        log(
            "reference",
            name,
            len(ids),
            "tokens; own fp32 vs transformers max diff",
            (own - first).abs().max().item(),
            "bf16 diff",
            (bf - first).abs().max().item(),
            repr(encoder.tok.decode(gen_ids, skip_special_tokens=False)),
        )
        out.append(
            {
                "name": name,
                "text": text,
                "prompt_ids": ids,
                "greedy_ids": gen_ids,
                "greedy_text": encoder.tok.decode(gen_ids, skip_special_tokens=False),
                "greedy_margins": margin,
                "first_top10_ids": top.indices.tolist(),
                "first_top10_logits": [round(v, 5) for v in top.values.tolist()],
            }
        )
    json.dump(
        {
            "model": "strata-demo",
            "computed_with": "transformers Qwen3_5ForCausalLM, float32, weights as in strata-demo-f16.gguf",
            "prompts": out,
        },
        open(path, "w"),
        ensure_ascii=False,
    )
