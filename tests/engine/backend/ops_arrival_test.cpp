// Copies from the host that go on while operations are asked for: whoever reads what they bring
// sees it whole, however early it asks and in whatever order. The oracle is the same step asked for
// when all has come.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <optional>

#include <catch2/catch.hpp>

#include "tests/engine/backend/attention_pages.hpp"
#include "tests/engine/backend/ops_fixture.hpp"

using namespace strata;
using namespace strata::ops_fixture;

namespace {

constexpr std::size_t kLayers = 4;
constexpr std::int64_t kHeads = 8;
constexpr std::int64_t kKvHeads = 2;
constexpr std::int64_t kDim = 128;
constexpr std::size_t kStateBytes = std::size_t{1} << 20;

AttentionShape layer_shape(std::size_t layer) {
    AttentionShape shape = shape_of(kHeads, kKvHeads, kDim, false, KvType::f16);
    const std::size_t rows = static_cast<std::size_t>(kPageTokens) * shape.k_rows().row_bytes();
    shape.k_offset = 2 * layer * rows;
    shape.v_offset = shape.k_offset + rows;
    return shape;
}
constexpr std::size_t kLayerBytes =
    static_cast<std::size_t>(2 * kPageTokens * kKvHeads * kDim) * sizeof(std::uint16_t);
constexpr std::size_t kPageBytes = kLayers * kLayerBytes;

// A conversation in host memory, and the place on a device where it is to come.
class Coming {
  public:
    // With so many pages that a device which copies by itself is busy for milliseconds.
    Coming(Device& device, bool locked)
        : device_(device),
          host_((device.copies_aside() ? 192 : 3) * kPageBytes + kStateBytes),
          state_(allocate(device, kStateBytes)) {
        Numbers numbers(5);
        std::vector<std::uint16_t> some(1 << 16);
        for (auto& half : some) {  // 1/64 to 2, of either sign
            const auto bits = static_cast<std::uint16_t>((numbers.next() + 1.0F) * 32767.0F);
            half = static_cast<std::uint16_t>(((bits & 0x8000U) | (bits & 0x1fffU)) + 0x2400U);
        }
        const std::size_t bytes = some.size() * sizeof some[0];
        for (std::size_t at = 0; at < host_.size(); at += bytes) {
            std::rotate(some.begin(), some.begin() + 1, some.end());
            std::memcpy(host_.data() + at, some.data(), std::min(bytes, host_.size() - at));
        }
        if (locked) lock_.emplace(device, host_.data(), host_.size());
        for (std::size_t page = 0; page < pages(); ++page) {
            buffers_.push_back(allocate(device, kPageBytes));
            addresses_.push_back(buffers_.back().address());
        }
    }
    std::size_t pages() const { return (host_.size() - kStateBytes) / kPageBytes; }
    Position rows() const { return static_cast<Position>(pages()) * kPageTokens; }
    void* state() const { return state_.address(); }
    std::span<void* const> addresses() const { return addresses_; }
    std::span<const std::byte> page(std::size_t index) const {
        return std::span(host_).subspan(kStateBytes + index * kPageBytes, kPageBytes);
    }

    // NaN everywhere, then the copies: the state first, then the pages layer by layer.
    void start() {
        const std::vector<std::byte> poison(kPageBytes, std::byte{0xFF});
        for (void* each : addresses_) device_.copy_from_host(each, poison.data(), kPageBytes);
        device_.copy_from_host(state_.address(), poison.data(), kStateBytes);
        std::vector<HostCopy> copies{{state_.address(), host_.data(), kStateBytes}};
        std::vector<CopyStage> stages;
        for (std::size_t layer = 0; layer < kLayers; ++layer) {
            const std::size_t at = layer * kLayerBytes;
            for (std::size_t i = 0; i < pages(); ++i) {
                copies.push_back({static_cast<std::byte*>(addresses_[i]) + at, page(i).data() + at,
                                  kLayerBytes});
            }
            stages.push_back({copies.size(), at + kLayerBytes});
        }
        device_.start_copies_from_host(copies, stages);
    }

  private:
    Device& device_;
    std::vector<std::byte> host_;  // the state, then the pages
    std::optional<LockedPages> lock_;
    Buffer state_;
    std::vector<Buffer> buffers_;
    std::vector<void*> addresses_;
};

// A step of so many rows over the last positions of the conversation, which asks for attention in
// all layers, in this order. The outputs of all.
std::vector<float> attend_all(Device& device, Coming& coming, std::int64_t rows,
                              std::span<const std::size_t> order, bool arriving) {
    Numbers numbers(9);
    const DeviceRows q(device, numbers.list(rows * kHeads * kDim), kHeads * kDim);
    std::vector<std::unique_ptr<DeviceRows>> outs;
    for (std::size_t i = 0; i < kLayers; ++i) {
        outs.push_back(std::make_unique<DeviceRows>(device, rows, kHeads * kDim));
    }
    device.synchronize();
    const TokenIds ids(static_cast<std::size_t>(rows), 0);
    if (arriving) coming.start();
    device.ops().begin({ids, coming.rows() - rows, coming.addresses(), coming.state()});
    for (const std::size_t layer : order) {
        device.ops().attention(layer_shape(layer), q, *outs[layer]);
    }
    std::vector<float> all;
    for (const auto& out : outs) {
        const std::vector<float> values = out->read();
        all.insert(all.end(), values.begin(), values.end());
    }
    if (arriving) {
        const double ms = device.finish_copies();
        CHECK((device.copies_aside() ? ms > 0 : ms == 0));
    }
    return all;
}

}  // namespace

TEST_CASE("a step reads layer by layer what is still coming") {
    for (const NamedDevice& on : devices()) {
        for (const bool locked : {true, false}) {
            Coming coming(*on.device, locked);
            for (const std::int64_t rows : {1, 3, 20}) {
                for (const auto& order :
                     {std::vector<std::size_t>{0, 1, 2, 3}, std::vector<std::size_t>{3, 0, 2, 1}}) {
                    CAPTURE(on.name, locked, rows, order);
                    const auto early = attend_all(*on.device, coming, rows, order, true);
                    const auto late = attend_all(*on.device, coming, rows, order, false);
                    CHECK(std::all_of(late.begin(), late.end(),
                                      [](float value) { return std::isfinite(value); }));
                    CHECK(std::memcmp(early.data(), late.data(), late.size() * sizeof(float)) == 0);
                }
            }
        }
    }
}

TEST_CASE("copies that are asked for meanwhile see what has come") {
    for (const NamedDevice& on : devices()) {
        CAPTURE(on.name);
        Device& device = *on.device;
        Coming coming(device, true);
        const std::size_t last = coming.pages() - 1;
        std::vector<std::byte> bytes(kPageBytes);
        coming.start();
        device.copy_to_host(bytes.data(), coming.addresses()[last], kPageBytes);
        CHECK(std::ranges::equal(bytes, coming.page(last)));
        static_cast<void>(device.finish_copies());

        const Buffer other = allocate(device, kPageBytes);
        coming.start();
        device.copy_on_device(other.address(), coming.addresses()[last], kPageBytes);
        static_cast<void>(device.finish_copies());
        device.copy_to_host(bytes.data(), other.address(), kPageBytes);
        CHECK(std::ranges::equal(bytes, coming.page(last)));

        coming.start();
        device.synchronize();  // all of it has come: other threads may read it now
        device.copy_to_host_aside(bytes.data(), coming.addresses()[0], kPageBytes);
        CHECK(std::ranges::equal(bytes, coming.page(0)));
        static_cast<void>(device.finish_copies());

        coming.start();  // behind what was asked for before, and nobody asks for anything
        static_cast<void>(device.finish_copies());
        device.copy_to_host(bytes.data(), coming.addresses()[last], kPageBytes);
        CHECK(std::ranges::equal(bytes, coming.page(last)));
    }
}

TEST_CASE("copies without stages are waited for as a whole") {
    for (const NamedDevice& on : devices()) {
        CAPTURE(on.name);
        Device& device = *on.device;
        const std::vector<std::byte> from(std::size_t{48} << 20, std::byte{0x3c});
        const Buffer to = allocate(device, from.size());
        const HostCopy copy{to.address(), from.data(), from.size()};
        std::vector<std::byte> back(from.size());
        device.start_copies_from_host({&copy, 1}, {});
        device.copy_to_host(back.data(), to.address(), back.size());
        CHECK(back == from);
        static_cast<void>(device.finish_copies());
        device.start_copies_from_host({}, {});
        static_cast<void>(device.finish_copies());
    }
}
