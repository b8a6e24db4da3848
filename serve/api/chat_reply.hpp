// An answer as it is written, in the server's own words, and the interface behind which a dialect
// turns it into bytes. Owns no JSON and no HTTP.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/api_error.hpp"
#include "serve/api/exchange.hpp"

namespace strata::serve {

enum class AnswerFinish : std::uint8_t { stop, length, cancel, error };
std::string_view word(AnswerFinish finish);

struct TokenProbability {
    std::string bytes;                  // of the token; may end inside a UTF-8 sequence
    double logprob = 0;                 // natural, before sampling
    std::vector<TokenProbability> top;  // most probable first
};

// What became showable with one or more tokens.
struct ReplyDelta {
    std::string reasoning;
    std::string answer;
    std::vector<TokenProbability> logprobs;
    bool empty() const { return reasoning.empty() && answer.empty() && logprobs.empty(); }
};

struct Usage {
    std::int64_t prompt_tokens = 0;
    std::int64_t cached_tokens = 0;  // of the prompt, not read again
    std::int64_t completion_tokens = 0;
    std::int64_t reasoning_tokens = 0;  // of the completion
};

struct Timings {
    std::int64_t reused_tokens = 0;
    std::int64_t read_tokens = 0;
    double read_ms = 0;
    std::int64_t written_tokens = 0;
    double write_ms = 0;
};

// How far the prompt is read.
struct PromptProgress {
    std::int64_t prompt_tokens = 0;
    std::int64_t reused_tokens = 0;
    std::int64_t processed_tokens = 0;  // the reused ones included
    double ms = 0;                      // since the engine began with the request
};

struct ReplyEnd {
    AnswerFinish finish = AnswerFinish::stop;
    std::string stop_string;  // the one that was met; "" = none
    Usage usage;
    Timings timings;
};

// One dialect's way to write one answer. begin, then deltas, then end; fail may come at any time
// and is the last call.
class ReplyWriter {
  public:
    virtual ~ReplyWriter() = default;
    virtual void begin() = 0;  // the request is in the engine's queue
    // Comes before the first delta.
    virtual void progress(const PromptProgress&) {}
    virtual void delta(const ReplyDelta& delta) = 0;
    virtual void end(const ReplyEnd& end) = 0;
    virtual void fail(const ApiError& error) = 0;
    virtual std::string keep_alive() = 0;
};

}  // namespace strata::serve
