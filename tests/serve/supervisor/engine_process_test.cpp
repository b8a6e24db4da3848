// Real processes: spawn, READY, one request, an orderly end.
#include <catch2/catch.hpp>

#include "tests/serve/supervisor/harness.hpp"

using namespace strata::serve;
using namespace strata::serve::tests;

TEST_CASE("a request is answered by a spawned engine") {
    Harness harness({"load 20", "ready", "serve"});
    REQUIRE(harness.run_until_ready());
    CHECK(harness.supervisor->view().epoch == 1);
    CHECK(harness.supervisor->view().max_context == 32768);
    const auto request = harness.submit(5);
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    REQUIRE(request->done);
    CHECK(request->ticket == Ticket{1, request->id});
    CHECK(request->tokens == std::vector<std::int32_t>{1000, 1001, 1002, 1003, 1004});
    CHECK(request->done->generated == 5);
    CHECK(request->done->prompt_tokens == 3);
    CHECK(harness.finish() == "");
}
