// Printing. Recursion follows the nesting of values, which object.hpp bounds.
#include "serve/text/jinja/print.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "serve/text/unicode.hpp"

namespace strata::serve::jinja {
namespace {

constexpr std::string_view kHex = "0123456789abcdef";

std::string hex(char32_t code, int digits) {
    std::string out;
    for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4)
        out += kHex[(code >> static_cast<unsigned>(shift)) & 0xFU];
    return out;
}

std::string escaped_repr(char32_t code) {
    if (code == '\n') return "\\n";
    if (code == '\r') return "\\r";
    if (code == '\t') return "\\t";
    if (code <= 0xFF) return "\\x" + hex(code, 2);
    return code <= 0xFFFF ? "\\u" + hex(code, 4) : "\\U" + hex(code, 8);
}

// Walks the characters of a text; `change` gives what a character is written as, or nothing for
// itself. Unchanged stretches are copied whole.
template <class Change>
void print_changed(TextBuilder& out, Meter& meter, const Text& text, Change change) {
    if (!meter.step_bytes(text.size())) return;
    std::size_t copied = 0;
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text.bytes(), at);
        const std::string changed =
            step.kind == Utf8Kind::valid ? change(step.code) : std::string();
        if (!changed.empty()) {
            out.append(text, copied, at);
            out.append(changed, text.marked(at));
            copied = at + step.bytes;
        }
        at += step.bytes;
    }
    out.append(text, copied, text.size());
}

void print_text_repr(TextBuilder& out, Meter& meter, const Text& text) {
    const bool single = text.bytes().find('\'') != std::string_view::npos;
    const bool twice = text.bytes().find('"') != std::string_view::npos;
    const char32_t quote = single && !twice ? '"' : '\'';
    const std::string mark(1, static_cast<char>(quote));
    out.append(mark);
    print_changed(out, meter, text, [quote](char32_t code) {
        if (code == quote || code == '\\') return std::string("\\") + static_cast<char>(code);
        return is_printable(code) ? std::string() : escaped_repr(code);
    });
    out.append(mark);
}

void print_json_text(TextBuilder& out, Meter& meter, const Text& text, bool ensure_ascii) {
    out.append("\"");
    print_changed(out, meter, text, [ensure_ascii](char32_t code) -> std::string {
        switch (code) {
            case '"':
                return "\\\"";
            case '\\':
                return "\\\\";
            case '\n':
                return "\\n";
            case '\r':
                return "\\r";
            case '\t':
                return "\\t";
            case '\f':
                return "\\f";
            case '\b':
                return "\\b";
            default:
                break;
        }
        if (code < 0x20) return "\\u" + hex(code, 4);
        if (!ensure_ascii || code < 0x80) return {};
        if (code < 0x10000) return "\\u" + hex(code, 4);
        const char32_t rest = code - 0x10000;
        return "\\u" + hex(0xD800 + (rest >> 10U), 4) + "\\u" + hex(0xDC00 + (rest & 0x3FFU), 4);
    });
    out.append("\"");
}

void print_items(TextBuilder& out, Meter& meter, const Objects& items) {
    for (std::size_t i = 0; i < items.size() && !meter.halted(); ++i) {
        if (i > 0) out.append(", ");
        print_repr(out, meter, items[i]);
    }
}

void print_list(TextBuilder& out, Meter& meter, const List& list) {
    const auto wrapped = [&](std::string_view open, std::string_view close) {
        out.append(open);
        print_items(out, meter, list.items);
        out.append(close);
    };
    switch (list.flavor) {
        case Flavor::list:
            return wrapped("[", "]");
        case Flavor::tuple:
        case Flavor::group:
            return wrapped("(", list.items.size() == 1 ? ",)" : ")");
        case Flavor::generator:
            return out.append("<generator object>");
        case Flavor::dict_items:
            return wrapped("dict_items([", "])");
        case Flavor::dict_keys:
            return wrapped("dict_keys([", "])");
        case Flavor::dict_values:
            return wrapped("dict_values([", "])");
        case Flavor::range:
            break;
    }
    // range(start, stop[, step]) from its items; an empty one does not remember its ends.
    const auto at = [&list](std::size_t i) { return integer_of(list.items[i]); };
    const std::size_t count = list.items.size();
    const std::int64_t step = count > 1 ? at(1) - at(0) : 1;
    const std::int64_t first = count > 0 ? at(0) : 0;
    const std::int64_t stop = count > 0 ? at(count - 1) + (step > 0 ? 1 : -1) : 0;
    out.append("range(" + std::to_string(first) + ", " + std::to_string(stop) +
               (step == 1 ? "" : ", " + std::to_string(step)) + ")");
}

void print_dict(TextBuilder& out, Meter& meter, const Dict& dict) {
    out.append("{");
    for (std::size_t i = 0; i < dict.entries.size() && !meter.halted(); ++i) {
        if (i > 0) out.append(", ");
        print_repr(out, meter, dict.entries[i].first);
        out.append(": ");
        print_repr(out, meter, dict.entries[i].second);
    }
    out.append("}");
}

// True when the object was a scalar of one word.
bool print_scalar(TextBuilder& out, const Object& object) {
    if (object.none()) {
        out.append("None");
    } else if (const auto* flag = object.as<bool>()) {
        out.append(*flag ? "True" : "False");
    } else if (const auto* integer = object.as<std::int64_t>()) {
        out.append(std::to_string(*integer));
    } else if (const auto* real = object.as<double>()) {
        out.append(format_real(*real));
    } else {
        return false;
    }
    return true;
}

// Between the brackets of a JSON container: a line break and its indentation, or nothing.
void append_break(TextBuilder& out, const JsonStyle& style, int level) {
    if (!style.indent) return;
    out.append("\n");
    for (int i = 0; i < level; ++i) out.append(*style.indent);
}

// The key as text, as json.dumps turns it; fails for what cannot be one.
TextPtr json_key(Meter& meter, const Object& key) {
    if (key.text()) return *key.as<TextPtr>();
    TextBuilder out(meter);
    if (key.none() || key.is<bool>()) {
        out.append(key.none() ? "null" : *key.as<bool>() ? "true" : "false");
    } else if (!print_scalar(out, key)) {
        meter.fail(std::string("keys of JSON are str, int, float, bool or None, not ") +
                   type_name(key));
    }
    return out.finish();
}

void print_json_dict(TextBuilder& out, Meter& meter, const Dict& dict, const JsonStyle& style,
                     int level) {
    std::vector<const std::pair<Object, Object>*> entries;
    for (const auto& entry : dict.entries) entries.push_back(&entry);
    if (style.sort_keys) {
        std::stable_sort(entries.begin(), entries.end(), [&meter](const auto* a, const auto* b) {
            const auto less = order(meter, a->first, b->first);
            if (!less) meter.fail("keys of different types cannot be sorted");
            return less && *less < 0;
        });
    }
    out.append("{");
    bool first = true;
    for (const auto* entry : entries) {
        if (meter.halted()) return;
        if (!first) out.append(style.item_separator);
        first = false;
        append_break(out, style, level + 1);
        print_json_text(out, meter, *json_key(meter, entry->first), style.ensure_ascii);
        out.append(style.key_separator);
        print_json(out, meter, entry->second, style, level + 1);
    }
    if (!first) append_break(out, style, level);
    out.append("}");
}

void print_json_list(TextBuilder& out, Meter& meter, const List& list, const JsonStyle& style,
                     int level) {
    out.append("[");
    for (std::size_t i = 0; i < list.items.size() && !meter.halted(); ++i) {
        if (i > 0) out.append(style.item_separator);
        append_break(out, style, level + 1);
        print_json(out, meter, list.items[i], style, level + 1);
    }
    if (!list.items.empty()) append_break(out, style, level);
    out.append("]");
}

}  // namespace

std::string format_real(double value) {
    if (std::isnan(value)) return "nan";
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    std::array<char, 64> buffer{};
    auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                             std::chars_format::scientific)
                   .ptr;
    const std::string scientific(buffer.data(), end);
    const int exponent = std::stoi(scientific.substr(scientific.find('e') + 1));
    if (value != 0 && (exponent < -4 || exponent >= 16)) return scientific;
    // Fixed notation of at most 16 digits before the point prints the same shortest digits.
    std::array<char, 400> fixed{};
    end = std::to_chars(fixed.data(), fixed.data() + fixed.size(), value, std::chars_format::fixed)
              .ptr;
    std::string out(fixed.data(), end);
    return out.find('.') == std::string::npos ? out + ".0" : out;
}

void print(TextBuilder& out, Meter& meter, const Object& object) {
    if (object.undefined()) return;
    if (const Text* text = object.text()) return out.append(*text);
    print_repr(out, meter, object);
}

TextPtr to_text(Meter& meter, const Object& object) {
    if (object.text()) return *object.as<TextPtr>();
    TextBuilder out(meter);
    print(out, meter, object);
    return out.finish();
}

void print_repr(TextBuilder& out, Meter& meter, const Object& object) {
    if (print_scalar(out, object)) return;
    if (const Text* text = object.text()) return print_text_repr(out, meter, *text);
    if (const List* list = object.list()) return print_list(out, meter, *list);
    if (const Dict* dict = object.dict()) return print_dict(out, meter, *dict);
    if (object.undefined()) return out.append("Undefined");
    out.append(std::string("<") + type_name(object) + ">");
}

void print_json(TextBuilder& out, Meter& meter, const Object& object, const JsonStyle& style,
                int level) {
    if (object.none()) return out.append("null");
    if (const auto* flag = object.as<bool>()) return out.append(*flag ? "true" : "false");
    if (const auto* real = object.as<double>()) {
        if (std::isnan(*real)) return out.append("NaN");
        if (std::isinf(*real)) return out.append(*real > 0 ? "Infinity" : "-Infinity");
    }
    if (print_scalar(out, object)) return;
    if (const Text* text = object.text())
        return print_json_text(out, meter, *text, style.ensure_ascii);
    if (const Dict* dict = object.dict()) return print_json_dict(out, meter, *dict, style, level);
    const List* list = object.list();
    const bool array =
        list != nullptr && (list->flavor == Flavor::list || list->flavor == Flavor::tuple ||
                            list->flavor == Flavor::group);
    if (array) return print_json_list(out, meter, *list, style, level);
    meter.fail(std::string("a ") + type_name(object) + " cannot be written as JSON");
}

}  // namespace strata::serve::jinja
