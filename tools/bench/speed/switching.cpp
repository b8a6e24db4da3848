#include "tools/bench/speed/switching.hpp"

#include <chrono>
#include <cstdio>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "engine/host/host_memory_reader.hpp"
#include "engine/host/mapped_segments.hpp"
#include "strata/engine.hpp"
#include "tools/bench/speed/passes.hpp"

namespace strata::bench {
namespace {

constexpr std::int64_t kTurnsMax = 4;  // of one of the two in a round
constexpr std::uint64_t kImagesMax = 3;
constexpr std::uint64_t kSpareBytes = std::uint64_t{1} << 30;  // states of checkpoints

double ms_since(TimePoint began) {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - began)
        .count();
}

// What a request told.
class Listener : public EngineEvents {
  public:
    void resumed(const PromptPlan&, std::uint64_t) override {}
    void progress(Position, double, double) override {}
    void token(TokenId id, const std::optional<TokenReport>&) override {
        if (!written) first_token_ms = ms_since(began);
        written = id;
    }
    void step() override {}
    void conversation(const ConversationEvent& event) override {
        if (event.step == ConversationStep::park) parked_bytes = event.bytes;
        if (event.step == ConversationStep::restore) restored_bytes = event.bytes;
    }
    void pressure(const PressureReport&, double) override {}

    TimePoint began = std::chrono::steady_clock::now();
    double first_token_ms = 0;
    std::optional<TokenId> written;
    std::optional<std::uint64_t> parked_bytes;
    std::optional<std::uint64_t> restored_bytes;
};

struct Turn {
    Outcome outcome;
    Listener told;
};

// The ids of one conversation as its client knows them.
struct Chat {
    TokenIds ids;
    std::uint64_t seed = 0;
};

class Stage {
  public:
    static Result<std::unique_ptr<Stage>> open(std::unique_ptr<Runner> runner, std::int64_t tokens,
                                               std::int64_t chunk, std::int64_t repeat) {
        auto stage = std::make_unique<Stage>();
        const Geometry& geometry = runner->geometry();
        const auto rows = switching_rows(tokens, repeat);
        EngineLimits limits;
        limits.context_tokens = rows;
        limits.chunks = {chunk, 0};
        const auto image = static_cast<std::uint64_t>(rows) * geometry.kv_bytes_per_token();
        const auto states =
            static_cast<std::uint64_t>(limits.checkpoints.kept + 2) * geometry.state_bytes();
        limits.cache.cache = {kImagesMax * (image + states) + kSpareBytes, kImagesMax, 0,
                              limits.checkpoints.kept};
        Stage& self = *stage;
        const EngineHost host{&self.segments_,
                              {[&self] { return self.memory_.sample_host_memory(); }, &trim_heap,
                               [] { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }}};
        auto engine = make_engine(std::move(runner), limits, self.board_, host);
        if (!engine) return engine.failure();
        self.engine_ = std::move(engine).value();
        return stage;
    }

    std::int64_t vocabulary() { return engine_->runner().geometry().vocabulary; }
    // All that was parked is in host memory.
    void await_parking() {
        while (engine_->parking_bytes() > 0) {
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
    }
    void leave_device() { engine_->leave_device(); }
    bool device_keeps() { return engine_->runner().device().copies_aside(); }

    // The chat's next turn: its ids so far, and so many new ones.
    Result<Turn> turn(Chat& chat, std::int64_t new_tokens) {
        const TokenIds more = some_ids(new_tokens, vocabulary(), ++chat.seed);
        chat.ids.insert(chat.ids.end(), more.begin(), more.end());
        GenerateRequest request;
        request.id = ++requests_;
        request.prompt = chat.ids;
        request.max_new = 1;
        request.ignore_eos = true;
        request.root = 0;
        Turn out;
        out.told.began = std::chrono::steady_clock::now();
        auto outcome = engine_->generate(request, out.told);
        if (!outcome) return refuse(outcome.error().text);
        out.outcome = std::move(outcome).value();
        if (!out.told.written) {
            return refuse("no token was written: " + out.outcome.fault);
        }
        chat.ids.push_back(*out.told.written);
        return out;
    }

  private:
    MappedSegments segments_;
    HostMemoryReader memory_{HostMemorySources{}};
    std::shared_ptr<StopBoard> board_ = std::make_shared<StopBoard>();
    std::unique_ptr<Engine> engine_;
    std::uint64_t requests_ = 0;
};

void add(Series& series, std::int64_t tokens, double ms, std::optional<std::uint64_t> bytes = {}) {
    series.tokens = tokens;
    series.milliseconds.push_back(ms);
    if (bytes) series.bytes.push_back(static_cast<double>(*bytes));
}

using Tell = std::function<void(const std::string&)>;

// The turns, one after the other.
class Play {
  public:
    Play(Stage& stage, std::int64_t tokens, const Tell& tell)
        : stage_(stage), tokens_(tokens), tell_(tell) {}

    Status<> begin(SwitchFigures& figures);
    Status<> round(SwitchFigures& figures);
    Status<> round_kept(SwitchFigures& figures);

  private:
    Status<> read(Chat& chat, SwitchFigures& figures);
    Status<> go_on(Chat& chat, SwitchFigures& figures);
    Status<> come_back(Chat& chat, Series& park, Series& first_token, SwitchFigures& figures);
    void tell(const char* what, const Turn& turn) const;

    Stage& stage_;
    std::int64_t tokens_;
    const Tell& tell_;
    Chat a_{{}, std::uint64_t{1} << 32};
    Chat b_;
};

void Play::tell(const char* what, const Turn& turn) const {
    if (!tell_) return;
    const CacheFigures& cache = turn.outcome.cache;
    char line[200];
    std::snprintf(
        line, sizeof line,
        "%-14s first token %9.2f ms: park %8.2f (%5.0f MB), restore %8.2f (%5.0f MB), "
        "read %9.2f",
        what, turn.told.first_token_ms, cache.park_ms.value_or(0),
        static_cast<double>(turn.told.parked_bytes.value_or(0)) / 1e6, cache.restore_ms.value_or(0),
        static_cast<double>(turn.told.restored_bytes.value_or(0)) / 1e6, turn.outcome.prompt_ms);
    tell_(line);
}

Status<> Play::read(Chat& chat, SwitchFigures& figures) {
    auto turn = stage_.turn(chat, tokens_);
    if (!turn) return turn.failure();
    tell("read all", *turn);
    add(figures.read, tokens_, turn->told.first_token_ms);
    if (const auto& ms = turn->outcome.cache.park_ms) {
        add(figures.park, tokens_, *ms, turn->told.parked_bytes);
    }
    stage_.await_parking();
    return Done{};
}

Status<> Play::go_on(Chat& chat, SwitchFigures& figures) {
    auto turn = stage_.turn(chat, kNewTokens - 1);
    if (!turn) return turn.failure();
    if (turn->outcome.plan.switched) return refuse("a conversation that is live was not continued");
    tell("continuation", *turn);
    add(figures.continued, tokens_, turn->told.first_token_ms);
    stage_.await_parking();
    return Done{};
}

// A turn of a conversation that is not live: it must come back whole.
Status<> Play::come_back(Chat& chat, Series& park, Series& first_token, SwitchFigures& figures) {
    // The token that was written last is read with the new ones.
    const auto known = std::ssize(chat.ids) - 1;
    const TimePoint began = std::chrono::steady_clock::now();
    auto turn = stage_.turn(chat, kNewTokens - 1);
    if (!turn) return turn.failure();
    const Outcome& outcome = turn->outcome;
    const CacheFigures& cache = outcome.cache;
    if (!outcome.plan.restored || outcome.plan.reused != known || !cache.restore_ms) {
        return refuse("a conversation of " + std::to_string(known) +
                      " tokens did not come back whole: " + std::to_string(outcome.plan.reused) +
                      " tokens were reused");
    }
    if (!cache.park_ms) return refuse("the conversation before it was not parked");
    stage_.await_parking();
    const bool whole = &park == &figures.park;
    if (whole) add(figures.behind, known, ms_since(began), turn->told.parked_bytes);
    tell("back", *turn);
    const double first = turn->told.first_token_ms;
    add(park, known, *cache.park_ms, turn->told.parked_bytes);
    add(first_token, known, first);
    if (&first_token != &figures.after) return Done{};
    add(figures.restore, known, *cache.restore_ms, turn->told.restored_bytes);
    add(figures.check, known, first - *cache.park_ms - *cache.restore_ms - outcome.prompt_ms);
    return Done{};
}

Status<> Play::begin(SwitchFigures& figures) {
    SwitchFigures unmeasured;  // the first of its kind
    if (auto done = read(b_, figures); !done) return done;
    if (auto done = read(a_, figures); !done) return done;
    if (auto done = go_on(a_, unmeasured); !done) return done;
    stage_.leave_device();
    return come_back(b_, figures.park, unmeasured.after, figures);
}

Status<> Play::round(SwitchFigures& figures) {
    stage_.leave_device();
    auto done = come_back(a_, figures.park_again, figures.after, figures);
    if (done) done = go_on(a_, figures);
    if (!done) return done;
    stage_.leave_device();
    return come_back(b_, figures.park_again, figures.after, figures);
}

Status<> Play::round_kept(SwitchFigures& figures) {
    auto done = come_back(a_, figures.park_again, figures.kept, figures);
    return done ? come_back(b_, figures.park_again, figures.kept, figures) : done;
}

}  // namespace

double SwitchFigures::switch_ms() const {
    return median(after.milliseconds) - median(continued.milliseconds);
}

double SwitchFigures::behind_restore_ms() const {
    return median(after.milliseconds) - median(restore.milliseconds);
}

std::int64_t switching_rows(std::int64_t tokens, std::int64_t repeat) {
    return tokens + (1 + (repeat + 1) * kTurnsMax) * kNewTokens;
}

Result<SwitchFigures> measure_switching(std::unique_ptr<Runner> runner, std::int64_t tokens,
                                        std::int64_t chunk, std::int64_t repeat,
                                        const std::function<void(const std::string&)>& tell) {
    auto stage = Stage::open(std::move(runner), tokens, chunk, repeat);
    if (!stage) return stage.failure();
    Play play(**stage, tokens, tell);
    SwitchFigures unmeasured;
    SwitchFigures figures;
    if (auto played = play.begin(figures); !played) return played.failure();
    for (std::int64_t round = 0; round <= repeat; ++round) {
        auto played = play.round(round == 0 ? unmeasured : figures);
        if (!played) return played.failure();
    }
    for (std::int64_t round = 0; (*stage)->device_keeps() && round <= repeat; ++round) {
        auto played = play.round_kept(round == 0 ? unmeasured : figures);
        if (!played) return played.failure();
    }
    return figures;
}

void print_switching(const SwitchFigures& figures) {
    std::printf("%-17s %7s %10s %10s %14s %8s\n", "cache", "tokens", "median ms", "least ms",
                "bytes", "GB/s");
    for (const Series* row : figures.rows()) {
        if (row->milliseconds.empty()) continue;
        const double ms = median(row->milliseconds);
        std::printf("%-17s %7lld %10.2f %10.2f", row->name, static_cast<long long>(row->tokens), ms,
                    least(row->milliseconds));
        if (!row->bytes.empty() && ms > 0) {
            const double bytes = median(row->bytes);
            std::printf(" %14.0f %8.2f", bytes, bytes / ms / 1e6);
        }
        std::printf("\n");
    }
    std::printf(
        "a switch costs %.2f ms over a continuation; the first token comes %.2f ms after the "
        "restore\n",
        figures.switch_ms(), figures.behind_restore_ms());
}

std::string switching_json(const SwitchFigures& figures) {
    std::string out = "{\"new_tokens\": " + std::to_string(kNewTokens) +
                      ", \"switch_ms\": " + std::to_string(figures.switch_ms()) +
                      ", \"behind_restore_ms\": " + std::to_string(figures.behind_restore_ms()) +
                      ", \"rows\": [";
    bool first = true;
    for (const Series* row : figures.rows()) {
        if (row->milliseconds.empty()) continue;
        out += first ? "\n  " : ",\n  ";
        first = false;
        out += "{\"row\": \"" + std::string(row->name) +
               "\", \"tokens\": " + std::to_string(row->tokens) +
               ", \"ms_median\": " + std::to_string(median(row->milliseconds)) +
               ", \"ms\": " + numbers_json(row->milliseconds) +
               ", \"bytes\": " + numbers_json(row->bytes) + "}";
    }
    return out + "\n ]}";
}

}  // namespace strata::bench
