// Float kernels, part 2: small matrix products, held in registers. Included only by
// float_kernels_*.cpp.
#pragma once

#include "engine/backend/cpu/float_rows.hpp"

namespace {

struct Matrix {
    const float* values;
    std::int64_t row;     // elements from row to row
    std::int64_t column;  // and from column to column
};

// Accumulators of one tile: 16 of 32 registers with AVX-512, 8 of 16 otherwise.
constexpr std::int64_t kTileHeight = 4;
constexpr std::int64_t kTileVectors = kLanes == 16 ? 4 : 2;

template <std::int64_t kRows, std::int64_t kVectors>
inline void product_tile(std::int64_t k, Matrix a, const float* b, std::int64_t b_row, float* c,
                         std::int64_t c_row, bool accumulate) {
    // Zeroes first and c added last: so the sums never leave their registers.
    Lanes total[kRows][kVectors] = {};
    for (std::int64_t j = 0; j < k; ++j) {
        Lanes right[kVectors];
        for (std::int64_t v = 0; v < kVectors; ++v) right[v] = load(b + j * b_row + v * kLanes);
        for (std::int64_t i = 0; i < kRows; ++i) {
            const Lanes left = all(a.values[i * a.row + j * a.column]);
            for (std::int64_t v = 0; v < kVectors; ++v) {
                total[i][v] = fused(left, right[v], total[i][v]);
            }
        }
    }
    for (std::int64_t i = 0; i < kRows; ++i) {
        for (std::int64_t v = 0; v < kVectors; ++v) {
            float* to = c + i * c_row + v * kLanes;
            store(to, accumulate ? load(to) + total[i][v] : total[i][v]);
        }
    }
}

template <std::int64_t kRows>
inline void product_rows(std::int64_t n, std::int64_t k, Matrix a, const float* b,
                         std::int64_t b_row, float* c, std::int64_t c_row, bool accumulate) {
    constexpr std::int64_t kWide = kTileVectors * kLanes;
    std::int64_t j = 0;
    for (; j + kWide <= n; j += kWide) {
        product_tile<kRows, kTileVectors>(k, a, b + j, b_row, c + j, c_row, accumulate);
    }
    if constexpr (kTileVectors > 2) {
        for (; j + 2 * kLanes <= n; j += 2 * kLanes) {
            product_tile<kRows, 2>(k, a, b + j, b_row, c + j, c_row, accumulate);
        }
    }
    for (; j + kLanes <= n; j += kLanes) {
        product_tile<kRows, 1>(k, a, b + j, b_row, c + j, c_row, accumulate);
    }
    for (; j < n; ++j) {
        for (std::int64_t i = 0; i < kRows; ++i) {
            float total = accumulate ? c[i * c_row + j] : 0.0F;
            for (std::int64_t l = 0; l < k; ++l) {
                total = fused(a.values[i * a.row + l * a.column], b[l * b_row + j], total);
            }
            c[i * c_row + j] = total;
        }
    }
}

inline void product(std::int64_t m, std::int64_t n, std::int64_t k, const float* a,
                    std::int64_t a_row, std::int64_t a_column, const float* b, std::int64_t b_row,
                    float* c, std::int64_t c_row, bool accumulate) {
    std::int64_t i = 0;
    for (; i + kTileHeight <= m; i += kTileHeight) {
        product_rows<kTileHeight>(n, k, {a + i * a_row, a_row, a_column}, b, b_row, c + i * c_row,
                                  c_row, accumulate);
    }
    for (; i < m; ++i) {
        product_rows<1>(n, k, {a + i * a_row, a_row, a_column}, b, b_row, c + i * c_row, c_row,
                        accumulate);
    }
}

}  // namespace
