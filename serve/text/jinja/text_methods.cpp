// Methods of str. The input is always a text.
#include <algorithm>

#include "serve/text/jinja/library.hpp"
#include "serve/text/jinja/text_ops.hpp"

namespace strata::serve::jinja {
namespace {

const TextPtr& self_of(const Object& input) {
    return *input.as<TextPtr>();
}

TextPtr needed_text(Meter& meter, const Object* argument) {
    if (argument == nullptr || !argument->text()) {
        meter.fail(std::string("a str is needed, not ") +
                   (argument == nullptr ? "nothing" : type_name(*argument)));
        return text_or_empty(meter, nullptr);
    }
    return *argument->as<TextPtr>();
}

Object stripped(Meter& meter, const Object& input, const Bound& arguments, Side side) {
    const bool given = arguments[0] != nullptr && !arguments[0]->none();
    const TextPtr characters = given ? needed_text(meter, arguments[0]) : nullptr;
    const Span span = strip(meter, *self_of(input), side, characters.get());
    return make_slice(meter, *self_of(input), span.begin, span.end);
}

Object method_strip(Meter& meter, const Object& input, const Bound& arguments) {
    return stripped(meter, input, arguments, Side::both);
}
Object method_lstrip(Meter& meter, const Object& input, const Bound& arguments) {
    return stripped(meter, input, arguments, Side::left);
}
Object method_rstrip(Meter& meter, const Object& input, const Bound& arguments) {
    return stripped(meter, input, arguments, Side::right);
}

Object split_by(Meter& meter, const Object& input, const Bound& arguments, bool from_right) {
    const bool given = arguments[0] != nullptr && !arguments[0]->none();
    const TextPtr separator = given ? needed_text(meter, arguments[0]) : nullptr;
    if (separator && separator->size() == 0) meter.fail("the separator of split is empty");
    if (meter.halted()) return {};
    const std::int64_t cuts = integer_or(meter, arguments[1], -1);
    return slices(meter, *self_of(input),
                  split(meter, *self_of(input), separator.get(), cuts, from_right));
}

Object method_split(Meter& meter, const Object& input, const Bound& arguments) {
    return split_by(meter, input, arguments, false);
}
Object method_rsplit(Meter& meter, const Object& input, const Bound& arguments) {
    return split_by(meter, input, arguments, true);
}

Object method_splitlines(Meter& meter, const Object& input, const Bound& arguments) {
    return slices(meter, *self_of(input),
                  split_lines(*self_of(input), truth_or(arguments[0], false)));
}

Object parted(Meter& meter, const Object& input, const Bound& arguments, bool from_right) {
    const Text& text = *self_of(input);
    const TextPtr separator = needed_text(meter, arguments[0]);
    if (separator->size() == 0) meter.fail("the separator of partition is empty");
    if (meter.halted()) return {};
    if (!meter.step_search(text.size(), separator->size())) return {};
    const std::size_t at =
        from_right ? text.bytes().rfind(separator->bytes()) : text.bytes().find(separator->bytes());
    const bool found = at != std::string_view::npos;
    const std::size_t cut = found ? at : from_right ? 0 : text.size();
    const std::size_t after = found ? at + separator->size() : cut;
    return make_list(meter, Flavor::tuple,
                     {make_slice(meter, text, 0, cut), make_slice(meter, text, cut, after),
                      make_slice(meter, text, after, text.size())});
}

Object method_partition(Meter& meter, const Object& input, const Bound& arguments) {
    return parted(meter, input, arguments, false);
}
Object method_rpartition(Meter& meter, const Object& input, const Bound& arguments) {
    return parted(meter, input, arguments, true);
}

// Byte range of the code points [start, end) that arguments 1 and 2 give, as in a slice.
Span searched(Meter& meter, const Text& text, const Bound& arguments) {
    const auto count = static_cast<std::int64_t>(text.code_points());
    const auto place = [&](const Object* argument, std::int64_t fallback) {
        std::int64_t at = integer_or(meter, argument, fallback);
        if (at < 0) at = at < -count ? 0 : at + count;
        return text.offset_of(static_cast<std::size_t>(std::min(at, count)));
    };
    meter.step_bytes(text.size());
    return {place(arguments[1], 0), place(arguments[2], count)};
}

bool has_affix(Meter& meter, const Object& input, const Bound& arguments, bool at_start) {
    const Text& text = *self_of(input);
    const Span range = searched(meter, text, arguments);
    const std::string_view part = range.end < range.begin
                                      ? std::string_view()
                                      : text.bytes().substr(range.begin, range.end - range.begin);
    const auto matches = [&](const Object& affix) {
        const TextPtr wanted = needed_text(meter, &affix);
        return at_start ? part.starts_with(wanted->bytes()) : part.ends_with(wanted->bytes());
    };
    const List* several = arguments[0]->list();
    if (several == nullptr || several->flavor != Flavor::tuple) return matches(*arguments[0]);
    return std::any_of(several->items.begin(), several->items.end(), matches);
}

Object method_startswith(Meter& meter, const Object& input, const Bound& arguments) {
    return has_affix(meter, input, arguments, true);
}
Object method_endswith(Meter& meter, const Object& input, const Bound& arguments) {
    return has_affix(meter, input, arguments, false);
}

// Code point index of the first or last occurrence, -1 when there is none.
std::int64_t found_at(Meter& meter, const Object& input, const Bound& arguments, bool last) {
    const Text& text = *self_of(input);
    const TextPtr part = needed_text(meter, arguments[0]);
    const Span range = searched(meter, text, arguments);
    if (range.end < range.begin || !meter.step_search(text.size(), part->size())) return -1;
    const std::string_view inside = text.bytes().substr(0, range.end);
    const std::size_t at =
        last ? inside.rfind(part->bytes()) : inside.find(part->bytes(), range.begin);
    if (at == std::string_view::npos || at < range.begin) return -1;
    return static_cast<std::int64_t>(count_code_points(text.bytes().substr(0, at)));
}

Object method_find(Meter& meter, const Object& input, const Bound& arguments) {
    return found_at(meter, input, arguments, false);
}
Object method_rfind(Meter& meter, const Object& input, const Bound& arguments) {
    return found_at(meter, input, arguments, true);
}

Object index_of(Meter& meter, std::int64_t at) {
    if (at < 0) meter.fail("the substring is not found");
    return at;
}
Object method_index(Meter& meter, const Object& input, const Bound& arguments) {
    return index_of(meter, found_at(meter, input, arguments, false));
}
Object method_rindex(Meter& meter, const Object& input, const Bound& arguments) {
    return index_of(meter, found_at(meter, input, arguments, true));
}

Object method_count(Meter& meter, const Object& input, const Bound& arguments) {
    const Text& text = *self_of(input);
    const TextPtr part = needed_text(meter, arguments[0]);
    const Span range = searched(meter, text, arguments);
    if (range.end < range.begin || !meter.step_search(text.size(), part->size()))
        return std::int64_t{0};
    const std::string_view inside = text.bytes().substr(range.begin, range.end - range.begin);
    if (part->size() == 0) return static_cast<std::int64_t>(count_code_points(inside)) + 1;
    std::int64_t count = 0;
    for (std::size_t at = inside.find(part->bytes()); at != std::string_view::npos;
         at = inside.find(part->bytes(), at + part->size()))
        ++count;
    return count;
}

Object method_replace(Meter& meter, const Object& input, const Bound& arguments) {
    const TextPtr from = needed_text(meter, arguments[0]);
    const TextPtr to = needed_text(meter, arguments[1]);
    const std::int64_t count = integer_or(meter, arguments[2], -1);
    return meter.halted() ? Object() : Object(replace(meter, *self_of(input), *from, *to, count));
}

Object method_join(Meter& meter, const Object& input, const Bound& arguments) {
    const auto items = iterate(meter, *arguments[0]);
    if (!items) return {};
    for (const Object& item : *items) {
        if (!item.text()) meter.fail(std::string("join needs str items, not ") + type_name(item));
        if (meter.halted()) return {};
    }
    return join(meter, *self_of(input), *items);
}

Object method_lower(Meter& meter, const Object& input, const Bound&) {
    return lower(meter, *self_of(input));
}
Object method_upper(Meter& meter, const Object& input, const Bound&) {
    return upper(meter, *self_of(input));
}
Object method_title(Meter& meter, const Object& input, const Bound&) {
    return title(meter, *self_of(input));
}
Object method_capitalize(Meter& meter, const Object& input, const Bound&) {
    return capitalize(meter, *self_of(input));
}
Object method_swapcase(Meter& meter, const Object& input, const Bound&) {
    return swap_case(meter, *self_of(input));
}

Object padded(Meter& meter, const Object& input, const Bound& arguments, Side side) {
    const TextPtr fill = arguments[1] != nullptr ? needed_text(meter, arguments[1]) : nullptr;
    if (fill && fill->code_points() != 1) meter.fail("the fill is one character");
    const std::int64_t width = integer_or(meter, arguments[0], 0);
    return meter.halted()
               ? Object()
               : Object(pad(meter, *self_of(input), width, fill ? fill->bytes() : " ", side));
}
Object method_center(Meter& meter, const Object& input, const Bound& arguments) {
    return padded(meter, input, arguments, Side::both);
}
Object method_ljust(Meter& meter, const Object& input, const Bound& arguments) {
    return padded(meter, input, arguments, Side::left);
}
Object method_rjust(Meter& meter, const Object& input, const Bound& arguments) {
    return padded(meter, input, arguments, Side::right);
}

Object method_zfill(Meter& meter, const Object& input, const Bound& arguments) {
    const Text& text = *self_of(input);
    const std::size_t sign = text.bytes().starts_with('+') || text.bytes().starts_with('-') ? 1 : 0;
    const std::int64_t width = integer_or(meter, arguments[0], 0) - static_cast<std::int64_t>(sign);
    const Object rest = make_slice(meter, text, sign, text.size());
    TextBuilder out(meter);
    out.append(text, 0, sign);
    out.append(*pad(meter, *rest.text(), width, "0", Side::right));
    return out.finish();
}

Object method_removeprefix(Meter& meter, const Object& input, const Bound& arguments) {
    const Text& text = *self_of(input);
    const TextPtr part = needed_text(meter, arguments[0]);
    return make_slice(meter, text, text.bytes().starts_with(part->bytes()) ? part->size() : 0,
                      text.size());
}

Object method_removesuffix(Meter& meter, const Object& input, const Bound& arguments) {
    const Text& text = *self_of(input);
    const TextPtr part = needed_text(meter, arguments[0]);
    const bool has = part->size() > 0 && text.bytes().ends_with(part->bytes());
    return make_slice(meter, text, 0, text.size() - (has ? part->size() : 0));
}

template <bool (*belongs)(char32_t)>
Object method_all(Meter& meter, const Object& input, const Bound&) {
    meter.step_bytes(self_of(input)->size());
    return all_characters(*self_of(input), belongs);
}

bool is_decimal(char32_t c) {
    return category_of(c) == Category::Nd;
}
bool is_alphanumeric(char32_t c) {
    return is_letter(c) || is_number(c);
}

Object method_isascii(Meter&, const Object& input, const Bound&) {
    return self_of(input)->ascii();
}
Object method_isupper(Meter& meter, const Object& input, const Bound&) {
    meter.step_bytes(self_of(input)->size());
    return is_upper_text(*self_of(input));
}
Object method_islower(Meter& meter, const Object& input, const Bound&) {
    meter.step_bytes(self_of(input)->size());
    return is_lower_text(*self_of(input));
}

constexpr Function kTextMethods[] = {
    {"strip", {0, {"chars"}}, method_strip},
    {"lstrip", {0, {"chars"}}, method_lstrip},
    {"rstrip", {0, {"chars"}}, method_rstrip},
    {"split", {0, {"sep", "maxsplit"}}, method_split},
    {"rsplit", {0, {"sep", "maxsplit"}}, method_rsplit},
    {"splitlines", {0, {"keepends"}}, method_splitlines},
    {"partition", {1, {"sep"}}, method_partition},
    {"rpartition", {1, {"sep"}}, method_rpartition},
    {"startswith", {1, {"prefix", "start", "end"}}, method_startswith},
    {"endswith", {1, {"suffix", "start", "end"}}, method_endswith},
    {"find", {1, {"sub", "start", "end"}}, method_find},
    {"rfind", {1, {"sub", "start", "end"}}, method_rfind},
    {"index", {1, {"sub", "start", "end"}}, method_index},
    {"rindex", {1, {"sub", "start", "end"}}, method_rindex},
    {"count", {1, {"sub", "start", "end"}}, method_count},
    {"replace", {2, {"old", "new", "count"}}, method_replace},
    {"join", {1, {"iterable"}}, method_join},
    {"lower", {}, method_lower},
    {"casefold", {}, method_lower},
    {"upper", {}, method_upper},
    {"title", {}, method_title},
    {"capitalize", {}, method_capitalize},
    {"swapcase", {}, method_swapcase},
    {"center", {1, {"width", "fillchar"}}, method_center},
    {"ljust", {1, {"width", "fillchar"}}, method_ljust},
    {"rjust", {1, {"width", "fillchar"}}, method_rjust},
    {"zfill", {1, {"width"}}, method_zfill},
    {"removeprefix", {1, {"prefix"}}, method_removeprefix},
    {"removesuffix", {1, {"suffix"}}, method_removesuffix},
    {"isalpha", {}, method_all<is_letter>},
    {"isalnum", {}, method_all<is_alphanumeric>},
    {"isdigit", {}, method_all<is_python_digit>},
    {"isdecimal", {}, method_all<is_decimal>},
    {"isspace", {}, method_all<is_python_space>},
    {"isascii", {}, method_isascii},
    {"isupper", {}, method_isupper},
    {"islower", {}, method_islower},
};

}  // namespace

const Function* find_text_method(std::string_view name) {
    const auto* found = std::find_if(std::begin(kTextMethods), std::end(kTextMethods),
                                     [name](const Function& f) { return f.name == name; });
    return found == std::end(kTextMethods) ? nullptr : found;
}

}  // namespace strata::serve::jinja
