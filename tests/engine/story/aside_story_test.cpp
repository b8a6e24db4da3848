// The engine on a device that copies by itself: conversations change places while their copies go
// on, and one whose bytes did not stay what they were is read again.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"
#include "engine/outcome_to_done.hpp"

namespace strata::tests {
namespace {

constexpr FakeShape kHybrid{true, 97, 64};
constexpr FakeShape kAttention{false, 97, 64};
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

// The system's, and a list of them.
class ListedSegments : public HostSegments {
  public:
    Result<std::byte*> map(std::size_t bytes) override {
        auto mapped = inner_.map(bytes);
        if (mapped) sizes[*mapped] = bytes;
        return mapped;
    }
    void unmap(std::byte* at, std::size_t bytes) noexcept override {
        sizes.erase(at);
        inner_.unmap(at, bytes);
    }
    void discard(std::byte* at, std::size_t bytes) noexcept override { inner_.discard(at, bytes); }

    std::map<std::byte*, std::size_t> sizes;

  private:
    MappedSegments inner_;
};

// What a request told, and in which order: parked, restored, dropped; resumed; progress; token.
struct Heard : NoEvents {
    void resumed(const PromptPlan&, std::uint64_t) override { order += 'r'; }
    void progress(Position, double, double) override { order += 'p'; }
    void token(TokenId id, const std::optional<TokenReport>&) override {
        answer.push_back(id);
        order += 't';
    }
    void conversation(const ConversationEvent& event) override {
        cache.push_back(event);
        if (event.step == ConversationStep::park) order += 'P';
        if (event.step == ConversationStep::restore) order += 'R';
        if (event.step == ConversationStep::drop) order += 'D';
    }
    TokenIds answer;
    std::vector<ConversationEvent> cache;
    std::string order;
};

MemoryReading much_memory() {
    MemoryReading reading;
    reading.available_bytes = std::uint64_t{1} << 40;
    return reading;
}

TokenIds opening(std::uint64_t seed) {
    return joined({turn(kFakeSystem, 20, seed), turn(kFakeUser, 300, seed), assistant_opens()});
}

struct AsideEngine {
    explicit AsideEngine(const FakeShape& kind, bool verify = true) : shape(kind) {
        device->aside = true;
        EngineLimits limits = EngineStage::default_limits();
        limits.cache.cache = {64 * kMib, 4, 0, limits.checkpoints.kept};
        limits.cache.verify = verify;
        const EngineHost host{&segments, {&much_memory, [] {}, [] {}}};
        auto fake = std::make_unique<FakeRunner>(shape, device);
        runner = fake.get();
        engine = make_engine(std::move(fake), limits, std::make_shared<StopBoard>(), host).value();
    }
    // No byte in host memory is what it was.
    void spoil() {
        CHECK(engine->parking_bytes() == 0);
        for (const auto& [at, bytes] : segments.sizes) {
            for (std::size_t i = 0; i < bytes; i += 64) at[i] ^= std::byte{1};
        }
    }
    Heard say(const TokenIds& prompt, Position pin = 0) {
        Heard heard;
        auto request = EngineStage::request(prompt);
        request.pin = pin;
        request.id = ++requests;
        auto done = engine->generate(request, heard);
        REQUIRE(done.ok());
        outcome = std::move(done).value();
        CHECK(heard.answer == fake_answer(shape, prompt, 6));
        return heard;
    }

    // A conversation has been displaced, and the device holds nothing of it: what comes next in it.
    TokenIds leave_one_in_ram() {
        const TokenIds first = opening(1);
        const TokenIds more = follow_up(first, say(first).answer, 3);
        say(opening(2));
        engine->leave_device();
        return more;
    }

    FakeShape shape;
    ListedSegments segments;
    std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
    FakeRunner* runner = nullptr;
    std::unique_ptr<Engine> engine;
    Outcome outcome;
    std::uint64_t requests = 0;
};

// Chats at random on one engine: they come back from RAM or the device, are pinned where they come
// back, stopped, dropped, asked aside, and bytes of them change.
class Walk {
  public:
    explicit Walk(std::uint64_t seed) : random_(seed), stage_(shape_of(seed), false) {
        stage_.device->tells_free = seed % 3 != 0;
        stage_.runner->layers = 3;
        stage_.runner->on_layer = [this](const FakePass&, std::int64_t) {
            if (stop_in_ > 0 && --stop_in_ == 0) stage_.engine->cancel(std::nullopt);
        };
    }
    void step() {
        if (chats_.size() < 3 || pick(9) == 0) chats_.push_back({opening(pick(1000)), 0});
        disturb();
        Chat& chat = chats_[pick(chats_.size())];
        auto request = EngineStage::request(chat.prompt);
        request.id = ++requests_;
        request.keep = pick(6) != 0;
        if (pick(3) == 0) request.pin = chat.end;
        stop_in_ = pick(4) == 0 ? 1 + pick(20) : 0;
        Heard heard;
        const auto done = stage_.engine->generate(request, heard);
        stop_in_ = 0;
        REQUIRE(done.ok());
        CAPTURE(requests_, heard.order, request.pin, done->plan.reused);
        check(*done, heard, chat.prompt);
        if (done->finish != FinishReason::length || !request.keep) return;
        chat.end = std::ssize(chat.prompt) + std::ssize(heard.answer) - 1;
        chat.prompt = follow_up(chat.prompt, heard.answer, pick(1000));
        if (chat.prompt.size() > 1500) chat = {opening(pick(1000)), 0};
    }

  private:
    struct Chat {
        TokenIds prompt;
        Position end = 0;  // of what it left behind
    };
    static FakeShape shape_of(std::uint64_t seed) {
        return {seed % 2 == 0, 97, 64, seed % 5 == 0 ? std::size_t{4096} : 0};
    }
    std::size_t pick(std::size_t below) { return random_() % below; }

    void disturb() {
        const bool spoils = pick(6) == 0 && !stage_.segments.sizes.empty();
        // Behind it nothing is on its way into host memory: bytes that change there have sums.
        if (spoils || pick(2) == 0) stage_.engine->leave_device();
        if (spoils) {
            const auto which = static_cast<std::ptrdiff_t>(pick(stage_.segments.sizes.size()));
            const auto& [at, bytes] = *std::next(stage_.segments.sizes.begin(), which);
            for (int i = 0; i < 100; ++i) at[pick(bytes)] ^= std::byte{2};
        }
        NoEvents quiet;
        const auto& entries = stage_.engine->conversations().entries();
        if (pick(9) == 0 && !entries.empty()) stage_.engine->drop(entries.front().entry, quiet);
    }
    void check(const Outcome& outcome, const Heard& heard, const TokenIds& prompt) {
        const TokenIds whole = fake_answer(stage_.shape, prompt, 6);
        const bool stopped = outcome.finish == FinishReason::cancel;
        CHECK((stopped || outcome.finish == FinishReason::length));
        const auto told = heard.answer.size();
        CHECK((stopped ? told <= whole.size() : told == whole.size()));
        CHECK(std::equal(heard.answer.begin(), heard.answer.end(), whole.begin()));
        if (!stopped) CHECK(outcome.prompt_tokens == outcome.plan.reused + outcome.prompt_read);
        CHECK(std::ranges::count(heard.order, 'r') == (outcome.planned ? 1 : 0));
        const auto resumed = heard.order.find('r');
        CHECK(heard.order.find_first_of("RD", resumed) == std::string::npos);
        CHECK(outcome.prompt_ms >= 0);
        CHECK(outcome.conversation > 0);
        CHECK(outcome.cache.bytes == stage_.engine->conversations().bytes());
        CHECK(stage_.device->copies_going() == 0);
    }

    std::mt19937_64 random_;
    AsideEngine stage_;
    std::vector<Chat> chats_;
    std::uint64_t requests_ = 0;
    std::size_t stop_in_ = 0;
};

}  // namespace

TEST_CASE("whatever happens to conversations that come and go, answers are right") {
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
        CAPTURE(seed);
        Walk walk(seed);
        for (int i = 0; i < 40; ++i) walk.step();
    }
}

TEST_CASE("conversations change places on a device that copies by itself") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        for (const bool leaves : {false, true}) {
            AsideEngine stage(shape);
            stage.device->tells_free = true;  // room for all of it
            TokenIds a = opening(1);
            TokenIds b = opening(2);
            a = follow_up(a, stage.say(a).answer, 3);
            b = follow_up(b, stage.say(b).answer, 4);
            for (std::uint64_t round = 0; round < 4; ++round) {
                for (TokenIds* each : {&a, &b}) {
                    if (leaves) stage.engine->leave_device();
                    const Heard heard = stage.say(*each);
                    CHECK(stage.outcome.plan.switched);
                    CHECK(stage.outcome.plan.restored);
                    CHECK(stage.outcome.plan.source ==
                          (leaves ? ResumeSource::parked : ResumeSource::device));
                    *each = follow_up(*each, heard.answer, 10 + round);
                }
            }
        }
    }
}

TEST_CASE("a conversation that did not stay what it was is read again") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        AsideEngine stage(shape);
        const TokenIds more = stage.leave_one_in_ram();
        stage.spoil();
        const Heard heard = stage.say(more);
        CHECK_FALSE(stage.outcome.plan.restored);
        CHECK(stage.outcome.plan.reused < 20);  // what it shares with another one, at most
        CHECK(stage.outcome.plan.miss == MissReason::invalid);
        CHECK(std::any_of(heard.cache.begin(), heard.cache.end(), [](const auto& event) {
            return event.step == ConversationStep::drop && event.removal == Removal::invalid;
        }));
        // The engine goes on.
        stage.say(opening(5));
        stage.say(follow_up(more, heard.answer, 6));
        CHECK(stage.outcome.plan.restored);
    }
}

TEST_CASE("the tail is read while the conversation is still on its way") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        AsideEngine stage(shape, false);
        const TokenIds more = stage.leave_one_in_ram();
        CHECK(stage.engine->parking_bytes() == 0);
        std::size_t going = 0;
        stage.runner->on_pass = [&](const FakePass&) {
            going = std::max(going, stage.device->copies_going());
        };
        stage.device->copies_ms = 25;
        const Heard heard = stage.say(more);
        CHECK(going > 0);
        // The conversation is told to be back when it is, then what was read behind it.
        CHECK(heard.order == "PRr" + std::string(heard.order.size() - 3 - 6, 'p') + "tttttt");
        CHECK(stage.outcome.plan.source == ResumeSource::parked);
        REQUIRE(stage.outcome.cache.restore_ms);
        CHECK(*stage.outcome.cache.restore_ms >= 25);
        CHECK(stage.outcome.prompt_ms >= 0);
        for (const auto& event : heard.cache) {
            if (event.step == ConversationStep::restore) {
                CHECK(event.ms == stage.outcome.cache.restore_ms);
            }
        }
    }
}

TEST_CASE("of what was read behind bytes that had changed nothing is told") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        AsideEngine stage(shape, false);
        const TokenIds more = stage.leave_one_in_ram();
        stage.spoil();
        const Heard heard = stage.say(more);  // the right answer
        CHECK(heard.order.substr(0, 3) == "PDr");
        CHECK(heard.order.find('R') == std::string::npos);
        CHECK(std::ranges::count(heard.order, 'r') == 1);
        // What the next plan took of another one, if anything, is all that came back.
        const bool borrowed = std::any_of(heard.cache.begin(), heard.cache.end(), [](auto& event) {
            return event.step == ConversationStep::borrow;
        });
        CHECK(stage.outcome.cache.restore_ms.has_value() == borrowed);
        CHECK(stage.outcome.prompt_tokens == stage.outcome.plan.reused + stage.outcome.prompt_read);
    }
}

TEST_CASE("restoring and reading share the time of a request between them") {
    for (const bool verify : {false, true}) {
        for (const double copies_ms : {0.0, 15.0}) {
            AsideEngine stage({false, 97, 64, 16'384}, verify);
            const TokenIds more = stage.leave_one_in_ram();
            stage.device->copies_ms = copies_ms;
            const auto began = std::chrono::steady_clock::now();
            stage.say(more);
            const std::chrono::duration<double, std::milli> took =
                std::chrono::steady_clock::now() - began;
            REQUIRE(stage.outcome.cache.restore_ms);
            const double restore_ms = *stage.outcome.cache.restore_ms;
            CAPTURE(verify, copies_ms, restore_ms, stage.outcome.prompt_ms, took.count());
            CHECK(stage.outcome.prompt_ms > 0);
            CHECK(restore_ms >= copies_ms);
            CHECK(restore_ms + stage.outcome.prompt_ms + stage.outcome.decode_ms <= took.count());
        }
    }
}

TEST_CASE("a conversation that is lost on its way is out of the books when that is told") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        AsideEngine stage(shape, false);
        const TokenIds more = stage.leave_one_in_ram();
        stage.spoil();
        const Heard heard = stage.say(more);
        const auto drop = std::ranges::find_if(
            heard.cache, [](const auto& event) { return event.step == ConversationStep::drop; });
        const auto park = std::ranges::find_if(
            heard.cache, [](const auto& event) { return event.step == ConversationStep::park; });
        REQUIRE(drop != heard.cache.end());
        REQUIRE(park != heard.cache.end());
        CHECK(drop->bytes > 0);
        CHECK(drop->held_bytes + drop->bytes == park->held_bytes);
        CHECK(drop->parked == park->parked);  // what is on its way is no entry
    }
}

// Where the conversation resumes a checkpoint is wanted, before anything is read.
TEST_CASE("a pin at the place where a conversation comes back waits for it") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        Position resumed = 0;
        for (const int pass : {0, 1, 2}) {  // where is it; pinned; pinned and spoilt
            AsideEngine stage(shape, false);
            const TokenIds more = stage.leave_one_in_ram();
            if (pass == 2) stage.spoil();
            const Heard heard = stage.say(more, resumed);
            CHECK(std::ranges::count(heard.order, 'r') == 1);
            CHECK(heard.order.find(pass == 2 ? 'D' : 'R') != std::string::npos);
            if (pass < 2) {
                CHECK(stage.outcome.plan.restored);
                resumed = stage.outcome.plan.reused;
            }
        }
    }
}

TEST_CASE("a request that is stopped while its conversation comes back leaves it whole") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        for (const bool spoilt : {false, true}) {
            AsideEngine stage(shape, false);
            stage.runner->layers = 3;
            const TokenIds more = stage.leave_one_in_ram();
            if (spoilt) stage.spoil();
            bool once = false;
            stage.runner->on_layer = [&](const FakePass&, std::int64_t) {
                if (!std::exchange(once, true)) stage.engine->cancel(std::nullopt);
            };
            Heard heard;
            auto request = EngineStage::request(more);
            request.id = 99;
            const auto stopped = stage.engine->generate(request, heard);
            REQUIRE(stopped.ok());
            CHECK(stopped->finish == FinishReason::cancel);
            CHECK(heard.answer.empty());
            CHECK(std::ranges::count(heard.order, 'r') == 1);
            stage.runner->on_layer = nullptr;
            stage.say(more);
            if (!spoilt) CHECK(stage.outcome.plan.reused >= std::ssize(opening(1)));
        }
    }
}

TEST_CASE("what the device may keep of parked conversations is told at the start") {
    AsideEngine stage(kAttention);
    stage.device->tells_free = true;
    stage.device->limit_bytes = stage.device->held_bytes() + 40 * kMib;
    CHECK(info_line(*stage.engine, "1").device_pool_mib == 40);  // no limit: what is free

    EngineLimits limits = EngineStage::default_limits();
    limits.cache.cache = {64 * kMib, 4, 0, limits.checkpoints.kept};
    const EngineHost host{&stage.segments, {&much_memory, [] {}, [] {}}};
    for (const bool aside : {true, false}) {
        auto device = std::make_shared<FakeDevice>();
        device->aside = aside;
        device->tells_free = true;
        device->limit_bytes = 100 * kMib;
        limits.cache.device_pool_bytes = 7 * kMib;
        const auto engine = make_engine(std::make_unique<FakeRunner>(kAttention, device), limits,
                                        std::make_shared<StopBoard>(), host)
                                .value();
        CHECK(info_line(*engine, "1").device_pool_mib == (aside ? 7 : 0));
    }
}

}  // namespace strata::tests
