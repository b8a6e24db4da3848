#!/usr/bin/env python3
"""Writes tests/fuzz/corpus/<fuzzer>/: small inputs that reach the parsers' different rooms, to start a
fuzzer from and to be run once by every test run. Nothing is random: the same files every time.

    python3 tests/fuzz/make_corpus.py
"""

import pathlib
import struct

ROOT = pathlib.Path(__file__).resolve().parent / "corpus"

COMMANDS = {
    "by_hand": "GEN 4 1,2,3\nSTOP\nQUIT\n",
    "every_name": "GEN 64 id=7 temperature=0.7 top_p=0.9 top_k=40 min_p=0.05 repeat_penalty=1.1 frequency_penalty=0.2"
                  " presence_penalty=-0.3 penalty_last_n=128 seed=18446744073709551615 stop=5,6 ignore_eos=1 root=2 steer=off"
                  " think=high ckpt=0 pin=2 label=a_chat logprobs=5 grammar=g1 hash=1 ids=10,11,12\n",
    "conversation": "CACHE list\nCACHE drop entry=3\nCACHE pin entry=4\nCACHE unpin entry=4\nCACHE clear\nTRIM\n",
    "signs": "PING 0\r\nPING 18446744073709551615\n\n   \nSTOP id=9\n",
    "sessions": "SAVE path=/tmp/a b.bin\nRESTORE path=/tmp/a b.bin\n",
    "unknown_names": "GEN 1 id=3 later=1 also=x ids=1\nPING 4 extra fields here\n",
    "twice": "GEN 1 seed=1 seed=2 ids=1\nGEN 1 id=1 id=1 ids=1\n",
    "out_of_range": "GEN 1 id=2 top_p=0 ids=1\nGEN 1 temperature=-1 ids=1\nGEN 1 temperature=nan ids=1\nGEN -1 ids=1\n",
    "bad_integers": "GEN 1 id=2 ids=1,,2\nGEN 1 ids=99999999999\nPING -1\nPING 1x\nSTOP id=18446744073709551616\n",
    "bad_bytes": "GEN 1 id=4 ids=1\0\nPING \x01\nHELLO\n=\nGEN\nGEN 1\n",
    "too_long": "GEN 1 id=5 ids=" + "1," * 300 + "1\nPING 2\n",
    "no_line_end": "PING 3",
}

EVENTS = {
    "start": "LOAD 0 100\nLOAD 100 100\nINFO protocol=1 context=4096 vocab=6144 kv=f16 page_tokens=256 spec=off batch=1"
             " device=cpu weights_mib=24 arch=qwen35 quant=Q8_0 steer=0 prompt_cache=6 conversation_cache_mib=0"
             " kv_bytes_per_token=2048 state_bytes=65536 model_id=00ff engine=0.1.0\nREADY 4096 stop id cache ping batch=1\n",
    "request": "RESUME 12 id=7 source=turn\nPP 64 100 12.5 5120.0 id=7\nT 17 id=7 lp=-0.25 top=17:-0.25,3:-1.5\n",
    "done_14": "DONE 4 3 1.9 5.2 length 0 0 0 0 0 0 0 0 3\n",
    "done_19": "DONE 128 32109 412.0 1490.7 stop 0 0 32063 0 0 0 0 0 46 1 1 3 3612344320 2 id=17 conv=4 source=parked miss=none"
               " park_ms=41.2 restore_ms=23.9 queue_ms=0.1 parked_now=0 park_skip=budget common=32063 stop_id=2 label=x\n",
    "done_more": "DONE 1 2 0.0 0.0 cancel 0 0 0 0 0 0 0 0 1 0 0 0 0 0 77 88 id=1 later=1 miss=tomorrow\n",
    "done_hashes": "DONE 1 2 0.0 0.0 stop 0 0 0 0 0 0 0 0 2 1 0 0 0 0 id=1 logits_sha256=" + "0f" * 32 +
                   " state_sha256=" + "a0" * 32 + "\n",
    "errors": "ERR bad_field id=3 text=top_p is 0, allowed: above 0, at most 1\nERR internal id=0 fatal=1 text=gone\nERR\n",
    "cache": "CACHE entry=1 conv=2 tokens=300 bytes=4096 unique_bytes=1024 checkpoints=2 last_used=5 hits=1 pinned=0 steer=off"
             " where=ram label=a\nCACHE end\nCONV park entry=1 conv=2 tokens=300 bytes=4096 ms=1.5 id=9 reason=idle label=a\n",
    "pressure": "PRESSURE available_before_mib=9761 available_after_mib=11901 floor_mib=10240 target_mib=11264"
                " released_dialogs=2 released_mib=2180 retained_mib=0 lane_checkpoints_mib=0 ms=131 parked=1 where=idle"
                " exhausted=0\n",
    "sessions": "SAVED 10 4096 1.5\nRESTORED 10 4096 1.5\nSERR busy text=a request is running\nPONG 18446744073709551615\n",
    "bad": "T\nT x id=1\nPP 1\nDONE 1\nREADY\nINFO context=-1\nT 1 id=1 lp=nan top=1:x\nFOO 1\n\0\n",
    "too_long": "ERR internal id=1 text=" + "x" * 600 + "\nPONG 1\n",
}

TEMPLATES = {
    "chatml": "{%- for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content|default('', true) + '<|im_end|>\\n' }}"
              "{%- endfor %}{%- if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{%- endif %}",
    "tools": "{% if tools %}# Tools{% for t in tools %}\n{{ t | tojson }}{% endfor %}{% endif %}{% for m in messages %}"
             "{% if m.tool_calls %}{% for c in m.tool_calls %}{{ c.function.name }}({{ c.function.arguments|tojson(indent=2) }})"
             "{% endfor %}{% endif %}{% endfor %}",
    "namespace": "{% set ns = namespace(last=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.last = loop.index0 %}"
                 "{% endif %}{% endfor %}{{ ns.last }}",
    "macro": "{% macro say(who, what='') -%}{{ who }}: {{ what | trim }}{%- endmacro %}{{ say('a', s) }}{{ say(what=l[2], who='b') }}",
    "slices": "{{ l[::-1] }}{{ l[1:] }}{{ s[:2] }}{{ d.items() | list }}{{ messages[-1]['role'] }}{{ l[99] is defined }}",
    "filters": "{{ s|upper|lower|title|replace(' ', '_')|length }}{{ l|join(', ')|first }}{{ [3, 1, 2]|sort|last }}{{ 7 // 2 ** 2 % 3 }}",
    "tests": "{{ x is odd and not x is none or s in d }}{{ 'a' ~ x if x > 4 else -x }}{{ undefined_name is undefined }}",
    "raise": "{{ raise_exception('no ' + s) }}",
    "time": "{{ strftime_now('%d %B %Y') }}",
    "endless": "{% for i in range(1000000000) %}{% for j in range(1000) %}x{% endfor %}{% endfor %}",
    "deep": "{{ " + "(" * 60 + "x" + ")" * 60 + " }}",
    "unfinished": "{% for m in messages %}{{ m.role }",
    "comment": "{#- nothing -#}{% raw %}{{ as it is }}{% endraw %}{% generation %}x{% endgeneration %}",
}

# Byte 0xF5 ends a piece; template pieces and message pieces take turns (tokenizer_fuzz.cpp).
TEXTS = {
    "words": b"Hello world, it's 2024.\xf5 a aa aaaa abab\n\n  tabs\there \xf5</a>",
    "special_in_message": b"<a>\xf5<a><ab></a>a<\xf5</a>",
    "special_cut": b"<\xf5a>\xf5<a\xf5b>",
    "thinking": b"<a>aa thought</a>answer b\nmore",
    "stops": b"x a aab\n ab",
    "scripts": "Straße naïve — 日本語 한국어 עברית हिन्दी 👩‍👩‍👧 \u00a0\u200b".encode(),
    "bad_utf8": b"\xc3\x28 \xe2\x82 \xf0\x9f\x91 \xed\xa0\x80 \xff\xfe",
    "spaces": b"   \n\n \r\n\t  x   \n",
    "digits": "1234567 ١٢٣ ½ 3.14e-10".encode(),
    "contractions": "I'm we'LL 'S don\u2019t 'x".encode(),
}


def gguf_string(text):
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def value(kind, content):
    """One metadata value with its type id: u32 4, i32 5, f32 6, bool 7, string 8, u64 10, list 9."""
    if kind == "list":
        inner = [value(*each) for each in content]
        ids = {each[:4] for each in inner} or {struct.pack("<I", 4)}
        return struct.pack("<I", 9) + ids.pop() + struct.pack("<Q", len(inner)) + b"".join(each[4:] for each in inner)
    if kind == "text":
        return struct.pack("<I", 8) + gguf_string(content)
    code, form = {"u32": (4, "<I"), "i32": (5, "<i"), "f32": (6, "<f"), "bool": (7, "<?"), "u64": (10, "<Q")}[kind]
    return struct.pack("<I", code) + struct.pack(form, content)


def gguf(keys, tensors, version=3, counts=None, alignment=32):
    """keys: [(name, kind, content)]; tensors: [(name, dims, ggml type, bytes)]."""
    n_tensors, n_keys = counts or (len(tensors), len(keys))
    out = b"GGUF" + struct.pack("<IQQ", version, n_tensors, n_keys)
    for name, kind, content in keys:
        out += gguf_string(name) + value(kind, content)
    blobs = b""
    for name, dims, kind, raw in tensors:
        blobs += b"\0" * (-len(blobs) % alignment)
        out += gguf_string(name) + struct.pack("<I", len(dims)) + b"".join(struct.pack("<Q", d) for d in dims)
        out += struct.pack("<IQ", kind, len(blobs))
        blobs += raw
    return out + b"\0" * (-len(out) % alignment) + blobs


def model_keys(architecture, more=()):
    numbers = {"block_count": 1, "context_length": 64, "embedding_length": 32, "feed_forward_length": 40,
               "attention.head_count": 2, "attention.head_count_kv": 1, "attention.key_length": 16,
               "attention.value_length": 16}
    keys = [("general.architecture", "text", architecture)]
    keys += [(f"{architecture}.{name}", "u32", n) for name, n in numbers.items()]
    keys += [(f"{architecture}.attention.layer_norm_rms_epsilon", "f32", 1e-5)]
    keys += [(f"{architecture}.{name}", kind, content) for name, kind, content in more]
    keys += [("tokenizer.ggml.tokens", "list", [("text", t) for t in ("a", "b", "<|im_start|>", "system")]),
             ("tokenizer.ggml.token_type", "list", [("i32", n) for n in (1, 1, 3, 1)]),
             ("tokenizer.ggml.eos_token_id", "u32", 1)]
    return keys


def gguf_files():
    plain = [("token_embd.weight", (4, 2), 0, bytes(32)), ("output_norm.weight", (4,), 0, bytes(16))]
    whole = gguf(model_keys("llama"), plain)
    delta = [("ssm.conv_kernel", "u32", 4), ("ssm.state_size", "u32", 8), ("ssm.group_count", "u32", 1),
             ("ssm.time_step_rank", "u32", 2), ("ssm.inner_size", "u32", 16), ("full_attention_interval", "u32", 2),
             ("rope.dimension_count", "u32", 8)]
    experts = [("expert_count", "u32", 3), ("expert_used_count", "u32", 2), ("expert_feed_forward_length", "u32", 8)]
    yarn = [("rope.scaling.type", "text", "yarn"), ("rope.scaling.factor", "f32", 4.0),
            ("rope.scaling.original_context_length", "u32", 16), ("rope.freq_base", "f32", 1e6)]
    return {
        "llama": whole,
        "qwen2_yarn": gguf(model_keys("qwen2", yarn), plain),
        "qwen3moe": gguf(model_keys("qwen3moe", experts), plain),
        "qwen35": gguf(model_keys("qwen35", delta), plain),
        "qwen35moe": gguf(model_keys("qwen35moe", delta + experts), plain),
        "version_2": gguf(model_keys("llama"), plain, version=2),
        "version_1": gguf([], [], version=1),
        "split": gguf([*model_keys("llama"), ("split.count", "u32", 2), ("split.no", "u32", 0)], plain),
        "types": gguf([], [(f"t{kind}", (256, 1), kind, bytes(1024)) for kind in (1, 2, 8, 12, 13, 14, 20, 21, 30, 39, 40)]),
        "alignment": gguf([("general.alignment", "u32", 64), *model_keys("llama")], plain, alignment=64),
        "alignment_zero": gguf([("general.alignment", "u32", 0)], plain),
        "kinds": gguf([("b", "bool", True), ("n", "u64", 2**64 - 1), ("i", "i32", -1), ("l", "list", []),
                       ("ll", "list", [("list", [("u32", 1)]), ("list", [("u32", 2), ("u32", 3)])])], []),
        "key_twice": gguf([("a", "u32", 1), ("a", "u32", 2)], []),
        "tensor_twice": gguf([], [plain[1], plain[1]]),
        "no_tensor_bytes": whole[:-16],
        "header_only": whole[:24],
        "cut_in_a_string": whole[:40],
        "huge_counts": gguf([], [], counts=(2**63, 2**63)),
        "huge_dims": gguf([], [("t", (2**32, 2**32, 2**32), 0, bytes(4))]),
        "huge_string": b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**62) + b"name",
        "not_one": b"{\"this\": \"is JSON\"}",
    }


def write(fuzzer, files):
    folder = ROOT / fuzzer
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)


if __name__ == "__main__":
    # The first byte says where the stream is cut between two reads.
    write("protocol_command_fuzz", {n: bytes([i * 21 % 256]) + t.encode() for i, (n, t) in enumerate(COMMANDS.items())})
    write("protocol_event_fuzz", {n: bytes([i * 21 % 256]) + t.encode() for i, (n, t) in enumerate(EVENTS.items())})
    write("template_fuzz", {n: t.encode() for n, t in TEMPLATES.items()})
    write("tokenizer_fuzz", TEXTS)
    write("gguf_fuzz", gguf_files())
