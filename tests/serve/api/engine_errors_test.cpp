// The engine's state and failures in the words of the API; the line of the log.
#include "serve/api/engine_errors.hpp"

#include <string>

#include <catch2/catch.hpp>

#include "serve/api/chat_run.hpp"
#include "serve/api/finished_request.hpp"
#include "serve/api/status_json.hpp"

using namespace strata;
using namespace strata::serve;
using namespace std::chrono_literals;

namespace {

EngineView in_state(EngineState state) {
    EngineView view;
    view.state = state;
    view.failure = "exit status 3";
    return view;
}

ApiError failed(FailureKind kind, std::string err_code = {}) {
    EngineFailure failure;
    failure.kind = kind;
    failure.err_code = std::move(err_code);
    failure.text = "why";
    return to_api_error(failure, 100, 50);
}

}  // namespace

TEST_CASE("failures of the engine keep their kind") {
    CHECK(failed(FailureKind::engine_died).kind == ErrorKind::server_error);
    CHECK(failed(FailureKind::engine_died).message == "why");
    CHECK(failed(FailureKind::engine_failed).kind == ErrorKind::unavailable);
    CHECK(failed(FailureKind::engine_failed).retry_after);
    CHECK(failed(FailureKind::start_timeout).kind == ErrorKind::unavailable);
    CHECK(failed(FailureKind::queue_full).kind == ErrorKind::rate_limited);
    CHECK(failed(FailureKind::shutting_down).kind == ErrorKind::unavailable);
    CHECK(failed(FailureKind::refused, "unsupported").kind == ErrorKind::invalid_request);
    CHECK(failed(FailureKind::refused, "internal").kind == ErrorKind::server_error);
    CHECK(failed(FailureKind::refused, "word of tomorrow").kind == ErrorKind::server_error);
    const ApiError too_long = failed(FailureKind::refused, "too_long");
    CHECK(too_long.kind == ErrorKind::context_exceeded);
    CHECK(too_long.code == "context_length_exceeded");
    CHECK(too_long.n_prompt_tokens == 100);
    CHECK(too_long.n_ctx == 50);
}

TEST_CASE("a short restart is waited for and a load is not") {
    CHECK_FALSE(not_ready(in_state(EngineState::ready), true));
    CHECK(not_ready(in_state(EngineState::loading), false)->code == "model_loading");
    EngineView view = in_state(EngineState::restarting);
    view.eta = 2s;
    CHECK_FALSE(not_ready(view, true));
    CHECK(not_ready(view, false)->code == "engine_restarting");
    view.eta = 30s;
    const auto refusal = not_ready(view, true);
    REQUIRE(refusal);
    CHECK(refusal->code == "engine_restarting");
    CHECK(refusal->retry_after == 30s);
    CHECK_FALSE(not_ready(in_state(EngineState::loading), true));
    const auto broken = not_ready(in_state(EngineState::failed), true);
    REQUIRE(broken);
    CHECK(broken->code == "engine_failed");
    CHECK(broken->message.find("exit status 3") != std::string::npos);
    CHECK(not_ready(in_state(EngineState::stopped), true)->code == "shutting_down");
}

TEST_CASE("the queue takes as many as it holds and one for the engine") {
    EngineView view;
    view.busy = true;
    for (const std::size_t waiting : {63U, 64U, 65U}) {
        view.queued = waiting;
        CHECK(queue_refusal(view, 0, 64).has_value() == (waiting >= 64));
        view.queued = 0;
        CHECK(queue_refusal(view, waiting, 64).has_value() == (waiting >= 64));
    }
    view.busy = false;
    view.queued = 0;
    CHECK_FALSE(queue_refusal(view, 64, 64));
    CHECK(queue_refusal(view, 65, 64));
}

TEST_CASE("health says what the engine is doing") {
    ApiSettings settings;
    settings.model_name = "demo";
    settings.version = "0.1.0";
    const Reply ready = health_reply(in_state(EngineState::ready), settings, 32768);
    CHECK(ready.status == 200);
    CHECK(ready.body ==
          R"({"status":"ok","loaded":true,"model":"demo","max_context":32768,"version":"0.1.0",)"
          R"("state":"ready"})");
    const Reply broken = health_reply(in_state(EngineState::failed), settings, 0);
    CHECK(broken.status == 503);
    CHECK(broken.body ==
          R"({"error":{"code":503,"type":"unavailable_error",)"
          R"("message":"the engine does not start: exit status 3"},"stage":"failed","progress":0,)"
          R"("eta_s":null})");
}

TEST_CASE("a finished request is one line") {
    FinishedRequest request;
    request.request_id = "ab12";
    request.prompt_tokens = 100;
    request.queue_ms = 0.2;
    request.ttft_ms = 41.6;
    request.duration_ms = 250.4;
    request.finish = AnswerFinish::stop;
    protocol::DoneLine done;
    done.generated = 20;
    done.prompt_tokens = 100;
    done.reused = 60;
    done.prompt_read = 40;
    done.decode_ms = 100;
    done.cache_fields = protocol::CacheFields{true, true, 1, 2, 3};
    request.done = done;
    CHECK(
        summary_line(request) ==
        "ab12 prompt 100 = 60 reused + 40 read, output 20 at 200.0 tok/s, switch: hit, first token "
        "42 ms, total 250 ms, stop");
    // The DONE is that of a first pass; the second one has written more.
    request.output_tokens = 27;
    request.finish = AnswerFinish::cancel;
    CHECK(summary_line(request) ==
          "ab12 prompt 100 = 60 reused + 40 read, output 27, switch: hit, first token 42 ms, "
          "total 250 ms, cancel");
    FinishedRequest left;
    left.request_id = "cd34";
    left.finish = AnswerFinish::cancel;
    left.failure = "the client left";
    left.prompt_tokens = 5;
    left.output_tokens = 3;
    left.queue_ms = 1500;
    left.duration_ms = 2000;
    CHECK(summary_line(left) ==
          "cd34 prompt 5, output 3, queued 1500 ms, total 2000 ms, cancel (the client left)");
}
