// Both pattern languages as walks with one cursor.
#include "serve/text/jinja/string_format.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "serve/text/jinja/access.hpp"
#include "serve/text/jinja/number_format.hpp"
#include "serve/text/jinja/operators.hpp"
#include "serve/text/jinja/print.hpp"
#include "serve/text/unicode.hpp"

namespace strata::serve::jinja {
namespace {

class PercentFormat {
  public:
    PercentFormat(Meter& meter, const Text& pattern, const Object& values)
        : meter_(meter), pattern_(pattern), values_(values), out_(meter) {
        const List* list = values.list();
        if (list != nullptr && (list->flavor == Flavor::tuple || list->flavor == Flavor::group))
            tuple_ = &list->items;
    }

    Object run() {
        const std::string_view bytes = pattern_.bytes();
        while (at_ < bytes.size() && !meter_.halted()) {
            const std::size_t next = std::min(bytes.find('%', at_), bytes.size());
            out_.append(pattern_, at_, next);
            at_ = next;
            if (at_ < bytes.size()) place();
        }
        const std::size_t given = tuple_ != nullptr ? tuple_->size() : 1;
        const bool mapping =
            tuple_ == nullptr && (values_.dict() || values_.list() || values_.undefined());
        if (used_ < given && !mapping) meter_.fail("not all arguments are used by the pattern");
        return out_.finish();
    }

  private:
    char next() const { return at_ < pattern_.size() ? pattern_.bytes()[at_] : '\0'; }

    const Object* take_value() {
        const bool has = tuple_ != nullptr ? used_ < tuple_->size() : used_ == 0;
        if (!has) {
            meter_.fail("there are not enough arguments for the pattern");
            return nullptr;
        }
        return tuple_ != nullptr ? &(*tuple_)[used_++] : (++used_, &values_);
    }

    void take_flags(FormatSpec& spec) {
        bool left = false;
        for (;; ++at_) {
            const char c = next();
            if (c == '-')
                left = true;
            else if (c == '+')
                spec.sign = '+';
            else if (c == ' ')
                spec.sign = spec.sign == '+' ? '+' : ' ';
            else if (c == '#')
                spec.alternate = true;
            else if (c == '0')
                spec.fill = "0";
            else
                break;
        }
        spec.align = left ? '<' : spec.fill == "0" ? '=' : '>';
        if (left) spec.fill = " ";
    }

    std::int64_t take_count(std::int64_t fallback) {
        if (next() == '*') {
            ++at_;
            const Object* value = take_value();
            return value == nullptr ? fallback : integer_or(meter_, value, fallback);
        }
        std::int64_t value = fallback;
        const std::string_view rest = pattern_.bytes().substr(at_);
        at_ += static_cast<std::size_t>(
            std::from_chars(rest.data(), rest.data() + rest.size(), value).ptr - rest.data());
        return value;
    }

    void place() {
        ++at_;
        const Object* keyed = nullptr;
        if (next() == '(') {
            const std::size_t close = pattern_.bytes().find(')', at_);
            if (close == std::string_view::npos || !values_.dict())
                return meter_.fail("a key in the pattern needs a dict");
            keyed = values_.dict()->find(pattern_.bytes().substr(at_ + 1, close - at_ - 1));
            if (keyed == nullptr) return meter_.fail("the dict has no key that the pattern names");
            at_ = close + 1;
        }
        FormatSpec spec;
        take_flags(spec);
        spec.width = take_count(0);
        if (spec.width < 0) {
            spec.width = spec.width == INT64_MIN ? 0 : -spec.width;
            spec.align = '<';
        }
        if (next() == '.') {
            ++at_;
            spec.precision = std::max<std::int64_t>(take_count(0), 0);
        }
        while (next() == 'l' || next() == 'h' || next() == 'L') ++at_;
        const char type = next();
        ++at_;
        if (type == '%') return out_.append("%");
        if (spec.precision > kPrecisionMax)
            return meter_.fail("the pattern asks for too many digits");
        const Object* value = keyed != nullptr ? keyed : take_value();
        if (value != nullptr) convert(type, *value, spec);
    }

    void convert(char type, const Object& value, FormatSpec& spec) {
        switch (type) {
            case 's':
            case 'r':
                return convert_text(type == 's' ? to_text(meter_, value) : repr(value), spec);
            case 'c':
                return convert_character(value, spec);
            case 'd':
            case 'i':
            case 'u':
                spec.type = 'd';
                return convert_integer(value, spec);
            case 'o':
            case 'x':
            case 'X':
                spec.type = type;
                if (!is_integral(value))
                    return meter_.fail(std::string("'%") + type + "' needs an int");
                return convert_integer(value, spec);
            case 'e':
            case 'E':
            case 'f':
            case 'F':
            case 'g':
            case 'G':
                spec.type = type;
                return convert_float(value, spec);
            default:
                meter_.fail(std::string("the pattern has no '%") + (type == '\0' ? ' ' : type) +
                            "'");
        }
    }

    TextPtr repr(const Object& value) {
        TextBuilder out(meter_);
        print_repr(out, meter_, value);
        return out.finish();
    }

    void convert_text(const TextPtr& text, FormatSpec& spec) {
        spec.fill = " ";
        if (spec.align == '=') spec.align = '>';
        const std::size_t end = spec.precision < 0
                                    ? text->size()
                                    : text->offset_of(static_cast<std::size_t>(spec.precision));
        append_padded(out_, meter_, *make_slice(meter_, *text, 0, end).text(), 0, spec, '>');
    }

    void convert_character(const Object& value, FormatSpec& spec) {
        const Text* text = value.text();
        if (text != nullptr && text->code_points() == 1)
            return convert_text(*value.as<TextPtr>(), spec);
        const bool code =
            is_integral(value) && integer_of(value) >= 0 && integer_of(value) <= 0x10FFFF;
        if (!code) return meter_.fail("'%c' needs a code point or one character");
        std::string character;
        append_utf8(character, static_cast<char32_t>(integer_of(value)));
        convert_text(*make_text(meter_, character).as<TextPtr>(), spec);
    }

    void append_number(NumberText number, const FormatSpec& spec) {
        if (meter_.halted()) return;
        append_padded(out_, meter_, *make_text(meter_, number.text).text(), number.lead, spec, '>');
    }

    void convert_integer(const Object& value, FormatSpec& spec) {
        const auto* real = value.as<double>();
        if (!is_integral(value) && real == nullptr)
            return meter_.fail(std::string("'%d' needs a number, not ") + type_name(value));
        if (real != nullptr && !(std::fabs(*real) < 9.2e18))
            return meter_.fail("the integer does not fit 64 bits");
        const std::int64_t whole =
            real != nullptr ? static_cast<std::int64_t>(*real) : integer_of(value);
        NumberText number = format_integer(meter_, whole, spec);
        const std::size_t digits = number.text.size() - number.lead;
        if (spec.precision >= 0 && digits < static_cast<std::size_t>(spec.precision)) {
            number.text.insert(number.lead, static_cast<std::size_t>(spec.precision) - digits, '0');
        }
        append_number(std::move(number), spec);
    }

    void convert_float(const Object& value, const FormatSpec& spec) {
        if (!is_numeric(value))
            return meter_.fail(std::string("the pattern needs a number, not ") + type_name(value));
        append_number(format_float(meter_, real_of(value), spec), spec);
    }

    Meter& meter_;
    const Text& pattern_;
    const Object& values_;
    const Objects* tuple_ = nullptr;
    TextBuilder out_;
    std::size_t at_ = 0;
    std::size_t used_ = 0;
};

class BraceFormat {
  public:
    BraceFormat(Meter& meter, const Text& pattern, const Arguments& arguments)
        : meter_(meter), pattern_(pattern), arguments_(arguments), out_(meter) {}

    Object run() {
        const std::string_view bytes = pattern_.bytes();
        std::size_t at = 0;
        while (at < bytes.size() && !meter_.halted()) {
            const std::size_t brace = std::min(bytes.find_first_of("{}", at), bytes.size());
            out_.append(pattern_, at, brace);
            if (brace == bytes.size()) break;
            if (brace + 1 < bytes.size() && bytes[brace + 1] == bytes[brace]) {
                out_.append(pattern_, brace, brace + 1);
                at = brace + 2;
                continue;
            }
            const std::size_t close = bytes[brace] == '{' ? closing(brace) : std::string_view::npos;
            if (close == std::string_view::npos) {
                meter_.fail(std::string("a single '") + bytes[brace] + "' in the format");
                break;
            }
            field(bytes.substr(brace + 1, close - brace - 1));
            at = close + 1;
        }
        return out_.finish();
    }

  private:
    // The brace that closes the one at `open`; a specification may hold fields of its own.
    std::size_t closing(std::size_t open) const {
        int depth = 0;
        for (std::size_t at = open; at < pattern_.size(); ++at) {
            if (pattern_.bytes()[at] == '{') ++depth;
            if (pattern_.bytes()[at] == '}' && --depth == 0) return at;
        }
        return std::string_view::npos;
    }

    void field(std::string_view text) {
        const std::size_t colon = std::min(text.find(':'), text.size());
        std::string_view name = text.substr(0, colon);
        char conversion = '\0';
        if (name.size() >= 2 && name[name.size() - 2] == '!') {
            conversion = name.back();
            name.remove_suffix(2);
        }
        Object value = look_up(name);
        if (conversion == 's') value = to_text(meter_, value);
        if (conversion == 'r') {
            TextBuilder repr(meter_);
            print_repr(repr, meter_, value);
            value = repr.finish();
        }
        if (conversion != '\0' && conversion != 's' && conversion != 'r')
            meter_.fail("the format's conversion is not !s or !r");
        const std::string spec =
            colon < text.size() ? expand(text.substr(colon + 1)) : std::string();
        append_formatted(out_, meter_, value, parse_spec(meter_, spec), !spec.empty());
    }

    // A specification with its own fields filled in, one level deep.
    std::string expand(std::string_view spec) {
        std::string out;
        while (!meter_.halted()) {
            const std::size_t open = std::min(spec.find('{'), spec.size());
            out += spec.substr(0, open);
            if (open == spec.size()) break;
            const std::size_t close = spec.find('}', open);
            if (close == std::string_view::npos) break;
            out += to_text(meter_, look_up(spec.substr(open + 1, close - open - 1)))->bytes();
            spec = spec.substr(close + 1);
        }
        return out;
    }

    // name, then .attribute and [key] in any number.
    Object look_up(std::string_view path) {
        std::size_t end = std::min(path.find_first_of(".["), path.size());
        Object value = argument(path.substr(0, end));
        while (end < path.size() && !meter_.halted()) {
            const bool attribute = path[end] == '.';
            const std::size_t begin = end + 1;
            end = std::min(attribute ? path.find_first_of(".[", begin) : path.find(']', begin),
                           path.size());
            const std::string part(path.substr(begin, end - begin));
            if (part.empty() || (!attribute && end == path.size()))
                meter_.fail("a field of the format is not valid");
            value = attribute ? get_attribute(meter_, value, part)
                              : get_item(meter_, value, key_of(part));
            if (value.undefined())
                value = Object(Undefined{});  // `part` ends here, its name with it
            if (!attribute && end < path.size()) ++end;
        }
        return value;
    }

    Object key_of(const std::string& part) {
        std::int64_t index = 0;
        const auto read = std::from_chars(part.data(), part.data() + part.size(), index);
        return read.ptr == part.data() + part.size() ? Object(index) : make_text(meter_, part);
    }

    Object argument(std::string_view name) {
        std::size_t index = 0;
        const auto read = std::from_chars(name.data(), name.data() + name.size(), index);
        const bool numbered = !name.empty() && read.ptr == name.data() + name.size();
        if (name.empty() || numbered) {
            if ((name.empty() && manual_) || (numbered && next_ > 0)) {
                meter_.fail("the format mixes numbered and unnumbered fields");
                return {};
            }
            manual_ = manual_ || numbered;
            const std::size_t at = numbered ? index : next_++;
            if (at < arguments_.positional.size()) return arguments_.positional[at];
            meter_.fail("the format names more values than are given");
            return {};
        }
        for (const auto& [key, value] : arguments_.named) {
            if (key == name) return value;
        }
        meter_.fail("the format has no value for '" + std::string(name.substr(0, 40)) + "'");
        return {};
    }

    Meter& meter_;
    const Text& pattern_;
    const Arguments& arguments_;
    TextBuilder out_;
    std::size_t next_ = 0;
    bool manual_ = false;
};

}  // namespace

Object format_percent(Meter& meter, const Text& pattern, const Object& values) {
    return PercentFormat(meter, pattern, values).run();
}

Object format_braces(Meter& meter, const Text& pattern, const Arguments& arguments) {
    return BraceFormat(meter, pattern, arguments).run();
}

}  // namespace strata::serve::jinja
