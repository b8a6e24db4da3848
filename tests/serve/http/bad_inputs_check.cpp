// How a refusal must look, and that what follows it is what would have been without it.

#include "tests/serve/http/bad_inputs_check.hpp"

#include <algorithm>
#include <csignal>
#include <set>
#include <string>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch.hpp>

#include "tests/serve/http/bad_inputs.hpp"
#include "tests/support/process_epilogue.hpp"
#include "tests/support/server_process.hpp"

namespace strata::tests {

namespace json = boost::json;

namespace {

constexpr std::size_t kBodyBytesMax = 64U << 20U;  // --max-body-mib's default
const std::string kGoodBody =
    R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":4,"seed":1})";

// Of an answer, what does not name the moment.
std::string lasting_part(const HttpResponse& response) {
    json::object body = json::parse(response.body).as_object();
    for (const char* key : {"id", "created", "timings"}) body.erase(key);
    return json::serialize(body);
}

std::string good_answer(std::uint16_t port) {
    const auto response = post(port, "/v1/chat/completions", kGoodBody);
    REQUIRE(response);
    INFO(response->body);
    REQUIRE(response->status == 200);
    return lasting_part(*response);
}

void check_error_shape(const HttpResponse& response) {
    INFO(response.body.substr(0, 300));
    const json::value body = json::parse(response.body);
    const json::object& error = body.at("error").as_object();
    CHECK_FALSE(error.at("message").as_string().empty());
    CHECK_FALSE(error.at("type").as_string().empty());
    CHECK(error.contains("param"));
    CHECK(error.contains("code"));
    CHECK(response.header("x-request-id").size() == 16);
}

void check_refused(std::uint16_t port, const BadInput& input) {
    HttpClient client(port);
    REQUIRE(client.connected());
    client.send(input.bytes);
    const auto response = client.response();
    REQUIRE(response);
    INFO("answered " << response->status << " " << response->body.substr(0, 300));
    CHECK(std::count(input.statuses.begin(), input.statuses.end(), response->status) == 1);
    CHECK((response->status < 500 || response->status == 501));
    check_error_shape(*response);
    if (response->status == 400 && input.ends_connection) CHECK(client.closed_within(kPatience));
}

}  // namespace

void check_bad_inputs(const ServerOptions& options) {
    const ProcessEpilogue epilogue;
    {
        ServerProcess server(options);
        REQUIRE(server.port() != 0);
        good_answer(server.port());  // the second one finds its prompt known, as all that follow
        const std::string expected = good_answer(server.port());
        const pid_t engine = server.engine_pid();
        const std::vector<BadInput> inputs = bad_inputs(kBodyBytesMax);
        REQUIRE(inputs.size() >= 300);
        std::set<std::string> names;
        for (const BadInput& input : inputs) {
            INFO(input.name);
            CHECK(names.insert(input.name).second);
            check_refused(server.port(), input);
            CHECK(good_answer(server.port()) == expected);
        }
        CHECK(server.engine_pid() == engine);
        CHECK(server.log().find('\x01') == std::string::npos);
        server.signal(SIGTERM);
        CHECK(server.wait_exit() == 0);
    }
    CHECK(epilogue.leftovers() == "");
}

}  // namespace strata::tests
