// Real memory: what is parked is resident, what is released leaves the process, three times over.
#include <algorithm>
#include <cstring>
#include <fstream>

#include <catch2/catch.hpp>
#include <sys/resource.h>

#include "engine/host/mapped_segments.hpp"
#include "snapshot_fixture.hpp"

namespace strata::tests {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// A sanitizer keeps notes on memory that was used: an eighth of it stays resident.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::int64_t kNotesBytes = 64 * kMiB;
#else
constexpr std::int64_t kNotesBytes = 0;
#endif

std::int64_t resident_bytes() {
    std::ifstream file("/proc/self/statm");
    std::int64_t total = 0;
    std::int64_t resident = 0;
    file >> total >> resident;
    return resident * 4096;
}

// A model of 64 KiB of K/V per token: a page of it is one segment.
class WideRunner : public Runner {
  public:
    explicit WideRunner(Device& device) : device_(&device) {
        geometry_.architecture = "wide";
        geometry_.layers = {LayerKind::attention};
        geometry_.k_row_bytes = 32768;
        geometry_.v_row_bytes = 32768;
    }
    const Geometry& geometry() const override { return geometry_; }
    const VocabularyFacts& vocabulary() const override { return facts_; }
    Device& device() override { return *device_; }
    std::int64_t chunk_tokens_max() const override { return 1 << 20; }
    bool forward(const SequenceMemory& memory, Position first, std::span<const TokenId> ids,
                 const LastRow&) override {
        for (std::size_t i = 0; i < ids.size(); ++i) {
            const auto row = static_cast<std::size_t>(first) + i;
            auto* page = static_cast<std::byte*>(memory.pages[row / 256]);
            page[row % 256 * 32768] = static_cast<std::byte>(ids[i]);
        }
        return true;
    }
    void copy_logits(TokenId, std::span<float>) override {}

  private:
    Device* device_;
    Geometry geometry_;
    VocabularyFacts facts_;
};

// A device whose pages are all the same memory: what is measured here is the host's side.
class OnePageDevice : public FailingDevice {
  public:
    Result<Buffer> allocate(std::size_t bytes) override {
        if (!page_) page_ = FakeDevice::allocate(bytes).value();
        CHECK(page_.bytes() == bytes);
        return page_;
    }

  private:
    Buffer page_;
};

}  // namespace

TEST_CASE("256 MiB parked and released leave the process three times") {
    OnePageDevice device;
    device.threads = 2;
    WideRunner runner(device);
    MappedSegments segments;
    BlobStore store(segments, device);
    auto session = LiveSession::open(runner, store).value();
    const Position end = 16 * kPageTokens;
    REQUIRE(session->reserve(end).ok());
    REQUIRE(session->read(SnapshotStage::ids(end, 1), {}).ok());
    const std::int64_t before = resident_bytes();
    for (int round = 0; round < 3; ++round) {
        ConversationImage image;
        session->describe(image);
        REQUIRE(session->capture(image).ok());
        CHECK(store.bytes() == 256 * kMiB);
        const std::int64_t parked = resident_bytes();
        CHECK(parked - before >= 255 * kMiB);
        CHECK(parked - before <= 264 * kMiB + kNotesBytes);
        REQUIRE(session->validate(image, end, {}).ok());
        // Half of it first: what is released piece by piece leaves piece by piece.
        std::vector<HostBlobId> left;
        for (const HostBlob& page : image.pages) left.push_back(page.id);
        std::sort(left.begin(), left.end());
        session->leave(std::span(left).first(8));
        CHECK(resident_bytes() - before <= 136 * kMiB + kNotesBytes);
        session->leave(left);
        CHECK(store.bytes() == 0);
        CHECK(store.mapped_bytes() == 0);
        CHECK(resident_bytes() - before <= 8 * kMiB + kNotesBytes);
    }
}

TEST_CASE("a small piece that is freed leaves the process while its segment stays") {
    FailingDevice device;
    MappedSegments segments;
    BlobStore store(segments, device);
    std::vector<HostBlob> blobs;
    std::vector<HostBlobId> ids;
    for (int i = 0; i < 64; ++i) {
        blobs.push_back({store.announce(), 100'000, false});
        ids.push_back(blobs.back().id);
    }
    const std::int64_t before = resident_bytes();
    REQUIRE(store.allocate(1, blobs).ok());
    CHECK(resident_bytes() - before <= kMiB);  // nothing is there before it is written
    for (const HostBlobId id : ids) {
        const auto piece = store.pieces(id).front();
        std::memset(piece.data(), 1, piece.size());
    }
    const std::int64_t filled = resident_bytes();
    CHECK(filled - before >= 6'000'000);
    store.discard(std::span(ids).subspan(1));
    CHECK(store.mapped_bytes() > 0);
    CHECK(filled - resident_bytes() >= 5'900'000);
    CHECK(store.pieces(ids[0]).front()[99'999] == std::byte{1});
    store.discard(ids);
    CHECK(store.mapped_bytes() == 0);
}

TEST_CASE("a segment that the system refuses is a refusal") {
    MappedSegments segments;
    rlimit before{};
    REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
    rlimit none = before;
    none.rlim_cur = 0;
    REQUIRE(setrlimit(RLIMIT_AS, &none) == 0);
    const auto small = segments.map(4096);
    const auto large = segments.map(kSegmentBytesMax);
    REQUIRE(setrlimit(RLIMIT_AS, &before) == 0);
    REQUIRE_FALSE(small.ok());
    CHECK(small.error().kind == RefusalKind::out_of_memory);
    REQUIRE_FALSE(large.ok());
    CHECK_THAT(large.error().text, Catch::Contains("16777216"));
}

TEST_CASE("rows are written without waiting for the system") {
    const auto device = make_cpu_device({1, "scalar"}).value();
    WideRunner runner(*device);
    MappedSegments segments;
    BlobStore store(segments, *device);
    auto session = LiveSession::open(runner, store).value();
    REQUIRE(session->reserve(kPageTokens).ok());
    rusage before{};
    rusage after{};
    const TokenIds ids = SnapshotStage::ids(kPageTokens, 2);
    REQUIRE(getrusage(RUSAGE_SELF, &before) == 0);
    REQUIRE(session->read(ids, {}).ok());
    REQUIRE(getrusage(RUSAGE_SELF, &after) == 0);
    // 16 MiB: 4096 of the system's pages, had they not been there.
    CHECK(after.ru_minflt - before.ru_minflt < 200);
}

}  // namespace strata::tests
