// The formats' definition: every block type against values that another implementation decoded, and
// the 16-bit conversions against arithmetic in double.
#include "engine/backend/cpu/blocks.hpp"

#include <bit>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include <boost/json.hpp>
#include <catch2/catch.hpp>

using namespace strata;

namespace {

boost::json::object blocks_of(const char* type) {
    std::ifstream file(STRATA_REFERENCE_SOURCE_DIR "/blocks.json");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return boost::json::parse(text).as_object().at(type).as_object();
}

std::vector<std::byte> from_hex(std::string_view hex) {
    const auto digit = [](char c) {
        return static_cast<unsigned>(c <= '9' ? c - '0' : c - 'a' + 10);
    };
    std::vector<std::byte> out;
    for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
        out.push_back(static_cast<std::byte>(digit(hex[i]) << 4 | digit(hex[i + 1])));
    }
    return out;
}

const ElementType kQuantised[] = {ElementType::q8_0,  ElementType::q4_0,  ElementType::q4_k,
                                  ElementType::q5_k,  ElementType::q6_k,  ElementType::iq4_nl,
                                  ElementType::iq3_s, ElementType::mxfp4, ElementType::nvfp4};

// What the bits of a binary16 mean, by its definition.
double value_of_f16(std::uint16_t bits) {
    const double sign = (bits & 0x8000U) != 0 ? -1.0 : 1.0;
    const int exponent = bits >> 10 & 31;
    const double mantissa = bits & 1023;
    if (exponent == 31) {
        return mantissa == 0 ? sign * std::numeric_limits<double>::infinity()
                             : std::numeric_limits<double>::quiet_NaN();
    }
    if (exponent == 0) return sign * mantissa * std::pow(2.0, -24);
    return sign * (1.0 + mantissa / 1024.0) * std::pow(2.0, exponent - 15);
}

}  // namespace

TEST_CASE("blocks of every quantised type decode to the recorded values exactly") {
    for (const ElementType type : kQuantised) {
        const auto recorded = blocks_of(element_type_name(type));
        INFO(element_type_name(type));
        const BlockShape shape = block_shape(type);
        REQUIRE(shape.elements ==
                static_cast<std::size_t>(recorded.at("block_elements").as_int64()));
        REQUIRE(shape.bytes == static_cast<std::size_t>(recorded.at("block_bytes").as_int64()));
        const auto stored = from_hex(std::string(recorded.at("blocks_hex").as_string()));
        const auto& values = recorded.at("values").as_array();
        REQUIRE(stored.size() / shape.bytes * shape.elements == values.size());
        std::vector<float> decoded(values.size(), -1.0F);
        decode_blocks(type, stored.data(), decoded.size(), decoded.data());
        for (std::size_t i = 0; i < values.size(); ++i) {
            INFO("element " << i);
            REQUIRE(decoded[i] == static_cast<float>(values[i].to_number<double>()));
        }
    }
}

TEST_CASE("the table of IQ3_S is the recorded one") {
    // A block of grid index k in every place, scale 1: reads the table back through the decoder.
    const auto grid = blocks_of("IQ3_S").at("grid").as_array();
    REQUIRE(grid.size() == 512);
    for (std::size_t k = 0; k < grid.size(); ++k) {
        std::vector<std::byte> block(110);
        block[1] = std::byte{0x3C};  // d = 1
        for (std::size_t i = 0; i < 64; ++i) block[2 + i] = static_cast<std::byte>(k & 255);
        for (std::size_t i = 0; i < 8; ++i) block[66 + i] = k > 255 ? std::byte{255} : std::byte{0};
        std::vector<float> decoded(256);
        decode_blocks(ElementType::iq3_s, block.data(), decoded.size(), decoded.data());
        for (std::size_t i = 0; i < decoded.size(); ++i) {
            REQUIRE(decoded[i] == grid[k].as_array()[i % 4].to_number<float>());
        }
    }
}

TEST_CASE("plain element types decode to themselves") {
    const std::vector<float> values = {0.0F, -0.0F, 1.5F, -3.25e-20F, 3.0e38F};
    std::vector<float> decoded(values.size());
    decode_blocks(ElementType::f32, reinterpret_cast<const std::byte*>(values.data()),
                  values.size(), decoded.data());
    CHECK(decoded == values);
    const std::vector<std::uint16_t> halves = {0x3C00, 0xC000, 0x0001, 0x7BFF};
    decoded.resize(halves.size());
    decode_blocks(ElementType::f16, reinterpret_cast<const std::byte*>(halves.data()),
                  halves.size(), decoded.data());
    CHECK(decoded == std::vector<float>{1.0F, -2.0F, std::ldexp(1.0F, -24), 65504.0F});
    const std::vector<std::uint16_t> brains = {0x3F80, 0xC000, 0x0001, 0x7F7F};
    decode_blocks(ElementType::bf16, reinterpret_cast<const std::byte*>(brains.data()),
                  brains.size(), decoded.data());
    CHECK(decoded == std::vector<float>{1.0F, -2.0F, std::ldexp(1.0F, -133),
                                        std::bit_cast<float>(0x7F7F0000U)});
}

TEST_CASE("all binary16 patterns mean what their definition says and survive the way back") {
    for (std::uint32_t bits = 0; bits < 65'536; ++bits) {
        const auto half = static_cast<std::uint16_t>(bits);
        const float value = f16_to_f32(half);
        const double meant = value_of_f16(half);
        INFO("bits " << bits);
        if (std::isnan(meant)) {
            REQUIRE(std::isnan(value));
            REQUIRE(std::isnan(f16_to_f32(f32_to_f16(value))));
            continue;
        }
        REQUIRE(static_cast<double>(value) == meant);
        REQUIRE(std::signbit(value) == std::signbit(meant));
        REQUIRE(f32_to_f16(value) == half);
    }
}

TEST_CASE("a float between two binary16 values becomes the nearer one and ties go to even") {
    for (std::uint32_t bits = 0; bits < 0x7C00; ++bits) {
        const auto below = static_cast<std::uint16_t>(bits);
        const auto above = static_cast<std::uint16_t>(bits + 1);
        const double low = value_of_f16(below);
        // Beyond the largest value the next step would be 65536, and that becomes infinity.
        const double high = bits + 1 == 0x7C00 ? 65'536.0 : value_of_f16(above);
        const auto middle = static_cast<float>((low + high) / 2.0);
        const std::uint16_t even = (bits & 1U) == 0 ? below : above;
        INFO("bits " << bits);
        REQUIRE(f32_to_f16(middle) == even);
        REQUIRE(f32_to_f16(-middle) == (even | 0x8000U));
        REQUIRE(f32_to_f16(std::nextafter(middle, 0.0F)) == below);
        REQUIRE(f32_to_f16(std::nextafter(middle, 1e9F)) == above);
    }
}

TEST_CASE("floats beyond the range of binary16 become infinity or zero with their sign") {
    const float infinity = std::numeric_limits<float>::infinity();
    CHECK(f32_to_f16(infinity) == 0x7C00);
    CHECK(f32_to_f16(-infinity) == 0xFC00);
    CHECK(f32_to_f16(1e10F) == 0x7C00);
    CHECK(f32_to_f16(-65'520.0F) == 0xFC00);
    CHECK(f32_to_f16(1e-10F) == 0x0000);
    CHECK(f32_to_f16(-1e-10F) == 0x8000);
    CHECK(f32_to_f16(std::numeric_limits<float>::denorm_min()) == 0x0000);
}

TEST_CASE("bfloat16 rounds to nearest even and keeps infinities and NaN") {
    CHECK(f32_to_bf16(std::bit_cast<float>(0x3F808000U)) == 0x3F80);
    CHECK(f32_to_bf16(std::bit_cast<float>(0x3F818000U)) == 0x3F82);
    CHECK(f32_to_bf16(std::bit_cast<float>(0x3F808001U)) == 0x3F81);
    CHECK(f32_to_bf16(std::numeric_limits<float>::infinity()) == 0x7F80);
    CHECK(f32_to_bf16(std::numeric_limits<float>::max()) == 0x7F80);
    CHECK(std::isnan(bf16_to_f32(f32_to_bf16(std::bit_cast<float>(0x7F800001U)))));
    for (std::uint32_t bits = 0; bits < 0x7F80; ++bits) {
        REQUIRE(f32_to_bf16(bf16_to_f32(static_cast<std::uint16_t>(bits))) == bits);
    }
}

TEST_CASE("shared exponents and scale bytes of the FP4 formats follow their definitions") {
    for (int byte = 0; byte < 255; ++byte) {
        REQUIRE(2.0 * static_cast<double>(e8m0_half(static_cast<std::uint8_t>(byte))) ==
                std::pow(2.0, byte - 127));
    }
    for (unsigned byte = 0; byte < 0x7F; ++byte) {
        const double mantissa = byte & 7U;
        const int exponent = static_cast<int>(byte >> 3);
        const double meant =
            exponent == 0 ? mantissa / 512.0 : (1.0 + mantissa / 8.0) * std::pow(2.0, exponent - 7);
        REQUIRE(2.0 * static_cast<double>(ue4m3_half(static_cast<std::uint8_t>(byte))) == meant);
    }
    CHECK(ue4m3_half(0x7F) == 0.0F);
}
