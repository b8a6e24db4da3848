// A row on its way from product to product, on every device there is: sums that norms and products
// read next, in the order in which a layer of one token has them. A device may put off a norm or a
// store until its reader comes. What each stage should give is computed in f64 from what the stage
// before it gave.
#include <array>
#include <cmath>
#include <utility>

#include <catch2/catch.hpp>

#include "tests/engine/backend/matmul_cases.hpp"
#include "tests/engine/backend/ops_fixture.hpp"

using namespace strata;
using namespace strata::matmul_cases;
using namespace strata::ops_fixture;

namespace {

// Columns of a row on its way. A kernel may take rows in pieces of 1,024 columns, and part them
// among its threads where there are few of them: rows of whole pieces, and others.
struct Sizes {
    std::int64_t hidden;
    std::int64_t heads;
    std::int64_t wide;
};
Sizes any_sizes() {
    return GENERATE(values<Sizes>({{1280, 512, 768}, {1024, 1024, 2048}}));
}
constexpr std::int64_t kFew = 48;
constexpr float kEpsilon = 1.0e-5F;
// Of the sum of the absolute terms: a value on the border of two codes may take either.
constexpr double kTolerance = 1.0e-4;

const std::vector<ElementType> kTypes = {ElementType::f16,  ElementType::q8_0, ElementType::q4_k,
                                         ElementType::q5_k, ElementType::q6_k, ElementType::iq3_s};

struct Layer {
    Layer(ElementType type, const Sizes& sizes)
        : out(make_stored(type, sizes.heads, sizes.hidden, 1, 31)),
          query(make_stored(type, sizes.hidden, kFew, 1, 32)),
          gate(make_stored(type, sizes.hidden, sizes.wide, 1, 33)),
          up(make_stored(type, sizes.hidden, sizes.wide, 1, 34)),
          down(make_stored(type, sizes.wide, sizes.hidden, 1, 35)) {}

    std::unique_ptr<Stored> out, query, gate, up, down;
};

std::unique_ptr<Weight> upload(Device& device, const Stored& stored) {
    auto weight = device.upload(stored.tensor);
    if (!weight.ok()) FAIL(weight.error().text);
    return std::move(*weight);
}

std::vector<float> gains(const Sizes& sizes) {
    std::vector<float> out = make_rows(1, sizes.hidden, 41);
    for (float& gain : out) gain = 1.0F + 0.25F * gain;
    return out;
}

std::vector<double> seen(ElementType type, const std::vector<float>& x) {
    if (is_float(type)) return {x.begin(), x.end()};
    return rounded_rows(x, static_cast<std::int64_t>(x.size()));
}

std::vector<float> normed(const std::vector<float>& x, const std::vector<float>& gain) {
    const std::vector<double> in(x.begin(), x.end());
    const std::vector<double> out = rms(in, gain, kEpsilon);
    return {out.begin(), out.end()};
}

Sum product(const Stored& stored, std::int64_t row, const std::vector<double>& x) {
    const auto cols = static_cast<std::int64_t>(x.size());
    return dot(stored.values.data() + row * cols, x.data(), cols);
}

void check_sums(const char* what, const std::vector<float>& got, const Stored& stored,
                const std::vector<double>& x, const std::vector<float>& before) {
    INFO(what);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const Sum sum = product(stored, static_cast<std::int64_t>(i), x);
        const double wanted = sum.value + (before.empty() ? 0.0 : static_cast<double>(before[i]));
        if (!(std::fabs(static_cast<double>(got[i]) - wanted) <= kTolerance * (sum.size + 1.0))) {
            ++wrong;
        }
    }
    CHECK(wrong == 0);
}

void check_gated(const std::vector<float>& got, const Layer& layer, const std::vector<double>& x) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const Sum gate = product(*layer.gate, static_cast<std::int64_t>(i), x);
        const Sum up = product(*layer.up, static_cast<std::int64_t>(i), x);
        const double wanted = silu(gate.value) * up.value;
        const double size =
            1.1 * gate.size * std::fabs(up.value) + up.size * std::fabs(silu(gate.value));
        if (!(std::fabs(static_cast<double>(got[i]) - wanted) <= kTolerance * (size + 1.0))) {
            ++wrong;
        }
    }
    CHECK(wrong == 0);
}

// What a layer does between two attentions: out (added), gate and up, down, and the query, key and
// value of the next layer. Every stage is checked by what the stage before it gave.
struct Chain {
    Chain(const std::array<ElementType, 4>& types, ElementType value_type, const Sizes& sizes)
        : out(make_stored(types[0], sizes.heads, sizes.hidden, 1, 61)),
          gated(types[1], sizes),
          down(make_stored(types[2], sizes.wide, sizes.hidden, 1, 62)),
          query(make_stored(types[3], sizes.hidden, kFew + 1, 1, 63)),
          key(make_stored(types[3], sizes.hidden, kFew, 1, 64)),
          value(make_stored(value_type, sizes.hidden, kFew, 1, 65)),
          types(types),
          value_type(value_type) {}

    void check_on(Device& device, const Sizes& sizes) const {
        const std::vector<float> heads = make_rows(1, sizes.heads, 42);
        const std::vector<float> before = make_rows(1, sizes.hidden, 43);
        const std::vector<float> gain = gains(sizes);
        const auto w_out = upload(device, *out);
        const auto w_gate = upload(device, *gated.gate);
        const auto w_up = upload(device, *gated.up);
        const auto w_down = upload(device, *down);
        const auto w_query = upload(device, *query);
        const auto w_key = upload(device, *key);
        const auto w_value = upload(device, *value);
        const DeviceRows in(device, heads, sizes.heads);
        const DeviceRows x(device, before, sizes.hidden);
        const DeviceRows gain_row(device, gain, sizes.hidden);
        const DeviceRows norm(device, 1, sizes.hidden);
        const DeviceRows wide(device, 1, sizes.wide);
        const DeviceRows lower(device, 1, sizes.hidden);
        const DeviceRows next(device, 1, sizes.hidden);
        const DeviceRows q(device, 1, kFew + 1);
        const DeviceRows k(device, 1, kFew);
        const DeviceRows v(device, 1, kFew);
        const TokenIds ids(1, 0);
        Ops& ops = device.ops();
        ops.begin({ids, 0, {}, nullptr});
        const Projection added{w_out.get(), nullptr, x, true};
        ops.linear(in, {&added, 1});
        ops.rms_norm(x, gain_row.values(), kEpsilon, norm);
        ops.gated_linear(norm, *w_gate, *w_up, wide);
        const Projection lowered{w_down.get(), nullptr, lower, false};
        ops.linear(wide, {&lowered, 1});
        ops.rms_norm(lower, gain_row.values(), kEpsilon, next);
        const std::array<Projection, 3> last = {{{w_query.get(), nullptr, q, false},
                                                 {w_key.get(), nullptr, k, false},
                                                 {w_value.get(), nullptr, v, false}}};
        ops.linear(next, last);
        const std::vector<float> sums = x.read();
        const std::vector<float> wide_row = wide.read();
        const std::vector<float> low = lower.read();
        check_sums("out", sums, *out, seen(types[0], heads), before);
        check_gated(wide_row, gated, seen(types[1], normed(sums, gain)));
        check_sums("down", low, *down, seen(types[2], wide_row), {});
        const std::vector<float> last_in = normed(low, gain);
        check_sums("query", q.read(), *query, seen(types[3], last_in), {});
        check_sums("key", k.read(), *key, seen(types[3], last_in), {});
        check_sums("value", v.read(), *value, seen(value_type, last_in), {});
    }

    std::unique_ptr<Stored> out;
    Layer gated;
    std::unique_ptr<Stored> down, query, key, value;
    std::array<ElementType, 4> types;
    ElementType value_type;
};

void check_one_product(ElementType type, std::int64_t cols, std::int64_t rows) {
    const std::vector<float> in = make_rows(1, cols, 47);
    const auto stored = make_stored(type, cols, rows, 1, 71);
    for (const NamedDevice& on : devices()) {
        INFO(element_type_name(type) << ", " << cols << ", " << on.name);
        const auto weight = upload(*on.device, *stored);
        const DeviceRows x(*on.device, in, cols);
        const DeviceRows y(*on.device, 1, rows);
        const TokenIds ids(1, 0);
        on.device->ops().begin({ids, 0, {}, nullptr});
        const Projection product{weight.get(), nullptr, y, false};
        on.device->ops().linear(x, {&product, 1});
        check_sums("sums", y.read(), *stored, seen(type, in), {});
    }
}

}  // namespace

TEST_CASE("a row that a product adds to is normed for what reads it next") {
    const Sizes sizes = any_sizes();
    const std::vector<float> heads = make_rows(1, sizes.heads, 42);
    const std::vector<float> before = make_rows(1, sizes.hidden, 43);
    const std::vector<float> gain = gains(sizes);
    for (const ElementType type : kTypes) {
        const Layer layer(type, sizes);
        for (const NamedDevice& on : devices()) {
            INFO(element_type_name(type) << ", " << sizes.hidden << ", " << on.name);
            const auto out = upload(*on.device, *layer.out);
            const auto query = upload(*on.device, *layer.query);
            const auto gate = upload(*on.device, *layer.gate);
            const auto up = upload(*on.device, *layer.up);
            const DeviceRows in(*on.device, heads, sizes.heads);
            const DeviceRows x(*on.device, before, sizes.hidden);
            const DeviceRows gain_row(*on.device, gain, sizes.hidden);
            const DeviceRows norm(*on.device, 1, sizes.hidden);
            const DeviceRows q(*on.device, 1, kFew);
            const DeviceRows wide(*on.device, 1, sizes.wide);
            const TokenIds ids(1, 0);
            Ops& ops = on.device->ops();
            ops.begin({ids, 0, {}, nullptr});
            const Projection added{out.get(), nullptr, x, true};
            ops.linear(in, {&added, 1});
            ops.rms_norm(x, gain_row.values(), kEpsilon, norm);
            const Projection queries{query.get(), nullptr, q, false};
            ops.linear(norm, {&queries, 1});
            ops.gated_linear(norm, *gate, *up, wide);
            const std::vector<float> sums = x.read();
            check_sums("added", sums, *layer.out, seen(type, heads), before);
            const std::vector<double> normed_in = seen(type, normed(sums, gain));
            check_sums("queries", q.read(), *layer.query, normed_in, {});
            check_gated(wide.read(), layer, normed_in);
        }
    }
}

TEST_CASE("a gated row is read by the product that adds it") {
    const Sizes sizes = any_sizes();
    const std::vector<float> in = make_rows(1, sizes.hidden, 44);
    const std::vector<float> before = make_rows(1, sizes.hidden, 45);
    const std::vector<float> gain = gains(sizes);
    for (const ElementType type : kTypes) {
        const Layer layer(type, sizes);
        for (const NamedDevice& on : devices()) {
            INFO(element_type_name(type) << ", " << sizes.hidden << ", " << on.name);
            const auto gate = upload(*on.device, *layer.gate);
            const auto up = upload(*on.device, *layer.up);
            const auto down = upload(*on.device, *layer.down);
            const auto query = upload(*on.device, *layer.query);
            const DeviceRows norm(*on.device, in, sizes.hidden);
            const DeviceRows x(*on.device, before, sizes.hidden);
            const DeviceRows gain_row(*on.device, gain, sizes.hidden);
            const DeviceRows wide(*on.device, 1, sizes.wide);
            const DeviceRows last(*on.device, 1, sizes.hidden);
            const DeviceRows logits(*on.device, 1, kFew);
            const DeviceRows plain(*on.device, 1, kFew);
            const TokenIds ids(1, 0);
            Ops& ops = on.device->ops();
            ops.begin({ids, 0, {}, nullptr});
            ops.gated_linear(norm, *gate, *up, wide);
            const Projection added{down.get(), nullptr, x, true};
            ops.linear(wide, {&added, 1});
            const Projection as_it_is{query.get(), nullptr, plain, false};
            ops.linear(x, {&as_it_is, 1});  // before any norm: the sum itself
            ops.rms_norm(x, gain_row.values(), kEpsilon, last);
            const Projection head{query.get(), nullptr, logits, false};
            ops.linear(last, {&head, 1});
            const std::vector<float> wide_row = wide.read();
            const std::vector<float> sums = x.read();
            check_gated(wide_row, layer, seen(type, in));
            check_sums("added", sums, *layer.down, seen(type, wide_row), before);
            check_sums("as it is", plain.read(), *layer.query, seen(type, sums), {});
            check_sums("head", logits.read(), *layer.query, seen(type, normed(sums, gain)), {});
        }
    }
}

TEST_CASE("products of a row from one attention to the next give what each gives alone") {
    const Sizes sizes = any_sizes();
    constexpr auto kQ4 = ElementType::q4_k;
    constexpr auto kQ5 = ElementType::q5_k;
    constexpr auto kQ6 = ElementType::q6_k;
    constexpr auto kQ8 = ElementType::q8_0;
    constexpr auto kF16 = ElementType::f16;
    constexpr auto kBf16 = ElementType::bf16;
    using Mix = std::array<ElementType, 4>;  // out, gate and up, down, query and key; the value's
    const std::vector<std::pair<Mix, ElementType>> mixes = {
        {{kF16, kF16, kF16, kF16}, kF16}, {{kBf16, kBf16, kBf16, kBf16}, kBf16},
        {{kQ8, kQ8, kQ8, kQ8}, kQ8},      {{kQ4, kQ4, kQ4, kQ4}, kQ4},
        {{kQ4, kQ4, kQ6, kQ4}, kQ6},      {{kQ4, kQ4, kQ4, kQ4}, kQ6},
        {{kQ4, kQ4, kQ6, kQ4}, kQ4},      {{kQ5, kQ8, kF16, kQ6}, kQ4}};
    for (const auto& [mix, value_type] : mixes) {
        for (const NamedDevice& on : devices()) {
            INFO(element_type_name(mix[0])
                 << ", " << element_type_name(mix[2]) << ", " << element_type_name(value_type)
                 << ", " << sizes.hidden << ", " << on.name);
            const Chain chain(mix, value_type, sizes);
            for (int round = 0; round < 2; ++round) chain.check_on(*on.device, sizes);
        }
    }
}

TEST_CASE("a row is multiplied by weights of several types at once") {
    const Sizes sizes = any_sizes();
    using Types = std::vector<ElementType>;
    const std::vector<float> in = make_rows(1, sizes.hidden, 46);
    const std::vector<Types> mixes = {
        {ElementType::q4_k, ElementType::q4_k, ElementType::q6_k},
        {ElementType::q5_k, ElementType::q6_k},
        {ElementType::q6_k, ElementType::q4_k, ElementType::q8_0},
        {ElementType::q4_k, ElementType::q6_k, ElementType::q6_k, ElementType::f32}};
    for (const Types& types : mixes) {
        for (const NamedDevice& on : devices()) {
            std::vector<std::unique_ptr<Stored>> stored;
            std::vector<std::unique_ptr<Weight>> weights;
            std::vector<std::unique_ptr<DeviceRows>> results;
            std::vector<Projection> projections;
            for (std::size_t i = 0; i < types.size(); ++i) {
                const auto rows = kFew + 17 * static_cast<std::int64_t>(i);
                stored.push_back(make_stored(types[i], sizes.hidden, rows, 1, 51));
                weights.push_back(upload(*on.device, *stored.back()));
                results.push_back(std::make_unique<DeviceRows>(*on.device, 1, rows));
                projections.push_back({weights.back().get(), nullptr, *results.back(), false});
            }
            const DeviceRows x(*on.device, in, sizes.hidden);
            const TokenIds ids(1, 0);
            on.device->ops().begin({ids, 0, {}, nullptr});
            on.device->ops().linear(x, projections);
            for (std::size_t i = 0; i < types.size(); ++i) {
                INFO(element_type_name(types[i]) << ", " << i << ", " << on.name);
                check_sums("sums", results[i]->read(), *stored[i], seen(types[i], in), {});
            }
        }
    }
}

// On a chip of 132 multiprocessors 2,112 warps take two rows at a time, up to four pieces of 1,024
// columns of each at once: some here have a second pair, and all of them more pieces than that.
TEST_CASE(
    "a row is multiplied by more rows than there are warps, longer than a warp takes at once") {
    // Tiles of 1,024 elements, alone and in numbers that no turn of 3 or 4 divides.
    for (const std::int64_t cols : {1024, 5120, 6144, 7168}) {
        for (const ElementType type : {ElementType::q4_k, ElementType::q6_k, ElementType::iq3_s}) {
            check_one_product(type, cols, 4301);
        }
    }
}

// A thread has up to 24 elements of 12,288 at once.
TEST_CASE("a row of more elements than a block takes at once is brought into the weights' form") {
    for (const std::int64_t cols : {12288, 12320, 25600}) {
        for (const ElementType type : {ElementType::q4_0, ElementType::q8_0, ElementType::f16}) {
            check_one_product(type, cols, 96);
        }
    }
}
