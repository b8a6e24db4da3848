// Products of quantised weights with some rows of activations, on tensor cores: a block computes 32
// weight rows with up to kTokens tokens. Weights become int8 codes in shared memory, the codes of
// activations are there as they are; products of a group are whole numbers, which scales make
// floats of, group by group.
//
//   columns come in chunks of 8 groups; every thread decodes one group of a chunk
//   a warp has 16 rows, 16 tokens and, where these leave warps over, each second or fourth group
//   sums of such warps are added in their order: a result has one order of sums
//
// Weights of a chunk lie in one of two places in turn, activations in one of three: they are asked
// for two chunks ahead. What is written into a place was last read before a barrier in between.
#pragma once

#include "engine/backend/cuda/kernels/products.cuh"
#include "engine/backend/cuda/kernels/warp_instructions.cuh"
#include "engine/backend/cuda/launch/code_tiles.hpp"

namespace strata::cuda {

constexpr int kCodeThreads = 256;
constexpr int kChunkGroups = 8;
constexpr int kChunkBytes = kChunkGroups * kGroupElements;
static_assert(kCodeTileRows * kChunkGroups == kCodeThreads);
// Rows of codes lie so that eight of them, 16 bytes of each, are in different banks.
constexpr int kCodeStride = kChunkBytes + 16;
constexpr int kScaleStride = kCodeTileRows + 1;

struct CodeTileWork {
    ProductPart parts[kProductPartsMax];
    std::int64_t first_tile[kProductPartsMax + 1];  // tiles of the parts, one after another
    int count;
    int groups;  // of a row
    int tokens;
    QuantisedView quantised;
};

struct CodedWeights {
    alignas(16) std::uint8_t codes[kCodeTileRows * kCodeStride];
    float4 scales[kChunkGroups * kScaleStride];  // two, and the minimum
};
template <int kTokens>
struct CodedTokens {
    alignas(16) std::uint8_t codes[kTokens * kCodeStride];
    alignas(16) float2 steps[kChunkGroups * kTokens];  // QuantisedView::scaled
};
template <int kTokens>
struct CodePlaces {
    CodedWeights weights[2];
    CodedTokens<kTokens> tokens[3];
};

// d += a b for 32 or 16 columns of whole numbers. Operands as multiply_tile() has them, four codes
// in place of two halves.
__device__ __forceinline__ void multiply_codes(int (&d)[4], const std::uint32_t (&a)[4],
                                               std::uint32_t b0, std::uint32_t b1) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
        "{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}
__device__ __forceinline__ void multiply_codes(int (&d)[4], std::uint32_t a0, std::uint32_t a1,
                                               std::uint32_t b) {
#if __CUDA_ARCH__ >= 800
    asm("mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5}, {%6}, "
        "{%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
#endif
}

// sum + the products of a group for two rows (lane / 4, and + 8) and two tokens.
template <ElementType kType>
__device__ __forceinline__ void add_codes(float (&sum)[4], const std::uint32_t (&a)[4],
                                          std::uint32_t b0, std::uint32_t b1,
                                          const float4 (&scale)[2], const float4& steps) {
    const float2 of_token[2] = {{steps.x, steps.y}, {steps.z, steps.w}};
    int d[4] = {kBiased, kBiased, kBiased, kBiased};
    if constexpr (has_one_scale(kType)) {
        multiply_codes(d, a, b0, b1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float inner = __fmul_rn(scale[i / 2].x, unbiased(d[i]));
            sum[i] = add_scaled<kType>(sum[i], inner, scale[i / 2].z, of_token[i % 2]);
        }
    } else {
        int e[4] = {kBiased, kBiased, kBiased, kBiased};
        multiply_codes(d, a[0], a[1], b0);
        multiply_codes(e, a[2], a[3], b1);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float inner = __fmaf_rn(scale[i / 2].x, unbiased(d[i]),
                                          __fmul_rn(scale[i / 2].y, unbiased(e[i])));
            sum[i] = add_scaled<kType>(sum[i], inner, scale[i / 2].z, of_token[i % 2]);
        }
    }
}

template <ElementType kType, int kTokens>
class CodeTile {
  public:
    static constexpr int kTokenWarps = kTokens / 16;
    static constexpr int kShares = kCodeThreads / kWarp / 2 / kTokenWarps;  // of the groups

    __device__ __forceinline__ CodeTile(const CodeTileWork& work, CodePlaces<kTokens>& places,
                                        const std::uint32_t* grid)
        : work_(work), places_(places), grid_(grid) {
        int part = 0;
        while (blockIdx.x >= work.first_tile[part + 1]) ++part;
        part_ = part;
        first_row_ = (blockIdx.x - work.first_tile[part]) * kCodeTileRows;
        const std::int64_t row = first_row_ + threadIdx.x / kChunkGroups;
        start_ = static_cast<std::uint32_t>(min(row, work.parts[part].rows - 1)) *
                 static_cast<std::uint32_t>(work.groups);
    }

    __device__ __forceinline__ void run() {
        const int chunks = (work_.groups + kChunkGroups - 1) / kChunkGroups;
        RawGroup<kType> raw[2];
        load(raw[0], 0);
        load(raw[1], 1);
        wait_for_previous();
        ask_for_tokens(0);
        ask_for_tokens(1);
        for (int chunk = 0; chunk < chunks; chunk += 2) {
            turn(raw[0], chunk);
            if (chunk + 1 < chunks) turn(raw[1], chunk + 1);
        }
        wait_for_copies<0>();  // the places are about to hold something else
        add_shares();
        store();
    }

  private:
    __device__ __forceinline__ int group_of(int chunk) const {
        return chunk * kChunkGroups + static_cast<int>(threadIdx.x) % kChunkGroups;
    }
    __device__ __forceinline__ void load(RawGroup<kType>& raw, int chunk) const {
        if (group_of(chunk) < work_.groups) {
            raw.load(work_.parts[part_].planes, start_ + group_of(chunk));
        }
    }
    // Straight into their place; what is behind the last token or column is zero.
    __device__ __forceinline__ void ask_for_tokens(int chunk) {
        CodedTokens<kTokens>& place = places_.tokens[chunk % 3];
        constexpr int kPieces = kChunkBytes / 16;
#pragma unroll
        for (int i = 0; i < kTokens * kPieces / kCodeThreads; ++i) {
            const int at = i * kCodeThreads + static_cast<int>(threadIdx.x);
            const int token = at / kPieces;
            const int byte = at % kPieces * 16;
            const bool there =
                token < work_.tokens && chunk * kChunkBytes + byte < work_.groups * kGroupElements;
            const std::size_t from = there ? group_index(token, chunk) * kGroupElements + byte : 0;
            copy_later(shared_address(place.codes + token * kCodeStride + byte),
                       work_.quantised.codes + from, there);
        }
#pragma unroll
        for (int i = 0; i < (kTokens * kChunkGroups + kCodeThreads - 1) / kCodeThreads; ++i) {
            const int at = i * kCodeThreads + static_cast<int>(threadIdx.x);
            const int token = at / kChunkGroups;
            if (token >= kTokens) break;
            const int group = at % kChunkGroups;
            const bool there = token < work_.tokens && group_of(chunk) < work_.groups;
            const std::size_t from = there ? group_index(token, chunk) + group : 0;
            copy_part_later<8>(shared_address(place.steps + group * kTokens + token),
                               work_.quantised.scaled + from, there);
        }
        end_copies();
    }
    // Of the chunk's first group of a token, among the groups of all tokens.
    __device__ __forceinline__ std::size_t group_index(int token, int chunk) const {
        return static_cast<std::size_t>(token) * work_.groups + chunk * kChunkGroups;
    }
    __device__ __forceinline__ void decode(const RawGroup<kType>& raw, int chunk) {
        CodedWeights& place = places_.weights[chunk % 2];
        const int row = static_cast<int>(threadIdx.x) / kChunkGroups;
        const int group = static_cast<int>(threadIdx.x) % kChunkGroups;
        Group codes{};
        if (group_of(chunk) < work_.groups) codes = decode_group<kType>(raw, grid_);
        auto* to =
            reinterpret_cast<int4*>(place.codes + row * kCodeStride + group * kGroupElements);
        to[0] = make_int4(codes.codes[0], codes.codes[1], codes.codes[2], codes.codes[3]);
        to[1] = make_int4(codes.codes[4], codes.codes[5], codes.codes[6], codes.codes[7]);
        place.scales[group * kScaleStride + row] =
            make_float4(codes.scale[0], has_one_scale(kType) ? 0.0F : codes.scale[1],
                        has_min(kType) ? codes.min : 0.0F, 0.0F);
    }
    __device__ __forceinline__ void turn(RawGroup<kType>& raw, int chunk) {
        decode(raw, chunk);
        load(raw, chunk + 2);
        wait_for_copies<1>();
        __syncthreads();
        ask_for_tokens(chunk + 2);
        multiply(places_.weights[chunk % 2], places_.tokens[chunk % 3]);
    }
    __device__ __forceinline__ void multiply(const CodedWeights& weights,
                                             const CodedTokens<kTokens>& tokens) {
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
        const unsigned a_at = shared_address(
            weights.codes + (row_half() * 16 + lane % 16) * kCodeStride + lane / 16 * 16);
        const unsigned b_at = shared_address(
            tokens.codes + (token_warp() * 16 + lane / 16 * 8 + lane % 8) * kCodeStride +
            lane / 8 % 2 * 16);
        const float4* scales = weights.scales + row_half() * 16 + lane / 4;
        const float2* steps = tokens.steps + token_warp() * 16 + lane % 4 * 2;
#pragma unroll
        for (int i = 0; i < kChunkGroups / kShares; ++i) {
            const int group = i * kShares + share();
            std::uint32_t a[4];
            std::uint32_t b[4];
            load_matrices<false>(a, a_at + group * kGroupElements);
            load_matrices<false>(b, b_at + group * kGroupElements);
            const float4 scale[2] = {scales[group * kScaleStride],
                                     scales[group * kScaleStride + 8]};
            const float2* at = steps + group * kTokens;
            add_codes<kType>(sums_[0], a, b[0], b[1], scale, *reinterpret_cast<const float4*>(at));
            add_codes<kType>(sums_[1], a, b[2], b[3], scale,
                             *reinterpret_cast<const float4*>(at + 8));
        }
    }
    // What warps have summed up for the same rows and tokens, in the first of them.
    __device__ __forceinline__ void add_shares() {
        if constexpr (kShares > 1) {
            auto* found = reinterpret_cast<float*>(&places_);
            const int lane = static_cast<int>(threadIdx.x) % kWarp;
            const auto at = [&](int share, int i) {
                return ((share * kTokenWarps + token_warp()) * 2 + row_half()) * 8 * kWarp +
                       i * kWarp + lane;
            };
            __syncthreads();
            for (int i = 0; i < 8; ++i) found[at(share(), i)] = sums_[i / 4][i % 4];
            __syncthreads();
            if (share() > 0) return;
            for (int other = 1; other < kShares; ++other) {
                for (int i = 0; i < 8; ++i) {
                    sums_[i / 4][i % 4] = __fadd_rn(sums_[i / 4][i % 4], found[at(other, i)]);
                }
            }
        }
    }
    __device__ __forceinline__ void store() const {
        if (share() > 0) return;
        const ProductPart& of = work_.parts[part_];
        const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
        for (int i = 0; i < 8; ++i) {
            const int token = token_warp() * 16 + i / 4 * 8 + lane % 4 * 2 + i % 2;
            const std::int64_t row = first_row_ + row_half() * 16 + lane / 4 + i % 4 / 2 * 8;
            if (token >= work_.tokens || row >= of.rows) continue;
            float value = __fmul_rn(sums_[i / 4][i % 4], of.scale);
            if (of.bias != nullptr) value = __fadd_rn(value, of.bias[row]);
            float* y = of.y + token * of.rows + row;
            *y = of.accumulate ? __fadd_rn(*y, value) : value;
        }
    }

    __device__ __forceinline__ static int warp() {
        return static_cast<int>(threadIdx.x) / kWarp;
    }
    __device__ __forceinline__ static int row_half() {
        return warp() % 2;
    }
    __device__ __forceinline__ static int token_warp() {
        return warp() / 2 % kTokenWarps;
    }
    __device__ __forceinline__ static int share() {
        return warp() / 2 / kTokenWarps;
    }

    const CodeTileWork& work_;
    CodePlaces<kTokens>& places_;
    const std::uint32_t* grid_;
    int part_;
    std::int64_t first_row_;
    std::uint32_t start_;    // the thread's row: its first group
    float sums_[2][4] = {};  // two tiles of 16 rows and 8 tokens
};

template <ElementType kType, int kTokens>
__global__ void __launch_bounds__(kCodeThreads)
    code_tiles_kernel(const __grid_constant__ CodeTileWork work) {
    extern __shared__ __align__(16) std::uint8_t code_places[];
    let_next_start();
    const std::uint32_t* grid = shared_grid<kType>();
    CodeTile<kType, kTokens>(work, *reinterpret_cast<CodePlaces<kTokens>*>(code_places), grid)
        .run();
}

}  // namespace strata::cuda
