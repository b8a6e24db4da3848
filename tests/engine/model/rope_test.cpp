// Rotary frequencies against the published formulas of their scalings, written out in f64.
#include "engine/model/rope.hpp"

#include <cmath>

#include <catch2/catch.hpp>

using namespace strata;

namespace {

constexpr double kPi = 3.14159265358979323846;

RopeConfig llama_like() {
    RopeConfig rope;
    rope.dims = 128;
    rope.base = 500000.0;
    rope.original_context = 8192;
    return rope;
}

double theta(const RopeConfig& rope, std::size_t i) {
    return std::pow(rope.base, -2.0 * static_cast<double>(i) / static_cast<double>(rope.dims));
}

// Angles grow with the position: frequencies must agree to more digits than f32 has.
void check_equal(double got, double wanted) {
    CHECK(std::abs(got - wanted) <= 1.0e-12 * std::abs(wanted));
}

}  // namespace

TEST_CASE("rope without scaling turns pair i by base to the minus 2i over n per position") {
    const RopeConfig rope = llama_like();
    const std::vector<double> got = rope_frequencies(rope, {});
    REQUIRE(got.size() == 64);
    CHECK(got[0] == 1.0);
    for (std::size_t i = 0; i < 64; ++i) check_equal(got[i], theta(rope, i));
    CHECK(rope_magnitude(rope) == 1.0);
}

TEST_CASE("linear rope scaling divides every angle by the factor") {
    RopeConfig rope = llama_like();
    rope.scaling = RopeScaling::linear;
    rope.factor = 4.0;
    const std::vector<double> got = rope_frequencies(rope, {});
    for (std::size_t i = 0; i < 64; ++i) check_equal(got[i], theta(rope, i) / 4.0);
    CHECK(rope_magnitude(rope) == 1.0);
}

TEST_CASE("yarn keeps fast pairs and stretches slow ones with a ramp between") {
    RopeConfig rope;  // Qwen3's published long-context setting
    rope.dims = 128;
    rope.base = 1000000.0;
    rope.scaling = RopeScaling::yarn;
    rope.factor = 4.0;
    rope.original_context = 32768;
    const auto corr = [&](double turns) {
        return 128.0 * std::log(32768.0 / (turns * 2.0 * kPi)) / (2.0 * std::log(1000000.0));
    };
    const double low = std::floor(corr(32.0));
    const double high = std::ceil(corr(1.0));
    REQUIRE(low == 23.0);   // computed by hand: 128 ln(162.97) / 27.631 = 23.59
    REQUIRE(high == 40.0);  // 128 ln(5215.2) / 27.631 = 39.65
    const std::vector<double> got = rope_frequencies(rope, {});
    for (std::size_t i = 0; i < 64; ++i) {
        const double ramp = (static_cast<double>(i) - low) / (high - low);
        const double mix = 1.0 - std::min(1.0, std::max(0.0, ramp));
        check_equal(got[i], theta(rope, i) * ((1.0 - mix) / 4.0 + mix));
    }
    check_equal(got[10], theta(rope, 10));
    check_equal(got[50], theta(rope, 50) / 4.0);
    check_equal(rope_magnitude(rope), 1.0 + 0.1 * std::log(4.0));
}

TEST_CASE(
    "yarn multiplies cosine and sine by the attention factor and the logarithm of the factor") {
    RopeConfig rope = llama_like();
    rope.scaling = RopeScaling::yarn;
    rope.factor = 40.0;
    rope.attention_factor = 0.75;
    check_equal(rope_magnitude(rope), 0.75 * (1.0 + 0.1 * std::log(40.0)));
    rope.yarn_log_multiplier = 1.0;
    check_equal(rope_magnitude(rope), 0.75);
}

TEST_CASE("llama 3 factors divide the angle of their pair") {
    const RopeConfig rope = llama_like();
    // The rule behind the stored factors: factor 8, low and high frequency factors 1 and 4.
    std::vector<float> divisors;
    for (std::size_t i = 0; i < 64; ++i) {
        const double wavelength = 2.0 * kPi / theta(rope, i);
        double divisor = 1.0;
        if (wavelength > 8192.0) {
            divisor = 8.0;
        } else if (wavelength > 8192.0 / 4.0) {
            const double smooth = (8192.0 / wavelength - 1.0) / 3.0;
            divisor = 1.0 / ((1.0 - smooth) / 8.0 + smooth);
        }
        divisors.push_back(static_cast<float>(divisor));
    }
    REQUIRE(divisors.front() == 1.0F);
    REQUIRE(divisors.back() == 8.0F);
    const std::vector<double> got = rope_frequencies(rope, divisors);
    for (std::size_t i = 0; i < 64; ++i) {
        check_equal(got[i], theta(rope, i) / static_cast<double>(divisors[i]));
    }
}
