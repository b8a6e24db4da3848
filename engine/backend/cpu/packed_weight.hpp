// A weight in the layout that the CPU kernels read, and how a stored tensor becomes one. Owns the
// layouts; the arithmetic on them is kernels_*.cpp.
//
// A tile is kTileRows consecutive output rows side by side: lane r of a vector is row r. The
// reduction over cols then runs down the tile, one lane per output, and each output is summed in
// the same order whatever the number of tokens, threads or neighbours.
//
//   Layout         one tile
//   lanes_f32      cols x 16 f32
//   lanes_f16      cols x 16 f16 bits
//   lanes_bf16     cols x 16 bf16 bits
//   lanes_q8       (cols / 32) blocks x 8 groups x 16 rows x 4 codes of one byte, each the stored
//   int8
//                  plus 128; then (cols / 32) x 16 f16 scales
//   stored_blocks  the file's own bytes, row after row; turned into tiles of codes while
//   multiplying
//
// Invariants
//  1. Tiles of one expert are contiguous, each kCacheLineBytes aligned; rows beyond the last are
//  zero.
//  2. The packed copy is the only copy: nothing refers to the stored bytes after pack_weight
//  returned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "engine/backend/cpu/aligned_bytes.hpp"
#include "engine/backend/cpu/isa.hpp"
#include "engine/backend/cpu/kernels.hpp"
#include "engine/backend/cpu/thread_pool.hpp"
#include "strata/backend/tensor.hpp"
#include "strata/core/result.hpp"

namespace strata {

enum class Layout : std::uint8_t { lanes_f32, lanes_f16, lanes_bf16, lanes_q8, lanes_codes };

class PackedWeight final : public Weight {
  public:
    Layout layout = Layout::lanes_f32;
    Isa isa = Isa::scalar;
    std::size_t tile_bytes = 0;
    std::size_t expert_bytes = 0;
    AlignedBytes memory;

    std::int64_t tiles() const { return (rows + kTileRows - 1) / kTileRows; }
    const std::byte* expert_start(std::int64_t expert) const {
        return memory.get() + static_cast<std::size_t>(expert) * expert_bytes;
    }
};

// Copies the tensor into its layout. Refuses shapes whose bytes do not match, cols that are not
// whole blocks, and sizes that do not fit in memory. Tiles are shared among the threads of
// `pool`, if any.
Result<std::unique_ptr<Weight>> pack_weight(const StoredTensor& stored, Isa isa,
                                            ThreadPool* pool = nullptr);

// Row `row` of expert 0 as `cols` f32 values, exactly as stored (embedding look-up). Weight::scale
// is applied. Precondition: 0 <= row < rows.
void decode_row(const PackedWeight& weight, std::int64_t row, float* out);

}  // namespace strata
