// The files of the web page, wherever they come from (embedded, or a folder while developing).
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "serve/api/exchange.hpp"

namespace strata::serve {

// The headers that choose a form of a file.
struct PageRequest {
    std::string_view path;  // decoded; "/" is the first page
    bool accepts_gzip = false;
    std::string_view if_none_match;  // ETag that the client has; "" = none
};

class PageFiles {
  public:
    virtual ~PageFiles() = default;
    virtual bool has(std::string_view path) = 0;
    // 200 or 304; precondition: has(path).
    virtual Reply get(const PageRequest& request) = 0;
};

// The files that are embedded in the program; from `folder` unless that is empty.
std::unique_ptr<PageFiles> make_page_files(std::string folder);

}  // namespace strata::serve
