// The api room's front door: http calls one method for each route. Owns the two workers and the
// runs' shared places; the engine, the text model and the monitor are given.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>

#include "serve/api/api_error.hpp"
#include "serve/api/chat_run.hpp"
#include "serve/api/exchange.hpp"
#include "serve/api/metrics_call.hpp"
#include "serve/api/settings.hpp"
#include "serve/api/text_calls.hpp"
#include "serve/monitor/hardware.hpp"
#include "serve/monitor/monitor.hpp"
#include "serve/monitor/speed_meter.hpp"
#include "serve/supervisor/engine_client.hpp"
#include "serve/text/text_model.hpp"

namespace strata::serve {

class Service {
  public:
    // All references outlive the service. `log` is told of each finished request.
    Service(boost::asio::any_io_executor io, EngineClient& engine, const TextModel& text,
            ApiSettings settings, std::function<void(const FinishedRequest&)> log);
    ~Service();
    Service(const Service&) = delete;
    Service& operator=(const Service&) = delete;

    // nullptr: refused, the sink has been told.
    std::shared_ptr<Exchange> chat_completions(const RequestFacts& facts, std::string body,
                                               std::shared_ptr<ReplySink> sink);
    std::shared_ptr<Exchange> completions(const RequestFacts& facts, std::string body,
                                          std::shared_ptr<ReplySink> sink);
    std::shared_ptr<Exchange> text_call(TextCall call, std::string body,
                                        std::shared_ptr<ReplySink> sink);

    // Load or unload the model. `wait`: the answer comes when that is over, else at once; what was
    // begun goes on when the client leaves.
    std::shared_ptr<Exchange> load(bool wait, std::shared_ptr<ReplySink> sink);
    std::shared_ptr<Exchange> unload(bool wait, std::shared_ptr<ReplySink> sink);

    Reply models();
    ApiResult<Reply> model(std::string_view id);
    Reply health();
    Reply status();
    Reply props();
    // fail_on_no_slot: 503 when every lane is busy.
    ApiResult<Reply> slots(bool fail_on_no_slot);
    Reply metrics(const MetricsWish& wish);

    // The list of parked conversations, as it is or after a change.
    std::shared_ptr<Exchange> cache_call(ApiResult<protocol::CacheCommand> command,
                                         std::shared_ptr<ReplySink> sink);

  private:
    std::shared_ptr<Exchange> start(const ChatDialect& dialect, const RequestFacts& facts,
                                    std::string body, std::shared_ptr<ReplySink> sink);
    std::int64_t context_tokens();
    // How a load went: an answer, or why there is no engine.
    ApiResult<Reply> load_answer() const;
    double tokens_per_second(const EngineView& view) const;
    void remember(const FinishedRequest& finished);
    MetricsInput metrics_input();

    ApiSettings settings_;
    EngineClient& engine_;
    const TextModel& text_;
    std::int64_t context_seen_ = 0;  // of the newest engine that said it; 0 = none was ready yet
    Monitor monitor_;
    SpeedMeter speed_;
    HardwareReader hardware_;
    HardwareReading hardware_seen_;
    std::chrono::steady_clock::time_point hardware_read_{};
    std::function<void(const FinishedRequest&)> log_;
    boost::asio::thread_pool workers_;
    ChatPlaces places_;
};

}  // namespace strata::serve
