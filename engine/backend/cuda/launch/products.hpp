// Launches of products with a few rows of activations: every weight is read once for up to
// kProductRowsMax rows. A row's result does not depend on how many rows there are.
#pragma once

#include <cstdint>
#include <span>

#include <cuda_runtime.h>

#include "engine/backend/cuda/weight_planes.hpp"
#include "strata/backend/ops.hpp"

namespace strata::cuda {

constexpr std::int64_t kProductRowsMax = 8;
constexpr int kProductPartsMax = 4;

// int8 codes of activations (kernels/weight_groups.cuh, QuantisedRows).
struct QuantisedView {
    std::int8_t* codes = nullptr;
    float2* scaled = nullptr;
};

// The activations of a product: f32 for float weights, int8 for quantised ones.
struct ProductInput {
    Rows x;
    QuantisedView quantised;
};

struct ProductPart {
    Planes planes;
    std::int64_t rows = 0;
    float* y = nullptr;           // [x.rows][rows]
    const float* bias = nullptr;  // [rows]; null = none
    float scale = 1.0F;
    bool accumulate = false;
};

// Parts of one type. x.rows <= kProductRowsMax.
void launch_products(cudaStream_t stream, ElementType type, const ProductInput& input,
                     std::span<const ProductPart> parts);

// Products of (token, rank) pairs with the weights of their experts. Pair p belongs to token
// p / used.
struct RoutedRows {
    const std::int32_t* experts = nullptr;  // [pairs]: of each pair
    const std::int32_t* offsets = nullptr;  // [experts + 1] and [pairs]: launch_group_routes();
    const std::int32_t* places = nullptr;   // null: pair by pair
    std::int64_t pairs = 0;
    std::int64_t expert_count = 0;
    std::int64_t x_rows_per = 1;  // pair p reads row p / x_rows_per of x
};
struct RoutedWeight {
    Planes planes;
    std::int64_t rows = 0;                 // of one expert
    std::int64_t first_row = 0;            // of these, where this product's rows begin
    const float* expert_scales = nullptr;  // on the device; null = `scale` for all
    float scale = 1.0F;
};
// y[pair][0 .. rows): `rows` rows of the pair's expert from first_row on.
void launch_routed_product(cudaStream_t stream, ElementType type, const ProductInput& input,
                           const RoutedRows& routed, const RoutedWeight& weight, std::int64_t rows,
                           float* y);

// x as int8 codes per group of 32 columns.
void launch_quantise(cudaStream_t stream, Rows x, const QuantisedView& out);

}  // namespace strata::cuda
