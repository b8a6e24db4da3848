// The life of one chat request between http and the engine.
//
//   preparing --on_prepared--> waiting --on_admitted--> running --on_done / on_failure--> ended
//       any phase --client_left--> ended
//
// With a thinking budget on_done of the first pass submits the second and the run stays running:
// the client, the log and the history see one answer.
//
// 1. The body is parsed, rendered and tokenised on a worker; everything else happens on the I/O
// thread.
// 2. The sink gets exactly one ending, unless the client left: then it gets none.
// 3. The engine holds the run as a listener until its last call; http holds it as an Exchange.
// 4. on_finished is called once for each run.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/thread_pool.hpp>

#include "serve/api/chat_reply.hpp"
#include "serve/api/exchange.hpp"
#include "serve/api/finished_request.hpp"
#include "serve/api/prompt.hpp"
#include "serve/api/settings.hpp"
#include "serve/monitor/speed_meter.hpp"
#include "serve/supervisor/engine_client.hpp"
#include "serve/text/text_model.hpp"

namespace strata::serve {

// How a dialect reads a body and writes an answer. `parse` runs on a worker.
struct ChatDialect {
    ApiResult<ChatRequest> (*parse)(std::string_view body);
    std::unique_ptr<ReplyWriter> (*make_writer)(const ChatRequest& request,
                                                const ApiSettings& settings,
                                                const RequestFacts& facts,
                                                std::shared_ptr<ReplySink> sink);
};

// What all runs of a server share; outlives them.
struct ChatPlaces {
    boost::asio::any_io_executor io;
    boost::asio::thread_pool& workers;
    EngineClient& engine;
    const TextModel& text;
    const ApiSettings& settings;
    SpeedMeter& speed;
    std::function<void(const FinishedRequest&)> on_finished;
    std::size_t preparing = 0;  // runs whose body is with a worker
};

// Seconds of the steady clock, as the speed meter counts them.
double steady_seconds();

// None when another request may come; else why it is refused (429).
std::optional<ApiError> queue_refusal(const EngineView& view, std::size_t preparing,
                                      std::size_t queue_max);

class ChatRun final : public Exchange,
                      public RequestListener,
                      public std::enable_shared_from_this<ChatRun> {
  public:
    ChatRun(ChatPlaces& places, const ChatDialect& dialect, RequestFacts facts, std::int64_t n_ctx,
            std::shared_ptr<ReplySink> sink);

    void start(std::string body);

    void client_left() override;
    void client_too_slow(const std::string& how) override;
    std::string keep_alive() override;

    void on_admitted(const Ticket& ticket) override;
    void on_resume(const protocol::ResumeLine& line) override;
    void on_progress(const protocol::ProgressLine& line) override;
    void on_token(const protocol::TokenLine& line) override;
    void on_done(const protocol::DoneLine& line) override;
    void on_failure(const EngineFailure& failure) override;

  private:
    enum class Phase : std::uint8_t { preparing, waiting, running, ended };

    void on_prepared(ApiResult<PreparedChat> prepared);
    void let_go(std::string why);
    void begin_answer();
    void note_position();
    void show(DecodedText text);
    // The answer goes on in a second pass.
    bool go_on(const protocol::DoneLine& line);
    void fail(const ApiError& error);
    void finish(AnswerFinish how, std::string failure);
    TokenProbability probability(std::int32_t token, double logprob) const;
    ReplyEnd ending(const protocol::DoneLine& line) const;
    double since_start_ms() const;

    ChatPlaces& places_;
    const ChatDialect& dialect_;
    RequestFacts facts_;
    std::int64_t n_ctx_;
    std::shared_ptr<ReplySink> sink_;
    Phase phase_ = Phase::preparing;
    std::optional<RequestId> submitted_;
    std::unique_ptr<ReplyWriter> writer_;
    bool answer_begun_ = false;
    std::optional<StreamDecoder> decoder_;
    std::size_t top_logprobs_ = 0;
    bool stop_met_ = false;
    std::int64_t prompt_position_ = 0;             // prompt tokens that the engine has
    std::int64_t prompt_reused_ = 0;               // of them not read again
    std::vector<TokenProbability> held_logprobs_;  // of tokens whose text is not out yet
    std::int64_t reasoning_tokens_ = 0;
    std::chrono::steady_clock::time_point started_;
    FinishedRequest record_;
    std::optional<ThinkingBudget> budget_;  // until the second pass is submitted
    std::vector<TokenId> written_;          // by the first pass, when there is a budget
    std::optional<protocol::DoneLine> first_done_;
};

}  // namespace strata::serve
