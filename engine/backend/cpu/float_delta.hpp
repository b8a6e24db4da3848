// Float kernels, part 4: the gated delta rule of one value head, token by token and in chunks (Yang
// et al. 2024, "Gated Delta Networks"). Included only by float_kernels_*.cpp.
//
// A chunk at once, with G_i = sum of the decays up to token i and L_ij = e^(G_i - G_j) for j <= i:
//   A = beta_i (k_i . k_j) L_ij strictly below the diagonal
//   change = (I + A)^-1 diag(beta) (V - diag(e^G) K S)          what each token writes
//   O = diag(e^G) Q S + ((Q K^T) * L) change
//   S <- e^(G_last) S + K^T diag(e^(G_last - G)) change
#pragma once

#include "engine/backend/cpu/float_product.hpp"

namespace {

constexpr float kNormEpsilon = 1.0e-6F;
// Rows that are handled together in products with a lower triangle: of the zeros above the diagonal
// only those within a block are computed.
constexpr std::int64_t kBlock = 16;
static_assert(strata::kDeltaChunk % kBlock == 0 && kBlock % kLanes == 0);

// y = x / |x| * factor
inline void normalise(const float* x, std::int64_t n, float factor, float* y) {
    scale(x, factor / __builtin_sqrtf(dot(x, x, n) + kNormEpsilon), n, y);
}

inline float query_factor(std::int64_t key_dim) {
    return 1.0F / __builtin_sqrtf(static_cast<float>(key_dim));
}

inline float exponential_of(float x) {
    return exponential(all(x))[0];
}

// One token, ready for the state: d = beta (v - f S^T k), o = f S^T q + (k.q) d, S <- f S + k d^T,
// with f = e^g and S the state before. S^T k and S^T q come from one pass over S.
struct DeltaToken {
    const float* q;  // normalised
    const float* k;
    const float* v;
    float* o;
    float fade;
    float beta;
    float alike;  // k.q
};

// kVectors vectors of columns from `column` on; several of them keep the additions from waiting for
// each other. Only a last, partial vector has fewer than kLanes columns.
template <std::int64_t kVectors>
inline void delta_columns(const strata::DeltaTask& task, const DeltaToken& token,
                          std::int64_t column, std::int64_t count) {
    float* state = task.state + column;
    Lanes by_key[kVectors] = {};
    Lanes by_query[kVectors] = {};
    for (std::int64_t j = 0; j < task.key_dim; ++j) {
        const float* s = state + j * task.value_dim;
        for (std::int64_t v = 0; v < kVectors; ++v) {
            const Lanes value = load_some(s + v * kLanes, count);
            by_key[v] = fused(value, all(token.k[j]), by_key[v]);
            by_query[v] = fused(value, all(token.q[j]), by_query[v]);
        }
    }
    const Lanes fade = all(token.fade);
    Lanes d[kVectors];
    for (std::int64_t v = 0; v < kVectors; ++v) {
        const Lanes wanted = load_some(token.v + column + v * kLanes, count);
        d[v] = all(token.beta) * (wanted - fade * by_key[v]);
        const Lanes o = fused(all(token.alike), d[v], fade * by_query[v]);
        store_some(token.o + column + v * kLanes, o, count);
    }
    for (std::int64_t j = 0; j < task.key_dim; ++j) {
        float* s = state + j * task.value_dim;
        for (std::int64_t v = 0; v < kVectors; ++v) {
            const Lanes value = fade * load_some(s + v * kLanes, count);
            store_some(s + v * kLanes, fused(d[v], all(token.k[j]), value), count);
        }
    }
}

inline void delta_token(const strata::DeltaTask& task, std::int64_t t, float* q, float* k) {
    normalise(task.q + t * task.row_stride, task.key_dim, query_factor(task.key_dim), q);
    normalise(task.k + t * task.row_stride, task.key_dim, 1.0F, k);
    const DeltaToken token = {q,
                              k,
                              task.v + t * task.row_stride,
                              task.o + t * task.o_stride,
                              exponential_of(task.decay[t]),
                              task.beta[t],
                              dot(k, q, task.key_dim)};
    constexpr std::int64_t kVectors = 4;
    std::int64_t i = 0;
    for (; i + kVectors * kLanes <= task.value_dim; i += kVectors * kLanes) {
        delta_columns<kVectors>(task, token, i, kLanes);
    }
    for (; i + kLanes <= task.value_dim; i += kLanes) delta_columns<1>(task, token, i, kLanes);
    if (i < task.value_dim) delta_columns<1>(task, token, i, task.value_dim - i);
}

inline void delta_tokens(const strata::DeltaTask& task) {
    float* q = task.scratch;
    float* k = q + strata::padded(task.key_dim);
    for (std::int64_t t = 0; t < task.tokens; ++t) delta_token(task, t, q, k);
}

// Chunk scratch; C = kDeltaChunk. Rows of q, k have `key_row` elements.
struct DeltaScratch {
    std::int64_t key_row;
    std::int64_t value_row;
    float* q;           // [C][key_row], normalised
    float* k;           // [C][key_row]
    float* k_turned;    // [key_dim][C]
    float* change;      // [C][value_row]: the right-hand side, then its solution
    float* coupling;    // [C][C]: -beta_i (k_i . k_j) e^(G_i - G_j) below the diagonal
    float* weights;     // [C][C]: (q_i . k_j) e^(G_i - G_j) up to the diagonal
    float* fade;        // [C][C]: e^(G_i - G_j) up to the diagonal, 0 above
    float* from_start;  // [C] e^G_i
    float* to_end;      // [C] e^(G_last - G_i)
};

inline DeltaScratch lay_out(const strata::DeltaTask& task) {
    constexpr std::int64_t kChunk = strata::kDeltaChunk;
    DeltaScratch out{};
    out.key_row = strata::padded(task.key_dim);
    out.value_row = strata::padded(task.value_dim);
    out.q = task.scratch;
    out.k = out.q + kChunk * out.key_row;
    out.k_turned = out.k + kChunk * out.key_row;
    out.change = out.k_turned + kChunk * out.key_row;
    out.coupling = out.change + kChunk * out.value_row;
    out.weights = out.coupling + kChunk * kChunk;
    out.fade = out.weights + kChunk * kChunk;
    out.from_start = out.fade + kChunk * kChunk;
    out.to_end = out.from_start + kChunk;
    return out;
}

inline void gather_keys(const strata::DeltaTask& task, const DeltaScratch& s) {
    constexpr std::int64_t kChunk = strata::kDeltaChunk;
    const float factor = query_factor(task.key_dim);
    for (std::int64_t t = 0; t < task.tokens; ++t) {
        normalise(task.q + t * task.row_stride, task.key_dim, factor, s.q + t * s.key_row);
        normalise(task.k + t * task.row_stride, task.key_dim, 1.0F, s.k + t * s.key_row);
        const float* k = s.k + t * s.key_row;
        for (std::int64_t i = 0; i < task.key_dim; ++i) s.k_turned[i * kChunk + t] = k[i];
    }
    for (std::int64_t t = task.tokens; t < kChunk; ++t) {
        for (std::int64_t i = 0; i < task.key_dim; ++i) s.k_turned[i * kChunk + t] = 0.0F;
    }
}

inline void exponentials(float* x, std::int64_t n) {
    for (std::int64_t i = 0; i < n; i += kLanes) store(x + i, exponential(load(x + i)));
}

// Differences of the sums in f64: a token that forgets everything (a decay of -1000) must not cost
// the tokens behind it their bits.
inline void accumulate_decay(const strata::DeltaTask& task, const DeltaScratch& s) {
    constexpr std::int64_t kChunk = strata::kDeltaChunk;
    double reach[kChunk];
    double total = 0.0;
    for (std::int64_t t = 0; t < kChunk; ++t) {
        if (t < task.tokens) total += static_cast<double>(task.decay[t]);
        reach[t] = total;
    }
    for (std::int64_t t = 0; t < kChunk; ++t) {
        s.from_start[t] = static_cast<float>(reach[t]);
        s.to_end[t] = static_cast<float>(total - reach[t]);
    }
    exponentials(s.from_start, kChunk);
    exponentials(s.to_end, kChunk);
    for (std::int64_t i = 0; i < task.tokens; ++i) {
        float* row = s.fade + i * kChunk;
        const std::int64_t end = (i / kLanes + 1) * kLanes;
        for (std::int64_t j = 0; j < end; ++j) row[j] = static_cast<float>(reach[i] - reach[j]);
        exponentials(row, end);
        for (std::int64_t j = i + 1; j < kChunk; ++j) row[j] = 0.0F;
    }
}

// function(first row, rows) for each block of rows.
template <class Function>
inline void for_blocks(std::int64_t tokens, const Function& function) {
    for (std::int64_t block = 0; block < tokens; block += kBlock) {
        function(block, block + kBlock < tokens ? kBlock : tokens - block);
    }
}

// coupling and weights, from K K^T and Q K^T: up to the end of the block that holds the diagonal.
inline void couple(const strata::DeltaTask& task, const DeltaScratch& s) {
    constexpr std::int64_t kChunk = strata::kDeltaChunk;
    for_blocks(task.tokens, [&](std::int64_t block, std::int64_t rows) {
        const std::int64_t columns = block + kBlock;
        product(rows, columns, task.key_dim, s.k + block * s.key_row, s.key_row, 1, s.k_turned,
                kChunk, s.coupling + block * kChunk, kChunk, false);
        product(rows, columns, task.key_dim, s.q + block * s.key_row, s.key_row, 1, s.k_turned,
                kChunk, s.weights + block * kChunk, kChunk, false);
        for (std::int64_t i = block; i < block + rows; ++i) {
            const float* fade = s.fade + i * kChunk;
            float* coupling = s.coupling + i * kChunk;
            float* weights = s.weights + i * kChunk;
            const Lanes beta = all(-task.beta[i]);
            for (std::int64_t j = 0; j < columns; j += kLanes) {
                const Lanes f = load(fade + j);
                store(coupling + j, load(coupling + j) * f * beta);
                store(weights + j, load(weights + j) * f);
            }
        }
    });
}

// Solves (I + A) change = right-hand side, A = -coupling strictly below the diagonal: rows of
// earlier blocks through a product, rows of the own block one after the other.
inline void substitute(const strata::DeltaTask& task, const DeltaScratch& s) {
    constexpr std::int64_t kChunk = strata::kDeltaChunk;
    for_blocks(task.tokens, [&](std::int64_t block, std::int64_t rows) {
        float* own = s.change + block * s.value_row;
        const float* coupling = s.coupling + block * kChunk;
        product(rows, task.value_dim, block, coupling, kChunk, 1, s.change, s.value_row, own,
                s.value_row, true);
        for (std::int64_t i = 1; i < rows; ++i) {
            product(1, task.value_dim, i, coupling + i * kChunk + block, kChunk, 1, own,
                    s.value_row, own + i * s.value_row, s.value_row, true);
        }
    });
}

inline void delta_chunk(const strata::DeltaTask& task) {
    constexpr std::int64_t kChunk = strata::kDeltaChunk;
    const DeltaScratch s = lay_out(task);
    gather_keys(task, s);
    accumulate_decay(task, s);
    couple(task, s);

    // change = (I + A)^-1 diag(beta) (V - diag(e^G) K S)
    product(task.tokens, task.value_dim, task.key_dim, s.k, s.key_row, 1, task.state,
            task.value_dim, s.change, s.value_row, false);
    for (std::int64_t t = 0; t < task.tokens; ++t) {
        float* change = s.change + t * s.value_row;
        scale(change, -task.beta[t] * s.from_start[t], task.value_dim, change);
        add_scaled(task.v + t * task.row_stride, task.beta[t], task.value_dim, change);
    }
    substitute(task, s);

    // O = diag(e^G) Q S + weights change
    for (std::int64_t t = 0; t < task.tokens; ++t) {
        scale(s.q + t * s.key_row, s.from_start[t], task.key_dim, s.q + t * s.key_row);
    }
    product(task.tokens, task.value_dim, task.key_dim, s.q, s.key_row, 1, task.state,
            task.value_dim, task.o, task.o_stride, false);
    for_blocks(task.tokens, [&](std::int64_t block, std::int64_t rows) {
        product(rows, task.value_dim, block + rows, s.weights + block * kChunk, kChunk, 1, s.change,
                s.value_row, task.o + block * task.o_stride, task.o_stride, true);
    });

    // S <- e^G_last S + K^T diag(e^(G_last - G)) change
    for (std::int64_t t = 0; t < task.tokens; ++t) {
        scale(s.k + t * s.key_row, s.to_end[t], task.key_dim, s.k + t * s.key_row);
    }
    scale(task.state, s.from_start[task.tokens - 1], task.key_dim * task.value_dim, task.state);
    product(task.key_dim, task.value_dim, task.tokens, s.k, 1, s.key_row, s.change, s.value_row,
            task.state, task.value_dim, true);
}

}  // namespace
