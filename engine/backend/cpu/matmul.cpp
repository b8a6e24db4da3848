// How products are cut into pieces: segments (one weight, one list of rows), each a grid of runs of
// tiles by runs of tokens. All pieces of all segments are one loop of the thread pool.
#include "engine/backend/cpu/matmul.hpp"

#include <algorithm>

#include "engine/backend/cpu/kernels.hpp"
#include "strata/core/invariant.hpp"

namespace strata {
namespace {

// A piece should be worth the atomic operation that hands it out (about 0.1 us), and there should
// be enough of them that threads end together.
constexpr std::int64_t kPieceWorkMin = 1 << 16;  // multiplications
constexpr std::int64_t kPiecesPerThread = 4;
// Rows are quantised by all threads only when there are enough of them to pay for a parallel
// region.
constexpr std::int64_t kQuantiseInParallelMin = 1 << 14;  // values
// Tokens of a piece when a segment has too few tiles for all threads; a multiple of every kernel's
// block.
constexpr std::int64_t kTokensPerPieceMin = 24;

std::int64_t divide_up(std::int64_t a, std::int64_t b) {
    return (a + b - 1) / b;
}

bool takes_quantised_rows(const PackedWeight& weight) {
    return weight.layout == Layout::lanes_q8 || weight.layout == Layout::lanes_codes;
}

void grow(AlignedBytes& memory, std::size_t bytes) {
    if (memory.bytes() < bytes) memory = AlignedBytes(bytes);
    STRATA_INVARIANT(memory.bytes() >= bytes);
}

// Quantises every row of x, and returns the distance between quantised rows.
std::size_t quantise_rows(ThreadPool& pool, MatmulScratch& scratch, Rows x, Isa isa) {
    const std::size_t row_bytes = activation_layout(x.cols).row_bytes;
    grow(scratch.activations, row_bytes * static_cast<std::size_t>(x.rows));
    std::byte* to = scratch.activations.get();
    const Kernels& set = kernels(isa);
    const std::int64_t rows_per_piece =
        std::max<std::int64_t>(1, kQuantiseInParallelMin / x.cols / 2);
    const bool alone = x.rows * x.cols < kQuantiseInParallelMin;
    pool.parallel_for(x.rows, alone ? x.rows : rows_per_piece,
                      [&](std::int64_t begin, std::int64_t end, int) {
                          for (std::int64_t row = begin; row < end; ++row) {
                              set.quantise_row(x.values + row * x.cols, x.cols,
                                               to + static_cast<std::size_t>(row) * row_bytes);
                          }
                      });
    return row_bytes;
}

// Where row i of x is, in the form that `weight` multiplies.
struct RowSource {
    Rows x;
    const std::byte* quantised = nullptr;
    std::size_t quantised_bytes = 0;

    const std::byte* row(std::int64_t index, bool as_quantised) const {
        if (as_quantised) return quantised + static_cast<std::size_t>(index) * quantised_bytes;
        return reinterpret_cast<const std::byte*>(x.values + index * x.cols);
    }
};

RowSource make_source(ThreadPool& pool, MatmulScratch& scratch, Rows x,
                      const PackedWeight* quantised) {
    RowSource source{x, nullptr, 0};
    if (quantised != nullptr) {
        source.quantised_bytes = quantise_rows(pool, scratch, x, quantised->isa);
        source.quantised = scratch.activations.get();
    }
    return source;
}

// Chooses the piece sizes of one segment; returns how many pieces it has.
std::int64_t cut(MatmulScratch::Segment& segment, std::int64_t pieces_wanted) {
    const PackedWeight& weight = *segment.weight;
    const std::int64_t tiles = weight.tiles();
    const std::int64_t tile_work = weight.cols * kTileRows * segment.tokens;
    std::int64_t per_piece = divide_up(tiles, pieces_wanted);
    per_piece = std::max(per_piece, divide_up(kPieceWorkMin, tile_work));
    if (segment.tokens > 1) per_piece = divide_up(per_piece, 2) * 2;  // kernels take tiles in pairs
    segment.tiles_per_piece = std::min(per_piece, tiles);
    segment.tokens_per_piece = segment.tokens;
    const std::int64_t tile_pieces = divide_up(tiles, segment.tiles_per_piece);
    if (tile_pieces < pieces_wanted) {
        const std::int64_t token_pieces = divide_up(pieces_wanted, tile_pieces);
        const std::int64_t tokens = divide_up(segment.tokens, token_pieces);
        segment.tokens_per_piece = divide_up(tokens, kTokensPerPieceMin) * kTokensPerPieceMin;
    }
    return tile_pieces * divide_up(segment.tokens, segment.tokens_per_piece);
}

void run_tiles(Layout layout, const TileRun& run, const Kernels& set) {
    switch (layout) {
        case Layout::lanes_f32:
            set.lanes_f32(run);
            return;
        case Layout::lanes_f16:
            set.lanes_f16(run);
            return;
        case Layout::lanes_bf16:
            set.lanes_bf16(run);
            return;
        case Layout::lanes_q8:
            set.lanes_q8(run);
            return;
        case Layout::lanes_codes:
            set.lanes_codes(run);
            return;
    }
}

void run_piece(const MatmulScratch::Segment& segment, std::int64_t piece, CodeBlock* decoded) {
    const PackedWeight& weight = *segment.weight;
    const std::int64_t tile_pieces = divide_up(weight.tiles(), segment.tiles_per_piece);
    const std::int64_t tile = piece % tile_pieces * segment.tiles_per_piece;
    const std::int64_t token = piece / tile_pieces * segment.tokens_per_piece;
    const std::int64_t first_row = tile * kTileRows;
    TileRun run;
    run.type = weight.type;
    run.tiles = segment.tiles + static_cast<std::size_t>(tile) * weight.tile_bytes;
    run.tile_bytes = weight.tile_bytes;
    run.rows = std::min(weight.rows - first_row, segment.tiles_per_piece * kTileRows);
    run.cols = weight.cols;
    run.x = segment.x + token;
    run.y = segment.y + token;
    run.first_row = first_row;
    run.tokens = std::min(segment.tokens - token, segment.tokens_per_piece);
    run.bias = segment.bias == nullptr ? nullptr : segment.bias + first_row;
    run.scale = segment.scale;
    run.accumulate = segment.accumulate;
    run.decoded = decoded;
    run_tiles(weight.layout, run, kernels(weight.isa));
}

void run_segments(ThreadPool& pool, MatmulScratch& scratch) {
    std::vector<MatmulScratch::Segment>& segments = scratch.segments;
    std::int64_t tiles = 0;
    std::int64_t decoded_blocks = 0;
    for (const MatmulScratch::Segment& segment : segments) {
        tiles += segment.weight->tiles();
        if (segment.weight->layout == Layout::lanes_codes) {
            decoded_blocks = std::max(decoded_blocks, segment.weight->cols / kQ8Block);
        }
    }
    grow(scratch.decoded,
         static_cast<std::size_t>(decoded_blocks * pool.threads()) * sizeof(CodeBlock));
    auto* decoded = reinterpret_cast<CodeBlock*>(scratch.decoded.get());
    const std::int64_t wanted = pool.threads() * kPiecesPerThread;
    std::int64_t pieces = 0;
    for (MatmulScratch::Segment& segment : segments) {
        segment.first_piece = pieces;
        // Each segment gets pieces according to its share of the tiles.
        pieces += cut(segment, std::max<std::int64_t>(1, wanted * segment.weight->tiles() / tiles));
    }
    pool.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
        for (std::int64_t piece = begin; piece < end; ++piece) {
            const auto after = std::upper_bound(
                segments.begin(), segments.end(), piece,
                [](std::int64_t p, const MatmulScratch::Segment& s) { return p < s.first_piece; });
            const MatmulScratch::Segment& segment = *(after - 1);
            run_piece(segment, piece - segment.first_piece, decoded + worker * decoded_blocks);
        }
    });
}

}  // namespace

void matmul(ThreadPool& pool, MatmulScratch& scratch, Rows x, std::span<const Product> products) {
    if (x.rows == 0 || products.empty()) return;
    const PackedWeight* quantised = nullptr;
    for (const Product& product : products) {
        STRATA_INVARIANT(product.weight->cols == x.cols && product.y.rows == x.rows);
        STRATA_INVARIANT(product.y.cols == product.weight->rows);
        STRATA_INVARIANT(product.expert >= 0 && product.expert < product.weight->experts);
        if (takes_quantised_rows(*product.weight)) quantised = product.weight;
    }
    const RowSource source = make_source(pool, scratch, x, quantised);
    const auto tokens = static_cast<std::size_t>(x.rows);
    scratch.x_rows.resize(2 * tokens);
    scratch.y_rows.resize(products.size() * tokens);
    for (std::size_t t = 0; t < tokens; ++t) {
        scratch.x_rows[t] = source.row(static_cast<std::int64_t>(t), false);
        scratch.x_rows[tokens + t] = source.row(static_cast<std::int64_t>(t), true);
    }
    scratch.segments.clear();
    for (std::size_t p = 0; p < products.size(); ++p) {
        const Product& product = products[p];
        MatmulScratch::Segment segment;
        segment.weight = product.weight;
        segment.tiles = product.weight->expert_start(product.expert);
        segment.scale = product.weight->scale_of(product.expert);
        segment.x = scratch.x_rows.data() + (takes_quantised_rows(*product.weight) ? tokens : 0);
        segment.y = scratch.y_rows.data() + p * tokens;
        segment.tokens = x.rows;
        segment.bias = product.bias;
        segment.accumulate = product.accumulate;
        for (std::size_t t = 0; t < tokens; ++t) {
            scratch.y_rows[p * tokens + t] =
                product.y.values + static_cast<std::int64_t>(t) * product.y.cols;
        }
        scratch.segments.push_back(segment);
    }
    run_segments(pool, scratch);
}

void matmul(ThreadPool& pool, MatmulScratch& scratch, const PackedWeight& weight,
            std::int64_t expert, Rows x, Rows y, bool accumulate) {
    const Product product{&weight, expert, y, accumulate, nullptr};
    matmul(pool, scratch, x, std::span<const Product>(&product, 1));
}

void matmul_experts(ThreadPool& pool, MatmulScratch& scratch, Rows x,
                    std::span<const ExpertRows> groups, std::span<const ExpertProduct> products) {
    const PackedWeight* quantised = nullptr;
    for (const ExpertProduct& product : products) {
        STRATA_INVARIANT(product.weight->cols == x.cols && product.y.cols == product.weight->rows);
        if (takes_quantised_rows(*product.weight)) quantised = product.weight;
    }
    std::size_t routed = 0;
    for (const ExpertRows& group : groups) routed += group.from.size();
    if (routed == 0 || products.empty()) return;
    const RowSource source = make_source(pool, scratch, x, quantised);
    scratch.x_rows.resize(products.size() * routed);
    scratch.y_rows.resize(products.size() * routed);
    scratch.segments.clear();
    std::size_t at = 0;
    for (const ExpertProduct& product : products) {
        const bool as_quantised = takes_quantised_rows(*product.weight);
        for (const ExpertRows& group : groups) {
            if (group.from.empty()) continue;
            STRATA_INVARIANT(group.expert >= 0 && group.expert < product.weight->experts);
            STRATA_INVARIANT(group.from.size() == group.to.size());
            MatmulScratch::Segment segment;
            segment.weight = product.weight;
            segment.tiles = product.weight->expert_start(group.expert);
            segment.scale = product.weight->scale_of(group.expert);
            segment.x = scratch.x_rows.data() + at;
            segment.y = scratch.y_rows.data() + at;
            segment.tokens = static_cast<std::int64_t>(group.from.size());
            for (std::size_t i = 0; i < group.from.size(); ++i, ++at) {
                STRATA_INVARIANT(group.from[i] >= 0 && group.from[i] < x.rows);
                STRATA_INVARIANT(group.to[i] >= 0 && group.to[i] < product.y.rows);
                scratch.x_rows[at] = source.row(group.from[i], as_quantised);
                scratch.y_rows[at] = product.y.values + group.to[i] * product.y.cols;
            }
            scratch.segments.push_back(segment);
        }
    }
    run_segments(pool, scratch);
}

}  // namespace strata
