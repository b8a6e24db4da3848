// Conformance of Ops::find_largest: every size class, every place, and the values that are not
// plain numbers, on every device.
#include <cstring>
#include <limits>
#include <optional>

#include <catch2/catch.hpp>

#include "tests/engine/backend/ops_fixture.hpp"

using namespace strata;
using namespace strata::ops_fixture;

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNoNumber = std::numeric_limits<float>::quiet_NaN();
constexpr float kMost = std::numeric_limits<float>::max();
constexpr std::int32_t kPoison = -77;

// The oracle: value by value, as ops.hpp says it.
std::int32_t largest_of(const std::vector<float>& values) {
    std::int32_t best = -1;
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (std::isnan(values[i]) || values[i] == kInfinity) return -1;
        const bool above = values[i] > (best < 0 ? -kInfinity : values[std::size_t(best)]);
        if (above) best = static_cast<std::int32_t>(i);
    }
    return best;
}

// One row of a device, and where its largest value is found.
class Finder {
  public:
    Finder(Device& device, std::int64_t cols)
        : device_(device), row_(device, 1, cols), visible_(device.allocate_visible(4).value()) {}

    std::int32_t find(const std::vector<float>& values) {
        write(0, values);
        return find();
    }
    void write(std::size_t at, std::span<const float> values) {
        device_.copy_from_host(Rows(row_).values + at, values.data(), values.size_bytes());
    }
    std::int32_t find() {
        auto* index = static_cast<std::int32_t*>(visible_.address());
        *index = kPoison;
        device_.ops().find_largest(row_, index);
        device_.wait_for_change(index, kPoison);
        return *index;
    }

  private:
    Device& device_;
    DeviceRows row_;
    Buffer visible_;
};

// A value in one place of a row, and what should be found then.
struct Placed {
    float value;
    std::int32_t found;
};
template <class Place>
void check_each_place(Finder& finder, const std::vector<float>& values, const Place& place) {
    finder.write(0, values);
    std::int64_t wrong = 0;
    for (std::size_t at = 0; at < values.size(); ++at) {
        const Placed placed = place(at);
        finder.write(at, {&placed.value, 1});
        if (finder.find() != placed.found) ++wrong;
        finder.write(at, {&values[at], 1});
    }
    CHECK(wrong == 0);
}

// Sizes around vectors, blocks and real vocabularies.
const std::vector<std::int64_t> kSizes = {1,    2,      3,       7,       31,      32,
                                          33,   2047,   2048,    2049,    4095,    4096,
                                          4097, 50'257, 151'936, 152'064, 262'149, 600'001};

std::vector<std::size_t> places(std::size_t size) {
    std::vector<std::size_t> out;
    for (std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{4}, std::size_t{31},
                           size / 3, size / 2, size - 5, size - 2, size - 1}) {
        if (at < size) out.push_back(at);
    }
    return out;
}

}  // namespace

TEST_CASE("the largest value of a row is found wherever it is") {
    for (const NamedDevice& on : devices()) {
        for (const std::int64_t size : kSizes) {
            INFO(on.name << ", " << size << " values");
            Numbers numbers(static_cast<std::uint64_t>(size));
            std::vector<float> values = numbers.list(size, 20.0F);
            Finder finder(*on.device, size);
            CHECK(finder.find(values) == largest_of(values));
            for (const std::size_t at : places(values.size())) {
                std::vector<float> one = values;
                one[at] = 20.5F;
                CHECK(finder.find(one) == static_cast<std::int32_t>(at));
            }
            for (float& value : values) value -= 50.0F;  // below what padding could hold
            CHECK(finder.find(values) == largest_of(values));
        }
    }
}

TEST_CASE("every place of a row of 9001 values can win") {
    constexpr std::int64_t kSize = 9001;
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        Numbers numbers(3);
        const std::vector<float> values = numbers.list(kSize);
        Finder finder(*on.device, kSize);
        check_each_place(finder, values, [](std::size_t at) {
            return Placed{2.0F, static_cast<std::int32_t>(at)};
        });
    }
}

TEST_CASE("of equal largest values the first is found and the zeros are equal") {
    for (const NamedDevice& on : devices()) {
        for (const std::int64_t size : kSizes) {
            INFO(on.name << ", " << size << " values");
            const auto count = static_cast<std::size_t>(size);
            Finder finder(*on.device, size);
            CHECK(finder.find(std::vector<float>(count, 1.5F)) == 0);
            CHECK(finder.find(std::vector<float>(count, -kMost)) == 0);
            CHECK(finder.find(std::vector<float>(count, kMost)) == 0);
            for (const std::size_t at : places(count)) {
                std::vector<float> tail(count, -1.0F);
                for (std::size_t i = at; i < count; ++i) tail[i] = i % 3 == 0 ? 3.0F : 2.0F;
                CHECK(finder.find(tail) == largest_of(tail));
                std::vector<float> zeros(count, -kInfinity);
                zeros[at] = -0.0F;
                zeros[count - 1] = 0.0F;
                CHECK(finder.find(zeros) == static_cast<std::int32_t>(at));
                zeros[at] = 0.0F;
                zeros[count - 1] = at + 1 == count ? 0.0F : -0.0F;
                CHECK(finder.find(zeros) == static_cast<std::int32_t>(at));
            }
        }
    }
}

TEST_CASE("a row with NaN or infinity or with nothing above minus infinity has no largest value") {
    std::uint32_t negative_bits = 0xffc00001U;
    float negative_nan = 0;
    std::memcpy(&negative_nan, &negative_bits, sizeof negative_nan);
    for (const NamedDevice& on : devices()) {
        for (const std::int64_t size : kSizes) {
            INFO(on.name << ", " << size << " values");
            Numbers numbers(static_cast<std::uint64_t>(size));
            const std::vector<float> values = numbers.list(size, 20.0F);
            Finder finder(*on.device, size);
            for (const std::size_t at : places(values.size())) {
                for (const float fault : {kNoNumber, negative_nan, kInfinity}) {
                    std::vector<float> one = values;
                    one[at] = fault;
                    CHECK(finder.find(one) == -1);
                }
                std::vector<float> masked(values.size(), -kInfinity);
                CHECK(finder.find(masked) == -1);
                masked[at] = -kMost;
                CHECK(finder.find(masked) == static_cast<std::int32_t>(at));
            }
        }
    }
}

TEST_CASE("a fault at any place of a row of 4133 values is seen") {
    constexpr std::int64_t kSize = 4133;
    for (const NamedDevice& on : devices()) {
        INFO(on.name);
        Numbers numbers(5);
        const std::vector<float> values = numbers.list(kSize);
        Finder finder(*on.device, kSize);
        check_each_place(finder, values, [](std::size_t at) {
            return Placed{at % 2 == 0 ? kNoNumber : kInfinity, -1};
        });
        CHECK(finder.find() == largest_of(values));
    }
}

TEST_CASE("a row that does not begin on a vector is searched all the same") {
    constexpr std::int64_t kSize = 5003;
    Numbers numbers(7);
    const std::vector<float> values = numbers.list(kSize);
    for (const NamedDevice& on : devices()) {
        const DeviceRows whole(*on.device, values, kSize);
        const Buffer visible = on.device->allocate_visible(sizeof(std::int32_t)).value();
        auto* index = static_cast<std::int32_t*>(visible.address());
        for (const std::int64_t begin : {1, 2, 3, 4, 5}) {
            INFO(on.name << ", from " << begin);
            on.device->ops().find_largest({Rows(whole).values + begin, 1, kSize - begin}, index);
            on.device->synchronize();
            CHECK(*index == largest_of({values.begin() + begin, values.end()}));
        }
    }
}

TEST_CASE("steps with and without a search follow each other in any order") {
    constexpr std::int64_t kCols = 64;
    constexpr std::int64_t kOut = 3000;
    Numbers numbers(11);
    const std::vector<float> matrix = numbers.list(kCols * kOut);
    for (const NamedDevice& on : devices()) {
        Device& device = *on.device;
        const auto weight = upload(device, matrix, kCols, kOut);
        const DeviceRows x(device, 1, kCols);
        const DeviceRows y(device, 1, kOut);
        const Projection to_y{weight.get(), nullptr, y, false};
        const Buffer visible = device.allocate_visible(sizeof(std::int32_t)).value();
        auto* index = static_cast<std::int32_t*>(visible.address());
        const TokenIds ids = {0};
        int step = 0;
        // Long and short steps alone, in turn, twice in a row, many times.
        for (const char search : std::string("yynnnynyyynnyynnnnyn")) {
            INFO(on.name << ", step " << step++);
            const std::vector<float> in = numbers.list(kCols);
            device.copy_from_host(Rows(x).values, in.data(), in.size() * sizeof(float));
            *index = kPoison;
            device.ops().begin({ids, 0, {}, nullptr});
            device.ops().linear(x, {&to_y, 1});
            if (search == 'y') device.ops().find_largest(y, index);
            // Where nothing changes the word, it is a wait for everything.
            device.wait_for_change(index, kPoison);
            const std::int32_t found = *index;
            const std::vector<float> got = y.read();
            check_close(got, times(matrix, row_of(in, 0, kCols)), 1.0e-5);
            CHECK(found == (search == 'y' ? largest_of(got) : kPoison));
        }
    }
}
