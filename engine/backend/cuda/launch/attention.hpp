// Launches of the attention operations (formulas: strata/backend/ops.hpp). Everything is enqueued
// on `stream`; positions and pages are read on the device from `step`.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "strata/backend/ops.hpp"

namespace strata::cuda {

struct StepView;

void launch_rope_table(cudaStream_t stream, const StepView& step, std::int64_t rows,
                       const double* frequencies, std::int64_t pairs, float magnitude,
                       float* table);

void launch_store_attention_inputs(cudaStream_t stream, const StepView& step,
                                   const AttentionShape& shape, const QkPreparation& preparation,
                                   Rows q, Rows k, Rows v);

struct AttentionScratch {
    float* partials = nullptr;     // attention_partial_floats()
    unsigned* counters = nullptr;  // attention_counters(); zero, and left zero by every launch
    int multiprocessors = 1;
};
// Scratch that a step of `rows` tokens needs.
[[nodiscard]] std::int64_t attention_partial_floats(const AttentionShape& shape, std::int64_t rows,
                                                    int multiprocessors, bool exact);
[[nodiscard]] std::int64_t attention_counters(const AttentionShape& shape, std::int64_t rows);

// Steps of at least this many rows take tensor-core tiles in half precision where K and V are f16
// or int8 and heads have 64, 128 or 256 elements, unless `exact`: results are within 2e-3 of the
// formula instead of 2e-5.
inline constexpr std::int64_t kTiledRowsMin = 9;

// What a step of one row gives attention to prepare and to store by itself.
struct FreshRow {
    Rows k;
    Rows v;
    QkPreparation preparation;
};
// True when launch_attention() can do what launch_store_attention_inputs() does, too.
[[nodiscard]] bool stores_fresh_row(const AttentionShape& shape, Rows q, Rows out);

// `exact`: a row's bits do not depend on which rows are in the same step. `fresh`: q and it are as
// the products gave them; null: prepared and stored.
void launch_attention(cudaStream_t stream, const StepView& step, const AttentionShape& shape,
                      Rows q, Rows out, const AttentionScratch& scratch, bool exact,
                      const FreshRow* fresh = nullptr);

}  // namespace strata::cuda
