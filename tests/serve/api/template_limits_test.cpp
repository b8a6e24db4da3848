// The limit on what a template may write, at each of the three borders it can have: one byte below
// it, at it, and one above, as /apply-template meets them.
#include <stdexcept>
#include <string>

#include <catch2/catch.hpp>

#include "protocol/gguf/gguf.hpp"
#include "serve/api/text_calls.hpp"

using namespace strata;
using namespace strata::serve;

namespace {

constexpr std::size_t kLeastBytes = 1U << 20U;  // whatever the model and the body
constexpr std::size_t kBytesPerToken = 16;      // of the context
constexpr std::size_t kBytesPerBodyByte = 8;

// The demo's vocabulary under a template that writes as many bytes as it is told to.
const TextModel& writer() {
    static const TextModel text = [] {
        auto header =
            gguf::read_header(STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-q8_0.gguf");
        if (!header) throw std::runtime_error(header.error().text);
        auto model = TextModel::from_header(*header, "{{ 'x' * count }}");
        if (!model) throw std::runtime_error(model.error().text);
        return std::move(*model);
    }();
    return text;
}

std::string body_of(std::size_t count, std::size_t bytes) {
    const std::string body =
        R"({"messages":[{"role":"user","content":"hi"}],"chat_template_kwargs":{"count":)" +
        std::to_string(count) + "}}";
    REQUIRE(body.size() <= bytes);
    return body + std::string(bytes - body.size(), ' ');
}

// What comes of `count` bytes asked for by a body of `body_bytes`.
void check_border(std::size_t border, std::size_t body_bytes, std::int64_t n_ctx) {
    const ApiSettings settings;
    const TextPlaces places{writer(), settings, n_ctx};
    for (const std::size_t count : {border - 1, border, border + 1}) {
        INFO(count << " bytes of " << border);
        const ApiResult<Reply> reply = apply_template(body_of(count, body_bytes), places);
        if (count <= border) {
            REQUIRE(reply);
            CHECK(reply->body.size() > count);
            continue;
        }
        REQUIRE_FALSE(reply);
        CHECK(reply.error().kind == ErrorKind::invalid_request);
        CHECK(reply.error().message.find("chat template") != std::string::npos);
        CHECK(reply.error().message.find("beyond " + std::to_string(border) + " bytes") !=
              std::string::npos);
    }
}

}  // namespace

TEST_CASE("a template may write the least limit and no byte more") {
    check_border(kLeastBytes, 200, 1);
    check_border(kLeastBytes, kLeastBytes / kBytesPerBodyByte, kLeastBytes / kBytesPerToken);
}

TEST_CASE("a template may write its bytes for each token of the context and no more") {
    const std::int64_t n_ctx = kLeastBytes / kBytesPerToken + 1;
    check_border(static_cast<std::size_t>(n_ctx) * kBytesPerToken, 200, n_ctx);
}

TEST_CASE("a template may write its bytes for each byte of the body and no more") {
    const std::size_t body_bytes = kLeastBytes / kBytesPerBodyByte + 1;
    check_border(body_bytes * kBytesPerBodyByte, body_bytes, 1);
}

TEST_CASE("a template that fails by itself names no field of the request") {
    const auto refusal_of = [](const std::string& source) {
        auto header =
            gguf::read_header(STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-q8_0.gguf");
        REQUIRE(header);
        const auto text = TextModel::from_header(*header, source);
        REQUIRE(text);
        const ApiSettings settings;
        const auto reply = apply_template(body_of(1, 200), TextPlaces{*text, settings, 100});
        REQUIRE_FALSE(reply);
        return reply.error();
    };
    // `count` is a number of the request, `messages` a list.
    for (const char* source : {"{{ count() }}", "{{ messages('x') }}", "{{ 1 + 'a' }}"}) {
        INFO(source);
        const ApiError error = refusal_of(source);
        CHECK(error.kind == ErrorKind::invalid_request);
        CHECK(error.param.empty());
        CHECK(error.code == "template_failed");
        CHECK(error.message.find("line 1") != std::string::npos);
    }
    const ApiError raised = refusal_of("{{ raise_exception('roles must alternate') }}");
    CHECK(raised.param == "messages");
    CHECK(raised.code == "template_refused");
    CHECK(raised.message.find("roles must alternate") != std::string::npos);
}
