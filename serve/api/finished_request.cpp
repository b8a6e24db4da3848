// The one line that a request leaves in the log.
#include "serve/api/finished_request.hpp"

#include <algorithm>
#include <cmath>

namespace strata::serve {

namespace {

std::string rounded(double value) {
    return std::to_string(std::llround(value));
}

std::string one_decimal(double value) {
    const long long tenths = std::llround(value * 10);
    return std::to_string(tenths / 10) + "." + std::to_string(std::llabs(tenths % 10));
}

// A last pass that has not said DONE yet, or never will, has written tokens beyond those of `done`.
bool goes_on(const FinishedRequest& request) {
    return request.done && request.output_tokens > request.done->generated;
}

void add_done(std::string& line, const FinishedRequest& request) {
    const protocol::DoneLine& done = *request.done;
    line += " = " + std::to_string(done.reused) + " reused + " + std::to_string(done.prompt_read) +
            " read";
    line += ", output " + std::to_string(std::max(done.generated, request.output_tokens));
    if (done.decode_ms > 0 && !goes_on(request)) {
        line += " at " +
                one_decimal(static_cast<double>(done.generated) * 1000.0 / done.decode_ms) +
                " tok/s";
    }
    if (done.cache_fields && done.cache_fields->switched) {
        line += done.cache_fields->restored ? ", switch: hit" : ", switch: miss";
    }
}

}  // namespace

std::string_view word(AnswerFinish finish) {
    switch (finish) {
        case AnswerFinish::stop:
            return "stop";
        case AnswerFinish::length:
            return "length";
        case AnswerFinish::cancel:
            return "cancel";
        case AnswerFinish::error:
            return "error";
    }
    return "error";
}

std::string summary_line(const FinishedRequest& request) {
    std::string line = request.request_id + " prompt " + std::to_string(request.prompt_tokens);
    if (request.done) {
        add_done(line, request);
    } else {
        line += ", output " + std::to_string(request.output_tokens);
    }
    if (request.ttft_ms) line += ", first token " + rounded(*request.ttft_ms) + " ms";
    if (request.queue_ms && *request.queue_ms >= 1) {
        line += ", queued " + rounded(*request.queue_ms) + " ms";
    }
    line += ", total " + rounded(request.duration_ms) + " ms, " + std::string(word(request.finish));
    if (!request.failure.empty()) line += " (" + request.failure + ")";
    return line;
}

void write_fields(JsonWriter& json, const FinishedRequest& request) {
    json.field("request_id", request.request_id).field("finish", word(request.finish));
    json.field("prompt_tokens", request.prompt_tokens);
    json.field("output_tokens", request.output_tokens);
    if (request.done) {
        json.field("reused", request.done->reused).field("read", request.done->prompt_read);
        json.field("prompt_ms", request.done->prompt_ms);
        if (!goes_on(request)) json.field("decode_ms", request.done->decode_ms);
        if (request.done->cache_fields) {
            json.field("switched", request.done->cache_fields->switched);
            json.field("restored", request.done->cache_fields->restored);
        }
    }
    if (request.queue_ms) json.field("queue_ms", *request.queue_ms);
    if (request.ttft_ms) json.field("ttft_ms", *request.ttft_ms);
    json.field("duration_ms", request.duration_ms);
    if (!request.failure.empty()) json.field("failure", request.failure);
}

}  // namespace strata::serve
