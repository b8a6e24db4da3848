#include "tests/serve/monitor/service_stage.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <thread>

#include <boost/json/parse.hpp>
#include <catch2/catch.hpp>

#include "protocol/gen_command.hpp"
#include "protocol/gguf/gguf.hpp"

namespace strata::serve::tests {

namespace {

constexpr std::chrono::seconds kWaitMax{10};
constexpr std::chrono::seconds kRestartMax{120};
constexpr ExitStatus kCrashed{true, 11, false};

const TextModel& demo_model() {
    static const TextModel text = [] {
        auto header =
            gguf::read_header(STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-q8_0.gguf");
        if (!header) throw std::runtime_error(header.error().text);
        auto model = TextModel::from_header(*header);
        if (!model) throw std::runtime_error(model.error().text);
        return std::move(*model);
    }();
    return text;
}

SupervisorConfig quick_restarts() {
    SupervisorConfig config;
    config.restart.back_off.fill(std::chrono::milliseconds(1));
    return config;
}

}  // namespace

ServiceStage::ServiceStage(ApiSettings settings)
    : supervisor(quick_restarts(), launcher, time, log, [] { return 0.5; }) {
    settings.model_name = "demo";
    settings.cache.enabled = true;
    service = std::make_unique<Service>(io.get_executor(), supervisor, demo_model(),
                                        std::move(settings), nullptr);
    supervisor.start();
    settle();
}

void ServiceStage::settle() {
    io.restart();
    while (io.poll() > 0) {
    }
    time.settle();
}

void ServiceStage::until(const std::function<bool()>& holds) {
    const auto limit = std::chrono::steady_clock::now() + kWaitMax;
    settle();
    while (!holds()) {
        REQUIRE(std::chrono::steady_clock::now() < limit);
        std::this_thread::sleep_for(std::chrono::microseconds(50));
        settle();
    }
}

void ServiceStage::ready(bool older) {
    say(older ? "INFO protocol=1 context=4096 vocab=1000000"
              : "INFO protocol=1 context=4096 vocab=1000000 device=cpu conversation_cache_mib=512 "
                "conversation_cache_slots=4 conversation_cache_min_free_mib=2560 "
                "kv_bytes_per_token=4096 state_bytes=1048576 weights_mib=3");
    say("READY 4096 stop id cache ping batch=1");
    settle();
    REQUIRE(supervisor.view().state == EngineState::ready);
}

void ServiceStage::say(const std::string& line) {
    engine().say(line);
    settle();
}

void ServiceStage::restart() {
    const std::size_t before = launcher.launches.size();
    engine().end(kCrashed);
    settle();
    const auto begun = time.now();
    while (launcher.launches.size() == before) {
        REQUIRE(time.now() - begun < kRestartMax);
        time.advance(std::chrono::milliseconds(100));
        settle();
    }
    ready();
}

Client ServiceStage::ask(const std::string& body) {
    Client client;
    client.sink = std::make_shared<ClientSink>();
    client.sink->streams = body.find("\"stream\":true") != std::string::npos;
    client.id = "req-" + std::to_string(++asked_count_);
    RequestFacts facts;
    facts.request_id = client.id;
    client.exchange = service->chat_completions(facts, body, client.sink);
    return client;
}

Client ServiceStage::chat(const std::string& question, const std::string& more) {
    return ask(R"({"messages":[{"role":"user","content":")" + question + "\"}]" + more + "}");
}

bool ServiceStage::has_gen() {
    if (engine_number_ != launcher.launches.size()) {
        engine_number_ = launcher.launches.size();
        taken_in_engine_ = 0;
    }
    const std::vector<std::string>& written = engine().written;
    while (taken_in_engine_ < written.size() && !written[taken_in_engine_].starts_with("GEN ")) {
        ++taken_in_engine_;
    }
    return taken_in_engine_ < written.size();
}

AskedEngine ServiceStage::take_gen() {
    until([this] { return has_gen(); });
    std::string line = engine().written[taken_in_engine_++];
    if (line.ends_with('\n')) line.pop_back();
    const auto parsed = protocol::parse_gen_command(line);
    REQUIRE(parsed.ok());
    return {parsed->id, std::ssize(parsed->ids), parsed->max_new, line};
}

void ServiceStage::answer(const AskedEngine& gen, std::int64_t generated, std::int64_t reused,
                          const std::string& fields, const std::string& finish) {
    const std::string id = std::to_string(gen.id);
    for (std::int64_t i = 0; i < generated; ++i) say("T 300 id=" + id);
    say("DONE " + std::to_string(generated) + " " + std::to_string(gen.prompt_tokens) +
        " 10.0 20.0 " + finish + " 0 0 " + std::to_string(reused) + " 0 0 0 0 0 " +
        std::to_string(gen.prompt_tokens - reused) + " " + fields + " id=" + id);
}

boost::json::value ServiceStage::metrics(std::size_t rows) {
    MetricsWish wish;
    wish.rows = rows;
    return boost::json::parse(service->metrics(wish).body);
}

std::string ServiceStage::prometheus() {
    MetricsWish wish;
    wish.prometheus = true;
    return service->metrics(wish).body;
}

}  // namespace strata::serve::tests
