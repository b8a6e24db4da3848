// START HERE. The engine: one model, one live conversation, one request at a time.
//
//   generate()   the story of a request: plan, resume, read the prompt, write the answer. Runs on
//   the
//                caller's thread and speaks through EngineEvents while it works.
//   cancel()     from any thread: ends a request within one prompt chunk or one token; a chunk that
//                takes long is given up.
//   idle_step()  between requests, when nothing has come for a while: gives back what only ended
//                requests needed.
//
// It owns the live session and the order of things; what to reuse is core/prompt_plan's word, bytes
// are state/'s, computing is model/'s. It knows no line protocol: engine/outcome_to_done.cpp
// translates.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "strata/core/checkpoint_rule.hpp"
#include "strata/core/chunk_size.hpp"
#include "strata/core/conversation_cache.hpp"
#include "strata/core/conversation_event.hpp"
#include "strata/core/conversation_pressure.hpp"
#include "strata/core/host_memory.hpp"
#include "strata/core/prompt_plan.hpp"
#include "strata/core/result.hpp"
#include "strata/core/stop_board.hpp"
#include "strata/core/types.hpp"
#include "strata/model/runner.hpp"
#include "strata/model/sampling.hpp"
#include "strata/state/host_segments.hpp"

namespace strata {

using TimePoint = std::chrono::steady_clock::time_point;
using Clock = std::function<TimePoint()>;

// The conversation cache: what it may hold, and when it gives back.
struct CacheSettings {
    CacheLimits cache;
    std::uint64_t hysteresis_bytes = 0;            // STRATA_CONV_PRESSURE_HYST_MIB
    std::uint64_t device_pool_bytes = UINT64_MAX;  // in which parked ones stay on the device
    std::chrono::milliseconds pressure_period{0};  // 0: checks before requests only
    bool verify = false;  // compare each restored conversation with its snapshot
};

// How the cache asks the machine for its memory; called only while it is on.
struct HostMemory {
    std::function<MemoryReading()> read;
    std::function<void()> settle;  // gives the heap's free memory back to the OS
    std::function<void()> pause;   // some milliseconds, for the OS to count what was given back
};

// What the machine lends to an engine; outlives it.
struct EngineHost {
    HostSegments* segments = nullptr;
    HostMemory memory;
};

struct EngineLimits {
    Position context_tokens = 0;  // prompt + answer, of one request
    CheckpointLimits checkpoints;
    ChunkLimits chunks;
    CacheSettings cache;
    std::int64_t memory_limit_mib = 0;  // for reports; HostMemory::read knows it
    TokenId turn_open = -1;             // overrides the vocabulary's own; -1 = the vocabulary's
};

struct GenerateRequest {
    std::uint64_t id = 0;
    TokenIds prompt;
    std::int64_t max_new = 0;  // 0 reads the prompt and keeps the state
    SamplingSettings sampling;
    TokenIds stop_ids;             // besides the vocabulary's end ids
    bool ignore_eos = false;       // the vocabulary's end ids are written like any other token
    std::optional<Position> root;  // R; absent = found by turn-open tokens
    Position pin = 0;              // keep a checkpoint here; 0 = none
    bool keep = true;  // false: a one-shot, which leaves only what was there before, and the root
    Identity identity;
    std::string label;
    std::int32_t logprobs = 0;  // how many alternatives to report; 0 = no report
    bool hash = false;
    TimePoint received{};  // when its line was read
};

enum class RefusalCode : std::uint8_t {
    bad_field,
    bad_token,
    too_long,
    out_of_memory,
    restore_failed,  // a conversation came back half: the engine must end
    device_lost,     // the device failed: the engine must end
};
struct RequestRefusal {
    RefusalCode code = RefusalCode::bad_field;
    std::string text;  // names the field, its value and what is allowed
};

// What happens to conversations beside the live one, in its order.
class ConversationEvents {
  public:
    virtual ~ConversationEvents() = default;
    virtual void conversation(const ConversationEvent& event) = 0;
    virtual void pressure(const PressureReport& report, double ms) = 0;
};

// What a request says while it runs, in this order: resumed, then progress after each chunk, then
// tokens. Called on generate()'s thread.
class EngineEvents : public ConversationEvents {
  public:
    // `conversation`: the number of the one that is live from here on.
    virtual void resumed(const PromptPlan& plan, std::uint64_t conversation) = 0;
    // `position`: prompt tokens that are in the state now. `ms` since the request began. Also in
    // the middle of a chunk that takes long: the position is that of the last whole one then.
    virtual void progress(Position position, double ms, double tokens_per_s) = 0;
    virtual void token(TokenId id, const std::optional<TokenReport>& report) = 0;
    // Between two chunks, between two tokens, and now and then inside a long chunk: the place for
    // signs of life. Of the engine it may call cancel(), and what is said of the parked
    // conversations below.
    virtual void step() = 0;
};

enum class FinishReason : std::uint8_t { stop, length, cancel, error };

// The conversation cache after a request, and what it did for it.
struct CacheFigures {
    bool enabled = false;
    std::int64_t parked = 0;
    std::uint64_t bytes = 0;
    std::uint64_t retained_bytes = 0;  // part of bytes
    CacheCounters counters;
    std::optional<std::uint64_t> available_bytes;  // RAM, by the last reading
    std::optional<bool> parked_now;                // absent: nothing was to be parked
    std::optional<ParkSkip> park_skip;
    std::optional<double> park_ms;
    std::optional<double> restore_ms;
    std::optional<std::uint64_t> restored_bytes;  // from the host
};

struct Outcome {
    std::int64_t generated = 0;
    std::int64_t prompt_tokens = 0;
    std::int64_t prompt_read = 0;
    double queue_ms = 0;   // from the line read to generate()
    double prompt_ms = 0;  // from the start of reading to the first token
    double decode_ms = 0;
    FinishReason finish = FinishReason::stop;
    std::string fault;  // with FinishReason::error: what happened, in words
    PromptPlan plan;
    bool planned = false;  // false: cancelled before anything was planned
    std::optional<TokenId> stop_id;
    std::uint64_t conversation = 0;  // counted from 1, kept while the conversation continues
    std::int64_t checkpoints = 0;    // held by the live conversation, besides the tail
    CacheFigures cache;
    std::string logits_sha256;  // with hash
    std::string state_sha256;
};

class Engine {
  public:
    virtual ~Engine() = default;

    // Ends that request (absent: the one that runs or waits first); an unknown id is ignored. Any
    // thread.
    virtual void cancel(std::optional<std::uint64_t> id) = 0;

    // A refusal changes nothing; no event and no Outcome come with it. (One exception: memory that
    // ends in the middle of a request refuses it late and loses the live conversation.) A request
    // that cancel() reached ends with FinishReason::cancel, one whose forward pass failed with
    // FinishReason::error: then the live conversation is lost, and the next request starts from
    // nothing. A device that failed (DeviceFault) is a refusal of its own, and the engine's end;
    // from every other call here it is thrown.
    virtual Result<Outcome, RequestRefusal> generate(const GenerateRequest& request,
                                                     EngineEvents& events) = 0;

    // How long until idle_step() is due, when no request comes; absent: it is never.
    virtual std::optional<std::chrono::milliseconds> idle_wait() const = 0;
    // Gives back what only ended requests needed; with the conversation cache on, one look at RAM.
    virtual void idle_step(ConversationEvents& events) = 0;

    // The parked conversations, and what a person does with them; also from EngineEvents::step().
    // False: there is no such entry.
    virtual const ConversationCache& conversations() const = 0;
    // A conversation is on its way into host memory or back: the next five must wait.
    virtual bool moving() const = 0;
    virtual bool pin(EntryId entry) = 0;
    virtual bool unpin(EntryId entry, ConversationEvents& events) = 0;
    virtual bool drop(EntryId entry, ConversationEvents& events) = 0;
    virtual void clear(ConversationEvents& events) = 0;
    // One pressure check now. Of a command it is told also when nothing was below the floor.
    virtual void check_memory(PressureWhere where, ConversationEvents& events) = 0;

    // Of parked conversations that are in the books: what is still on its way into host memory.
    virtual std::uint64_t parking_bytes() const { return 0; }
    // From here on what is parked comes back from host memory, though the device may hold it still.
    virtual void leave_device() {}

    virtual const EngineLimits& limits() const = 0;
    virtual Runner& runner() = 0;
};

// Takes the runner over. Measures one forward pass of the model, so that the first request's chunks
// have the right size. Refuses limits that contradict the model, and a device without memory for a
// state. `board` is shared with whoever reads the requests' lines; `host`: what it is lent.
Result<std::unique_ptr<Engine>> make_engine(std::unique_ptr<Runner> runner,
                                            const EngineLimits& limits,
                                            std::shared_ptr<StopBoard> board, EngineHost host,
                                            Clock clock = &std::chrono::steady_clock::now);

}  // namespace strata
