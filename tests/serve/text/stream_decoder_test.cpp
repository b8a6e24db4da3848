// The decoder of answers: what is shown, what is held back, and that no way of cutting a stream
// matters.
#include "serve/text/stream_decoder.hpp"

#include <catch2/catch.hpp>

#include "serve/text/unicode.hpp"
#include "tests/serve/text/support.hpp"

namespace strata::serve {
namespace {

using text_test::Dice;

struct Whole {
    std::string reasoning;
    std::string answer;
    std::optional<std::string> stop;
    friend bool operator==(const Whole&, const Whole&) = default;
};

Whole decode(const StreamDecoderOptions& options, const std::vector<std::string>& chunks) {
    StreamDecoder decoder(options);
    Whole all;
    const auto add = [&all](const DecodedText& text) {
        CHECK(is_utf8(text.reasoning));
        CHECK(is_utf8(text.answer));
        all.reasoning += text.reasoning;
        all.answer += text.answer;
    };
    for (const std::string& chunk : chunks) add(decoder.feed(chunk));
    add(decoder.finish());
    all.stop = decoder.stopped_by();
    return all;
}

StreamDecoderOptions thinking_options(bool starts_in_thinking, std::vector<std::string> stop = {}) {
    return {std::move(stop), "<think>", "</think>", starts_in_thinking};
}

TEST_CASE("a character comes out whole however it was cut") {
    StreamDecoder decoder({});
    CHECK(decoder.feed("\xF0\x9F").answer.empty());
    CHECK(decoder.feed("\x98").answer.empty());
    CHECK(decoder.feed("\x80!").answer == "\U0001f600!");
    CHECK(decoder.finish().answer.empty());
}

TEST_CASE("broken sequences become replacement characters") {
    CHECK(decode({}, {"a\xFF\xC3(b"}).answer == "a\uFFFD\uFFFD(b");
    CHECK(decode({}, {"a\xE2\x82"}).answer == "a\uFFFD");
    CHECK(decode({}, {"\xE2\x82", "x"}).answer == "\uFFFDx");
}

TEST_CASE("thinking is apart from the answer and white space around its end belongs to neither") {
    CHECK(decode(thinking_options(true), {"I think.\n</think>\n\nYes."}) ==
          Whole{"I think.", "Yes.", {}});
    CHECK(decode(thinking_options(false), {"<think>\nI think. \n</think>\n\nYes."}) ==
          Whole{"I think.", "Yes.", {}});
    CHECK(decode(thinking_options(true), {"</think>Yes."}) == Whole{"", "Yes.", {}});
    CHECK(decode(thinking_options(true), {"\n\n</think>\n\n"}) == Whole{"", "", {}});
    CHECK(decode(thinking_options(true), {"<think>\ntwice opened</think>ok"}) ==
          Whole{"twice opened", "ok", {}});
}

TEST_CASE("the first line after the thinking keeps its indentation") {
    CHECK(decode(thinking_options(true), {"x</think>\n\n    code"}).answer == "    code");
    CHECK(decode(thinking_options(true), {"x</think>  word"}).answer == "word");
}

TEST_CASE("an answer without thinking is not touched") {
    CHECK(decode(thinking_options(false), {"  Yes.\n"}) == Whole{"", "  Yes.\n", {}});
    CHECK(decode(thinking_options(false), {"Use <think> here</think>."}).answer ==
          "Use <think> here</think>.");
    CHECK(decode(thinking_options(false), {"<thin"}).answer == "<thin");
    CHECK(decode(thinking_options(false), {" \n"}).answer == " \n");
    CHECK(decode({}, {"<think>x</think>"}).answer == "<think>x</think>");
}

TEST_CASE("thinking that is cut off shows what it said") {
    CHECK(decode(thinking_options(true), {"and then\n</thi"}) == Whole{"and then\n</thi", "", {}});
}

TEST_CASE("a stop string is cut off and nothing follows it") {
    CHECK(decode({{"END"}, "", "", false}, {"one E", "ND two"}) == Whole{"", "one ", "END"});
    CHECK(decode({{"\n\n"}, "", "", false}, {"a\nb\n", "\n"}) == Whole{"", "a\nb", "\n\n"});
    CHECK(decode({{"aab"}, "", "", false}, {"aaa", "ab"}) == Whole{"", "aa", "aab"});
}

TEST_CASE("of several stop strings the one that is complete first counts") {
    CHECK(decode({{"bcd", "c"}, "", "", false}, {"abcd"}) == Whole{"", "ab", "c"});
    CHECK(decode({{"c", "abc"}, "", "", false}, {"xabc"}) == Whole{"", "x", "abc"});
}

TEST_CASE("stop strings do not apply to the thinking") {
    CHECK(decode(thinking_options(true, {"no"}), {"no, no</think>well no"}) ==
          Whole{"no, no", "well ", "no"});
}

TEST_CASE("only what could become a stop string or marker is held back") {
    StreamDecoder decoder({{"STOP", "\xC3\xA9t\xC3\xA9"}, "", "", false});
    CHECK(decoder.feed("a S").answer == "a ");
    CHECK(decoder.feed("TO").answer.empty());
    CHECK(decoder.feed("Q").answer == "STOQ");
    CHECK(decoder.feed("\xC3\xA9t").answer.empty());
    CHECK(decoder.feed("e").answer == "\xC3\xA9te");
    StreamDecoder thinking(thinking_options(true));
    CHECK(thinking.feed("a <").reasoning == "a");
    CHECK(thinking.feed(" b\n").reasoning == " < b");
    CHECK(thinking.feed("\nc</th").reasoning == "\n\nc");
    CHECK(thinking.feed("is").reasoning == "</this");
    CHECK(thinking.thinking());
}

std::vector<std::string> random_cut(Dice& dice, const std::string& text) {
    std::vector<std::string> chunks;
    for (std::size_t at = 0; at < text.size();) {
        const std::size_t length = 1 + dice.below(1 + dice.below(9));
        chunks.push_back(text.substr(at, length));
        at += length;
    }
    return chunks;
}

TEST_CASE("any cut of a stream gives what one feed gives") {
    const std::vector<std::string> parts = {
        "<think>", "</think>", "<",  "</", "think>", "\n",         " ",        "a",    "b",
        "ab",      "STOP",     "ST", "OP", "\u00e9", "\U0001f600", "\xF0\x9F", "\xFF", "word "};
    Dice dice(17);
    for (int i = 0; i < 3000; ++i) {
        std::string text;
        for (std::size_t n = dice.below(14); n > 0; --n) text += parts[dice.below(parts.size())];
        StreamDecoderOptions options =
            thinking_options(dice.below(2) == 0, {"STOP", "ab", "b\n", "aab"});
        if (dice.below(3) == 0) options.think_open = options.think_close = "";
        if (dice.below(3) == 0) options.stop.clear();
        const Whole whole = decode(options, {text});
        CAPTURE(text);
        for (int k = 0; k < 4; ++k) CHECK(decode(options, random_cut(dice, text)) == whole);
    }
}

// Rules 2 to 4 said once more, on the whole text, for streams of valid characters.
Whole by_the_rules(const StreamDecoderOptions& options, std::string text) {
    const auto drop_lead = [](std::string& s) {
        const std::size_t body = std::min(s.find_first_not_of(" \t\r\n"), s.size());
        const std::size_t line_end = s.substr(0, body).rfind('\n');
        s.erase(0, line_end == std::string::npos ? body : line_end + 1);
    };
    Whole out;
    bool inside = options.starts_in_thinking;
    bool after_marker = inside;
    while (true) {
        const std::size_t body = std::min(text.find_first_not_of(" \t\r\n"), text.size());
        if (text.compare(body, options.think_open.size(), options.think_open) == 0) {
            text.erase(0, body + options.think_open.size());
            inside = after_marker = true;
            continue;
        }
        if (after_marker) drop_lead(text);
        if (!inside) break;
        const std::size_t close = text.find(options.think_close);
        if (close == std::string::npos) return {out.reasoning + text, "", {}};
        out.reasoning +=
            text.substr(0, close).substr(0, text.substr(0, close).find_last_not_of(" \t\r\n") + 1);
        text.erase(0, close + options.think_close.size());
        inside = false;
        after_marker = true;
    }
    for (std::size_t end = 1; end <= text.size() && !out.stop; ++end) {
        for (const std::string& stop : options.stop) {
            const bool ends = text.substr(0, end).ends_with(stop);
            if (ends && (!out.stop || stop.size() > out.stop->size())) out.stop = stop;
        }
        if (out.stop) text.resize(end - out.stop->size());
    }
    out.answer = text;
    return out;
}

TEST_CASE("the decoder gives what its rules say of the whole text") {
    const std::vector<std::string> parts = {
        "<think>", "</think>", "<", "</", "think>", "\n", " ", "a", "b", "ab", "STOP", "ST", "OP"};
    Dice dice(23);
    for (int i = 0; i < 3000; ++i) {
        std::string text;
        for (std::size_t n = dice.below(12); n > 0; --n) text += parts[dice.below(parts.size())];
        const auto options = thinking_options(dice.below(2) == 0, {"STOP", "ab", "b\n", "aab"});
        CAPTURE(text, options.starts_in_thinking);
        CHECK(decode(options, random_cut(dice, text)) == by_the_rules(options, text));
    }
}

}  // namespace
}  // namespace strata::serve
