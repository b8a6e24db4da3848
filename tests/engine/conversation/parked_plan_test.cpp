// The plan over parked conversations: take or borrow, the verdict's rows, why a switch is a miss,
// and what becomes of the conversation that was live (DETAILS.md, Conversation cache: the policy).
#include <catch2/catch.hpp>

#include "policy_stage.hpp"
#include "strata/core/prompt_plan.hpp"

namespace strata::tests {
namespace {

using S = ResumeSource;
using M = MissReason;
using F = OutgoingFate;

// One conversation of 600 tokens: root [0, 256), question from 256, answer from 300 (F), a second
// question from 400, its answer from 450.
constexpr Position kRoot = 256;
constexpr Position kFirst = 300;
constexpr Position kSecondQuestion = 400;
constexpr Position kLastTurn = 450;
constexpr Position kLength = 600;

TokenIds conversation(TokenId salt = 0) {
    TokenIds ids;
    for (Position i = 0; i < kLength; ++i) {
        const bool opens =
            i == 0 || i == kRoot || i == kFirst || i == kSecondQuestion || i == kLastTurn;
        const TokenId word = i == 1 ? kSystemWord : 100 + static_cast<TokenId>(i % 50);
        ids.push_back(opens ? kOpen : word + (i > 1 ? salt : 0));
    }
    return ids;
}

TokenIds cut(TokenIds ids, Position length) {
    ids.resize(static_cast<std::size_t>(length));
    return ids;
}

// The first `length` tokens, and then something else.
TokenIds branch(const TokenIds& ids, Position length, std::size_t more = 8) {
    return joined({cut(ids, length), TokenIds(more, 90)});
}

PromptMarks marks_of(const TokenIds& ids) {
    return mark_prompt(ids, std::nullopt, kTurnWords);
}

ParkedEntry entry(EntryId number, const TokenIds& ids, std::vector<CheckpointMark> marks,
                  const Identity& identity = {}) {
    auto image = std::make_shared<ConversationImage>();
    image->ids = std::make_shared<const TokenIds>(ids);
    image->identity = identity;
    image->marks = marks_of(ids);
    for (const CheckpointMark& mark : marks) image->checkpoints.push_back({mark, 0, {}});
    ParkedEntry parked;
    parked.entry = number;
    parked.image = image;
    return parked;
}

std::vector<CheckpointMark> usual_marks() {
    return {{CheckpointKind::root, kRoot},
            {CheckpointKind::turn, kFirst},
            {CheckpointKind::turn, kLastTurn}};
}

struct World {
    std::vector<ParkedEntry> entries;
    std::vector<Tombstone> stones;
    bool anywhere = false;
    std::optional<LiveView> live;

    PromptPlan plan(const TokenIds& prompt, const Identity& identity = {},
                    std::optional<Position> root = std::nullopt) const {
        return plan_prompt({prompt, mark_prompt(prompt, root, kTurnWords), identity}, live,
                           {true, entries, stones, anywhere});
    }
};

struct Row {
    Position length;  // tokens that the prompt shares with the parked conversation
    Position hybrid;  // reused
    S hybrid_source;
    Position anywhere;
    S anywhere_source;
};

}  // namespace

TEST_CASE("take and borrow at every edge of checkpoints and pages") {
    const TokenIds ids = conversation();
    const std::vector<Row> rows{
        {1, 0, S::cold, 1, S::borrowed},
        {kRoot - 1, 0, S::cold, kRoot - 1, S::borrowed},
        {kRoot, kRoot, S::borrowed, kRoot, S::borrowed},
        {kRoot + 1, kRoot, S::borrowed, kRoot + 1, S::borrowed},
        {kFirst - 1, kRoot, S::borrowed, kFirst - 1, S::borrowed},
        {kFirst, kFirst, S::borrowed, kFirst, S::borrowed},
        {kFirst + 1, kFirst, S::borrowed, kFirst + 1, S::borrowed},
        {kLastTurn - 1, kFirst, S::borrowed, kLastTurn - 1, S::borrowed},
        {kLastTurn, kLastTurn, S::parked_checkpoint, kLastTurn, S::parked_checkpoint},
        {kLastTurn + 1, kLastTurn, S::parked_checkpoint, kLastTurn + 1, S::parked_checkpoint},
        {511, kLastTurn, S::parked_checkpoint, 511, S::parked_checkpoint},
        {512, kLastTurn, S::parked_checkpoint, 512, S::parked_checkpoint},
        {513, kLastTurn, S::parked_checkpoint, 513, S::parked_checkpoint},
        {kLength - 1, kLastTurn, S::parked_checkpoint, kLength - 1, S::parked_checkpoint},
        {kLength, kLength, S::parked, kLength, S::parked},
    };
    World world;
    world.entries = {entry(7, ids, usual_marks())};
    for (const Row& row : rows) {
        for (const bool anywhere : {false, true}) {
            world.anywhere = anywhere;
            const TokenIds prompt = branch(ids, row.length);
            const PromptPlan plan = world.plan(prompt);
            const Position reused = anywhere ? row.anywhere : row.hybrid;
            INFO("shares " << row.length << ", anywhere " << anywhere);
            CHECK(plan.reused == reused);
            CHECK(plan.source == (anywhere ? row.anywhere_source : row.hybrid_source));
            CHECK(plan.entry.has_value() == (reused > 0));
            CHECK(plan.takes == (plan.source == S::parked || plan.source == S::parked_checkpoint));
            CHECK(plan.switched);
            CHECK(plan.restored == (reused >= marks_of(prompt).first_turn));
            CHECK((plan.miss == M::none) == plan.restored);
        }
    }
}

TEST_CASE("at least one token of a prompt that is parked whole is left to read") {
    const TokenIds ids = conversation();
    World world;
    world.entries = {entry(7, ids, usual_marks())};
    for (const Position length : {kLastTurn, kLastTurn + 1, kLength}) {
        world.anywhere = false;
        CHECK(world.plan(cut(ids, length)).reused == (length == kLastTurn ? kFirst : kLastTurn));
        world.anywhere = true;
        CHECK(world.plan(cut(ids, length)).reused == length - 1);
    }
}

TEST_CASE("re-read tails of every length resume at the end") {
    const TokenIds ids = conversation();
    World world;
    world.entries = {entry(7, ids, usual_marks())};
    for (std::size_t tail = 1; tail <= 130; ++tail) {
        world.anywhere = tail % 2 == 0;
        const PromptPlan plan = world.plan(branch(ids, kLength, tail));
        CHECK(plan.reused == kLength);
        CHECK(plan.source == S::parked);
    }
}

TEST_CASE("the longest parked match wins and of equal ones the most recently parked") {
    const TokenIds ids = conversation();
    World world;
    world.entries = {entry(9, cut(ids, kLastTurn + 20), {{CheckpointKind::turn, kLastTurn}}),
                     entry(4, cut(ids, kLastTurn + 10), {{CheckpointKind::turn, kLastTurn}}),
                     entry(2, branch(ids, kFirst), {{CheckpointKind::turn, kFirst}})};
    CHECK(world.plan(branch(ids, kLastTurn + 5)).entry == 9);
    CHECK(world.plan(branch(ids, kLastTurn + 10)).entry == 4);
    CHECK(world.plan(branch(ids, kLastTurn + 20)).entry == 9);
    CHECK(world.plan(branch(ids, kFirst + 1)).entry == 2);
}

TEST_CASE("at equal length the live conversation wins over a parked one") {
    const TokenIds ids = conversation();
    const auto marks = usual_marks();
    World world;
    world.entries = {entry(9, ids, marks)};
    world.live = LiveView{ids, marks, marks_of(ids), {}};
    const PromptPlan plan = world.plan(branch(ids, kLength));
    CHECK(plan.source == S::live);
    CHECK_FALSE(plan.entry);
    CHECK_FALSE(plan.switched);
    CHECK(world.plan(branch(ids, kRoot)).source == S::root);
}

TEST_CASE("the root of another conversation is lent even where that is all it kept") {
    const TokenIds ids = conversation();
    World world;
    world.entries = {entry(9, ids, {{CheckpointKind::root, kRoot}})};
    const PromptPlan plan = world.plan(branch(ids, kRoot + 1));
    CHECK(plan.reused == kRoot);
    CHECK(plan.source == S::borrowed);
    CHECK_FALSE(plan.restored);
    CHECK(plan.switched);
}

TEST_CASE("a pinned entry is borrowed even at its end") {
    const TokenIds ids = conversation();
    World world;
    world.entries = {entry(9, ids, usual_marks())};
    world.entries[0].pinned = true;
    const PromptPlan plan = world.plan(branch(ids, kLength));
    CHECK(plan.source == S::borrowed);
    CHECK_FALSE(plan.takes);
    CHECK(plan.restored);
}

TEST_CASE("another steering lends nothing and is the reason") {
    const TokenIds ids = conversation();
    World world;
    world.entries = {entry(9, ids, usual_marks(), {"calm", ""})};
    const PromptPlan plan = world.plan(branch(ids, kLength));
    CHECK(plan.reused == 0);
    CHECK(plan.miss == M::steering);
    CHECK(plan.common == kLength);
    CHECK(world.plan(branch(ids, kLength), {"calm", ""}).restored);
    // One of the same steering that shares as much is the better explanation.
    world.entries.push_back(entry(10, ids, {}, {}));
    const TokenIds inside = branch(ids, kLength - 5);
    CHECK(world.plan(inside).miss == M::rewritten);
}

TEST_CASE("another thinking level is the reason when only the head differs") {
    const TokenIds ids = conversation();
    World world;
    world.entries = {entry(9, ids, usual_marks(), {"", "low"})};
    TokenIds other_head{kOpen, kSystemWord, 91, 92, 93};
    other_head.insert(other_head.end(), ids.begin() + kRoot, ids.end());
    CHECK(world.plan(other_head, {"", "high"}).miss == M::level);
    CHECK(world.plan(other_head, {"", "low"}).miss == M::fresh);
}

TEST_CASE("a hybrid without a checkpoint before the change was rewritten") {
    const TokenIds ids = conversation();
    World world;
    world.entries = {entry(9, ids, {{CheckpointKind::turn, kLastTurn}})};
    const PromptPlan plan = world.plan(branch(ids, kLastTurn - 1));
    CHECK(plan.source == S::cold);
    CHECK(plan.miss == M::rewritten);
    CHECK(plan.common == kLastTurn - 1);
    CHECK(world.plan(cut(ids, kLastTurn - 1)).miss == M::none);  // known whole, no state before it
}

TEST_CASE("a lost conversation says how it was lost") {
    const TokenIds ids = conversation();
    const std::vector<std::pair<LossCause, M>> causes{
        {LossCause::evicted, M::evicted}, {LossCause::released, M::released},
        {LossCause::budget, M::budget},   {LossCause::floor, M::floor},
        {LossCause::invalid, M::invalid}, {LossCause::identity, M::identity}};
    const auto image = *entry(1, ids, usual_marks()).image;
    World world;
    for (const auto& [cause, miss] : causes) {
        world.stones = {tombstone_of(image, cause)};
        CHECK(world.plan(branch(ids, kLength)).miss == miss);
        CHECK(world.plan(branch(ids, kLength)).common == kLength);
        CHECK(world.plan(branch(ids, kFirst)).miss == miss);
        CHECK(world.plan(branch(ids, kFirst - 1)).miss == M::fresh);  // only the root
        CHECK(world.plan(branch(ids, kLength), {"calm", ""}).miss == M::fresh);
        CHECK(world.plan(branch(conversation(1), kLength)).miss == M::fresh);
    }
    // Of two, the one that would have given more; what is here and hits needs no reason.
    const auto shorter = *entry(2, cut(ids, kLastTurn + 1), usual_marks()).image;
    world.stones = {tombstone_of(image, LossCause::released),
                    tombstone_of(shorter, LossCause::evicted)};
    CHECK(world.plan(branch(ids, kLength)).miss == M::released);
    CHECK(world.plan(branch(ids, kLastTurn + 1)).miss == M::evicted);
    world.entries = {entry(3, ids, usual_marks())};
    CHECK(world.plan(branch(ids, kLength)).miss == M::none);
}

TEST_CASE("the request root decides what is only the root") {
    const TokenIds ids = conversation();
    World world;
    world.entries = {entry(9, ids, usual_marks())};
    const TokenIds prompt = branch(ids, kFirst + 1);
    CHECK(world.plan(prompt).restored);
    CHECK_FALSE(world.plan(prompt, {}, kFirst).restored);  // F lies behind the root's end now
}

TEST_CASE("what becomes of the live conversation") {
    const TokenIds ids = conversation();
    const auto marks = usual_marks();
    const TokenIds stranger = conversation(1);
    World world;
    world.anywhere = GENERATE(false, true);
    const auto live = [&](bool one_shot = false, bool incomplete = false) {
        return LiveView{ids, marks, marks_of(ids), {}, world.anywhere, one_shot, incomplete};
    };
    CHECK(world.plan(ids).outgoing == F::none);
    world.live = LiveView{};
    CHECK(world.plan(ids).outgoing == F::none);

    world.live = live();
    CHECK(world.plan(branch(ids, kLength)).outgoing == F::continues);
    CHECK(world.plan(branch(ids, kLastTurn + 1)).outgoing == F::continues);        // regenerate
    CHECK(world.plan(branch(ids, kSecondQuestion + 2)).outgoing == F::continues);  // last question
    CHECK(world.plan(branch(ids, kSecondQuestion + 1)).outgoing == F::continues);
    CHECK(world.plan(branch(ids, kSecondQuestion)).outgoing == F::park_if_free);
    CHECK(world.plan(branch(ids, kFirst + 1)).outgoing == F::park_if_free);
    const TokenIds from_root = joined({cut(ids, kRoot + 1), {90, 91}, assistant_head()});
    CHECK(world.plan(from_root).outgoing == F::park);  // a new chat
    CHECK(world.plan(stranger).outgoing == F::park);
    CHECK(world.plan(branch(ids, kLength), {"calm", ""}).outgoing == F::park);

    world.live = live(true);
    CHECK(world.plan(stranger).outgoing == F::one_shot);
    const PromptPlan off = plan_prompt({stranger, marks_of(stranger), {}}, live());
    CHECK(off.outgoing == F::dropped);
    CHECK(plan_prompt({ids, marks_of(ids), {}}, live()).outgoing == F::continues);
}

TEST_CASE("what is broken off goes back to its last checkpoint or goes") {
    const TokenIds ids = conversation();
    const TokenIds stranger = conversation(1);
    const auto marks = usual_marks();
    World world;
    world.live = LiveView{ids, marks, marks_of(ids), {}, false, false, true};
    CHECK(world.plan(stranger).outgoing == F::park);
    CHECK(world.plan(stranger).cut == kLastTurn);
    // Its end is no resume point.
    CHECK(world.plan(branch(ids, kLength)).reused == kLastTurn);
    world.live->checkpoints = {};
    CHECK(world.plan(stranger).outgoing == F::incomplete);
    CHECK(world.plan(branch(ids, kLength)).source == S::cold);
    // An attention-only conversation is good up to its last row.
    world.anywhere = true;
    world.live->resumes_anywhere = true;
    CHECK(world.plan(stranger).outgoing == F::park);
    CHECK_FALSE(world.plan(stranger).cut);
}

TEST_CASE("a live conversation that the incoming one holds whole is dropped") {
    const TokenIds ids = conversation();
    World world;
    world.entries = {entry(9, ids, usual_marks())};
    const TokenIds shorter = cut(ids, kFirst + 10);
    std::vector<CheckpointMark> marks{{CheckpointKind::root, kRoot},
                                      {CheckpointKind::turn, kFirst}};
    world.live = LiveView{shorter, marks, marks_of(shorter), {}};
    CHECK(world.plan(branch(ids, kLength)).outgoing == F::superseded);
    // Only a root in common, another steering, no checkpoint, or a branch: it stays.
    marks.pop_back();
    world.live->checkpoints = marks;
    CHECK(world.plan(branch(ids, kLength)).outgoing == F::park);
    const TokenIds branched = branch(ids, kFirst + 10);
    const auto later = std::vector<CheckpointMark>{{CheckpointKind::turn, kFirst + 12}};
    world.live = LiveView{branched, later, marks_of(branched), {}};
    CHECK(world.plan(branch(ids, kLength)).outgoing == F::park);
}

TEST_CASE("conversations without turns are used up at their deepest checkpoint or their end") {
    TokenIds ids;
    for (TokenId i = 0; i < 40; ++i) ids.push_back(100 + i);
    World world;
    world.entries = {entry(9, ids, {{CheckpointKind::interval, 20}})};
    world.anywhere = GENERATE(false, true);
    CHECK(world.plan(branch(ids, 40)).source == S::parked);
    CHECK(world.plan(branch(ids, 30)).source == S::parked_checkpoint);
    CHECK(world.plan(branch(ids, 20)).source == S::parked_checkpoint);
    CHECK(world.plan(branch(ids, 20)).restored);
    CHECK(world.plan(branch(ids, 19)).source == (world.anywhere ? S::borrowed : S::cold));
    world.entries = {entry(9, ids, {})};
    CHECK(world.plan(branch(ids, 39)).source == (world.anywhere ? S::borrowed : S::cold));
}

}  // namespace strata::tests
