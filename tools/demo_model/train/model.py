"""The Strata demo model for training: parameter names equal transformers' Qwen3_5ForCausalLM.

Documents are packed into rows; `doc` numbers them, and neither attention, convolution nor the
recurrent state crosses a document boundary.
"""
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
import triton
import triton.language as tl
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

CHUNK = 64
RESET = -40.0  # log decay at the start of a document: forgets the state

CONFIG = dict(
    vocab_size=6144,
    hidden_size=512,
    intermediate_size=1024,
    num_hidden_layers=8,
    num_attention_heads=8,
    num_key_value_heads=2,
    head_dim=64,
    rms_norm_eps=1e-6,
    linear_num_key_heads=4,
    linear_num_value_heads=8,
    linear_key_head_dim=64,
    linear_value_head_dim=64,
    linear_conv_kernel_dim=4,
    full_attention_interval=4,
    rope_theta=1000000.0,
    partial_rotary_factor=0.25,
    mrope_section=[3, 3, 2],
    max_position_embeddings=32768,
    tie_word_embeddings=True,
)


# ---------------------------------------------------------------- (I + L)^-1 of unit lower triangular blocks
@triton.autotune(configs=[triton.Config({}, num_warps=w) for w in (1, 2, 4)], key=[])
@triton.jit
def _tri_inv_kernel(l_ptr, x_ptr, C: tl.constexpr):
    pid = tl.program_id(0).to(tl.int64)
    rows = tl.arange(0, C)
    cols = tl.arange(0, C)
    x = tl.where(rows[:, None] == cols[None, :], 1.0, 0.0)
    for i in range(1, C):
        l = tl.load(l_ptr + pid * C * C + i * C + rows)
        l = tl.where(rows < i, l, 0.0)
        r = tl.sum(l[:, None] * x, axis=0)
        x = tl.where(rows[:, None] == i, x - r[None, :], x)
    tl.store(x_ptr + pid * C * C + rows[:, None] * C + cols[None, :], x)


@torch.library.custom_op("strata_demo::tri_inv", mutates_args=())
def tri_inv(lower: torch.Tensor) -> torch.Tensor:
    lower = lower.contiguous()
    x = torch.empty_like(lower)
    _tri_inv_kernel[(lower.numel() // (CHUNK * CHUNK),)](lower, x, C=CHUNK)
    return x


@tri_inv.register_fake
def _(lower):
    return torch.empty_like(lower, memory_format=torch.contiguous_format)


def _tri_inv_setup(ctx, inputs, output):
    ctx.save_for_backward(output)


def _tri_inv_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    xt = x.transpose(-1, -2)
    return -(xt @ grad @ xt).tril(-1)


tri_inv.register_autograd(_tri_inv_backward, setup_context=_tri_inv_setup)


# ---------------------------------------------------------------- the scan over chunks
@triton.jit
def _scan_fwd_kernel(
    u_ptr,
    w_ptr,
    k_ptr,
    d_ptr,
    v_ptr,
    s_ptr,
    N,
    C: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BV: tl.constexpr,
):
    bh = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, C)
    k = tl.arange(0, K)
    v = tl.program_id(1) * BV + tl.arange(0, BV)
    s = tl.zeros((K, BV), dtype=tl.float32)
    for i in range(N):
        n = bh * N + i
        tl.store(s_ptr + n * K * V + k[:, None] * V + v[None, :], s)
        w = tl.load(w_ptr + n * C * K + c[:, None] * K + k[None, :])
        u = tl.load(u_ptr + n * C * V + c[:, None] * V + v[None, :])
        new = u - tl.dot(w, s, input_precision="tf32")
        tl.store(v_ptr + n * C * V + c[:, None] * V + v[None, :], new)
        kt = tl.load(k_ptr + n * C * K + c[None, :] * K + k[:, None])
        s = s * tl.load(d_ptr + n) + tl.dot(kt, new, input_precision="tf32")


@triton.jit
def _scan_bwd_kernel(
    dv_ptr,
    ds_ptr,
    w_ptr,
    k_ptr,
    d_ptr,
    du_ptr,
    g_ptr,
    N,
    C: tl.constexpr,
    K: tl.constexpr,
    V: tl.constexpr,
    BV: tl.constexpr,
):
    bh = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, C)
    k = tl.arange(0, K)
    v = tl.program_id(1) * BV + tl.arange(0, BV)
    g = tl.zeros((K, BV), dtype=tl.float32)
    for j in range(N):
        n = bh * N + (N - 1 - j)
        tl.store(g_ptr + n * K * V + k[:, None] * V + v[None, :], g)
        kk = tl.load(k_ptr + n * C * K + c[:, None] * K + k[None, :])
        dv = tl.load(dv_ptr + n * C * V + c[:, None] * V + v[None, :]) + tl.dot(
            kk, g, input_precision="tf32"
        )
        tl.store(du_ptr + n * C * V + c[:, None] * V + v[None, :], dv)
        wt = tl.load(w_ptr + n * C * K + c[None, :] * K + k[:, None])
        g = (
            g * tl.load(d_ptr + n)
            + tl.load(ds_ptr + n * K * V + k[:, None] * V + v[None, :])
            - tl.dot(wt, dv, input_precision="tf32")
        )


BLOCK_V = 32


@torch.library.custom_op("strata_demo::scan", mutates_args=())
def scan(
    u: torch.Tensor, w: torch.Tensor, k: torch.Tensor, d: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """u, w, k: (B, H, N, C, D), d: (B, H, N) -> new values (B, H, N, C, V), state before each chunk (B, H, N, K, V)."""
    u, w, k, d = u.contiguous(), w.contiguous(), k.contiguous(), d.contiguous()
    B, H, N, C, V = u.shape
    K = k.shape[-1]
    new = torch.empty_like(u)
    s = torch.empty(B, H, N, K, V, device=u.device, dtype=u.dtype)
    _scan_fwd_kernel[(B * H, V // BLOCK_V)](
        u, w, k, d, new, s, N, C=C, K=K, V=V, BV=BLOCK_V, num_warps=4
    )
    return new, s


@scan.register_fake
def _(u, w, k, d):
    B, H, N, C, V = u.shape
    return torch.empty(B, H, N, C, V, device=u.device, dtype=u.dtype), torch.empty(
        B, H, N, k.shape[-1], V, device=u.device, dtype=u.dtype
    )


@torch.library.custom_op("strata_demo::scan_bwd", mutates_args=())
def scan_bwd(
    dv: torch.Tensor, ds: torch.Tensor, w: torch.Tensor, k: torch.Tensor, d: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    dv, ds, w, k, d = (x.contiguous() for x in (dv, ds, w, k, d))
    B, H, N, C, V = dv.shape
    K = k.shape[-1]
    du = torch.empty_like(dv)
    g = torch.empty_like(ds)
    _scan_bwd_kernel[(B * H, V // BLOCK_V)](
        dv, ds, w, k, d, du, g, N, C=C, K=K, V=V, BV=BLOCK_V, num_warps=4
    )
    return du, g


@scan_bwd.register_fake
def _(dv, ds, w, k, d):
    return torch.empty_like(dv, memory_format=torch.contiguous_format), torch.empty_like(
        ds, memory_format=torch.contiguous_format
    )


def _scan_setup(ctx, inputs, output):
    _, w, k, d = inputs
    ctx.save_for_backward(w, k, d, output[0], output[1])


def _scan_backward(ctx, dv, ds):
    w, k, d, new, s = ctx.saved_tensors
    du, g = scan_bwd(dv, ds, w, k, d)
    return du, -(du @ s.transpose(-1, -2)), new @ g.transpose(-1, -2), (g * s).sum((-1, -2))


scan.register_autograd(_scan_backward, setup_context=_scan_setup)


def gated_delta_rule(q, k, v, g, beta):
    """q, k: (B, T, H, K), v: (B, T, H, V), g, beta: (B, T, H), all float32 -> (B, T, H, V)."""
    B, T, H, V = v.shape
    N = T // CHUNK
    q, k, v = (x.transpose(1, 2).reshape(B, H, N, CHUNK, x.shape[-1]) for x in (q, k, v))
    g, beta = (x.transpose(1, 2).reshape(B, H, N, CHUNK) for x in (g, beta))
    q = q * torch.rsqrt((q * q).sum(-1, keepdim=True) + 1e-6) * q.shape[-1] ** -0.5
    k = k * torch.rsqrt((k * k).sum(-1, keepdim=True) + 1e-6)
    kb, vb = k * beta[..., None], v * beta[..., None]
    c = g.cumsum(-1)
    upper = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).triu(1)
    decay = (c[..., :, None] - c[..., None, :]).masked_fill(upper, float("-inf")).exp()
    kt = k.transpose(-1, -2)
    x = tri_inv((kb @ kt) * decay)
    u = x @ vb
    w = x @ (kb * c.exp()[..., None])
    new, s = scan(u, w, k * (c[..., -1:] - c).exp()[..., None], c[..., -1].exp())
    o = (q * c.exp()[..., None]) @ s + ((q @ kt) * decay) @ new
    return o.reshape(B, H, T, V).transpose(1, 2)


# ---------------------------------------------------------------- layers
class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.zeros(dim))

    def forward(self, x):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return (h * (1.0 + self.weight.float())).type_as(x)


class GatedNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x, gate):
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return h * self.weight.float() * F.silu(gate.float())


class Conv(nn.Module):
    def __init__(self, channels, width):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(channels, 1, width))
        nn.init.uniform_(self.weight, -1 / math.sqrt(width), 1 / math.sqrt(width))

    def forward(self, x, same_doc):
        width = self.weight.shape[-1]
        weight = self.weight[:, 0]
        y = x * weight[:, width - 1].to(x.dtype)
        for j in range(1, width):
            shifted = F.pad(x, (0, 0, j, 0))[:, : x.shape[1]]
            y = y + shifted * same_doc[j - 1] * weight[:, width - 1 - j].to(x.dtype)
        return F.silu(y)


class GatedDeltaNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.hk, self.hv = c["linear_num_key_heads"], c["linear_num_value_heads"]
        self.dk, self.dv = c["linear_key_head_dim"], c["linear_value_head_dim"]
        key, value, hidden = self.hk * self.dk, self.hv * self.dv, c["hidden_size"]
        self.conv1d = Conv(2 * key + value, c["linear_conv_kernel_dim"])
        dt = torch.exp(torch.rand(self.hv) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.dt_bias = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.A_log = nn.Parameter(torch.log(torch.empty(self.hv).uniform_(1, 16)))
        self.norm = GatedNorm(self.dv, c["rms_norm_eps"])
        self.out_proj = nn.Linear(value, hidden, bias=False)
        self.in_proj_qkv = nn.Linear(hidden, 2 * key + value, bias=False)
        self.in_proj_z = nn.Linear(hidden, value, bias=False)
        self.in_proj_b = nn.Linear(hidden, self.hv, bias=False)
        self.in_proj_a = nn.Linear(hidden, self.hv, bias=False)

    def forward(self, x, aux):
        B, T, _ = x.shape
        z = self.in_proj_z(x).view(B, T, self.hv, self.dv)
        beta = self.in_proj_b(x).float().sigmoid()
        g = -self.A_log.float().exp() * F.softplus(self.in_proj_a(x).float() + self.dt_bias.float())
        g = torch.where(aux["start"][..., None], torch.full_like(g, RESET), g)
        mixed = self.conv1d(self.in_proj_qkv(x), aux["same_doc"]).float()
        q, k, v = mixed.split([self.hk * self.dk, self.hk * self.dk, self.hv * self.dv], dim=-1)
        r = self.hv // self.hk
        q = (
            q.view(B, T, self.hk, 1, self.dk)
            .expand(-1, -1, -1, r, -1)
            .reshape(B, T, self.hv, self.dk)
        )
        k = (
            k.view(B, T, self.hk, 1, self.dk)
            .expand(-1, -1, -1, r, -1)
            .reshape(B, T, self.hv, self.dk)
        )
        with torch.autocast("cuda", enabled=False):
            o = gated_delta_rule(q, k, v.view(B, T, self.hv, self.dv), g, beta)
        return self.out_proj(self.norm(o, z).to(x.dtype).reshape(B, T, -1))


def rotate(x, cos, sin):
    n = cos.shape[-1]
    rot, keep = x[..., :n], x[..., n:]
    half = torch.cat((-rot[..., n // 2 :], rot[..., : n // 2]), dim=-1)
    return torch.cat((rot * cos + half * sin, keep), dim=-1).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.h, self.hkv, self.d = c["num_attention_heads"], c["num_key_value_heads"], c["head_dim"]
        hidden = c["hidden_size"]
        self.q_proj = nn.Linear(hidden, self.h * self.d * 2, bias=False)
        self.k_proj = nn.Linear(hidden, self.hkv * self.d, bias=False)
        self.v_proj = nn.Linear(hidden, self.hkv * self.d, bias=False)
        self.o_proj = nn.Linear(self.h * self.d, hidden, bias=False)
        self.q_norm = RMSNorm(self.d, c["rms_norm_eps"])
        self.k_norm = RMSNorm(self.d, c["rms_norm_eps"])

    def forward(self, x, aux):
        B, T, _ = x.shape
        q, gate = self.q_proj(x).view(B, T, self.h, 2 * self.d).chunk(2, dim=-1)
        q = rotate(self.q_norm(q).transpose(1, 2), aux["cos"], aux["sin"])
        k = rotate(
            self.k_norm(self.k_proj(x).view(B, T, self.hkv, self.d)).transpose(1, 2),
            aux["cos"],
            aux["sin"],
        )
        v = self.v_proj(x).view(B, T, self.hkv, self.d).transpose(1, 2)
        o = aux["attend"](q.to(v.dtype), k.to(v.dtype), v).transpose(1, 2)
        o = o * torch.sigmoid(gate)
        return self.o_proj(o.reshape(B, T, -1))


class MLP(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.gate_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.up_proj = nn.Linear(c["hidden_size"], c["intermediate_size"], bias=False)
        self.down_proj = nn.Linear(c["intermediate_size"], c["hidden_size"], bias=False)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    def __init__(self, c, i):
        super().__init__()
        self.full = (i + 1) % c["full_attention_interval"] == 0
        if self.full:
            self.self_attn = Attention(c)
        else:
            self.linear_attn = GatedDeltaNet(c)
        self.mlp = MLP(c)
        self.input_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])
        self.post_attention_layernorm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])

    def forward(self, x, aux):
        h = self.input_layernorm(x)
        x = x + (self.self_attn(h, aux) if self.full else self.linear_attn(h, aux))
        return x + self.mlp(self.post_attention_layernorm(x))


class Body(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embed_tokens = nn.Embedding(c["vocab_size"], c["hidden_size"])
        self.layers = nn.ModuleList([Layer(c, i) for i in range(c["num_hidden_layers"])])
        self.norm = RMSNorm(c["hidden_size"], c["rms_norm_eps"])


class Model(nn.Module):
    def __init__(self, c=CONFIG):
        super().__init__()
        self.c = c
        self.model = Body(c)
        for name, p in self.named_parameters():
            if p.ndim == 2:
                std = 0.02
                if name.endswith(("out_proj.weight", "o_proj.weight", "down_proj.weight")):
                    std /= math.sqrt(2 * c["num_hidden_layers"])
                nn.init.normal_(p, std=std)
        n = int(c["head_dim"] * c["partial_rotary_factor"])
        self.register_buffer(
            "inv_freq",
            1.0 / c["rope_theta"] ** (torch.arange(0, n, 2).float() / n),
            persistent=False,
        )

    def hidden(self, ids, doc, block_mask=None):
        """doc: (B, T) document numbers; block_mask: FlexAttention mask, else a dense mask is used."""
        T = ids.shape[1]
        attend = flex_attend(block_mask) if block_mask is not None else sdpa_attend(doc)
        angle = torch.arange(T, device=ids.device).float()[:, None] * self.inv_freq[None]
        angle = torch.cat((angle, angle), dim=-1)
        same = [(F.pad(doc, (j, 0), value=-1)[:, :T] == doc)[..., None] for j in (1, 2, 3)]
        aux = {
            "cos": angle.cos(),
            "sin": angle.sin(),
            "same_doc": same,
            "start": ~same[0][..., 0],
            "attend": attend,
        }
        x = self.model.embed_tokens(ids)
        for layer in self.model.layers:
            x = layer(x, aux)
        return self.model.norm(x)

    def loss(self, ids, doc, weight, block_mask=None):
        """Weighted next-token loss; weight[t] belongs to the prediction of token t."""
        h = self.hidden(ids, doc, block_mask)[:, :-1]
        logits = F.linear(h, self.model.embed_tokens.weight.to(h.dtype)).float()
        nll = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), reduction="none").view(
            ids.shape[0], -1
        )
        w = weight[:, 1:] * (doc[:, 1:] == doc[:, :-1])
        return (nll * w).sum() / w.sum()


def sdpa_attend(doc):
    T = doc.shape[1]
    causal = torch.ones(T, T, dtype=torch.bool, device=doc.device).tril()
    mask = (doc[:, None, :, None] == doc[:, None, None, :]) & causal

    def attend(q, k, v):
        r = q.shape[1] // k.shape[1]
        k, v = (x[:, :, None].expand(-1, -1, r, -1, -1).flatten(1, 2) for x in (k, v))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)

    return attend


def flex_attend(block_mask):
    def attend(q, k, v):
        return flex_attention(q, k, v, block_mask=block_mask, enable_gqa=True)

    return attend


def document_mask(doc):
    def mask_mod(b, h, qi, ki):
        return (qi >= ki) & (doc[b, qi] == doc[b, ki])

    return _block_mask(mask_mod, doc.shape[0], None, doc.shape[1], doc.shape[1], device=doc.device)


_block_mask = torch.compile(create_block_mask)
