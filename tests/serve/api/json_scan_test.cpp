// Where JSON stops being JSON, keys that stand twice, and numbers as people write them.
#include "serve/api/json_scan.hpp"

#include <string>

#include <boost/json/parse.hpp>
#include <catch2/catch.hpp>

using namespace strata::serve;

namespace {

JsonFault fault_of(const std::string& text) {
    INFO(text);
    const auto fault = find_json_fault(text, 64);
    REQUIRE(fault);
    return *fault;
}

}  // namespace

TEST_CASE("a key that stands twice is named with its path") {
    CHECK(fault_of(R"({"a":1,"b":2,"a":3})").path == "a");
    CHECK(fault_of(R"({"a":1,"b":2,"a":3})").text == R"(the key "a" is given twice in one object)");
    CHECK(fault_of(R"({"m":[{"r":1},{"r":1,"r":2}]})").path == "m[1].r");
    CHECK(fault_of(R"([[1,{"x":{"y":0,"y":0}}]])").path == "[0][1].x.y");
    CHECK(fault_of(R"({"a":1,"\u0061":2})").kind == JsonFaultKind::repeated_key);
    CHECK_FALSE(find_json_fault(R"({"a":{"a":{"a":[{"a":1},{"a":1}]}},"b":"a"})", 64));
    const std::string long_key(100'000, 'k');
    CHECK(fault_of("{\"" + long_key + "\":1,\"" + long_key + "\":2}").kind ==
          JsonFaultKind::repeated_key);
}

TEST_CASE("a fault is told with the byte at which it was seen") {
    CHECK(fault_of(R"({"a":x})").text == "syntax error at byte 5");
    CHECK(fault_of("{\"a\":\"\xFF\"}").kind == JsonFaultKind::not_utf8);
    CHECK(fault_of("{\"a\":\"\xFF\"}").byte == 6);
    CHECK(fault_of("{\"\xC3\xA4\":\"ok \xE2\x82\"}").byte == 10);
    CHECK(fault_of(std::string(70, '[')).kind == JsonFaultKind::too_deep);
    CHECK(fault_of("{} x").kind == JsonFaultKind::syntax);
    CHECK(fault_of("").kind == JsonFaultKind::syntax);
}

TEST_CASE("keys are looked at within a bounded memory") {
    std::string many = "{";
    for (int i = 0; many.size() < 8'000'000; ++i) many += "\"" + std::to_string(i) + "\":1,";
    many += "\"x\":1}";
    CHECK(fault_of(many).kind == JsonFaultKind::too_many_keys);
}

TEST_CASE("a number is found in the spelling of its writer") {
    const std::string text =
        R"({"a":[1.0,{"b":2.50}, "3.0",-0],"a.b":{"c":1E2},"d":"a[0]","e":[[7e0]],"f":0.10 })";
    CHECK(number_at(text, "a[0]") == "1.0");
    CHECK(number_at(text, "a[1].b") == "2.50");
    CHECK(number_at(text, "a[3]") == "-0");
    CHECK(number_at(text, "a.b.c") == "1E2");
    CHECK(number_at(text, "e[0][0]") == "7e0");
    CHECK(number_at(text, "f") == "0.10");
    for (const char* none : {"", "a", "a[2]", "a[4]", "d", "b", "e[0]", "c"}) {
        INFO(none);
        CHECK(number_at(text, none).empty());
    }
    CHECK(number_at(" 1.0 ", "") == "1.0");
    const std::string digits(1000, '9');
    CHECK(number_at("[" + digits + "]", "[0]") == digits);
    const std::string deep = std::string(64, '[') + "1.0" + std::string(64, ']');
    std::string path;
    for (int i = 0; i < 64; ++i) path += "[0]";
    CHECK(number_at(deep, path) == "1.0");
}

TEST_CASE("numbers are written as people write them") {
    const auto again = [](const char* text) { return json_text(boost::json::parse(text)); };
    CHECK(again("[0.0,1.5,-2.25,100,1e300,0.1]") == "[0,1.5,-2.25,100,1e+300,0.1]");
    CHECK(again(R"({"a":[],"b":{},"c":"x\ny","d":null,"e":true})") ==
          R"({"a":[],"b":{},"c":"x\ny","d":null,"e":true})");
    CHECK(again("[[1,[2]],{\"k\":{\"l\":0.5}}]") == "[[1,[2]],{\"k\":{\"l\":0.5}}]");
}
