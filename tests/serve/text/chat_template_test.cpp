// The template interpreter against recorded outputs of Jinja, the marks of message text, and the
// limits of a run.
#include "serve/text/chat_template.hpp"

#include <algorithm>
#include <sstream>

#include <catch2/catch.hpp>

#include "serve/text/unicode.hpp"
#include "tests/serve/text/support.hpp"

namespace strata::serve {
namespace {

using text_test::read_tree_file;
using text_test::read_tree_json;
using text_test::to_template_dict;

const std::string kFixtures = "tests/fixtures/text/jinja/";

struct Rendered {
    std::string text;
    std::string error;
    std::vector<PromptPiece> pieces;
};

Rendered render(const std::string& source, const TemplateDict& context,
                TemplateLimits limits = {}) {
    limits.date = "2024-07-05";
    Rendered out;
    const auto parsed = parse_chat_template(source);
    const auto pieces = parsed ? (*parsed)->render(context, limits) : parsed.failure();
    if (!pieces) {
        out.error = pieces.error().text;
        return out;
    }
    out.pieces = *pieces;
    for (const PromptPiece& piece : out.pieces) out.text += piece.text;
    return out;
}

// Pieces as one line: what came from a message stands in brackets.
std::string marked(const std::string& source, const TemplateDict& context) {
    std::string out;
    for (const PromptPiece& piece : render(source, context).pieces) {
        out += piece.from_message ? "[" + piece.text + "]" : piece.text;
    }
    return out;
}

std::vector<std::string> parts_of(const std::string& path, const std::string& separator) {
    std::string text = read_tree_file(path);
    text.pop_back();
    std::vector<std::string> parts;
    std::size_t begin = 0;
    for (std::size_t at = text.find(separator); at != std::string::npos;
         at = text.find(separator, begin)) {
        parts.push_back(text.substr(begin, at - begin));
        begin = at + separator.size();
    }
    parts.push_back(text.substr(begin));
    return parts;
}

// An output is equal byte by byte; where Python raises, this refuses and says where.
void check_against(const boost::json::value& expected, const std::string& source,
                   const TemplateDict& context) {
    const Rendered got = render(source, context);
    CAPTURE(source, boost::json::serialize(expected), got.error);
    if (const auto* out = expected.as_object().if_contains("out")) {
        CHECK(got.error.empty());
        CHECK(got.text == std::string(out->as_string()));
    } else {
        CHECK_THAT(got.error, Catch::StartsWith("chat template: line "));
    }
}

void check_conversations(const std::string& group, const std::string& source) {
    const auto expected = read_tree_json(kFixtures + "expected.json").at(group);
    const auto conversations = read_tree_json(kFixtures + "conversations.json");
    REQUIRE(conversations.as_array().size() >= 8);
    REQUIRE(conversations.as_array().size() == expected.as_array().size());
    for (std::size_t i = 0; i < conversations.as_array().size(); ++i) {
        check_against(expected.at(i), source, to_template_dict(conversations.at(i).at("context")));
    }
}

TEST_CASE("the demo template renders every conversation as jinja2 does") {
    check_conversations("demo", read_tree_file("tools/demo_model/train/chat_template.jinja"));
}

TEST_CASE("a template of every construct renders every conversation as jinja2 does") {
    check_conversations("every_construct", read_tree_file(kFixtures + "every_construct.jinja"));
}

TEST_CASE("every expression gives what jinja2 gives or fails where it fails") {
    const auto expected = read_tree_json(kFixtures + "expected.json").at("expressions");
    const auto context =
        to_template_dict(read_tree_json(kFixtures + "contexts.json").at("expressions"));
    const auto expressions = parts_of(kFixtures + "expressions.txt", "\n");
    REQUIRE(expressions.size() == expected.as_array().size());
    for (std::size_t i = 0; i < expressions.size(); ++i) {
        check_against(expected.at(i), "{{ " + expressions[i] + " }}", context);
    }
}

TEST_CASE("every statement gives what jinja2 gives or fails where it fails") {
    const auto expected = read_tree_json(kFixtures + "expected.json").at("statements");
    const auto context =
        to_template_dict(read_tree_json(kFixtures + "contexts.json").at("statements"));
    const auto statements = parts_of(kFixtures + "statements.txt", "\n---\n");
    REQUIRE(statements.size() == expected.as_array().size());
    for (std::size_t i = 0; i < statements.size(); ++i)
        check_against(expected.at(i), statements[i], context);
}

TEST_CASE("the mark of a message's text survives every operation") {
    const TemplateDict context = {{"s", "a b"},
                                  {"e", ""},
                                  {"d", TemplateDict{{"k", "v"}}},
                                  {"l", TemplateList{"x", "y", 3}},
                                  {"u", "\u00e9\u00df"}};
    const std::vector<std::pair<std::string, std::string>> rows = {
        {"{{ s }}", "[a b]"},
        {"<{{ s }}>{{ e }}", "<[a b]>"},
        {"{{ '<' + s + '>' }}", "<[a b]>"},
        {"{{ '<' ~ s ~ 1 ~ '>' }}", "<[a b]1>"},
        {"{{ ('<' + s + '>')[1:] }}", "[a b]>"},
        {"{{ ('<' + s + '>')[::-1] }}", ">[b a]<"},
        {"{{ ('  ' + s + '  ') | trim }}", "[a b]"},
        {"{{ ('<' + s).split(' ') }}", "['<[a]', '[b]']"},
        {"{{ s.split(' ')[1] + '!' }}", "[b]!"},
        {"{{ 'x-x'.replace('-', s) }}", "x[a b]x"},
        {"{{ s.replace(' ', '-') }}", "[a]-[b]"},
        {"{{ s | replace('a', '') }}", "[ b]"},
        {"{{ s | upper }}{{ s.title() }}{{ u | upper }}", "[A BA B\u00c9SS]"},
        {"{{ s | title }}{{ s | capitalize }}{{ s.swapcase() }}", "[A BA bA B]"},
        {"{{ s | tojson }}", "\"[a b]\""},
        {"{{ d | tojson }}", "{\"[k]\": \"[v]\"}"},
        {"{{ d }}", "{'[k]': '[v]'}"},
        {"{{ l | join('+') }}", "[x]+[y]+3"},
        {"{{ s.join(['1', '2']) }}", "1[a b]2"},
        {"{{ '%s|%5s' % (s, s) }}", "[a b]|  [a b]"},
        {"{{ '{}|{:>5}'.format(s, s) }}", "[a b]|  [a b]"},
        {"{{ '%s' | format(s) }}", "[a b]"},
        {"{{ s | center(5) }}", " [a b] "},
        {"{{ ('x\\n' + s) | indent(2) }}", "x\n  [a b]"},
        {"{{ s | list }}", "['[a]', '[ ]', '[b]']"},
        {"{% for c in s %}{{ c }}.{% endfor %}", "[a].[ ].[b]."},
        {"{% for k, v in d.items() %}{{ k }}={{ v }}{% endfor %}", "[k]=[v]"},
        {"{% set t %}<{{ s }}>{% endset %}{{ t | upper }}", "<[A B]>"},
        {"{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(s) }}", "<[a b]>"},
        {"{% set ns = namespace(t='') %}{% set ns.t = ns.t + s %}{{ ns.t }}|", "[a b]|"},
        {"{{ s | length }}{{ s == 'a b' }}{{ s | string | safe }}", "3True[a b]"},
        {"{{ s | e }}{{ s | truncate(2, true, '.', 0) }}", "[a ba]."},
        {"{{ l | map('upper') | join }}{{ l | first }}{{ s | reverse }}", "[XY]3[xb a]"},
        {"{{ s * 2 }}{{ [s] }}{{ (s,) }}", "[a ba b]['[a b]']('[a b]',)"},
        {"{{ '[\"]' | tojson }}{{ (s ~ '\\n') | tojson }}", "\"[\\\"]\"\"[a b]\\n\""},
    };
    for (const auto& [source, expected] : rows) {
        CAPTURE(source);
        CHECK(marked(source, context) == expected);
    }
}

// Every text of a context in letters that no template uses.
TemplateValue in_foreign_letters(const TemplateValue& value) {
    if (const auto* text = std::get_if<std::string>(&value.held())) {
        std::string out;
        for (const char c : *text) append_utf8(out, 0xE000 + static_cast<std::uint8_t>(c));
        return out;
    }
    if (const auto* list = std::get_if<TemplateList>(&value.held())) {
        TemplateList out;
        for (const TemplateValue& item : *list) out.push_back(in_foreign_letters(item));
        return out;
    }
    if (const auto* dict = std::get_if<TemplateDict>(&value.held())) {
        TemplateDict out;
        for (const auto& [key, item] : *dict) out.emplace_back(key, in_foreign_letters(item));
        return out;
    }
    return value;
}

bool has_foreign_letter(std::string_view text) {
    for (std::size_t at = 0; at < text.size(); at += utf8_step(text, at).bytes) {
        const char32_t code = utf8_step(text, at).code;
        if (code >= 0xE000 && code <= 0xE0FF) return true;
    }
    return false;
}

TEST_CASE("no expression lets a letter of a message pass as the template's own") {
    const auto contexts = read_tree_json(kFixtures + "contexts.json");
    const auto context = std::get<TemplateDict>(
        in_foreign_letters(TemplateValue(to_template_dict(contexts.at("expressions")))).held());
    std::size_t seen = 0;
    for (const std::string& expression : parts_of(kFixtures + "expressions.txt", "\n")) {
        for (const PromptPiece& piece : render("{{ " + expression + " }}", context).pieces) {
            CAPTURE(expression, piece.text);
            const bool foreign = has_foreign_letter(piece.text);
            CHECK((!foreign || piece.from_message));
            seen += foreign ? 1 : 0;
        }
    }
    CHECK(seen > 50);
}

TEST_CASE("the demo template marks a conversation's texts and nothing else") {
    const std::string source = read_tree_file("tools/demo_model/train/chat_template.jinja");
    const TemplateDict context = {
        {"messages", TemplateList{TemplateDict{{"role", "system"}, {"content", "S"}},
                                  TemplateDict{{"role", "user"}, {"content", "U"}}}},
        {"add_generation_prompt", true}};
    CHECK(marked(source, context) ==
          "<|im_start|>system\n[S]<|im_end|>\n<|im_start|>user\n[U]<|im_end|>\n<|im_start|>"
          "assistant\n<think>\n\n</think>\n\n");
}

TEST_CASE("texts of the file are the template's own") {
    const auto parsed = parse_chat_template("{{ bos_token }}{{ x }}");
    REQUIRE(parsed.ok());
    const auto pieces =
        (*parsed)->render({{"bos_token", "evil"}, {"x", "m"}}, {{"bos_token", "<s>"}}, {});
    REQUIRE(pieces.ok());
    REQUIRE(pieces->size() == 2);
    CHECK((*pieces)[0].text == "<s>");
    CHECK(!(*pieces)[0].from_message);
    CHECK((*pieces)[1].from_message);
}

TEST_CASE("a refusal names the line the column and the construct") {
    const auto error = [](const std::string& source) {
        return render(source, {{"x", "text"}}).error;
    };
    CHECK(error("a\n  {{ x | nope }}") ==
          "chat template: line 2, column 10: filter 'nope': there is no filter 'nope'");
    CHECK(error("{{ x is nope }}") ==
          "chat template: line 1, column 9: test 'nope': there is no test 'nope'");
    CHECK(error("{{ zzz.a }}") ==
          "chat template: line 1, column 7: attribute 'a': 'zzz' is undefined");
    CHECK(error("{{ x.zzz.a }}") ==
          "chat template: line 1, column 9: attribute 'a': 'str' has no attribute 'zzz'");
    CHECK(error("{{ x + 1 }}") ==
          "chat template: line 1, column 6: '+' does not work between str and int");
    CHECK(error("\n\n{% if x %}") ==
          "chat template: line 3, column 11: the template ends, expected '{% endif %}'");
    CHECK(error("{{ x }") == "chat template: line 1, column 6: unexpected '}'");
    CHECK(error("{% include 'a' %}") ==
          "chat template: line 1, column 4: the tag 'include' is not known here");
    CHECK(error("{{ raise_exception('No ' ~ x) }}") ==
          "chat template: line 1, column 19: call of 'raise_exception': the template raised: No "
          "text");
}

struct Hostile {
    const char* what;
    const char* source;
};
constexpr Hostile kHostile[] = {
    {"endless work",
     "{% for a in range(100000) %}{% for b in range(100000) %}{% endfor %}{% endfor %}"},
    {"endless recursion", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"},
    {"mutual recursion",
     "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}{{ a() }}"},
    {"recursion in a default", "{% macro m(x=m()) %}{% endmacro %}{{ m() }}"},
    {"recursion in a loop", "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}"},
    {"a large output",
     "{% for a in range(100000) %}xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx{% endfor %}"},
    {"a doubled text",
     "{% set n = namespace(t='xxxxxxxx') %}{% for a in range(99) %}{% set n.t = n.t + n.t %}{% "
     "endfor %}"},
    {"a repeated text", "{{ 'x' * 10000000000 }}"},
    {"a repeated list", "{{ [0] * 10000000000 }}"},
    {"a doubled list",
     "{% set n = namespace(t=[0]) %}{% for a in range(99) %}{% set n.t = n.t + n.t %}{% endfor %}"},
    {"a list that holds one list twice",
     "{% set n = namespace(t=[0]) %}{% for a in range(99) %}{% set n.t = [n.t, n.t] %}{% endfor "
     "%}{{ n.t }}"},
    {"a comparison of such lists",
     "{% set n = namespace(t=[0], u=[0]) %}{% for a in range(99) %}{% set n.t = [n.t, n.t] %}{% "
     "set n.u = [n.u, n.u] %}{% endfor %}{{ n.t == n.u }}"},
    {"JSON of such a list",
     "{% set n = namespace(t=[0]) %}{% for a in range(99) %}{% set n.t = [n.t, n.t] %}{% endfor "
     "%}{{ n.t | tojson }}"},
    {"such a tuple as a key",
     "{% set n = namespace(t=(0,)) %}{% for a in range(99) %}{% set n.t = (n.t, n.t) %}{% endfor "
     "%}{{ {n.t: 1} }}"},
    {"deep nesting of values",
     "{% set n = namespace(t=[]) %}{% for a in range(100000) %}{% set n.t = [n.t] %}{% endfor %}"},
    {"a list inside itself",
     "{% set a = [1] %}{% for i in range(100000) %}{% set _ = a.append([a]) %}{% endfor %}{{ a }}"},
    {"many texts at once",
     "{% set a = [] %}{% for i in range(100000) %}{% set _ = a.append('x' * 100000) %}{% endfor "
     "%}"},
    {"a wide format", "{{ '%1000000000d' % 1 }}"},
    {"a wide field", "{{ '{:>1000000000}'.format(1) }}"},
    {"many digits", "{{ '%.1000000000f' % 1 }}"},
    {"many digits in braces", "{{ '{:.999999999f}'.format(1.5) }}"},
    {"a wide indent", "{{ 'x' | indent(1000000000, true) }}"},
    {"a wide JSON indent", "{{ [[[1]]] | tojson(indent=1000000000) }}"},
    {"deep JSON with an indent",
     "{% set n = namespace(t=[]) %}{% for a in range(150) %}{% set n.t = [n.t, n.t] %}{% endfor "
     "%}{{ n.t | tojson(indent=9999) }}"},
    {"a wide centre", "{{ 'x' | center(9999999999) }}"},
    {"a huge range", "{{ range(100001) }}"},
    {"a huge power", "{{ 9 ** 9 ** 9 }}"},
    {"a text cut into characters", "{% set t = 'x' * 1000000 %}{{ t | list | length }}"},
    {"a slow search",
     "{% set t = 'a' * 500000 %}{% for i in range(1000) %}{{ (t ~ 'b') in t ~ t }}{% endfor %}"},
    {"a slow strip",
     "{% set t = 'a' * 500000 %}{% for i in range(1000) %}{{ t.strip('bcdefgh' * 1000 ~ 'a') }}{% "
     "endfor %}"},
    {"a wide time", "{{ strftime_now('%9999999d') }}"},
    {"a long time", "{{ strftime_now('%c' * 4000) }}"},
    {"many namespaces",
     "{% for i in range(100000) %}{% for j in range(100) %}{% set n = namespace(a=1, b=2) %}{% "
     "endfor %}{% endfor %}"},
    {"many macros",
     "{% for i in range(100000) %}{% for j in range(100) %}{% macro m() %}{% endmacro %}{% endfor "
     "%}{% endfor %}"},
    {"a loop that remembers itself",
     "{% for i in range(100000) %}{{ loop.changed(loop, loop) }}{% set q = [loop] %}{% endfor %}{{ "
     "'x' * 9999999 }}"},
};

TEST_CASE("a hostile template is refused within its limits") {
    for (const Hostile& hostile : kHostile) {
        const double start = text_test::cpu_seconds();
        const Rendered got = render(hostile.source, {});
        CAPTURE(hostile.what, got.text.substr(0, 200));
        CHECK_THAT(got.error, Catch::StartsWith("chat template: line "));
        CHECK(text_test::cpu_seconds() - start < 20.0);
    }
}

TEST_CASE("source that is nested without end is refused") {
    const auto repeated = [](const std::string& unit, int times) {
        std::string out;
        for (int i = 0; i < times; ++i) out += unit;
        return out;
    };
    for (const std::string unit :
         {"(", "[", "{1:", "not ", "-", "x if y else ", "x[", "f(", "x|f(", "x is f("}) {
        CHECK_THAT(render("{{ " + repeated(unit, 50000) + " }}", {}).error,
                   Catch::StartsWith("chat template: line 1"));
    }
    for (const std::string unit :
         {"{% if x %}", "{% for a in b %}", "{% macro m() %}", "{% set a %}", "{% with %}"}) {
        CHECK_THAT(render(repeated(unit, 10000), {}).error,
                   Catch::StartsWith("chat template: line 1"));
    }
    for (const std::string unit : {"+x", ".a", "[0]", "()", "|f", " is a and x", " or x", "**x"}) {
        CHECK_THAT(render("{{ x" + repeated(unit, 50000) + " }}", {}).error,
                   Catch::StartsWith("chat template: line 1"));
    }
    CHECK(render("{{ 1" + repeated("~1", 10000) + " }}", {}).text == repeated("1", 10001));
    CHECK(render("{{ " + repeated("(", 60) + "1" + repeated(")", 60) + " }}", {}).text == "1");
}

TEST_CASE("each limit of a run is met exactly") {
    TemplateLimits limits;
    CHECK(limits.steps_max == 10'000'000);
    CHECK(limits.depth_max == 200);
    limits.output_bytes_max = 10;
    CHECK(render("{{ x }}", {{"x", "012345678"}}, limits).text == "012345678");
    CHECK(render("{{ x }}", {{"x", "0123456789"}}, limits).text == "0123456789");
    CHECK(render("{{ x }}{{ x }}", {{"x", "01234"}}, limits).text == "0123401234");
    CHECK_THAT(render("{{ x }}", {{"x", "0123456789a"}}, limits).error,
               Catch::Contains("10 bytes"));
    CHECK_THAT(render("{{ x }}{{ x }}a", {{"x", "01234"}}, limits).error,
               Catch::Contains("10 bytes"));
    limits = {};
    limits.depth_max = 5;
    const std::string recursion =
        "{% macro m(n) %}{{ n }}{% if n > 1 %}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(x) }}";
    CHECK(render(recursion, {{"x", 4}}, limits).text == "4321");
    CHECK(render(recursion, {{"x", 5}}, limits).text == "54321");
    CHECK_THAT(render(recursion, {{"x", 6}}, limits).error, Catch::Contains("more than 5 deep"));
    limits = {};
    limits.steps_max = 1000;
    CHECK(render("{% for i in range(50) %}{% endfor %}", {}, limits).error.empty());
    CHECK_THAT(render("{% for i in range(5000) %}{% endfor %}", {}, limits).error,
               Catch::Contains("1000 steps"));
}

TEST_CASE("the limit on steps is one number") {
    // The least limit under which a run comes to its end is the number of its steps.
    const std::string source = "{% for i in range(50) %}{{ i }}{% endfor %}";
    const auto ends = [&](std::uint64_t steps) {
        TemplateLimits limits;
        limits.steps_max = steps;
        return render(source, {}, limits).error.empty();
    };
    std::uint64_t steps = 1;
    while (steps < 10'000 && !ends(steps)) ++steps;
    REQUIRE(steps > 50);
    for (const std::uint64_t more : {0U, 1U, 2U, 100U}) CHECK(ends(steps + more));
    for (const std::uint64_t less : {1U, 2U, 50U}) CHECK_FALSE(ends(steps - less));
}

TEST_CASE("a long conversation is rendered well within the limits") {
    const std::string source = read_tree_file("tools/demo_model/train/chat_template.jinja");
    TemplateList messages;
    for (int i = 0; i < 10000; ++i) {
        messages.push_back(TemplateDict{{"role", i % 2 == 0 ? "user" : "assistant"},
                                        {"content", "message number " + std::to_string(i)}});
    }
    TemplateList tools;
    for (int i = 0; i < 1000; ++i) {
        tools.push_back(TemplateDict{{"name", "tool" + std::to_string(i)},
                                     {"description", std::string(500, 'x')}});
    }
    TemplateLimits limits;
    limits.output_bytes_max = std::size_t{4} << 20U;
    const double start = text_test::cpu_seconds();
    const Rendered got =
        render(source, {{"messages", messages}, {"tools", tools}, {"add_generation_prompt", true}},
               limits);
    CHECK(got.error == "");
    CHECK(text_test::cpu_seconds() - start < 10.0);
    CHECK(got.text.size() > 1000000);
}

TEST_CASE("the date of a template is the one that is set") {
    TemplateLimits limits;
    limits.date = "2023-02-30";
    const auto parsed = parse_chat_template("{{ strftime_now('%d %B %Y %H:%M %A') }}");
    REQUIRE(parsed.ok());
    CHECK(!(*parsed)->render({}, limits).ok());
    limits.date = "2024-02-29";
    CHECK((*parsed)->render({}, limits)->at(0).text == "29 February 2024 00:00 Thursday");
    limits.date = "";
    CHECK((*parsed)->render({}, limits).ok());
}

TEST_CASE("a template says which variables it reads") {
    const auto parsed = parse_chat_template("{% set a = b %}{% for c in d %}{{ e.f }}{% endfor %}");
    REQUIRE(parsed.ok());
    for (const char* name : {"b", "d", "e"}) CHECK((*parsed)->reads(name));
    for (const char* name : {"a", "c", "f", "zzz"}) CHECK(!(*parsed)->reads(name));
    CHECK((*parsed)->source().starts_with("{% set a"));
}

}  // namespace
}  // namespace strata::serve
