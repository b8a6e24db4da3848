// See engine_stage.hpp.
#include "engine_stage.hpp"

#include <utility>

namespace strata::tests {

namespace {

std::string source_word(ResumeSource source) {
    switch (source) {
        case ResumeSource::cold:
            return "cold";
        case ResumeSource::live:
            return "live";
        case ResumeSource::turn:
            return "turn";
        case ResumeSource::root:
            return "root";
        case ResumeSource::interval:
            return "interval";
        case ResumeSource::tail:
            return "tail";
        case ResumeSource::pin:
            return "pin";
        case ResumeSource::parked:
            return "parked";
        case ResumeSource::parked_checkpoint:
            return "parked_checkpoint";
        case ResumeSource::borrowed:
            return "borrowed";
        case ResumeSource::device:
            return "device";
    }
    return "?";
}

class Recorder : public EngineEvents {
  public:
    Recorder(Told& told, const EngineStage& stage) : told_(told), stage_(stage) {}
    void resumed(const PromptPlan& plan, std::uint64_t conversation) override {
        told_.resumed_as = conversation;
        add("resume " + std::to_string(plan.reused) + " " + source_word(plan.source));
    }
    void progress(Position position, double, double) override {
        add("read " + std::to_string(position));
    }
    void token(TokenId id, const std::optional<TokenReport>& report) override {
        told_.answer.push_back(id);
        if (report) told_.reports.push_back(*report);
        add("token " + std::to_string(id));
    }
    void step() override {
        if (stage_.on_step) stage_.on_step();
    }
    void conversation(const ConversationEvent& event) override {
        told_.cache.push_back(event);
        if (stage_.on_event) stage_.on_event("conversation");
    }
    void pressure(const PressureReport& report, double) override {
        told_.pressure.push_back(report);
    }

  private:
    void add(std::string event) {
        told_.events.push_back(std::move(event));
        if (stage_.on_event) stage_.on_event(told_.events.back());
    }

    Told& told_;
    const EngineStage& stage_;
};

}  // namespace

TokenIds turn(TokenId role, std::int64_t words, std::uint64_t seed) {
    TokenIds ids{kFakeTurnOpen, role};
    std::uint64_t x = seed * 2654435761U + 12345;
    for (std::int64_t i = 0; i < words; ++i) {
        x = x * 6364136223846793005ULL + 1442695040888963407ULL;
        ids.push_back(kFakeFirstText + static_cast<TokenId>((x >> 33) % 80));
    }
    ids.push_back(kFakeEnd);
    return ids;
}

TokenIds joined(std::initializer_list<TokenIds> parts) {
    TokenIds ids;
    for (const TokenIds& part : parts) ids.insert(ids.end(), part.begin(), part.end());
    return ids;
}

TokenIds assistant_opens() {
    return {kFakeTurnOpen, kFakeAssistant};
}

TokenIds follow_up(const TokenIds& before, const TokenIds& answer, std::uint64_t seed) {
    return joined({before, answer, {kFakeEnd}, turn(kFakeUser, 8, seed), assistant_opens()});
}

EngineLimits EngineStage::default_limits() {
    EngineLimits limits;
    limits.context_tokens = 4096;
    limits.checkpoints = {6, 0, 8};
    limits.chunks = {64, 0};
    return limits;
}

EngineStage::EngineStage(const FakeShape& shape, EngineLimits limits)
    : device(std::make_shared<FakeDevice>()),
      board(std::make_shared<StopBoard>()),
      now(std::make_shared<TimePoint>(std::chrono::hours(1))) {
    auto fake = std::make_unique<FakeRunner>(shape, device);
    runner = fake.get();
    engine =
        make_engine(std::move(fake), limits, board, host(), [time = now] { return *time; }).value();
}

EngineHost EngineStage::host() {
    HostMemory memory;
    memory.read = [this] {
        ++readings;
        return MemoryReading{available_bytes, MemoryBound::host};
    };
    memory.settle = [this] { ++settled; };
    memory.pause = [this] {
        ++pauses;
        if (on_pause) on_pause();
    };
    return {&segments, std::move(memory)};
}

GenerateRequest EngineStage::request(const TokenIds& prompt, std::int64_t max_new) {
    GenerateRequest request;
    request.id = 1;
    request.prompt = prompt;
    request.max_new = max_new;
    return request;
}

Told EngineStage::run(GenerateRequest request) {
    Told told;
    Recorder recorder(told, *this);
    auto result = engine->generate(request, recorder);
    if (result) {
        told.outcome = *result;
    } else {
        told.refusal = result.error();
    }
    return told;
}

Told EngineStage::run(const TokenIds& prompt, std::int64_t max_new) {
    return run(request(prompt, max_new));
}

}  // namespace strata::tests
