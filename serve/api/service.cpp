// Routes to documents and runs.
#include "serve/api/service.hpp"

#include <utility>

#include <boost/asio/post.hpp>

#include "serve/api/cache_calls.hpp"
#include "serve/api/completion_reply.hpp"
#include "serve/api/completion_request.hpp"
#include "serve/api/engine_errors.hpp"
#include "serve/api/json_scan.hpp"
#include "serve/api/openai_reply.hpp"
#include "serve/api/openai_request.hpp"
#include "serve/api/status_json.hpp"
#include "serve/monitor/metrics_json.hpp"
#include "serve/monitor/prometheus.hpp"

namespace strata::serve {

namespace {

// Templates and tokenizing: the I/O thread stays free for the streams.
constexpr std::size_t kWorkerThreads = 2;

OpenAiIdentity identity_of(std::string_view kind, const ApiSettings& settings,
                           const RequestFacts& facts) {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    OpenAiIdentity identity;
    identity.id = std::string(kind) + facts.request_id;
    identity.created = std::chrono::duration_cast<std::chrono::seconds>(now).count();
    identity.model = settings.model_name;
    return identity;
}

std::unique_ptr<ReplyWriter> openai_writer(const ChatRequest& request, const ApiSettings& settings,
                                           const RequestFacts& facts,
                                           std::shared_ptr<ReplySink> sink) {
    return make_openai_writer(request, identity_of("chatcmpl-", settings, facts), std::move(sink));
}

std::unique_ptr<ReplyWriter> completion_writer(const ChatRequest& request,
                                               const ApiSettings& settings,
                                               const RequestFacts& facts,
                                               std::shared_ptr<ReplySink> sink) {
    return make_completion_writer(request, identity_of("cmpl-", settings, facts), std::move(sink));
}

constexpr ChatDialect kOpenAiChat{parse_openai_chat, openai_writer};
constexpr ChatDialect kOpenAiCompletion{parse_openai_completion, completion_writer};

// A call whose answer is not there yet.
class PendingCall final : public Exchange {
  public:
    explicit PendingCall(std::shared_ptr<ReplySink> sink = nullptr) : sink_(std::move(sink)) {}
    void client_left() override {
        left_ = true;
        sink_.reset();
    }
    void client_too_slow(const std::string&) override { client_left(); }
    std::string keep_alive() override { return {}; }
    bool left() const { return left_; }
    // Of who waits; nobody does any more when it is null.
    ReplySink* sink() const { return sink_.get(); }

  private:
    std::shared_ptr<ReplySink> sink_;
    bool left_ = false;
};

// The machine is read at most this often, however many pages ask.
constexpr std::chrono::milliseconds kHardwareInterval{900};

double unix_seconds(std::chrono::system_clock::time_point time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
}

protocol::Finish finish_of(AnswerFinish finish) {
    switch (finish) {
        case AnswerFinish::stop:
            return protocol::Finish::stop;
        case AnswerFinish::length:
            return protocol::Finish::length;
        case AnswerFinish::cancel:
            return protocol::Finish::cancel;
        case AnswerFinish::error:
            break;
    }
    return protocol::Finish::error;
}

Reply json_reply(std::string body) {
    Reply reply;
    reply.body = std::move(body);
    return reply;
}

}  // namespace

Service::Service(boost::asio::any_io_executor io, EngineClient& engine, const TextModel& text,
                 ApiSettings settings, std::function<void(const FinishedRequest&)> log)
    : settings_(std::move(settings)),
      engine_(engine),
      text_(text),
      monitor_([] { return unix_seconds(std::chrono::system_clock::now()); }),
      log_(std::move(log)),
      workers_(kWorkerThreads),
      places_{std::move(io),
              workers_,
              engine,
              text,
              settings_,
              speed_,
              [this](const FinishedRequest& finished) { remember(finished); }} {
    engine_.observe(&monitor_);
}

Service::~Service() {
    engine_.observe(nullptr);
    workers_.stop();
    workers_.join();
}

std::int64_t Service::context_tokens() {
    const EngineView view = engine_.view();
    if (view.info && view.info->context_tokens) context_seen_ = *view.info->context_tokens;
    return context_seen_ > 0 ? context_seen_ : settings_.expected_context;
}

std::shared_ptr<Exchange> Service::chat_completions(const RequestFacts& facts, std::string body,
                                                    std::shared_ptr<ReplySink> sink) {
    return start(kOpenAiChat, facts, std::move(body), std::move(sink));
}

std::shared_ptr<Exchange> Service::completions(const RequestFacts& facts, std::string body,
                                               std::shared_ptr<ReplySink> sink) {
    return start(kOpenAiCompletion, facts, std::move(body), std::move(sink));
}

std::shared_ptr<Exchange> Service::text_call(TextCall call, std::string body,
                                             std::shared_ptr<ReplySink> sink) {
    if (const auto refusal =
            queue_refusal(engine_.view(), places_.preparing, settings_.queue_max)) {
        sink->refuse(*refusal);
        return nullptr;
    }
    auto exchange = std::make_shared<PendingCall>();
    ++places_.preparing;
    const TextPlaces text{text_, settings_, context_tokens()};
    boost::asio::post(workers_, [this, call, text, exchange, body = std::move(body),
                                 sink = std::move(sink)]() mutable {
        ApiResult<Reply> result = call(body, text);
        boost::asio::post(places_.io, [this, exchange, sink = std::move(sink),
                                       result = std::move(result)]() mutable {
            --places_.preparing;
            if (exchange->left()) return;
            if (result) {
                sink->reply(std::move(*result));
            } else {
                sink->refuse(result.error());
            }
        });
    });
    return exchange;
}

std::shared_ptr<Exchange> Service::start(const ChatDialect& dialect, const RequestFacts& facts,
                                         std::string body, std::shared_ptr<ReplySink> sink) {
    const std::int64_t n_ctx = context_tokens();
    const EngineView view = engine_.view();
    std::optional<ApiError> refusal = not_ready(view, context_seen_ > 0);
    if (!refusal) refusal = queue_refusal(view, places_.preparing, settings_.queue_max);
    if (refusal) {
        monitor_.refused(std::string(error_type(refusal->kind)));
        sink->refuse(*refusal);
        return nullptr;
    }
    auto run = std::make_shared<ChatRun>(places_, dialect, facts, n_ctx, std::move(sink));
    run->start(std::move(body));
    return run;
}

ApiResult<Reply> Service::load_answer() const {
    const EngineView view = engine_.view();
    if (view.state == EngineState::ready) return life_reply(view);
    if (auto error = not_ready(view, true)) return Failure{std::move(*error)};
    ApiError error;
    error.kind = view.refusal_code.empty() ? ErrorKind::conflict : ErrorKind::unavailable;
    error.code = view.refusal_code.empty() ? "unloaded_again" : view.refusal_code;
    error.message =
        view.refusal_code.empty() ? "the model was unloaded again meanwhile" : view.failure;
    error.retry_after = retry_after(view);
    return Failure{std::move(error)};
}

std::shared_ptr<Exchange> Service::load(bool wait, std::shared_ptr<ReplySink> sink) {
    auto call = std::make_shared<PendingCall>(wait ? sink : nullptr);
    engine_.load([this, call] {
        if (call->sink() == nullptr) return;
        ApiResult<Reply> answer = load_answer();
        if (answer) {
            call->sink()->reply(std::move(*answer));
        } else {
            call->sink()->refuse(answer.error());
        }
    });
    if (wait) return call;
    sink->reply(life_reply(engine_.view()));
    return nullptr;
}

std::shared_ptr<Exchange> Service::unload(bool wait, std::shared_ptr<ReplySink> sink) {
    auto call = std::make_shared<PendingCall>(wait ? sink : nullptr);
    const bool begun = engine_.unload([this, call] {
        if (call->sink() != nullptr) call->sink()->reply(life_reply(engine_.view()));
    });
    if (!begun) {
        ApiError error;
        error.kind = ErrorKind::conflict;
        error.code = "engine_busy";
        error.message =
            "a request runs or waits, so the model stays; send this again when it has ended";
        error.retry_after = std::chrono::seconds(1);
        sink->refuse(error);
        return nullptr;
    }
    if (wait) return call;
    sink->reply(life_reply(engine_.view()));
    return nullptr;
}

Reply Service::models() {
    const std::int64_t n_ctx = context_tokens();
    const std::string model = model_json(engine_.view(), settings_, text_, n_ctx);
    return json_reply(R"({"object":"list","data":[)" + model + R"(],"has_more":false})");
}

// Under any name, as chat serves it; the object has the real one.
ApiResult<Reply> Service::model(std::string_view id) {
    if (!settings_.strict_model || id == settings_.model_name) {
        return json_reply(model_json(engine_.view(), settings_, text_, context_tokens()));
    }
    ApiError error;
    error.kind = ErrorKind::not_found;
    error.param = "model";
    error.code = "model_not_found";
    error.message = "no model of this name is served here; GET /v1/models lists what is";
    return Failure{std::move(error)};
}

Reply Service::health() {
    const std::int64_t n_ctx = context_tokens();
    return health_reply(engine_.view(), settings_, n_ctx);
}

// Of the last whole second; of the running one when the answer has just begun.
double Service::tokens_per_second(const EngineView& view) const {
    if (!view.busy || view.generated == 0) return 0;
    const std::vector<SpeedSample> samples = speed_.samples(steady_seconds());
    const std::int64_t whole = samples[samples.size() - 2].written_tokens;
    return static_cast<double>(whole > 0 ? whole : samples.back().written_tokens);
}

Reply Service::status() {
    const EngineView view = engine_.view();
    boost::json::object status = status_json(view, std::chrono::steady_clock::now());
    status["tok_s"] = tokens_per_second(view);
    return json_reply(json_text(status));
}

Reply Service::props() {
    const std::int64_t n_ctx = context_tokens();
    return json_reply(props_json(engine_.view(), settings_, text_, n_ctx));
}

ApiResult<Reply> Service::slots(bool fail_on_no_slot) {
    const EngineView view = engine_.view();
    const bool takes_one = view.state == EngineState::ready ||
                           view.state == EngineState::unloaded ||
                           view.state == EngineState::unloading;
    if (fail_on_no_slot && (view.busy || !takes_one)) {
        ApiError error;
        error.kind = ErrorKind::unavailable;
        error.code = "no_slot";
        error.message = "no slot is free";
        error.retry_after = std::chrono::seconds(1);
        return Failure{std::move(error)};
    }
    return json_reply(slots_json(view, context_tokens()));
}

void Service::remember(const FinishedRequest& finished) {
    HistoryRow row;
    row.began_s = unix_seconds(finished.began);
    row.time_s = row.began_s + finished.duration_ms / 1000.0;
    row.request_id = finished.request_id;
    row.duration_s = finished.duration_ms / 1000.0;
    row.queue_ms = finished.queue_ms;
    if (finished.ticket) {
        row.admitted_s = row.began_s + finished.queue_ms.value_or(0) / 1000.0;
        row.epoch = finished.ticket->epoch;
        row.ticket = finished.ticket->id;
    }
    row.ttft_ms = finished.ttft_ms;
    row.done = finished.done;
    row.passes = finished.passes;
    row.failure = finished.failure;
    row.finish = finish_of(finished.finish);
    row.refusal = finished.refusal;
    if (finished.prompt_tokens > 0) row.prompt_length = finished.prompt_tokens;
    row.prompt_tokens = finished.prompt_had;
    row.reused = finished.prompt_reused;
    row.output_tokens = finished.output_tokens;
    row.first_words = finished.first_words;
    monitor_.ended(std::move(row), finished.open);
    if (log_) log_(finished);
}

MetricsInput Service::metrics_input() {
    MetricsInput input;
    input.now = std::chrono::steady_clock::now();
    input.now_s = unix_seconds(std::chrono::system_clock::now());
    input.engine = engine_.view();
    input.samples = speed_.samples(steady_seconds());
    input.cache = settings_.cache;
    if (input.now - hardware_read_ >= kHardwareInterval) {
        hardware_seen_ = hardware_.read(static_cast<int>(input.engine.engine_pid));
        hardware_read_ = input.now;
    }
    input.hardware = hardware_seen_;
    return input;
}

Reply Service::metrics(const MetricsWish& wish) {
    MetricsInput input = metrics_input();
    input.rows_shown = wish.rows;
    if (wish.prometheus) {
        Reply reply;
        reply.content_type = kPrometheusContentType;
        reply.body = prometheus_text(input, monitor_, settings_.model_name);
        return reply;
    }
    boost::json::object metrics = metrics_json(input, monitor_.history(), monitor_.watch());
    metrics["live"].as_object()["tok_s"] = tokens_per_second(input.engine);
    return json_reply(json_text(metrics));
}

std::shared_ptr<Exchange> Service::cache_call(ApiResult<protocol::CacheCommand> command,
                                              std::shared_ptr<ReplySink> sink) {
    std::optional<ApiError> refusal;
    if (!command) {
        refusal = command.error();
    } else {
        refusal = cache_refusal(engine_.view(), *command);
    }
    if (refusal) {
        sink->refuse(*refusal);
        return nullptr;
    }
    auto call = std::make_shared<PendingCall>();
    engine_.cache(*command, [this, command = *command, call, sink](const CacheAnswer& answer) {
        if (call->left()) return;
        ApiResult<Reply> reply =
            cache_reply(answer, command, metrics_input(), monitor_.first_words());
        if (reply) {
            sink->reply(std::move(*reply));
        } else {
            sink->refuse(reply.error());
        }
    });
    return call;
}

}  // namespace strata::serve
