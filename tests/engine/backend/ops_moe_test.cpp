// Mixtures of experts against their formulas in f64: the router's choice and weights, the experts.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include <catch2/catch.hpp>

#include "tests/engine/backend/matmul_cases.hpp"
#include "tests/engine/backend/ops_fixture.hpp"

using namespace strata;
using namespace strata::ops_fixture;

namespace {

constexpr double kTolerance = 2.0e-5;

std::size_t at(std::int64_t index) {
    return static_cast<std::size_t>(index);
}

struct Routing {
    std::vector<std::int32_t> experts;
    std::vector<float> weights;
};

Routing route(Device& device, const std::vector<float>& router, std::int64_t experts,
              const std::vector<float>& x, std::int64_t used, const RouteRule& rule) {
    const std::int64_t cols = static_cast<std::int64_t>(router.size()) / experts;
    const std::int64_t rows = static_cast<std::int64_t>(x.size()) / cols;
    const Buffer chosen = allocate(device, at(rows * used) * sizeof(std::int32_t));
    const DeviceRows weights(device, rows, used);
    const auto weight = upload(device, router, cols, experts);
    device.ops().moe_route(
        DeviceRows(device, x, cols), *weight, rule,
        {static_cast<std::int32_t*>(chosen.address()), Rows(weights).values, used});
    Routing out;
    out.experts.resize(at(rows * used));
    device.copy_to_host(out.experts.data(), chosen.address(),
                        out.experts.size() * sizeof(std::int32_t));
    out.weights = weights.read();
    return out;
}

// The experts' feed-forward by the definition.
struct Mixture {
    std::int64_t width = 32;
    std::int64_t hidden = 48;
    std::int64_t experts = 5;
    std::vector<float> gate, up, down;  // [experts][...]
    std::vector<float> shared_gate, shared_up, shared_down, shared_input;

    explicit Mixture(Numbers& numbers)
        : gate(numbers.list(experts * width * hidden)),
          up(numbers.list(experts * width * hidden)),
          down(numbers.list(experts * width * hidden)),
          shared_gate(numbers.list(width * 16)),
          shared_up(numbers.list(width * 16)),
          shared_down(numbers.list(width * 16)),
          shared_input(numbers.list(width)) {}

    static std::vector<double> feed(std::span<const float> gate, std::span<const float> up,
                                    std::span<const float> down, const std::vector<double>& x) {
        std::vector<double> h = times(gate, x);
        const std::vector<double> u = times(up, x);
        for (std::size_t i = 0; i < h.size(); ++i) h[i] = silu(h[i]) * u[i];
        return times(down, h);
    }

    std::vector<double> result(const std::vector<double>& x, std::span<const std::int32_t> chosen,
                               std::span<const float> weights, bool shared) const {
        std::vector<double> out(at(width), 0.0);
        const auto add = [&](const std::vector<double>& y, double factor) {
            for (std::size_t i = 0; i < out.size(); ++i) out[i] += factor * y[i];
        };
        const std::size_t size = at(width * hidden);
        for (std::size_t k = 0; k < chosen.size(); ++k) {
            const std::size_t start = at(chosen[k]) * size;
            const auto part = [&](const std::vector<float>& all) {
                return std::span<const float>(all).subspan(start, size);
            };
            add(feed(part(gate), part(up), part(down), x), static_cast<double>(weights[k]));
        }
        if (shared) {
            const double share = sigmoid(times(shared_input, x)[0]);
            add(feed(shared_gate, shared_up, shared_down, x), share);
        }
        return out;
    }
};

enum class Form { apart, fused };

// The weights of a mixture on a device. Fused rows are [gate | up] of each expert.
struct Uploaded {
    std::unique_ptr<Weight> gate, up, gate_up, down, shared_gate, shared_up, shared_down;
    DeviceRows shared_input;

    Uploaded(Device& device, const Mixture& m)
        : gate(upload(device, m.gate, m.width, m.hidden, m.experts)),
          up(upload(device, m.up, m.width, m.hidden, m.experts)),
          down(upload(device, m.down, m.hidden, m.width, m.experts)),
          shared_gate(upload(device, m.shared_gate, m.width, 16)),
          shared_up(upload(device, m.shared_up, m.width, 16)),
          shared_down(upload(device, m.shared_down, 16, m.width)),
          shared_input(device, m.shared_input, m.width) {
        std::vector<float> both;
        const std::int64_t size = m.width * m.hidden;
        for (std::int64_t e = 0; e < m.experts; ++e) {
            both.insert(both.end(), m.gate.begin() + e * size, m.gate.begin() + (e + 1) * size);
            both.insert(both.end(), m.up.begin() + e * size, m.up.begin() + (e + 1) * size);
        }
        gate_up = upload(device, both, m.width, 2 * m.hidden, m.experts);
    }

    Experts experts(const Mixture& m, Form form) const {
        if (form == Form::fused) return {nullptr, nullptr, gate_up.get(), down.get(), m.hidden};
        return {gate.get(), up.get(), nullptr, down.get(), m.hidden};
    }
    SharedExpert shared() const {
        return {shared_gate.get(), shared_up.get(), shared_down.get(), shared_input.values()};
    }
};

void check_mixture(Device& device, const Mixture& mixture, std::int64_t rows, Form form,
                   bool shared) {
    constexpr std::int64_t kUsed = 2;
    Numbers numbers(77);
    const std::vector<float> x = numbers.list(rows * mixture.width);
    const std::vector<float> before = numbers.list(rows * mixture.width);
    const std::vector<float> weights = numbers.list(rows * kUsed);
    std::vector<std::int32_t> chosen;
    for (std::int64_t t = 0; t < rows; ++t) {  // expert 4 is never used
        chosen.push_back(static_cast<std::int32_t>(t % 4));
        chosen.push_back(static_cast<std::int32_t>((t + 1 + t / 4) % 4));
    }
    std::vector<double> wanted;
    for (std::int64_t t = 0; t < rows; ++t) {
        std::vector<double> y = mixture.result(
            row_of(x, t, mixture.width), std::span(chosen).subspan(at(t * kUsed), at(kUsed)),
            std::span(weights).subspan(at(t * kUsed), at(kUsed)), shared);
        const std::vector<double> old = row_of(before, t, mixture.width);
        for (std::size_t i = 0; i < y.size(); ++i) wanted.push_back(old[i] + y[i]);
    }
    const Uploaded on(device, mixture);
    const Buffer experts = allocate(device, chosen.size() * sizeof(std::int32_t));
    device.copy_from_host(experts.address(), chosen.data(), chosen.size() * sizeof(std::int32_t));
    const DeviceRows route_weights(device, weights, kUsed);
    const DeviceRows y(device, before, mixture.width);
    const SharedExpert shared_expert = on.shared();
    device.ops().moe_ffn(
        DeviceRows(device, x, mixture.width), on.experts(mixture, form),
        shared ? &shared_expert : nullptr,
        {static_cast<std::int32_t*>(experts.address()), Rows(route_weights).values, kUsed}, y);
    check_close(y.read(), wanted, kTolerance);
}

// Experts of a stored type for many rows: what they should give, and how far a device may be off.
//
// A device rounds activations to int8 codes of blocks of 32, or activations and weights to bf16:
// what it multiplies is off by at most the 254th part of the block's largest value, or by 2^-8 of
// the value for each of the two. Such errors are independent of each other, so their squares add up
// along a sum: from the activations to the gate and up products, to the hidden values (the slope of
// silu is at most 1.1), which are rounded again, to the results. Six standard deviations are
// allowed; a product that takes a wrong row, column or expert is off by about its own size, which
// is several times as much.
struct Estimate {
    double value = 0.0;
    double variance = 0.0;
};
using Estimates = std::vector<Estimate>;

Estimates rounded(const Estimates& exact) {
    Estimates out = exact;
    for (std::size_t i = 0; i < out.size(); ++i) {
        double largest = 0.0;
        for (std::size_t j = i / 32 * 32; j < std::min(i / 32 * 32 + 32, out.size()); ++j) {
            largest = std::max(largest, std::fabs(exact[j].value));
        }
        const double step = largest / 254.0 + std::fabs(exact[i].value) / 128.0;
        out[i].variance += step * step / 3.0;
    }
    return out;
}

Estimates product(const float* weight, std::int64_t rows, const Estimates& x) {
    Estimates out(at(rows));
    for (std::size_t r = 0; r < out.size(); ++r) {
        for (std::size_t c = 0; c < x.size(); ++c) {
            const auto w = static_cast<double>(weight[r * x.size() + c]);
            out[r].value += w * x[c].value;
            out[r].variance += w * w * x[c].variance;
        }
    }
    return out;
}

enum class Choice { even, skewed, one };

struct ManyRows {
    ElementType type = ElementType::q8_0;
    std::int64_t rows = 64;
    std::int64_t width = 64;
    std::int64_t hidden = 32;
    std::int64_t experts = 128;
    std::int64_t used = 8;
    Choice choice = Choice::even;
    Form form = Form::apart;
};

// Skewed: every row has expert 1 and prefers the first ones for the rest. One: expert 0 alone.
std::vector<std::int32_t> choose(const ManyRows& of) {
    std::mt19937 random(5);
    std::vector<std::int32_t> out;
    for (std::int64_t t = 0; t < of.rows; ++t) {
        std::vector<std::int32_t> left(at(of.experts));
        std::iota(left.begin(), left.end(), 0);
        for (std::int64_t k = 0; k < of.used; ++k) {
            std::size_t place = random() % left.size();
            if (of.choice == Choice::skewed) place = k == 0 ? 1 : random() % (place + 1);
            if (of.choice == Choice::one) place = 0;
            out.push_back(left[place]);
            left.erase(left.begin() + static_cast<std::ptrdiff_t>(place));
        }
    }
    return out;
}

struct StoredExperts {
    std::unique_ptr<matmul_cases::Stored> gate, up, down;  // fused: `gate` holds both

    explicit StoredExperts(const ManyRows& of)
        : gate(matmul_cases::make_stored(of.type, of.width,
                                         of.form == Form::fused ? 2 * of.hidden : of.hidden,
                                         of.experts, 3)),
          up(matmul_cases::make_stored(of.type, of.width, of.hidden, of.experts, 4)),
          down(matmul_cases::make_stored(of.type, of.hidden, of.width, of.experts, 5)) {}
};

// What an expert gives for a row.
Estimates expert_result(const ManyRows& of, const StoredExperts& stored, std::int64_t expert,
                        const Estimates& x) {
    const std::int64_t size = of.hidden * of.width;
    const bool fused = of.form == Form::fused;
    const float* gates = stored.gate->values.data() + expert * (fused ? 2 * size : size);
    const float* ups = fused ? gates + size : stored.up->values.data() + expert * size;
    const Estimates a = product(gates, of.hidden, rounded(x));
    const Estimates b = product(ups, of.hidden, rounded(x));
    Estimates hidden(at(of.hidden));
    for (std::size_t i = 0; i < hidden.size(); ++i) {
        const double slope = 1.1 * b[i].value;
        const double share = silu(a[i].value);
        hidden[i] = {share * b[i].value,
                     slope * slope * a[i].variance + share * share * b[i].variance};
    }
    return product(stored.down->values.data() + expert * size, of.width, rounded(hidden));
}

// The results added to ones.
Estimates wanted_rows(const ManyRows& of, const StoredExperts& stored, const std::vector<float>& x,
                      std::span<const std::int32_t> chosen, std::span<const float> shares) {
    Estimates out(at(of.rows * of.width), {1.0, 0.0});
    for (std::size_t p = 0; p < chosen.size(); ++p) {
        const std::size_t first = p / at(of.used) * at(of.width);
        Estimates row(at(of.width));
        for (std::size_t c = 0; c < row.size(); ++c) {
            row[c].value = static_cast<double>(x[first + c]);
        }
        const Estimates y = expert_result(of, stored, chosen[p], row);
        const auto share = static_cast<double>(shares[p]);
        for (std::size_t c = 0; c < y.size(); ++c) {
            out[first + c].value += share * y[c].value;
            out[first + c].variance += share * share * y[c].variance;
        }
    }
    return out;
}

void check_estimates(const std::vector<float>& got, const Estimates& wanted) {
    REQUIRE(got.size() == wanted.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double error = std::fabs(static_cast<double>(got[i]) - wanted[i].value);
        const double allowed = 6.0 * std::sqrt(wanted[i].variance) + 1.0e-5;
        if (error <= allowed) continue;
        if (wrong++ == 0) {
            CAPTURE(i, got[i], wanted[i].value, allowed);
            CHECK(error <= allowed);
        }
    }
    CHECK(wrong == 0);
}

void check_many_rows(const ManyRows& of) {
    const StoredExperts stored(of);
    const std::vector<std::int32_t> chosen = choose(of);
    Numbers numbers(17);
    const std::vector<float> x = numbers.list(of.rows * of.width);
    const std::vector<float> shares = numbers.list(of.rows * of.used);
    const Estimates wanted = wanted_rows(of, stored, x, chosen, shares);
    for (const NamedDevice& on : devices()) {
        INFO(on.name << ", " << element_type_name(of.type) << ", " << of.rows << " rows, "
                     << of.used << " of " << of.experts << " experts of " << of.width << " x "
                     << of.hidden << (of.form == Form::fused ? ", fused" : ""));
        const auto upload_of = [&](const matmul_cases::Stored& one) {
            auto weight = on.device->upload(one.tensor);
            REQUIRE(weight.ok());
            return std::move(*weight);
        };
        const auto gate = upload_of(*stored.gate);
        const auto up = upload_of(*stored.up);
        const auto down = upload_of(*stored.down);
        Experts parts{gate.get(), up.get(), nullptr, down.get(), of.hidden};
        if (of.form == Form::fused) parts = {nullptr, nullptr, gate.get(), down.get(), of.hidden};
        const Buffer experts = allocate(*on.device, chosen.size() * sizeof(std::int32_t));
        on.device->copy_from_host(experts.address(), chosen.data(), experts.bytes());
        const DeviceRows weights(*on.device, shares, of.used);
        const DeviceRows y(*on.device, std::vector<float>(wanted.size(), 1.0F), of.width);
        const TokenIds ids(at(of.rows), 0);
        on.device->ops().begin({ids, 0, {}, nullptr});
        on.device->ops().moe_ffn(
            DeviceRows(*on.device, x, of.width), parts, nullptr,
            {static_cast<std::int32_t*>(experts.address()), Rows(weights).values, of.used}, y);
        check_estimates(y.read(), wanted);
    }
}

}  // namespace

TEST_CASE("the router takes the largest probabilities and divides them by their sum") {
    constexpr std::int64_t kExperts = 9;
    constexpr std::int64_t kUsed = 3;
    Numbers numbers(51);
    const std::vector<float> router = numbers.list(kExperts * 20);
    const std::vector<float> x = numbers.list(6 * 20);
    for (const bool normalise : {true, false}) {
        for (const NamedDevice& on : devices()) {
            INFO(on.name << (normalise ? ", divided" : ""));
            const Routing got = route(*on.device, router, kExperts, x, kUsed, {normalise, 2.5F});
            for (std::int64_t t = 0; t < 6; ++t) {
                std::vector<double> p = times(router, row_of(x, t, 20));
                double total = 0.0;
                for (double& value : p) total += value = std::exp(value);
                for (double& value : p) value /= total;
                std::vector<std::int32_t> order(at(kExperts));
                std::iota(order.begin(), order.end(), 0);
                std::sort(order.begin(), order.end(),
                          [&](std::int32_t a, std::int32_t b) { return p[at(a)] > p[at(b)]; });
                double chosen = 0.0;
                for (std::size_t k = 0; k < 3; ++k) chosen += p[at(order[k])];
                for (std::size_t k = 0; k < 3; ++k) {
                    const std::size_t place = at(t * kUsed) + k;
                    CHECK(got.experts[place] == order[k]);
                    const double wanted = p[at(order[k])] / (normalise ? chosen : 1.0) * 2.5;
                    CHECK(static_cast<double>(got.weights[place]) == Approx(wanted).epsilon(1e-5));
                }
            }
        }
    }
}

TEST_CASE("the router prefers the lower index among equal experts") {
    // Rows 1, 4 and 6 are equal and the best; 0 and 3 are equal and next.
    const std::vector<float> router = {2, 5, 0, 2, 5, 1, 5, -1};
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const Routing got = route(*on.device, router, 8, {1.0F}, 5, {true, 1.0F});
        CHECK(got.experts == std::vector<std::int32_t>{1, 4, 6, 0, 3});
    }
}

TEST_CASE("the router never divides by a sum below the smallest normal half") {
    constexpr std::int64_t kExperts = 20'000;  // each has probability 5e-5
    const std::vector<float> router(at(kExperts), 1.0F);
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const Routing got = route(*on.device, router, kExperts, {0.5F}, 1, {true, 1.0F});
        CHECK(got.experts[0] == 0);
        CHECK(static_cast<double>(got.weights[0]) == Approx(5.0e-5 / 6.1035e-5).epsilon(1e-4));
    }
}

TEST_CASE("experts add their weighted results to the rows that chose them") {
    Numbers numbers(61);
    const Mixture mixture(numbers);
    for (const NamedDevice& on : devices()) {
        for (const std::int64_t rows : {1, 2, 13}) {
            for (const Form form : {Form::apart, Form::fused}) {
                for (const bool shared : {false, true}) {
                    INFO(on.name << ", " << rows << " rows"
                                 << (form == Form::fused ? ", fused" : "")
                                 << (shared ? ", shared" : ""));
                    check_mixture(*on.device, mixture, rows, form, shared);
                }
            }
        }
    }
}

TEST_CASE("an expert with a scale of its own multiplies its products by it") {
    Numbers numbers(62);
    Mixture scaled(numbers);
    const Mixture plain = scaled;
    const std::vector<float> scales = {1.0F, 0.5F, 2.0F, -1.5F, 3.0F};
    const std::size_t size = at(plain.width * plain.hidden);
    for (std::size_t i = 0; i < scaled.down.size(); ++i) scaled.down[i] *= scales[i / size];
    Numbers inputs(63);
    const std::vector<float> x = inputs.list(plain.width);
    const std::vector<std::int32_t> chosen = {3, 1};
    const std::vector<float> weights = {0.75F, 0.25F};
    const std::vector<double> wanted =
        scaled.result(row_of(x, 0, plain.width), chosen, weights, false);
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const Uploaded uploaded(*on.device, plain);
        uploaded.down->expert_scales = scales;
        const DeviceRows y(*on.device, 1, plain.width);
        const DeviceRows route_weights(*on.device, weights, 2);
        const Buffer experts = allocate(*on.device, chosen.size() * sizeof(std::int32_t));
        on.device->copy_from_host(experts.address(), chosen.data(),
                                  chosen.size() * sizeof(std::int32_t));
        on.device->ops().moe_ffn(
            DeviceRows(*on.device, x, plain.width), uploaded.experts(plain, Form::apart), nullptr,
            {static_cast<std::int32_t*>(experts.address()), Rows(route_weights).values, 2}, y);
        check_close(y.read(), wanted, kTolerance);
    }
}

TEST_CASE("rows of experts with weights of every type match the formula") {
    for (const ElementType type : matmul_cases::kAllTypes) {
        const bool floats = matmul_cases::is_float(type);
        const auto block = static_cast<std::int64_t>(block_shape(type).elements);
        ManyRows of;
        of.type = type;
        of.rows = 70;
        of.width = floats ? 40 : std::max<std::int64_t>(block, 64);
        of.hidden = floats ? 24 : (block == 256 ? 256 : 3 * block);
        of.experts = 5;
        of.used = 2;
        of.choice = Choice::skewed;
        check_many_rows(of);
        of.rows = 1;
        check_many_rows(of);
        of.form = Form::fused;
        check_many_rows(of);
        of.rows = 9;
        check_many_rows(of);
    }
}

TEST_CASE("rows that fill tiles of experts and rows that do not match the formula") {
    for (const std::int64_t rows : {64, 65, 300, 2000}) {
        ManyRows of;
        of.rows = rows;
        check_many_rows(of);
        of.choice = Choice::skewed;
        check_many_rows(of);
    }
    for (const std::int64_t rows : {16, 129, 300}) {  // one list of pairs, all others empty
        ManyRows of;
        of.type = ElementType::q4_0;
        of.width = 160;
        of.hidden = 96;
        of.experts = 3;
        of.used = 1;
        of.rows = rows;
        of.choice = Choice::one;
        check_many_rows(of);
    }
}
