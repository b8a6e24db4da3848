// K/V rows as they are stored: sizes and places of the layout, and the rounding of int8 rows, on
// every device, byte by byte.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "tests/engine/backend/attention_pages.hpp"
#include "tests/engine/backend/ops_fixture.hpp"

using namespace strata;
using namespace strata::ops_fixture;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// A stored int8 head.
struct Head {
    std::vector<int> codes;
    float scale = 0.0F;
};
Head head_of(const std::vector<std::byte>& row, const KvRows& rows, std::int64_t head) {
    Head out;
    for (std::int64_t d = 0; d < rows.dim; ++d) {
        out.codes.push_back(
            value_at<std::int8_t>(row, rows.head_offset(head) + static_cast<std::size_t>(d)));
    }
    out.scale = value_at<float>(row, rows.scale_offset(head));
    return out;
}

// One head of `dim` elements, stored as a value row and read back.
Head stored(Device& device, const std::vector<float>& elements) {
    const auto dim = static_cast<std::int64_t>(elements.size());
    const AttentionShape shape = shape_of(1, 1, dim, false, KvType::int8);
    const Pages pages(device, shape, 1);
    fill(device, shape, pages, elements, elements, 1);
    CHECK(pages.raw(shape, 0, false) == pages.raw(shape, 0, true));
    return head_of(pages.raw(shape, 0, true), shape.v_rows(), 0);
}

}  // namespace

TEST_CASE("K and V rows have the sizes and places of their layout") {
    CHECK(KvRows{KvType::f32, 8, 128}.row_bytes() == 4096);
    CHECK(KvRows{KvType::f16, 8, 128}.row_bytes() == 2048);
    // 1,024 codes and 8 scales: 51.6 % of f16.
    CHECK(KvRows{KvType::int8, 8, 128}.row_bytes() == 1056);
    CHECK(KvRows{KvType::int8, 8, 128}.head_offset(3) == 384);
    CHECK(KvRows{KvType::int8, 8, 128}.scale_offset(0) == 1024);
    CHECK(KvRows{KvType::int8, 8, 128}.scale_offset(7) == 1052);
    // A gap of eight bytes before the scales.
    CHECK(KvRows{KvType::int8, 2, 256}.row_bytes() == 528);
    CHECK(KvRows{KvType::int8, 2, 256}.scale_offset(0) == 520);
    CHECK(KvRows{KvType::int8, 1, 1}.row_bytes() == 16);
    CHECK(KvRows{KvType::int8, 1, 1}.scale_offset(0) == 12);
    for (const std::int64_t heads : {1, 2, 3, 5, 8, 64}) {
        for (const std::int64_t dim : {1, 18, 64, 96, 256}) {
            const KvRows rows{KvType::int8, heads, dim};
            INFO(heads << " heads of " << dim);
            CHECK(rows.row_bytes() % 16 == 0);
            CHECK(rows.scale_offset(0) % 4 == 0);
            CHECK(rows.scale_offset(heads) == rows.row_bytes());
            CHECK(rows.scale_offset(0) >= rows.head_offset(heads));
            CHECK(rows.scale_offset(0) - rows.head_offset(heads) < 16);
        }
    }
}

TEST_CASE("an int8 head is its elements within half a step and its largest is 127 steps") {
    Numbers numbers(31);
    for (const NamedDevice& on : devices()) {
        for (const std::int64_t dim : {1, 2, 18, 31, 64, 128, 256}) {
            for (const float size : {1.0e-30F, 3.0e-5F, 1.0F, 700.0F, 2.0e37F}) {
                INFO(on.name << ", " << dim << " elements up to " << size);
                const std::vector<float> elements = numbers.list(dim, size);
                const Head head = stored(*on.device, elements);
                double largest = 0.0;
                for (const float x : elements) {
                    largest = std::max(largest, std::abs(static_cast<double>(x)));
                }
                const auto scale = static_cast<double>(head.scale);
                CHECK(std::abs(scale - largest / 127.0) <= largest / 127.0 * 0x1.0p-24);
                // 1 / scale and the product with it are rounded: 2^-23 of up to 128 steps besides.
                const double half_step = scale * (0.5 + 0x1.0p-16);
                for (std::size_t d = 0; d < elements.size(); ++d) {
                    const auto x = static_cast<double>(elements[d]);
                    CHECK(std::abs(head.codes[d] * scale - x) <= half_step);
                    if (std::abs(x) == largest) CHECK(head.codes[d] == (x > 0 ? 127 : -127));
                    CHECK(std::abs(head.codes[d]) <= 127);
                }
            }
        }
    }
}

TEST_CASE("int8 codes round to nearest with ties to even and keep the sign") {
    // The scale is 1 exactly.
    const std::vector<float> elements = {-127.0F, 0.5F,  1.5F,  -0.5F, -1.5F,  2.5F,
                                         0.49F,   0.51F, -0.0F, 0.0F,  126.5F, -125.5F};
    const std::vector<int> wanted = {-127, 0, 2, 0, -2, 2, 0, 1, 0, 0, 126, -126};
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const Head head = stored(*on.device, elements);
        CHECK(head.scale == 1.0F);
        CHECK(head.codes == wanted);
    }
}

TEST_CASE("an int8 head of zeros or of next to nothing is zero") {
    const float smallest = std::numeric_limits<float>::min();
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        for (const float x :
             {0.0F, -0.0F, std::numeric_limits<float>::denorm_min(), smallest, 126.0F * smallest}) {
            INFO("elements of " << x);
            const Head head = stored(*on.device, std::vector<float>(20, x));
            CHECK(head.scale == 0.0F);
            CHECK(head.codes == std::vector<int>(20, 0));
        }
        const Head head = stored(*on.device, std::vector<float>(20, -128.0F * smallest));
        CHECK(head.scale >= smallest);
        CHECK(head.codes == std::vector<int>(20, -127));
    }
}

TEST_CASE("an int8 head with a NaN or an infinity is NaN and the heads beside it are not") {
    for (const NamedDevice& on : devices()) {
        for (const float bad : {kNan, -kNan, kInfinity, -kInfinity}) {
            for (const std::size_t where : {std::size_t{0}, std::size_t{17}, std::size_t{39}}) {
                INFO(on.name << ", " << bad << " at " << where);
                const AttentionShape shape = shape_of(2, 2, 40, false, KvType::int8);
                std::vector<float> elements(80, 2.0F);
                elements[where] = bad;
                const Pages pages(*on.device, shape, 1);
                fill(*on.device, shape, pages, elements, elements, 1);
                for (const bool value : {false, true}) {
                    const auto row = pages.raw(shape, 0, value);
                    const Head broken = head_of(row, rows_of(shape, value), 0);
                    CHECK(std::isnan(broken.scale));
                    CHECK(broken.codes == std::vector<int>(40, 0));
                    const Head whole = head_of(row, rows_of(shape, value), 1);
                    CHECK(whole.scale == 2.0F / 127.0F);
                    CHECK(whole.codes == std::vector<int>(40, 127));
                }
            }
        }
    }
}

TEST_CASE("storing an int8 row writes its bytes and no others") {
    for (const NamedDevice& on : devices()) {
        for (const auto& [heads, dim] :
             {std::pair<std::int64_t, std::int64_t>{1, 18}, {2, 256}, {3, 5}, {8, 128}, {5, 64}}) {
            INFO(on.name << ", " << heads << " heads of " << dim);
            const AttentionShape shape = shape_of(heads, heads, dim, false, KvType::int8);
            const KvRows rows = shape.k_rows();
            const std::vector<float> ones(static_cast<std::size_t>(3 * heads * dim), 1.0F);
            const Pages pages(*on.device, shape, 2);
            const TokenIds ids = {0, 0, 0};
            on.device->ops().begin({ids, 254, pages.addresses(), nullptr});
            const DeviceRows q(*on.device, 3, heads * dim);
            const DeviceRows k(*on.device, ones, heads * dim);
            const DeviceRows v(*on.device, ones, heads * dim);
            on.device->ops().store_attention_inputs(shape, {}, q, k, v);
            std::vector<std::byte> wanted(rows.row_bytes(), std::byte{0});
            std::fill_n(wanted.begin(), heads * dim, std::byte{127});
            const float scale = 1.0F / 127.0F;
            for (std::int64_t head = 0; head < heads; ++head) {
                std::memcpy(wanted.data() + rows.scale_offset(head), &scale, sizeof scale);
            }
            const std::vector<std::byte> untouched(rows.row_bytes(), std::byte{0xFF});
            for (const bool value : {false, true}) {
                CHECK(pages.raw(shape, 253, value) == untouched);
                for (const Position p : {254, 255, 256})
                    CHECK(pages.raw(shape, p, value) == wanted);
                CHECK(pages.raw(shape, 257, value) == untouched);
            }
        }
    }
}

TEST_CASE("attention over a NaN head is NaN for the queries that see it alone") {
    const AttentionShape shape = shape_of(4, 2, 64, false, KvType::int8);
    Numbers numbers(5);
    std::vector<float> k = numbers.list(300 * 128);
    const std::vector<float> v = numbers.list(300 * 128);
    k[299 * 128 + 70] = kNan;  // the last position, the second head
    const std::vector<float> q = numbers.list(2 * 256);
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const Pages pages(*on.device, shape, 2);
        fill(*on.device, shape, pages, k, v, 100);
        const TokenIds ids = {0, 0};
        on.device->ops().begin({ids, 298, pages.addresses(), nullptr});
        const DeviceRows out(*on.device, 2, 256);
        on.device->ops().attention(shape, DeviceRows(*on.device, q, 256), out);
        const std::vector<float> got = out.read();
        for (std::size_t i = 0; i < got.size(); ++i) {
            INFO("element " << i);
            CHECK(std::isnan(got[i]) == (i >= 256 + 128));
        }
    }
}

TEST_CASE("int8 rows are the same bytes on every device") {
    const AttentionShape shape = shape_of(4, 4, 96, false, KvType::int8);
    Numbers numbers(12);
    const std::vector<float> k = numbers.list(40 * 4 * 96, 3.0F);
    const std::vector<float> v = numbers.list(40 * 4 * 96, 0.01F);
    std::vector<std::vector<std::byte>> first;
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        const Pages pages(*on.device, shape, 1);
        fill(*on.device, shape, pages, k, v, 7);
        std::vector<std::vector<std::byte>> rows;
        for (Position p = 0; p < 40; ++p) {
            rows.push_back(pages.raw(shape, p, false));
            rows.push_back(pages.raw(shape, p, true));
        }
        if (first.empty()) first = rows;
        CHECK(rows == first);
    }
}
