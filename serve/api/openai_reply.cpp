// Chunk and body of a chat completion. Key order and explicit nulls are part of the shape: clients
// have hung on a missing finish_reason.
#include "serve/api/openai_reply.hpp"

#include <utility>

#include "serve/api/json_writer.hpp"
#include "serve/api/openai_parts.hpp"

namespace strata::serve {

namespace {

void write_token(JsonWriter& json, const TokenProbability& token) {
    json.field("token", token.bytes);
    json.key("bytes").begin_array();
    for (const char byte : token.bytes) json.integer(static_cast<unsigned char>(byte));
    json.end_array();
    json.field("logprob", token.logprob, kLogprobDecimals);
}

void write_logprobs(JsonWriter& json, const std::vector<TokenProbability>& tokens) {
    json.begin_object().key("content").begin_array();
    for (const TokenProbability& token : tokens) {
        json.begin_object();
        write_token(json, token);
        json.key("top_logprobs").begin_array();
        for (const TokenProbability& other : token.top) {
            json.begin_object();
            write_token(json, other);
            json.end_object();
        }
        json.end_array().end_object();
    }
    json.end_array().key("refusal").null().end_object();
}

class StreamWriter final : public ReplyWriter {
  public:
    StreamWriter(const ChatRequest& request, OpenAiIdentity identity,
                 std::shared_ptr<ReplySink> sink)
        : identity_(std::move(identity)),
          sink_(std::move(sink)),
          include_usage_(request.include_usage),
          return_progress_(request.return_progress),
          logprobs_(request.logprobs) {}

    void begin() override {
        sink_->begin_events();
        JsonWriter json = open_chunk();
        json.field("role", "assistant").field("content", "");
        send_event(*sink_, close_delta(std::move(json), nullptr));
    }

    // The names that llama.cpp's clients read.
    void progress(const PromptProgress& progress) override {
        if (!return_progress_) return;
        JsonWriter json = open_chunk();
        json.end_object();
        if (logprobs_) json.key("logprobs").null();
        json.key("finish_reason").null();
        json.end_object().end_array();
        json.key("prompt_progress").begin_object();
        json.field("total", progress.prompt_tokens).field("cache", progress.reused_tokens);
        json.field("processed", progress.processed_tokens).field("time_ms", progress.ms);
        json.end_object().end_object();
        send_event(*sink_, json.take());
    }

    void delta(const ReplyDelta& delta) override {
        JsonWriter json = open_chunk();
        if (!delta.reasoning.empty()) json.field("reasoning_content", delta.reasoning);
        if (!delta.answer.empty()) json.field("content", delta.answer);
        send_event(*sink_, close_delta(std::move(json), &delta));
    }

    void end(const ReplyEnd& end) override {
        JsonWriter json = open_chunk();
        json.end_object();
        if (logprobs_) json.key("logprobs").null();
        json.field("finish_reason", finish_reason(end.finish));
        json.end_object().end_array();
        write_timings(json, end.timings);
        json.end_object();
        send_event(*sink_, json.take());
        if (include_usage_) {
            JsonWriter last;
            last.begin_object();
            write_head(last, identity_, "chat.completion.chunk");
            last.key("choices").begin_array().end_array();
            write_usage(last, end.usage);
            write_timings(last, end.timings);
            last.end_object();
            send_event(*sink_, last.take());
        }
        send_event(*sink_, "[DONE]");
        sink_->end_events();
    }

    void fail(const ApiError& error) override {
        send_event(*sink_, openai_error_body(error));
        sink_->end_events();
    }

    std::string keep_alive() override { return ": ping\n\n"; }

  private:
    // Up to the open delta object.
    JsonWriter open_chunk() {
        JsonWriter json;
        json.begin_object();
        write_head(json, identity_, "chat.completion.chunk");
        json.key("choices").begin_array().begin_object();
        json.field("index", 0).key("delta").begin_object();
        return json;
    }

    std::string close_delta(JsonWriter json, const ReplyDelta* delta) const {
        json.end_object();
        if (logprobs_) {
            json.key("logprobs");
            if (delta != nullptr && !delta->logprobs.empty()) {
                write_logprobs(json, delta->logprobs);
            } else {
                json.null();
            }
        }
        json.key("finish_reason").null();
        json.end_object().end_array().end_object();
        return json.take();
    }

    OpenAiIdentity identity_;
    std::shared_ptr<ReplySink> sink_;
    bool include_usage_;
    bool return_progress_;
    bool logprobs_;
};

class BodyWriter final : public ReplyWriter {
  public:
    BodyWriter(const ChatRequest& request, OpenAiIdentity identity, std::shared_ptr<ReplySink> sink)
        : identity_(std::move(identity)), sink_(std::move(sink)), logprobs_(request.logprobs) {}

    void begin() override {}

    void delta(const ReplyDelta& delta) override {
        collected_.reasoning += delta.reasoning;
        collected_.answer += delta.answer;
        collected_.logprobs.insert(collected_.logprobs.end(), delta.logprobs.begin(),
                                   delta.logprobs.end());
    }

    void end(const ReplyEnd& end) override {
        JsonWriter json;
        json.begin_object();
        write_head(json, identity_, "chat.completion");
        json.key("choices").begin_array().begin_object().field("index", 0);
        json.key("message").begin_object().field("role", "assistant");
        json.field("content", collected_.answer);
        if (!collected_.reasoning.empty()) json.field("reasoning_content", collected_.reasoning);
        json.key("refusal").null().end_object().key("logprobs");
        if (logprobs_) {
            write_logprobs(json, collected_.logprobs);
        } else {
            json.null();
        }
        json.field("finish_reason", finish_reason(end.finish)).end_object().end_array();
        write_usage(json, end.usage);
        write_timings(json, end.timings);
        json.end_object();
        Reply reply;
        reply.body = json.take();
        sink_->reply(std::move(reply));
    }

    void fail(const ApiError& error) override { sink_->refuse(error); }
    std::string keep_alive() override { return {}; }

  private:
    OpenAiIdentity identity_;
    std::shared_ptr<ReplySink> sink_;
    bool logprobs_;
    ReplyDelta collected_;
};

}  // namespace

std::unique_ptr<ReplyWriter> make_openai_writer(const ChatRequest& request, OpenAiIdentity identity,
                                                std::shared_ptr<ReplySink> sink) {
    if (request.stream) {
        return std::make_unique<StreamWriter>(request, std::move(identity), std::move(sink));
    }
    return std::make_unique<BodyWriter>(request, std::move(identity), std::move(sink));
}

}  // namespace strata::serve
