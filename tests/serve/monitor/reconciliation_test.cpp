// The books of /metrics against those of the engine's script: 1,000 requests of every kind, among
// them clients that leave, two passes, refusals, restarts and DONEs that belong to nobody. Two
// scrapers look on at their own pace. Every sum must come out, and nothing may fall on the way.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/serve/monitor/service_stage.hpp"

namespace strata::serve::tests {
namespace {

namespace json = boost::json;

constexpr int kRequests = 1000;
constexpr std::uint32_t kSeed = 20260105;

// What the script did.
struct Truth {
    std::int64_t requests = 0;
    std::int64_t turned_away = 0;  // before they reached the engine
    std::int64_t prompt_tokens = 0;
    std::int64_t reused_tokens = 0;
    std::int64_t output_tokens = 0;
    std::int64_t switches = 0;
    std::int64_t hits = 0;
    std::int64_t foreign_dones = 0;
    std::map<std::string, std::int64_t> finished;  // by Prometheus' reason
};

std::int64_t whole(const json::value& value) {
    return value.to_number<std::int64_t>();
}

// The series of a page: name with labels -> value.
std::map<std::string, double> series_of(const std::string& page) {
    std::map<std::string, double> out;
    std::istringstream lines(page);
    for (std::string line; std::getline(lines, line);) {
        if (line.empty() || line[0] == '#') continue;
        const std::size_t space = line.rfind(' ');
        out[line.substr(0, space)] = std::stod(line.substr(space + 1));
    }
    return out;
}

// One reader of /metrics, in one of its two formats; remembers the counters of the time before.
class Scraper {
  public:
    void look(ServiceStage& stage) {
        const json::value metrics = stage.metrics();
        const json::value& cache = metrics.at("conversation_cache");
        share(whole(cache.at("reused_tokens")), whole(cache.at("prompt_tokens")));
        share(whole(cache.at("hits")), whole(cache.at("switches")));
        share(whole(cache.at("switches")), whole(cache.at("rows")));
        for (const auto& [name, value] : cache.at("totals").as_object()) rises(name, value);
        rises("foreign", metrics.at("engine").at("foreign_dones"));
        ++looks;
    }
    void look_at_text(ServiceStage& stage) {
        for (const auto& [name, value] : series_of(stage.prometheus())) {
            if (value < 0) wrong += name + " is negative; ";
            const bool counts = name.find("_total{") != std::string::npos ||
                                name.find("_bucket{") != std::string::npos ||
                                name.find("_count{") != std::string::npos;
            if (!counts) continue;
            if (value < counters_[name]) wrong += name + " fell; ";
            counters_[name] = value;
        }
        ++looks;
    }
    std::string wrong;
    int looks = 0;

  private:
    void share(std::int64_t part, std::int64_t all) {
        if (part < 0 || part > all) wrong += "a share is not in 0..100 %; ";
    }
    void rises(const std::string& name, const json::value& value) {
        const double now = value.to_number<double>();
        if (now < counters_[name]) wrong += name + " fell; ";
        counters_[name] = now;
    }
    std::map<std::string, double> counters_;
};

class MixedDay {
  public:
    MixedDay() : dice_(kSeed) { stage.ready(); }

    void run() {
        for (int i = 0; i < kRequests; ++i) {
            one_request();
            if (i % 37 == 5) first.look(stage);
            if (i % 53 == 9) second.look_at_text(stage);
            if (i % 61 == 11) stray_done();
        }
        first.look(stage);
        second.look_at_text(stage);
    }

    ServiceStage stage;
    Truth truth;
    Scraper first;
    Scraper second;

  private:
    std::int64_t roll(std::int64_t sides) {
        return static_cast<std::int64_t>(dice_() % static_cast<std::uint32_t>(sides));
    }

    void one_request() {
        const std::int64_t kind = roll(12);
        if (kind == 0) return two_passes();
        if (kind == 1) return leaves_while_it_runs();
        if (kind == 2) return leaves_while_it_waits();
        if (kind == 3) return refused();
        if (kind == 4 && roll(3) == 0) return dies();
        if (kind == 5 && roll(3) == 0) return turned_away();
        answered(kind % 2 == 0);
    }

    std::string body_more(bool stream) { return stream ? ",\"stream\":true" : ""; }

    // Fields 15-19 of a request, or none: an engine may print 14.
    std::string fields_for(std::int64_t reused, bool count) {
        if (roll(8) == 0) return "";
        const bool switched = roll(2) == 0;
        const bool restored = switched && reused > 0 && roll(2) == 0;
        if (count && switched) ++truth.switches;
        if (count && restored) ++truth.hits;
        return std::string(switched ? "1 " : "0 ") + (restored ? "1 " : "0 ") +
               std::to_string(roll(5)) + " " + std::to_string(roll(100000)) + " 0";
    }

    void count(const AskedEngine& gen, std::int64_t reused, std::int64_t generated,
               const std::string& reason) {
        ++truth.requests;
        truth.prompt_tokens += gen.prompt_tokens;
        truth.reused_tokens += reused;
        truth.output_tokens += generated;
        ++truth.finished[reason];
    }

    void answered(bool stream) {
        const Client client = stage.chat(question(), body_more(stream));
        const AskedEngine gen = stage.take_gen();
        const std::int64_t reused = roll(gen.prompt_tokens);
        const std::int64_t generated = roll(6);
        const bool length = roll(3) == 0;
        stage.answer(gen, generated, reused, fields_for(reused, true), length ? "length" : "stop");
        count(gen, reused, generated, length ? "length" : "stop");
        if (stream) {
            CHECK(client.sink->ended);
        } else {
            check_usage(*client.sink, gen, reused, generated);
        }
    }

    // The client's own figures are the same.
    static void check_usage(const ClientSink& sink, const AskedEngine& gen, std::int64_t reused,
                            std::int64_t generated) {
        REQUIRE(sink.status == 200);
        const std::string prompt = "\"prompt_tokens\":" + std::to_string(gen.prompt_tokens);
        const std::string output = "\"completion_tokens\":" + std::to_string(generated);
        const std::string cached = "\"cached_tokens\":" + std::to_string(reused);
        CHECK(sink.body.find(prompt) != std::string::npos);
        CHECK(sink.body.find(output) != std::string::npos);
        CHECK(sink.body.find(cached) != std::string::npos);
    }

    void two_passes() {
        const Client client = stage.chat(question(),
                                         ",\"reasoning_budget_tokens\":3,\"max_tokens\":40,"
                                         "\"chat_template_kwargs\":{\"enable_thinking\":true}");
        const AskedEngine gen = stage.take_gen();
        const std::int64_t reused = roll(gen.prompt_tokens);
        const std::string fields = fields_for(reused, true);
        stage.answer(gen, gen.max_new, reused, fields, "length");
        const AskedEngine last = stage.take_gen();
        stage.answer(last, 4, gen.prompt_tokens, "0 0 1 5 0");
        count(gen, reused, gen.max_new + 4, "stop");
        check_usage(*client.sink, gen, reused, gen.max_new + 4);
    }

    void leaves_while_it_runs() {
        const Client client = stage.chat(question(), body_more(true));
        const AskedEngine gen = stage.take_gen();
        stage.say("T 300 id=" + std::to_string(gen.id));
        client.exchange->client_left();
        const std::int64_t reused = roll(gen.prompt_tokens);
        if (roll(6) == 0) {  // and its engine dies on the way
            stage.restart();
            ++truth.requests;
            ++truth.output_tokens;
            ++truth.finished["abort"];
            return;
        }
        const std::string fields = fields_for(reused, true);
        if (roll(2) == 0) return cancelled_while_read(gen, reused, fields);
        stage.answer(gen, 2, reused, fields, "cancel");
        count(gen, reused, 2, "abort");
    }

    void cancelled_while_read(AskedEngine gen, std::int64_t reused, const std::string& fields) {
        const std::int64_t read = roll(gen.prompt_tokens - reused);
        stage.say("DONE 1 " + std::to_string(gen.prompt_tokens) + " 10.0 20.0 cancel 0 0 " +
                  std::to_string(reused) + " 0 0 0 0 0 " + std::to_string(read) + " " + fields +
                  " id=" + std::to_string(gen.id));
        gen.prompt_tokens = reused + read;
        count(gen, reused, 1, "abort");
    }

    void turned_away() {
        const Client client = stage.ask(R"({"messages":[],"n":)" + std::to_string(roll(9)) + "}");
        stage.until([&] { return client.sink->refused; });
        ++truth.turned_away;
    }

    void leaves_while_it_waits() {
        const Client runs = stage.chat(question());
        const AskedEngine gen = stage.take_gen();
        const Client waits = stage.chat(question());
        stage.until([&] { return stage.supervisor.view().queued == 1; });
        waits.exchange->client_left();
        ++truth.requests;
        ++truth.finished["abort"];
        const std::int64_t reused = roll(gen.prompt_tokens);
        const std::string fields = fields_for(reused, true);
        stage.answer(gen, 1, reused, fields);
        count(gen, reused, 1, "stop");
        CHECK_FALSE(stage.has_gen());
    }

    void refused() {
        const Client client = stage.chat(question());
        const AskedEngine gen = stage.take_gen();
        stage.say("ERR out_of_memory id=" + std::to_string(gen.id) + " text=no room");
        CHECK(client.sink->refused);
        ++truth.requests;
        ++truth.finished["error"];
    }

    void dies() {
        const Client client = stage.chat(question());
        const AskedEngine gen = stage.take_gen();
        const std::int64_t written = roll(3);
        const std::string id = " id=" + std::to_string(gen.id);
        const std::int64_t reused = roll(4);
        stage.say("RESUME " + std::to_string(reused) + id + " source=root");
        stage.say("PP " + std::to_string(reused + 2) + " " + std::to_string(gen.prompt_tokens) +
                  " 5.0 100.0" + id);
        for (std::int64_t i = 0; i < written; ++i) stage.say("T 300 id=" + std::to_string(gen.id));
        stage.restart();
        CHECK(client.sink->refused);
        ++truth.requests;
        truth.prompt_tokens += reused + 2;
        truth.reused_tokens += reused;
        truth.output_tokens += written;
        ++truth.finished["error"];
    }

    void stray_done() {
        stage.say("DONE 99 99 1.0 1.0 stop 0 0 99 0 0 0 0 0 99 1 1 9 9 9 id=" +
                  std::to_string(1 + roll(5)));
        ++truth.foreign_dones;
    }

    std::string question() { return "question " + std::to_string(roll(1000)); }

    std::mt19937 dice_;
};

}  // namespace

TEST_CASE("The sums of a mixed day are those of the engine's script") {
    MixedDay day;
    day.run();
    const Truth& truth = day.truth;
    const json::value metrics = day.stage.metrics();
    const json::value& totals = metrics.at("conversation_cache").at("totals");
    CHECK(whole(totals.at("requests")) == truth.requests);
    CHECK(truth.requests + truth.turned_away >= kRequests);
    CHECK(truth.turned_away > 10);
    CHECK(whole(metrics.at("totals").at("refused")) == truth.turned_away);
    CHECK(whole(metrics.at("totals").at("prompt_tokens")) == truth.prompt_tokens);
    CHECK(whole(totals.at("prompt_tokens")) == truth.prompt_tokens);
    CHECK(whole(totals.at("reused_tokens")) == truth.reused_tokens);
    CHECK(whole(totals.at("output_tokens")) == truth.output_tokens);
    CHECK(whole(totals.at("switches")) == truth.switches);
    CHECK(whole(totals.at("hits")) == truth.hits);
    CHECK(whole(metrics.at("totals").at("requests")) == truth.requests);
    CHECK(whole(metrics.at("totals").at("output_tokens")) == truth.output_tokens);
    CHECK(whole(metrics.at("engine").at("foreign_dones")) == truth.foreign_dones);

    const auto series = series_of(day.stage.prometheus());
    const auto value = [&](const std::string& name, const std::string& labels = "") {
        return std::llround(series.at(name + "{model_name=\"demo\"" + labels + "}"));
    };
    CHECK(value("vllm:prompt_tokens_total") == truth.prompt_tokens);
    CHECK(value("vllm:generation_tokens_total") == truth.output_tokens);
    CHECK(value("vllm:prefix_cache_hits_total") == truth.reused_tokens);
    CHECK(value("strata:conversation_switches_total", ",result=\"hit\"") == truth.hits);
    CHECK(value("strata:conversation_switches_total", ",result=\"miss\"") ==
          truth.switches - truth.hits);
    for (const auto& [reason, count] : truth.finished) {
        INFO(reason);
        CHECK(value("vllm:request_success_total", ",finished_reason=\"" + reason + "\"") == count);
    }
    CHECK(value("vllm:e2e_request_latency_seconds_count") == truth.requests);
    CHECK(value("strata:requests_refused_total", ",type=\"invalid_request_error\"") ==
          truth.turned_away);
    CHECK(day.first.wrong == "");
    CHECK(day.second.wrong == "");
    CHECK(day.first.looks > 20);
    CHECK(day.second.looks > 15);
}

TEST_CASE("Two scrapers see what one alone would have seen") {
    MixedDay alone;
    MixedDay watched;
    for (int i = 0; i < 3; ++i) {
        watched.first.look(watched.stage);
        watched.second.look_at_text(watched.stage);
    }
    const Client one = alone.stage.chat("one");
    alone.stage.answer(alone.stage.take_gen(), 2, 1, "1 1 1 1 0");
    const Client other = watched.stage.chat("one");
    watched.stage.answer(watched.stage.take_gen(), 2, 1, "1 1 1 1 0");
    watched.second.look_at_text(watched.stage);
    const auto cache = [](MixedDay& day) {
        json::value metrics = day.stage.metrics();
        json::object out = metrics.at("conversation_cache").as_object();
        out.erase("as_of");
        return out;
    };
    CHECK(cache(alone) == cache(watched));
}

}  // namespace strata::serve::tests
