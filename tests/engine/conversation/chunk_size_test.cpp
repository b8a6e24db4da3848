// Chunk sizes: as large as the model likes while a STOP waits at most its time.
#include "strata/core/chunk_size.hpp"

#include <catch2/catch.hpp>

namespace strata {

TEST_CASE("a chunk that took too long shrinks until it is expected to fit") {
    const ChunkLimits limits{512, 250};
    CHECK(next_chunk_tokens(512, 512, 260, limits) == 256);
    CHECK(next_chunk_tokens(512, 512, 900, limits) == 64);
    CHECK(next_chunk_tokens(512, 512, 512'000, limits) == 1);
    CHECK(next_chunk_tokens(1, 1, 9000, limits) == 1);
}

TEST_CASE("a chunk grows only when its double stays well below the limit") {
    const ChunkLimits limits{512, 250};
    CHECK(next_chunk_tokens(64, 64, 20, limits) == 128);
    CHECK(next_chunk_tokens(64, 64, 101, limits) == 64);
    CHECK(next_chunk_tokens(512, 512, 20, limits) == 512);
    CHECK(next_chunk_tokens(300, 300, 20, limits) == 512);
    CHECK(next_chunk_tokens(64, 10, 1, limits) == 64);
}

TEST_CASE("shrinking and growing settle at one size for a steady machine") {
    const ChunkLimits limits{512, 250};
    for (const double ms_per_token : {0.1, 0.45, 0.7, 3.0, 40.0, 200.0}) {
        std::int64_t size = 512;
        for (int i = 0; i < 20; ++i) {
            size = next_chunk_tokens(size, size, ms_per_token * static_cast<double>(size), limits);
        }
        const double settled_ms = ms_per_token * static_cast<double>(size);
        CHECK(settled_ms <= 250);
        CHECK(next_chunk_tokens(size, size, settled_ms, limits) == size);
        CHECK((size == 512 || settled_ms > 50));
    }
}

TEST_CASE("without a time limit the size never changes") {
    const ChunkLimits limits{512, 0};
    CHECK(next_chunk_tokens(512, 512, 99'999, limits) == 512);
    CHECK(first_chunk_tokens(64, 99'999, limits) == 512);
}

TEST_CASE("the first size follows from one measured pass") {
    const ChunkLimits limits{512, 250};
    CHECK(first_chunk_tokens(64, 10, limits) == 512);
    CHECK(first_chunk_tokens(64, 100, limits) == 128);
    CHECK(first_chunk_tokens(8, 4000, limits) == 1);
}

TEST_CASE("chunk borders are multiples counted from the start wherever reading began") {
    CHECK(chunk_end(0, 64, 1000) == 64);
    CHECK(chunk_end(10, 64, 1000) == 64);
    CHECK(chunk_end(64, 64, 1000) == 128);
    CHECK(chunk_end(64, 64, 70) == 70);
    CHECK(chunk_end(999, 64, 1000) == 1000);
}

}  // namespace strata
