// A snapshot is checked whole before it is used: one byte, one token, one page out of place, or
// another model, and it is refused with the session untouched.
#include <algorithm>
#include <utility>

#include <catch2/catch.hpp>

#include "snapshot_fixture.hpp"
#include "strata/state/state_hash.hpp"

namespace strata::tests {
namespace {

constexpr Position kEnd = 600;
constexpr Position kMark = 300;

// A parked conversation with a checkpoint, and another one that is live.
struct Parked {
    explicit Parked(bool recurrent) : stage(recurrent) {
        stage.read(SnapshotStage::ids(kMark, 1));
        REQUIRE(stage.session->keep_checkpoint(CheckpointKind::turn, 1).ok());
        stage.read(SnapshotStage::ids(kEnd - kMark, 2));
        image = stage.park(1);
        stage.session->reset();
        stage.read(SnapshotStage::ids(77, 3));
        live = state_sha256(*stage.session);
    }
    ~Parked() {
        CHECK(stage.session->valid());
        CHECK(state_sha256(*stage.session) == live);
        stage.drop(image);
        stage.expect_nothing_left();
    }
    SnapshotRefusal refusal(const ConversationImage& of, Position position = kEnd,
                            std::string_view steering = {}) const {
        const auto good = stage.session->validate(of, position, steering);
        REQUIRE_FALSE(good.ok());
        return good.error();
    }
    // A blob of the store as it was never meant to be touched.
    std::span<std::byte> bytes_of(HostBlobId id) { return stage.store.find(id)->pieces.front(); }

    SnapshotStage stage;
    ConversationImage image;
    std::string live;
};

}  // namespace

TEST_CASE("one flipped byte anywhere in a snapshot is refused and names its part") {
    Parked parked(true);
    struct Case {
        HostBlobId id;
        std::string name;
    };
    const std::vector<Case> cases{{parked.image.pages[0].id, "page 0"},
                                  {parked.image.pages[1].id, "page 1"},
                                  {parked.image.pages[2].id, "page 2"},
                                  {parked.image.end_state.id, "end state"}};
    for (const Case& each : cases) {
        const auto bytes = parked.bytes_of(each.id);
        for (const std::size_t at : {std::size_t{0}, bytes.size() / 2, bytes.size() - 1}) {
            bytes[at] ^= std::byte{0x10};
            const SnapshotRefusal refusal = parked.refusal(parked.image);
            CHECK(refusal.fault == SnapshotFault::invalid);
            CHECK_THAT(refusal.text, Catch::Contains(each.name));
            bytes[at] ^= std::byte{0x10};
        }
    }
    CHECK(parked.stage.session->validate(parked.image, kEnd, {}).ok());
}

TEST_CASE("only what a restore moves is summed up") {
    Parked parked(true);
    const auto below = parked.bytes_of(parked.image.checkpoints[0].running_state.id);
    below[0] ^= std::byte{1};
    CHECK(parked.stage.session->validate(parked.image, kEnd, {}).ok());
    const SnapshotRefusal refusal = parked.refusal(parked.image, kMark);
    CHECK(refusal.fault == SnapshotFault::invalid);
    CHECK_THAT(refusal.text, Catch::Contains("checkpoint"));
    below[0] ^= std::byte{1};
    parked.bytes_of(parked.image.pages[2].id)[0] ^= std::byte{1};
    parked.bytes_of(parked.image.end_state.id)[0] ^= std::byte{1};
    CHECK(parked.stage.session->validate(parked.image, kMark, {}).ok());
    CHECK(parked.refusal(parked.image).fault == SnapshotFault::invalid);
}

TEST_CASE("pages out of order or of other tokens are refused though their bytes are whole") {
    const bool recurrent = GENERATE(false, true);
    Parked parked(recurrent);
    ConversationImage wrong = parked.image;
    SECTION("two pages changed places") {
        std::swap(wrong.pages[0], wrong.pages[1]);
    }
    SECTION("a page stands twice") {
        wrong.pages[1] = wrong.pages[0];
    }
    SECTION("one token differs in a full page") {
        TokenIds ids = *wrong.ids;
        ids[100] ^= 1;
        wrong.ids = std::make_shared<const TokenIds>(ids);
    }
    SECTION("one token differs in the last page") {
        TokenIds ids = *wrong.ids;
        ids.back() ^= 1;
        wrong.ids = std::make_shared<const TokenIds>(ids);
    }
    SECTION("a token more than was computed") {
        TokenIds ids = *wrong.ids;
        ids.push_back(20);
        wrong.ids = std::make_shared<const TokenIds>(ids);
        CHECK(parked.refusal(wrong, kEnd + 1).fault == SnapshotFault::invalid);
        return;
    }
    CHECK(parked.refusal(wrong).fault == SnapshotFault::invalid);
}

TEST_CASE("the end state is not a checkpoint and a checkpoint not the end state") {
    Parked parked(true);
    ConversationImage wrong = parked.image;
    std::swap(wrong.end_state, wrong.checkpoints[0].running_state);
    CHECK(parked.refusal(wrong).fault == SnapshotFault::invalid);
    CHECK(parked.refusal(wrong, kMark).fault == SnapshotFault::invalid);
}

TEST_CASE("a part that is missing or has another size is refused") {
    Parked parked(true);
    ConversationImage wrong = parked.image;
    SECTION("no tokens") {
        wrong.ids = nullptr;
    }
    SECTION("a page too few") {
        wrong.pages.pop_back();
    }
    SECTION("a page that nobody knows") {
        wrong.pages[1].id = parked.stage.store.announce();
    }
    SECTION("a state in the place of a page") {
        wrong.pages[1] = wrong.end_state;
    }
    SECTION("no end state") {
        wrong.end_state = {};
    }
    SECTION("a checkpoint without a state") {
        wrong.checkpoints[0].running_state = {};
    }
    SECTION("a checkpoint beyond the end") {
        wrong.checkpoints[0].mark.position = kEnd + 1;
    }
    CHECK(parked.refusal(wrong).fault == SnapshotFault::invalid);
    CHECK(parked.stage.session->restore(wrong, kEnd, {}).result != RestoreResult::restored);
}

TEST_CASE("another steering is another identity") {
    Parked parked(GENERATE(false, true));
    const SnapshotRefusal refusal = parked.refusal(parked.image, kEnd, "content of a vector");
    CHECK(refusal.fault == SnapshotFault::identity);
}

TEST_CASE("a steered conversation comes back under its own steering") {
    SnapshotStage stage(true);
    stage.session->set_steering("formal 1.0");
    stage.read(SnapshotStage::ids(300, 1));
    const ConversationImage image = stage.park(1);
    stage.session->reset();
    stage.session->set_steering({});
    stage.read(SnapshotStage::ids(20, 2));
    CHECK_FALSE(stage.session->validate(image, 300, {}).ok());
    REQUIRE(stage.session->validate(image, 300, "formal 1.0").ok());
    REQUIRE(stage.session->restore(image, 300, "formal 1.0").result == RestoreResult::restored);
    // What is parked from here on bears the steering again.
    stage.read(SnapshotStage::ids(10, 3));
    const ConversationImage next = stage.park(1);
    CHECK(stage.session->validate(next, 310, "formal 1.0").ok());
    CHECK(stage.session->validate(next, 310, {}).error().fault == SnapshotFault::identity);
    stage.drop(next);
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("a fingerprint tells geometry from identity") {
    const FakeRunner runner(FakeShape{true}, std::make_shared<FakeDevice>());
    const Geometry geometry = runner.geometry();
    const VocabularyFacts facts = runner.vocabulary();
    const SnapshotFingerprint own = fingerprint_of(geometry, facts, {});
    CHECK(fingerprint_of(geometry, facts, {}) == own);
    const auto differs = [&](auto change, bool in_geometry, bool in_identity) {
        Geometry other = geometry;
        VocabularyFacts other_facts = facts;
        std::string steering;
        change(other, other_facts, steering);
        const SnapshotFingerprint changed = fingerprint_of(other, other_facts, steering);
        CHECK((changed.geometry != own.geometry) == in_geometry);
        CHECK((changed.identity != own.identity) == in_identity);
    };
    differs([](Geometry& g, auto&, auto&) { g.k_row_bytes *= 2; }, true, false);
    differs([](Geometry& g, auto&, auto&) { std::swap(g.layers[0], g.layers[1]); }, true, false);
    differs([](Geometry& g, auto&, auto&) { g.conv_state_bytes += 4; }, true, false);
    differs([](Geometry& g, auto&, auto&) { g.kv_type = KvType::f32; }, true, true);
    differs([](Geometry& g, auto&, auto&) { g.kv_type = KvType::int8; }, true, true);
    differs([](auto&, VocabularyFacts& v, auto&) { v.model_id = "0ther"; }, false, true);
    differs([](auto&, auto&, std::string& steering) { steering = "a"; }, false, true);
}

TEST_CASE("a difference between device and snapshot is found and named") {
    SnapshotStage stage(true);
    stage.read(SnapshotStage::ids(kEnd, 1));
    const ConversationImage image = stage.park(1);
    REQUIRE(stage.restore(image, kEnd).result == RestoreResult::restored);
    CHECK(stage.session->differs_from(image, kEnd) == std::nullopt);
    const SequenceMemory memory = stage.session->memory();
    auto* page = static_cast<std::byte*>(memory.pages[2]);
    page[3] ^= std::byte{1};
    CHECK(stage.session->differs_from(image, kEnd) == std::optional<std::string>("page 2"));
    page[3] ^= std::byte{1};
    auto* state = static_cast<std::byte*>(memory.running_state);
    state[stage.runner.geometry().state_bytes() - 1] ^= std::byte{1};
    CHECK(stage.session->differs_from(image, kEnd).value_or("") == "the running state");
    stage.drop(image);
    stage.expect_nothing_left();
}

}  // namespace strata::tests
