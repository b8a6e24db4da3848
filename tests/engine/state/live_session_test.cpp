// The live session on a device of memory: rows, pages, rewinding, and the one way out of INVALID.
#include "strata/state/live_session.hpp"

#include <cstring>
#include <stdexcept>

#include <catch2/catch.hpp>
#include <openssl/sha.h>

#include "../../support/engine_stage.hpp"
#include "snapshot_fixture.hpp"
#include "strata/state/state_hash.hpp"

namespace strata::tests {
namespace {

struct Session {
    explicit Session(bool recurrent)
        : shape{recurrent, 97, 512},
          device(std::make_shared<FakeDevice>()),
          runner(shape, device),
          store(segments, *device),
          session(LiveSession::open(runner, store).value()),
          logits(97) {}

    void read(const TokenIds& ids) {
        REQUIRE(session->reserve(session->frontier() + std::ssize(ids)).ok());
        REQUIRE(session->read(ids, logits).ok());
    }

    FakeShape shape;
    std::shared_ptr<FakeDevice> device;
    FakeRunner runner;
    CountedSegments segments;
    BlobStore store;
    std::unique_ptr<LiveSession> session;
    std::vector<float> logits;
};

std::vector<float> logits_of(bool recurrent, const TokenIds& ids) {
    Session fresh(recurrent);
    fresh.read(ids);
    return fresh.logits;
}

}  // namespace

TEST_CASE("a rewound conversation reads on as if it had never gone further") {
    const bool recurrent = GENERATE(false, true);
    Session s(recurrent);
    const TokenIds head = turn(kFakeUser, 297, 1);  // 300 rows: two pages
    const TokenIds left = turn(kFakeUser, 7, 2);
    const TokenIds right = turn(kFakeUser, 7, 3);
    s.read(head);
    REQUIRE(s.session->keep_checkpoint(CheckpointKind::turn).ok());
    s.read(left);
    CHECK(s.logits == logits_of(recurrent, joined({head, left})));
    REQUIRE(s.session->rewind(300));
    CHECK(s.session->frontier() == 300);
    s.read(right);
    CHECK(s.logits == logits_of(recurrent, joined({head, right})));
    CHECK(s.session->checkpoints().has(300));
}

TEST_CASE("an attention-only conversation rewinds to any row") {
    Session s(false);
    const TokenIds ids = turn(kFakeUser, 297, 1);
    s.read(ids);
    REQUIRE(s.session->rewind(257));
    const TokenIds more = turn(kFakeUser, 5, 4);
    s.read(more);
    const TokenIds whole = joined({TokenIds(ids.begin(), ids.begin() + 257), more});
    CHECK(s.logits == logits_of(false, whole));
    CHECK(TokenIds(s.session->ids().begin(), s.session->ids().end()) == whole);
}

TEST_CASE("reset empties the running state and keeps the pages") {
    Session s(true);
    s.read(turn(kFakeUser, 297, 1));
    REQUIRE(s.session->pages() == 2);
    s.session->reset();
    CHECK(s.session->frontier() == 0);
    CHECK(s.session->checkpoints().size() == 0);
    CHECK(s.session->pages() == 2);
    const TokenIds other = turn(kFakeUser, 20, 5);
    s.read(other);
    CHECK(s.logits == logits_of(true, other));
}

TEST_CASE("pages are taken as rows need them and refused whole") {
    Session s(false);
    const std::size_t page = s.runner.geometry().page_bytes();
    CHECK(s.device->held_bytes() == 0);
    REQUIRE(s.session->reserve(256).ok());
    CHECK(s.device->held_bytes() == page);
    REQUIRE(s.session->reserve(257).ok());
    CHECK(s.device->held_bytes() == 2 * page);
    s.device->limit_bytes = 3 * page;
    const auto refused = s.session->reserve(4 * 256);
    REQUIRE_FALSE(refused.ok());
    CHECK(refused.error().kind == RefusalKind::out_of_memory);
    CHECK(s.device->held_bytes() == 2 * page);
}

TEST_CASE("spare pages go back and needed ones stay") {
    Session s(false);
    s.read(turn(kFakeUser, 297, 1));
    CHECK_FALSE(s.session->has_spare_pages());
    REQUIRE(s.session->rewind(256));
    REQUIRE(s.session->has_spare_pages());
    s.session->release_spare_pages();
    CHECK(s.session->pages() == 1);
    CHECK(s.device->held_bytes() == s.runner.geometry().page_bytes());
    REQUIRE(s.session->rewind(255));
    CHECK_FALSE(s.session->has_spare_pages());
}

TEST_CASE("a pass that throws leaves the session invalid until it is reset") {
    const bool memory = GENERATE(false, true);
    Session s(true);
    s.read(turn(kFakeUser, 20, 1));
    s.runner.on_pass = [memory](const FakePass&) {
        if (memory) throw std::bad_alloc();
        throw std::runtime_error("stumbled");
    };
    REQUIRE(s.session->reserve(60).ok());
    const TokenIds more = turn(kFakeUser, 5, 2);
    const auto failed = s.session->read(more, s.logits);
    REQUIRE_FALSE(failed.ok());
    CHECK((failed.error().kind == RefusalKind::out_of_memory) == memory);
    CHECK_FALSE(s.session->valid());
    CHECK(s.session->frontier() == 23);
    s.session->reset();
    CHECK(s.session->valid());
    s.runner.on_pass = nullptr;
    s.read(more);
    CHECK(s.logits == logits_of(true, more));
}

TEST_CASE("a pass that is abandoned is undone by cutting back to the last whole state") {
    const bool recurrent = GENERATE(false, true);
    const bool checkpoint = GENERATE(false, true);
    Session s(recurrent);
    const TokenIds head = turn(kFakeUser, 20, 1);  // 23 rows
    const TokenIds more = turn(kFakeUser, 5, 2);
    s.read(head);
    if (checkpoint) REQUIRE(s.session->keep_checkpoint(CheckpointKind::turn).ok());
    s.runner.layers = 1;
    s.runner.watch([] { return false; });
    REQUIRE(s.session->reserve(60).ok());
    const auto abandoned = s.session->read(more, s.logits);
    REQUIRE(abandoned.ok());
    CHECK(*abandoned == PassEnd::abandoned);
    CHECK_FALSE(s.session->valid());
    s.session->cut_back();
    CHECK(s.session->valid());
    const Position kept = recurrent && !checkpoint ? 0 : 23;
    CHECK(s.session->frontier() == kept);
    CHECK(s.session->checkpoints().size() == (checkpoint ? 1 : 0));
    s.runner.watch({});
    s.read(more);
    CHECK(s.logits == logits_of(recurrent, kept == 0 ? more : joined({head, more})));
}

TEST_CASE("the state hash is that of rows then states in the documented order") {
    const bool recurrent = GENERATE(false, true);
    Session s(recurrent);
    s.read(turn(kFakeUser, 297, 1));
    const Geometry& g = s.runner.geometry();
    const SequenceMemory memory = s.session->memory();
    std::vector<std::byte> bytes;
    const auto add = [&bytes](const void* from, std::size_t count) {
        const auto* first = static_cast<const std::byte*>(from);
        bytes.insert(bytes.end(), first, first + count);
    };
    const std::uint64_t rows = 300;
    add(&rows, sizeof rows);
    for (std::size_t layer = 0; layer < g.attention_layers(); ++layer) {
        for (const bool values : {false, true}) {
            for (std::size_t row = 0; row < rows; ++row) {
                const auto* page = static_cast<const std::byte*>(memory.pages[row / 256]);
                const std::size_t width = values ? g.v_row_bytes : g.k_row_bytes;
                add(page + layer * 256 * (g.k_row_bytes + g.v_row_bytes) +
                        (values ? 256 * g.k_row_bytes : 0) + row % 256 * width,
                    width);
            }
        }
    }
    if (recurrent) add(memory.running_state, g.state_bytes());
    unsigned char digest[SHA256_DIGEST_LENGTH];
    SHA256(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(), digest);
    std::string hex;
    for (const unsigned char byte : digest) {
        constexpr char kDigits[] = "0123456789abcdef";
        hex += kDigits[byte >> 4];
        hex += kDigits[byte & 15];
    }
    CHECK(state_sha256(*s.session) == hex);
}

TEST_CASE("the logits hash is that of their bytes") {
    // sha256 of the eight bytes 00 00 80 3f 00 00 00 c0: 1 and -2 as little-endian f32.
    const std::vector<float> logits{1, -2};
    unsigned char digest[SHA256_DIGEST_LENGTH];
    const unsigned char bytes[] = {0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0};
    SHA256(bytes, sizeof bytes, digest);
    const std::string hex = logits_sha256(logits);
    REQUIRE(hex.size() == 64);
    CHECK(std::stoi(hex.substr(0, 2), nullptr, 16) == digest[0]);
    CHECK(std::stoi(hex.substr(62, 2), nullptr, 16) == digest[31]);
}

}  // namespace strata::tests
