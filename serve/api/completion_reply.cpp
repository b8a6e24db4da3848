// Chunk and body of a text completion. The log probabilities have the four parallel lists of the
// old API; an offset counts code points of the text.
#include "serve/api/completion_reply.hpp"

#include <string>
#include <utility>
#include <vector>

#include "serve/api/json_writer.hpp"
#include "serve/text/unicode.hpp"

namespace strata::serve {

namespace {

constexpr std::string_view kObject = "text_completion";

// `offset` = code points of the answer before these tokens.
void write_logprobs(JsonWriter& json, const std::vector<TokenProbability>& tokens,
                    std::size_t offset) {
    json.begin_object().key("tokens").begin_array();
    for (const TokenProbability& token : tokens) json.string(token.bytes);
    json.end_array().key("token_logprobs").begin_array();
    for (const TokenProbability& token : tokens) json.number(token.logprob, kLogprobDecimals);
    json.end_array().key("top_logprobs").begin_array();
    for (const TokenProbability& token : tokens) {
        json.begin_object();
        for (const TokenProbability& other : token.top) {
            json.field(other.bytes, other.logprob, kLogprobDecimals);
        }
        json.end_object();
    }
    json.end_array().key("text_offset").begin_array();
    for (const TokenProbability& token : tokens) {
        json.integer(static_cast<std::int64_t>(offset));
        offset += count_code_points(token.bytes);
    }
    json.end_array().end_object();
}

class CompletionWriter : public ReplyWriter {
  public:
    CompletionWriter(const ChatRequest& request, OpenAiIdentity identity,
                     std::shared_ptr<ReplySink> sink)
        : identity_(std::move(identity)), sink_(std::move(sink)), logprobs_(request.logprobs) {}

  protected:
    // Up to the end of the one choice; the object stays open. `finish` "" = null.
    JsonWriter choice(const ReplyDelta& delta, std::string_view finish) const {
        JsonWriter json;
        json.begin_object();
        write_head(json, identity_, kObject);
        json.key("choices").begin_array().begin_object();
        json.field("index", 0).field("text", delta.answer).key("logprobs");
        if (logprobs_ && !delta.logprobs.empty()) {
            write_logprobs(json, delta.logprobs, offset_);
        } else {
            json.null();
        }
        json.field_or_null("finish_reason", finish).end_object().end_array();
        return json;
    }
    void count(const ReplyDelta& delta) {
        for (const TokenProbability& token : delta.logprobs) {
            offset_ += count_code_points(token.bytes);
        }
    }
    ReplySink& sink() { return *sink_; }
    const OpenAiIdentity& identity() const { return identity_; }

  private:
    OpenAiIdentity identity_;
    std::shared_ptr<ReplySink> sink_;
    bool logprobs_;
    std::size_t offset_ = 0;
};

class CompletionStream final : public CompletionWriter {
  public:
    CompletionStream(const ChatRequest& request, OpenAiIdentity identity,
                     std::shared_ptr<ReplySink> sink)
        : CompletionWriter(request, std::move(identity), std::move(sink)),
          include_usage_(request.include_usage) {}

    void begin() override { sink().begin_events(); }

    void delta(const ReplyDelta& delta) override {
        send_event(sink(), choice(delta, "").end_object().text());
        count(delta);
    }

    void end(const ReplyEnd& end) override {
        JsonWriter json = choice({}, finish_reason(end.finish));
        write_timings(json, end.timings);
        send_event(sink(), json.end_object().text());
        if (include_usage_) {
            JsonWriter last;
            last.begin_object();
            write_head(last, identity(), kObject);
            last.key("choices").begin_array().end_array();
            write_usage(last, end.usage);
            send_event(sink(), last.end_object().text());
        }
        send_event(sink(), "[DONE]");
        sink().end_events();
    }

    void fail(const ApiError& error) override {
        send_event(sink(), openai_error_body(error));
        sink().end_events();
    }

    std::string keep_alive() override { return ": ping\n\n"; }

  private:
    bool include_usage_;
};

class CompletionBody final : public CompletionWriter {
  public:
    using CompletionWriter::CompletionWriter;

    void begin() override {}

    void delta(const ReplyDelta& delta) override {
        collected_.answer += delta.answer;
        collected_.logprobs.insert(collected_.logprobs.end(), delta.logprobs.begin(),
                                   delta.logprobs.end());
    }

    void end(const ReplyEnd& end) override {
        JsonWriter json = choice(collected_, finish_reason(end.finish));
        write_usage(json, end.usage);
        write_timings(json, end.timings);
        Reply reply;
        reply.body = json.end_object().text();
        sink().reply(std::move(reply));
    }

    void fail(const ApiError& error) override { sink().refuse(error); }
    std::string keep_alive() override { return {}; }

  private:
    ReplyDelta collected_;
};

}  // namespace

std::unique_ptr<ReplyWriter> make_completion_writer(const ChatRequest& request,
                                                    OpenAiIdentity identity,
                                                    std::shared_ptr<ReplySink> sink) {
    if (request.stream) {
        return std::make_unique<CompletionStream>(request, std::move(identity), std::move(sink));
    }
    return std::make_unique<CompletionBody>(request, std::move(identity), std::move(sink));
}

}  // namespace strata::serve
