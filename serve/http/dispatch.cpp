// One case for each route.
#include "serve/http/dispatch.hpp"

#include <array>
#include <utility>

#include "serve/api/cache_calls.hpp"

namespace strata::serve {

namespace {

void answer(ReplySink& sink, ApiResult<Reply> result) {
    if (result) {
        sink.reply(std::move(*result));
    } else {
        sink.refuse(result.error());
    }
}

Reply page_reply(PageFiles* pages, const HttpRequest& request) {
    if (pages != nullptr && pages->has(request.target.path)) {
        return pages->get({request.target.path, request.accepts_gzip, request.if_none_match});
    }
    Reply reply;  // `/` of a server without page files: clients probe it
    reply.content_type = "text/plain; charset=utf-8";
    reply.body = "Strata is running. The API is under /v1.\n";
    return reply;
}

bool wants_to_wait(const HttpRequest& request) {
    return query_value(request.target.query, "wait") != "0";
}

ApiError not_supported_error(const std::string& path) {
    ApiError error;
    error.kind = ErrorKind::not_supported;
    error.code = "not_supported";
    error.message = path + " is not offered: this server writes text and has no pooled embeddings";
    return error;
}

// What a route reads of its query.
std::span<const QueryName> query_names(Route route) {
    static constexpr std::array<QueryName, 2> kMetrics = {{{"format"}, {"rows"}}};
    static constexpr std::array<QueryName, 1> kLoad = {{{"wait", true}}};
    static constexpr std::array<QueryName, 1> kSlots = {{{"fail_on_no_slot", true}}};
    if (route == Route::metrics) return kMetrics;
    if (route == Route::load || route == Route::unload) return kLoad;
    if (route == Route::slots) return kSlots;
    return {};
}

ApiError query_error(const QueryFault& fault) {
    ApiError error;
    error.param = std::string(fault.name);
    error.code = "invalid_value";
    error.message = error.param + " " + fault.words;
    return error;
}

ApiResult<Reply> metrics_reply(Service& service, const HttpRequest& request) {
    const std::string& query = request.target.query;
    const ApiResult<MetricsWish> wish =
        metrics_wish(request.accept, query_value(query, "format").value_or(""),
                     query_value(query, "rows").value_or(""));
    if (!wish) return wish.failure();
    return service.metrics(*wish);
}

}  // namespace

std::shared_ptr<Exchange> dispatch(Service& service, PageFiles* pages, HttpRequest request,
                                   const RequestFacts& facts, std::shared_ptr<ReplySink> sink) {
    const Route route = request.match.route;
    if (const auto fault = query_fault(request.target.query, query_names(route))) {
        sink->refuse(query_error(*fault));
        return nullptr;
    }
    switch (route) {
        case Route::chat_completions:
            return service.chat_completions(facts, std::move(request.body), std::move(sink));
        case Route::completions:
            return service.completions(facts, std::move(request.body), std::move(sink));
        case Route::tokenize:
            return service.text_call(tokenize, std::move(request.body), std::move(sink));
        case Route::detokenize:
            return service.text_call(detokenize, std::move(request.body), std::move(sink));
        case Route::apply_template:
            return service.text_call(apply_template, std::move(request.body), std::move(sink));
        case Route::load:
            return service.load(wants_to_wait(request), std::move(sink));
        case Route::unload:
            return service.unload(wants_to_wait(request), std::move(sink));
        case Route::page:
            sink->reply(page_reply(pages, request));
            break;
        case Route::models:
            sink->reply(service.models());
            break;
        case Route::model:
            answer(*sink, service.model(request.match.rest));
            break;
        case Route::health:
            sink->reply(service.health());
            break;
        case Route::status:
            sink->reply(service.status());
            break;
        case Route::props:
            sink->reply(service.props());
            break;
        case Route::slots:
            answer(*sink,
                   service.slots(query_value(request.target.query, "fail_on_no_slot") == "1"));
            break;
        case Route::metrics:
            answer(*sink, metrics_reply(service, request));
            break;
        case Route::cache_list:
            return service.cache_call(protocol::CacheCommand{}, std::move(sink));
        case Route::cache_entry:
            return service.cache_call(drop_command(request.match.rest), std::move(sink));
        case Route::cache_pin:
            return service.cache_call(pin_command(request.match.rest, request.body),
                                      std::move(sink));
        case Route::not_supported:
            sink->refuse(not_supported_error(request.target.path));
            break;
    }
    return nullptr;
}

}  // namespace strata::serve
