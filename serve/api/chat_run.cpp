// One request's steps. Bytes are the dialect's, waiting and tickets are the supervisor's.
#include "serve/api/chat_run.hpp"

#include <random>
#include <utility>

#include <boost/asio/post.hpp>

#include "serve/api/engine_errors.hpp"
#include "serve/api/first_words.hpp"
#include "serve/monitor/merge_passes.hpp"

namespace strata::serve {

namespace {

constexpr std::chrono::seconds kQueueRetry{5};  // a place in the queue is free soon

std::uint64_t any_seed() {
    std::random_device device;
    return (static_cast<std::uint64_t>(device()) << 32U) | device();
}

// A raw prompt's answer is text alone: its client reads think markers itself.
StreamDecoder decoder_for(const TextModel& text, const PreparedChat& prepared) {
    if (!prepared.request.raw) return text.decoder(prepared.prompt, prepared.request.stop);
    StreamDecoderOptions options;
    options.stop = prepared.request.stop;
    return StreamDecoder(std::move(options));
}

}  // namespace

double steady_seconds() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration<double>(now).count();
}

std::optional<ApiError> queue_refusal(const EngineView& view, std::size_t preparing,
                                      std::size_t queue_max) {
    // One more than the queue holds may be on its way: the one that the engine will hold.
    if (view.queued + preparing + (view.busy ? 1 : 0) < queue_max + 1) return std::nullopt;
    ApiError error;
    error.kind = ErrorKind::rate_limited;
    error.code = "queue_full";
    error.message = "the queue is full: " + std::to_string(queue_max) +
                    " requests are waiting (--max-queue); send it again later";
    error.retry_after = kQueueRetry;
    return error;
}

ChatRun::ChatRun(ChatPlaces& places, const ChatDialect& dialect, RequestFacts facts,
                 std::int64_t n_ctx, std::shared_ptr<ReplySink> sink)
    : places_(places),
      dialect_(dialect),
      facts_(std::move(facts)),
      n_ctx_(n_ctx),
      sink_(std::move(sink)),
      started_(std::chrono::steady_clock::now()) {
    record_.request_id = facts_.request_id;
    record_.began = std::chrono::system_clock::now();
}

void ChatRun::start(std::string body) {
    ++places_.preparing;
    boost::asio::post(places_.workers, [self = shared_from_this(),
                                        body = std::move(body)]() mutable {
        const ApiResult<ChatRequest> request = self->dialect_.parse(body);
        ApiResult<PreparedChat> prepared =
            request ? prepare_chat(*request, self->places_.text, self->places_.settings,
                                   body.size(), self->n_ctx_, any_seed())
                    : ApiResult<PreparedChat>(request.failure());
        const boost::asio::any_io_executor io = self->places_.io;
        boost::asio::post(io, [self = std::move(self), prepared = std::move(prepared)]() mutable {
            self->on_prepared(std::move(prepared));
        });
    });
}

void ChatRun::on_prepared(ApiResult<PreparedChat> prepared) {
    --places_.preparing;
    if (phase_ == Phase::ended) return;
    if (!prepared) {
        fail(prepared.error());
        return;
    }
    const ApiSettings& settings = places_.settings;
    const std::string& wanted = prepared->request.model;
    if (settings.strict_model && !wanted.empty() && wanted != settings.model_name) {
        ApiError error;
        error.kind = ErrorKind::not_found;
        error.param = "model";
        error.code = "model_not_found";
        error.message = "the model served here is " + settings.model_name +
                        "; leave `model` out or start without --strict-model";
        fail(error);
        return;
    }
    record_.prompt_tokens = prepared->prompt_tokens;
    if (settings.log_prompts) record_.prompt_text = places_.text.decode(prepared->command.ids);
    if (settings.show_prompts) record_.first_words = first_words(prepared->request);
    top_logprobs_ = static_cast<std::size_t>(prepared->request.top_logprobs);
    decoder_.emplace(decoder_for(places_.text, *prepared));
    budget_ = std::move(prepared->budget);
    writer_ = dialect_.make_writer(prepared->request, settings, facts_, sink_);
    phase_ = Phase::waiting;
    const RequestId id = places_.engine.submit(std::move(prepared->command), shared_from_this());
    if (phase_ == Phase::ended) return;
    submitted_ = id;
    begin_answer();
}

void ChatRun::begin_answer() {
    if (answer_begun_) return;
    answer_begun_ = true;
    writer_->begin();
}

void ChatRun::client_left() {
    let_go("the client left");
}

void ChatRun::client_too_slow(const std::string& how) {
    let_go("the client was cut off: " + how);
}

void ChatRun::let_go(std::string why) {
    if (phase_ == Phase::ended) return;
    if (submitted_) places_.engine.cancel(*submitted_);
    finish(AnswerFinish::cancel, std::move(why));
}

std::string ChatRun::keep_alive() {
    return writer_ ? writer_->keep_alive() : std::string();
}

void ChatRun::on_admitted(const Ticket& ticket) {
    record_.open = ticket;
    if (phase_ != Phase::waiting) return;
    record_.ticket = ticket;
    phase_ = Phase::running;
    record_.queue_ms = since_start_ms();
}

void ChatRun::on_resume(const protocol::ResumeLine& line) {
    prompt_position_ = line.reused;
    prompt_reused_ = line.reused;
    note_position();
}

// Of the first pass: what it left stands in its DONE, and the last one reads its own answer again.
void ChatRun::note_position() {
    if (first_done_) return;
    record_.prompt_had = prompt_position_;
    record_.prompt_reused = prompt_reused_;
}

void ChatRun::on_progress(const protocol::ProgressLine& line) {
    if (line.position <= prompt_position_) return;
    places_.speed.read(steady_seconds(), line.position - prompt_position_);
    prompt_position_ = line.position;
    note_position();
    if (phase_ == Phase::ended || first_done_) return;
    begin_answer();
    writer_->progress({line.prompt_tokens, prompt_reused_, line.position, line.ms});
}

void ChatRun::on_token(const protocol::TokenLine& line) {
    if (phase_ == Phase::ended) return;
    begin_answer();
    if (!record_.ttft_ms) record_.ttft_ms = since_start_ms();
    ++record_.output_tokens;
    places_.speed.wrote(steady_seconds(), 1);
    if (stop_met_) return;
    if (budget_) written_.push_back(line.token);
    if (decoder_->thinking()) ++reasoning_tokens_;
    DecodedText text = decoder_->feed(places_.text.tokenizer().bytes(line.token));
    if (line.lp) {
        TokenProbability token = probability(line.token, *line.lp);
        for (std::size_t i = 0; i < line.top.size() && i < top_logprobs_; ++i) {
            token.top.push_back(probability(line.top[i].token, line.top[i].lp));
        }
        held_logprobs_.push_back(std::move(token));
    }
    if (decoder_->stopped_by()) {
        stop_met_ = true;
        places_.engine.stop_writing(*submitted_);
    }
    show(std::move(text));
}

void ChatRun::show(DecodedText text) {
    if (text.reasoning.empty() && text.answer.empty()) return;
    if (places_.settings.log_prompts) record_.answer_text += text.reasoning + text.answer;
    writer_->delta({std::move(text.reasoning), std::move(text.answer), std::move(held_logprobs_)});
    held_logprobs_.clear();
}

void ChatRun::on_done(const protocol::DoneLine& line) {
    if (phase_ == Phase::ended) return;
    record_.open.reset();
    ++record_.passes;
    begin_answer();
    if (go_on(line)) return;
    const protocol::DoneLine whole = first_done_ ? merge_passes(*first_done_, line) : line;
    record_.done = whole;
    if (!stop_met_ &&
        (line.finish == protocol::Finish::error || line.finish == protocol::Finish::cancel)) {
        // Nobody here asked for the end of it: the engine was told to leave.
        const bool leaving = line.finish == protocol::Finish::cancel;
        ApiError error;
        error.kind = leaving ? ErrorKind::unavailable : ErrorKind::server_error;
        error.code = "answer_ended";
        error.message = leaving ? "the engine was told to end before this answer was complete; "
                                  "send it again when it is back"
                                : "the engine could not complete this answer; send it again";
        fail(error);
        return;
    }
    DecodedText rest = decoder_->finish();
    ReplyDelta delta{std::move(rest.reasoning), std::move(rest.answer), std::move(held_logprobs_)};
    if (!delta.empty()) writer_->delta(delta);
    const ReplyEnd end = ending(whole);
    writer_->end(end);
    finish(end.finish, {});
}

bool ChatRun::go_on(const protocol::DoneLine& line) {
    if (!budget_ || stop_met_ || line.finish != protocol::Finish::length) return false;
    const ThinkingBudget budget = std::move(*std::exchange(budget_, std::nullopt));
    const ThinkingEnd* end = nullptr;
    if (decoder_->thinking()) {
        const bool line_ended =
            !written_.empty() && places_.text.tokenizer().bytes(written_.back()).ends_with('\n');
        end = &budget.end_after(line_ended);
    }
    std::optional<protocol::GenCommand> command = second_pass(budget, written_, end);
    if (!command) return false;
    if (end != nullptr) show(decoder_->feed(end->text));
    first_done_ = line;
    submitted_ = places_.engine.submit_next(std::move(*command), shared_from_this());
    return true;
}

void ChatRun::on_failure(const EngineFailure& failure) {
    if (phase_ == Phase::ended) return;
    record_.open.reset();
    fail(to_api_error(failure, record_.prompt_tokens, n_ctx_));
}

ReplyEnd ChatRun::ending(const protocol::DoneLine& line) const {
    ReplyEnd end;
    const bool length = !stop_met_ && line.finish == protocol::Finish::length;
    end.finish = length ? AnswerFinish::length : AnswerFinish::stop;
    end.stop_string = decoder_->stopped_by().value_or("");
    end.usage.prompt_tokens = line.prompt_tokens;
    end.usage.cached_tokens = line.reused;
    end.usage.completion_tokens = line.generated;
    end.usage.reasoning_tokens = reasoning_tokens_;
    end.timings = {line.reused, line.prompt_read, line.prompt_ms, line.generated, line.decode_ms};
    return end;
}

TokenProbability ChatRun::probability(std::int32_t token, double logprob) const {
    return {std::string(places_.text.tokenizer().bytes(token)), logprob, {}};
}

double ChatRun::since_start_ms() const {
    const auto passed = std::chrono::steady_clock::now() - started_;
    return std::chrono::duration<double, std::milli>(passed).count();
}

void ChatRun::fail(const ApiError& error) {
    if (answer_begun_) {
        writer_->fail(error);
    } else {
        sink_->refuse(error);
    }
    if (!record_.ticket) record_.refusal = error_type(error.kind);
    finish(AnswerFinish::error, error.message);
}

void ChatRun::finish(AnswerFinish how, std::string failure) {
    if (phase_ == Phase::waiting) record_.queue_ms = since_start_ms();
    phase_ = Phase::ended;
    // An answer that ended between or within its passes: the first one's figures stand.
    if (!record_.done) record_.done = first_done_;
    record_.finish = how;
    record_.failure = std::move(failure);
    record_.duration_ms = since_start_ms();
    if (places_.on_finished) places_.on_finished(record_);
}

}  // namespace strata::serve
