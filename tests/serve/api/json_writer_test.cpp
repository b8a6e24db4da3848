// JSON text: every byte sequence comes out as valid JSON and UTF-8.
#include "serve/api/json_writer.hpp"

#include <limits>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch.hpp>

using namespace strata::serve;

namespace {

std::string text(std::string_view value) {
    JsonWriter json;
    json.string(value);
    return json.take();
}

std::string number(double value, int decimals = 3) {
    JsonWriter json;
    json.number(value, decimals);
    return json.take();
}

}  // namespace

TEST_CASE("strings are escaped and stay UTF-8") {
    CHECK(text("a\"b\\c\n\r\t") == R"("a\"b\\c\n\r\t")");
    CHECK(text(std::string_view("\0\x1f\x7f", 3)) == "\"\\u0000\\u001f\\u007f\"");
    CHECK(text("gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80") == "\"gr\xc3\xbc\xc3\x9f \xf0\x9f\x98\x80\"");
    const std::string bad = "\xEF\xBF\xBD";
    CHECK(text("\xc3") == "\"" + bad + "\"");
    CHECK(text("\xc0\xaf") == "\"" + bad + bad + "\"");                      // overlong
    CHECK(text("\xed\xa0\x80") == "\"" + bad + bad + bad + "\"");            // a surrogate
    CHECK(text("\xf4\x90\x80\x80") == "\"" + bad + bad + bad + bad + "\"");  // above U+10FFFF
    CHECK(text("\xe2\x82y") == "\"" + bad + bad + "y\"");
}

TEST_CASE("every pair of bytes is valid JSON text") {
    for (int first = 0; first < 256; ++first) {
        for (int second = 0; second < 256; ++second) {
            const std::string written =
                text(std::string{static_cast<char>(first), static_cast<char>(second)});
            boost::json::error_code code;
            boost::json::parse(written, code);
            if (code) FAIL(first << " " << second << " " << code.message());
        }
    }
    SUCCEED();
}

TEST_CASE("numbers are plain") {
    CHECK(number(1.0) == "1");
    CHECK(number(0.5) == "0.5");
    CHECK(number(-0.0004) == "0");
    CHECK(number(1234.5678, 2) == "1234.57");
    CHECK(number(100.0, 0) == "100");
    CHECK(number(std::numeric_limits<double>::infinity()) == "null");
    CHECK(number(std::numeric_limits<double>::quiet_NaN()) == "null");
    CHECK(number(std::numeric_limits<double>::max(), 0).size() == 309);
}

TEST_CASE("commas stand between values and nowhere else") {
    JsonWriter json;
    json.begin_object().field("a", 1).key("b").begin_array().integer(1).begin_object().end_object();
    json.begin_array().end_array().null().end_array().field("c", "x").field("d", true);
    json.field_or_null("e", "").end_object();
    CHECK(json.text() == R"({"a":1,"b":[1,{},[],null],"c":"x","d":true,"e":null})");
}
