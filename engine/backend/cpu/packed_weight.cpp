// From the file's layout to the kernels' layout: one pass over the stored bytes, written in order.
#include "engine/backend/cpu/packed_weight.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "engine/backend/cpu/blocks.hpp"
#include "engine/backend/cpu/code_lanes.hpp"
#include "engine/backend/cpu/kernels.hpp"
#include "strata/core/checked.hpp"

namespace strata {
namespace {

constexpr std::size_t kQ8StoredBytes = 34;  // f16 scale, 32 codes (Block layouts)
constexpr std::size_t kGroupCodes = 4;      // codes of one row side by side: one lane of 32 bits
constexpr std::size_t kCodeBias = 128;  // makes codes unsigned, as the integer dot product wants

// Bytes that one thread packs at a time: enough to pay for handing them out.
constexpr std::int64_t kPackPieceBytes = 1 << 18;

constexpr std::size_t kLanesOfTile = static_cast<std::size_t>(kTileRows);
constexpr std::size_t kBlockCodes = static_cast<std::size_t>(kQ8Block) * kLanesOfTile;

Layout layout_of(ElementType type) {
    switch (type) {
        case ElementType::f32:
            return Layout::lanes_f32;
        case ElementType::f16:
            return Layout::lanes_f16;
        case ElementType::bf16:
            return Layout::lanes_bf16;
        case ElementType::q8_0:
            return Layout::lanes_q8;
        case ElementType::q4_0:
        case ElementType::q4_k:
        case ElementType::q5_k:
        case ElementType::q6_k:
        case ElementType::iq4_nl:
        case ElementType::iq3_s:
        case ElementType::mxfp4:
        case ElementType::nvfp4:
            return Layout::lanes_codes;
    }
    return Layout::lanes_codes;
}

std::size_t round_to_line(std::size_t bytes) {
    return (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
}

std::size_t tile_bytes_of(ElementType type, std::size_t cols) {
    const Layout layout = layout_of(type);
    const std::size_t blocks = cols / static_cast<std::size_t>(kQ8Block);
    switch (layout) {
        case Layout::lanes_f32:
            return cols * kLanesOfTile * sizeof(float);
        case Layout::lanes_f16:
        case Layout::lanes_bf16:
            return round_to_line(cols * kLanesOfTile * sizeof(std::uint16_t));
        case Layout::lanes_q8:
            return round_to_line(blocks * (kBlockCodes + kLanesOfTile * sizeof(std::uint16_t)));
        case Layout::lanes_codes:
            return round_to_line(code_layout(type).tile_bytes(static_cast<std::int64_t>(cols)));
    }
    return 0;
}

// The stored rows of one tile.
struct TileRows {
    const std::byte* first = nullptr;
    std::size_t row_bytes = 0;
    std::size_t rows = 0;  // 1 to kTileRows
    std::size_t cols = 0;

    const std::byte* row(std::size_t lane) const { return first + lane * row_bytes; }
};

template <class Word>
void interleave_words(const TileRows& from, std::byte* tile) {
    for (std::size_t k = 0; k < from.cols; ++k) {
        for (std::size_t lane = 0; lane < from.rows; ++lane) {
            std::memcpy(tile + (k * kLanesOfTile + lane) * sizeof(Word),
                        from.row(lane) + k * sizeof(Word), sizeof(Word));
        }
    }
}

void interleave_q8(const TileRows& from, std::byte* tile) {
    constexpr std::uint32_t kBiasOfFour = 0x80808080U;  // kCodeBias in each byte
    const std::size_t blocks = from.cols / static_cast<std::size_t>(kQ8Block);
    std::byte* scales = tile + blocks * kBlockCodes;
    for (std::size_t b = 0; b < blocks; ++b) {
        for (std::size_t lane = 0; lane < from.rows; ++lane) {
            const std::byte* block = from.row(lane) + b * kQ8StoredBytes;
            std::memcpy(scales + (b * kLanesOfTile + lane) * 2, block, 2);
            std::byte* codes = tile + b * kBlockCodes + lane * kGroupCodes;
            for (std::size_t k = 0; k < static_cast<std::size_t>(kQ8Block); k += kGroupCodes) {
                std::uint32_t four = 0;
                std::memcpy(&four, block + 2 + k, sizeof four);
                four ^= kBiasOfFour;
                std::memcpy(codes + k * kLanesOfTile, &four, sizeof four);
            }
        }
    }
}

void pack_tile(const StoredTensor& stored, const PackedWeight& weight, const TileRows& from,
               std::byte* tile) {
    std::memset(tile, 0, weight.tile_bytes);
    switch (weight.layout) {
        case Layout::lanes_f32:
            interleave_words<float>(from, tile);
            return;
        case Layout::lanes_f16:
        case Layout::lanes_bf16:
            interleave_words<std::uint16_t>(from, tile);
            return;
        case Layout::lanes_q8:
            interleave_q8(from, tile);
            return;
        case Layout::lanes_codes:
            for (std::size_t lane = 0; lane < from.rows; ++lane) {
                pack_code_row(stored.type, from.row(lane), stored.cols,
                              static_cast<std::int64_t>(lane), tile);
            }
            return;
    }
}

// Tile number `index` of all tiles of all experts.
void pack_tile_number(const StoredTensor& stored, const PackedWeight& weight, std::size_t row_bytes,
                      std::size_t index) {
    const auto rows = static_cast<std::size_t>(stored.rows);
    const auto tiles = static_cast<std::size_t>(weight.tiles());
    const std::size_t expert = index / tiles;
    const std::size_t first_row = index % tiles * kLanesOfTile;
    TileRows from;
    from.first = stored.bytes.data() + (expert * rows + first_row) * row_bytes;
    from.row_bytes = row_bytes;
    from.rows = std::min(kLanesOfTile, rows - first_row);
    from.cols = static_cast<std::size_t>(stored.cols);
    pack_tile(
        stored, weight, from,
        weight.memory.get() + expert * weight.expert_bytes + index % tiles * weight.tile_bytes);
}

struct Sizes {
    std::size_t row_bytes = 0;
    std::size_t tile_bytes = 0;
    std::size_t expert_bytes = 0;
    std::size_t total_bytes = 0;
};

std::string shape_text(const StoredTensor& stored) {
    return std::string(element_type_name(stored.type)) + " {" + std::to_string(stored.cols) + ", " +
           std::to_string(stored.rows) + ", " + std::to_string(stored.experts) + "}";
}

Result<Sizes> sizes_of(const StoredTensor& stored) {
    const BlockShape shape = block_shape(stored.type);
    if (stored.cols < 1 || stored.rows < 1 || stored.experts < 1) {
        return refuse("weight " + shape_text(stored) + ": every dimension must be at least 1");
    }
    const auto cols = static_cast<std::size_t>(stored.cols);
    const auto rows = static_cast<std::size_t>(stored.rows);
    const auto experts = static_cast<std::size_t>(stored.experts);
    if (cols % shape.elements != 0) {
        return refuse("weight " + shape_text(stored) +
                      ": the first dimension must be a multiple of " +
                      std::to_string(shape.elements));
    }
    const auto row_bytes = checked_mul(cols / shape.elements, shape.bytes);
    const auto matrix = row_bytes ? checked_mul(*row_bytes, rows) : std::nullopt;
    const auto all = matrix ? checked_mul(*matrix, experts) : std::nullopt;
    if (!all || *all != stored.bytes.size()) {
        return refuse("weight " + shape_text(stored) + ": " + std::to_string(stored.bytes.size()) +
                      " bytes do not match the shape");
    }
    Sizes sizes;
    sizes.row_bytes = *row_bytes;
    // Interleaving pads rows to whole tiles: at most 16 times the stored bytes, checked again here.
    const auto padded = checked_mul(*all, kLanesOfTile * 2);
    if (!padded) return refuse("weight " + shape_text(stored) + ": too large");
    sizes.tile_bytes = tile_bytes_of(stored.type, cols);
    const std::size_t tiles = (rows + kLanesOfTile - 1) / kLanesOfTile;
    const auto expert = checked_mul(sizes.tile_bytes, tiles);
    const auto total = expert ? checked_mul(*expert, experts) : std::nullopt;
    if (!total) return refuse("weight " + shape_text(stored) + ": too large");
    sizes.expert_bytes = *expert;
    sizes.total_bytes = *total;
    return sizes;
}

std::uint16_t word_at(const std::byte* from) {
    std::uint16_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
}

void decode_lane_q8(const std::byte* tile, std::size_t cols, std::size_t lane, float* out) {
    const std::size_t blocks = cols / static_cast<std::size_t>(kQ8Block);
    const std::byte* scales = tile + blocks * kBlockCodes;
    for (std::size_t b = 0; b < blocks; ++b) {
        const float scale = f16_to_f32(word_at(scales + (b * kLanesOfTile + lane) * 2));
        const std::byte* codes = tile + b * kBlockCodes + lane * kGroupCodes;
        for (std::size_t k = 0; k < static_cast<std::size_t>(kQ8Block); ++k) {
            const std::size_t group = k / kGroupCodes;
            const auto code =
                std::to_integer<int>(codes[group * kLanesOfTile * kGroupCodes + k % kGroupCodes]);
            *out++ = scale * static_cast<float>(code - static_cast<int>(kCodeBias));
        }
    }
}

}  // namespace

Result<std::unique_ptr<Weight>> pack_weight(const StoredTensor& stored, Isa isa, ThreadPool* pool) {
    const auto sizes = sizes_of(stored);
    if (!sizes) return sizes.failure();
    auto weight = std::make_unique<PackedWeight>();
    weight->cols = stored.cols;
    weight->rows = stored.rows;
    weight->experts = stored.experts;
    weight->type = stored.type;
    weight->layout = layout_of(stored.type);
    weight->isa = isa;
    weight->tile_bytes = sizes->tile_bytes;
    weight->expert_bytes = sizes->expert_bytes;
    weight->memory = AlignedBytes(sizes->total_bytes, AlignedBytes::Contents::unset);
    if (!weight->memory) {
        return refuse_memory("weight " + shape_text(stored) + ": no memory for " +
                             std::to_string(sizes->total_bytes) + " bytes");
    }
    const auto pack_tiles = [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t index = begin; index < end; ++index) {
            pack_tile_number(stored, *weight, sizes->row_bytes, static_cast<std::size_t>(index));
        }
    };
    const std::int64_t tiles = weight->tiles() * weight->experts;
    if (pool == nullptr) {
        pack_tiles(0, tiles, 0);
    } else {
        const auto tile_bytes = static_cast<std::int64_t>(weight->tile_bytes);
        pool->parallel_for(tiles, kPackPieceBytes / tile_bytes, pack_tiles);
    }
    return std::unique_ptr<Weight>(std::move(weight));
}

void decode_row(const PackedWeight& weight, std::int64_t row, float* out) {
    const auto cols = static_cast<std::size_t>(weight.cols);
    const auto index = static_cast<std::size_t>(row);
    const std::byte* tile = weight.memory.get() + index / kLanesOfTile * weight.tile_bytes;
    const std::size_t lane = index % kLanesOfTile;
    switch (weight.layout) {
        case Layout::lanes_f32:
            for (std::size_t k = 0; k < cols; ++k) {
                std::memcpy(out + k, tile + (k * kLanesOfTile + lane) * sizeof(float),
                            sizeof(float));
            }
            break;
        case Layout::lanes_f16:
            for (std::size_t k = 0; k < cols; ++k) {
                out[k] = f16_to_f32(word_at(tile + (k * kLanesOfTile + lane) * 2));
            }
            break;
        case Layout::lanes_bf16:
            for (std::size_t k = 0; k < cols; ++k) {
                out[k] = bf16_to_f32(word_at(tile + (k * kLanesOfTile + lane) * 2));
            }
            break;
        case Layout::lanes_q8:
            decode_lane_q8(tile, cols, lane, out);
            break;
        case Layout::lanes_codes:
            decode_code_lane(weight.type, tile, weight.cols, static_cast<std::int64_t>(lane), out);
            break;
    }
    if (weight.scale != 1.0F) {
        for (std::size_t k = 0; k < cols; ++k) out[k] *= weight.scale;
    }
}

}  // namespace strata
