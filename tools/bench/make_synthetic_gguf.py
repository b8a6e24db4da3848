#!/usr/bin/env python3
"""Writes a GGUF file with the geometry of a released model and random weights, so that any program
that reads GGUF can be timed on it. Usage: make_synthetic_gguf.py GEOMETRY FILE (numpy is needed).

Contents are random blocks of one tensor type, repeated: values stay small enough for a forward
pass to be finite, and no two neighbouring rows are equal."""
import struct
import sys

import numpy as np

# name -> (arch, layers, width, heads, kv heads, head dim, feed-forward, vocabulary, theta, tied)
DENSE = {
    "qwen3-0.6b": ("qwen3", 28, 1024, 16, 8, 128, 3072, 151936, 1e6, True),
    "qwen3-8b": ("qwen3", 36, 4096, 32, 8, 128, 12288, 151936, 1e6, False),
}
# name -> (layers, width, heads, kv heads, head dim, experts, used, expert width, vocabulary, theta)
MIXTURES = {"qwen3-30b-a3b": (48, 2048, 32, 4, 128, 128, 8, 768, 151936, 1e6)}
# Three gated delta nets, then one attention layer.
# name -> (layers, width, heads, kv heads, head dim, key heads, value heads, feed-forward, vocabulary, theta, tied)
HYBRIDS = {
    "qwen3.5-0.8b": (24, 1024, 8, 2, 256, 16, 16, 3584, 248320, 1e7, True),
    "qwen3.5-4b": (32, 2560, 16, 4, 256, 16, 32, 9216, 248320, 1e7, False),
    "qwen3.5-9b": (32, 4096, 16, 4, 256, 16, 32, 12288, 248320, 1e7, False),
}
INTERVAL, KERNEL, STATE = 4, 4, 128  # every how many layers attention, rows of the convolution, head dim of a delta net

F32, F16 = 0, 1
# type -> (id, elements of a block, bytes of a block, offsets of its f16 scales)
TYPES = {
    "f16": (F16, 1, 2, ()),
    "q8_0": (8, 32, 34, (0,)),
    "q4_k": (12, 256, 144, (0, 2)),
    "q6_k": (14, 256, 210, (208,)),
    "iq3_s": (21, 256, 110, (0,)),
    "nvfp4": (40, 64, 36, ()),
}
# f32 values of a delta net that are no gains, evenly between two.
RANGES = {"decay": (-8.0, -0.1), "dt": (-6.0, -2.0), "taps": (-0.5, 0.5)}
SCALE = 0.0004  # of a block: about 0.02 for a value, as in trained models
PATTERN_BLOCKS = 1 << 16
ALIGNMENT = 32


def pattern(kind, rng):
    """Random blocks of a type, as bytes."""
    _, elements, size, scales = TYPES[kind]
    if kind == "f16":
        values = rng.standard_normal(PATTERN_BLOCKS * 32).astype(np.float16) * np.float16(0.02)
        return values.view(np.uint8)
    blocks = rng.integers(0, 256, (PATTERN_BLOCKS, size), dtype=np.uint8)
    for at in scales:
        value = np.float16(SCALE if elements == 256 else SCALE * 2)
        blocks[:, at : at + 2] = np.frombuffer(value.tobytes(), dtype=np.uint8)
    if kind == "nvfp4":
        blocks[:, :4] = 0x10  # 2^-5
    return blocks.reshape(-1)


def text(value):
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


class Writer:
    """Metadata first, then the tensors' table, then their bytes."""

    def __init__(self):
        self.pairs = []
        self.tensors = []
        self.offset = 0

    def string(self, key, value):
        self.pairs.append(text(key) + struct.pack("<I", 8) + text(value))

    def number(self, key, value):
        if isinstance(value, float):
            self.pairs.append(text(key) + struct.pack("<If", 6, value))
        else:
            self.pairs.append(text(key) + struct.pack("<II", 4, value))

    def strings(self, key, values):
        body = b"".join(text(value) for value in values)
        self.pairs.append(text(key) + struct.pack("<IIQ", 9, 8, len(values)) + body)

    def tensor(self, name, dims, kind):
        """`kind`: one of TYPES, or "f32", or what else f32 values are for: see RANGES."""
        if kind == "f32" or kind in RANGES:
            size = int(np.prod(dims)) * 4
        else:
            _, elements, block, _ = TYPES[kind]
            size = int(np.prod(dims)) // elements * block
        self.tensors.append((name, dims, kind, self.offset, size))
        self.offset += (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT

    def header(self):
        out = b"GGUF" + struct.pack("<IQQ", 3, len(self.tensors), len(self.pairs))
        out += b"".join(self.pairs)
        for name, dims, kind, offset, _ in self.tensors:
            number = TYPES[kind][0] if kind in TYPES else F32
            out += text(name) + struct.pack("<I", len(dims))
            out += b"".join(struct.pack("<Q", dim) for dim in dims)
            out += struct.pack("<IQ", number, offset)
        return out + b"\0" * (-len(out) % ALIGNMENT)

    def write(self, path):
        rng = np.random.default_rng(1)
        patterns = {kind: pattern(kind, rng) for kind in {t[2] for t in self.tensors} & set(TYPES)}
        with open(path, "wb") as file:
            file.write(self.header())
            for _, dims, kind, _, size in self.tensors:
                if kind == "f32":
                    file.write((1 + 0.1 * rng.standard_normal(int(np.prod(dims)))).astype("<f4"))
                elif kind in RANGES:
                    file.write(rng.uniform(*RANGES[kind], int(np.prod(dims))).astype("<f4"))
                else:
                    write_pattern(file, patterns[kind], size)
                file.write(b"\0" * (-size % ALIGNMENT))


def write_pattern(file, source, size):
    while size > 0:
        part = min(size, source.size)
        file.write(source[:part])
        size -= part


def common(out, arch, name, layers, width, heads, kv, dim, vocabulary, theta):
    out.string("general.architecture", arch)
    out.string("general.name", name)
    for key, value in {
        "vocab_size": vocabulary, "context_length": 131072, "embedding_length": width,
        "block_count": layers, "attention.head_count": heads, "attention.head_count_kv": kv,
        "attention.key_length": dim, "attention.value_length": dim,
        "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": float(theta),
    }.items():
        out.number(f"{arch}.{key}", value)
    out.string("tokenizer.ggml.model", "gpt2")
    out.string("tokenizer.ggml.pre", "qwen2")
    out.strings("tokenizer.ggml.tokens", [f"t{i}" for i in range(vocabulary)])
    out.strings("tokenizer.ggml.merges", [])
    out.number("tokenizer.ggml.eos_token_id", vocabulary - 1)


def attention(out, at, width, heads, kv, dim, kind, value_kind):
    out.tensor(f"{at}.attn_norm.weight", (width,), "f32")
    out.tensor(f"{at}.attn_q.weight", (width, heads * dim), kind)
    out.tensor(f"{at}.attn_k.weight", (width, kv * dim), kind)
    out.tensor(f"{at}.attn_v.weight", (width, kv * dim), value_kind)
    out.tensor(f"{at}.attn_q_norm.weight", (dim,), "f32")
    out.tensor(f"{at}.attn_k_norm.weight", (dim,), "f32")
    out.tensor(f"{at}.attn_output.weight", (heads * dim, width), kind)
    out.tensor(f"{at}.ffn_norm.weight", (width,), "f32")


def better_kind(kind, layer, layers):
    """Q4_K_M keeps half of the value and down matrices in Q6_K."""
    first = layer < layers // 8 or layer >= 7 * layers // 8
    return "q6_k" if kind == "q4_k" and (first or (layer - layers // 8) % 3 == 2) else kind


def dense(out, name, kind):
    arch, layers, width, heads, kv, dim, ffn, vocabulary, theta, tied = DENSE[name]
    common(out, arch, f"{name} synthetic {kind}", layers, width, heads, kv, dim, vocabulary, theta)
    out.number(f"{arch}.feed_forward_length", ffn)
    out.tensor("token_embd.weight", (width, vocabulary), kind)
    for layer in range(layers):
        at = f"blk.{layer}"
        better = better_kind(kind, layer, layers)
        attention(out, at, width, heads, kv, dim, kind, better)
        out.tensor(f"{at}.ffn_gate.weight", (width, ffn), kind)
        out.tensor(f"{at}.ffn_up.weight", (width, ffn), kind)
        out.tensor(f"{at}.ffn_down.weight", (ffn, width), better)
    out.tensor("output_norm.weight", (width,), "f32")
    if not tied:
        out.tensor("output.weight", (width, vocabulary), "q6_k" if kind == "q4_k" else kind)


def mixture(out, name, kind):
    layers, width, heads, kv, dim, experts, used, hidden, vocabulary, theta = MIXTURES[name]
    arch = "qwen3moe"
    common(out, arch, f"{name} synthetic {kind}", layers, width, heads, kv, dim, vocabulary, theta)
    out.number(f"{arch}.feed_forward_length", hidden)
    out.number(f"{arch}.expert_count", experts)
    out.number(f"{arch}.expert_used_count", used)
    out.number(f"{arch}.expert_feed_forward_length", hidden)
    out.tensor("token_embd.weight", (width, vocabulary), kind)
    for layer in range(layers):
        at = f"blk.{layer}"
        better = better_kind(kind, layer, layers)
        attention(out, at, width, heads, kv, dim, kind, better)
        out.tensor(f"{at}.ffn_gate_inp.weight", (width, experts), "f32")
        out.tensor(f"{at}.ffn_gate_exps.weight", (width, hidden, experts), kind)
        out.tensor(f"{at}.ffn_up_exps.weight", (width, hidden, experts), kind)
        out.tensor(f"{at}.ffn_down_exps.weight", (hidden, width, experts), better)
    out.tensor("output_norm.weight", (width,), "f32")
    out.tensor("output.weight", (width, vocabulary), "q6_k" if kind == "q4_k" else kind)


def gated_attention(out, at, width, heads, kv, dim, kind, value_kind):
    out.tensor(f"{at}.attn_q.weight", (width, 2 * heads * dim), kind)
    out.tensor(f"{at}.attn_k.weight", (width, kv * dim), kind)
    out.tensor(f"{at}.attn_v.weight", (width, kv * dim), value_kind)
    out.tensor(f"{at}.attn_q_norm.weight", (dim,), "f32")
    out.tensor(f"{at}.attn_k_norm.weight", (dim,), "f32")
    out.tensor(f"{at}.attn_output.weight", (heads * dim, width), kind)


def delta_net(out, at, width, key_heads, value_heads, kind):
    mixed = value_heads * STATE
    channels = 2 * key_heads * STATE + mixed
    out.tensor(f"{at}.attn_qkv.weight", (width, channels), kind)
    out.tensor(f"{at}.attn_gate.weight", (width, mixed), kind)
    out.tensor(f"{at}.ssm_beta.weight", (width, value_heads), kind)
    out.tensor(f"{at}.ssm_alpha.weight", (width, value_heads), kind)
    out.tensor(f"{at}.ssm_conv1d.weight", (KERNEL, channels), "taps")
    out.tensor(f"{at}.ssm_dt.bias", (value_heads,), "dt")
    out.tensor(f"{at}.ssm_a", (value_heads,), "decay")
    out.tensor(f"{at}.ssm_norm.weight", (STATE,), "f32")
    out.tensor(f"{at}.ssm_out.weight", (mixed, width), kind)


def hybrid(out, name, kind):
    layers, width, heads, kv, dim, key_heads, value_heads, ffn, vocabulary, theta, tied = HYBRIDS[name]
    arch = "qwen35"
    common(out, arch, f"{name} synthetic {kind}", layers, width, heads, kv, dim, vocabulary, theta)
    for key, value in {
        "feed_forward_length": ffn, "rope.dimension_count": dim // 4, "full_attention_interval": INTERVAL,
        "ssm.conv_kernel": KERNEL, "ssm.state_size": STATE, "ssm.group_count": key_heads,
        "ssm.time_step_rank": value_heads, "ssm.inner_size": value_heads * STATE,
    }.items():
        out.number(f"{arch}.{key}", value)
    out.tensor("token_embd.weight", (width, vocabulary), kind)
    for layer in range(layers):
        at = f"blk.{layer}"
        better = better_kind(kind, layer, layers)
        out.tensor(f"{at}.attn_norm.weight", (width,), "f32")
        if (layer + 1) % INTERVAL:
            delta_net(out, at, width, key_heads, value_heads, kind)
        else:
            gated_attention(out, at, width, heads, kv, dim, kind, better)
        out.tensor(f"{at}.post_attention_norm.weight", (width,), "f32")
        out.tensor(f"{at}.ffn_gate.weight", (width, ffn), kind)
        out.tensor(f"{at}.ffn_up.weight", (width, ffn), kind)
        out.tensor(f"{at}.ffn_down.weight", (ffn, width), better)
    out.tensor("output_norm.weight", (width,), "f32")
    if not tied:
        out.tensor("output.weight", (width, vocabulary), "q6_k" if kind == "q4_k" else kind)


def writer_of(name):
    return dense if name in DENSE else mixture if name in MIXTURES else hybrid


def main():
    names = [f"{name}:{kind}" for name in (*DENSE, *MIXTURES, *HYBRIDS) for kind in TYPES]
    if len(sys.argv) != 3 or sys.argv[1] not in names:
        sys.exit("usage: make_synthetic_gguf.py GEOMETRY:TYPE FILE\nallowed: " + " ".join(names))
    name, kind = sys.argv[1].split(":")
    out = Writer()
    writer_of(name)(out, name, kind)
    out.write(sys.argv[2])


if __name__ == "__main__":
    main()
