// The f32 loops of the CPU backend, one table of functions per instruction set. Owns what happens
// to one row, one head or one tile; who computes which of them, and in how many threads, is decided
// by the ops (ops_*.cpp). Products with weights are not here: matmul.hpp.
//
// Rows are contiguous f32 unless a stride says otherwise; strides count elements.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cpu/isa.hpp"
#include "strata/backend/kv_rows.hpp"
#include "strata/backend/shortlist.hpp"

namespace strata {

// Keys that attention looks at together. Divides kPageTokens, so that a tile never crosses a page.
inline constexpr std::int64_t kAttentionTile = 64;
// Tokens of one chunk of the gated delta rule: its triangular part grows with the square of them.
inline constexpr std::int64_t kDeltaChunk = 64;
// Scratch rows are padded to this many floats: the widest vector.
inline constexpr std::int64_t kPadding = 16;

inline constexpr std::int64_t padded(std::int64_t n) {
    return (n + kPadding - 1) / kPadding * kPadding;
}

// Where the rows of one K/V head lie in a page.
struct HeadRows {
    std::size_t offset = 0;     // bytes from a page's start to this head in its row 0
    std::size_t scale = 0;      // and to its scale, if rows have scales
    std::size_t row_bytes = 0;  // from row to row
};

// Some query rows of all query heads that share one K/V head, against positions [begin, end).
// Query m = row * group + head in the group; row t sees positions up to first + t.
struct AttentionTask {
    const float* q = nullptr;  // first row, first head of the group
    std::int64_t q_row_stride = 0;
    std::int64_t q_head_stride = 0;
    std::int64_t rows = 0;
    std::int64_t group = 0;
    std::int64_t first = 0;
    std::int64_t begin = 0;  // a multiple of kAttentionTile
    std::int64_t end = 0;    // begin < end <= first + rows
    void* const* pages = nullptr;
    std::int64_t page_tokens = 0;
    KvType kv_type = KvType::f16;
    HeadRows k;
    HeadRows v;
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
    float scale = 1.0F;
    bool one_form = false;     // compute each query alike, however many there are
    float* scratch = nullptr;  // attention_scratch() floats
    // Results, not yet divided by the sums: [rows * group][value_dim], and per query the largest
    // score and the sum of exp(score - largest).
    float* weighted = nullptr;
    float* largest = nullptr;  // padded(rows * group)
    float* sums = nullptr;     // padded(rows * group)
};
inline constexpr std::int64_t attention_scratch(std::int64_t queries, std::int64_t key_dim,
                                                std::int64_t value_dim) {
    return padded(queries) * (padded(key_dim) + kAttentionTile + 1) +
           kAttentionTile * (padded(key_dim) + padded(value_dim));
}

// Up to kDeltaChunk tokens of one value head.
struct DeltaTask {
    const float* q = nullptr;  // token 0, before normalisation
    const float* k = nullptr;
    const float* v = nullptr;
    std::int64_t row_stride = 0;   // from token to token, the same for q, k and v
    const float* beta = nullptr;   // [tokens], after the sigmoid
    const float* decay = nullptr;  // [tokens], g <= 0
    std::int64_t tokens = 0;
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
    float* state = nullptr;  // [key_dim][value_dim]
    float* o = nullptr;      // token 0
    std::int64_t o_stride = 0;
    float* scratch = nullptr;  // delta_scratch() floats
};
inline constexpr std::int64_t delta_scratch(std::int64_t key_dim, std::int64_t value_dim) {
    return kDeltaChunk * (3 * padded(key_dim) + padded(value_dim) + 3 * kDeltaChunk + 2);
}

struct FloatKernels {
    // y = RMS(x, gain); y may be x.
    void (*rms_norm)(const float* x, const float* gain, float epsilon, std::int64_t n, float* y);
    // y = RMS(x, gain) * silu(z); y may be x.
    void (*gated_rms_norm)(const float* x, const float* z, const float* gain, float epsilon,
                           std::int64_t n, float* y);
    // gate = silu(gate) * up
    void (*swiglu)(float* gate, const float* up, std::int64_t n);
    // y = x * sigmoid(gate)
    void (*sigmoid_gate)(const float* x, const float* gate, std::int64_t n, float* y);
    // y += x * factor
    void (*add_scaled)(const float* x, float factor, std::int64_t n, float* y);
    // y = x * factor; y may be x.
    void (*scale)(const float* x, float factor, std::int64_t n, float* y);
    float (*dot)(const float* a, const float* b, std::int64_t n);
    // Ops::find_largest().
    std::int64_t (*find_largest)(const float* x, std::int64_t n);
    // The largest value of each of the groups, of up to `size` values, that x is parted into;
    // groups without any have -infinity. `maxima`: room for n / size + kPadding. How many; -1 when
    // a value is NaN or +infinity.
    std::int64_t (*group_maxima)(const float* x, std::int64_t n, std::int64_t size, float* maxima);
    // Every value of at least `floor`, in order. How many; -1 when they are more than `most`.
    std::int64_t (*gather_from)(const float* x, std::int64_t n, float floor, std::int64_t most,
                                Candidate* out);
    // block_weight() of row_weights.hpp.
    double (*weigh_block)(const float* x, std::int64_t n, float largest, float factor);
    void (*to_halves)(const float* x, std::int64_t n, std::uint16_t* y);
    // A head of int8 K/V: its codes; returns the scale.
    float (*to_codes)(const float* x, std::int64_t n, std::int8_t* codes);
    // Turns the first 2 * pairs elements; table: [pairs][2] cosine, sine.
    void (*rotate_adjacent)(float* head, const float* table, std::int64_t pairs);
    void (*rotate_halves)(float* head, const float* table, std::int64_t pairs);
    // c = silu(sum_j taps[j] * rows[j]) for each of n channels; taps: [kernel][n].
    void (*convolve)(const float* const* rows, const float* taps, std::int64_t kernel,
                     std::int64_t n, float* c);
    // c[m][n] (+)= a[m][k] b[k][n]; element (i, j) of a is a[i * a_row + j * a_column].
    void (*product)(std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                    std::int64_t a_row, std::int64_t a_column, const float* b, std::int64_t b_row,
                    float* c, std::int64_t c_row, bool accumulate);
    void (*attend)(const AttentionTask& task);
    // The two forms of the gated delta rule: one token after the other, or a chunk at once.
    void (*delta_tokens)(const DeltaTask& task);
    void (*delta_chunk)(const DeltaTask& task);
};

// The table of an instruction set that choose_isa() returned.
[[nodiscard]] const FloatKernels& float_kernels(Isa isa);

// Each instruction set's own table; call only through float_kernels().
const FloatKernels& float_kernels_scalar();
const FloatKernels& float_kernels_avx2();
const FloatKernels& float_kernels_avx512();

}  // namespace strata
