// The operations of strata/backend/ops.hpp on one CUDA device. Owns which launch an operation is,
// in which form its inputs are, and the scratch memory between launches; geometry is launch/,
// arithmetic kernels/, the order and the graphs are StepRecorder's.
//
// Invariants
//  1. Steps of up to kProductRowsMax rows, and all steps in exact mode, read weights by kernels of
//     ours: int8 activations for quantised weights, f32 for float ones, one order of sums per row
//     (but for recorded steps, whose rows may be parted among warps).
//     Steps of up to kCodeTileTokensMax rows multiply the codes of quantised weights and rows on
//     tensor cores.
//     Larger ones multiply bf16 values by cuBLAS (f32 where the weight is F32), those of experts
//     by tiles of ours (F32 experts as before).
//  2. A recorded step (one row, not exact) computes a norm inside the products that read it
//     (PendingNorm); it is written to memory only for an operation that reads it in another way.
//     In the same way it prepares and stores the row's q, k and v inside attention (PendingStore).
//  3. A copy of activations in another form (codes, bf16) is used only while the rows that it was
//     made of are unchanged: every operation names what it writes (written()).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <cuda_runtime.h>

#include "engine/backend/cuda/arrivals.hpp"
#include "engine/backend/cuda/cuda_weight.hpp"
#include "engine/backend/cuda/device_memory.hpp"
#include "engine/backend/cuda/launch/attention.hpp"
#include "engine/backend/cuda/launch/chip.hpp"
#include "engine/backend/cuda/launch/code_tiles.hpp"
#include "engine/backend/cuda/launch/products.hpp"
#include "engine/backend/cuda/launch/row_products.hpp"
#include "engine/backend/cuda/launch/rows.hpp"
#include "engine/backend/cuda/library_products.hpp"
#include "engine/backend/cuda/step_memory.hpp"
#include "engine/backend/cuda/step_recorder.hpp"
#include "strata/backend/ops.hpp"

namespace strata::cuda {

class CudaOps final : public Ops {
  public:
    CudaOps(cudaStream_t stream, Chip chip, bool exact, std::unique_ptr<LibraryProducts> library)
        : stream_(stream),
          chip_(chip),
          exact_(exact),
          library_(std::move(library)),
          arrivals_(stream),
          recorder_(stream),
          step_(stream),
          scratch_(stream) {}

    // Enqueues what is still recorded or pending.
    void flush();
    // Memory of the device was written by a copy, or is new: what was derived from it is not true.
    void written_by_copy(const void* at, std::size_t bytes);
    // Operations wait for them as far as they read what they bring.
    Arrivals& arrivals() { return arrivals_; }
    // All work is done.
    void settle() {
        scratch_.trim();
        step_.settle();
    }

    void begin(const Step& step) override;
    void embed(const Weight& table, Rows x) override;
    void rms_norm(Rows x, const float* gain, float epsilon, Rows y) override;
    void add_to_rows(Rows x, const float* v) override;
    void linear(Rows x, std::span<const Projection> projections) override;
    void gated_linear(Rows x, const Weight& gate, const Weight& up, Rows y) override;
    void rope_table(const RopeAngles& angles, float* table) override;
    void store_attention_inputs(const AttentionShape& shape, const QkPreparation& preparation,
                                Rows q, Rows k, Rows v) override;
    void attention(const AttentionShape& shape, Rows q, Rows out) override;
    void moe_route(Rows x, const Weight& router, const RouteRule& rule, Routes routes) override;
    void moe_ffn(Rows x, const Experts& experts, const SharedExpert* shared, Routes routes,
                 Rows y) override;
    void convolution(const ConvolutionShape& shape, Rows u, const float* taps, Rows c) override;
    void delta_rule(const DeltaShape& shape, Rows c, Rows b, Rows alpha, const float* a,
                    const float* dt_bias, Rows o) override;
    void gated_rms_norm(Rows o, Rows z, std::int64_t head_dim, const float* gain, float epsilon,
                        Rows y) override;
    void find_largest(Rows x, std::int32_t* index) override;
    void penalise(Rows x, const TokenCounts* counts, const Penalties& by) override;
    void shortlist(Rows x, const ShortlistRule& rule, Shortlist* list, double* weights) override;

  private:
    bool few(std::int64_t rows) const {
        return exact_ || library_ == nullptr || rows <= kProductRowsMax;
    }
    // So many rows are multiplied with quantised weights as codes, though not one by one.
    bool some(std::int64_t rows) const {
        return !few(rows) && rows <= kCodeTileTokensMax && chip_.multiplies_bf16();
    }
    float* floats(ScratchUse use, std::int64_t count) {
        return static_cast<float*>(
            scratch_.take(use, static_cast<std::size_t>(count) * sizeof(float)));
    }
    // The memory of the other forms of rows of this size.
    QuantisedView code_memory(std::int64_t rows, std::int64_t cols);
    void* bf16_memory(std::int64_t rows, std::int64_t cols);
    // Which other forms an operation that writes y should write too, by what was asked for lately.
    OtherForms forms_for(Rows y);
    // An operation is about to read these rows in memory, or to write them.
    void read(Rows x);
    void written(Rows y);
    struct PendingStore {
        AttentionShape shape;
        QkPreparation preparation;
        Rows q;  // no values: nothing is pending
        Rows k;
        Rows v;
    };
    // A call of the step. What attention has not taken along comes before it.
    template <class Launch>
    void run(const CallKey& key, Launch launch) {
        store_now();
        recorder_.run(key, std::move(launch));
    }
    void store_now();
    void store(const PendingStore& of);
    void await_rows(const AttentionShape& shape);
    void write_norm(Rows x, const float* gain, float epsilon, Rows y);
    bool fuses(Rows x) const { return recorder_.recording() && !exact_ && x.rows == 1; }
    RowInput row_input(Rows x);
    QuantisedView codes_of(Rows x);
    const void* bf16_of(Rows x);

    void few_rows_linear(Rows x, std::span<const Projection> projections);
    void some_rows_linear(Rows x, std::span<const Projection> projections);
    void run_products(Rows x, std::span<const Projection> projections);
    void run_row_products(Rows x, std::span<const Projection> projections);
    void run_row_products_of(Rows x, std::span<const Projection> first,
                             std::span<const Projection> second);
    void many_rows_product(Rows x, const Weight& weight, bool accumulate, float* y,
                           std::int64_t y_stride);
    void many_rows_linear(Rows x, std::span<const Projection> projections);
    void gate_rows(Rows gate, const float* up);
    struct Grouped {
        const std::int32_t* offsets = nullptr;
        const std::int32_t* places = nullptr;
    };
    Grouped group_routes(Routes routes, std::int64_t rows, std::int64_t experts);
    void routed_product(Rows x, const RoutedRows& routed, const Weight& weight,
                        std::int64_t first_row, std::int64_t rows, float* y);
    Rows expert_hidden(Rows x, const Experts& experts, const RoutedRows& routed);
    void row_experts(Rows x, const Experts& experts, Routes routes, Rows y);
    const float* routed_experts(Rows x, const Experts& experts, Routes routes);
    const float* tiled_experts(Rows x, const Experts& experts, Routes routes);
    void add_shared(Rows x, const SharedExpert& shared, std::int64_t cols, MixtureSum& sum);

    cudaStream_t stream_;
    Chip chip_;
    bool exact_;
    std::unique_ptr<LibraryProducts> library_;
    Arrivals arrivals_;
    StepRecorder recorder_;
    StepMemory step_;
    ScratchMemory scratch_;
    std::int64_t rows_ = 0;  // of the step

    struct PendingNorm {
        Rows x;
        const float* gain = nullptr;
        float epsilon = 0.0F;
        Rows y;             // no values: nothing is pending
        bool used = false;  // by a product
    };
    PendingNorm pending_;
    PendingStore storing_;
    Rows coded_;               // rows whose codes are in code_memory()
    Rows halved_;              // rows whose bf16 values are in bf16_memory()
    bool codes_used_ = false;  // a product has asked for codes since the device was made
};

}  // namespace strata::cuda
