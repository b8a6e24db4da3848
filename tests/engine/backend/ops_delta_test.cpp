// The operations of Gated DeltaNet against their formulas in f64: the convolution with its window,
// the delta rule in both of its forms.
#include <catch2/catch.hpp>

#include "tests/engine/backend/ops_fixture.hpp"

using namespace strata;
using namespace strata::ops_fixture;

namespace {

constexpr double kTolerance = 2.0e-5;

std::size_t at(std::int64_t index) {
    return static_cast<std::size_t>(index);
}

// The running state of one layer behind 64 bytes of another one's.
constexpr std::size_t kStateOffset = 64;

struct DeltaInputs {
    DeltaShape shape;
    std::int64_t rows = 0;
    std::vector<float> c;  // [rows][2 keys + values]
    std::vector<float> b;
    std::vector<float> alpha;
    std::vector<float> a;
    std::vector<float> dt_bias;

    std::int64_t keys() const { return shape.key_heads * shape.key_dim; }
    std::int64_t values() const { return shape.value_heads * shape.value_dim; }
    std::int64_t cols() const { return 2 * keys() + values(); }
};

DeltaInputs make_inputs(const DeltaShape& shape, std::int64_t rows, float decay) {
    Numbers numbers(static_cast<std::uint64_t>(rows) + 31);
    DeltaInputs in;
    in.shape = shape;
    in.shape.state_offset = kStateOffset;
    in.rows = rows;
    in.c = numbers.list(rows * in.cols());
    in.b = numbers.list(rows * shape.value_heads, 3.0F);
    in.alpha = numbers.list(rows * shape.value_heads, 2.0F);
    in.dt_bias = numbers.list(shape.value_heads);
    in.a = numbers.list(shape.value_heads);
    for (float& a : in.a) a = -decay * (1.0F + 0.5F * a);
    return in;
}

std::vector<double> unit(const std::vector<double>& x) {
    double squares = 0.0;
    for (const double value : x) squares += value * value;
    std::vector<double> out = x;
    for (double& value : out) value /= std::sqrt(squares + 1.0e-6);
    return out;
}

// The recurrence of ops.hpp, one token after the other; `state` [value_heads][key_dim][value_dim]
// goes on.
std::vector<double> run_definition(const DeltaInputs& in, std::vector<double>& state) {
    const DeltaShape& s = in.shape;
    std::vector<double> out(at(in.rows * in.values()));
    for (std::int64_t t = 0; t < in.rows; ++t) {
        const std::vector<double> row = row_of(in.c, t, in.cols());
        for (std::int64_t head = 0; head < s.value_heads; ++head) {
            const std::int64_t share = s.value_heads / s.key_heads;
            const std::int64_t key_head =
                s.map == HeadMap::grouped ? head / share : head % s.key_heads;
            const auto part = [&](std::int64_t first, std::int64_t count) {
                return std::vector<double>(row.begin() + first, row.begin() + first + count);
            };
            const std::vector<double> q = unit(part(key_head * s.key_dim, s.key_dim));
            const std::vector<double> k = unit(part(in.keys() + key_head * s.key_dim, s.key_dim));
            const std::vector<double> v = part(2 * in.keys() + head * s.value_dim, s.value_dim);
            const std::size_t gate = at(t * s.value_heads + head);
            const double beta = sigmoid(static_cast<double>(in.b[gate]));
            const double x =
                static_cast<double>(in.alpha[gate]) + static_cast<double>(in.dt_bias[at(head)]);
            const double fade =
                std::exp(static_cast<double>(in.a[at(head)]) * std::log1p(std::exp(x)));
            double* matrix = state.data() + head * s.key_dim * s.value_dim;
            for (std::int64_t j = 0; j < s.value_dim; ++j) {
                double expected = 0.0;
                for (std::int64_t i = 0; i < s.key_dim; ++i) {
                    matrix[i * s.value_dim + j] *= fade;
                    expected += matrix[i * s.value_dim + j] * k[at(i)];
                }
                const double change = beta * (v[at(j)] - expected);
                double answer = 0.0;
                for (std::int64_t i = 0; i < s.key_dim; ++i) {
                    matrix[i * s.value_dim + j] += k[at(i)] * change;
                    answer += matrix[i * s.value_dim + j] * q[at(i)];
                }
                out[at(t * in.values() + head * s.value_dim + j)] =
                    answer / std::sqrt(static_cast<double>(s.key_dim));
            }
        }
    }
    return out;
}

std::vector<float> run_on(Device& device, const DeltaInputs& in, const Buffer& state) {
    const TokenIds ids(at(in.rows), 0);
    device.ops().begin({ids, 0, {}, state.address()});
    const DeviceRows o(device, in.rows, in.values());
    const DeviceRows a(device, in.a, in.shape.value_heads);
    const DeviceRows dt_bias(device, in.dt_bias, in.shape.value_heads);
    device.ops().delta_rule(in.shape, DeviceRows(device, in.c, in.cols()),
                            DeviceRows(device, in.b, in.shape.value_heads),
                            DeviceRows(device, in.alpha, in.shape.value_heads), a.values(),
                            dt_bias.values(), o);
    return o.read();
}

// Two steps of `rows` tokens: the second starts from the state of the first.
void check_delta(Device& device, const DeltaShape& shape, std::int64_t rows, float decay) {
    const std::int64_t floats = shape.value_heads * shape.key_dim * shape.value_dim;
    const Buffer buffer = allocate(device, kStateOffset + at(floats) * sizeof(float));
    std::vector<double> state(at(floats), 0.0);
    for (int step = 0; step < 2; ++step) {
        INFO("step " << step);
        const DeltaInputs in = make_inputs(shape, rows + step, decay);
        const std::vector<double> wanted = run_definition(in, state);
        check_close(run_on(device, in, buffer), wanted, kTolerance);
        std::vector<float> after(at(floats));
        device.copy_to_host(after.data(), static_cast<std::byte*>(buffer.address()) + kStateOffset,
                            after.size() * sizeof(float));
        device.synchronize();
        check_close(after, state, kTolerance);
    }
}

// Rows [first, first + rows) of `all`.
DeltaInputs part_of(const DeltaInputs& all, std::int64_t first, std::int64_t rows) {
    const auto cut = [&](const std::vector<float>& from, std::int64_t cols) {
        return std::vector<float>(from.begin() + first * cols,
                                  from.begin() + (first + rows) * cols);
    };
    DeltaInputs part = all;
    part.rows = rows;
    part.c = cut(all.c, all.cols());
    part.b = cut(all.b, all.shape.value_heads);
    part.alpha = cut(all.alpha, all.shape.value_heads);
    return part;
}

// A state on a device, behind kStateOffset bytes.
struct DeviceState {
    Device& device;
    Buffer buffer;
    std::size_t floats;

    DeviceState(Device& on, const std::vector<float>& values)
        : device(on),
          buffer(allocate(on, kStateOffset + values.size() * sizeof(float))),
          floats(values.size()) {
        device.copy_from_host(address(), values.data(), floats * sizeof(float));
    }
    std::byte* address() const { return static_cast<std::byte*>(buffer.address()) + kStateOffset; }
    std::vector<float> read() const {
        std::vector<float> out(floats);
        device.copy_to_host(out.data(), address(), floats * sizeof(float));
        device.synchronize();
        return out;
    }
};

struct DeltaOutcome {
    std::vector<float> o;
    std::vector<float> state;
};
// Steps of so many rows each, from `start` on.
DeltaOutcome run_steps(Device& device, const DeltaInputs& in, const std::vector<float>& start,
                       const std::vector<std::int64_t>& steps) {
    const DeviceState state(device, start);
    DeltaOutcome out;
    std::int64_t first = 0;
    for (const std::int64_t rows : steps) {
        const std::vector<float> o = run_on(device, part_of(in, first, rows), state.buffer);
        out.o.insert(out.o.end(), o.begin(), o.end());
        first += rows;
    }
    REQUIRE(first == in.rows);
    out.state = state.read();
    return out;
}

// Every device computes the rows in one step, from a state that is not empty.
void check_on_all(const DeltaInputs& in, const std::string& what) {
    Numbers numbers(17);
    const DeltaShape& s = in.shape;
    const std::vector<float> start = numbers.list(s.value_heads * s.key_dim * s.value_dim);
    std::vector<double> state(start.begin(), start.end());
    const std::vector<double> wanted = run_definition(in, state);
    for (const NamedDevice& on : devices()) {
        INFO(on.name << ", " << what << ", " << in.rows << " tokens");
        const DeltaOutcome got = run_steps(*on.device, in, start, {in.rows});
        check_close(got.o, wanted, kTolerance);
        check_close(got.state, state, kTolerance);
    }
}

DeltaShape delta_shape(std::int64_t key_heads, std::int64_t value_heads, std::int64_t key_dim,
                       std::int64_t value_dim, HeadMap map) {
    DeltaShape shape;
    shape.key_heads = key_heads;
    shape.value_heads = value_heads;
    shape.key_dim = key_dim;
    shape.value_dim = value_dim;
    shape.map = map;
    return shape;
}

}  // namespace

TEST_CASE("the convolution looks back over step boundaries and applies silu") {
    constexpr std::int64_t kChannels = 37;
    for (const std::int64_t kernel : {2, 4, 5}) {
        Numbers numbers(41);
        const std::vector<float> u = numbers.list(14 * kChannels);
        const std::vector<float> taps = numbers.list(kernel * kChannels);
        std::vector<double> wanted;
        for (std::int64_t t = 0; t < 14; ++t) {
            for (std::int64_t channel = 0; channel < kChannels; ++channel) {
                double sum = 0.0;
                for (std::int64_t j = 0; j < kernel; ++j) {
                    const std::int64_t row = t - (kernel - 1) + j;
                    if (row < 0) continue;
                    sum += static_cast<double>(taps[at(j * kChannels + channel)]) *
                           static_cast<double>(u[at(row * kChannels + channel)]);
                }
                wanted.push_back(silu(sum));
            }
        }
        for (const NamedDevice& on : devices()) {
            INFO(on.name << ", " << kernel << " taps");
            const Buffer state =
                allocate(*on.device, kStateOffset + at((kernel - 1) * kChannels) * sizeof(float));
            const DeviceRows weights(*on.device, taps, kChannels);
            std::vector<float> got;
            std::int64_t first = 0;
            for (const std::int64_t rows : {1, 2, 1, 7, 3}) {
                const TokenIds ids(at(rows), 0);
                on.device->ops().begin({ids, first, {}, state.address()});
                const DeviceRows c(*on.device, rows, kChannels);
                const std::vector<float> part(u.begin() + first * kChannels,
                                              u.begin() + (first + rows) * kChannels);
                on.device->ops().convolution({kChannels, kernel, kStateOffset},
                                             DeviceRows(*on.device, part, kChannels),
                                             weights.values(), c);
                const std::vector<float> out = c.read();
                got.insert(got.end(), out.begin(), out.end());
                first += rows;
            }
            check_close(got, wanted, kTolerance);
        }
    }
}

TEST_CASE("the delta rule equals the recurrence for any number of tokens") {
    for (const NamedDevice& on : devices()) {
        for (const std::int64_t rows : {1, 3, 7, 8, 16, 33, 63, 64, 65, 130}) {
            INFO(on.name << ", " << rows << " tokens");
            check_delta(*on.device, delta_shape(2, 4, 32, 32, HeadMap::grouped), rows, 0.5F);
        }
    }
}

TEST_CASE("value heads read their key head in grouped or in tiled order") {
    for (const NamedDevice& on : devices()) {
        for (const HeadMap map : {HeadMap::grouped, HeadMap::tiled}) {
            for (const std::int64_t rows : {2, 70}) {
                INFO(on.name << ", " << rows << " tokens");
                check_delta(*on.device, delta_shape(3, 6, 16, 24, map), rows, 0.3F);
            }
        }
    }
}

TEST_CASE("the delta rule works with heads of any size") {
    for (const NamedDevice& on : devices()) {
        for (const std::int64_t rows : {1, 66}) {
            INFO(on.name << ", " << rows << " tokens");
            check_delta(*on.device, delta_shape(1, 1, 128, 128, HeadMap::grouped), rows, 0.1F);
            check_delta(*on.device, delta_shape(1, 2, 10, 6, HeadMap::tiled), rows, 0.1F);
        }
    }
}

TEST_CASE("the delta rule stays exact when states fade at once or hardly at all") {
    for (const NamedDevice& on : devices()) {
        for (const float decay : {0.0F, 1.0e-4F, 40.0F, 400.0F}) {
            for (const std::int64_t rows : {4, 100}) {
                INFO(on.name << ", decay " << decay << ", " << rows << " tokens");
                check_delta(*on.device, delta_shape(1, 2, 16, 16, HeadMap::tiled), rows, decay);
            }
        }
    }
}

TEST_CASE("the exact delta rule is the same bits in one step as token by token") {
    constexpr std::int64_t kRows = 150;
    const DeltaShape shape = delta_shape(2, 4, 32, 24, HeadMap::grouped);
    const DeltaInputs all = make_inputs(shape, kRows, 0.5F);
    const std::size_t state_bytes =
        kStateOffset + at(shape.value_heads * shape.key_dim * shape.value_dim) * sizeof(float);
    for (const NamedDevice& on : devices(true)) {
        INFO(on.name);
        const Buffer whole_state = allocate(*on.device, state_bytes);
        const Buffer single_state = allocate(*on.device, state_bytes);
        const std::vector<float> whole = run_on(*on.device, all, whole_state);
        std::vector<float> singles;
        for (std::int64_t row = 0; row < kRows; ++row) {
            const std::vector<float> o = run_on(*on.device, part_of(all, row, 1), single_state);
            singles.insert(singles.end(), o.begin(), o.end());
        }
        CHECK(singles == whole);
        std::vector<std::byte> states[2] = {std::vector<std::byte>(state_bytes),
                                            std::vector<std::byte>(state_bytes)};
        on.device->copy_to_host(states[0].data(), whole_state.address(), state_bytes);
        on.device->copy_to_host(states[1].data(), single_state.address(), state_bytes);
        on.device->synchronize();
        CHECK(states[0] == states[1]);
    }
}

TEST_CASE("heads of 128 equal the recurrence for any number of tokens") {
    for (const std::int64_t rows : {1, 63, 64, 65, 129, 1000, 2500}) {
        check_on_all(make_inputs(delta_shape(1, 2, 128, 128, HeadMap::grouped), rows, 0.1F),
                     "grouped");
    }
    for (const HeadMap map : {HeadMap::grouped, HeadMap::tiled}) {
        check_on_all(make_inputs(delta_shape(2, 6, 128, 128, map), 130, 0.1F),
                     "three value heads for a key head");
    }
}

TEST_CASE("heads of 128 fade at once or not at all or now and then") {
    const DeltaShape shape = delta_shape(1, 2, 128, 128, HeadMap::grouped);
    for (const float decay : {0.0F, 1.0e-4F, 40.0F, 400.0F}) {
        check_on_all(make_inputs(shape, 200, decay), "decay " + std::to_string(decay));
    }
    // One row in ten forgets all that was before (e^-1 to e^-2000), the others forget nothing.
    DeltaInputs in = make_inputs(shape, 400, 1.0F);
    Numbers numbers(5);
    for (float& alpha : in.alpha) {
        const bool forgets = numbers.next() < -0.8F;
        alpha = forgets ? 1000.0F + numbers.next(999.0F) : -9.0F;
    }
    check_on_all(in, "forgets now and then");
}

TEST_CASE("heads of 128 take keys that are all alike at full strength") {
    DeltaInputs in = make_inputs(delta_shape(1, 2, 128, 128, HeadMap::grouped), 700, 0.0F);
    for (float& b : in.b) b = 12.0F;  // beta = 1 - 6e-6
    for (std::int64_t t = 1; t < in.rows; ++t) {
        for (std::int64_t i = 0; i < in.keys(); ++i) {
            float& k = in.c[at(t * in.cols() + in.keys() + i)];
            k = in.c[at(in.keys() + i)] + 0.02F * k;
        }
    }
    check_on_all(in, "keys alike");
}

TEST_CASE("values of any size keep their precision in heads of 128") {
    for (const float size : {1.0e-6F, 1.0e5F}) {
        DeltaInputs in = make_inputs(delta_shape(1, 1, 128, 128, HeadMap::grouped), 130, 0.1F);
        for (std::int64_t t = 0; t < in.rows; ++t) {
            for (std::int64_t i = 2 * in.keys(); i < in.cols(); ++i)
                in.c[at(t * in.cols() + i)] *= size;
        }
        std::vector<double> state(at(128 * 128), 0.0);
        const std::vector<double> wanted = run_definition(in, state);
        double largest = 0.0;
        for (const double x : wanted) largest = std::max(largest, std::abs(x));
        for (const NamedDevice& on : devices()) {
            INFO(on.name << ", values up to " << size);
            const DeltaOutcome got =
                run_steps(*on.device, in, std::vector<float>(at(128 * 128), 0.0F), {in.rows});
            double error = 0.0;
            for (std::size_t i = 0; i < wanted.size(); ++i) {
                error = std::max(error, std::abs(static_cast<double>(got.o[i]) - wanted[i]));
            }
            CHECK(error <= kTolerance * largest);
        }
    }
}

TEST_CASE("a run of the delta rule in two parts equals the run in one") {
    const DeltaInputs in = make_inputs(delta_shape(1, 2, 128, 128, HeadMap::tiled), 300, 0.1F);
    const std::vector<float> start(at(2 * 128 * 128), 0.25F);
    for (const NamedDevice& on : devices()) {
        const DeltaOutcome whole = run_steps(*on.device, in, start, {300});
        const std::vector<double> o(whole.o.begin(), whole.o.end());
        const std::vector<double> state(whole.state.begin(), whole.state.end());
        for (const std::int64_t first : {1, 64, 100, 260}) {
            INFO(on.name << ", cut at " << first);
            const DeltaOutcome parts = run_steps(*on.device, in, start, {first, 300 - first});
            check_close(parts.o, o, kTolerance);
            check_close(parts.state, state, kTolerance);
        }
    }
}

TEST_CASE("the exact delta rule of heads of 128 is the same bits however it is cut") {
    const DeltaInputs in = make_inputs(delta_shape(1, 2, 128, 128, HeadMap::grouped), 150, 0.1F);
    const std::vector<float> start(at(2 * 128 * 128), 0.25F);
    for (const NamedDevice& on : devices(true)) {
        INFO(on.name);
        const DeltaOutcome whole = run_steps(*on.device, in, start, {150});
        const DeltaOutcome parts = run_steps(*on.device, in, start, {1, 64, 65, 20});
        CHECK(parts.o == whole.o);
        CHECK(parts.state == whole.state);
    }
}
