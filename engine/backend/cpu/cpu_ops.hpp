// The operations of include/strata/backend/ops.hpp on this machine's threads. Owns the cutting of
// an operation into pieces and the scratch memory of its pieces; loops over elements are
// float_kernels.hpp, products with weights are matmul.hpp.
//
// Invariants
//  1. Work is done when a call returns.
//  2. A result depends on the step alone, never on the number of threads.
//  3. In exact mode a row's result depends on the rows before it alone, never on which of them are
//     in the same step. The forms that are chosen by a step's size are attention's and the delta
//     rule's: there one form is taken for all sizes.
//  4. Every Weight handed in was made by pack_weight() for the same instruction set.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/cpu/aligned_bytes.hpp"
#include "engine/backend/cpu/float_kernels.hpp"
#include "engine/backend/cpu/matmul.hpp"
#include "engine/backend/cpu/thread_pool.hpp"
#include "strata/backend/ops.hpp"

namespace strata {

// Memory for one kind of intermediate result; grows to the largest step and keeps its size.
class Scratch {
  public:
    // Room for `count` floats on a cache line boundary. What was in it before is lost.
    float* floats(std::int64_t count);

  private:
    AlignedBytes memory_;
};

class CpuOps final : public Ops {
  public:
    // `exact`: CpuDeviceOptions.
    CpuOps(ThreadPool& pool, Isa isa, bool exact)
        : pool_(pool), kernels_(float_kernels(isa)), exact_(exact) {}

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
    struct AttentionPlan;

    std::int64_t step_rows() const { return static_cast<std::int64_t>(ids_.size()); }
    // Pieces of `rows` rows of `row_work` f32 operations each: small loops stay on this thread.
    template <class Fn>
    void for_rows(std::int64_t rows, std::int64_t row_work, const Fn& fn);
    float* running_state(std::size_t offset) const;

    void prepare_heads(const QkPreparation& preparation, const float* gain, const float* angles,
                       std::int64_t heads, std::int64_t stride, std::int64_t dim, float* row) const;
    void store_row(const AttentionShape& shape, Position position, const float* k,
                   const float* v) const;
    void store_codes(const float* from, const KvRows& rows, std::byte* to) const;
    AttentionPlan plan_attention(const AttentionShape& shape, Position first, std::int64_t rows);
    void attend_rows(const AttentionShape& shape, Position first, Rows q, Rows out);
    void run_attention_task(const AttentionShape& shape, const AttentionPlan& plan,
                            std::int64_t task, int worker, Rows q) const;
    void combine_attention(const AttentionShape& shape, const AttentionPlan& plan, Rows q,
                           Rows out) const;

    void list_largest(Rows x, std::int64_t wanted, std::span<float> maxima, Shortlist& list);

    void swiglu_rows(Rows gate, const float* up, std::int64_t up_stride);
    void group_routes(Routes routes, std::int64_t rows, std::int64_t experts);
    float* expert_hidden(Rows x, const Experts& experts, Routes routes);
    void add_shared_expert(Rows x, const SharedExpert& shared, Rows y);

    ThreadPool& pool_;
    const FloatKernels& kernels_;
    const bool exact_;
    MatmulScratch matmul_scratch_;

    // The step, copied by begin().
    std::vector<TokenId> ids_;
    Position first_ = 0;
    std::vector<void*> pages_;
    void* running_state_ = nullptr;

    std::vector<Product> products_;
    Scratch up_;
    Scratch attention_results_;
    Scratch attention_workers_;
    Scratch router_scores_;
    Scratch expert_results_;
    Scratch shared_hidden_;
    Scratch shared_results_;
    Scratch delta_gates_;
    Scratch delta_workers_;
    Scratch window_;
    Scratch maxima_;
    std::vector<std::int32_t> route_rows_;    // rows of x in expert order
    std::vector<std::int32_t> route_places_;  // rows of hidden and results: row * used + rank
    std::vector<ExpertRows> expert_rows_;
    std::vector<ExpertRows> expert_places_;
};

// Handing out a piece and waiting for the last one costs about a microsecond: less work than this,
// also about a microsecond, stays on one thread.
inline constexpr std::int64_t kPieceWork = 1 << 14;  // f32 operations
// More pieces than threads, so that a thread that is held up does not hold up the rest.
inline constexpr std::int64_t kPiecesPerThread = 4;

template <class Fn>
void CpuOps::for_rows(std::int64_t rows, std::int64_t row_work, const Fn& fn) {
    const std::int64_t most = pool_.threads() * kPiecesPerThread;
    const std::int64_t pieces = std::clamp<std::int64_t>(rows * row_work / kPieceWork, 1, most);
    pool_.parallel_for(rows, (rows + pieces - 1) / pieces, fn);
}

}  // namespace strata
