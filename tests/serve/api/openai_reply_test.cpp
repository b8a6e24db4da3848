// The shape of answers: one body, or chunks. Whole texts, so that order and nulls are part of it.
#include "serve/api/openai_reply.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace strata::serve;

namespace {

struct Recorder : ReplySink {
    std::vector<Reply> replies;
    std::vector<ApiError> refusals;
    std::string stream;
    bool begun = false;
    bool ended = false;
    void reply(Reply reply) override { replies.push_back(std::move(reply)); }
    void refuse(const ApiError& error) override { refusals.push_back(error); }
    void begin_events() override { begun = true; }
    void events(std::string_view frames) override { stream += frames; }
    void end_events() override { ended = true; }
};

const std::string kHead =
    R"("object":"chat.completion.chunk","created":1700000000,"model":"demo","choices":[)";

ReplyEnd sample_end() {
    ReplyEnd end;
    end.finish = AnswerFinish::length;
    end.usage = {19, 10, 20, 3};
    end.timings = {10, 9, 4.5, 20, 100};
    return end;
}

const std::string kTimings =
    R"("timings":{"cache_n":10,"prompt_n":9,"prompt_ms":4.5,"prompt_per_token_ms":0.5,)"
    R"("prompt_per_second":2000,"predicted_n":20,"predicted_ms":100,"predicted_per_token_ms":5,)"
    R"("predicted_per_second":200})";
const std::string kUsage =
    R"("usage":{"prompt_tokens":19,"completion_tokens":20,"total_tokens":39,)"
    R"("prompt_tokens_details":{"cached_tokens":10},"completion_tokens_details":{"reasoning_tokens":3}})";

struct Written {
    std::shared_ptr<Recorder> sink = std::make_shared<Recorder>();
    std::unique_ptr<ReplyWriter> writer;
    explicit Written(const ChatRequest& request)
        : writer(make_openai_writer(request, {"chatcmpl-1", 1700000000, "demo"}, sink)) {}
};

std::string frame(const std::string& rest) {
    return R"(data: {"id":"chatcmpl-1",)" + kHead + rest + "\n\n";
}

}  // namespace

TEST_CASE("a stream is chunks of one shape and ends with DONE") {
    ChatRequest request;
    request.stream = true;
    Written out(request);
    out.writer->begin();
    CHECK(out.sink->begun);
    out.writer->delta({"think", "", {}});
    out.writer->delta({"", "Say \"hi\"\n", {}});
    out.writer->end(sample_end());
    CHECK(out.sink->ended);
    CHECK(out.sink->stream ==
          frame(R"({"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]})") +
              frame(R"({"index":0,"delta":{"reasoning_content":"think"},"finish_reason":null}]})") +
              frame(R"({"index":0,"delta":{"content":"Say \"hi\"\n"},"finish_reason":null}]})") +
              frame(R"({"index":0,"delta":{},"finish_reason":"length"}],)" + kTimings + "}") +
              "data: [DONE]\n\n");
    CHECK(out.writer->keep_alive() == ": ping\n\n");
}

TEST_CASE("usage comes in a chunk of its own and only when it is asked for") {
    ChatRequest request;
    request.stream = true;
    request.include_usage = true;
    Written out(request);
    out.writer->begin();
    out.sink->stream.clear();
    out.writer->end(sample_end());
    CHECK(out.sink->stream ==
          frame(R"({"index":0,"delta":{},"finish_reason":"length"}],)" + kTimings + "}") +
              frame("]," + kUsage + "," + kTimings + "}") + "data: [DONE]\n\n");
}

TEST_CASE("progress of the prompt comes only when it is asked for") {
    ChatRequest request;
    request.stream = true;
    const PromptProgress progress{48000, 1000, 12288, 250};
    Written silent(request);
    silent.writer->progress(progress);
    CHECK(silent.sink->stream.empty());
    request.return_progress = true;
    Written out(request);
    out.writer->progress(progress);
    CHECK(out.sink->stream ==
          frame(R"({"index":0,"delta":{},"finish_reason":null}],)"
                R"("prompt_progress":{"total":48000,"cache":1000,"processed":12288,"time_ms":250)"
                R"(}})"));
}

TEST_CASE("a body has message usage and timings") {
    Written out(ChatRequest{});
    out.writer->begin();
    out.writer->delta({"because", "", {}});
    out.writer->delta({"", "one ", {}});
    out.writer->delta({"", "two", {}});
    out.writer->end(sample_end());
    REQUIRE(out.sink->replies.size() == 1);
    CHECK(out.sink->replies[0].status == 200);
    CHECK(
        out.sink->replies[0].body ==
        R"({"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"demo",)"
        R"("choices":[{"index":0,"message":{"role":"assistant","content":"one two",)"
        R"("reasoning_content":"because","refusal":null},"logprobs":null,"finish_reason":"length"}],)" +
            kUsage + "," + kTimings + "}");
}

TEST_CASE("logprobs carry bytes also of a token inside a character") {
    ChatRequest request;
    request.logprobs = true;
    request.stream = true;
    Written out(request);
    out.writer->begin();
    out.sink->stream.clear();
    TokenProbability token{"\xc3", -0.25, {{"\xc3", -0.25, {}}, {"a", -1.5, {}}}};
    out.writer->delta({"", "x", {token}});
    CHECK(
        out.sink->stream ==
        frame("{\"index\":0,\"delta\":{\"content\":\"x\"},\"logprobs\":{\"content\":[{\"token\":"
              "\"\xEF\xBF\xBD\",\"bytes\":[195],\"logprob\":-0.25,\"top_logprobs\":[{\"token\":"
              "\"\xEF\xBF\xBD\",\"bytes\":[195],\"logprob\":-0.25},{\"token\":\"a\",\"bytes\":[97],"
              "\"logprob\":-1.5}]}],\"refusal\":null},\"finish_reason\":null}]}"));
}

TEST_CASE("a fault in a stream is an error event and no finish") {
    ChatRequest request;
    request.stream = true;
    Written out(request);
    out.writer->begin();
    out.sink->stream.clear();
    ApiError error;
    error.kind = ErrorKind::server_error;
    error.code = "engine_died";
    error.message = "the engine ended";
    out.writer->fail(error);
    CHECK(out.sink->stream ==
          "data: {\"error\":{\"message\":\"the engine "
          "ended\",\"type\":\"server_error\",\"param\":null,"
          "\"code\":\"engine_died\"}}\n\n");
    CHECK(out.sink->ended);
}

TEST_CASE("a fault before a body is a refusal") {
    Written out(ChatRequest{});
    out.writer->begin();
    out.writer->fail(ApiError{});
    CHECK(out.sink->refusals.size() == 1);
    CHECK(out.sink->replies.empty());
}
