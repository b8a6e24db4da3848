// Between http and api: how a request's answer gets out, and how api hears that nobody waits for it
// any more. Neither side knows the other's types: no Beast here, no JSON there.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/api/api_error.hpp"

namespace strata::serve {

struct Reply {
    int status = 200;
    std::string content_type = "application/json; charset=utf-8";
    std::vector<std::pair<std::string, std::string>> headers;  // names in lower case
    std::string body;
};

// Implemented by http, one for each request. Calls come on the I/O thread. Either reply or refuse
// once, or begin_events, any number of events, end_events. Calls after the client left do nothing.
class ReplySink {
  public:
    virtual ~ReplySink() = default;
    virtual void reply(Reply reply) = 0;
    virtual void refuse(const ApiError& error) = 0;
    // Status 200 and the headers of an event stream leave at once.
    virtual void begin_events() = 0;
    // Whole frames, each with its empty line.
    virtual void events(std::string_view frames) = 0;
    virtual void end_events() = 0;
};

// A request that is being answered, as http sees it. Held by http until the answer ended.
class Exchange {
  public:
    virtual ~Exchange() = default;
    // The connection is gone: the work ends, the sink hears nothing more.
    virtual void client_left() = 0;
    // As client_left: it is there, and does not take its answer. `how`: in words, for the log.
    virtual void client_too_slow(const std::string& how) = 0;
    // A frame that says "still here" in the words of this stream's dialect.
    virtual std::string keep_alive() = 0;
};

// What http knows about a request besides its body.
struct RequestFacts {
    std::string request_id;  // x-request-id
};

}  // namespace strata::serve
