// The http and api rooms in this process, with an engine that the test plays and times that tests
// can wait for. The I/O thread is the server's; on_io() runs a piece of the test on it.
#pragma once

#include <functional>
#include <future>
#include <memory>
#include <thread>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>

#include "serve/api/service.hpp"
#include "serve/http/server.hpp"
#include "tests/support/http_client.hpp"
#include "tests/support/scripted_engine.hpp"

namespace strata::tests {

inline const char* const kChatBody = R"({"messages":[{"role":"user","content":"hi"}]})";
inline const char* const kStreamBody =
    R"({"messages":[{"role":"user","content":"hi"}],"stream":true})";

class LocalServer {
  public:
    explicit LocalServer(serve::HttpSettings http = {}, serve::ApiSettings api = {});
    ~LocalServer();

    std::uint16_t port() const { return port_; }
    // Runs `work` on the I/O thread and waits for it.
    void on_io(const std::function<void()>& work);
    template <class T>
    T from_io(const std::function<T()>& work) {
        T value{};
        on_io([&] { value = work(); });
        return value;
    }
    // Until the engine has been asked `count` times; false when that does not happen.
    bool asked(std::size_t count);
    bool cancelled(std::size_t count, Wait wait = kPatience);
    // Admits request `index`, writes `tokens` and ends it.
    void answer(std::size_t index, const std::vector<std::int32_t>& tokens);

    ScriptedEngine engine;  // on the I/O thread only
    std::vector<serve::FinishedRequest> finished;

  private:
    boost::asio::io_context io_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_;
    std::unique_ptr<serve::Service> service_;

  public:
    std::unique_ptr<serve::HttpServer> http;

  private:
    std::uint16_t port_ = 0;
    std::thread thread_;
};

// The text model of the demo; read once.
const serve::TextModel& demo_text();

// A text that the demo's vocabulary has as one token, and its id.
std::int32_t token_of(std::string_view text);

}  // namespace strata::tests
