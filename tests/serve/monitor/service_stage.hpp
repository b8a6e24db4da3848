// The api room, the supervisor and the Monitor in one test: engines that the test speaks for, a
// clock that it moves, clients that remember what they heard. Everything happens on the test's
// thread but the reading of bodies.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <boost/json/value.hpp>

#include "serve/api/service.hpp"
#include "tests/serve/supervisor/fake_process.hpp"
#include "tests/serve/supervisor/fake_time.hpp"
#include "tests/serve/supervisor/recorders.hpp"

namespace strata::serve::tests {

// What a client got.
class ClientSink final : public ReplySink {
  public:
    void reply(Reply reply) override {
        status = reply.status;
        body = std::move(reply.body);
    }
    void refuse(const ApiError& error) override {
        refused = true;
        body = error.message;
        code = error.code;
        kind = error.kind;
        param = error.param;
    }
    void begin_events() override { status = 200; }
    void events(std::string_view frames) override { body += frames; }
    void end_events() override { ended = true; }
    bool over() const { return refused || ended || (status != 0 && !body.empty() && !streams); }

    int status = 0;
    std::string body;
    bool refused = false;
    std::string code;
    std::string param;
    ErrorKind kind = ErrorKind::invalid_request;
    bool ended = false;
    bool streams = false;
};

struct Client {
    std::shared_ptr<ClientSink> sink;
    std::shared_ptr<Exchange> exchange;
    std::string id;  // x-request-id
};

struct AskedEngine {
    std::uint64_t id = 0;
    std::int64_t prompt_tokens = 0;
    std::int64_t max_new = 0;
    std::string line;
};

class ServiceStage {
  public:
    explicit ServiceStage(ApiSettings settings = {});

    // Until `holds`; fails the test after ten seconds.
    void until(const std::function<bool()>& holds);
    void settle();
    // Makes the newest engine ready. An older one prints no cache names.
    void ready(bool older = false);
    ProcessRecord& engine() { return launcher.last(); }
    void say(const std::string& line);
    // Ends the engine by a crash and waits for the next one, ready.
    void restart();

    Client ask(const std::string& body);
    Client chat(const std::string& question, const std::string& more = "");
    // The next GEN that no test has taken yet.
    AskedEngine take_gen();
    bool has_gen();
    // Answers a GEN with `tokens` T lines and a DONE.
    void answer(const AskedEngine& gen, std::int64_t generated, std::int64_t reused,
                const std::string& fields = "", const std::string& finish = "stop");
    boost::json::value metrics(std::size_t rows = RequestHistory::kRowsMax);
    std::string prometheus();

    boost::asio::io_context io;
    FakeTime time;
    FakeLauncher launcher{time};
    RecordingLog log;
    EngineSupervisor supervisor;
    std::unique_ptr<Service> service;

  private:
    std::size_t asked_count_ = 0;
    std::size_t taken_in_engine_ = 0;  // lines of the newest process that were looked at
    std::size_t engine_number_ = 0;
};

}  // namespace strata::serve::tests
