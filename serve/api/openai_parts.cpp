// Key order is part of the shapes.
#include "serve/api/openai_parts.hpp"

namespace strata::serve {

namespace {

double rate(std::int64_t tokens, double ms) {
    return ms > 0 ? static_cast<double>(tokens) * 1000.0 / ms : 0.0;
}

double each(std::int64_t tokens, double ms) {
    return tokens > 0 ? ms / static_cast<double>(tokens) : 0.0;
}

}  // namespace

std::string_view finish_reason(AnswerFinish finish) {
    return finish == AnswerFinish::length ? "length" : "stop";
}

void write_usage(JsonWriter& json, const Usage& usage) {
    json.key("usage").begin_object();
    json.field("prompt_tokens", usage.prompt_tokens);
    json.field("completion_tokens", usage.completion_tokens);
    json.field("total_tokens", usage.prompt_tokens + usage.completion_tokens);
    json.key("prompt_tokens_details").begin_object();
    json.field("cached_tokens", usage.cached_tokens).end_object();
    json.key("completion_tokens_details").begin_object();
    json.field("reasoning_tokens", usage.reasoning_tokens).end_object();
    json.end_object();
}

// The names that llama.cpp's benchmark tools read.
void write_timings(JsonWriter& json, const Timings& timings) {
    json.key("timings").begin_object();
    json.field("cache_n", timings.reused_tokens);
    json.field("prompt_n", timings.read_tokens);
    json.field("prompt_ms", timings.read_ms);
    json.field("prompt_per_token_ms", each(timings.read_tokens, timings.read_ms));
    json.field("prompt_per_second", rate(timings.read_tokens, timings.read_ms));
    json.field("predicted_n", timings.written_tokens);
    json.field("predicted_ms", timings.write_ms);
    json.field("predicted_per_token_ms", each(timings.written_tokens, timings.write_ms));
    json.field("predicted_per_second", rate(timings.written_tokens, timings.write_ms));
    json.end_object();
}

void write_head(JsonWriter& json, const OpenAiIdentity& identity, std::string_view object) {
    json.field("id", identity.id);
    json.field("object", object);
    json.field("created", identity.created);
    json.field("model", identity.model);
}

void send_event(ReplySink& sink, std::string_view json) {
    std::string frame = "data: ";
    frame += json;
    frame += "\n\n";
    sink.events(frame);
}

}  // namespace strata::serve
