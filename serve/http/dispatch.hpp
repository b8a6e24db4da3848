// From a checked request to the api room's method for its route. The only switch over routes.
#pragma once

#include <memory>
#include <string>

#include "serve/api/exchange.hpp"
#include "serve/api/service.hpp"
#include "serve/http/page_files.hpp"
#include "serve/http/routes.hpp"

namespace strata::serve {

struct HttpRequest {
    Method method = Method::get;
    RouteMatch match;
    Target target;
    std::string accept;
    std::string if_none_match;
    bool accepts_gzip = false;
    std::string body;
};

// The sink has its answer when nullptr comes back; else the Exchange will give it.
std::shared_ptr<Exchange> dispatch(Service& service, PageFiles* pages, HttpRequest request,
                                   const RequestFacts& facts, std::shared_ptr<ReplySink> sink);

}  // namespace strata::serve
