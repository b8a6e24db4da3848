// Failure kinds to error kinds. A fault of the engine is never blamed on the client and vice versa.
#include "serve/api/engine_errors.hpp"

#include <algorithm>

#include "protocol/err_line.hpp"

namespace strata::serve {

namespace {

constexpr std::chrono::seconds kRetryDefault{5};   // when nobody knows how long it takes
constexpr std::chrono::seconds kRetryFailed{300};  // a failed engine needs a person
constexpr std::chrono::seconds kRestartWaited{
    10};  // a restart this short is waited for in the queue

ApiError refused(const EngineFailure& failure, std::int64_t prompt_tokens, std::int64_t n_ctx) {
    ApiError error;
    error.message = failure.text;
    error.code = failure.err_code;
    const std::optional<protocol::ErrCode> code = protocol::err_code_of(failure.err_code);
    error.kind = ErrorKind::server_error;
    if (code == protocol::ErrCode::too_long) {
        error.kind = ErrorKind::context_exceeded;
        error.code = "context_length_exceeded";
        error.n_prompt_tokens = prompt_tokens;
        error.n_ctx = n_ctx;
    } else if (code == protocol::ErrCode::unsupported) {
        error.kind = ErrorKind::invalid_request;
    }
    return error;
}

}  // namespace

ApiError to_api_error(const EngineFailure& failure, std::int64_t prompt_tokens,
                      std::int64_t n_ctx) {
    if (failure.kind == FailureKind::refused) return refused(failure, prompt_tokens, n_ctx);
    ApiError error;
    error.message = failure.text;
    if (failure.retry_after > std::chrono::seconds(0)) error.retry_after = failure.retry_after;
    switch (failure.kind) {
        case FailureKind::engine_died:
            error.kind = ErrorKind::server_error;
            error.code = "engine_died";
            break;
        case FailureKind::engine_failed:
            error.kind = ErrorKind::unavailable;
            error.code = "engine_failed";
            if (!error.retry_after) error.retry_after = kRetryFailed;
            break;
        case FailureKind::start_timeout:
            error.kind = ErrorKind::unavailable;
            error.code = "engine_not_ready";
            if (!error.retry_after) error.retry_after = kRetryDefault;
            break;
        case FailureKind::queue_full:
            error.kind = ErrorKind::rate_limited;
            error.code = "queue_full";
            if (!error.retry_after) error.retry_after = kRetryDefault;
            break;
        case FailureKind::shutting_down:
            error.kind = ErrorKind::unavailable;
            error.code = "shutting_down";
            if (!error.retry_after) error.retry_after = kRetryDefault;
            break;
        case FailureKind::load_refused:
            error.kind = ErrorKind::unavailable;
            error.code = failure.err_code;
            if (!error.retry_after) error.retry_after = kRetryDefault;
            break;
        case FailureKind::refused:
            break;
    }
    return error;
}

std::chrono::seconds retry_after(const EngineView& view) {
    if (view.state == EngineState::failed) return kRetryFailed;
    return std::max(view.eta.value_or(kRetryDefault), std::chrono::seconds(1));
}

std::optional<ApiError> not_ready(const EngineView& view, bool was_ready) {
    if (view.state == EngineState::ready || view.state == EngineState::unloaded ||
        view.state == EngineState::unloading) {
        return std::nullopt;  // the request loads it
    }
    const bool coming = view.state == EngineState::starting ||
                        view.state == EngineState::preparing ||
                        view.state == EngineState::loading || view.state == EngineState::restarting;
    if (coming && view.on_demand) return std::nullopt;
    const bool soon = view.eta.value_or(std::chrono::seconds(0)) <= kRestartWaited;
    if (was_ready && coming && soon) return std::nullopt;
    ApiError error;
    error.kind = ErrorKind::unavailable;
    error.retry_after = retry_after(view);
    switch (view.state) {
        case EngineState::failed:
            error.code = "engine_failed";
            error.message = "the engine does not start: " + view.failure;
            break;
        case EngineState::stopped:
            error.code = "shutting_down";
            error.message = "the server is shutting down";
            break;
        case EngineState::restarting:
            error.code = "engine_restarting";
            error.message = "the engine restarts: " + view.failure;
            break;
        case EngineState::starting:
        case EngineState::preparing:
        case EngineState::loading:
        case EngineState::ready:
        case EngineState::unloading:
        case EngineState::unloaded:
            error.code = "model_loading";
            error.message = "Loading model";
            break;
    }
    return error;
}

}  // namespace strata::serve
