// Filters that work on sequences and dicts.
#include <algorithm>

#include "serve/text/jinja/access.hpp"
#include "serve/text/jinja/library.hpp"
#include "serve/text/jinja/operators.hpp"
#include "serve/text/jinja/print.hpp"
#include "serve/text/jinja/text_ops.hpp"

namespace strata::serve::jinja {
namespace {

Objects items_of(Meter& meter, const Object& input) {
    return iterate(meter, input).value_or(Objects{});
}

const Object* given(const Object* argument) {
    return argument != nullptr && !argument->none() ? argument : nullptr;
}

// The value to sort or compare by: an attribute when one is named, in lower case unless it matters.
Object key_of(Meter& meter, const Object& item, const Object* attribute, bool case_sensitive) {
    Object key = attribute != nullptr ? get_path(meter, item, *attribute) : item;
    if (!case_sensitive && key.text()) return lower(meter, *key.text());
    return key;
}

struct Keyed {
    Object key;
    Object item;
};

bool less(Meter& meter, const Object& a, const Object& b) {
    if (meter.halted()) return false;
    const auto result = order(meter, a, b);
    if (!result)
        meter.fail(std::string("there is no order between ") + type_name(a) + " and " +
                   type_name(b));
    return result && *result < 0;
}

void sort_keyed(Meter& meter, std::vector<Keyed>& keyed, bool reverse) {
    std::stable_sort(keyed.begin(), keyed.end(), [&](const Keyed& a, const Keyed& b) {
        return reverse ? less(meter, b.key, a.key) : less(meter, a.key, b.key);
    });
}

std::vector<Keyed> keyed_items(Meter& meter, const Object& input, const Object* attribute,
                               bool case_sensitive) {
    std::vector<Keyed> keyed;
    for (Object& item : items_of(meter, input)) {
        if (!meter.step()) break;
        keyed.push_back({key_of(meter, item, attribute, case_sensitive), item});
    }
    return keyed;
}

Object plain_list(Meter& meter, const std::vector<Keyed>& keyed) {
    Objects items;
    for (const Keyed& each : keyed) items.push_back(each.item);
    return make_list(meter, Flavor::list, std::move(items));
}

Object filter_list(Meter& meter, const Object& input, const Bound&) {
    return make_list(meter, Flavor::list, items_of(meter, input));
}

Object filter_first(Meter& meter, const Object& input, const Bound&) {
    const Objects items = items_of(meter, input);
    return items.empty() ? Object() : items.front();
}

Object filter_last(Meter& meter, const Object& input, const Bound&) {
    if (!has_length(input)) {
        meter.fail(std::string("a ") + type_name(input) + " cannot be read backwards");
        return {};
    }
    const Objects items = items_of(meter, input);
    return items.empty() ? Object() : items.back();
}

Object filter_length(Meter& meter, const Object& input, const Bound&) {
    return static_cast<std::int64_t>(length_of(meter, input));
}

Object filter_reverse(Meter& meter, const Object& input, const Bound&) {
    if (input.text()) return reversed(meter, *input.text());
    Objects items = items_of(meter, input);
    std::reverse(items.begin(), items.end());
    return make_list(meter, Flavor::generator, std::move(items));
}

Object filter_join(Meter& meter, const Object& input, const Bound& arguments) {
    const Object* attribute = given(arguments[1]);
    const TextPtr separator =
        arguments[0] != nullptr ? to_text(meter, *arguments[0]) : text_or_empty(meter, nullptr);
    TextBuilder out(meter);
    bool first = true;
    for (const Object& item : items_of(meter, input)) {
        if (!meter.step()) break;
        if (!first) out.append(*separator);
        first = false;
        print(out, meter, attribute != nullptr ? get_path(meter, item, *attribute) : item);
    }
    return out.finish();
}

Object filter_items(Meter& meter, const Object& input, const Bound&) {
    Objects pairs;
    if (const Dict* dict = input.dict()) {
        for (const auto& [key, value] : dict->entries)
            pairs.push_back(make_list(meter, Flavor::tuple, {key, value}));
    } else if (!input.undefined()) {
        meter.fail(std::string("items needs a dict, not ") + type_name(input));
    }
    return make_list(meter, Flavor::generator, std::move(pairs));
}

Object filter_dictsort(Meter& meter, const Object& input, const Bound& arguments) {
    const Dict* dict = input.dict();
    const TextPtr by = arguments[1] != nullptr ? text_or_empty(meter, arguments[1]) : nullptr;
    if (dict == nullptr || (by && by->bytes() != "key" && by->bytes() != "value")) {
        meter.fail(dict == nullptr ? std::string("dictsort needs a dict, not ") + type_name(input)
                                   : "by is 'key' or 'value'");
        return {};
    }
    std::vector<Keyed> keyed;
    for (const auto& [key, value] : dict->entries) {
        const Object& chosen = by && by->bytes() == "value" ? value : key;
        keyed.push_back({key_of(meter, chosen, nullptr, truth_or(arguments[0], false)),
                         make_list(meter, Flavor::tuple, {key, value})});
    }
    sort_keyed(meter, keyed, truth_or(arguments[2], false));
    return plain_list(meter, keyed);
}

// By one attribute or by several with commas between; the keys compare as lists do.
Object filter_sort(Meter& meter, const Object& input, const Bound& arguments) {
    const bool case_sensitive = truth_or(arguments[1], false);
    std::vector<Object> attributes;
    const Object* attribute = given(arguments[2]);
    if (attribute != nullptr && attribute->text()) {
        const TextPtr comma = *make_text(meter, ",").as<TextPtr>();
        for (const Span& part : split(meter, *attribute->text(), comma.get(), -1, false)) {
            attributes.push_back(make_slice(meter, *attribute->text(), part.begin, part.end));
        }
    } else if (attribute != nullptr) {
        attributes.push_back(*attribute);
    }
    std::vector<Keyed> keyed;
    for (const Object& item : items_of(meter, input)) {
        if (!meter.step()) break;
        Objects keys;
        for (const Object& each : attributes)
            keys.push_back(key_of(meter, item, &each, case_sensitive));
        if (attributes.empty()) keys.push_back(key_of(meter, item, nullptr, case_sensitive));
        keyed.push_back({make_list(meter, Flavor::list, std::move(keys)), item});
    }
    sort_keyed(meter, keyed, truth_or(arguments[0], false));
    return plain_list(meter, keyed);
}

Object filter_unique(Meter& meter, const Object& input, const Bound& arguments) {
    Objects seen;
    Objects items;
    for (const Keyed& each :
         keyed_items(meter, input, given(arguments[1]), truth_or(arguments[0], false))) {
        const bool known = std::any_of(seen.begin(), seen.end(), [&](const Object& other) {
            return equal(meter, other, each.key);
        });
        if (known) continue;
        if (!hashable(meter, each.key))
            meter.fail(std::string("unique needs hashable items, not ") + type_name(each.key));
        seen.push_back(each.key);
        items.push_back(each.item);
    }
    return make_list(meter, Flavor::generator, std::move(items));
}

Object extreme(Meter& meter, const Object& input, const Bound& arguments, bool least) {
    const auto keyed =
        keyed_items(meter, input, given(arguments[1]), truth_or(arguments[0], false));
    const Keyed* best = nullptr;
    for (const Keyed& each : keyed) {
        if (best == nullptr ||
            (least ? less(meter, each.key, best->key) : less(meter, best->key, each.key)))
            best = &each;
    }
    return best != nullptr ? best->item : Object();
}

Object filter_min(Meter& meter, const Object& input, const Bound& arguments) {
    return extreme(meter, input, arguments, true);
}

Object filter_max(Meter& meter, const Object& input, const Bound& arguments) {
    return extreme(meter, input, arguments, false);
}

Object filter_sum(Meter& meter, const Object& input, const Bound& arguments) {
    Object total = arguments[1] != nullptr ? *arguments[1] : Object(std::int64_t{0});
    if (total.text()) meter.fail("sum does not add strings");
    const Object* attribute = given(arguments[0]);
    for (const Object& item : items_of(meter, input)) {
        if (!meter.step()) break;
        total = apply_binary(meter, BinaryOp::add, total,
                             attribute != nullptr ? get_path(meter, item, *attribute) : item);
    }
    return total;
}

Object filter_groupby(Meter& meter, const Object& input, const Bound& arguments) {
    const bool case_sensitive = truth_or(arguments[2], false);
    std::vector<Keyed> keyed;
    for (const Object& item : items_of(meter, input)) {
        if (!meter.step()) break;
        Object value = get_path(meter, item, *arguments[0]);
        if (value.undefined() && arguments[1] != nullptr) value = *arguments[1];
        keyed.push_back(
            {case_sensitive || !value.text() ? value : Object(lower(meter, *value.text())), item});
    }
    sort_keyed(meter, keyed, false);
    Objects groups;
    for (std::size_t begin = 0; begin < keyed.size() && !meter.halted();) {
        Objects members;
        std::size_t end = begin;
        while (end < keyed.size() && equal(meter, keyed[end].key, keyed[begin].key))
            members.push_back(keyed[end++].item);
        if (end == begin) break;  // a value that is not equal to itself, or the run is over
        Object name = get_path(meter, keyed[begin].item, *arguments[0]);
        if (name.undefined() && arguments[1] != nullptr) name = *arguments[1];
        groups.push_back(make_list(meter, Flavor::group,
                                   {name, make_list(meter, Flavor::list, std::move(members))}));
        begin = end;
    }
    return make_list(meter, Flavor::list, std::move(groups));
}

Object filter_batch(Meter& meter, const Object& input, const Bound& arguments) {
    const std::int64_t size = integer_or(meter, arguments[0], 1);
    Objects batches;
    Objects current;
    const auto close = [&] {
        batches.push_back(make_list(meter, Flavor::list, std::exchange(current, {})));
    };
    for (const Object& item : items_of(meter, input)) {
        if (!meter.step()) break;
        if (static_cast<std::int64_t>(current.size()) == size) close();
        current.push_back(item);
    }
    const Object* fill = given(arguments[1]);
    while (!current.empty() && fill != nullptr &&
           static_cast<std::int64_t>(current.size()) < size && meter.step() &&
           meter.fits_text(current.size() * sizeof(Object))) {
        current.push_back(*fill);
    }
    if (!current.empty()) close();
    return make_list(meter, Flavor::generator, std::move(batches));
}

Object filter_slice(Meter& meter, const Object& input, const Bound& arguments) {
    constexpr std::int64_t kSlicesMax = 100'000;
    const Objects items = items_of(meter, input);
    const std::int64_t count = integer_or(meter, arguments[0], 1);
    if (count < 1 || count > kSlicesMax) {
        meter.fail("slice makes 1 to " + std::to_string(kSlicesMax) + " parts");
        return {};
    }
    const auto slices = static_cast<std::size_t>(count);
    const std::size_t each = items.size() / slices;
    const std::size_t larger = items.size() % slices;
    Objects parts;
    std::size_t at = 0;
    for (std::size_t i = 0; i < slices && meter.step(); ++i) {
        const std::size_t size = each + (i < larger ? 1 : 0);
        Objects part(items.begin() + static_cast<std::ptrdiff_t>(at),
                     items.begin() + static_cast<std::ptrdiff_t>(at + size));
        if (const Object* fill = given(arguments[1]); fill != nullptr && i >= larger)
            part.push_back(*fill);
        parts.push_back(make_list(meter, Flavor::list, std::move(part)));
        at += size;
    }
    return make_list(meter, Flavor::generator, std::move(parts));
}

Object filter_default(Meter&, const Object& input, const Bound& arguments) {
    const bool replaced = input.undefined() || (truth_or(arguments[1], false) && !truthy(input));
    if (!replaced) return input;
    return arguments[0] != nullptr
               ? *arguments[0]
               : Object(std::make_shared<const Text>(nullptr, "", std::vector<Mark>{}));
}

Object filter_attr(Meter& meter, const Object& input, const Bound& arguments) {
    const Object value =
        get_own_attribute(meter, input, std::string(to_text(meter, *arguments[0])->bytes()));
    return value.undefined() ? Object(Undefined{nullptr, type_name(input)}) : value;
}

constexpr Function kListFilters[] = {
    {"list", {}, filter_list},
    {"first", {}, filter_first},
    {"last", {}, filter_last},
    {"length", {}, filter_length},
    {"count", {}, filter_length},
    {"reverse", {}, filter_reverse},
    {"join", {0, {"d", "attribute"}}, filter_join},
    {"items", {}, filter_items},
    {"dictsort", {0, {"case_sensitive", "by", "reverse"}}, filter_dictsort},
    {"sort", {0, {"reverse", "case_sensitive", "attribute"}}, filter_sort},
    {"unique", {0, {"case_sensitive", "attribute"}}, filter_unique},
    {"min", {0, {"case_sensitive", "attribute"}}, filter_min},
    {"max", {0, {"case_sensitive", "attribute"}}, filter_max},
    {"sum", {0, {"attribute", "start"}}, filter_sum},
    {"groupby", {1, {"attribute", "default", "case_sensitive"}}, filter_groupby},
    {"batch", {1, {"linecount", "fill_with"}}, filter_batch},
    {"slice", {1, {"slices", "fill_with"}}, filter_slice},
    {"default", {0, {"default_value", "boolean"}}, filter_default},
    {"d", {0, {"default_value", "boolean"}}, filter_default},
    {"attr", {1, {"name"}}, filter_attr},
};

}  // namespace

const Function* find_list_filter(std::string_view name) {
    const auto* found = std::find_if(std::begin(kListFilters), std::end(kListFilters),
                                     [name](const Function& f) { return f.name == name; });
    return found == std::end(kListFilters) ? nullptr : found;
}

}  // namespace strata::serve::jinja
