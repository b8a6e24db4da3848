// Float kernels, part 3: softmax attention over pages, one tile of keys after the other (Milakov
// and Gimelshein 2018, "Online normalizer calculation for softmax"). Included only by
// float_kernels_*.cpp.
//
// Two forms. With many queries, scores lie transposed, [key][query]: the softmax then runs down the
// tile with one query per lane and needs no sums across lanes, and K is read as it is stored. With
// few queries most of those lanes would be idle: scores lie [query][key] and are sums of lanes.
#pragma once

#include "engine/backend/cpu/float_product.hpp"

namespace {

// Less than any score that finite activations give, and finite itself: differences stay numbers.
constexpr float kMasked = -1.0e30F;

// Fewer queries than this take the second form.
constexpr std::int64_t kManyQueries = 12;

struct AttentionScratch {
    std::int64_t queries;  // padded
    float* q;              // [key_dim][queries], or [queries][padded(key_dim)]; scaled
    float* scores;         // [kAttentionTile][queries], or [queries][kAttentionTile]
    float* shrink;         // [queries]
    float* keys;           // [kAttentionTile][padded(key_dim)]
    float* values;         // [kAttentionTile][padded(value_dim)]
};

inline AttentionScratch lay_out(const strata::AttentionTask& task) {
    AttentionScratch out{};
    out.queries = strata::padded(task.rows * task.group);
    out.q = task.scratch;
    out.scores = out.q + strata::padded(task.key_dim) * out.queries;
    out.shrink = out.scores + strata::kAttentionTile * out.queries;
    out.keys = out.shrink + out.queries;
    out.values = out.keys + strata::kAttentionTile * strata::padded(task.key_dim);
    return out;
}

// Query m, dimension d goes to q[m * query_step + d * dim_step].
inline void gather_queries(const strata::AttentionTask& task, const AttentionScratch& scratch,
                           std::int64_t query_step, std::int64_t dim_step) {
    const std::int64_t floats = strata::padded(task.key_dim) * scratch.queries;
    for (std::int64_t i = 0; i < floats; ++i) scratch.q[i] = 0.0F;
    for (std::int64_t t = 0; t < task.rows; ++t) {
        for (std::int64_t h = 0; h < task.group; ++h) {
            const float* from = task.q + t * task.q_row_stride + h * task.q_head_stride;
            float* to = scratch.q + (t * task.group + h) * query_step;
            for (std::int64_t d = 0; d < task.key_dim; ++d) to[d * dim_step] = from[d] * task.scale;
        }
    }
}

// Rows [position, position + count) of K or V as f32: where they are, or converted into `room`.
struct TileRows {
    const float* values;
    std::int64_t row;
};

inline TileRows tile_rows(const strata::AttentionTask& task, std::int64_t position,
                          std::int64_t count, const strata::HeadRows& head, std::int64_t dim,
                          float* room) {
    const std::int64_t page = position / task.page_tokens;
    const auto first = static_cast<std::size_t>(position - page * task.page_tokens);
    const char* rows = static_cast<const char*>(task.pages[page]) + first * head.row_bytes;
    if (task.kv_type == strata::KvType::f32) {
        return {reinterpret_cast<const float*>(rows + head.offset),
                static_cast<std::int64_t>(head.row_bytes / sizeof(float))};
    }
    const std::int64_t room_row = strata::padded(dim);
    for (std::int64_t j = 0; j < count; ++j) {
        const char* row = rows + static_cast<std::size_t>(j) * head.row_bytes;
        float* to = room + j * room_row;
        if (task.kv_type == strata::KvType::f16) {
            from_halves(reinterpret_cast<const std::uint16_t*>(row + head.offset), dim, to);
        } else {
            float scale = 0.0F;
            std::memcpy(&scale, row + head.scale, sizeof scale);
            from_codes(reinterpret_cast<const std::int8_t*>(row + head.offset), scale, dim, to);
        }
    }
    return {room, room_row};
}

// Hides from each query the keys after its own position: their weights become 0, not only small.
inline void mask_future(const strata::AttentionTask& task, const AttentionScratch& scratch,
                        std::int64_t position, std::int64_t count) {
    for (std::int64_t j = 0; j < count; ++j) {
        const std::int64_t blind_rows = position + j - task.first;
        const std::int64_t blind = (blind_rows < task.rows ? blind_rows : task.rows) * task.group;
        float* scores = scratch.scores + j * scratch.queries;
        for (std::int64_t m = 0; m < blind; ++m) scores[m] = kMasked;
    }
}

// Turns scores into exp(score - largest so far) and says by how much earlier results shrink.
inline void soften(const strata::AttentionTask& task, const AttentionScratch& scratch,
                   std::int64_t count) {
    for (std::int64_t m = 0; m < scratch.queries; m += kLanes) {
        float* column = scratch.scores + m;
        const Lanes before = load(task.largest + m);
        Lanes top = before;
        for (std::int64_t j = 0; j < count; ++j)
            top = larger(top, load(column + j * scratch.queries));
        const Lanes shrink = exponential(before - top);
        Lanes total = load(task.sums + m) * shrink;
        for (std::int64_t j = 0; j < count; ++j) {
            const Lanes weight = exponential(load(column + j * scratch.queries) - top);
            store(column + j * scratch.queries, weight);
            total += weight;
        }
        store(task.largest + m, top);
        store(task.sums + m, total);
        store(scratch.shrink + m, shrink);
    }
}

// Scores of all queries against the keys of a tile, [query][key], keys past `count` hidden.
inline void score_few(const strata::AttentionTask& task, const AttentionScratch& scratch,
                      TileRows keys, std::int64_t position, std::int64_t count) {
    const std::int64_t q_row = strata::padded(task.key_dim);
    for (std::int64_t m = 0; m < task.rows * task.group; ++m) {
        const float* q = scratch.q + m * q_row;
        float* scores = scratch.scores + m * strata::kAttentionTile;
        for (std::int64_t j = 0; j < count; j += 4) {
            const float* k = keys.values + j * keys.row;
            Lanes total[4] = {};
            for_lanes(task.key_dim, [&](std::int64_t i, std::int64_t some) {
                const Lanes query = load_some(q + i, some);
                for (std::int64_t l = 0; l < 4; ++l) {
                    total[l] = fused(query, load_some(k + l * keys.row + i, some), total[l]);
                }
            });
            const Quad four = sums(total[0], total[1], total[2], total[3]);
            std::memcpy(scores + j, &four, sizeof four);
        }
        const std::int64_t seen = task.first + m / task.group + 1 - position;
        for (std::int64_t j = seen < count ? seen : count; j < strata::kAttentionTile; ++j) {
            if (j >= 0) scores[j] = kMasked;
        }
    }
}

inline void soften_few(const strata::AttentionTask& task, const AttentionScratch& scratch) {
    for (std::int64_t m = 0; m < task.rows * task.group; ++m) {
        float* scores = scratch.scores + m * strata::kAttentionTile;
        Lanes best = load(scores);
        for (std::int64_t j = kLanes; j < strata::kAttentionTile; j += kLanes) {
            best = larger(best, load(scores + j));
        }
        const float before = task.largest[m];
        float top = before;
        for (std::int64_t l = 0; l < kLanes; ++l) top = best[l] > top ? best[l] : top;
        Lanes total{};
        for (std::int64_t j = 0; j < strata::kAttentionTile; j += kLanes) {
            const Lanes weight = exponential(load(scores + j) - all(top));
            store(scores + j, weight);
            total += weight;
        }
        const float shrink = exponential(all(before - top))[0];
        task.largest[m] = top;
        task.sums[m] = fused(task.sums[m], shrink, sum(total));
        scratch.shrink[m] = shrink;
    }
}

inline void shrink_results(const strata::AttentionTask& task, const AttentionScratch& scratch) {
    for (std::int64_t m = 0; m < task.rows * task.group; ++m) {
        if (scratch.shrink[m] == 1.0F) continue;
        float* weighted = task.weighted + m * task.value_dim;
        scale(weighted, scratch.shrink[m], task.value_dim, weighted);
    }
}

inline void attend(const strata::AttentionTask& task) {
    const AttentionScratch scratch = lay_out(task);
    const std::int64_t queries = task.rows * task.group;
    const bool many = task.one_form || queries >= kManyQueries;
    gather_queries(task, scratch, many ? 1 : strata::padded(task.key_dim),
                   many ? scratch.queries : 1);
    for (std::int64_t m = 0; m < scratch.queries; ++m) {
        task.largest[m] = kMasked;
        task.sums[m] = 0.0F;
    }
    for (std::int64_t i = 0; i < queries * task.value_dim; ++i) task.weighted[i] = 0.0F;

    for (std::int64_t position = task.begin; position < task.end;
         position += strata::kAttentionTile) {
        const std::int64_t left = task.end - position;
        const std::int64_t count = left < strata::kAttentionTile ? left : strata::kAttentionTile;
        const TileRows keys = tile_rows(task, position, count, task.k, task.key_dim, scratch.keys);
        if (many) {
            product(count, scratch.queries, task.key_dim, keys.values, keys.row, 1, scratch.q,
                    scratch.queries, scratch.scores, scratch.queries, false);
            if (position + count - 1 > task.first) mask_future(task, scratch, position, count);
            soften(task, scratch, count);
        } else {
            score_few(task, scratch, keys, position, count);
            soften_few(task, scratch);
        }
        shrink_results(task, scratch);
        const TileRows values =
            tile_rows(task, position, count, task.v, task.value_dim, scratch.values);
        product(queries, task.value_dim, count, scratch.scores, many ? 1 : strata::kAttentionTile,
                many ? scratch.queries : 1, values.values, values.row, task.weighted,
                task.value_dim, true);
    }
}

}  // namespace
