// Composition and the two ends of a server's life.
#include "serve/running_server.hpp"

#include <csignal>
#include <random>
#include <utility>

#include <boost/asio/ip/host_name.hpp>
#include <unistd.h>

#include "serve/api/json_writer.hpp"
#include "serve/composition.hpp"
#include "serve/start_text.hpp"

namespace strata::serve {

namespace net = boost::asio;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::milliseconds kTick{100};      // of the load bar
constexpr std::chrono::seconds kLoadLineEvery{5};    // where there is no terminal
constexpr std::chrono::seconds kFinishGrace{5};      // for running requests when the server leaves
constexpr std::chrono::seconds kFlushGrace{2};       // for their last bytes, then
constexpr std::chrono::milliseconds kLeaveTick{20};  // looks for the last request's end
constexpr int kInterruptedStatus = 130;              // as a shell says it for SIGINT

std::vector<std::string> own_names() {
    boost::system::error_code code;
    const std::string name = net::ip::host_name(code);
    if (code || name.empty()) return {};
    return {name, name + ".local"};
}

std::int64_t unix_now() {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::seconds>(now).count();
}

std::function<double()> random_share() {
    return [engine = std::mt19937_64(std::random_device{}())]() mutable {
        return std::uniform_real_distribution<double>(0.0, 1.0)(engine);
    };
}

}  // namespace

RunningServer::RunningServer(const Config& config, const ModelFacts& facts, TextModel text,
                             Log& log)
    : config_(config),
      log_(log),
      facts_(facts),
      text_(std::move(text)),
      supervisor_(supervisor_config(config, ::getpid()), launcher_, time_, log, random_share(),
                  &vram_),
      pages_(make_page_files(config.ui_dir)),
      service_(io_.get_executor(), supervisor_, text_, api_settings(config, facts, unix_now()),
               [this](const FinishedRequest& finished) { tell_finished(finished); }),
      http_(io_, http_settings(config, own_names()), service_, pages_.get()),
      signals_(io_),
      ticks_(io_),
      leaving_(io_) {}

Status<> RunningServer::listen() {
    return http_.listen();
}

int RunningServer::run() {
    signals_.add(SIGINT);
    signals_.add(SIGTERM);
    signals_.add(SIGHUP);  // the terminal is gone
    await_signal();
    load_began_ = Clock::now();
    load_said_ = load_began_;
    const std::string model = config_.model_name + " (" +
                              std::to_string(facts_.file_bytes / 1'000'000) + " MB) from " +
                              config_.model_path;
    const std::string address = "listening on " + address_text(config_.host, http_.port());
    if (config_.load.lazy) {
        log_.line(address + "; the first request loads " + model);
        supervisor_.start_lazily();
        show_ready(supervisor_.view());
    } else {
        log_.line(address + "; requests get 503 until the model is loaded");
        log_.line("loading " + model);
        supervisor_.start();
    }
    tick();
    io_.run();
    return exit_status_;
}

void RunningServer::tell_finished(const FinishedRequest& finished) {
    log_.request(finished);
    if (!config_.log_prompts) return;
    // As JSON strings: whatever a stranger wrote stays one line.
    JsonWriter prompt;
    JsonWriter answer;
    log_.line(finished.request_id + " prompt text " + prompt.string(finished.prompt_text).text());
    log_.line(finished.request_id + " answer text " + answer.string(finished.answer_text).text());
}

void RunningServer::tick() {
    const EngineView view = supervisor_.view();
    if (!leaving_now_) {
        if (view.state == EngineState::ready && view.epoch != epoch_said_ready_) {
            show_ready(view);
        } else if (view.state == EngineState::loading) {
            show_loading(view);
        }
    }
    ticks_.expires_after(kTick);
    ticks_.async_wait([this](boost::system::error_code code) {
        if (!code) tick();
    });
}

void RunningServer::show_loading(const EngineView& view) {
    const Clock::time_point now = Clock::now();
    if (view.epoch != epoch_loading_) {
        epoch_loading_ = view.epoch;
        load_began_ = now;
        load_said_ = now;
    }
    LoadProgress progress;
    progress.share = view.load_progress;
    progress.bytes_total = facts_.file_bytes;
    progress.elapsed = now - load_began_;
    progress.left = view.eta;
    if (log_.terminal()) {
        log_.bar("loading " + load_text(progress));
    } else if (now - load_said_ >= kLoadLineEvery) {
        load_said_ = now;
        log_.line("loading " + load_text(progress));
    }
}

void RunningServer::show_ready(const EngineView& view) {
    const bool first = !std::exchange(address_said_, true);
    epoch_said_ready_ = view.epoch;
    if (!first) {
        log_.line("the engine is ready (start " + std::to_string(view.epoch) + ")");
        return;
    }
    ReadyFacts facts;
    facts.model = config_.model_name;
    facts.host = config_.host;
    facts.port = http_.port();
    const std::int64_t expected = api_settings(config_, facts_, 0).expected_context;
    facts.context_tokens = view.info ? view.info->context_tokens.value_or(expected) : expected;
    facts.key_set = !config_.api_keys.empty();
    facts.has_page = pages_->has("/");
    log_.block(ready_text(facts));
}

void RunningServer::await_signal() {
    signals_.async_wait([this](boost::system::error_code code, int) {
        if (code) return;
        if (leaving_now_) {
            exit_status_ = kInterruptedStatus;
            io_.stop();
            return;
        }
        leave();
        await_signal();
    });
}

void RunningServer::leave() {
    leaving_now_ = true;
    log_.bar("");
    log_.line("leaving: running requests have " + std::to_string(kFinishGrace.count()) +
              " s to end (again: at once)");
    http_.stop_accepting();
    wait_for_connections(Clock::now() + kFinishGrace, [this] {
        // The engine's end ends each request in words, which are on their way then.
        supervisor_.shut_down([this] {
            wait_for_connections(Clock::now() + kFlushGrace, [this] {
                http_.abort_all();
                io_.stop();
            });
        });
    });
}

void RunningServer::wait_for_connections(Clock::time_point deadline, std::function<void()> then) {
    if (http_.open_connections() == 0 || Clock::now() >= deadline) {
        then();
        return;
    }
    leaving_.expires_after(kLeaveTick);
    leaving_.async_wait(
        [this, deadline, then = std::move(then)](boost::system::error_code code) mutable {
            if (!code) wait_for_connections(deadline, std::move(then));
        });
}

}  // namespace strata::serve
