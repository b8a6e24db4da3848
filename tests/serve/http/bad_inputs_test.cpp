// Bad inputs against the whole program with the fake engine, which writes the same tokens whatever
// came before. The demo model has the same test in demo_model_test.cpp.
#include <catch2/catch.hpp>

#include "tests/serve/http/bad_inputs_check.hpp"

using namespace strata::tests;

TEST_CASE("bad inputs cost their sender a typed error and nobody else anything") {
    ServerOptions options;
    options.engine = {"--answer", "ids:300,301,302,303"};
    check_bad_inputs(options);
}
