// What is remembered of a request when it ended, for the log line and the history; values only.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "protocol/done_line.hpp"
#include "serve/api/chat_reply.hpp"
#include "serve/api/json_writer.hpp"
#include "serve/supervisor/engine_client.hpp"

namespace strata::serve {

struct FinishedRequest {
    std::string request_id;
    std::chrono::system_clock::time_point began;
    double duration_ms = 0;  // from the whole body to the end
    // From the whole body to holding the engine, or to leaving the queue; none: it was never in it.
    std::optional<double> queue_ms;
    std::optional<double> ttft_ms;  // from the whole body to the first token
    AnswerFinish finish = AnswerFinish::error;
    std::string failure;             // in words; "" = none
    std::string refusal;             // type of the error when the engine was never held; "" = none
    std::int64_t prompt_tokens = 0;  // as rendered; 0 when it did not come that far
    std::int64_t prompt_had = 0;     // of them that the engine had, as its lines told
    std::int64_t prompt_reused = 0;  // of those that were not read again
    std::int64_t output_tokens = 0;  // that came out, also of a cancelled request
    std::string prompt_text;         // these two only with --log-prompts
    std::string answer_text;
    std::string first_words;                 // only with --show-prompts
    std::optional<Ticket> ticket;            // of the first pass; none: it never held the engine
    std::optional<Ticket> open;              // it still holds the engine under this one
    int passes = 0;                          // of the engine that said DONE; 2 at most
    std::optional<protocol::DoneLine> done;  // of all passes; none when the engine said none
};

// One line for the log: prompt = reused + read tokens, output, TTFT, speed, switch or hit, finish.
std::string summary_line(const FinishedRequest& request);
// The same as keys of the open object: request_id, finish, prompt_tokens, reused ...; what is not
// known is left out.
void write_fields(JsonWriter& json, const FinishedRequest& request);

}  // namespace strata::serve
