// The grammar itself: spaces, names, numbers, escapes, cuts.
#include "protocol/fields.hpp"

#include <locale>
#include <string>

#include <catch2/catch.hpp>

#include "protocol/event.hpp"

namespace strata::protocol {
namespace {

class DecimalComma : public std::numpunct<char> {
  protected:
    char do_decimal_point() const override { return ','; }
    char do_thousands_sep() const override { return '.'; }
    std::string do_grouping() const override { return "\3"; }
};

std::string text_of(std::string_view line) {
    FieldReader fields(line, "NOTE");
    std::string out = "(none)";
    fields.text("text", out);
    return out;
}

std::string written_text(std::string_view text) {
    FieldWriter out("NOTE");
    out.text("text", text);
    return out.take();
}

}  // namespace

TEST_CASE("runs of spaces count as one and the last CR counts as none") {
    FieldReader fields("  V   1  2   a=b    c=d  \r", "V");
    CHECK(fields.positions() == 2);
    CHECK(fields.position_text(1) == "1");
    CHECK(fields.position_text(2) == "2");
    CHECK(fields.value_of("a") == "b");
    CHECK(fields.value_of("c") == "d");
    CHECK_FALSE(fields.value_of("e").has_value());
    CHECK(fields.finish(1).ok());
}

TEST_CASE("only the first equals sign of a field splits it") {
    FieldReader fields("V a=b=c label==x =y", "V");
    CHECK(fields.value_of("a") == "b=c");
    CHECK(fields.value_of("label") == "=x");
    CHECK(fields.take_last() == "=y");
}

TEST_CASE("free text runs to the end of the line with its spaces and signs") {
    CHECK(text_of("NOTE id=1 text= two  spaces id=2 a=b ") == " two  spaces id=2 a=b ");
    CHECK(text_of("NOTE text=") == "");
    CHECK(text_of("NOTE path=/x") == "(none)");
    CHECK(text_of("NOTE text=path=/x text=y") == "path=/x text=y");
}

TEST_CASE("free text escapes what would end the line") {
    CHECK(written_text("a\nb\r\tc\\n\x01\x7F") == "NOTE text=a\\nb\\r\\tc\\\\n\\x01\\x7f");
    CHECK(text_of("NOTE text=a\\nb\\r\\tc\\\\n\\x01\\x7f") == "a\nb\r\tc\\n\x01\x7F");
    CHECK(written_text("caf\xC3\xA9 \xE2\x82\xAC") == "NOTE text=caf\xC3\xA9 \xE2\x82\xAC");
}

TEST_CASE("free text that is too long is cut by the reader as well") {
    CHECK(text_of("NOTE text=" + std::string(5000, 'x')) == std::string(4096, 'x'));
    CHECK(written_text(std::string(5000, 'x')) == "NOTE text=" + std::string(4096, 'x'));
}

TEST_CASE("a backslash that begins no escape stands for itself") {
    CHECK(text_of("NOTE text=C:\\dir\\q\\x1\\xZZ\\") == "C:\\dir\\q\\x1\\xZZ\\");
}

TEST_CASE("numbers are read whole and without signs or spaces of any kind") {
    std::int64_t whole = 7;
    for (const std::string_view bad : {"", "+1", " 1", "1 ", "1.0", "0x1", "1e3",
                                       "9223372036854775808", "--1", "1_000", "nan"}) {
        INFO(bad);
        CHECK_FALSE(read_number(bad, whole));
    }
    CHECK(whole == 7);
    CHECK(read_number("9223372036854775807", whole));
    CHECK(whole == 9223372036854775807LL);
    CHECK(read_number("007", whole));
    CHECK(whole == 7);

    double real = 0.5;
    for (const std::string_view bad :
         {"", "+1", "nan", "inf", "-inf", "infinity", "1e999", "1,5", "1.5x", "0x1p3", "."}) {
        INFO(bad);
        CHECK_FALSE(read_number(bad, real));
    }
    CHECK(read_number("1e3", real));
    CHECK(real == 1000);
    CHECK(read_number("-.5", real));
    CHECK(real == -0.5);
}

TEST_CASE("no locale gets into a line") {
    const std::locale before = std::locale::global(std::locale(std::locale(), new DecimalComma));
    const std::string line = format(ProgressLine{1234567, 2345678, 1234.5, 0.1, 9});
    const Parsed<Event> read = parse_event("PP 1 2 1234.5 0.5 id=9");
    std::locale::global(before);
    CHECK(line == "PP 1234567 2345678 1234.5 0.1 id=9");
    REQUIRE(read.ok());
    CHECK(std::get<ProgressLine>(*read).ms == 1234.5);
}

TEST_CASE("a cut never lands inside a character") {
    const std::string euro = "\xE2\x82\xAC";
    CHECK(cut_text("abc", 3) == "abc");
    CHECK(cut_text("abcd", 3) == "abc");
    CHECK(cut_text("a" + euro, 3) == "a");
    CHECK(cut_text("a" + euro, 4) == "a" + euro);
    CHECK(cut_text(euro + euro, 5) == euro);
    CHECK(cut_text(std::string(8, '\x80'), 5) == std::string(5, '\x80'));
    CHECK(count_characters("a" + euro + "b") == 3);
}

TEST_CASE("the first fault of a line is the one that is told") {
    FieldReader fields("V x", "V");
    std::int64_t first = 0;
    std::int64_t second = 0;
    fields.position(1, "first", first);
    fields.position(2, "second", second);
    const Parsed<int> end = fields.finish(0);
    REQUIRE_FALSE(end.ok());
    CHECK(end.error().text == "V first is 'x'; allowed: an integer from 0");
}

TEST_CASE("an allowed range is told in words") {
    CHECK(range_words(Range<double>{.low = 0, .high = 1, .low_open = true}) ==
          "a number above 0 up to 1");
    CHECK(range_words(Range<std::int32_t>{}) == "an integer from 0");
    CHECK(range_words(kAnyFinite<double>) == "a number");
}

}  // namespace strata::protocol
