// Float kernels, part 4: the gated delta rule of one value head, token by token and in chunks (Yang
// et al. 2024, "Gated Delta Networks"; performance.md B5 for the form used here). Included only by
// float_kernels_*.cpp.
#pragma once

#include "engine/backend/cpu/float_product.hpp"

namespace {

constexpr float kNormEpsilon = 1.0e-6F;

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

// With the state before the token S and f = e^g: d = beta (v - f S^T k); o = f S^T q + (k.q) d;
// S <- f S + k d^T. S^T k and S^T q come from one pass over S.
inline void delta_token(const strata::DeltaTask& task, std::int64_t t, float* q, float* k) {
    normalise(task.q + t * task.row_stride, task.key_dim, query_factor(task.key_dim), q);
    normalise(task.k + t * task.row_stride, task.key_dim, 1.0F, k);
    const float* v = task.v + t * task.row_stride;
    float* o = task.o + t * task.o_stride;
    const Lanes fade = all(exponential_of(task.decay[t]));
    const Lanes beta = all(task.beta[t]);
    const Lanes alike = all(dot(k, q, task.key_dim));
    for_lanes(task.value_dim, [&](std::int64_t i, std::int64_t count) {
        float* column = task.state + i;
        Lanes by_key{};
        Lanes by_query{};
        for (std::int64_t j = 0; j < task.key_dim; ++j) {
            const Lanes s = load_some(column + j * task.value_dim, count);
            by_key = fused(s, all(k[j]), by_key);
            by_query = fused(s, all(q[j]), by_query);
        }
        const Lanes d = beta * (load_some(v + i, count) - fade * by_key);
        store_some(o + i, fused(alike, d, fade * by_query), count);
        for (std::int64_t j = 0; j < task.key_dim; ++j) {
            float* s = column + j * task.value_dim;
            store_some(s, fused(d, all(k[j]), fade * load_some(s, count)), count);
        }
    });
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
    float* reach;       // [C] G_i, sum of the decays up to i
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
    out.reach = out.fade + kChunk * kChunk;
    out.from_start = out.reach + kChunk;
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

inline void accumulate_decay(const strata::DeltaTask& task, const DeltaScratch& s) {
    constexpr std::int64_t kChunk = strata::kDeltaChunk;
    float total = 0.0F;
    for (std::int64_t t = 0; t < kChunk; ++t) {
        if (t < task.tokens) total += task.decay[t];
        s.reach[t] = total;
    }
    for (std::int64_t t = 0; t < kChunk; t += kLanes) {
        const Lanes reach = load(s.reach + t);
        store(s.from_start + t, exponential(reach));
        store(s.to_end + t, exponential(all(total) - reach));
    }
    for (std::int64_t i = 0; i < task.tokens; ++i) {
        float* row = s.fade + i * kChunk;
        for (std::int64_t j = 0; j < kChunk; j += kLanes) {
            // Later columns may hold large positive differences: they are cut off, not used.
            store(row + j, j <= i ? exponential(all(s.reach[i]) - load(s.reach + j)) : Lanes{});
        }
        for (std::int64_t j = i + 1; j < kChunk; ++j) row[j] = 0.0F;
    }
}

// coupling and weights, from K K^T and Q K^T.
inline void couple(const strata::DeltaTask& task, const DeltaScratch& s) {
    constexpr std::int64_t kChunk = strata::kDeltaChunk;
    const std::int64_t columns = strata::padded(task.tokens);
    product(task.tokens, columns, task.key_dim, s.k, s.key_row, 1, s.k_turned, kChunk, s.coupling,
            kChunk, false);
    product(task.tokens, columns, task.key_dim, s.q, s.key_row, 1, s.k_turned, kChunk, s.weights,
            kChunk, false);
    for (std::int64_t i = 0; i < task.tokens; ++i) {
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
}

// Solves (I + A) change = right-hand side, A = -coupling strictly below the diagonal: rows of
// earlier blocks through a product, rows of the own block one after the other.
inline void substitute(const strata::DeltaTask& task, const DeltaScratch& s) {
    constexpr std::int64_t kChunk = strata::kDeltaChunk;
    constexpr std::int64_t kBlock = 16;
    for (std::int64_t block = 0; block < task.tokens; block += kBlock) {
        const std::int64_t end = block + kBlock < task.tokens ? block + kBlock : task.tokens;
        if (block > 0) {
            product(end - block, task.value_dim, block, s.coupling + block * kChunk, kChunk, 1,
                    s.change, s.value_row, s.change + block * s.value_row, s.value_row, true);
        }
        for (std::int64_t i = block + 1; i < end; ++i) {
            product(1, task.value_dim, i - block, s.coupling + i * kChunk + block, kChunk, 1,
                    s.change + block * s.value_row, s.value_row, s.change + i * s.value_row,
                    s.value_row, true);
        }
    }
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
    product(task.tokens, task.value_dim, task.tokens, s.weights, kChunk, 1, s.change, s.value_row,
            task.o, task.o_stride, true);

    // S <- e^G_last S + K^T diag(e^(G_last - G)) change
    for (std::int64_t t = 0; t < task.tokens; ++t) {
        scale(s.k + t * s.key_row, s.to_end[t], task.key_dim, s.k + t * s.key_row);
    }
    scale(task.state, s.from_start[task.tokens - 1], task.key_dim * task.value_dim, task.state);
    product(task.key_dim, task.value_dim, task.tokens, s.k, 1, s.key_row, s.change, s.value_row,
            task.state, task.value_dim, true);
}

}  // namespace
