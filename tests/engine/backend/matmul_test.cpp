// Products of every weight type on every instruction set of this machine against float64 sums over
// the decoded weights, at shapes that fill tiles and blocks of tokens and at shapes that do not.
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "engine/backend/cpu/code_lanes.hpp"
#include "engine/backend/cpu/kernels.hpp"
#include "engine/backend/cpu/quantise_rows.hpp"
#include "tests/engine/backend/matmul_cases.hpp"

namespace strata {
namespace {

using namespace matmul_cases;

struct Shape {
    std::int64_t rows;
    std::int64_t cols;  // of quantised types in units of their block
    std::int64_t tokens;
};

// f32 sums of up to a few hundred products: each step rounds to 2^-24 of the sum so far.
constexpr double kRelativeError = 2e-6;

void check_against_float64(ElementType type, Isa isa, Shape shape) {
    const auto stored = make_stored(type, shape.cols, shape.rows, 1, 11U);
    const auto weight = pack(*stored, isa);
    REQUIRE(weight != nullptr);
    const std::vector<float> x = make_rows(shape.tokens, shape.cols, 5U);
    const std::vector<double> seen =
        is_float(type) ? std::vector<double>(x.begin(), x.end()) : rounded_rows(x, shape.cols);
    constexpr float kUntouched = 12345.0F;
    std::vector<float> y(static_cast<std::size_t>(shape.tokens * shape.rows) + 16, kUntouched);
    ThreadPool pool(2);
    MatmulScratch scratch;
    std::vector<float> input = x;
    matmul(pool, scratch, *weight, 0, {input.data(), shape.tokens, shape.cols},
           {y.data(), shape.tokens, shape.rows}, false);
    CHECK(input == x);
    std::int64_t wrong = 0;
    for (std::int64_t t = 0; t < shape.tokens; ++t) {
        for (std::int64_t r = 0; r < shape.rows; ++r) {
            const Sum expected = dot(stored->values.data() + r * shape.cols,
                                     seen.data() + t * shape.cols, shape.cols);
            const double got = y[static_cast<std::size_t>(t * shape.rows + r)];
            if (!(std::fabs(got - expected.value) <= kRelativeError * expected.size + 1e-30))
                ++wrong;
        }
    }
    INFO(element_type_name(type) << " on " << isa_name(isa) << ": " << shape.rows << " x "
                                 << shape.cols << ", " << shape.tokens << " tokens");
    CHECK(wrong == 0);
    for (std::size_t i = y.size() - 16; i < y.size(); ++i) CHECK(y[i] == kUntouched);
}

TEST_CASE("matmul equals the float64 sum for every type and instruction set") {
    for (const Isa isa : available_isas()) {
        for (const ElementType type : kAllTypes) {
            const auto block = static_cast<std::int64_t>(block_shape(type).elements);
            for (const Shape shape :
                 {Shape{1, 1, 1}, Shape{16, 2, 1}, Shape{17, 3, 2}, Shape{5, 1, 3}, Shape{33, 2, 7},
                  Shape{70, 1, 13}, Shape{130, 3, 1}, Shape{48, 2, 29}}) {
                const std::int64_t unit = is_float(type) ? 37 : block;
                check_against_float64(type, isa, {shape.rows, shape.cols * unit, shape.tokens});
            }
        }
    }
}

TEST_CASE("matmul stays within the rounding of int8 activations") {
    for (const Isa isa : available_isas()) {
        const auto stored = make_stored(ElementType::q8_0, 256, 20, 1, 3U);
        const auto weight = pack(*stored, isa);
        std::vector<float> x = make_rows(2, 256, 9U);
        std::vector<float> y(40);
        ThreadPool pool(1);
        MatmulScratch scratch;
        matmul(pool, scratch, *weight, 0, {x.data(), 2, 256}, {y.data(), 2, 20}, false);
        for (std::size_t t = 0; t < 2; ++t) {
            for (std::size_t r = 0; r < 20; ++r) {
                const float* w = stored->values.data() + r * 256;
                double bound = 1e-4;
                for (std::size_t k = 0; k < 256; k += 32) {
                    float largest = 0.0F;
                    double weights = 0;
                    for (std::size_t j = k; j < k + 32; ++j) {
                        largest = std::max(largest, std::fabs(x[t * 256 + j]));
                        weights += std::fabs(static_cast<double>(w[j]));
                    }
                    bound += weights * static_cast<double>(largest) / 127.0 / 2.0;
                }
                const Sum exact = dot(w, x.data() + t * 256, 256);
                CHECK(std::fabs(static_cast<double>(y[t * 20 + r]) - exact.value) <= bound);
            }
        }
    }
}

TEST_CASE("matmul adds a bias and accumulates and applies the scale of the weight") {
    for (const Isa isa : available_isas()) {
        for (const ElementType type : {ElementType::f32, ElementType::q8_0, ElementType::nvfp4}) {
            constexpr std::int64_t kRows = 21;
            constexpr std::int64_t kCols = 64;
            const auto stored = make_stored(type, kCols, kRows, 1, 21U);
            const auto weight = pack(*stored, isa);
            std::vector<float> x = make_rows(3, kCols, 2U);
            std::vector<float> plain(3 * kRows);
            std::vector<float> y(3 * kRows, 10.0F);
            std::vector<float> bias(kRows);
            for (std::size_t r = 0; r < bias.size(); ++r) bias[r] = static_cast<float>(r) - 4.0F;
            ThreadPool pool(1);
            MatmulScratch scratch;
            matmul(pool, scratch, *weight, 0, {x.data(), 3, kCols}, {plain.data(), 3, kRows},
                   false);
            weight->scale = 0.5F;
            const Product product{weight.get(), 0, {y.data(), 3, kRows}, true, bias.data()};
            matmul(pool, scratch, {x.data(), 3, kCols}, std::span(&product, 1));
            for (std::size_t i = 0; i < y.size(); ++i) {
                CHECK(y[i] == 10.0F + (plain[i] * 0.5F + bias[i % kRows]));
            }
        }
    }
}

TEST_CASE("matmul passes a value that is not finite to its own row only") {
    for (const Isa isa : available_isas()) {
        for (const ElementType type : kAllTypes) {
            const auto cols = static_cast<std::int64_t>(block_shape(type).elements) * 2;
            const auto stored = make_stored(type, cols, 18, 1, 8U);
            const auto weight = pack(*stored, isa);
            for (const float bad : {std::numeric_limits<float>::quiet_NaN(),
                                    std::numeric_limits<float>::infinity()}) {
                std::vector<float> x = make_rows(3, cols, 4U);
                x[static_cast<std::size_t>(cols + cols / 2)] = bad;
                std::vector<float> y(3 * 18);
                ThreadPool pool(1);
                MatmulScratch scratch;
                matmul(pool, scratch, *weight, 0, {x.data(), 3, cols}, {y.data(), 3, 18}, false);
                std::int64_t finite = 0;
                for (std::size_t i = 0; i < y.size(); ++i) {
                    if (std::isfinite(y[i])) ++finite;
                    if (i / 18 == 1) CHECK_FALSE(std::isfinite(y[i]));
                }
                CHECK(finite == 2 * 18);
            }
        }
    }
}

TEST_CASE("matmul rounds activations alike on every instruction set") {
    constexpr std::int64_t kCols = 32 * 9;
    std::vector<float> x = make_rows(1, kCols, 77U);
    x[5] = 1e-42F;  // a block of nothing else would overflow 127 / largest
    for (std::size_t j = 32; j < 64; ++j) x[j] = 0.0F;
    x[40] = -1e-42F;
    x[70] = std::numeric_limits<float>::quiet_NaN();
    for (std::size_t j = 128; j < 160; ++j) x[j] = static_cast<float>(j % 3) - 0.5F;  // ties
    const std::size_t bytes = activation_layout(kCols).row_bytes;
    AlignedBytes expected(bytes);
    quantise_row_scalar(x.data(), kCols, expected.get());
    for (const Isa isa : available_isas()) {
        AlignedBytes row(bytes);
        kernels(isa).quantise_row(x.data(), kCols, row.get());
        CHECK(std::memcmp(row.get(), expected.get(), bytes) == 0);
    }
}

// Value of element (row, k) of a tile whose blocks were taken apart.
struct TileValue {
    double value;
    double size;
};
TileValue tile_value(const std::vector<CodeBlock>& blocks, const CodeLayout& layout,
                     std::int64_t row, std::int64_t k) {
    const CodeBlock& block = blocks[static_cast<std::size_t>(k / 32)];
    const int code =
        static_cast<int>(block.codes[(k % 32 / 4 * kTileRows + row) * 4 + k % 4]) - 128;
    const bool second = layout.half_scales && k % 32 >= 16;
    const double product = code * static_cast<double>(block.scales[(second ? 16 : 0) + row]);
    const double minimum = layout.minimums ? static_cast<double>(block.minimums[row]) : 0.0;
    return {product - minimum, std::fabs(product) + std::fabs(minimum)};
}

TEST_CASE("codes and scales of a tile are the stored values on every instruction set") {
    for (const ElementType type : kAllTypes) {
        if (is_float(type) || type == ElementType::q8_0) continue;
        const std::int64_t cols = 3 * std::max<std::int64_t>(block_shape(type).elements, 64);
        constexpr std::int64_t kRows = 13;
        const auto stored = make_stored(type, cols, kRows, 1, 31U);
        const CodeLayout layout = code_layout(type);
        for (const Isa isa : available_isas()) {
            const auto weight = pack(*stored, isa);
            std::vector<CodeBlock> blocks(static_cast<std::size_t>(cols / 32));
            for (std::size_t b = 0; b < blocks.size(); ++b) {
                const auto in_group = static_cast<std::size_t>(layout.blocks);
                kernels(isa).unpack_of(type)(
                    weight->expert_start(0) + b / in_group * layout.group_bytes(),
                    static_cast<std::int64_t>(b % in_group), blocks[b]);
            }
            std::int64_t wrong = 0;
            for (std::int64_t row = 0; row < kRows; ++row) {
                for (std::int64_t k = 0; k < cols; ++k) {
                    const TileValue got = tile_value(blocks, layout, row, k);
                    const double expected =
                        stored->values[static_cast<std::size_t>(row * cols + k)];
                    if (!(std::fabs(got.value - expected) <= 2e-7 * got.size)) ++wrong;
                }
            }
            INFO(element_type_name(type) << " on " << isa_name(isa));
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("every scale byte of the four bit floats is taken apart alike") {
    for (const ElementType type : {ElementType::mxfp4, ElementType::nvfp4}) {
        const BlockShape shape = block_shape(type);
        const auto elements = static_cast<std::int64_t>(shape.elements);
        auto stored = make_stored(type, elements, 256, 1, 37U);
        for (std::size_t row = 0; row < 256; ++row) {
            stored->bytes[row * shape.bytes] = static_cast<std::byte>(row);
        }
        decode_blocks(type, stored->bytes.data(), stored->values.size(), stored->values.data());
        for (const Isa isa : available_isas()) {
            const auto weight = pack(*stored, isa);
            std::int64_t wrong = 0;
            for (std::int64_t row = 0; row < 256; ++row) {
                std::vector<CodeBlock> blocks(1);
                kernels(isa).unpack_of(type)(
                    weight->expert_start(0) +
                        static_cast<std::size_t>(row / kTileRows) * weight->tile_bytes,
                    0, blocks[0]);
                for (std::int64_t k = 0; k < 16; ++k) {
                    const TileValue got = tile_value(blocks, code_layout(type), row % kTileRows, k);
                    const float expected =
                        stored->values[static_cast<std::size_t>(row * elements + k)];
                    if (static_cast<float>(got.value) != expected) ++wrong;
                }
            }
            INFO(element_type_name(type) << " on " << isa_name(isa));
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("a packed weight takes about as many bytes as the file") {
    for (const ElementType type : kAllTypes) {
        const auto stored = make_stored(type, 1024, 64, 1, 29U);
        const auto weight = pack(*stored, Isa::scalar);
        CHECK(static_cast<double>(weight->memory.bytes()) <=
              1.04 * static_cast<double>(stored->bytes.size()));
    }
}

TEST_CASE("a row of a packed weight decodes to the stored values") {
    for (const ElementType type : kAllTypes) {
        const auto cols = static_cast<std::int64_t>(block_shape(type).elements) * 3;
        const auto stored = make_stored(type, cols, 37, 1, 13U);
        const auto weight = pack(*stored, Isa::scalar);
        for (const std::int64_t row : {0, 15, 16, 36}) {
            std::vector<float> out(static_cast<std::size_t>(cols));
            decode_row(*weight, row, out.data());
            const float* expected = stored->values.data() + row * cols;
            CHECK(std::memcmp(out.data(), expected, out.size() * sizeof(float)) == 0);
        }
    }
}

TEST_CASE("packing refuses what does not fit its shape") {
    std::vector<std::byte> bytes(34 * 4);
    const auto refused = [&](StoredTensor tensor) {
        const auto packed = pack_weight(tensor, Isa::scalar);
        return packed ? std::string() : packed.error().text;
    };
    CHECK(refused({ElementType::q8_0, 32, 4, 1, bytes}).empty());
    CHECK(refused({ElementType::q8_0, 33, 4, 1, bytes}).find("multiple of 32") !=
          std::string::npos);
    CHECK(refused({ElementType::q8_0, 32, 5, 1, bytes}).find("136 bytes") != std::string::npos);
    CHECK_FALSE(refused({ElementType::q8_0, 0, 4, 1, bytes}).empty());
    CHECK_FALSE(refused({ElementType::q8_0, 32, -4, 1, bytes}).empty());
    CHECK_FALSE(refused({ElementType::q8_0, 32, 4, 0, bytes}).empty());
    constexpr std::int64_t kHuge = std::int64_t{1} << 62;
    CHECK_FALSE(refused({ElementType::q8_0, kHuge, kHuge, 2, bytes}).empty());
}

TEST_CASE("kernels are chosen by word") {
    CHECK(choose_isa("scalar").value() == Isa::scalar);
    CHECK(choose_isa("auto").value() == available_isas().back());
    CHECK(choose_isa("sse9").error().text.find("sse9") != std::string::npos);
    CHECK(available_isas().front() == Isa::scalar);
}

}  // namespace
}  // namespace strata
