// Filters whose input is text, or becomes it.
#include <algorithm>

#include "serve/text/jinja/access.hpp"
#include "serve/text/jinja/library.hpp"
#include "serve/text/jinja/operators.hpp"
#include "serve/text/jinja/print.hpp"
#include "serve/text/jinja/text_ops.hpp"

namespace strata::serve::jinja {
namespace {

Object filter_string(Meter& meter, const Object& input, const Bound&) {
    return to_text(meter, input);
}

Object filter_safe(Meter& meter, const Object& input, const Bound&) {
    return to_text(meter, input);
}

Object filter_lower(Meter& meter, const Object& input, const Bound&) {
    return lower(meter, *to_text(meter, input));
}

Object filter_upper(Meter& meter, const Object& input, const Bound&) {
    return upper(meter, *to_text(meter, input));
}

Object filter_capitalize(Meter& meter, const Object& input, const Bound&) {
    return capitalize(meter, *to_text(meter, input));
}

// Unlike str.title: a word begins after white space and the characters - ( { [ < alone.
Object filter_title(Meter& meter, const Object& input, const Bound&) {
    const TextPtr text = to_text(meter, input);
    const auto begins_word = [](char32_t c) {
        return c == '-' || c == '(' || c == '{' || c == '[' || c == '<' || is_python_space(c);
    };
    TextBuilder out(meter);
    for (std::size_t at = 0; at < text->size() && !meter.halted();) {
        std::size_t end = at;
        const auto run = [&](bool breaks) {
            while (end < text->size() &&
                   begins_word(utf8_step(text->bytes(), end).code) == breaks) {
                end += utf8_step(text->bytes(), end).bytes;
            }
        };
        run(begins_word(utf8_step(text->bytes(), at).code));
        const std::size_t first = at + utf8_step(text->bytes(), at).bytes;
        out.append(*upper(meter, *make_slice(meter, *text, at, first).text()));
        out.append(*lower(meter, *make_slice(meter, *text, first, end).text()));
        at = end;
    }
    return out.finish();
}

Object filter_trim(Meter& meter, const Object& input, const Bound& arguments) {
    const TextPtr text = to_text(meter, input);
    const Object* characters =
        arguments[0] != nullptr && !arguments[0]->none() ? arguments[0] : nullptr;
    const TextPtr set = text_or_empty(meter, characters);
    const Span span = strip(meter, *text, Side::both, characters != nullptr ? set.get() : nullptr);
    return make_slice(meter, *text, span.begin, span.end);
}

Object filter_replace(Meter& meter, const Object& input, const Bound& arguments) {
    const TextPtr text = to_text(meter, input);
    const TextPtr from = to_text(meter, *arguments[0]);
    const TextPtr to = to_text(meter, *arguments[1]);
    return replace(meter, *text, *from, *to, integer_or(meter, arguments[2], -1));
}

Object filter_center(Meter& meter, const Object& input, const Bound& arguments) {
    return pad(meter, *to_text(meter, input), integer_or(meter, arguments[0], 80), " ", Side::both);
}

Object filter_indent(Meter& meter, const Object& input, const Bound& arguments) {
    if (!input.text()) {
        meter.fail(std::string("indent needs a str, not ") + type_name(input));
        return {};
    }
    const TextPtr text = to_text(meter, input);
    TextBuilder indent_builder(meter);
    if (arguments[0] != nullptr && arguments[0]->text()) {
        indent_builder.append(*arguments[0]->text());
    } else {
        const std::int64_t width = integer_or(meter, arguments[0], 4);
        for (std::int64_t i = 0; i < width && !meter.halted(); ++i) indent_builder.append(" ");
    }
    const TextPtr indent = indent_builder.finish();
    const bool first = truth_or(arguments[1], false);
    const bool blank = truth_or(arguments[2], false);
    // The text with a line end added, cut into lines: a last line end gives an empty last line.
    std::vector<Span> lines = split_lines(*text, false);
    const bool ended = lines.empty() || lines.back().end < text->size();
    if (ended) lines.push_back({text->size(), text->size()});
    TextBuilder out(meter);
    for (std::size_t i = 0; i < lines.size() && meter.step(); ++i) {
        if (i > 0) out.append("\n");
        const bool empty = lines[i].begin == lines[i].end;
        if (i == 0 ? first : (blank || !empty)) out.append(*indent);
        out.append(*text, lines[i].begin, lines[i].end);
    }
    return out.finish();
}

// What is short enough stays what it was, a list too.
Object filter_truncate(Meter& meter, const Object& input, const Bound& arguments) {
    const TextPtr text = to_text(meter, input);
    const std::int64_t length = integer_or(meter, arguments[0], 255);
    const TextPtr end =
        arguments[2] != nullptr
            ? to_text(meter, *arguments[2])
            : TextPtr(std::make_shared<const Text>(nullptr, "...", std::vector<Mark>{}));
    const std::int64_t leeway = integer_or(meter, arguments[3], 5);
    const auto have = static_cast<std::int64_t>(length_of(meter, input));
    const std::int64_t room = length - static_cast<std::int64_t>(end->code_points());
    if (room < 0 || leeway < 0) {
        meter.fail("the length of truncate is shorter than its end");
        return {};
    }
    if (have - leeway <= length) return input;
    if (!input.text()) meter.fail(std::string("truncate needs a str, not ") + type_name(input));
    std::size_t stop = text->offset_of(static_cast<std::size_t>(room));
    if (!truth_or(arguments[1], false)) {
        const std::size_t space = text->bytes().substr(0, stop).rfind(' ');
        if (space != std::string_view::npos) stop = space;
    }
    TextBuilder out(meter);
    out.append(*text, 0, stop);
    out.append(*end);
    return out.finish();
}

Object filter_wordcount(Meter& meter, const Object& input, const Bound&) {
    const TextPtr text = to_text(meter, input);
    meter.step_bytes(text->size());
    std::int64_t words = 0;
    bool inside = false;
    for (std::size_t at = 0; at < text->size();) {
        const Utf8Step step = utf8_step(text->bytes(), at);
        const bool word = is_letter(step.code) || is_number(step.code) || step.code == '_';
        words += word && !inside ? 1 : 0;
        inside = word;
        at += step.bytes;
    }
    return words;
}

Object filter_escape(Meter& meter, const Object& input, const Bound&) {
    const TextPtr text = to_text(meter, input);
    TextBuilder out(meter);
    std::size_t copied = 0;
    for (std::size_t at = 0; at < text->size() && !meter.halted(); ++at) {
        const char c = text->bytes()[at];
        const char* entity = c == '&'    ? "&amp;"
                             : c == '<'  ? "&lt;"
                             : c == '>'  ? "&gt;"
                             : c == '"'  ? "&#34;"
                             : c == '\'' ? "&#39;"
                                         : nullptr;
        if (entity == nullptr) continue;
        out.append(*text, copied, at);
        out.append(entity, text->marked(at));
        copied = at + 1;
    }
    out.append(*text, copied, text->size());
    return out.finish();
}

// json.dumps(x, ensure_ascii, indent, separators, sort_keys), nothing escaped for HTML.
Object filter_tojson(Meter& meter, const Object& input, const Bound& arguments) {
    JsonStyle style;
    style.ensure_ascii = truth_or(arguments[0], false);
    style.sort_keys = truth_or(arguments[3], false);
    if (arguments[1] != nullptr && arguments[1]->text()) {
        style.indent = std::string(arguments[1]->text()->bytes());
    } else if (arguments[1] != nullptr && !arguments[1]->none()) {
        const std::int64_t width = std::max<std::int64_t>(integer_or(meter, arguments[1], 0), 0);
        if (meter.fits_text(static_cast<std::size_t>(width)))
            style.indent = std::string(static_cast<std::size_t>(width), ' ');
    }
    if (style.indent) style.item_separator = ",";
    if (arguments[2] != nullptr && !arguments[2]->none()) {
        const List* pair = arguments[2]->list();
        if (pair == nullptr || pair->items.size() != 2 || !pair->items[0].text() ||
            !pair->items[1].text()) {
            meter.fail("separators are two strings");
            return {};
        }
        style.item_separator = std::string(pair->items[0].text()->bytes());
        style.key_separator = std::string(pair->items[1].text()->bytes());
    }
    TextBuilder out(meter);
    print_json(out, meter, input, style);
    return out.finish();
}

constexpr Function kTextFilters[] = {
    {"string", {}, filter_string},
    {"safe", {}, filter_safe},
    {"lower", {}, filter_lower},
    {"upper", {}, filter_upper},
    {"capitalize", {}, filter_capitalize},
    {"title", {}, filter_title},
    {"trim", {0, {"chars"}}, filter_trim},
    {"replace", {2, {"old", "new", "count"}}, filter_replace},
    {"center", {0, {"width"}}, filter_center},
    {"indent", {0, {"width", "first", "blank"}}, filter_indent},
    {"truncate", {0, {"length", "killwords", "end", "leeway"}}, filter_truncate},
    {"wordcount", {}, filter_wordcount},
    {"escape", {}, filter_escape},
    {"e", {}, filter_escape},
    {"tojson", {0, {"ensure_ascii", "indent", "separators", "sort_keys"}}, filter_tojson},
};

}  // namespace

const Function* find_text_filter(std::string_view name) {
    const auto* found = std::find_if(std::begin(kTextFilters), std::end(kTextFilters),
                                     [name](const Function& f) { return f.name == name; });
    return found == std::end(kTextFilters) ? nullptr : found;
}

}  // namespace strata::serve::jinja
