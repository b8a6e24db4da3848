// The state of a checkpoint is summed up when a conversation is rewound to it, and not before: one
// that changed meanwhile is no checkpoint any more, and nothing else is lost. States of several
// blocks, on a device that copies by itself and on one that does not.
#include <algorithm>
#include <memory>
#include <stdexcept>

#include <catch2/catch.hpp>
#include <sys/mman.h>

#include "aside_device.hpp"
#include "snapshot_fixture.hpp"
#include "strata/state/state_hash.hpp"

namespace strata::tests {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr Position kFirst = 100;
constexpr Position kSecond = 300;
constexpr Position kEnd = 400;

// The fake model with running states of 3 MiB and some bytes, all of which follow from the fake's
// own.
class WideRunner : public FakeRunner {
  public:
    explicit WideRunner(std::shared_ptr<FakeDevice> device)
        : FakeRunner(FakeShape{true, 97, 512}, std::move(device)), wide_(FakeRunner::geometry()) {
        own_ = wide_.state_bytes() / 8;
        wide_.matrix_state_bytes = kBlock + kBlock / 2 + 8;
    }
    const Geometry& geometry() const override { return wide_; }
    bool forward(const SequenceMemory& memory, Position first, std::span<const TokenId> ids,
                 const LastRow& wanted) override {
        const bool whole = FakeRunner::forward(memory, first, ids, wanted);
        auto* words = static_cast<std::uint64_t*>(memory.running_state);
        for (std::size_t i = own_; i < wide_.state_bytes() / 8; ++i) words[i] = words[i % own_] + i;
        return whole;
    }

  private:
    Geometry wide_;
    std::size_t own_ = 0;  // words of the fake's
};

struct WideStage {
    explicit WideStage(bool aside)
        : device(aside ? std::shared_ptr<FakeDevice>(std::make_shared<AsideDevice>(0))
                       : std::make_shared<FailingDevice>()),
          runner(device),
          store(segments, *device),
          session(LiveSession::open(runner, store).value()),
          logits(97) {}

    void read(Position count, std::uint64_t seed) {
        const TokenIds more = SnapshotStage::ids(count, seed);
        REQUIRE(session->reserve(session->frontier() + count).ok());
        REQUIRE(session->read(more, logits).ok());
    }
    // Rows [0, kEnd) with two checkpoints, of which the device holds nothing besides.
    void read_all() {
        read(kFirst, 1);
        REQUIRE(session->keep_checkpoint(CheckpointKind::root, 1).ok());
        first = newest_image();
        read(kSecond - kFirst, 2);
        REQUIRE(session->keep_checkpoint(CheckpointKind::turn, 1).ok());
        second = newest_image();
        read(kEnd - kSecond, 3);
        session->forget_kept();
    }
    HostBlobId newest_image() const {
        return session->checkpoints().image(session->checkpoints().size() - 1).id;
    }
    ConversationImage park() {
        ConversationImage image;
        image.conversation = 1;
        session->describe(image);
        books.add(image);
        REQUIRE(session->capture(image).ok());
        for (const HostBlob& page : image.pages) store.await(page.id);
        store.await(image.end_state.id);
        return image;
    }
    // What changes place is nowhere on the device any more.
    RestoreOutcome restore(const ConversationImage& image, Position position) {
        session->reset();
        session->forget_kept();
        if (!session->validate(image, position, {}).ok()) return {};
        RestoreOutcome outcome = session->restore(image, position, {});
        if (!session->await_arrival().good) outcome.result = RestoreResult::spoilt;
        return outcome;
    }
    // A byte of the blob, wherever its piece lies.
    std::byte& byte_of(HostBlobId id, std::size_t at) {
        for (const auto& piece : store.find(id)->pieces) {
            if (at < piece.size()) return piece[at];
            at -= piece.size();
        }
        FAIL("no such byte");
        std::abort();
    }
    void spoil(HostBlobId id, std::size_t at = 5) { byte_of(id, at) ^= std::byte{0x20}; }
    // From here on whoever reads or writes it ends the test.
    void forbid(HostBlobId id, int protection = PROT_NONE) {
        for (const auto& piece : store.find(id)->pieces) {
            REQUIRE(mprotect(piece.data(), piece.size(), protection) == 0);
        }
    }
    void allow(HostBlobId id) { forbid(id, PROT_READ | PROT_WRITE); }

    std::shared_ptr<FakeDevice> device;
    WideRunner runner;
    CountedSegments segments;
    BlobStore store;
    std::unique_ptr<LiveSession> session;
    Books books;
    std::vector<float> logits;
    HostBlobId first = HostBlobId::none;
    HostBlobId second = HostBlobId::none;
};

// A fresh session that read these rows, and then `count` more.
struct Fresh {
    std::string state;
    std::vector<float> logits;
};
Fresh fresh_at(Position end, Position count, std::uint64_t seed) {
    WideStage stage(false);
    if (end > 0) stage.read(std::min(end, kFirst), 1);
    if (end > kFirst) stage.read(std::min(end, kSecond) - kFirst, 2);
    if (count > 0) stage.read(count, seed);
    return {state_sha256(*stage.session), stage.logits};
}

void check_goes_on(WideStage& stage, Position end) {
    CHECK(stage.session->frontier() == end);
    stage.read(20, 9);
    const Fresh fresh = fresh_at(end, 20, 9);
    CHECK(stage.logits == fresh.logits);
    CHECK(state_sha256(*stage.session) == fresh.state);
}

}  // namespace

TEST_CASE("a flipped byte in any block of a state is found when it is used") {
    const bool aside = GENERATE(false, true);
    WideStage stage(aside);
    stage.read_all();
    const auto before = state_sha256(*stage.session);
    const std::size_t bytes = stage.runner.geometry().state_bytes();
    REQUIRE(bytes > 3 * kBlock);
    const std::size_t at = GENERATE(0, 1, 2, 3) * kBlock + GENERATE(0, 11);
    stage.spoil(stage.second, at);
    CHECK_FALSE(stage.session->rewind(kSecond));
    CHECK(stage.session->valid());
    CHECK(stage.session->frontier() == kEnd);
    CHECK(state_sha256(*stage.session) == before);
    CHECK_FALSE(stage.session->checkpoints().has(kSecond));
    CHECK(stage.session->checkpoints().has(kFirst));
    REQUIRE(stage.session->rewind(kFirst));
    check_goes_on(stage, kFirst);
}

TEST_CASE("a flipped byte in any block of the state that comes back is found") {
    const bool aside = GENERATE(false, true);
    WideStage stage(aside);
    stage.read_all();
    const ConversationImage image = stage.park();
    for (std::size_t block = 0; block < 4; ++block) {
        stage.spoil(image.end_state.id, block * kBlock + 3);
        const RestoreOutcome outcome = stage.restore(image, kEnd);
        CHECK(outcome.result == (aside ? RestoreResult::spoilt : RestoreResult::no_match));
        stage.spoil(image.end_state.id, block * kBlock + 3);
    }
    REQUIRE(stage.restore(image, kEnd).result == RestoreResult::restored);
    CHECK(stage.session->differs_from(image, kEnd) == std::nullopt);
}

TEST_CASE("what is not resumed at is neither read nor in the way") {
    const bool aside = GENERATE(false, true);
    WideStage stage(aside);
    stage.read_all();
    const auto before = state_sha256(*stage.session);
    const ConversationImage image = stage.park();
    stage.spoil(stage.second, kBlock);
    stage.forbid(stage.first);
    stage.forbid(stage.second);
    REQUIRE(stage.restore(image, kEnd).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == before);
    stage.allow(stage.first);
    stage.allow(stage.second);
    CHECK_FALSE(stage.session->rewind(kSecond));
    CHECK(state_sha256(*stage.session) == before);
    REQUIRE(stage.session->rewind(kFirst));
    check_goes_on(stage, kFirst);
}

TEST_CASE("looking whether a rewind will do drops what is spoilt and nothing else") {
    const bool aside = GENERATE(false, true);
    WideStage stage(aside);
    stage.read_all();
    const auto before = state_sha256(*stage.session);
    CHECK(stage.session->can_rewind(kEnd));
    CHECK(stage.session->can_rewind(0));
    CHECK(stage.session->can_rewind(kSecond));
    CHECK(stage.session->checkpoints().size() == 2);
    stage.spoil(stage.second);
    CHECK_FALSE(stage.session->can_rewind(kSecond));
    CHECK(stage.session->can_rewind(kFirst));
    CHECK(stage.session->checkpoints().size() == 1);
    CHECK(state_sha256(*stage.session) == before);
}

TEST_CASE("of two states at one position one that is good will do") {
    WideStage stage(false);
    stage.read(kFirst, 1);
    REQUIRE(stage.session->keep_checkpoint(CheckpointKind::turn, 1).ok());
    const HostBlobId turn = stage.newest_image();
    REQUIRE(stage.session->keep_checkpoint(CheckpointKind::tail, 1).ok());
    const HostBlobId tail = stage.newest_image();
    REQUIRE(turn != tail);
    stage.read(50, 2);
    stage.spoil(GENERATE_COPY(turn, tail));
    REQUIRE(stage.session->rewind(kFirst));
    check_goes_on(stage, kFirst);
}

TEST_CASE("a pass that was given up goes back to the deepest state that is good") {
    const bool aside = GENERATE(false, true);
    const int spoilt = GENERATE(0, 1, 2);
    WideStage stage(aside);
    stage.read_all();
    if (spoilt > 0) stage.spoil(stage.second);
    if (spoilt > 1) stage.spoil(stage.first);
    stage.runner.layers = 1;
    stage.runner.watch([] { return false; });
    REQUIRE(stage.session->reserve(kEnd + 10).ok());
    REQUIRE(stage.session->read(SnapshotStage::ids(10, 4), stage.logits).value() ==
            PassEnd::abandoned);
    stage.session->cut_back();
    stage.runner.layers = 0;
    CHECK(stage.session->valid());
    check_goes_on(stage, spoilt == 0 ? kSecond : spoilt == 1 ? kFirst : 0);
}

TEST_CASE("a state that is still on the device is not read from the host") {
    WideStage stage(true);
    stage.read(kFirst, 1);
    REQUIRE(stage.session->keep_checkpoint(CheckpointKind::turn, 1).ok());
    const HostBlobId image = stage.newest_image();
    stage.read(50, 2);
    stage.store.await(image);
    stage.forbid(image);
    CHECK(stage.session->can_rewind(kFirst));
    REQUIRE(stage.session->rewind(kFirst));
    stage.allow(image);
    check_goes_on(stage, kFirst);
}

TEST_CASE("a state whose copy to the host failed is no checkpoint") {
    WideStage stage(true);
    auto& device = static_cast<AsideDevice&>(*stage.device);
    stage.read(kFirst, 1);
    REQUIRE(stage.session->keep_checkpoint(CheckpointKind::root, 1).ok());
    stage.read(kSecond - kFirst, 2);
    stage.store.await(stage.newest_image());
    device.fails = [] { throw std::runtime_error("this copy is to fail"); };
    REQUIRE(stage.session->keep_checkpoint(CheckpointKind::turn, 1).ok());
    stage.store.await(stage.newest_image());
    stage.read(50, 3);
    stage.session->forget_kept();
    CHECK_FALSE(stage.session->rewind(kSecond));
    REQUIRE(stage.session->rewind(kFirst));
    check_goes_on(stage, kFirst);
}

}  // namespace strata::tests
