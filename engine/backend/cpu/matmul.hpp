// Products of activations with weights: y = x * W^T, the bulk of the work of a model. Owns how the
// work is cut into pieces and shared among threads; layouts are packed_weight.hpp, arithmetic
// kernels.hpp.
//
// Numbers: weights of type f32, f16 and bf16 multiply f32 activations in f32. For every other type
// the activations are rounded to int8 per 32 elements with an f32 scale, products are summed as
// integers within a block (or half a block where the type has a scale per 16), and blocks are added
// in f32.
//
// Invariants
//  1. An output element is the same bits for any number of rows in x, threads, and products at
//  once.
//  2. A NaN or an infinity in a row of x reaches that row of y and no other.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/backend/cpu/aligned_bytes.hpp"
#include "engine/backend/cpu/packed_weight.hpp"
#include "engine/backend/cpu/thread_pool.hpp"
#include "strata/backend/tensor.hpp"

namespace strata {

// One of several weights that multiply the same x.
struct Product {
    const PackedWeight* weight = nullptr;  // cols = x.cols
    std::int64_t expert = 0;
    Rows y;                       // x.rows x weight->rows, contiguous
    bool accumulate = false;      // add to y instead of writing it
    const float* bias = nullptr;  // [weight->rows], added to every row; null = none
};

// The rows of x that go through one expert: y.row(to[i]) = W[expert] * x.row(from[i]).
struct ExpertRows {
    std::int64_t expert = 0;
    std::span<const std::int32_t> from;  // rows of x
    std::span<const std::int32_t> to;    // rows of y, as many as `from`; distinct over all groups
};

// One of several 3-D weights that share a routing (gate and up).
struct ExpertProduct {
    const PackedWeight* weight = nullptr;
    Rows y;
};

// Memory that products need between calls. One per caller of matmul; grows to the largest call.
class MatmulScratch {
  public:
    struct Segment {  // pieces of one weight and one list of rows
        const PackedWeight* weight = nullptr;
        const std::byte* tiles = nullptr;
        const std::byte* const* x = nullptr;
        float* const* y = nullptr;
        const float* bias = nullptr;
        float scale = 1.0F;  // Weight::scale_of the expert
        std::int64_t tokens = 0;
        std::int64_t tiles_per_piece = 1;
        std::int64_t tokens_per_piece = 1;
        std::int64_t first_piece = 0;
        bool accumulate = false;
    };

    AlignedBytes activations;  // quantised rows of x
    AlignedBytes decoded;      // one tile of CodeBlocks per thread
    std::vector<const std::byte*> x_rows;
    std::vector<float*> y_rows;
    std::vector<Segment> segments;
};

// All products of one x in one parallel region; x is quantised once.
void matmul(ThreadPool& pool, MatmulScratch& scratch, Rows x, std::span<const Product> products);

// One product.
void matmul(ThreadPool& pool, MatmulScratch& scratch, const PackedWeight& weight,
            std::int64_t expert, Rows x, Rows y, bool accumulate);

// Mixture of experts: every group of rows through its expert, for each of the weights.
void matmul_experts(ThreadPool& pool, MatmulScratch& scratch, Rows x,
                    std::span<const ExpertRows> groups, std::span<const ExpertProduct> products);

}  // namespace strata
