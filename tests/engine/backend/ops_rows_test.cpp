// Operations on whole rows against their formulas in f64: embedding, norms, products, gates.
#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/engine/backend/ops_fixture.hpp"

using namespace strata;
using namespace strata::ops_fixture;

namespace {

constexpr double kTolerance = 2.0e-5;

void append(std::vector<double>& to, const std::vector<double>& values) {
    to.insert(to.end(), values.begin(), values.end());
}

}  // namespace

TEST_CASE("embedding gives the rows of the ids in their order") {
    Numbers numbers(1);
    const std::vector<float> table = numbers.list(48 * 10);
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const auto weight = upload(*on.device, table, 48, 10);
        DeviceRows x(*on.device, 4, 48);
        const TokenIds ids = {9, 0, 3, 3};
        on.device->ops().begin({ids, 0, {}, nullptr});
        on.device->ops().embed(*weight, x);
        std::vector<float> wanted;
        for (const TokenId id : ids) {
            wanted.insert(wanted.end(), table.begin() + id * 48, table.begin() + id * 48 + 48);
        }
        CHECK(x.read() == wanted);
    }
}

TEST_CASE("steps that follow each other unwaited have their own ids") {
    constexpr std::int64_t kCols = 48;
    constexpr std::int64_t kIds = 40;
    Numbers numbers(3);
    const std::vector<float> table = numbers.list(kCols * kIds);
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const auto weight = upload(*on.device, table, kCols, kIds);
        std::vector<DeviceRows> results;
        std::vector<TokenIds> steps;
        // One id and many in turn, later more than any step before had.
        for (const std::size_t count : {1, 1, 1, 5, 1, 600, 1, 1, 3000, 1, 600}) {
            TokenIds& ids = steps.emplace_back();
            for (std::size_t i = 0; i < count; ++i) {
                ids.push_back(static_cast<TokenId>((steps.size() * 7 + i * 3) % kIds));
            }
            results.emplace_back(*on.device, static_cast<std::int64_t>(count), kCols);
        }
        for (std::size_t s = 0; s < steps.size(); ++s) {
            on.device->ops().begin({steps[s], 0, {}, nullptr});
            on.device->ops().embed(*weight, results[s]);
        }
        for (std::size_t s = 0; s < steps.size(); ++s) {
            INFO("step " << s);
            std::vector<float> wanted;
            for (const TokenId id : steps[s]) {
                const auto row = table.begin() + id * kCols;
                wanted.insert(wanted.end(), row, row + kCols);
            }
            CHECK(results[s].read() == wanted);
        }
    }
}

TEST_CASE("rms norm divides by the root of the mean square and may work in place") {
    for (const std::int64_t cols : {1, 7, 64, 100, 1024}) {
        Numbers numbers(2);
        const std::vector<float> x = numbers.list(5 * cols, 3.0F);
        const std::vector<float> gain = numbers.list(cols, 2.0F);
        std::vector<double> wanted;
        for (std::int64_t t = 0; t < 5; ++t) append(wanted, rms(row_of(x, t, cols), gain, 1.0e-6));
        for (const NamedDevice& on : devices()) {
            INFO(on.name << ", " << cols << " columns");
            const DeviceRows rows(*on.device, x, cols);
            const DeviceRows apart(*on.device, 5, cols);
            const DeviceRows gains(*on.device, gain, cols);
            on.device->ops().rms_norm(rows, gains.values(), 1.0e-6F, apart);
            on.device->ops().rms_norm(rows, gains.values(), 1.0e-6F, rows);
            check_close(apart.read(), wanted, kTolerance);
            check_close(rows.read(), wanted, kTolerance);
        }
    }
}

TEST_CASE("rms norm of zeros is zero and not a division by zero") {
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const DeviceRows x(*on.device, 2, 40);
        const DeviceRows gain(*on.device, std::vector<float>(40, 1.0F), 40);
        on.device->ops().rms_norm(x, gain.values(), 1.0e-6F, x);
        CHECK(x.read() == std::vector<float>(80, 0.0F));
    }
}

TEST_CASE("a row product takes several weights with biases and adds where it is told to") {
    constexpr std::int64_t kIn = 96;
    Numbers numbers(3);
    const std::vector<float> first = numbers.list(kIn * 33);
    const std::vector<float> second = numbers.list(kIn * 16);
    const std::vector<float> bias = numbers.list(33);
    for (const std::int64_t rows : {1, 6}) {
        const std::vector<float> x = numbers.list(rows * kIn);
        const std::vector<float> before = numbers.list(rows * 16);
        std::vector<double> wanted_first;
        std::vector<double> wanted_second;
        for (std::int64_t t = 0; t < rows; ++t) {
            std::vector<double> y = times(first, row_of(x, t, kIn));
            for (std::size_t i = 0; i < y.size(); ++i) y[i] += static_cast<double>(bias[i]);
            append(wanted_first, y);
            std::vector<double> sum = row_of(before, t, 16);
            const std::vector<double> product = times(second, row_of(x, t, kIn));
            for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += product[i];
            append(wanted_second, sum);
        }
        for (const NamedDevice& on : devices()) {
            INFO(on.name << ", " << rows << " rows");
            const auto a = upload(*on.device, first, kIn, 33);
            const auto b = upload(*on.device, second, kIn, 16);
            const DeviceRows biases(*on.device, bias, 33);
            const DeviceRows y(*on.device, rows, 33);
            const DeviceRows sums(*on.device, before, 16);
            const Projection both[] = {{a.get(), biases.values(), y, false},
                                       {b.get(), nullptr, sums, true}};
            on.device->ops().linear(DeviceRows(*on.device, x, kIn), both);
            check_close(y.read(), wanted_first, kTolerance);
            check_close(sums.read(), wanted_second, kTolerance);
        }
    }
}

TEST_CASE("a gated product is silu of the gate times the other product") {
    constexpr std::int64_t kIn = 64;
    constexpr std::int64_t kOut = 50;
    Numbers numbers(4);
    const std::vector<float> gate = numbers.list(kIn * kOut);
    const std::vector<float> up = numbers.list(kIn * kOut);
    const std::vector<float> x = numbers.list(3 * kIn);
    std::vector<double> wanted;
    for (std::int64_t t = 0; t < 3; ++t) {
        const std::vector<double> g = times(gate, row_of(x, t, kIn));
        const std::vector<double> u = times(up, row_of(x, t, kIn));
        for (std::size_t i = 0; i < g.size(); ++i) wanted.push_back(silu(g[i]) * u[i]);
    }
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const DeviceRows y(*on.device, 3, kOut);
        on.device->ops().gated_linear(DeviceRows(*on.device, x, kIn),
                                      *upload(*on.device, gate, kIn, kOut),
                                      *upload(*on.device, up, kIn, kOut), y);
        check_close(y.read(), wanted, kTolerance);
    }
}

TEST_CASE("a gated norm normalises each head and multiplies by silu of its gate") {
    constexpr std::int64_t kHead = 40;
    constexpr std::int64_t kHeads = 3;
    Numbers numbers(5);
    const std::vector<float> o = numbers.list(2 * kHead * kHeads);
    // Gates far outside the range of e^x in f32 too.
    std::vector<float> z = numbers.list(2 * kHead * kHeads, 6.0F);
    z[3] = -200.0F;
    z[4] = 200.0F;
    const std::vector<float> gain = numbers.list(kHead);
    std::vector<double> wanted;
    for (std::int64_t head = 0; head < 2 * kHeads; ++head) {
        std::vector<double> y = rms(row_of(o, head, kHead), gain, 1.0e-6);
        const std::vector<double> gates = row_of(z, head, kHead);
        for (std::size_t i = 0; i < y.size(); ++i) y[i] *= silu(gates[i]);
        append(wanted, y);
    }
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const DeviceRows rows(*on.device, o, kHead * kHeads);
        const DeviceRows gains(*on.device, gain, kHead);
        on.device->ops().gated_rms_norm(rows, DeviceRows(*on.device, z, kHead * kHeads), kHead,
                                        gains.values(), 1.0e-6F, rows);
        check_close(rows.read(), wanted, kTolerance);
    }
}

TEST_CASE("a value that is no number stays in its own row") {
    constexpr std::int64_t kCols = 48;
    Numbers numbers(8);
    std::vector<float> x = numbers.list(2 * kCols);
    x[kCols + 5] = std::nanf("");
    const std::vector<float> clean(x.begin(), x.begin() + kCols);
    const std::vector<float> weight = numbers.list(kCols * kCols);
    const std::vector<float> gain = numbers.list(kCols);
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        Device& device = *on.device;
        const DeviceRows gains(device, gain, kCols);
        const auto matrix = upload(device, weight, kCols, kCols);
        const auto both_rows_and_the_first = [&](const auto& op) {
            const DeviceRows two(device, 2, kCols);
            const DeviceRows one(device, 1, kCols);
            op(DeviceRows(device, x, kCols), two);
            op(DeviceRows(device, clean, kCols), one);
            const std::vector<float> got = two.read();
            CHECK(std::vector<float>(got.begin(), got.begin() + kCols) == one.read());
            const auto no_number = [](float value) { return std::isnan(value); };
            CHECK(std::any_of(got.begin() + kCols, got.end(), no_number));
        };
        both_rows_and_the_first(
            [&](Rows in, Rows out) { device.ops().rms_norm(in, gains.values(), 1.0e-6F, out); });
        both_rows_and_the_first(
            [&](Rows in, Rows out) { device.ops().gated_linear(in, *matrix, *matrix, out); });
        both_rows_and_the_first([&](Rows in, Rows out) {
            const DeviceRows ones(device, std::vector<float>(2 * kCols, 1.0F), kCols);
            const Rows values{Rows(ones).values, in.rows, kCols};
            device.ops().gated_rms_norm(values, in, 16, gains.values(), 1.0e-6F, out);
        });
    }
}

TEST_CASE("a vector is added to every row") {
    Numbers numbers(8);
    const std::vector<float> x = numbers.list(5 * 37, 3.0F);
    const std::vector<float> v = numbers.list(37);
    std::vector<float> wanted = x;
    for (std::size_t i = 0; i < wanted.size(); ++i) wanted[i] += v[i % 37];
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const DeviceRows rows(*on.device, x, 37);
        const DeviceRows added(*on.device, v, 37);
        on.device->ops().add_to_rows(rows, added.values());
        CHECK(rows.read() == wanted);
    }
}

TEST_CASE(
    "a norm can be read again behind a look at the results and is gone behind a copy into it") {
    constexpr std::int64_t kCols = 64;
    Numbers numbers(31);
    const std::vector<float> x = numbers.list(kCols);
    const std::vector<float> gain = numbers.list(kCols, 2.0F);
    const std::vector<float> matrix = numbers.list(kCols * 5);
    const std::vector<float> other = numbers.list(kCols);
    const std::vector<double> wanted = times(matrix, rms(row_of(x, 0, kCols), gain, 1.0e-6));
    const std::vector<double> wanted_other = times(matrix, row_of(other, 0, kCols));
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        Device& device = *on.device;
        const auto weight = upload(device, matrix, kCols, 5);
        const DeviceRows in(device, x, kCols);
        const DeviceRows gains(device, gain, kCols);
        const DeviceRows normed(device, 1, kCols);
        const DeviceRows y(device, 1, 5);
        const Projection to_y{weight.get(), nullptr, y, false};
        const TokenIds ids = {0};
        device.ops().begin({ids, 0, {}, nullptr});
        device.ops().rms_norm(in, gains.values(), 1.0e-6F, normed);
        for (int look = 0; look < 3; ++look) {
            device.ops().linear(normed, {&to_y, 1});
            check_close(y.read(), wanted, kTolerance);
        }
        device.copy_from_host(Rows(normed).values, other.data(), other.size() * sizeof(float));
        device.ops().linear(normed, {&to_y, 1});
        check_close(y.read(), wanted_other, kTolerance);
    }
}
