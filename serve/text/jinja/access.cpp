// What a template may reach of each type. Everything that Python would offer beyond this is
// undefined.
#include "serve/text/jinja/access.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>

namespace strata::serve::jinja {
namespace {

using namespace std::string_view_literals;

// str's methods in Python 3.11, less those that reach its internals.
constexpr std::array kTextMethods = {
    "capitalize"sv,   "casefold"sv,     "center"sv,    "count"sv,     "encode"sv,
    "endswith"sv,     "expandtabs"sv,   "find"sv,      "format"sv,    "format_map"sv,
    "index"sv,        "isalnum"sv,      "isalpha"sv,   "isascii"sv,   "isdecimal"sv,
    "isdigit"sv,      "isidentifier"sv, "islower"sv,   "isnumeric"sv, "isprintable"sv,
    "isspace"sv,      "istitle"sv,      "isupper"sv,   "join"sv,      "ljust"sv,
    "lower"sv,        "lstrip"sv,       "maketrans"sv, "partition"sv, "removeprefix"sv,
    "removesuffix"sv, "replace"sv,      "rfind"sv,     "rindex"sv,    "rjust"sv,
    "rpartition"sv,   "rsplit"sv,       "rstrip"sv,    "split"sv,     "splitlines"sv,
    "startswith"sv,   "strip"sv,        "swapcase"sv,  "title"sv,     "translate"sv,
    "upper"sv,        "zfill"sv};
constexpr std::array kDictMethods = {"copy"sv, "get"sv,    "items"sv,
                                     "keys"sv, "values"sv, "fromkeys"sv};
// Present in Python, forbidden in its sandbox: undefined even when the dict has such a key.
constexpr std::array kDictForbidden = {"clear"sv, "pop"sv, "popitem"sv, "setdefault"sv, "update"sv};
constexpr std::array kListMethods = {"append"sv, "copy"sv, "count"sv, "index"sv};
constexpr std::array kTupleMethods = {"count"sv, "index"sv};
constexpr std::array kCyclerMethods = {"next"sv, "reset"sv};
constexpr std::array kLoopMethods = {"cycle"sv, "changed"sv};

template <class Names>
bool is_one_of(const Names& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_indexed(const List& list) {
    return list.flavor == Flavor::list || list.flavor == Flavor::tuple ||
           list.flavor == Flavor::group || list.flavor == Flavor::range;
}

bool has_method(const Object& object, std::string_view name) {
    if (object.text()) return is_one_of(kTextMethods, name);
    if (object.dict()) return is_one_of(kDictMethods, name);
    if (const List* list = object.list()) {
        if (list->flavor == Flavor::list) return is_one_of(kListMethods, name);
        return is_indexed(*list) && is_one_of(kTupleMethods, name);
    }
    if (object.is<std::shared_ptr<Loop>>()) return is_one_of(kLoopMethods, name);
    const auto* cycler = object.as<std::shared_ptr<Cycler>>();
    return cycler != nullptr && !(*cycler)->joins && is_one_of(kCyclerMethods, name);
}

Object loop_attribute(const Loop& loop, std::string_view name) {
    const auto number = [](std::size_t n) { return Object(static_cast<std::int64_t>(n)); };
    const std::size_t count = loop.items->items.size();
    if (name == "index") return number(loop.index + 1);
    if (name == "index0") return number(loop.index);
    if (name == "revindex") return number(count - loop.index);
    if (name == "revindex0") return number(count - loop.index - 1);
    if (name == "first") return loop.index == 0;
    if (name == "last") return loop.index + 1 == count;
    if (name == "length") return number(count);
    if (name == "depth") return number(loop.depth + 1);
    if (name == "depth0") return number(loop.depth);
    if (name == "previtem" && loop.index > 0) return loop.items->items[loop.index - 1];
    if (name == "nextitem" && loop.index + 1 < count) return loop.items->items[loop.index + 1];
    return {};
}

Object missing(const Object& object, const std::string& name) {
    return Undefined{&name, type_name(object)};
}

// Index of a sequence; nothing when it is no int or outside.
std::optional<std::size_t> index_of(const Object& key, std::size_t count) {
    if (!is_integral(key)) return std::nullopt;
    const std::int64_t index = integer_of(key);
    const auto size = static_cast<std::int64_t>(count);
    if (index < -size || index >= size) return std::nullopt;
    return static_cast<std::size_t>(index < 0 ? index + size : index);
}

struct SliceRange {
    std::int64_t first = 0;
    std::int64_t step = 1;
    std::size_t count = 0;
};

// Python's PySlice_AdjustIndices. Fails when a part is neither int nor None, or the step is 0.
std::optional<SliceRange> slice_range(Meter& meter, std::size_t size, const Object& start,
                                      const Object& stop, const Object& step) {
    for (const Object* part : {&start, &stop, &step}) {
        if (part->none() || is_integral(*part)) continue;
        meter.fail(std::string("parts of a slice are integers or none, not ") + type_name(*part));
        return std::nullopt;
    }
    const auto length = static_cast<std::int64_t>(size);
    SliceRange range;
    range.step =
        step.none() ? 1 : std::max(integer_of(step), -std::numeric_limits<std::int64_t>::max());
    if (range.step == 0) {
        meter.fail("the step of a slice is 0");
        return std::nullopt;
    }
    const bool down = range.step < 0;
    const auto bound = [&](const Object& part, std::int64_t fallback) {
        if (part.none()) return fallback;
        std::int64_t at = integer_of(part);
        if (at < 0) at = at < -length ? -1 : at + length;
        return std::clamp<std::int64_t>(at, down ? -1 : 0, down ? length - 1 : length);
    };
    range.first = bound(start, down ? length - 1 : 0);
    const std::int64_t end = bound(stop, down ? -1 : length);
    const std::int64_t distance = down ? range.first - end : end - range.first;
    const std::int64_t stride = down ? -range.step : range.step;
    if (distance > 0) range.count = static_cast<std::size_t>((distance - 1) / stride + 1);
    return range;
}

Object slice_text(Meter& meter, const Text& text, const SliceRange& range) {
    meter.step_bytes(text.size());
    if (range.step == 1) {
        const std::size_t begin = text.offset_of(static_cast<std::size_t>(range.first));
        const std::size_t end = text.offset_of(static_cast<std::size_t>(range.first) + range.count);
        return make_slice(meter, text, begin, end);
    }
    std::vector<std::size_t> offsets;  // of each code point, and the end
    const std::size_t count = text.code_points();
    if (!meter.fits_text(count * sizeof(std::size_t))) return {};
    for (std::size_t at = 0; at < text.size();) {
        offsets.push_back(at);
        do {
            ++at;
        } while (at < text.size() &&
                 (static_cast<std::uint8_t>(text.bytes()[at]) & 0xC0U) == 0x80U);
    }
    offsets.push_back(text.size());
    TextBuilder out(meter);
    for (std::size_t i = 0; i < range.count && !meter.halted(); ++i) {
        const auto at =
            static_cast<std::size_t>(range.first + static_cast<std::int64_t>(i) * range.step);
        if (at + 1 < offsets.size()) out.append(text, offsets[at], offsets[at + 1]);
    }
    return out.finish();
}

}  // namespace

Object get_own_attribute(Meter& meter, const Object& object, const std::string& name) {
    if (!defined(meter, object)) return {};
    if (has_method(object, name)) return std::make_shared<const Method>(Method{object, name});
    if (const auto* loop = object.as<std::shared_ptr<Loop>>()) {
        Object value = loop_attribute(**loop, name);
        return value.undefined() ? missing(object, name) : value;
    }
    if (const auto* space = object.as<Namespace*>()) {
        for (const auto& [key, value] : (*space)->attributes) {
            if (key == name) return value;
        }
    }
    if (const List* list = object.list(); list != nullptr && list->flavor == Flavor::group) {
        if (name == "grouper") return list->items[0];
        if (name == "list") return list->items[1];
    }
    if (const auto* cycler = object.as<std::shared_ptr<Cycler>>();
        cycler != nullptr && name == "current") {
        return (*cycler)->items[(*cycler)->position];
    }
    return missing(object, name);
}

Object get_attribute(Meter& meter, const Object& object, const std::string& name) {
    Object own = get_own_attribute(meter, object, name);
    const Dict* dict = object.dict();
    if (!own.undefined() || dict == nullptr || is_one_of(kDictForbidden, name)) return own;
    const Object* value = dict->find(name);
    return value != nullptr ? *value : own;
}

Object get_item(Meter& meter, const Object& object, const Object& key) {
    if (!defined(meter, object)) return {};
    if (const Dict* dict = object.dict(); dict != nullptr && hashable(meter, key)) {
        if (const Text* text = key.text()) meter.step_copy(text->size());
        if (const Object* value = dict->find(meter, key)) return *value;
    }
    if (const List* list = object.list(); list != nullptr && is_indexed(*list)) {
        if (const auto at = index_of(key, list->items.size())) return list->items[*at];
    }
    if (const Text* text = object.text(); text != nullptr && is_integral(key)) {
        meter.step_bytes(text->size());
        if (const auto at = index_of(key, text->code_points())) {
            const std::size_t begin = text->offset_of(*at);
            return make_slice(meter, *text, begin, text->offset_of(*at + 1));
        }
    }
    // A key that is not there may still name an attribute.
    const Text* name = key.text();
    Object own =
        name != nullptr ? get_own_attribute(meter, object, std::string(name->bytes())) : Object();
    // The name died with the temporary: the undefined value must not remember it.
    return own.undefined() ? Object(Undefined{nullptr, type_name(object)}) : own;
}

Object get_slice(Meter& meter, const Object& object, const Object& start, const Object& stop,
                 const Object& step) {
    if (!defined(meter, object)) return {};
    const Text* text = object.text();
    const List* list = object.list();
    if (text == nullptr && (list == nullptr || !is_indexed(*list))) {
        meter.fail(std::string("a ") + type_name(object) + " cannot be sliced");
        return {};
    }
    const auto range = slice_range(
        meter, text != nullptr ? text->code_points() : list->items.size(), start, stop, step);
    if (!range) return {};
    if (text != nullptr) return slice_text(meter, *text, *range);
    Objects items;
    for (std::size_t i = 0; i < range->count; ++i) {
        items.push_back(list->items[static_cast<std::size_t>(
            range->first + static_cast<std::int64_t>(i) * range->step)]);
    }
    return make_list(meter, list->flavor == Flavor::group ? Flavor::tuple : list->flavor,
                     std::move(items));
}

Object get_path(Meter& meter, const Object& object, const Object& path) {
    const Text* text = path.text();
    if (text == nullptr) return get_item(meter, object, path);
    Object at = object;
    std::string_view rest = text->bytes();
    while (!meter.halted()) {
        const std::size_t dot = rest.find('.');
        const std::string_view part = rest.substr(0, dot);
        std::int64_t index = 0;
        const auto read = std::from_chars(part.data(), part.data() + part.size(), index);
        const bool number = !part.empty() && read.ptr == part.data() + part.size() &&
                            read.ec == std::errc() && part[0] != '-';
        at = get_item(meter, at, number ? Object(index) : make_text(meter, part));
        if (dot == std::string_view::npos) break;
        rest = rest.substr(dot + 1);
    }
    return at;
}

bool has_length(const Object& object) {
    const List* list = object.list();
    return object.undefined() || object.text() || object.dict() ||
           (list != nullptr && list->flavor != Flavor::generator) ||
           object.is<std::shared_ptr<Loop>>();
}

std::size_t length_of(Meter& meter, const Object& object) {
    if (object.undefined()) return 0;
    if (const Text* text = object.text()) {
        meter.step_bytes(text->size());
        return text->code_points();
    }
    if (const Dict* dict = object.dict()) return dict->entries.size();
    if (const auto* loop = object.as<std::shared_ptr<Loop>>()) return (*loop)->items->items.size();
    if (has_length(object)) return object.list()->items.size();
    meter.fail(std::string("a ") + type_name(object) + " has no length");
    return 0;
}

}  // namespace strata::serve::jinja
