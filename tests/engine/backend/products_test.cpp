// Products, tables and mixtures with weights of every type, on every device there is, against sums
// in f64 over the decoded weights.
#include <algorithm>
#include <cmath>

#include <catch2/catch.hpp>

#include "tests/engine/backend/matmul_cases.hpp"
#include "tests/engine/backend/ops_fixture.hpp"

using namespace strata;
using namespace strata::matmul_cases;
using namespace strata::ops_fixture;

namespace {

constexpr std::int64_t kCols = 1280;  // 40 groups: more than one turn of a warp, not a whole one
constexpr std::int64_t kRows = 77;

// Rounding errors of a product relative to the sum of its absolute terms. Steps of more rows than
// this may be multiplied in half precision.
constexpr std::int64_t kPreciseRowsMax = 8;
constexpr double kPrecise = 2.0e-6;
constexpr double kHalf = 6.0e-3;

std::unique_ptr<Weight> upload_stored(Device& device, const Stored& stored) {
    auto weight = device.upload(stored.tensor);
    if (!weight.ok()) FAIL(weight.error().text);
    return std::move(*weight);
}

// x as products with this type see it.
std::vector<double> seen(ElementType type, const std::vector<float>& x, std::int64_t cols) {
    return is_float(type) ? std::vector<double>(x.begin(), x.end()) : rounded_rows(x, cols);
}

void check_rows(const std::vector<float>& got, const Stored& stored, const std::vector<float>& x,
                std::int64_t rows, bool accumulated) {
    const std::int64_t cols = stored.tensor.cols;
    const std::int64_t weight_rows = stored.tensor.rows;
    const std::vector<double> in = seen(stored.tensor.type, x, cols);
    const double tolerance = rows > kPreciseRowsMax ? kHalf : kPrecise;
    std::size_t wrong = 0;
    for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t r = 0; r < weight_rows; ++r) {
            const Sum sum = dot(stored.values.data() + r * cols, in.data() + t * cols, cols);
            const double wanted = sum.value + (accumulated ? 1.0 : 0.0);
            const auto at = static_cast<std::size_t>(t * weight_rows + r);
            const double error = std::fabs(static_cast<double>(got[at]) - wanted);
            if (error <= tolerance * (sum.size + 1.0)) continue;
            if (wrong++ == 0) {
                CAPTURE(t, r, got[at], wanted, sum.size);
                CHECK(error <= tolerance * (sum.size + 1.0));
            }
        }
    }
    CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("products with weights of every type match sums over the decoded weights") {
    for (const ElementType type : kAllTypes) {
        const auto stored = make_stored(type, kCols, kRows, 1, 7);
        for (const std::int64_t rows : {1, 2, 8, 9, 16, 17, 40, 64, 65}) {
            const std::vector<float> x = make_rows(rows, kCols, 11);
            for (const NamedDevice& on : devices()) {
                INFO(element_type_name(type) << ", " << rows << " rows, " << on.name);
                const auto weight = upload_stored(*on.device, *stored);
                const TokenIds ids(static_cast<std::size_t>(rows), 0);
                const DeviceRows in(*on.device, x, kCols);
                const std::vector<float> ones(static_cast<std::size_t>(rows * kRows), 1.0F);
                const DeviceRows plain(*on.device, rows, kRows);
                const DeviceRows added(*on.device, ones, kRows);
                on.device->ops().begin({ids, 0, {}, nullptr});
                const Projection both[] = {{weight.get(), nullptr, plain, false},
                                           {weight.get(), nullptr, added, true}};
                on.device->ops().linear(in, both);
                check_rows(plain.read(), *stored, x, rows, false);
                check_rows(added.read(), *stored, x, rows, true);
            }
        }
    }
}

// Of several weights at once, whose rows fill no tile; rows of one block, and such as end in the
// middle of whatever a device takes together.
TEST_CASE("several products of some rows match sums over the decoded weights") {
    const std::vector<float> bias = make_rows(1, 33, 23);
    for (const std::int64_t cols : {32, 1056, 256, 2304}) {
        for (const ElementType type : kAllTypes) {
            if (cols % static_cast<std::int64_t>(block_shape(type).elements) != 0) continue;
            const auto wide = make_stored(type, cols, 70, 1, 31);
            const auto small = make_stored(type, cols, 1, 1, 32);
            const auto biased = make_stored(type, cols, 33, 1, 33);
            for (const std::int64_t rows : {9, 30, 61}) {
                const std::vector<float> x = make_rows(rows, cols, 17);
                for (const NamedDevice& on : devices()) {
                    INFO(element_type_name(type)
                         << ", " << rows << " rows of " << cols << ", " << on.name);
                    const auto wide_weight = upload_stored(*on.device, *wide);
                    const auto small_weight = upload_stored(*on.device, *small);
                    const auto biased_weight = upload_stored(*on.device, *biased);
                    const DeviceRows in(*on.device, x, cols);
                    const DeviceRows biases(*on.device, bias, 33);
                    const DeviceRows one(*on.device, rows, 70);
                    const DeviceRows two(*on.device, rows, 1);
                    const DeviceRows three(*on.device, rows, 33);
                    const TokenIds ids(static_cast<std::size_t>(rows), 0);
                    on.device->ops().begin({ids, 0, {}, nullptr});
                    const Projection all[] = {{wide_weight.get(), nullptr, one, false},
                                              {small_weight.get(), nullptr, two, false},
                                              {biased_weight.get(), biases.values(), three, false}};
                    on.device->ops().linear(in, all);
                    check_rows(one.read(), *wide, x, rows, false);
                    check_rows(two.read(), *small, x, rows, false);
                    std::vector<float> without = three.read();
                    for (std::size_t i = 0; i < without.size(); ++i) without[i] -= bias[i % 33];
                    check_rows(without, *biased, x, rows, false);
                }
            }
        }
    }
}

// A device may take other ways for what fills it than for what does not, and for long rows.
TEST_CASE("products of one row with large matrices of every type match sums over decoded weights") {
    struct Size {
        std::int64_t rows;
        std::int64_t cols;
    };
    for (const Size size : {Size{4301, 1024}, Size{51, 12288}}) {
        for (const ElementType type : kAllTypes) {
            const auto stored = make_stored(type, size.cols, size.rows, 1, 9);
            const std::vector<float> x = make_rows(1, size.cols, 19);
            for (const NamedDevice& on : devices()) {
                INFO(element_type_name(type)
                     << ", " << size.rows << " x " << size.cols << ", " << on.name);
                const auto weight = upload_stored(*on.device, *stored);
                const DeviceRows in(*on.device, x, size.cols);
                const DeviceRows y(*on.device, 1, size.rows);
                const TokenIds ids(1, 0);
                on.device->ops().begin({ids, 0, {}, nullptr});
                const Projection of{weight.get(), nullptr, y, false};
                on.device->ops().linear(in, {&of, 1});
                check_rows(y.read(), *stored, x, 1, false);
            }
        }
    }
}

TEST_CASE("a table of every type gives its rows as they are stored") {
    for (const ElementType type : kAllTypes) {
        const auto stored = make_stored(type, kCols, 5, 1, 3);
        for (const NamedDevice& on : devices()) {
            INFO(element_type_name(type) << ", " << on.name);
            const auto weight = upload_stored(*on.device, *stored);
            const DeviceRows x(*on.device, 3, kCols);
            const TokenIds ids = {4, 0, 2};
            on.device->ops().begin({ids, 0, {}, nullptr});
            on.device->ops().embed(*weight, x);
            std::vector<float> wanted;
            for (const TokenId id : ids) {
                const auto first = stored->values.begin() + id * kCols;
                wanted.insert(wanted.end(), first, first + kCols);
            }
            CHECK(x.read() == wanted);
        }
    }
}

TEST_CASE("gated products with weights of every type are one formula for one row and for several") {
    for (const ElementType type : kAllTypes) {
        const auto gate = make_stored(type, kCols, kRows, 1, 5);
        const auto up = make_stored(type, kCols, kRows, 1, 6);
        const std::vector<float> x = make_rows(4, kCols, 13);
        const std::vector<double> in = seen(type, x, kCols);
        for (const NamedDevice& on : devices()) {
            const auto gate_weight = upload_stored(*on.device, *gate);
            const auto up_weight = upload_stored(*on.device, *up);
            for (const std::int64_t rows : {1, 4}) {
                INFO(element_type_name(type) << ", " << rows << " rows, " << on.name);
                const std::vector<float> part(x.begin(), x.begin() + rows * kCols);
                const DeviceRows xs(*on.device, part, kCols);
                const DeviceRows y(*on.device, rows, kRows);
                const TokenIds ids(static_cast<std::size_t>(rows), 0);
                on.device->ops().begin({ids, 0, {}, nullptr});
                on.device->ops().gated_linear(xs, *gate_weight, *up_weight, y);
                std::vector<double> wanted;
                for (std::int64_t t = 0; t < rows; ++t) {
                    for (std::int64_t r = 0; r < kRows; ++r) {
                        const double* row = in.data() + t * kCols;
                        const double a = dot(gate->values.data() + r * kCols, row, kCols).value;
                        const double b = dot(up->values.data() + r * kCols, row, kCols).value;
                        wanted.push_back(silu(a) * b);
                    }
                }
                check_close(y.read(), wanted, 3.0e-4);
            }
        }
    }
}
