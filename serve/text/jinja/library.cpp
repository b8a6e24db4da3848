// Look-up of filters, the filters that apply others to items, and all tests.
#include "serve/text/jinja/library.hpp"

#include <algorithm>
#include <array>

#include "serve/text/jinja/access.hpp"
#include "serve/text/jinja/operators.hpp"
#include "serve/text/jinja/print.hpp"
#include "serve/text/jinja/string_format.hpp"
#include "serve/text/jinja/text_ops.hpp"

namespace strata::serve::jinja {
namespace {

constexpr std::array<std::string_view, 5> kItemFilters = {"map", "select", "reject", "selectattr",
                                                          "rejectattr"};

const Function* find_filter(std::string_view name) {
    if (const Function* found = find_text_filter(name)) return found;
    if (const Function* found = find_list_filter(name)) return found;
    return find_number_filter(name);
}

Object filter_format(Meter& meter, const Object& input, const Arguments& arguments) {
    const TextPtr pattern = to_text(meter, input);
    if (arguments.named.empty()) {
        return format_percent(meter, *pattern,
                              make_list(meter, Flavor::tuple, arguments.positional));
    }
    if (!arguments.positional.empty())
        meter.fail("format takes positional or named values, not both");
    auto dict = make_dict(meter);
    for (const auto& [name, value] : arguments.named)
        put(meter, *dict, make_text(meter, name), value);
    return format_percent(meter, *pattern, DictPtr(dict));
}

// The first positional argument as a name, and the arguments after it.
std::string take_name(Meter& meter, Arguments& rest, std::string_view what) {
    if (rest.positional.empty() || !rest.positional[0].text()) {
        meter.fail("needs the name of " + std::string(what));
        return {};
    }
    std::string name(rest.positional[0].text()->bytes());
    rest.positional.erase(rest.positional.begin());
    return name;
}

Object map_items(Meter& meter, const Objects& items, const Arguments& arguments) {
    Objects out;
    const auto named = [&](std::string_view name) -> const Object* {
        const auto found = std::find_if(arguments.named.begin(), arguments.named.end(),
                                        [name](const auto& n) { return n.first == name; });
        return found == arguments.named.end() ? nullptr : &found->second;
    };
    if (const Object* attribute = named("attribute");
        attribute != nullptr && arguments.positional.empty()) {
        const Object* fallback = named("default");
        if (arguments.named.size() > (fallback != nullptr ? 2U : 1U))
            meter.fail("has parameters that map does not know");
        for (const Object& item : items) {
            if (!meter.step()) break;
            Object value = get_path(meter, item, *attribute);
            out.push_back(value.undefined() && fallback != nullptr ? *fallback : std::move(value));
        }
        return make_list(meter, Flavor::generator, std::move(out));
    }
    Arguments rest = arguments;
    const std::string filter = take_name(meter, rest, "a filter");
    for (const Object& item : items) {
        if (!meter.step()) break;
        out.push_back(apply_filter(meter, filter, item, rest));
    }
    return make_list(meter, Flavor::generator, std::move(out));
}

// x is defined, x is none, ...: tests without arguments.
struct PlainTest {
    std::string_view name;
    bool (*holds)(Meter&, const Object&);
};

bool parity(Meter& meter, const Object& value, std::int64_t wanted) {
    const Object rest = apply_binary(meter, BinaryOp::modulo, value, std::int64_t{2});
    return equal(meter, rest, wanted);
}

bool is_sequence(const Object& value) {
    const List* list = value.list();
    const bool view = list != nullptr &&
                      (list->flavor == Flavor::dict_items || list->flavor == Flavor::dict_keys ||
                       list->flavor == Flavor::dict_values);
    return has_length(value) && !view && !value.is<std::shared_ptr<Loop>>();
}

bool is_callable(const Object& value) {
    return value.is<const Macro*>() || value.is<Builtin>() ||
           value.is<std::shared_ptr<const Method>>() || value.is<std::shared_ptr<Cycler>>() ||
           value.undefined() || value.is<std::shared_ptr<Loop>>();
}

constexpr PlainTest kPlainTests[] = {
    {"defined", [](Meter&, const Object& v) { return !v.undefined(); }},
    {"undefined", [](Meter&, const Object& v) { return v.undefined(); }},
    {"none", [](Meter&, const Object& v) { return v.none(); }},
    {"boolean", [](Meter&, const Object& v) { return v.is<bool>(); }},
    {"true", [](Meter&, const Object& v) { return v.is<bool>() && *v.as<bool>(); }},
    {"false", [](Meter&, const Object& v) { return v.is<bool>() && !*v.as<bool>(); }},
    {"integer", [](Meter&, const Object& v) { return v.is<std::int64_t>(); }},
    {"float", [](Meter&, const Object& v) { return v.is<double>(); }},
    {"number", [](Meter&, const Object& v) { return is_numeric(v); }},
    {"string", [](Meter&, const Object& v) { return v.text() != nullptr; }},
    {"mapping", [](Meter&, const Object& v) { return v.dict() != nullptr; }},
    {"sequence", [](Meter&, const Object& v) { return is_sequence(v); }},
    {"iterable", [](Meter&, const Object& v) { return has_length(v) || v.list() != nullptr; }},
    {"callable", [](Meter&, const Object& v) { return is_callable(v); }},
    {"escaped", [](Meter&, const Object&) { return false; }},
    {"odd", [](Meter& m, const Object& v) { return parity(m, v, 1); }},
    {"even", [](Meter& m, const Object& v) { return parity(m, v, 0); }},
    {"upper", [](Meter& m, const Object& v) { return is_upper_text(*to_text(m, v)); }},
    {"lower", [](Meter& m, const Object& v) { return is_lower_text(*to_text(m, v)); }},
    {"filter",
     [](Meter&, const Object& v) { return v.text() != nullptr && is_filter(v.text()->bytes()); }},
    {"test",
     [](Meter&, const Object& v) { return v.text() != nullptr && is_test(v.text()->bytes()); }},
};

struct CompareTest {
    std::string_view name;
    CompareOp op;
};
constexpr CompareTest kCompareTests[] = {
    {"eq", CompareOp::equal},         {"equalto", CompareOp::equal},
    {"==", CompareOp::equal},         {"ne", CompareOp::unequal},
    {"!=", CompareOp::unequal},       {"lt", CompareOp::less},
    {"lessthan", CompareOp::less},    {"<", CompareOp::less},
    {"le", CompareOp::less_equal},    {"<=", CompareOp::less_equal},
    {"gt", CompareOp::greater},       {"greaterthan", CompareOp::greater},
    {">", CompareOp::greater},        {"ge", CompareOp::greater_equal},
    {">=", CompareOp::greater_equal}, {"in", CompareOp::in},
};

// Python's `is` for what templates can hold: the singletons, and shared objects.
bool same(const Object& a, const Object& b) {
    if (a.held().index() != b.held().index()) return false;
    if (a.none()) return true;
    if (const auto* flag = a.as<bool>()) return *flag == *b.as<bool>();
    if (const auto* number = a.as<std::int64_t>()) return *number == *b.as<std::int64_t>();
    if (a.text()) return a.text() == b.text() || a.text()->bytes() == b.text()->bytes();
    return (a.list() && a.list() == b.list()) || (a.dict() && a.dict() == b.dict());
}

template <class Table>
auto find_in(const Table& table, std::string_view name) {
    const auto* found = std::find_if(std::begin(table), std::end(table),
                                     [name](const auto& row) { return row.name == name; });
    return found == std::end(table) ? nullptr : found;
}

}  // namespace

bool is_filter(std::string_view name) {
    return find_filter(name) != nullptr || is_item_filter(name) || name == "format";
}

bool is_test(std::string_view name) {
    return find_in(kPlainTests, name) != nullptr || find_in(kCompareTests, name) != nullptr ||
           name == "divisibleby" || name == "sameas";
}

bool is_item_filter(std::string_view name) {
    return std::find(kItemFilters.begin(), kItemFilters.end(), name) != kItemFilters.end();
}

Object apply_filter(Meter& meter, std::string_view name, const Object& input,
                    const Arguments& arguments) {
    if (!meter.step()) return {};
    if (const Function* function = find_filter(name)) {
        const auto bound = bind(meter, function->signature, arguments);
        return bound ? function->apply(meter, input, *bound) : Object();
    }
    if (name == "format") return filter_format(meter, input, arguments);
    if (is_item_filter(name)) return apply_item_filter(meter, name, input, arguments);
    meter.fail("there is no filter '" + std::string(name.substr(0, 40)) + "'");
    return {};
}

Object apply_item_filter(Meter& meter, std::string_view name, const Object& input,
                         const Arguments& arguments) {
    // What is false has no items, whatever it is.
    const auto items = truthy(input) ? iterate(meter, input) : std::optional(Objects{});
    if (!items) return {};
    if (name == "map") return map_items(meter, *items, arguments);
    const bool keep = name.starts_with("select");
    Arguments rest = arguments;
    std::optional<Object> attribute;
    if (name.ends_with("attr")) {
        if (rest.positional.empty()) {
            meter.fail("needs the name of an attribute");
            return {};
        }
        attribute = rest.positional[0];
        rest.positional.erase(rest.positional.begin());
    }
    const std::string test =
        rest.positional.empty() ? std::string() : take_name(meter, rest, "a test");
    Objects out;
    for (const Object& item : *items) {
        if (!meter.step()) break;
        const Object value = attribute ? get_path(meter, item, *attribute) : item;
        if ((test.empty() ? truthy(value) : apply_test(meter, test, value, rest)) == keep)
            out.push_back(item);
    }
    return make_list(meter, Flavor::generator, std::move(out));
}

bool apply_test(Meter& meter, std::string_view name, const Object& value,
                const Arguments& arguments) {
    if (!meter.step()) return false;
    if (const PlainTest* test = find_in(kPlainTests, name)) {
        return bind(meter, {}, arguments) && test->holds(meter, value);
    }
    const CompareTest* compare = find_in(kCompareTests, name);
    if (compare == nullptr && name != "divisibleby" && name != "sameas") {
        meter.fail("there is no test '" + std::string(name.substr(0, 40)) + "'");
        return false;
    }
    const auto bound = bind(meter, {1, {"other"}}, arguments);
    if (!bound) return false;
    const Object& other = *(*bound)[0];
    if (compare != nullptr) return apply_compare(meter, compare->op, value, other);
    if (name == "sameas") return same(value, other);
    return equal(meter, apply_binary(meter, BinaryOp::modulo, value, other), std::int64_t{0});
}

}  // namespace strata::serve::jinja
