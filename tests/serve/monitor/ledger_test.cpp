// Protects the way of figures from DONE to /metrics through the real supervisor and the api room:
// whose DONE it is, what a restart hides, two passes, an older engine, clients that leave.
#include <string>

#include <catch2/catch.hpp>

#include "serve/api/cache_calls.hpp"
#include "tests/serve/monitor/service_stage.hpp"

namespace strata::serve::tests {
namespace {

// Members of a request: two passes, three tokens of thinking at most.
const std::string kThinkThree =
    ",\"reasoning_budget_tokens\":3,\"max_tokens\":40,"
    "\"chat_template_kwargs\":{\"enable_thinking\":true}";
const std::string kStreamed = ",\"stream\":true";

namespace json = boost::json;

std::int64_t whole(const json::value& value) {
    return value.to_number<std::int64_t>();
}

const json::value& row(const json::value& metrics, std::size_t index) {
    return metrics.at("requests").at(index);
}

ApiSettings windowed(std::size_t rows) {
    ApiSettings settings;
    settings.cache.window_rows = rows;
    return settings;
}

}  // namespace

TEST_CASE("A queued request does not take the fields of the one before it") {
    ServiceStage stage;
    stage.ready();
    const Client first = stage.chat("one");
    const AskedEngine one = stage.take_gen();
    const Client second = stage.chat("one and another");
    stage.until([&] { return stage.supervisor.view().queued == 1; });
    stage.answer(one, 2, 0, "1 0 0 0 0");
    const AskedEngine two = stage.take_gen();
    CHECK(two.prompt_tokens > one.prompt_tokens);
    // The first one's DONE comes again: the second does not end by it.
    stage.say("DONE 9 9 1.0 1.0 stop 0 0 0 0 0 0 0 0 9 1 1 3 9 9 id=" + std::to_string(one.id));
    CHECK(stage.supervisor.view().busy);
    stage.answer(two, 3, 4, "0 0 1 77 0");
    const json::value metrics = stage.metrics();
    REQUIRE(metrics.at("requests").as_array().size() == 2);
    CHECK(row(metrics, 0).at("id").as_string() == "req-2");
    CHECK(whole(row(metrics, 0).at("prompt_tokens")) == two.prompt_tokens);
    CHECK(whole(row(metrics, 0).at("output_tokens")) == 3);
    CHECK_FALSE(row(metrics, 0).at("switched").as_bool());
    CHECK(whole(row(metrics, 1).at("prompt_tokens")) == one.prompt_tokens);
    CHECK(row(metrics, 1).at("switched").as_bool());
    CHECK(whole(metrics.at("engine").at("foreign_dones")) == 1);
    CHECK(whole(metrics.at("conversation_cache").at("bytes")) == 77);
    CHECK(whole(metrics.at("conversation_cache").at("switches")) == 1);
}

TEST_CASE("After a restart the present is hidden until the new engine tells its own") {
    ServiceStage stage;
    stage.ready();
    const Client client = stage.chat("one");
    stage.answer(stage.take_gen(), 1, 0, "1 0 2 500 3");
    CHECK(whole(stage.metrics().at("conversation_cache").at("parked")) == 2);
    stage.restart();
    json::value metrics = stage.metrics();
    CHECK(metrics.at("conversation_cache").at("parked").is_null());
    CHECK(metrics.at("conversation_cache").at("evictions").is_null());
    CHECK(whole(metrics.at("conversation_cache").at("rows")) == 1);
    // The new engine answers a request whose id the old one, too late, claims to have done.
    const Client again = stage.chat("two");
    const AskedEngine gen = stage.take_gen();
    stage.say("DONE 9 9 1.0 1.0 stop 0 0 9 0 0 0 0 0 9 1 1 3 900 9 id=" +
              std::to_string(gen.id - 1));
    CHECK(stage.metrics().at("conversation_cache").at("parked").is_null());
    stage.answer(gen, 1, 0, "1 0 0 40 0");
    metrics = stage.metrics();
    CHECK(whole(metrics.at("conversation_cache").at("parked")) == 0);
    CHECK(whole(metrics.at("conversation_cache").at("bytes")) == 40);
    CHECK(whole(row(metrics, 0).at("epoch")) == 2);
    CHECK(whole(row(metrics, 1).at("epoch")) == 1);
    CHECK(whole(metrics.at("conversation_cache").at("totals").at("switches")) == 2);
}

TEST_CASE("A request that dies with its engine is a row without figures") {
    ServiceStage stage;
    stage.ready();
    const Client client = stage.chat("one");
    const AskedEngine gen = stage.take_gen();
    stage.say("T 300 id=" + std::to_string(gen.id));
    stage.restart();
    CHECK(client.sink->refused);
    json::value metrics = stage.metrics();
    CHECK(row(metrics, 0).at("finish").as_string() == "error");
    CHECK_FALSE(row(metrics, 0).as_object().contains("switched"));
    CHECK(whole(metrics.at("conversation_cache").at("rows")) == 0);
    CHECK(whole(metrics.at("totals").at("output_tokens")) == 1);
    // Its DONE, from the next engine's pipe, belongs to nobody.
    stage.say("DONE 1 9 1.0 1.0 stop 0 0 0 0 0 0 0 0 9 1 1 3 9 9 id=" + std::to_string(gen.id));
    metrics = stage.metrics();
    CHECK(whole(metrics.at("engine").at("foreign_dones")) == 1);
    CHECK(metrics.at("requests").as_array().size() == 1);
    CHECK(metrics.at("conversation_cache").at("parked").is_null());
}

TEST_CASE("A client that leaves is counted by the DONE of its request") {
    ServiceStage stage;
    stage.ready();
    const Client client = stage.chat("one", ",\"stream\":true");
    const AskedEngine gen = stage.take_gen();
    stage.say("T 300 id=" + std::to_string(gen.id));
    client.exchange->client_left();
    stage.settle();
    CHECK(stage.metrics().at("requests").as_array().empty());
    CHECK(stage.supervisor.view().busy);
    stage.answer(gen, 2, 5, "1 1 1 60 0", "cancel");
    const json::value metrics = stage.metrics();
    REQUIRE(metrics.at("requests").as_array().size() == 1);
    CHECK(row(metrics, 0).at("finish").as_string() == "cancel");
    CHECK(whole(row(metrics, 0).at("reused")) == 5);
    CHECK(whole(row(metrics, 0).at("output_tokens")) == 2);
    CHECK(whole(metrics.at("conversation_cache").at("hits")) == 1);
    CHECK(whole(metrics.at("conversation_cache").at("bytes")) == 60);
}

TEST_CASE("An engine that prints 14 fields leaves the window empty and the present null") {
    ServiceStage stage;
    stage.ready(true);
    const Client client = stage.chat("one");
    const AskedEngine gen = stage.take_gen();
    stage.answer(gen, 2, 3);
    const json::value metrics = stage.metrics();
    CHECK(row(metrics, 0).at("switched").is_null());
    CHECK(whole(row(metrics, 0).at("reused")) == 3);
    const json::value& cache = metrics.at("conversation_cache");
    CHECK(cache.at("enabled").as_bool());
    CHECK(whole(cache.at("rows")) == 0);
    CHECK(cache.at("parked").is_null());
    CHECK(cache.at("bytes").is_null());
    CHECK(cache.at("slots").is_null());
    CHECK(cache.at("evictions").is_null());
    CHECK(whole(cache.at("totals").at("reused_tokens")) == 3);
}

TEST_CASE("A request with a thinking budget is one row") {
    ServiceStage stage;
    stage.ready();
    const Client client = stage.chat("think", kThinkThree);
    const AskedEngine first = stage.take_gen();
    REQUIRE(first.max_new < 40);
    stage.answer(first, first.max_new, 0, "1 0 1 10 0", "length");
    const AskedEngine last = stage.take_gen();
    CHECK(last.prompt_tokens > first.prompt_tokens);
    CHECK(stage.metrics().at("requests").as_array().empty());
    stage.answer(last, 4, first.prompt_tokens, "0 0 2 20 1");
    const json::value metrics = stage.metrics();
    REQUIRE(metrics.at("requests").as_array().size() == 1);
    CHECK(whole(row(metrics, 0).at("passes")) == 2);
    CHECK(whole(row(metrics, 0).at("prompt_tokens")) == first.prompt_tokens);
    CHECK(whole(row(metrics, 0).at("reused")) == 0);
    CHECK(whole(row(metrics, 0).at("output_tokens")) == first.max_new + 4);
    CHECK(whole(row(metrics, 0).at("decode_ms")) == 40);
    CHECK(row(metrics, 0).at("switched").as_bool());
    CHECK(whole(row(metrics, 0).at("bytes")) == 20);
    CHECK(whole(row(metrics, 0).at("ticket")) == static_cast<std::int64_t>(first.id));
    CHECK(whole(metrics.at("conversation_cache").at("rows")) == 1);
    CHECK(whole(metrics.at("conversation_cache").at("reused_tokens")) == 0);
    CHECK(whole(metrics.at("conversation_cache").at("evictions")) == 1);
}

TEST_CASE("A client that leaves in the second pass is one row of both") {
    ServiceStage stage;
    stage.ready();
    const Client client = stage.chat("think", kThinkThree + kStreamed);
    const AskedEngine first = stage.take_gen();
    stage.answer(first, first.max_new, 0, "1 0 1 10 0", "length");
    const AskedEngine last = stage.take_gen();
    stage.say("T 300 id=" + std::to_string(last.id));
    client.exchange->client_left();
    stage.answer(last, 1, first.prompt_tokens, "0 0 2 20 1", "cancel");
    const json::value metrics = stage.metrics();
    REQUIRE(metrics.at("requests").as_array().size() == 1);
    CHECK(whole(row(metrics, 0).at("passes")) == 2);
    CHECK(row(metrics, 0).at("finish").as_string() == "cancel");
    CHECK(whole(row(metrics, 0).at("reused")) == 0);
    CHECK(whole(row(metrics, 0).at("prompt_tokens")) == first.prompt_tokens);
    CHECK(row(metrics, 0).at("switched").as_bool());
}

TEST_CASE("An engine that dies in the second pass leaves a row of both without a speed") {
    for (const bool leaves : {false, true}) {
        ServiceStage stage;
        stage.ready();
        const Client client = stage.chat("think", kThinkThree + kStreamed);
        const AskedEngine first = stage.take_gen();
        stage.answer(first, first.max_new, 0, "1 0 1 10 0", "length");
        const AskedEngine last = stage.take_gen();
        for (int i = 0; i < 7; ++i) stage.say("T 300 id=" + std::to_string(last.id));
        if (leaves) client.exchange->client_left();
        stage.restart();
        const json::value metrics = stage.metrics();
        REQUIRE(metrics.at("requests").as_array().size() == 1);
        const json::value& it = row(metrics, 0);
        CHECK(whole(it.at("passes")) == 2);
        CHECK(whole(it.at("output_tokens")) == first.max_new + 7);
        CHECK(it.at("decode_ms").is_null());
        CHECK(it.at("finish").as_string() == (leaves ? "cancel" : "error"));
        CHECK(it.as_object().contains("failure") == !leaves);
        if (!leaves) CHECK_FALSE(it.at("failure").as_string().empty());
        CHECK(whole(it.at("prompt_tokens")) == first.prompt_tokens);
        CHECK(whole(metrics.at("totals").at("output_tokens")) == first.max_new + 7);
        CHECK(metrics.at("totals").at("decode_ms").to_number<double>() == 0.0);
    }
}

TEST_CASE("The window that is asked for is the one that is shown") {
    for (const std::size_t rows : {std::size_t{1}, std::size_t{500}}) {
        ServiceStage stage(windowed(rows));
        stage.ready();
        for (int i = 0; i < 3; ++i) {
            const Client client = stage.chat("one");
            stage.answer(stage.take_gen(), 1, i, "1 1 0 0 0");
        }
        const json::value cache = stage.metrics().at("conversation_cache");
        CHECK(whole(cache.at("window")) == static_cast<std::int64_t>(rows));
        CHECK(whole(cache.at("rows")) == (rows == 1 ? 1 : 3));
        CHECK(whole(cache.at("reused_tokens")) == (rows == 1 ? 2 : 3));
    }
}

TEST_CASE("While the model is unloaded nothing of the engine is shown") {
    ServiceStage stage;
    stage.ready();
    const Client client = stage.chat("one");
    stage.answer(stage.take_gen(), 1, 0, "1 0 2 500 3");
    REQUIRE(stage.supervisor.unload([] {}));
    stage.settle();
    stage.engine().end({false, 0, false});
    stage.settle();
    REQUIRE(stage.supervisor.view().state == EngineState::unloaded);
    const json::value metrics = stage.metrics();
    CHECK_FALSE(metrics.at("conversation_cache").as_object().contains("parked"));
    CHECK(metrics.at("conversation_cache").at("enabled").as_bool());
    CHECK(whole(metrics.at("conversation_cache").at("rows")) == 1);
    CHECK(stage.prometheus().find("strata:conversation_parked") == std::string::npos);
}

TEST_CASE("Parked conversations are listed and dropped and pinned by their entry") {
    ServiceStage stage;
    stage.ready();
    auto sink = std::make_shared<ClientSink>();
    stage.service->cache_call(protocol::CacheCommand{}, sink);
    stage.settle();
    CHECK(stage.engine().written.back().starts_with("CACHE list"));
    stage.say("CACHE entry=3 conv=2 tokens=40 bytes=9 pinned=0 steer=off where=ram");
    stage.say("CACHE end");
    CHECK(sink->status == 200);
    CHECK(sink->body.find("\"entry\":3") != std::string::npos);

    sink = std::make_shared<ClientSink>();
    stage.service->cache_call(drop_command("3"), sink);
    CHECK(stage.engine().written.back().starts_with("CACHE drop entry=3"));
    stage.say("CACHE end");
    CHECK(sink->body.find("\"entries\":[]") != std::string::npos);

    sink = std::make_shared<ClientSink>();
    stage.service->cache_call(pin_command("8", R"({"pinned":false})"), sink);
    CHECK(stage.engine().written.back().starts_with("CACHE unpin entry=8"));
    stage.say("ERR bad_field id=0 text=entry is 8, allowed are the entries of CACHE list");
    CHECK(sink->code == "entry_not_found");
    CHECK(sink->kind == ErrorKind::not_found);

    const Client client = stage.chat("one");
    const AskedEngine gen = stage.take_gen();
    sink = std::make_shared<ClientSink>();
    stage.service->cache_call(drop_command("3"), sink);
    CHECK(sink->code == "engine_busy");
    CHECK(sink->kind == ErrorKind::conflict);
    // Looking is allowed.
    sink = std::make_shared<ClientSink>();
    stage.service->cache_call(protocol::CacheCommand{}, sink);
    stage.engine().end({true, 11, false});
    stage.settle();
    CHECK(sink->code == "no_engine");
    CHECK(sink->kind == ErrorKind::unavailable);
}

TEST_CASE("An answer about parked conversations that comes too late is not the next one") {
    ServiceStage stage;
    stage.ready();
    auto slow = std::make_shared<ClientSink>();
    stage.service->cache_call(protocol::CacheCommand{}, slow);
    stage.time.advance(std::chrono::seconds(11));
    CHECK(slow->code == "engine_slow");
    auto next = std::make_shared<ClientSink>();
    stage.service->cache_call(protocol::CacheCommand{}, next);
    stage.say("CACHE entry=1 tokens=40");
    stage.say("CACHE end");
    CHECK(next->status == 0);
    CHECK_FALSE(next->refused);
    stage.say("CACHE entry=2 tokens=40");
    stage.say("CACHE end");
    CHECK(next->body.find("\"entry\":2") != std::string::npos);
    CHECK(next->body.find("\"entry\":1") == std::string::npos);
}

TEST_CASE("A path or body that names no entry is refused with what is allowed") {
    CHECK_FALSE(drop_command("x"));
    CHECK_FALSE(drop_command(""));
    CHECK_FALSE(drop_command("-1"));
    CHECK_FALSE(drop_command("03"));
    CHECK_FALSE(drop_command("00"));
    CHECK_FALSE(pin_command("03", ""));
    CHECK(drop_command("03").error().kind == ErrorKind::not_found);
    CHECK(drop_command("0"));
    CHECK(drop_command("18446744073709551615"));
    CHECK_FALSE(pin_command("1", "{\"pinned\":3}"));
    CHECK(pin_command("1", "{\"pinned\":3}").error().param == "pinned");
    CHECK(pin_command("1", "")->action == protocol::CacheAction::pin);
    CHECK(pin_command("1", "{}")->action == protocol::CacheAction::pin);
}

TEST_CASE("First words are kept only where prompts may be shown") {
    for (const bool shown : {false, true}) {
        ApiSettings settings;
        settings.show_prompts = shown;
        ServiceStage stage(settings);
        stage.ready();
        const Client client = stage.chat("Plan   a garden");
        stage.answer(stage.take_gen(), 1, 0, "1 0 0 0 0 conv=6");
        const json::value metrics = stage.metrics();
        if (shown) {
            CHECK(row(metrics, 0).at("first_words").as_string() == "Plan a garden");
        } else {
            CHECK(row(metrics, 0).at("first_words").is_null());
        }
    }
}

TEST_CASE("What strata asks for reaches GEN and what is malformed is refused with its path") {
    ServiceStage stage;
    stage.ready();
    const Client client = stage.chat(
        "one", ",\"strata\":{\"checkpoint\":false,\"steering\":false,\"pin_messages\":1}");
    const AskedEngine gen = stage.take_gen();
    CHECK(gen.line.find(" ckpt=0") != std::string::npos);
    CHECK(gen.line.find(" steer=off") != std::string::npos);
    CHECK(gen.line.find(" pin=") != std::string::npos);
    stage.answer(gen, 1, 0, "1 0 0 0 0");
    const std::pair<const char*, const char*> bad[] = {
        {"3", "strata"},
        {"{\"checkpoint\":1}", "strata.checkpoint"},
        {"{\"pin_messages\":2}", "strata.pin_messages"},
        {"{\"pin_messages\":-1}", "strata.pin_messages"},
        {"{\"pin_messages\":\"1\"}", "strata.pin_messages"},
        {"{\"steering\":true}", "strata.steering"},
        {"{\"steering\":\"nobody\"}", "strata.steering"},
        {"{\"steering\":\"two words\"}", "strata.steering"},
        {"{\"steering\":\"\"}", "strata.steering"},
        {"{\"pin\":1}", "strata.pin"},
    };
    for (const auto& [value, path] : bad) {
        INFO(value);
        const Client refused = stage.chat("one", std::string(",\"strata\":") + value);
        stage.until([&] { return refused.sink->refused; });
        CHECK(refused.sink->param == path);
        CHECK(refused.sink->kind == ErrorKind::invalid_request);
    }
}

TEST_CASE("A steering mode that the engine has reaches GEN by its name") {
    ApiSettings settings;
    settings.steering_names = {"calm"};
    ServiceStage stage(settings);
    stage.ready();
    const Client client = stage.chat("one", ",\"strata\":{\"steering\":\"calm\"}");
    CHECK(stage.take_gen().line.find(" steer=calm") != std::string::npos);
    const Client plain = stage.chat("one");
    stage.say("DONE 0 9 1.0 1.0 stop 0 0 0 0 0 0 0 0 9 id=1");
    CHECK(stage.take_gen().line.find("steer=") == std::string::npos);
}

TEST_CASE("The format of the metrics follows Accept and the query") {
    const auto text = [](std::string_view accept, std::string_view format) {
        const auto wish = metrics_wish(accept, format, "");
        return wish && wish->prometheus;
    };
    CHECK_FALSE(text("", ""));
    CHECK_FALSE(text("*/*", ""));
    CHECK_FALSE(text("text/html,application/xhtml+xml,*/*;q=0.8", ""));
    CHECK_FALSE(text("application/json, text/plain", ""));
    CHECK(text("text/plain", ""));
    CHECK(text(
        "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", ""));
    CHECK_FALSE(text("text/plain;q=0.2, application/json;q=0.9", ""));
    CHECK_FALSE(text("text/plain;q=0", ""));
    CHECK(text("application/json", "prometheus"));
    CHECK_FALSE(text("text/plain", "json"));
    CHECK(metrics_wish("", "xml", "").error().param == "format");
    CHECK(metrics_wish("", "", "500")->rows == 500);
    for (const char* rows : {"0", "501", "-1", "x", "1.0"}) {
        CHECK(metrics_wish("", "", rows).error().param == "rows");
    }
}

}  // namespace strata::serve::tests
