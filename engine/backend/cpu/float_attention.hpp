// Float kernels, part 3: softmax attention over pages, one tile of keys after the other (Milakov
// and Gimelshein 2018, "Online normalizer calculation for softmax"). Included only by
// float_kernels_*.cpp.
//
// Scores lie transposed, [key][query]: the softmax then runs down the tile with one query per lane
// and needs no sums across lanes, and K is read as it is stored.
#pragma once

#include "engine/backend/cpu/float_product.hpp"

namespace {

// Less than any score that finite activations give, and finite itself: differences stay numbers.
constexpr float kMasked = -1.0e30F;

struct AttentionScratch {
    std::int64_t queries;  // padded
    float* q;              // [key_dim][queries], scaled
    float* scores;         // [kAttentionTile][queries]
    float* shrink;         // [queries]
    float* keys;           // [kAttentionTile][padded(key_dim)]
    float* values;         // [kAttentionTile][padded(value_dim)]
};

inline AttentionScratch lay_out(const strata::AttentionTask& task) {
    AttentionScratch out{};
    out.queries = strata::padded(task.rows * task.group);
    out.q = task.scratch;
    out.scores = out.q + task.key_dim * out.queries;
    out.shrink = out.scores + strata::kAttentionTile * out.queries;
    out.keys = out.shrink + out.queries;
    out.values = out.keys + strata::kAttentionTile * strata::padded(task.key_dim);
    return out;
}

inline void gather_queries(const strata::AttentionTask& task, const AttentionScratch& scratch) {
    for (std::int64_t i = 0; i < task.key_dim * scratch.queries; ++i) scratch.q[i] = 0.0F;
    for (std::int64_t t = 0; t < task.rows; ++t) {
        for (std::int64_t h = 0; h < task.group; ++h) {
            const float* from = task.q + t * task.q_row_stride + h * task.q_head_stride;
            float* to = scratch.q + t * task.group + h;
            for (std::int64_t d = 0; d < task.key_dim; ++d) {
                to[d * scratch.queries] = from[d] * task.scale;
            }
        }
    }
}

// Rows [position, position + count) of K or V as f32: where they are, or converted into `room`.
struct TileRows {
    const float* values;
    std::int64_t row;
};

inline TileRows tile_rows(const strata::AttentionTask& task, std::int64_t position,
                          std::int64_t count, std::size_t offset, std::int64_t row,
                          std::int64_t dim, float* room) {
    const std::int64_t page = position / task.page_tokens;
    const char* start = static_cast<const char*>(task.pages[page]) + offset;
    const std::int64_t first = (position - page * task.page_tokens) * row;
    if (!task.half) return {reinterpret_cast<const float*>(start) + first, row};
    const std::uint16_t* halves = reinterpret_cast<const std::uint16_t*>(start) + first;
    const std::int64_t room_row = strata::padded(dim);
    for (std::int64_t j = 0; j < count; ++j)
        from_halves(halves + j * row, dim, room + j * room_row);
    return {room, room_row};
}

// Hides from each query the keys after its own position.
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

inline void attend(const strata::AttentionTask& task) {
    const AttentionScratch scratch = lay_out(task);
    const std::int64_t queries = task.rows * task.group;
    gather_queries(task, scratch);
    for (std::int64_t m = 0; m < scratch.queries; ++m) {
        task.largest[m] = kMasked;
        task.sums[m] = 0.0F;
    }
    for (std::int64_t i = 0; i < queries * task.value_dim; ++i) task.weighted[i] = 0.0F;

    for (std::int64_t position = task.begin; position < task.end;
         position += strata::kAttentionTile) {
        const std::int64_t left = task.end - position;
        const std::int64_t count = left < strata::kAttentionTile ? left : strata::kAttentionTile;
        const TileRows keys =
            tile_rows(task, position, count, task.k_offset, task.k_row, task.key_dim, scratch.keys);
        product(count, scratch.queries, task.key_dim, keys.values, keys.row, 1, scratch.q,
                scratch.queries, scratch.scores, scratch.queries, false);
        if (position + count - 1 > task.first) mask_future(task, scratch, position, count);
        soften(task, scratch, count);
        for (std::int64_t m = 0; m < queries; ++m) {
            if (scratch.shrink[m] == 1.0F) continue;
            float* weighted = task.weighted + m * task.value_dim;
            scale(weighted, scratch.shrink[m], task.value_dim, weighted);
        }
        const TileRows values = tile_rows(task, position, count, task.v_offset, task.v_row,
                                          task.value_dim, scratch.values);
        product(queries, task.value_dim, count, scratch.scores, 1, scratch.queries, values.values,
                values.row, task.weighted, task.value_dim, true);
    }
}

}  // namespace
