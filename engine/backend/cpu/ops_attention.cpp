// CPU ops of attention: rotary angles, the preparation and storing of K and V, and the attention
// itself.
//
// A task of attention is (block of query rows, K/V head, part of the positions). Positions are
// parted only for steps of few rows, always at the same places, and the parts are combined in
// order, so that a result does not depend on the number of threads. In exact mode positions are
// always parted, page by page, and scores have one form: a row's result does not depend on the rows
// beside it.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/backend/cpu/cpu_ops.hpp"
#include "strata/core/invariant.hpp"
#include "strata/core/types.hpp"

namespace strata {
namespace {

// Queries (rows x heads of a group) of one task: enough to pay for converting a tile of K and V,
// few enough that scores and results stay in the second-level cache.
constexpr std::int64_t kTaskQueries = 64;
// Positions of one part when a step has few rows.
constexpr std::int64_t kPartPositions = 512;
// Exact mode: results of all pages at once, 64 MiB; the more pages, the fewer rows go together.
constexpr std::int64_t kExactResultFloatsMax = 1 << 24;
constexpr std::int64_t kSineWork = 64;  // f32 operations that one f64 sine is worth
constexpr std::int64_t kHeadWork = 8;   // per element: norm, rotation, store

static_assert(kPageTokens % kAttentionTile == 0 && kPartPositions % kAttentionTile == 0);

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

std::int64_t rows_per_block(const AttentionShape& shape) {
    return std::max<std::int64_t>(1, kTaskQueries / (shape.heads / shape.kv_heads));
}

// In exact mode each row has results of every page: rows that are computed at once, at most a
// block.
std::int64_t exact_rows(const AttentionShape& shape, Position end) {
    const std::int64_t row_floats = divide_up(end, kPageTokens) * shape.heads * shape.value_dim;
    return std::clamp<std::int64_t>(kExactResultFloatsMax / row_floats, 1, rows_per_block(shape));
}

// Where K/V head `head` lies in a page whose rows of this kind begin at `offset`.
HeadRows head_rows(const KvRows& rows, std::size_t offset, std::int64_t head) {
    HeadRows out;
    out.offset = offset + rows.head_offset(head);
    if (rows.type == KvType::int8) out.scale = offset + rows.scale_offset(head);
    out.row_bytes = rows.row_bytes();
    return out;
}

}  // namespace

// Of some rows of a step.
struct CpuOps::AttentionPlan {
    Position first = 0;  // position of the first of them
    std::int64_t rows_per_block = 1;
    std::int64_t blocks = 1;
    std::int64_t parts = 1;
    std::int64_t part_positions = kPartPositions;
    std::int64_t queries = 1;        // of a block
    std::int64_t result_floats = 0;  // of a task
    std::int64_t worker_floats = 0;
    float* results = nullptr;
    float* workers = nullptr;

    float* weighted(std::int64_t task) const { return results + task * result_floats; }
    float* largest(std::int64_t task) const {
        return weighted(task) + result_floats - 2 * padded(queries);
    }
    float* sums(std::int64_t task) const {
        return weighted(task) + result_floats - padded(queries);
    }
};

void CpuOps::rope_table(const RopeAngles& angles, float* table) {
    const std::int64_t pairs = angles.pairs;
    for_rows(step_rows(), kSineWork * pairs, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t t = begin; t < end; ++t) {
            for (std::int64_t i = 0; i < pairs; ++i) {
                const double angle = static_cast<double>(first_ + t) * angles.frequencies[i];
                float* pair = table + 2 * (t * pairs + i);
                pair[0] = angles.magnitude * static_cast<float>(std::cos(angle));
                pair[1] = angles.magnitude * static_cast<float>(std::sin(angle));
            }
        }
    });
}

void CpuOps::prepare_heads(const QkPreparation& preparation, const float* gain, const float* angles,
                           std::int64_t heads, std::int64_t stride, std::int64_t dim,
                           float* row) const {
    for (std::int64_t h = 0; h < heads; ++h) {
        float* head = row + h * stride;
        if (gain != nullptr) kernels_.rms_norm(head, gain, preparation.epsilon, dim, head);
        if (preparation.pairing == RotaryPairs::adjacent) {
            kernels_.rotate_adjacent(head, angles, preparation.rope_pairs);
        } else {
            kernels_.rotate_halves(head, angles, preparation.rope_pairs);
        }
    }
}

void CpuOps::store_row(const AttentionShape& shape, Position position, const float* k,
                       const float* v) const {
    std::byte* page =
        static_cast<std::byte*>(pages_[static_cast<std::size_t>(position / kPageTokens)]);
    const auto row = static_cast<std::size_t>(position % kPageTokens);
    const auto store = [&](const float* from, const KvRows& rows, std::size_t offset) {
        std::byte* to = page + offset + row * rows.row_bytes();
        switch (rows.type) {
            case KvType::f32:
                std::memcpy(to, from, rows.row_bytes());
                return;
            case KvType::f16:
                kernels_.to_halves(from, rows.heads * rows.dim,
                                   reinterpret_cast<std::uint16_t*>(to));
                return;
            case KvType::int8:
                store_codes(from, rows, to);
        }
    };
    store(k, shape.k_rows(), shape.k_offset);
    store(v, shape.v_rows(), shape.v_offset);
}

void CpuOps::store_codes(const float* from, const KvRows& rows, std::byte* to) const {
    for (std::int64_t head = 0; head < rows.heads; ++head) {
        auto* codes = reinterpret_cast<std::int8_t*>(to + rows.head_offset(head));
        const float scale = kernels_.to_codes(from + head * rows.dim, rows.dim, codes);
        std::memcpy(to + rows.scale_offset(head), &scale, sizeof scale);
    }
    const std::size_t end = rows.head_offset(rows.heads);
    std::memset(to + end, 0, rows.scale_offset(0) - end);
}

void CpuOps::store_attention_inputs(const AttentionShape& shape, const QkPreparation& preparation,
                                    Rows q, Rows k, Rows v) {
    STRATA_INVARIANT(q.rows == step_rows() && q.cols == shape.heads * shape.query_stride());
    STRATA_INVARIANT(k.cols == shape.kv_heads * shape.key_dim);
    STRATA_INVARIANT(v.cols == shape.kv_heads * shape.value_dim);
    STRATA_INVARIANT(2 * preparation.rope_pairs <= shape.key_dim);
    STRATA_INVARIANT(static_cast<Position>(pages_.size()) * kPageTokens >= first_ + q.rows);
    for_rows(q.rows, kHeadWork * (q.cols + k.cols + v.cols),
             [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t t = begin; t < end; ++t) {
                     const float* angles = preparation.rope_table + 2 * t * preparation.rope_pairs;
                     float* keys = k.values + t * k.cols;
                     prepare_heads(preparation, preparation.q_gain, angles, shape.heads,
                                   shape.query_stride(), shape.key_dim, q.values + t * q.cols);
                     prepare_heads(preparation, preparation.k_gain, angles, shape.kv_heads,
                                   shape.key_dim, shape.key_dim, keys);
                     store_row(shape, first_ + t, keys, v.values + t * v.cols);
                 }
             });
}

CpuOps::AttentionPlan CpuOps::plan_attention(const AttentionShape& shape, Position first,
                                             std::int64_t rows) {
    const std::int64_t group = shape.heads / shape.kv_heads;
    AttentionPlan plan;
    plan.first = first;
    plan.rows_per_block = rows_per_block(shape);
    plan.blocks = divide_up(rows, plan.rows_per_block);
    if (exact_) plan.part_positions = kPageTokens;
    plan.parts = plan.blocks == 1 ? divide_up(first + rows, plan.part_positions) : 1;
    plan.queries = std::min(plan.rows_per_block, rows) * group;
    plan.result_floats = padded(plan.queries * shape.value_dim) + 2 * padded(plan.queries);
    plan.worker_floats = attention_scratch(plan.queries, shape.key_dim, shape.value_dim);
    plan.results =
        attention_results_.floats(plan.blocks * shape.kv_heads * plan.parts * plan.result_floats);
    plan.workers = attention_workers_.floats(pool_.threads() * plan.worker_floats);
    return plan;
}

void CpuOps::run_attention_task(const AttentionShape& shape, const AttentionPlan& plan,
                                std::int64_t task, int worker, Rows q) const {
    const std::int64_t part = task % plan.parts;
    const std::int64_t head = task / plan.parts % shape.kv_heads;
    const std::int64_t row = task / plan.parts / shape.kv_heads * plan.rows_per_block;
    const std::int64_t group = shape.heads / shape.kv_heads;
    AttentionTask one;
    one.rows = std::min(plan.rows_per_block, q.rows - row);
    one.group = group;
    one.q = q.values + row * q.cols + head * group * shape.query_stride();
    one.q_row_stride = q.cols;
    one.q_head_stride = shape.query_stride();
    one.first = plan.first + row;
    one.one_form = exact_;
    one.begin = part * plan.part_positions;
    one.end = one.first + one.rows;
    if (plan.parts > 1) one.end = std::min(one.end, one.begin + plan.part_positions);
    one.pages = pages_.data();
    one.page_tokens = kPageTokens;
    one.kv_type = shape.kv_type;
    one.k = head_rows(shape.k_rows(), shape.k_offset, head);
    one.v = head_rows(shape.v_rows(), shape.v_offset, head);
    one.key_dim = shape.key_dim;
    one.value_dim = shape.value_dim;
    one.scale = shape.scale;
    one.scratch = plan.workers + worker * plan.worker_floats;
    one.weighted = plan.weighted(task);
    one.largest = plan.largest(task);
    one.sums = plan.sums(task);
    kernels_.attend(one);
}

// Rows of `out` from the results of their tasks, parts weighted by exp(largest - largest of all).
void CpuOps::combine_attention(const AttentionShape& shape, const AttentionPlan& plan, Rows q,
                               Rows out) const {
    const std::int64_t group = shape.heads / shape.kv_heads;
    pool_.parallel_for(
        q.rows, std::max<std::int64_t>(1, kPieceWork / out.cols),
        [&](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t i = begin * shape.heads; i < end * shape.heads; ++i) {
                const std::int64_t t = i / shape.heads;
                const std::int64_t head = i % shape.heads;
                const std::int64_t query = t % plan.rows_per_block * group + head % group;
                const std::int64_t task =
                    (t / plan.rows_per_block * shape.kv_heads + head / group) * plan.parts;
                // A part that begins behind the row's own position has nothing for it.
                const std::int64_t parts =
                    std::min(plan.parts, divide_up(plan.first + t + 1, plan.part_positions));
                float top = plan.largest(task)[query];
                for (std::int64_t p = 1; p < parts; ++p) {
                    top = std::max(top, plan.largest(task + p)[query]);
                }
                float total = 0.0F;
                for (std::int64_t p = 0; p < parts; ++p) {
                    total +=
                        plan.sums(task + p)[query] * std::exp(plan.largest(task + p)[query] - top);
                }
                float* to = out.values + t * out.cols + head * shape.value_dim;
                for (std::int64_t p = 0; p < parts; ++p) {
                    const float share = std::exp(plan.largest(task + p)[query] - top) / total;
                    const float* from = plan.weighted(task + p) + query * shape.value_dim;
                    if (p == 0) {
                        kernels_.scale(from, share, shape.value_dim, to);
                    } else {
                        kernels_.add_scaled(from, share, shape.value_dim, to);
                    }
                }
                if (shape.gated) {
                    const float* gate =
                        q.values + t * q.cols + head * shape.query_stride() + shape.key_dim;
                    kernels_.sigmoid_gate(to, gate, shape.value_dim, to);
                }
            }
        });
}

void CpuOps::attention(const AttentionShape& shape, Rows q, Rows out) {
    STRATA_INVARIANT(q.rows == step_rows() && out.rows == q.rows);
    STRATA_INVARIANT(q.cols == shape.heads * shape.query_stride());
    STRATA_INVARIANT(out.cols == shape.heads * shape.value_dim);
    const std::int64_t most = exact_ ? exact_rows(shape, first_ + q.rows) : q.rows;
    for (std::int64_t row = 0; row < q.rows; row += most) {
        const std::int64_t rows = std::min(most, q.rows - row);
        attend_rows(shape, first_ + row, {q.values + row * q.cols, rows, q.cols},
                    {out.values + row * out.cols, rows, out.cols});
    }
}

void CpuOps::attend_rows(const AttentionShape& shape, Position first, Rows q, Rows out) {
    const AttentionPlan plan = plan_attention(shape, first, q.rows);
    pool_.parallel_for(plan.blocks * shape.kv_heads * plan.parts, 1,
                       [&](std::int64_t begin, std::int64_t end, int worker) {
                           for (std::int64_t task = begin; task < end; ++task) {
                               run_attention_task(shape, plan, task, worker, q);
                           }
                       });
    combine_attention(shape, plan, q, out);
}

}  // namespace strata
