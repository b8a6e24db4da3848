#include "tools/bench/synthetic/patterns.hpp"

#include <cmath>
#include <cstring>

#include "strata/core/invariant.hpp"

namespace strata::bench {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014): every seed is good, and 8 bytes take about a nanosecond.
class Random {
  public:
    explicit Random(std::uint64_t seed) : at_(seed) {}
    std::uint64_t next() {
        at_ += 0x9e3779b97f4a7c15U;
        std::uint64_t mixed = at_;
        mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9U;
        mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebU;
        return mixed ^ (mixed >> 31);
    }
    // Evenly between the two.
    float real(float least, float most) {
        return least + (most - least) * (static_cast<float>(next() >> 40) * 0x1p-24F);
    }

  private:
    std::uint64_t at_;
};

void fill_bytes(Random& random, std::span<std::byte> to) {
    std::size_t at = 0;
    for (; at + sizeof(std::uint64_t) <= to.size(); at += sizeof(std::uint64_t)) {
        const std::uint64_t word = random.next();
        std::memcpy(to.data() + at, &word, sizeof word);
    }
    for (; at < to.size(); ++at) to[at] = static_cast<std::byte>(random.next());
}

// The f16 nearest to a positive `value` below 1.
std::uint16_t half_of(double value) {
    constexpr int kLeastExponent = -14;
    const int exponent = std::ilogb(value);
    if (exponent < kLeastExponent) {
        return static_cast<std::uint16_t>(std::lround(std::ldexp(value, 24)));
    }
    const double mantissa = std::ldexp(value, -exponent) - 1;
    return static_cast<std::uint16_t>(((exponent + 15) << 10) + std::lround(mantissa * 1024));
}

// Places of an f16 in a block, and its value.
struct Scale {
    std::size_t offset;
    double value;
};

void set_scales(std::span<std::byte> to, std::size_t block, std::initializer_list<Scale> scales) {
    for (std::size_t at = 0; at < to.size(); at += block) {
        for (const Scale& scale : scales) {
            const std::uint16_t half = half_of(scale.value);
            std::memcpy(to.data() + at + scale.offset, &half, sizeof half);
        }
    }
}

// With random codes and sub-scales the deviation is the scale times the second number.
constexpr double kDeviation = 0.02;
constexpr double kQ8Scale = kDeviation / 73.9;   // codes -128 to 127
constexpr double kQ4KScale = kDeviation / 258;   // sub-scales 0 to 63, codes 0 to 15
constexpr double kQ4KMin = kQ4KScale * 7.5;      // takes the codes' mean away
constexpr double kQ6KScale = kDeviation / 1366;  // sub-scales -128 to 127, codes -32 to 31
constexpr double kIq3SScale = kDeviation / 157;  // sub-scales 1 to 31, magnitudes 1 to 15

// Signs and mantissas are random, exponents -8, -7 or -6: magnitudes 0.004 to 0.031.
void make_halves(std::span<std::byte> to) {
    for (std::size_t at = 0; at + 2 <= to.size(); at += 2) {
        std::uint16_t half = 0;
        std::memcpy(&half, to.data() + at, sizeof half);
        const unsigned exponent = 7U + (half >> 10) % 3U;
        half = static_cast<std::uint16_t>((half & 0x83ffU) | (exponent << 10));
        std::memcpy(to.data() + at, &half, sizeof half);
    }
}

// Four scales of 16 elements; below exponent 1 a UE4M3 is its mantissa times 2^-9.
void make_nvfp4(std::span<std::byte> to) {
    constexpr std::size_t kBlock = block_shape(ElementType::nvfp4).bytes;
    for (std::size_t at = 0; at < to.size(); at += kBlock) {
        for (std::size_t i = 0; i < 4; ++i) {
            const auto random = std::to_integer<unsigned>(to[at + i]);
            to[at + i] = static_cast<std::byte>(2 + random % 4);
        }
    }
}

void fill_floats(Random& random, float least, float most, std::span<std::byte> to) {
    for (std::size_t at = 0; at < to.size(); at += sizeof(float)) {
        const float value = random.real(least, most);
        std::memcpy(to.data() + at, &value, sizeof value);
    }
}

void fill_values(Random& random, Content content, std::span<std::byte> to) {
    switch (content) {
        case Content::matrix:
            return fill_floats(random, -0.035F, 0.035F, to);
        case Content::gain:
            return fill_floats(random, 0.9F, 1.1F, to);
        case Content::decay:
            return fill_floats(random, -8.0F, -0.1F, to);
        case Content::dt_bias:
            return fill_floats(random, -6.0F, -2.0F, to);
        case Content::taps:
            return fill_floats(random, -0.5F, 0.5F, to);
    }
}

}  // namespace

void fill_pattern(ElementType type, Content content, std::uint64_t seed, std::span<std::byte> to) {
    const std::size_t block = block_shape(type).bytes;
    STRATA_INVARIANT(to.size() % block == 0);
    Random random(seed);
    if (type == ElementType::f32) return fill_values(random, content, to);
    fill_bytes(random, to);
    switch (type) {
        case ElementType::f16:
            return make_halves(to);
        case ElementType::q8_0:
            return set_scales(to, block, {{0, kQ8Scale}});
        case ElementType::q4_k:
            return set_scales(to, block, {{0, kQ4KScale}, {2, kQ4KMin}});
        case ElementType::q6_k:
            return set_scales(to, block, {{208, kQ6KScale}});
        case ElementType::iq3_s:
            return set_scales(to, block, {{0, kIq3SScale}});
        case ElementType::nvfp4:
            return make_nvfp4(to);
        case ElementType::f32:
        case ElementType::bf16:
        case ElementType::q4_0:
        case ElementType::q5_k:
        case ElementType::iq4_nl:
        case ElementType::mxfp4:
            break;
    }
    STRATA_INVARIANT(false);  // no synthetic model has it
}

}  // namespace strata::bench
