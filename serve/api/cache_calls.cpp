// See serve/api/cache_calls.hpp.
#include "serve/api/cache_calls.hpp"

#include <charconv>
#include <utility>

#include "serve/api/engine_errors.hpp"
#include "serve/api/json_reader.hpp"
#include "serve/api/json_scan.hpp"

namespace strata::serve {

namespace {

constexpr std::size_t kEntryShownMax = 40;  // of a path, in an error message

ApiError no_entry(std::string_view entry) {
    ApiError error;
    error.kind = ErrorKind::not_found;
    error.param = "entry";
    error.code = "entry_not_found";
    error.message = "entry " + std::string(entry.substr(0, kEntryShownMax)) +
                    " is not parked; GET /cache lists the entries";
    return error;
}

ApiError no_engine(const EngineView& view) {
    ApiError error;
    error.kind = ErrorKind::unavailable;
    error.code = "no_engine";
    error.message = "no model is loaded, so no conversation is parked";
    error.retry_after = retry_after(view);
    return error;
}

std::optional<std::uint64_t> number_of(std::string_view entry) {
    if (entry.size() > 1 && entry.front() == '0') return std::nullopt;  // 03 names no entry
    std::uint64_t value = 0;
    const char* const end = entry.data() + entry.size();
    const auto parsed = std::from_chars(entry.data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end) return std::nullopt;
    return value;
}

}  // namespace

ApiResult<protocol::CacheCommand> drop_command(std::string_view entry) {
    const std::optional<std::uint64_t> number = number_of(entry);
    if (!number) return Failure{no_entry(entry)};
    return protocol::CacheCommand{protocol::CacheAction::drop, number};
}

ApiResult<protocol::CacheCommand> pin_command(std::string_view entry, std::string_view body) {
    const std::optional<std::uint64_t> number = number_of(entry);
    if (!number) return Failure{no_entry(entry)};
    bool pinned = true;
    if (!body.empty()) {
        const ApiResult<JsonBody> parsed = JsonBody::parse(body);
        if (!parsed) return parsed.failure();
        FirstFault fault(body);
        FieldReader reader(parsed->object(), "", fault);
        pinned = reader.boolean("pinned").value_or(true);
        if (fault.any()) return Failure{fault.error()};
    }
    return protocol::CacheCommand{
        pinned ? protocol::CacheAction::pin : protocol::CacheAction::unpin, number};
}

std::optional<ApiError> cache_refusal(const EngineView& view,
                                      const protocol::CacheCommand& command) {
    if (view.state != EngineState::ready) return no_engine(view);
    if (command.action == protocol::CacheAction::list) return std::nullopt;
    if (!view.busy && view.queued == 0) return std::nullopt;
    ApiError error;
    error.kind = ErrorKind::conflict;
    error.code = "engine_busy";
    error.message =
        "a request runs or waits, so what is parked stays as it is; send this again when it has "
        "ended";
    error.retry_after = std::chrono::seconds(1);
    return error;
}

ApiResult<Reply> cache_reply(const CacheAnswer& answer, const protocol::CacheCommand& command,
                             const MetricsInput& input,
                             const std::map<std::uint64_t, std::string>& first_words) {
    ApiError error;
    switch (answer.outcome) {
        case CacheOutcome::listed: {
            Reply reply;
            reply.body = json_text(
                cache_list_json(input.now_s, input.engine, input.cache, answer.rows, first_words));
            return reply;
        }
        case CacheOutcome::refused:
            return Failure{no_entry(std::to_string(command.entry.value_or(0)))};
        case CacheOutcome::unsupported:
            error.kind = ErrorKind::not_supported;
            error.code = "not_supported";
            error.message = "this engine does not tell which conversations are parked";
            return Failure{std::move(error)};
        case CacheOutcome::no_engine:
            return Failure{no_engine(input.engine)};
        case CacheOutcome::late:
            break;
    }
    error.kind = ErrorKind::unavailable;
    error.code = "engine_slow";
    error.message = "the engine did not answer in time; send this again";
    error.retry_after = std::chrono::seconds(1);
    return Failure{std::move(error)};
}

}  // namespace strata::serve
