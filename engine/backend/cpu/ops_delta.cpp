// CPU ops of Gated DeltaNet layers: the causal convolution with its window, and the delta rule.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "engine/backend/cpu/cpu_ops.hpp"
#include "strata/core/invariant.hpp"

namespace strata {
namespace {

constexpr std::int64_t kConvolutionTapsMax = 16;  // released models have 4
constexpr std::int64_t kStateWork = 4;     // f32 operations per element of the state and token
constexpr std::int64_t kChannelWork = 32;  // f32 operations per channel: taps and a sigmoid
// From this many tokens on a chunk is computed at once (measured: with heads of 128 as fast as
// token by token at 4, half as long at 32; with heads of 64 never slower by much).
constexpr std::int64_t kChunkTokensMin = 8;
constexpr float kSoftplusLinearFrom = 20.0F;  // where log(1 + e^x) = x in f32

float sigmoid(float x) {
    return 1.0F / (1.0F + std::exp(-x));
}

float softplus(float x) {
    return x > kSoftplusLinearFrom ? x : std::log1p(std::exp(x));
}

}  // namespace

void CpuOps::convolution(const ConvolutionShape& shape, Rows u, const float* taps, Rows c) {
    STRATA_INVARIANT(shape.kernel >= 1 && shape.kernel <= kConvolutionTapsMax);
    STRATA_INVARIANT(u.rows == step_rows() && u.cols == shape.channels && c.cols == u.cols);
    const std::int64_t past = shape.kernel - 1;
    float* window = running_state(shape.state_offset);
    for_rows(u.rows, kChannelWork * u.cols, [&](std::int64_t begin, std::int64_t end, int) {
        std::array<const float*, kConvolutionTapsMax> rows{};
        for (std::int64_t t = begin; t < end; ++t) {
            for (std::int64_t j = 0; j <= past; ++j) {
                const std::int64_t row = t - past + j;
                rows[static_cast<std::size_t>(j)] =
                    row < 0 ? window + (row + past) * u.cols : u.values + row * u.cols;
            }
            kernels_.convolve(rows.data(), taps, shape.kernel, u.cols, c.values + t * u.cols);
        }
    });
    const std::int64_t kept = std::max<std::int64_t>(0, past - u.rows);
    const std::size_t row_bytes = static_cast<std::size_t>(u.cols) * sizeof(float);
    std::memmove(window, window + (past - kept) * u.cols,
                 static_cast<std::size_t>(kept) * row_bytes);
    std::memcpy(window + kept * u.cols, u.values + (u.rows - (past - kept)) * u.cols,
                static_cast<std::size_t>(past - kept) * row_bytes);
}

void CpuOps::delta_rule(const DeltaShape& shape, Rows c, Rows b, Rows alpha, const float* a,
                        const float* dt_bias, Rows o) {
    const std::int64_t keys = shape.key_heads * shape.key_dim;
    const std::int64_t heads = shape.value_heads;
    STRATA_INVARIANT(c.rows == step_rows() && c.cols == 2 * keys + heads * shape.value_dim);
    STRATA_INVARIANT(o.rows == c.rows && o.cols == heads * shape.value_dim);
    STRATA_INVARIANT(heads % shape.key_heads == 0);
    const std::int64_t worker_floats = delta_scratch(shape.key_dim, shape.value_dim);
    float* workers = delta_workers_.floats(pool_.threads() * worker_floats);
    float* betas = delta_gates_.floats(2 * heads * c.rows);
    float* decays = betas + heads * c.rows;
    float* state = running_state(shape.state_offset);

    const auto run_head = [&](std::int64_t head, int worker) {
        const std::int64_t key_head = shape.map == HeadMap::grouped
                                          ? head / (heads / shape.key_heads)
                                          : head % shape.key_heads;
        DeltaTask task;
        task.row_stride = c.cols;
        task.key_dim = shape.key_dim;
        task.value_dim = shape.value_dim;
        task.state = state + head * shape.key_dim * shape.value_dim;
        task.o_stride = o.cols;
        task.scratch = workers + worker * worker_floats;
        for (std::int64_t t = 0; t < c.rows; ++t) {
            betas[head * c.rows + t] = sigmoid(b.values[t * heads + head]);
            decays[head * c.rows + t] =
                a[head] * softplus(alpha.values[t * heads + head] + dt_bias[head]);
        }
        for (std::int64_t t = 0; t < c.rows; t += task.tokens) {
            task.tokens = std::min(kDeltaChunk, c.rows - t);
            task.q = c.values + t * c.cols + key_head * shape.key_dim;
            task.k = task.q + keys;
            task.v = c.values + t * c.cols + 2 * keys + head * shape.value_dim;
            task.beta = betas + head * c.rows + t;
            task.decay = decays + head * c.rows + t;
            task.o = o.values + t * o.cols + head * shape.value_dim;
            const bool one_by_one = exact_ || task.tokens < kChunkTokensMin;
            (one_by_one ? kernels_.delta_tokens : kernels_.delta_chunk)(task);
        }
    };
    const std::int64_t head_work = kStateWork * c.rows * shape.key_dim * shape.value_dim;
    for_rows(heads, head_work, [&](std::int64_t begin, std::int64_t end, int worker) {
        for (std::int64_t head = begin; head < end; ++head) run_head(head, worker);
    });
}

}  // namespace strata
