// CPU ops on whole rows: embedding, norms, products with weights, the feed-forward gate.
#include <algorithm>
#include <limits>

#include "engine/backend/cpu/cpu_ops.hpp"
#include "strata/core/invariant.hpp"

namespace strata {

namespace {

// Rough costs of one element, in f32 operations: what a piece of work is measured with.
constexpr std::int64_t kNormWork = 4;
constexpr std::int64_t kSigmoidWork = 24;

const PackedWeight& packed(const Weight& weight) {
    return static_cast<const PackedWeight&>(weight);
}

}  // namespace

float* Scratch::floats(std::int64_t count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(float);
    if (memory_.bytes() < bytes) memory_ = AlignedBytes(bytes);
    STRATA_INVARIANT(memory_.bytes() >= bytes);
    return reinterpret_cast<float*>(memory_.get());
}

void CpuOps::begin(const Step& step) {
    STRATA_INVARIANT(!step.ids.empty() && step.first >= 0);
    ids_.assign(step.ids.begin(), step.ids.end());
    first_ = step.first;
    pages_.assign(step.pages.begin(), step.pages.end());
    running_state_ = step.running_state;
}

float* CpuOps::running_state(std::size_t offset) const {
    STRATA_INVARIANT(running_state_ != nullptr);
    return reinterpret_cast<float*>(static_cast<std::byte*>(running_state_) + offset);
}

void CpuOps::embed(const Weight& table, Rows x) {
    STRATA_INVARIANT(x.rows == step_rows() && x.cols == table.cols);
    for_rows(x.rows, 2 * x.cols, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t t = begin; t < end; ++t) {
            const TokenId id = ids_[static_cast<std::size_t>(t)];
            STRATA_INVARIANT(id >= 0 && id < table.rows);
            decode_row(packed(table), id, x.values + t * x.cols);
        }
    });
}

void CpuOps::rms_norm(Rows x, const float* gain, float epsilon, Rows y) {
    STRATA_INVARIANT(x.rows == y.rows && x.cols == y.cols);
    for_rows(x.rows, kNormWork * x.cols, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t t = begin; t < end; ++t) {
            kernels_.rms_norm(x.values + t * x.cols, gain, epsilon, x.cols, y.values + t * x.cols);
        }
    });
}

void CpuOps::add_to_rows(Rows x, const float* v) {
    for_rows(x.rows, 2 * x.cols, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t t = begin; t < end; ++t) {
            kernels_.add_scaled(v, 1.0F, x.cols, x.values + t * x.cols);
        }
    });
}

void CpuOps::linear(Rows x, std::span<const Projection> projections) {
    products_.clear();
    for (const Projection& one : projections) {
        STRATA_INVARIANT(one.y.rows == x.rows && one.y.cols == one.weight->rows);
        products_.push_back({&packed(*one.weight), 0, one.y, one.accumulate, one.bias});
    }
    matmul(pool_, matmul_scratch_, x, products_);
}

void CpuOps::gated_linear(Rows x, const Weight& gate, const Weight& up, Rows y) {
    const Rows up_rows{up_.floats(y.rows * y.cols), y.rows, y.cols};
    products_.assign(
        {{&packed(gate), 0, y, false, nullptr}, {&packed(up), 0, up_rows, false, nullptr}});
    matmul(pool_, matmul_scratch_, x, products_);
    swiglu_rows(y, up_rows.values, up_rows.cols);
}

void CpuOps::swiglu_rows(Rows gate, const float* up, std::int64_t up_stride) {
    for_rows(gate.rows, kSigmoidWork * gate.cols, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t t = begin; t < end; ++t) {
            kernels_.swiglu(gate.values + t * gate.cols, up + t * up_stride, gate.cols);
        }
    });
}

void CpuOps::gated_rms_norm(Rows o, Rows z, std::int64_t head_dim, const float* gain, float epsilon,
                            Rows y) {
    STRATA_INVARIANT(o.cols % head_dim == 0 && z.cols == o.cols && y.cols == o.cols);
    for_rows(o.rows, kSigmoidWork * o.cols, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin * o.cols; i < end * o.cols; i += head_dim) {
            kernels_.gated_rms_norm(o.values + i, z.values + i, gain, epsilon, head_dim,
                                    y.values + i);
        }
    });
}

void CpuOps::find_largest(Rows x, std::int32_t* index) {
    STRATA_INVARIANT(x.rows == 1 && x.cols <= std::numeric_limits<std::int32_t>::max());
    *index = static_cast<std::int32_t>(kernels_.find_largest(x.values, x.cols));
}

}  // namespace strata
