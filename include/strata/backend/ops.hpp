// Ops: what a model asks of a device. About a dozen fused operations, each of them one or two
// launches on a GPU; engine/model/arch says which and in which order, a backend says how.
//
// How calls behave:
//  1. Enqueue semantics: a call may return before the work is done; work happens in call order.
//     Nobody reads results on the host before Device::synchronize().
//  2. Every pointer is a device address, and must stay valid until the work is done.
//  3. What changes from step to step (ids, position, pages, running state) is given once, by
//  begin(),
//     and never as an argument: a device may record the ops of a step and replay them.
//  4. Activations are f32 `Rows`, one row per token of the step; `rows` is the step's token count
//  unless
//     an op says otherwise. Inputs and outputs do not overlap unless an op says that they may.
//  5. Products with F32, F16 and BF16 weights use the f32 activations as they are; a backend may
//     quantise activations for other types.
//     A step of many rows may be multiplied in half precision (bf16) where the weight is not F32.
//  6. A device keeps what scratch its own way of computing needs.
//  7. The result of rms_norm() is for the operations that follow it, up to the next one that writes
//     its x or its y: a device may compute it where it is read.
// Formulas: RMS(x, w) = x / sqrt(mean(x^2) + eps) * w; silu(x) = x * sigmoid(x).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "strata/backend/kv_rows.hpp"
#include "strata/backend/shortlist.hpp"
#include "strata/backend/tensor.hpp"
#include "strata/core/types.hpp"

namespace strata {

// The tokens that the coming ops compute, and where their conversation lives (layout:
// geometry.hpp).
struct Step {
    std::span<const TokenId> ids;  // 1 or more
    Position first = 0;            // position of ids[0]
    std::span<void* const>
        pages;  // device addresses; cover the positions 0 .. first + ids.size() - 1
    void* running_state = nullptr;
};

// y = x * weight^T * scale + bias, or added to what y holds.
struct Projection {
    const Weight* weight = nullptr;  // rows = y.cols, cols = x.cols
    const float* bias = nullptr;     // [y.cols]; null = none
    Rows y;
    bool accumulate = false;
};

// The angles of rotary embeddings: pair i of a token at position p turns by p * frequencies[i].
struct RopeAngles {
    const double* frequencies = nullptr;  // [pairs], radians per position, scaling applied
    std::int64_t pairs = 0;               // rotated dimensions / 2
    float magnitude = 1.0F;               // multiplies cosine and sine (yarn)
};

// Which two elements of a head form pair i: (2i, 2i + 1), or (i, i + pairs).
enum class RotaryPairs : std::uint8_t { adjacent, halves };

struct AttentionShape {
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;   // query head i reads K/V head i / (heads / kv_heads)
    std::int64_t key_dim = 0;    // elements of one query or key head
    std::int64_t value_dim = 0;  // elements of one value head
    float scale = 1.0F;          // multiplies q.k
    // A head of the query rows is [query | gate], key_dim each; value_dim = key_dim then.
    bool gated = false;
    KvType kv_type = KvType::f16;
    std::size_t k_offset = 0;  // bytes from a page's start to this layer's K rows
    std::size_t v_offset = 0;  // and to its V rows

    std::int64_t query_stride() const { return gated ? 2 * key_dim : key_dim; }
    KvRows k_rows() const { return {kv_type, kv_heads, key_dim}; }
    KvRows v_rows() const { return {kv_type, kv_heads, value_dim}; }
};

struct QkPreparation {
    const float* q_gain =
        nullptr;  // [key_dim], shared by all heads; null = queries are not normalised
    const float* k_gain = nullptr;  // the same for keys
    float epsilon = 0;
    const float* rope_table = nullptr;  // written by rope_table() in this step
    std::int64_t rope_pairs = 0;        // elements past 2 * rope_pairs stay as they are
    RotaryPairs pairing = RotaryPairs::halves;
};

// Who computes each token: [rows][used], best expert first.
struct Routes {
    std::int32_t* experts = nullptr;
    float* weights = nullptr;
    std::int64_t used = 0;
};

struct RouteRule {
    bool normalise = true;  // divide the chosen probabilities by their sum (at least 6.1035e-5)
    float scale = 1.0F;     // then multiply by this
};

struct Experts {
    // Either gate and up apart ({cols d, rows f, experts E} each), or gate_up with rows [gate |
    // up].
    const Weight* gate = nullptr;
    const Weight* up = nullptr;
    const Weight* gate_up = nullptr;
    const Weight* down = nullptr;  // {cols f, rows d, experts E}
    std::int64_t hidden = 0;       // f
};

struct SharedExpert {
    const Weight* gate = nullptr;
    const Weight* up = nullptr;
    const Weight* down = nullptr;
    const float* gate_input =
        nullptr;  // [d]: the result counts sigmoid(x . gate_input) times; null = once
};

struct ConvolutionShape {
    std::int64_t channels = 0;
    std::int64_t kernel = 4;  // taps; the last one meets the newest row
    std::size_t state_offset =
        0;  // bytes from running_state to (kernel - 1) x channels, oldest first
};

// Which key head a value head j reads: j / (value_heads / key_heads), or j % key_heads.
enum class HeadMap : std::uint8_t { grouped, tiled };

struct DeltaShape {
    std::int64_t key_heads = 0;
    std::int64_t value_heads = 0;
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
    HeadMap map = HeadMap::grouped;
    std::size_t state_offset = 0;  // bytes from running_state to value_heads x key_dim x value_dim
};

class Ops {
  public:
    virtual ~Ops() = default;

    // Announces the step that the following ops compute. The spans may be freed afterwards.
    virtual void begin(const Step& step) = 0;

    // x[t] = row ids[t] of `table` (cols = x.cols), decoded.
    virtual void embed(const Weight& table, Rows x) = 0;

    // y[t] = RMS(x[t], gain). Any number of rows; y may be x.
    virtual void rms_norm(Rows x, const float* gain, float epsilon, Rows y) = 0;

    // x[t] += v for each row; v: [x.cols]. Any number of rows.
    virtual void add_to_rows(Rows x, const float* v) = 0;

    // Every projection of the same x. Any number of rows.
    virtual void linear(Rows x, std::span<const Projection> projections) = 0;

    // y = silu(x gate^T) * (x up^T); gate and up are {cols x.cols, rows y.cols}. Any number of
    // rows.
    virtual void gated_linear(Rows x, const Weight& gate, const Weight& up, Rows y) = 0;

    // table[t][i] = (magnitude * cos(angle), magnitude * sin(angle)), angle = (first + t) *
    // frequency i; [rows][pairs][2], computed in f64.
    virtual void rope_table(const RopeAngles& angles, float* table) = 0;

    // Per head, in place: normalise q and k, rotate them. Then write k and v into the rows of their
    // positions, as kv_type has them (kv_rows.hpp). q: [rows][heads][query_stride()], of which the
    // query part is touched; k: [rows][kv_heads][key_dim]; v: [rows][kv_heads][value_dim].
    virtual void store_attention_inputs(const AttentionShape& shape,
                                        const QkPreparation& preparation, Rows q, Rows k,
                                        Rows v) = 0;

    // out[t][head] = sum_p softmax_p(scale * q . K[p]) V[p] over p = 0 .. first + t, times
    // sigmoid(gate) element by element if gated. out: [rows][heads][value_dim].
    virtual void attention(const AttentionShape& shape, Rows q, Rows out) = 0;

    // Probabilities = softmax(x router^T) over all experts; the `used` largest are chosen, the
    // lower index where two are equal.
    virtual void moe_route(Rows x, const Weight& router, const RouteRule& rule, Routes routes) = 0;

    // y[t] += sum_k weights[t][k] * down_k(silu(gate_k x[t]) * up_k x[t]) (+ the shared expert, if
    // any).
    virtual void moe_ffn(Rows x, const Experts& experts, const SharedExpert* shared, Routes routes,
                         Rows y) = 0;

    // c[t] = silu(sum_j taps[j] * u[t - (kernel - 1) + j]) channel by channel, taps being
    // [kernel][channels]. Rows before the step come from the window in the running state, which
    // then holds the step's last rows.
    virtual void convolution(const ConvolutionShape& shape, Rows u, const float* taps, Rows c) = 0;

    // Gated delta rule (Yang et al. 2024, "Gated Delta Networks"), for each value head with its
    // state S [key_dim][value_dim]. Row of c: [q: key heads][k: key heads][v: value heads]. q and k
    // are L2-normalised, x / sqrt(sum x^2 + 1e-6), and q is also divided by sqrt(key_dim); beta =
    // sigmoid(b[t]), g = a * softplus(alpha[t] + dt_bias), with a <= 0;
    //   S <- e^g S;  d = beta (v - S^T k);  S <- S + k d^T;  o = S^T q.
    // b, alpha: [rows][value_heads]; a, dt_bias: [value_heads]; o: [rows][value_heads][value_dim].
    virtual void delta_rule(const DeltaShape& shape, Rows c, Rows b, Rows alpha, const float* a,
                            const float* dt_bias, Rows o) = 0;

    // y = RMS(o, gain) * silu(z) for each head of `head_dim` elements (gain: [head_dim]); y may be
    // o.
    virtual void gated_rms_norm(Rows o, Rows z, std::int64_t head_dim, const float* gain,
                                float epsilon, Rows y) = 0;

    // *index = where the largest value of x's one row is, the lowest of equals (-0 equals +0); -1
    // when a value is NaN or +infinity, or none is above -infinity. At most 2^31 - 1 columns.
    virtual void find_largest(Rows x, std::int32_t* index) = 0;

    // penalised() for each of the tokens of `counts`, in place, in x's one row. `counts` is visible
    // memory that the host wrote before begin().
    virtual void penalise(Rows x, const TokenCounts* counts, const Penalties& by) = 0;

    // *list = the shortlist of x's one row, its verdict last. rule.weighs: and weights[b] =
    // block_weight() of block b, relative to the row's largest value, if the list is sound. Both
    // lie in visible memory, weights: [weight_blocks(x.cols)]. At most 2^31 - 1 columns.
    virtual void shortlist(Rows x, const ShortlistRule& rule, Shortlist* list, double* weights) = 0;
};

}  // namespace strata
