// Attention against its formulas in f64: rotary angles, the preparation and storing of K and V, the
// softmax over pages.
#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/engine/backend/attention_pages.hpp"
#include "tests/engine/backend/ops_fixture.hpp"

using namespace strata;
using namespace strata::ops_fixture;

namespace {

constexpr double kTolerance = 2.0e-5;

std::vector<float> f32(const std::vector<double>& numbers) {
    return {numbers.begin(), numbers.end()};
}

// One output row by the definition. K and V as they were stored.
std::vector<double> attend(const AttentionShape& shape, const std::vector<float>& q_row,
                           const std::vector<std::vector<double>>& k,
                           const std::vector<std::vector<double>>& v, Position position) {
    std::vector<double> out;
    for (std::int64_t head = 0; head < shape.heads; ++head) {
        const std::int64_t kv = head / (shape.heads / shape.kv_heads);
        const auto at = [](std::int64_t index) { return static_cast<std::size_t>(index); };
        std::vector<double> scores;
        for (Position p = 0; p <= position; ++p) {
            double score = 0.0;
            for (std::int64_t d = 0; d < shape.key_dim; ++d) {
                score += static_cast<double>(q_row[at(head * shape.query_stride() + d)]) *
                         k[at(p)][at(kv * shape.key_dim + d)];
            }
            scores.push_back(score * static_cast<double>(shape.scale));
        }
        const double top = *std::max_element(scores.begin(), scores.end());
        double total = 0.0;
        for (double& score : scores) total += score = std::exp(score - top);
        for (std::int64_t d = 0; d < shape.value_dim; ++d) {
            double sum = 0.0;
            for (Position p = 0; p <= position; ++p) {
                sum += scores[at(p)] * v[at(p)][at(kv * shape.value_dim + d)];
            }
            const double gate =
                shape.gated ? sigmoid(static_cast<double>(
                                  q_row[at(head * shape.query_stride() + shape.key_dim + d)]))
                            : 1.0;
            out.push_back(sum / total * gate);
        }
    }
    return out;
}

// Steps of this many rows or more may be computed with f16 operands.
constexpr std::int64_t kHalfRowsMin = 9;
constexpr double kHalfTolerance = 2.0e-3;

void check_attention(const NamedDevice& on, const AttentionShape& shape, Position first,
                     std::int64_t rows, std::int64_t filled_by) {
    Device& device = *on.device;
    const Position end = first + rows;
    Numbers numbers(17);
    const std::int64_t cols = shape.kv_heads * shape.key_dim;
    const std::vector<float> k = numbers.list(end * cols, 2.0F);
    const std::vector<float> v = numbers.list(end * cols);
    const std::int64_t q_cols = shape.heads * shape.query_stride();
    const std::vector<float> q = numbers.list(rows * q_cols, 2.0F);
    const Pages pages(device, shape, (end + kPageTokens - 1) / kPageTokens);
    fill(device, shape, pages, k, v, filled_by);

    const TokenIds ids(static_cast<std::size_t>(rows), 0);
    device.ops().begin({ids, first, pages.addresses(), nullptr});
    const DeviceRows out(device, rows, shape.heads * shape.value_dim);
    device.ops().attention(shape, DeviceRows(device, q, q_cols), out);

    std::vector<std::vector<double>> stored_k;
    std::vector<std::vector<double>> stored_v;
    for (Position p = 0; p < end; ++p) {
        stored_k.push_back(pages.row(shape, p, false));
        stored_v.push_back(pages.row(shape, p, true));
    }
    std::vector<double> wanted;
    for (std::int64_t t = 0; t < rows; ++t) {
        const std::vector<float> q_row(q.begin() + t * q_cols, q.begin() + (t + 1) * q_cols);
        const std::vector<double> row = attend(shape, q_row, stored_k, stored_v, first + t);
        wanted.insert(wanted.end(), row.begin(), row.end());
    }
    const bool halves = on.halves && rows >= kHalfRowsMin && shape.kv_type != KvType::f32;
    check_close(out.read(), wanted, halves ? kHalfTolerance : kTolerance);
}

// A head whose pairs are turned as far as `position` turns them.
std::vector<double> turned(std::vector<double> head, RotaryPairs pairing,
                           const std::vector<double>& frequencies, Position position) {
    const std::size_t pairs = frequencies.size();
    for (std::size_t i = 0; i < pairs; ++i) {
        const bool adjacent = pairing == RotaryPairs::adjacent;
        double& a = head[adjacent ? 2 * i : i];
        double& b = head[adjacent ? 2 * i + 1 : i + pairs];
        const double angle = static_cast<double>(position) * frequencies[i];
        const double one = a * std::cos(angle) - b * std::sin(angle);
        b = a * std::sin(angle) + b * std::cos(angle);
        a = one;
    }
    return head;
}

// One token whose row is prepared, stored and attended to, as a step of a model asks for it: a
// device may do the three at once.
struct OwnRow {
    std::int64_t heads, kv_heads, dim;
    RotaryPairs pairing;
    std::int64_t pairs;
    bool normed;
    bool gated;
};
// What becomes of the heads of `row`, each of which has `stride` elements.
std::vector<float> prepared(const OwnRow& one, std::vector<float> row, std::int64_t stride,
                            const std::vector<float>& gain, const std::vector<double>& frequencies,
                            Position position) {
    for (std::size_t start = 0; start < row.size(); start += static_cast<std::size_t>(stride)) {
        const auto first = row.begin() + static_cast<std::ptrdiff_t>(start);
        std::vector<double> head(first, first + one.dim);
        if (one.normed) head = rms(head, gain, 1.0e-6);
        head = turned(head, one.pairing, frequencies, position);
        std::transform(head.begin(), head.end(), first,
                       [](double value) { return static_cast<float>(value); });
    }
    return row;
}

void check_own_row(const NamedDevice& on, const OwnRow& one, KvType type, Position position) {
    Device& device = *on.device;
    const AttentionShape shape = shape_of(one.heads, one.kv_heads, one.dim, one.gated, type);
    Numbers numbers(19);
    const std::int64_t cols = one.kv_heads * one.dim;
    const std::vector<float> before_k = numbers.list(position * cols, 2.0F);
    const std::vector<float> before_v = numbers.list(position * cols);
    const std::vector<float> q = numbers.list(one.heads * shape.query_stride(), 2.0F);
    const std::vector<float> k = numbers.list(cols, 2.0F);
    const std::vector<float> v = numbers.list(cols);
    const std::vector<float> q_gain = numbers.list(one.dim);
    const std::vector<float> k_gain = numbers.list(one.dim);
    std::vector<double> frequencies;
    for (std::int64_t i = 0; i < one.pairs; ++i) {
        frequencies.push_back(
            std::pow(1.0e4, -static_cast<double>(i) / static_cast<double>(one.pairs)));
    }
    const Pages pages(device, shape, position / kPageTokens + 1);
    if (position > 0) fill(device, shape, pages, before_k, before_v, 128);

    const Buffer buffer = allocate(device, frequencies.size() * sizeof(double));
    device.copy_from_host(buffer.address(), frequencies.data(),
                          frequencies.size() * sizeof(double));
    const DeviceRows table(device, 1, 2 * one.pairs);
    const DeviceRows gains_q(device, q_gain, one.dim);
    const DeviceRows gains_k(device, k_gain, one.dim);
    const DeviceRows queries(device, q, one.heads * shape.query_stride());
    const DeviceRows keys(device, k, cols);
    const DeviceRows values(device, v, cols);
    const DeviceRows out(device, 1, one.heads * one.dim);
    const TokenIds ids(1, 0);
    device.ops().begin({ids, position, pages.addresses(), nullptr});
    device.ops().rope_table({static_cast<const double*>(buffer.address()), one.pairs, 1.0F},
                            Rows(table).values);
    device.ops().store_attention_inputs(
        shape,
        {one.normed ? gains_q.values() : nullptr, one.normed ? gains_k.values() : nullptr, 1.0e-6F,
         table.values(), one.pairs, one.pairing},
        queries, keys, values);
    device.ops().attention(shape, queries, out);
    const std::vector<float> got = out.read();

    std::vector<std::vector<double>> stored_k;
    std::vector<std::vector<double>> stored_v;
    for (Position p = 0; p <= position; ++p) {
        stored_k.push_back(pages.row(shape, p, false));
        stored_v.push_back(pages.row(shape, p, true));
    }
    const std::vector<float> wanted_k = prepared(one, k, one.dim, k_gain, frequencies, position);
    // Of the values, which are below 3 and 1: half a step of their type.
    const double step = type == KvType::f32   ? kTolerance
                        : type == KvType::f16 ? 0x1.0p-10
                                              : 6.0 / 254.0;
    check_close(f32(stored_k.back()), {wanted_k.begin(), wanted_k.end()}, step);
    check_close(f32(stored_v.back()), {v.begin(), v.end()}, step);
    const std::vector<float> prepared_q =
        prepared(one, q, shape.query_stride(), q_gain, frequencies, position);
    check_close(got, attend(shape, prepared_q, stored_k, stored_v, position), kTolerance);
}

}  // namespace

TEST_CASE("rotary angles are exact far beyond the positions where f32 products would not be") {
    const std::vector<double> frequencies = {1.0, 0.3, 1.0e-5};
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const Buffer buffer = allocate(*on.device, frequencies.size() * sizeof(double));
        on.device->copy_from_host(buffer.address(), frequencies.data(),
                                  frequencies.size() * sizeof(double));
        const DeviceRows table(*on.device, 2, 6);
        const TokenIds ids = {1, 2};
        on.device->ops().begin({ids, 1'000'000, {}, nullptr});
        on.device->ops().rope_table({static_cast<const double*>(buffer.address()), 3, 1.25F},
                                    Rows(table).values);
        std::vector<double> wanted;
        for (const double position : {1.0e6, 1.0e6 + 1.0}) {
            for (const double frequency : frequencies) {
                wanted.push_back(1.25 * std::cos(position * frequency));
                wanted.push_back(1.25 * std::sin(position * frequency));
            }
        }
        check_close(table.read(), wanted, 1.0e-6);
    }
}

TEST_CASE("queries and keys are normalised then rotated and the rest of a head stays") {
    constexpr std::int64_t kDim = 24;
    constexpr std::int64_t kPairs = 5;  // 10 of 24 dimensions turn
    const std::vector<double> frequencies = {1.0, 0.5, 0.25, 0.125, 0.0625};
    Numbers numbers(6);
    for (const bool gated : {false, true}) {
        for (const RotaryPairs pairing : {RotaryPairs::adjacent, RotaryPairs::halves}) {
            const AttentionShape shape = shape_of(4, 2, kDim, gated, KvType::f32);
            const std::int64_t stride = shape.query_stride();
            const std::vector<float> q = numbers.list(3 * 4 * stride);
            const std::vector<float> k = numbers.list(3 * 2 * kDim);
            const std::vector<float> v = numbers.list(3 * 2 * kDim);
            const std::vector<float> q_gain = numbers.list(kDim);
            const std::vector<float> k_gain = numbers.list(kDim);
            const auto prepare = [&](const std::vector<double>& head,
                                     const std::vector<float>& gain, Position position) {
                return turned(rms(head, gain, 1.0e-6), pairing, frequencies, position);
            };
            std::vector<double> wanted_q(q.begin(), q.end());
            for (std::int64_t i = 0; i < 3 * 4; ++i) {
                const std::vector<double> all = row_of(q, i, stride);
                const std::vector<double> head =
                    prepare({all.begin(), all.begin() + kDim}, q_gain, 254 + i / 4);
                std::copy(head.begin(), head.end(), wanted_q.begin() + i * stride);
            }
            for (const NamedDevice& on : devices()) {
                INFO(on.name << (gated ? ", gated" : ""));
                Device& device = *on.device;
                const Pages pages(device, shape, 2);
                const Buffer buffer = allocate(device, frequencies.size() * sizeof(double));
                device.copy_from_host(buffer.address(), frequencies.data(),
                                      frequencies.size() * sizeof(double));
                const DeviceRows table(device, 3, 2 * kPairs);
                const DeviceRows gains_q(device, q_gain, kDim);
                const DeviceRows gains_k(device, k_gain, kDim);
                const DeviceRows queries(device, q, 4 * stride);
                const TokenIds ids = {0, 0, 0};
                device.ops().begin({ids, 254, pages.addresses(), nullptr});
                device.ops().rope_table(
                    {static_cast<const double*>(buffer.address()), kPairs, 1.0F},
                    Rows(table).values);
                device.ops().store_attention_inputs(
                    shape,
                    {gains_q.values(), gains_k.values(), 1.0e-6F, table.values(), kPairs, pairing},
                    queries, DeviceRows(device, k, 2 * kDim), DeviceRows(device, v, 2 * kDim));
                check_close(queries.read(), wanted_q, kTolerance);
                for (std::int64_t t = 0; t < 3; ++t) {  // rows 254, 255 and, on the next page, 256
                    std::vector<double> wanted_k;
                    for (std::int64_t head = 0; head < 2; ++head) {
                        const std::vector<double> one =
                            prepare(row_of(k, 2 * t + head, kDim), k_gain, 254 + t);
                        wanted_k.insert(wanted_k.end(), one.begin(), one.end());
                    }
                    check_close(f32(pages.row(shape, 254 + t, false)), wanted_k, kTolerance);
                    CHECK(pages.row(shape, 254 + t, true) == row_of(v, t, 2 * kDim));
                }
            }
        }
    }
}

TEST_CASE("a token's own row is prepared, stored and attended to") {
    constexpr auto kHalves = RotaryPairs::halves;
    constexpr auto kAdjacent = RotaryPairs::adjacent;
    for (const NamedDevice& on : devices()) {
        for (const OwnRow& one : {OwnRow{16, 4, 128, kHalves, 64, true, false},
                                  OwnRow{4, 4, 128, kAdjacent, 64, false, false},
                                  OwnRow{7, 1, 64, kHalves, 32, false, false},
                                  OwnRow{8, 2, 64, kAdjacent, 32, true, false},
                                  OwnRow{16, 2, 256, kHalves, 32, true, true},
                                  OwnRow{2, 1, 256, kHalves, 128, true, false},
                                  OwnRow{20, 1, 128, kHalves, 32, true, false},
                                  OwnRow{4, 2, 128, kHalves, 5, true, false},
                                  OwnRow{4, 2, 64, kAdjacent, 7, false, true}}) {
            for (const KvType type : kKvTypes) {
                for (const Position position : {0, 5, 15, 16, 100, 191, 192, 255, 256, 700}) {
                    INFO(on.name << ", " << one.heads << "/" << one.kv_heads << " x " << one.dim
                                 << ", " << one.pairs << " pairs, " << kv_type_name(type)
                                 << ", position " << position);
                    check_own_row(on, one, type, position);
                }
            }
        }
    }
}

TEST_CASE("half precision rows are the nearest halves of the values") {
    const AttentionShape shape = shape_of(1, 1, 20, false, KvType::f16);
    Numbers numbers(7);
    std::vector<float> k = numbers.list(20, 4.0F);
    k[0] = 65504.0F;
    k[1] = 6.0e-8F;  // a subnormal half
    k[2] = -1.0F / 3.0F;
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const Pages pages(*on.device, shape, 1);
        fill(*on.device, shape, pages, k, std::vector<float>(20, 0.0F), 1);
        const std::vector<double> stored = pages.row(shape, 0, false);
        for (std::size_t i = 0; i < k.size(); ++i) {
            // 11 bits: half a unit in the last place is 2^-11 of the value, 2^-25 below 2^-14.
            const auto value = static_cast<double>(k[i]);
            CHECK(std::abs(stored[i] - value) <= std::max(std::abs(value) * 0x1.0p-11, 0x1.0p-25));
        }
        CHECK(stored[0] == 65504.0);
        CHECK(stored[1] == 0x1.0p-24);
    }
}

TEST_CASE("attention of one token equals the definition at every depth") {
    for (const NamedDevice& on : devices()) {
        for (const Position first : {0, 1, 63, 64, 255, 256, 700, 1100}) {
            INFO(on.name << ", position " << first);
            check_attention(on, shape_of(4, 2, 64, false, KvType::f32), first, 1, 256);
            check_attention(on, shape_of(4, 2, 64, false, KvType::int8), first, 1, 256);
        }
    }
}

TEST_CASE("attention of many tokens hides from each of them what comes later") {
    for (const NamedDevice& on : devices()) {
        for (const std::int64_t rows : {2, 5, 33, 70}) {
            for (const Position first : {0, 200}) {
                INFO(on.name << ", " << rows << " rows from " << first);
                check_attention(on, shape_of(4, 2, 32, true, KvType::f32), first, rows, 64);
                check_attention(on, shape_of(4, 2, 64, true, KvType::int8), first, rows, 64);
            }
        }
    }
}

TEST_CASE("a few tokens of a long conversation see all of it") {
    for (const NamedDevice& on : devices()) {
        for (const KvType type : {KvType::f16, KvType::int8}) {
            for (const std::int64_t dim : {64, 128, 256}) {
                INFO(on.name << ", heads of " << dim);
                check_attention(on, shape_of(4, 2, dim, dim == 256, type), 1100, 33, 256);
            }
        }
    }
}

TEST_CASE("attention works with any grouping and head size and every type of rows") {
    struct Case {
        std::int64_t heads, kv_heads, dim;
    };
    for (const NamedDevice& on : devices()) {
        for (const Case& one : {Case{1, 1, 16}, Case{7, 1, 64}, Case{3, 3, 40}, Case{16, 2, 128},
                                Case{2, 1, 256}, Case{20, 1, 18}}) {
            for (const KvType type : kKvTypes) {
                for (const std::int64_t rows : {1, 9}) {
                    INFO(on.name << ", " << one.heads << "/" << one.kv_heads << " x " << one.dim
                                 << ", " << rows << " rows of " << kv_type_name(type));
                    check_attention(on, shape_of(one.heads, one.kv_heads, one.dim, false, type), 90,
                                    rows, 50);
                }
            }
        }
    }
}

TEST_CASE("attention is the same bits on one thread and on three") {
    const std::vector<NamedDevice> all = devices();
    const AttentionShape shape = shape_of(4, 2, 64, true, KvType::f16);
    Numbers numbers(9);
    const std::vector<float> k = numbers.list(1200 * 128);
    const std::vector<float> q = numbers.list(4 * 128);
    for (std::size_t i = 0; i + 1 < all.size(); i += 2) {
        std::vector<float> results[2];
        for (std::size_t n = 0; n < 2; ++n) {
            Device& device = *all[i + n].device;
            const Pages pages(device, shape, 5);
            fill(device, shape, pages, k, k, 400);
            const TokenIds ids = {0};
            device.ops().begin({ids, 1199, pages.addresses(), nullptr});
            const DeviceRows out(device, 1, 256);
            device.ops().attention(shape, DeviceRows(device, q, 512), out);
            results[n] = out.read();
        }
        CHECK(results[0] == results[1]);
    }
}

TEST_CASE("exact attention equals the definition") {
    for (const NamedDevice& on : devices(true)) {
        for (const Position first : {0, 200, 255, 700}) {
            for (const std::int64_t rows : {1, 5, 70}) {
                INFO(on.name << ", " << rows << " rows from " << first);
                check_attention(on, shape_of(4, 2, 32, true, KvType::f16), first, rows, 256);
                check_attention(on, shape_of(3, 1, 18, false, KvType::f32), first, rows, 256);
                check_attention(on, shape_of(5, 1, 64, false, KvType::int8), first, rows, 256);
            }
        }
    }
}

TEST_CASE("an exact row of attention is the same bits alone as beside any others") {
    constexpr std::int64_t kRows = 150;
    constexpr Position kFirst = 440;  // the rows lie on both sides of a page's end
    for (const AttentionShape& shape :
         {shape_of(4, 2, 32, true, KvType::f16), shape_of(16, 1, 64, false, KvType::f16),
          shape_of(2, 2, 20, false, KvType::f32), shape_of(4, 2, 64, true, KvType::int8)}) {
        const std::int64_t cols = shape.kv_heads * shape.key_dim;
        const std::int64_t q_cols = shape.heads * shape.query_stride();
        Numbers numbers(23);
        const std::vector<float> k = numbers.list((kFirst + kRows) * cols, 2.0F);
        std::vector<float> v = numbers.list((kFirst + kRows) * cols);
        // Up to a row in the middle the first values are nothing, and then very large: a trace of a
        // hidden row would show.
        for (Position p = 0; p < kFirst + kRows; ++p) {
            v[static_cast<std::size_t>(p * cols)] = p < kFirst + 75 ? 0.0F : 60'000.0F;
        }
        const std::vector<float> q = numbers.list(kRows * q_cols, 2.0F);
        for (const NamedDevice& on : devices(true)) {
            INFO(on.name << ", " << shape.heads << " heads");
            const Pages pages(*on.device, shape, 3);
            fill(*on.device, shape, pages, k, v, 256);
            const auto attended = [&](std::int64_t row, std::int64_t rows) {
                const TokenIds ids(static_cast<std::size_t>(rows), 0);
                on.device->ops().begin({ids, kFirst + row, pages.addresses(), nullptr});
                const DeviceRows out(*on.device, rows, shape.heads * shape.value_dim);
                const std::vector<float> part(q.begin() + row * q_cols,
                                              q.begin() + (row + rows) * q_cols);
                on.device->ops().attention(shape, DeviceRows(*on.device, part, q_cols), out);
                return out.read();
            };
            const std::vector<float> together = attended(0, kRows);
            for (const std::int64_t step : {1, 7, 64}) {
                std::vector<float> apart;
                for (std::int64_t row = 0; row < kRows; row += step) {
                    const auto some = attended(row, std::min(step, kRows - row));
                    apart.insert(apart.end(), some.begin(), some.end());
                }
                CHECK(apart == together);
            }
        }
    }
}
