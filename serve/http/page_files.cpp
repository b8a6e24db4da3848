// The page's files with the headers that keep it a page of its own: no script, frame or request of
// anybody else, whatever a model writes into it.
#include "serve/http/page_files.hpp"

#include <utility>

#include "serve/http/static_files.hpp"

namespace strata::serve {

namespace {

constexpr std::string_view kContentSecurityPolicy =
    "default-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; "
    "frame-ancestors 'none'; form-action 'none'";

class StaticPageFiles final : public PageFiles {
  public:
    explicit StaticPageFiles(std::string folder) : files_(std::move(folder)) {}

    bool has(std::string_view path) override { return files_.find(path) != nullptr; }

    Reply get(const PageRequest& request) override {
        const StaticFile* const file = files_.find(request.path);
        Reply reply;
        if (file == nullptr) return reply;
        reply.content_type = file->content_type;
        reply.headers.emplace_back("etag", file->etag);
        reply.headers.emplace_back("cache-control", "no-cache");
        reply.headers.emplace_back("vary", "accept-encoding");
        reply.headers.emplace_back("content-security-policy", kContentSecurityPolicy);
        reply.headers.emplace_back("referrer-policy", "no-referrer");
        if (request.if_none_match == file->etag) {
            reply.status = 304;
        } else if (request.accepts_gzip && !file->gzip.empty()) {
            reply.headers.emplace_back("content-encoding", "gzip");
            reply.body = std::string(file->gzip);
        } else {
            reply.body = std::string(file->plain);
        }
        return reply;
    }

  private:
    StaticFiles files_;
};

}  // namespace

std::unique_ptr<PageFiles> make_page_files(std::string folder) {
    return std::make_unique<StaticPageFiles>(std::move(folder));
}

}  // namespace strata::serve
