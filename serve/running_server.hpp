// The composed server: text model, supervisor, api, http on one io_context, from the first line on
// the terminal to the last.
//
//   run(): listening, loading --READY--> serving --first signal--> leaving --all gone--> returns
//                                      second signal: returns at once; the engine is killed
//
// leaving: idle connections end now, running requests within a grace; then the engine ends, which
// ends what still runs in words; the words are written; then the connections are cut.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include "serve/api/service.hpp"
#include "serve/config.hpp"
#include "serve/http/server.hpp"
#include "serve/log.hpp"
#include "serve/monitor/vram_reader.hpp"
#include "serve/supervisor/asio_process.hpp"
#include "serve/supervisor/asio_time.hpp"
#include "serve/supervisor/engine_supervisor.hpp"
#include "serve/text/text_model.hpp"

namespace strata::serve {

class RunningServer {
  public:
    RunningServer(const Config& config, const ModelFacts& facts, TextModel text, Log& log);

    // Binds the port; a refusal says what to do about it.
    Status<> listen();
    // Until it has ended. The exit status: 0, or 130 after a second signal.
    int run();

  private:
    void tell_finished(const FinishedRequest& finished);
    void tick();
    void show_loading(const EngineView& view);
    void show_ready(const EngineView& view);
    void await_signal();
    void leave();
    // Until every connection has ended by itself, at most until `deadline`.
    void wait_for_connections(std::chrono::steady_clock::time_point deadline,
                              std::function<void()> then);

    Config config_;
    Log& log_;
    ModelFacts facts_;
    TextModel text_;
    boost::asio::io_context io_{1};
    AsioTime time_{io_};
    AsioLauncher launcher_{io_};
    VramReader vram_;
    EngineSupervisor supervisor_;
    std::unique_ptr<PageFiles> pages_;
    Service service_;
    HttpServer http_;
    boost::asio::signal_set signals_;
    boost::asio::steady_timer ticks_;
    boost::asio::steady_timer leaving_;
    std::chrono::steady_clock::time_point load_began_;
    std::chrono::steady_clock::time_point load_said_;
    std::uint64_t epoch_loading_ = 0;
    std::uint64_t epoch_said_ready_ = 0;
    bool address_said_ = false;
    bool leaving_now_ = false;
    int exit_status_ = 0;
};

}  // namespace strata::serve
