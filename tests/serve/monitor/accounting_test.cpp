// Protects who is counted for what: requests that never reached the engine, prompts that were read
// in part, clients that left the queue, engines that died; and the present between two requests.
#include <cmath>
#include <map>
#include <sstream>
#include <string>

#include <catch2/catch.hpp>

#include "serve/api/cache_calls.hpp"
#include "tests/serve/monitor/service_stage.hpp"

namespace strata::serve::tests {
namespace {

namespace json = boost::json;

std::int64_t whole(const json::value& value) {
    return value.to_number<std::int64_t>();
}

// A count of the stage's page by its name and further labels.
std::int64_t series(ServiceStage& stage, const std::string& name, const std::string& labels = "") {
    const std::string wanted = name + "{model_name=\"demo\"" + labels + "} ";
    std::istringstream lines(stage.prometheus());
    for (std::string line; std::getline(lines, line);) {
        if (line.starts_with(wanted)) return std::llround(std::stod(line.substr(wanted.size())));
    }
    FAIL("no series " << wanted);
    return -1;
}

// What every scraper takes for granted.
void check_sums_agree(ServiceStage& stage) {
    const json::value metrics = stage.metrics();
    std::map<std::string, std::int64_t> sums;
    for (const json::value& row : metrics.at("requests").as_array()) {
        for (const char* key : {"prompt_tokens", "reused", "output_tokens"}) {
            sums[key] += whole(row.at(key));
        }
        CHECK(whole(row.at("prompt_read")) + whole(row.at("reused")) ==
              whole(row.at("prompt_tokens")));
    }
    const json::value& totals = metrics.at("totals");
    CHECK(whole(totals.at("prompt_tokens")) == sums["prompt_tokens"]);
    CHECK(whole(totals.at("reused_tokens")) == sums["reused"]);
    CHECK(whole(totals.at("output_tokens")) == sums["output_tokens"]);
    CHECK(series(stage, "vllm:prompt_tokens_total") == sums["prompt_tokens"]);
    CHECK(series(stage, "vllm:request_prompt_tokens_sum") == sums["prompt_tokens"]);
    CHECK(series(stage, "vllm:request_generation_tokens_sum") == sums["output_tokens"]);
    std::int64_t finished = 0;
    for (const char* reason : {"stop", "length", "abort", "error"}) {
        finished += series(stage, "vllm:request_success_total",
                           std::string(",finished_reason=\"") + reason + "\"");
    }
    CHECK(finished == whole(totals.at("requests")));
    CHECK(series(stage, "vllm:e2e_request_latency_seconds_count") == finished);
    std::int64_t first_tokens = 0;
    for (const char* group : {"cold", "root", "warm", "restored", "unknown"}) {
        first_tokens +=
            series(stage, "strata:ttft_seconds_count", std::string(",cache=\"") + group + "\"");
    }
    CHECK(first_tokens == series(stage, "vllm:time_to_first_token_seconds_count"));
}

constexpr const char* kThinking =
    ",\"reasoning_budget_tokens\":3,\"max_tokens\":40,"
    "\"chat_template_kwargs\":{\"enable_thinking\":true}";

}  // namespace

TEST_CASE("A request that is refused before the engine is counted apart from all others") {
    ServiceStage stage;
    stage.ready();
    for (const char* body : {"{", R"({"messages":[]})", R"({"messages":[{"role":"user"}]})"}) {
        const Client bad = stage.ask(body);
        stage.until([&] { return bad.sink->refused; });
    }
    const Client good = stage.chat("one");
    stage.answer(stage.take_gen(), 2, 3, "1 0 0 0 0");
    const json::value metrics = stage.metrics();
    CHECK(whole(metrics.at("totals").at("requests")) == 1);
    CHECK(whole(metrics.at("totals").at("refused")) == 3);
    CHECK(whole(metrics.at("conversation_cache").at("totals").at("requests")) == 1);
    CHECK(metrics.at("requests").as_array().size() == 4);
    CHECK(metrics.at("requests").at(3).at("queue_ms").is_null());
    CHECK(series(stage, "strata:requests_refused_total", ",type=\"invalid_request_error\"") == 3);
    CHECK(series(stage, "vllm:request_success_total", ",finished_reason=\"error\"") == 0);
    CHECK(series(stage, "vllm:e2e_request_latency_seconds_count") == 1);
    check_sums_agree(stage);
}

TEST_CASE("A request that the full queue refuses is no request of the latencies") {
    ApiSettings settings;
    settings.queue_max = 1;
    ServiceStage stage(settings);
    stage.ready();
    const Client runs = stage.chat("one");
    const AskedEngine gen = stage.take_gen();
    const Client waits = stage.chat("two");
    stage.until([&] { return stage.supervisor.view().queued == 1; });
    const Client refused = stage.chat("three");
    CHECK(refused.sink->kind == ErrorKind::rate_limited);
    CHECK(series(stage, "strata:requests_refused_total", ",type=\"rate_limit_error\"") == 1);
    stage.answer(gen, 1, 0, "1 0 0 0 0");
    stage.answer(stage.take_gen(), 1, 0, "1 0 0 0 0");
    CHECK(whole(stage.metrics().at("totals").at("requests")) == 2);
    CHECK(whole(stage.metrics().at("totals").at("refused")) == 1);
    check_sums_agree(stage);
}

TEST_CASE("A request that left the queue says how long it was in it") {
    ServiceStage stage;
    stage.ready();
    const Client runs = stage.chat("one");
    const AskedEngine gen = stage.take_gen();
    const Client waits = stage.chat("two");
    stage.until([&] { return stage.supervisor.view().queued == 1; });
    const auto began = std::chrono::steady_clock::now();
    const auto waited = [&] { return std::chrono::steady_clock::now() - began; };
    stage.until([&] { return waited() >= std::chrono::milliseconds(20); });
    waits.exchange->client_left();
    const json::value row = stage.metrics().at("requests").at(0);
    CHECK(row.at("finish").as_string() == "cancel");
    CHECK(row.at("queue_ms").to_number<double>() >= 20);
    CHECK(row.at("admitted").is_null());
    CHECK(row.at("queue_ms").to_number<double>() <=
          row.at("duration_s").to_number<double>() * 1000 + 1);
    // Who never held the engine has no time from arrival to holding it.
    CHECK(series(stage, "vllm:request_queue_time_seconds_count") == 0);
    stage.answer(gen, 1, 0, "1 0 0 0 0");
    CHECK(series(stage, "vllm:request_queue_time_seconds_count") == 1);
    check_sums_agree(stage);
}

TEST_CASE("A prompt that was read in part counts by what was read") {
    ServiceStage stage;
    stage.ready();
    const Client client = stage.chat("one", ",\"stream\":true");
    const AskedEngine gen = stage.take_gen();
    REQUIRE(gen.prompt_tokens > 6);
    client.exchange->client_left();
    stage.say("DONE 0 " + std::to_string(gen.prompt_tokens) +
              " 10.0 0.0 cancel 0 0 2 0 0 0 0 0 3 1 0 0 0 0 id=" + std::to_string(gen.id));
    const json::value row = stage.metrics().at("requests").at(0);
    CHECK(whole(row.at("prompt_tokens")) == 5);
    CHECK(whole(row.at("prompt_read")) == 3);
    CHECK(whole(row.at("reused")) == 2);
    CHECK(whole(row.at("prompt_length")) == gen.prompt_tokens);
    CHECK(whole(stage.metrics().at("totals").at("prompt_tokens")) == 5);
    CHECK(whole(stage.metrics().at("conversation_cache").at("prompt_tokens")) == 5);
    check_sums_agree(stage);
}

TEST_CASE("A request whose engine dies counts what its lines told") {
    for (const bool left : {false, true}) {
        INFO("the client has left: " << left);
        ServiceStage stage;
        stage.ready();
        const Client client = stage.chat("one", ",\"stream\":true");
        const AskedEngine gen = stage.take_gen();
        const std::string id = " id=" + std::to_string(gen.id);
        stage.say("RESUME 2" + id + " source=root");
        if (left) client.exchange->client_left();
        stage.say("PP 6 " + std::to_string(gen.prompt_tokens) + " 5.0 100.0" + id);
        stage.say("T 300" + id);
        stage.restart();
        const json::value row = stage.metrics().at("requests").at(0);
        CHECK(whole(row.at("prompt_tokens")) == 6);
        CHECK(whole(row.at("prompt_read")) == 4);
        CHECK(whole(row.at("reused")) == 2);
        CHECK(whole(row.at("output_tokens")) == 1);
        CHECK(whole(row.at("prompt_length")) == gen.prompt_tokens);
        check_sums_agree(stage);
    }
}

TEST_CASE("A first token whose group is not known is counted among the groups as well") {
    ServiceStage stage;
    stage.ready();
    const Client dies = stage.chat("one");
    const AskedEngine gen = stage.take_gen();
    stage.say("T 300 id=" + std::to_string(gen.id));
    stage.restart();
    const Client older = stage.chat("two");
    stage.answer(stage.take_gen(), 1, 3);
    CHECK(series(stage, "strata:ttft_seconds_count", ",cache=\"unknown\"") == 2);
    check_sums_agree(stage);
}

TEST_CASE("The status counts on in the second pass") {
    ServiceStage stage;
    stage.ready();
    const Client client = stage.chat("think", kThinking);
    const AskedEngine first = stage.take_gen();
    stage.answer(first, first.max_new, 0, "1 0 0 0 0", "length");
    const AskedEngine last = stage.take_gen();
    const std::string id = " id=" + std::to_string(last.id);
    EngineView view = stage.supervisor.view();
    CHECK(view.generated == first.max_new);
    CHECK(view.prompt_tokens == first.prompt_tokens);
    CHECK(view.max_tokens == first.max_new + last.max_new);
    stage.say("RESUME " + std::to_string(last.prompt_tokens - 2) + id + " source=live");
    stage.say("PP " + std::to_string(last.prompt_tokens) + " " +
              std::to_string(last.prompt_tokens) + " 5.0 100.0" + id);
    stage.say("T 300" + id);
    view = stage.supervisor.view();
    CHECK(view.generated == first.max_new + 1);
    CHECK(view.prompt_read == first.prompt_tokens);
    stage.say("DONE 1 " + std::to_string(last.prompt_tokens) +
              " 1.0 1.0 stop 0 0 0 0 0 0 0 0 2 0 0 0 0 0" + id);
    CHECK_FALSE(stage.supervisor.view().busy);
    // The next request begins at 0.
    const Client next = stage.chat("one");
    const AskedEngine gen = stage.take_gen();
    CHECK(stage.supervisor.view().generated == 0);
    CHECK(stage.supervisor.view().prompt_tokens == gen.prompt_tokens);
}

TEST_CASE("What an idle engine gives back is gone from the metrics at once") {
    ServiceStage stage;
    stage.ready();
    const Client client = stage.chat("one");
    stage.answer(stage.take_gen(), 1, 0, "1 0 2 500 0 retained=100 released=0");
    const auto present = [&] { return stage.metrics().at("conversation_cache"); };
    CHECK(whole(present().at("parked")) == 2);
    stage.say("CONV release entry=1 conv=1 tokens=9 bytes=150 parked=1 held=350 retained=100");
    stage.say(
        "PRESSURE available_after_mib=90 released_dialogs=1 released_mib=0 retained_mib=0 "
        "parked=1 held=250 retained=0 where=idle exhausted=0");
    CHECK(whole(present().at("parked")) == 1);
    CHECK(whole(present().at("released")) == 1);
    CHECK(whole(present().at("bytes")) == 250);
    CHECK(whole(present().at("retained_bytes")) == 0);
    CHECK(series(stage, "strata:conversation_parked") == 1);
    CHECK(series(stage, "strata:conversation_released_total") == 1);

    auto sink = std::make_shared<ClientSink>();
    stage.service->cache_call(drop_command("2"), sink);
    stage.say(
        "CONV drop entry=2 conv=2 tokens=9 bytes=250 reason=command parked=0 held=0 retained=0");
    stage.say("CACHE end");
    REQUIRE(sink->status == 200);
    CHECK(whole(present().at("parked")) == 0);
    CHECK(whole(present().at("bytes")) == 0);
    CHECK(series(stage, "strata:conversation_parked") == 0);
}

TEST_CASE("A list that comes too late for its asker is still a word about what is parked") {
    ServiceStage stage;
    stage.ready();
    auto slow = std::make_shared<ClientSink>();
    stage.service->cache_call(protocol::CacheCommand{}, slow);
    stage.time.advance(std::chrono::seconds(11));
    CHECK(slow->code == "engine_slow");
    stage.say("CACHE entry=1 tokens=40");
    stage.say("CACHE entry=2 tokens=40");
    CHECK(stage.metrics().at("conversation_cache").at("parked").is_null());
    stage.say("CACHE end parked=2 held=70 retained=9");
    CHECK(whole(stage.metrics().at("conversation_cache").at("parked")) == 2);
    CHECK(whole(stage.metrics().at("conversation_cache").at("bytes")) == 70);
    CHECK(whole(stage.metrics().at("conversation_cache").at("retained_bytes")) == 9);
    // Nobody asked for this one.
    stage.say("CACHE end");
    CHECK(whole(stage.metrics().at("conversation_cache").at("parked")) == 2);
}

TEST_CASE("The context is that of the request, then of what it left, and of no engine before") {
    ServiceStage stage;
    stage.ready();
    const auto context = [&] { return stage.metrics().at("live").at("context_tokens"); };
    CHECK(context().is_null());
    const Client client = stage.chat("one");
    const AskedEngine gen = stage.take_gen();
    stage.say("PP 2 " + std::to_string(gen.prompt_tokens) +
              " 5.0 100.0 id=" + std::to_string(gen.id));
    CHECK(whole(context()) == 2);
    stage.answer(gen, 3, 0, "1 0 0 0 0");
    CHECK(whole(context()) == gen.prompt_tokens + 3);
    stage.engine().end({true, 9, false});
    stage.settle();
    CHECK(context().is_null());
    while (stage.launcher.launches.size() == 1) {
        stage.time.advance(std::chrono::milliseconds(100));
        stage.settle();
    }
    stage.ready();
    CHECK(context().is_null());
}

TEST_CASE("A failure that is past is no failure of now") {
    ServiceStage stage;
    stage.ready();
    stage.engine().end({true, 11, false});
    stage.settle();
    CHECK(stage.supervisor.view().failure.find("signal 11") != std::string::npos);
    while (stage.launcher.launches.size() == 1) {
        stage.time.advance(std::chrono::milliseconds(100));
        stage.settle();
    }
    stage.ready();
    const json::value metrics = stage.metrics();
    CHECK(metrics.at("live").at("failure").as_string().empty());
    CHECK(stage.service->status().body.find("\"failure\":\"\"") != std::string::npos);
    // What it was is still told as a fact of the engine's past, with its time.
    const double at = metrics.at("engine").at("failure_time").as_double();
    CHECK(at < metrics.at("time").to_number<double>());
    CHECK(std::string(metrics.at("engine").at("failure").as_string()).find("signal 11") !=
          std::string::npos);
}

}  // namespace strata::serve::tests
