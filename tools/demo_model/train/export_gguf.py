"""Write GGUF v3 files in the layout that llama.cpp's converter uses (numpy only).

As a program: export_gguf.py CHECKPOINT_DIR TOKENIZER_JSON CHAT_TEMPLATE OUT_PREFIX
writes OUT_PREFIX-f16.gguf and OUT_PREFIX-q8_0.gguf of the demo model.
"""
import glob
import json
import struct
import sys

import numpy as np

F32, F16, Q8_0 = 0, 1, 8
U32, I32, FLOAT, BOOL, STRING, ARRAY = 4, 5, 6, 7, 8, 9
ALIGN = 32


# ---------------------------------------------------------------- the container
def pack_string(s):
    b = s.encode("utf-8")
    return struct.pack("<Q", len(b)) + b


def pack_value(kind, v):
    return {
        U32: lambda: struct.pack("<I", v),
        I32: lambda: struct.pack("<i", v),
        FLOAT: lambda: struct.pack("<f", v),
        BOOL: lambda: struct.pack("<?", v),
        STRING: lambda: pack_string(v),
    }[kind]()


def pack_kv(key, kind, v):
    out = pack_string(key)
    if isinstance(kind, tuple):  # (ARRAY, element kind)
        out += struct.pack("<IIQ", ARRAY, kind[1], len(v))
        return out + b"".join(pack_value(kind[1], x) for x in v)
    return out + struct.pack("<I", kind) + pack_value(kind, v)


def quantize_q8_0(x):
    rows = x.reshape(-1, 32).astype(np.float32)
    d = np.abs(rows).max(1) / np.float32(127)
    inverse = np.divide(np.float32(1), d, out=np.zeros_like(d), where=d > 0)
    y = rows * inverse[:, None]
    q = (np.sign(y) * np.floor(np.abs(y) + np.float32(0.5))).astype(
        np.int8
    )  # half away from zero, as roundf
    out = np.empty((len(rows), 34), dtype=np.uint8)
    out[:, :2] = d.astype("<f2").view(np.uint8).reshape(-1, 2)
    out[:, 2:] = q.view(np.uint8)
    return out.tobytes()


def encode(x, kind):
    if kind == F32:
        return np.ascontiguousarray(x, dtype="<f4").tobytes()
    if kind == F16:
        return np.ascontiguousarray(x).astype("<f2").tobytes()
    return quantize_q8_0(np.ascontiguousarray(x))


def write_gguf(path, metadata, tensors):
    """metadata: [(key, kind, value)], tensors: [(name, array, kind)]; dimensions are stored innermost first."""
    head = [b"GGUF", struct.pack("<IQQ", 3, len(tensors), len(metadata))]
    head += [pack_kv(*m) for m in metadata]
    offset, blobs = 0, []
    for name, x, kind in tensors:
        blob = encode(x, kind)
        head.append(
            pack_string(name)
            + struct.pack("<I", x.ndim)
            + struct.pack(f"<{x.ndim}Q", *reversed(x.shape))
            + struct.pack("<IQ", kind, offset)
        )
        blob += b"\0" * (-len(blob) % ALIGN)
        blobs.append(blob)
        offset += len(blob)
    head = b"".join(head)
    with open(path, "wb") as f:
        f.write(head + b"\0" * (-len(head) % ALIGN))
        for b in blobs:
            f.write(b)


# ---------------------------------------------------------------- safetensors
def read_safetensors(path):
    raw = open(path, "rb").read()
    n = struct.unpack("<Q", raw[:8])[0]
    out = {}
    for name, t in json.loads(raw[8 : 8 + n]).items():
        if name == "__metadata__":
            continue
        a, b = t["data_offsets"]
        out[name] = (
            np.frombuffer(
                raw[8 + n + a : 8 + n + b], dtype={"F32": "<f4", "F16": "<f2"}[t["dtype"]]
            )
            .reshape(t["shape"])
            .astype(np.float32)
        )
    return out


# ---------------------------------------------------------------- tensors
ARCH = {
    "llama": "llama",
    "qwen2": "qwen2",
    "qwen3": "qwen3",
    "qwen3_moe": "qwen3moe",
    "qwen3_next": "qwen3next",
    "qwen3_5": "qwen35",
    "qwen3_5_moe": "qwen35moe",
}
ZERO_CENTERED = ("qwen3_next", "qwen3_5", "qwen3_5_moe")
NAMES = {
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "input_layernorm": "attn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "mlp.gate": "ffn_gate_inp",
    "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
    "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp",
    "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "linear_attn.in_proj_qkv": "attn_qkv",
    "linear_attn.in_proj_z": "attn_gate",
    "linear_attn.in_proj_b": "ssm_beta",
    "linear_attn.in_proj_a": "ssm_alpha",
    "linear_attn.in_proj_ba": "ssm_ba",
    "linear_attn.conv1d": "ssm_conv1d",
    "linear_attn.norm": "ssm_norm",
    "linear_attn.out_proj": "ssm_out",
}


def tile_v_heads(x, axis, k_heads, per_k, dim):
    """Value heads grouped by key head -> tiled: head (k, j) moves from k * per_k + j to j * k_heads + k."""
    shape = x.shape
    x = x.reshape(shape[:axis] + (k_heads, per_k, dim) + shape[axis + 1 :])
    return np.ascontiguousarray(np.swapaxes(x, axis, axis + 1)).reshape(shape)


def permute_rope(x, heads):
    """llama only: rotary halves -> interleaved pairs."""
    rest = x.shape[1:]
    return np.ascontiguousarray(
        x.reshape((heads, 2, x.shape[0] // heads // 2) + rest).swapaxes(1, 2)
    ).reshape(x.shape)


class Heads:
    """The linear-attention head counts of a hybrid, and whether its value heads are stored tiled."""

    def __init__(self, model, c):
        self.k, self.v = c["linear_num_key_heads"], c["linear_num_value_heads"]
        self.dk, self.dv = c["linear_key_head_dim"], c["linear_value_head_dim"]
        self.per_k = self.v // self.k
        self.tiled = model in ("qwen3_5", "qwen3_5_moe") and self.k != self.v

    def tile(self, x, axis, dim):
        return tile_v_heads(x, axis, self.k, self.per_k, dim) if self.tiled else x

    def tile_projection(self, stem, x):
        """Value rows, channels or columns of one linear-attention tensor -> tiled order."""
        if stem in ("linear_attn.in_proj_qkv", "linear_attn.conv1d"):
            n = 2 * self.k * self.dk
            return np.concatenate([x[:n], self.tile(x[n:], 0, self.dv)])
        if stem == "linear_attn.in_proj_z":
            return self.tile(x, 0, self.dv)
        if stem in ("linear_attn.in_proj_a", "linear_attn.in_proj_b"):
            return self.tile(x, 0, 1)
        if stem == "linear_attn.out_proj":
            return self.tile(x, 1, self.dv)
        return x


def convert_global(name, x, tied, hybrid):
    """-> [(GGUF name, array)] of a tensor outside the layers, or None."""
    if name == "model.embed_tokens.weight":
        return [("token_embd.weight", x)]
    if name == "lm_head.weight":
        return [] if tied else [("output.weight", x)]
    if name == "model.norm.weight":
        return [("output_norm.weight", x + np.float32(1) if hybrid else x)]
    return None


def convert_layer(model, c, heads, rest, x):
    """-> [(GGUF name without blk.N., array)] of one tensor of a layer."""
    hybrid = heads is not None
    if rest.endswith("norm.weight") and hybrid and rest != "linear_attn.norm.weight":
        x = x + np.float32(1)
    if rest == "post_attention_layernorm.weight":
        return [(("post_attention_norm" if hybrid else "ffn_norm") + ".weight", x)]
    if rest == "linear_attn.A_log":
        return [("ssm_a", heads.tile(-np.exp(x), 0, 1))]
    if rest == "linear_attn.dt_bias":
        return [("ssm_dt.bias", heads.tile(x, 0, 1))]
    if rest == "linear_attn.in_proj_qkvz.weight":
        # per key head [q, k, v, z] -> all q, all k, all v | all z
        cuts = [heads.dk, 2 * heads.dk, 2 * heads.dk + heads.per_k * heads.dv]
        parts = np.split(x.reshape(heads.k, -1, x.shape[1]), cuts, axis=1)
        q, k, v, z = (p.reshape(-1, x.shape[1]) for p in parts)
        return [("attn_qkv.weight", np.concatenate([q, k, v])), ("attn_gate.weight", z)]
    if rest == "mlp.experts.gate_up_proj":
        half = x.shape[1] // 2
        return [("ffn_gate_exps.weight", x[:, :half]), ("ffn_up_exps.weight", x[:, half:])]
    if rest == "mlp.experts.down_proj":
        return [("ffn_down_exps.weight", x)]
    stem, suffix = rest.rsplit(".", 1)
    if stem == "linear_attn.conv1d":
        x = x[:, 0]
    if stem == "mlp.shared_expert_gate":
        x = x[0]
    if hybrid:
        x = heads.tile_projection(stem, x)
    if model == "llama" and stem in ("self_attn.q_proj", "self_attn.k_proj"):
        of_q = stem.endswith("q_proj")
        x = permute_rope(x, c["num_attention_heads" if of_q else "num_key_value_heads"])
    return [(NAMES[stem] + "." + suffix, x)]


def convert(model, c, state):
    """transformers state -> [(GGUF name, float32 array)] in layer order."""
    heads = Heads(model, c) if model in ZERO_CENTERED else None
    out = []
    for name, x in state.items():
        tensors = convert_global(name, x, c.get("tie_word_embeddings"), heads is not None)
        if tensors is None:
            _, _, layer, rest = name.split(".", 3)
            tensors = [
                (f"blk.{layer}.{stem}", y) for stem, y in convert_layer(model, c, heads, rest, x)
            ]
        out += tensors
    return out


def keep_f32(name, x):
    return x.ndim == 1 or name.endswith(
        ("_norm.weight", "ssm_conv1d.weight", "ffn_gate_inp.weight")
    )


# ---------------------------------------------------------------- metadata
def model_metadata(model, c, name, file_type, description):
    a = ARCH[model]
    rope = c["rope_parameters"]
    head_dim = c.get("head_dim") or c["hidden_size"] // c["num_attention_heads"]
    kv = [
        ("general.architecture", STRING, a),
        ("general.type", STRING, "model"),
        ("general.name", STRING, name),
        ("general.description", STRING, description),
        ("general.file_type", U32, file_type),
        ("general.quantization_version", U32, 2),
        (f"{a}.block_count", U32, c["num_hidden_layers"]),
        (f"{a}.context_length", U32, c["max_position_embeddings"]),
        (f"{a}.embedding_length", U32, c["hidden_size"]),
        (
            f"{a}.feed_forward_length",
            U32,
            c.get("intermediate_size", c.get("moe_intermediate_size")),
        ),
        (f"{a}.attention.head_count", U32, c["num_attention_heads"]),
        (f"{a}.attention.head_count_kv", U32, c["num_key_value_heads"]),
        (f"{a}.rope.freq_base", FLOAT, rope["rope_theta"]),
        (f"{a}.attention.layer_norm_rms_epsilon", FLOAT, c["rms_norm_eps"]),
        (f"{a}.vocab_size", U32, c["vocab_size"]),
    ]
    if model != "qwen2":
        kv += [
            (f"{a}.attention.key_length", U32, head_dim),
            (f"{a}.attention.value_length", U32, head_dim),
        ]
    if model == "llama":
        kv += [(f"{a}.rope.dimension_count", U32, head_dim)]
    if "num_experts" in c:
        kv += [
            (f"{a}.expert_count", U32, c["num_experts"]),
            (f"{a}.expert_used_count", U32, c["num_experts_per_tok"]),
            (f"{a}.expert_feed_forward_length", U32, c["moe_intermediate_size"]),
        ]
    if "shared_expert_intermediate_size" in c:
        kv += [
            (f"{a}.expert_shared_feed_forward_length", U32, c["shared_expert_intermediate_size"])
        ]
    if model in ZERO_CENTERED:
        kv += [
            (f"{a}.ssm.conv_kernel", U32, c["linear_conv_kernel_dim"]),
            (f"{a}.ssm.state_size", U32, c["linear_key_head_dim"]),
            (f"{a}.ssm.group_count", U32, c["linear_num_key_heads"]),
            (f"{a}.ssm.time_step_rank", U32, c["linear_num_value_heads"]),
            (f"{a}.ssm.inner_size", U32, c["linear_value_head_dim"] * c["linear_num_value_heads"]),
            (f"{a}.full_attention_interval", U32, c.get("full_attention_interval", 4)),
            (f"{a}.rope.dimension_count", U32, int(head_dim * rope["partial_rotary_factor"])),
        ]
    if model in ("qwen3_5", "qwen3_5_moe"):
        kv += [(f"{a}.rope.dimension_sections", (ARRAY, I32), list(rope["mrope_section"]) + [0])]
    return kv


CONTROL_TOKEN, USER_TOKEN, NORMAL_TOKEN = 3, 4, 1


def tokenizer_metadata(tokens, merges, types, eos, bos, pad, template, pre):
    kv = [
        ("tokenizer.ggml.model", STRING, "gpt2"),
        ("tokenizer.ggml.pre", STRING, pre),
        ("tokenizer.ggml.tokens", (ARRAY, STRING), tokens),
        ("tokenizer.ggml.token_type", (ARRAY, I32), types),
        ("tokenizer.ggml.merges", (ARRAY, STRING), merges),
        ("tokenizer.ggml.eos_token_id", U32, eos),
        ("tokenizer.ggml.padding_token_id", U32, pad),
        ("tokenizer.ggml.bos_token_id", U32, bos),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
    ]
    if template:
        kv.append(("tokenizer.chat_template", STRING, template))
    return kv


def load_tokenizer(path):
    """tokenizer.json -> tokens, merges, types."""
    t = json.load(open(path, encoding="utf-8"))
    table = {i: s for s, i in t["model"]["vocab"].items()}
    types = {i: NORMAL_TOKEN for i in table}
    for a in t["added_tokens"]:
        table[a["id"]] = a["content"]
        types[a["id"]] = CONTROL_TOKEN if a["special"] else USER_TOKEN
    merges = [m if isinstance(m, str) else " ".join(m) for m in t["model"]["merges"]]
    n = len(table)
    assert sorted(table) == list(range(n))
    return [table[i] for i in range(n)], merges, [types[i] for i in range(n)]


def main():
    folder, tokenizer, template, prefix = sys.argv[1:5]
    c = json.load(open(f"{folder}/config.json"))
    state = {}
    for f in sorted(glob.glob(f"{folder}/weights-*.safetensors")):
        state.update(read_safetensors(f))
    tokens, merges, types = load_tokenizer(tokenizer)
    assert len(tokens) == c["vocab_size"]
    token = tokens.index
    tensors = convert("qwen3_5", c, state)
    for label, kind, file_type in (("f16", F16, 1), ("q8_0", Q8_0, 7)):
        kv = model_metadata(
            "qwen3_5",
            c,
            "Strata demo",
            file_type,
            "Small hybrid chat model trained from scratch on synthetic conversations and WordNet definitions",
        )
        kv += tokenizer_metadata(
            tokens,
            merges,
            types,
            token("<|im_end|>"),
            token("<|endoftext|>"),
            token("<|endoftext|>"),
            open(template, encoding="utf-8").read(),
            "qwen35",
        )
        path = f"{prefix}-{label}.gguf"
        write_gguf(path, kv, [(n, x, F32 if keep_f32(n, x) else kind) for n, x in tensors])
        print(path)


if __name__ == "__main__":
    main()
