// Python's notions of truth, equality, order and iteration.
#include "serve/text/jinja/object.hpp"

#include <algorithm>
#include <cmath>

#include "serve/text/unicode.hpp"

namespace strata::serve::jinja {
namespace {

bool equal_lists(Meter& meter, const List& a, const List& b) {
    const auto tuple = [](const List& l) {
        return l.flavor == Flavor::tuple || l.flavor == Flavor::group;
    };
    if (tuple(a) != tuple(b)) return false;
    if (!tuple(a) && a.flavor != b.flavor) return false;
    if (a.flavor == Flavor::generator) return &a == &b;
    return std::equal(a.items.begin(), a.items.end(), b.items.begin(), b.items.end(),
                      [&meter](const Object& x, const Object& y) { return equal(meter, x, y); });
}

bool equal_dicts(Meter& meter, const Dict& a, const Dict& b) {
    if (a.entries.size() != b.entries.size()) return false;
    return std::all_of(a.entries.begin(), a.entries.end(), [&](const auto& entry) {
        const Object* other = b.find(meter, entry.first);
        return other != nullptr && equal(meter, entry.second, *other);
    });
}

template <class T>
int sign(const T& a, const T& b) {
    return a < b ? -1 : b < a ? 1 : 0;
}

}  // namespace

std::optional<std::size_t> Dict::position(std::string_view key) const {
    if (entries.size() > kScannedMax) {
        const auto found = index_.find(key);
        return found == index_.end() ? std::nullopt : std::optional(found->second);
    }
    for (std::size_t i = 0; i < entries.size(); ++i) {
        const Text* text = entries[i].first.text();
        if (text != nullptr && text->bytes() == key) return i;
    }
    return std::nullopt;
}

std::optional<std::size_t> Dict::position(Meter& meter, const Object& key) const {
    if (const Text* text = key.text()) return position(text->bytes());
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!entries[i].first.text() && equal(meter, entries[i].first, key)) return i;
    }
    return std::nullopt;
}

const Object* Dict::find(Meter& meter, const Object& key) const {
    const auto at = position(meter, key);
    return at ? &entries[*at].second : nullptr;
}

const Object* Dict::find(std::string_view key) const {
    const auto at = position(key);
    return at ? &entries[*at].second : nullptr;
}

void Dict::put(Meter& meter, Object key, Object value) {
    depth = std::max({depth, 1 + depth_of(key), 1 + depth_of(value)});
    if (const auto at = position(meter, key)) {
        entries[*at].second = std::move(value);
        return;
    }
    entries.emplace_back(std::move(key), std::move(value));
    if (entries.size() <= kScannedMax) return;
    const std::size_t first = entries.size() == kScannedMax + 1 ? 0 : entries.size() - 1;
    for (std::size_t i = first; i < entries.size(); ++i) {
        if (const Text* text = entries[i].first.text()) index_.emplace(text->bytes(), i);
    }
}

int depth_of(const Object& object) {
    if (const List* list = object.list()) return list->depth;
    if (const Dict* dict = object.dict()) return dict->depth;
    if (const auto* method = object.as<std::shared_ptr<const Method>>())
        return 1 + depth_of((*method)->self);
    if (const auto* loop = object.as<std::shared_ptr<Loop>>()) return 1 + (*loop)->items->depth;
    if (const auto* cycler = object.as<std::shared_ptr<Cycler>>()) {
        int depth = 1;
        for (const Object& item : (*cycler)->items) depth = std::max(depth, 1 + depth_of(item));
        return depth;
    }
    return 0;
}

bool truthy(const Object& object) {
    if (object.undefined() || object.none()) return false;
    if (is_integral(object)) return integer_of(object) != 0;
    if (const auto* real = object.as<double>()) return *real != 0.0;
    if (const Text* text = object.text()) return text->size() != 0;
    if (const List* list = object.list())
        return list->flavor == Flavor::generator || !list->items.empty();
    if (const Dict* dict = object.dict()) return !dict->entries.empty();
    return true;
}

bool is_integral(const Object& object) {
    return object.is<std::int64_t>() || object.is<bool>();
}

bool is_numeric(const Object& object) {
    return is_integral(object) || object.is<double>();
}

std::int64_t integer_of(const Object& object) {
    if (const auto* flag = object.as<bool>()) return *flag ? 1 : 0;
    return *object.as<std::int64_t>();
}

double real_of(const Object& object) {
    if (const auto* real = object.as<double>()) return *real;
    return static_cast<double>(integer_of(object));
}

bool equal(Meter& meter, const Object& a, const Object& b) {
    if (!meter.step()) return false;
    if (is_numeric(a) && is_numeric(b)) {
        if (is_integral(a) && is_integral(b)) return integer_of(a) == integer_of(b);
        return real_of(a) == real_of(b);
    }
    if (a.held().index() != b.held().index()) return false;
    if (a.undefined() || a.none()) return true;
    if (const Text* text = a.text()) {
        meter.step_copy(text->size());
        return text->bytes() == b.text()->bytes();
    }
    if (const List* list = a.list()) return equal_lists(meter, *list, *b.list());
    if (const Dict* dict = a.dict()) return equal_dicts(meter, *dict, *b.dict());
    if (const auto* space = a.as<Namespace*>()) return *space == *b.as<Namespace*>();
    if (const auto* macro = a.as<const Macro*>()) return *macro == *b.as<const Macro*>();
    if (const auto* builtin = a.as<Builtin>()) return *builtin == *b.as<Builtin>();
    if (const auto* loop = a.as<std::shared_ptr<Loop>>())
        return *loop == *b.as<std::shared_ptr<Loop>>();
    return false;
}

std::optional<int> order(Meter& meter, const Object& a, const Object& b) {
    if (!meter.step()) return std::nullopt;
    if (is_integral(a) && is_integral(b)) return sign(integer_of(a), integer_of(b));
    if (is_numeric(a) && is_numeric(b)) {
        const double x = real_of(a);
        const double y = real_of(b);
        return std::isnan(x) || std::isnan(y) ? kUnordered : sign(x, y);
    }
    if (a.text() && b.text()) meter.step_copy(a.text()->size());
    if (a.text() && b.text()) return sign(a.text()->bytes(), b.text()->bytes());
    const List* left = a.list();
    const List* right = b.list();
    if (left == nullptr || right == nullptr || left->flavor != right->flavor) return std::nullopt;
    if (left->flavor != Flavor::list && left->flavor != Flavor::tuple) return std::nullopt;
    const std::size_t common = std::min(left->items.size(), right->items.size());
    for (std::size_t i = 0; i < common; ++i) {
        if (!equal(meter, left->items[i], right->items[i]))
            return order(meter, left->items[i], right->items[i]);
    }
    return sign(left->items.size(), right->items.size());
}

bool hashable(Meter& meter, const Object& object) {
    if (!meter.step()) return false;
    if (const List* list = object.list()) {
        const bool tuple = list->flavor == Flavor::tuple || list->flavor == Flavor::group;
        if (list->flavor == Flavor::list) return false;
        return !tuple || std::all_of(list->items.begin(), list->items.end(),
                                     [&](const Object& item) { return hashable(meter, item); });
    }
    return object.dict() == nullptr;
}

const char* type_name(const Object& object) {
    struct Names {
        const char* operator()(const Undefined&) { return "Undefined"; }
        const char* operator()(const None&) { return "NoneType"; }
        const char* operator()(bool) { return "bool"; }
        const char* operator()(std::int64_t) { return "int"; }
        const char* operator()(double) { return "float"; }
        const char* operator()(const TextPtr&) { return "str"; }
        const char* operator()(const DictPtr&) { return "dict"; }
        const char* operator()(Namespace*) { return "Namespace"; }
        const char* operator()(const Macro*) { return "Macro"; }
        const char* operator()(const std::shared_ptr<Loop>&) { return "LoopContext"; }
        const char* operator()(const std::shared_ptr<const Method>&) {
            return "builtin_function_or_method";
        }
        const char* operator()(const std::shared_ptr<Cycler>& c) {
            return c->joins ? "Joiner" : "Cycler";
        }
        const char* operator()(Builtin) { return "function"; }
        const char* operator()(const ListPtr& list) {
            switch (list->flavor) {
                case Flavor::list:
                    return "list";
                case Flavor::tuple:
                case Flavor::group:
                    return "tuple";
                case Flavor::range:
                    return "range";
                case Flavor::generator:
                    return "generator";
                case Flavor::dict_items:
                    return "dict_items";
                case Flavor::dict_keys:
                    return "dict_keys";
                case Flavor::dict_values:
                    return "dict_values";
            }
            return "list";
        }
    };
    return std::visit(Names{}, object.held());
}

Object make_text(Meter& meter, std::string_view bytes, bool marked) {
    TextBuilder builder(meter);
    builder.append(bytes, marked);
    return builder.finish();
}

Object make_slice(Meter& meter, const Text& text, std::size_t begin, std::size_t end) {
    TextBuilder builder(meter);
    builder.append(text, begin, end);
    return builder.finish();
}

Object make_list(Meter& meter, Flavor flavor, Objects items) {
    meter.step(1 + items.size() / 4);
    auto list = std::make_shared<List>(meter, flavor);
    list->items = std::move(items);
    list->paid.grow(list->items.capacity() * sizeof(Object));
    for (const Object& item : list->items) list->depth = std::max(list->depth, 1 + depth_of(item));
    if (list->depth > kDepthMax)
        meter.fail("a value is nested more than " + std::to_string(kDepthMax) + " levels deep");
    return list;
}

std::shared_ptr<Dict> make_dict(Meter& meter) {
    return std::make_shared<Dict>(meter);
}

void put(Meter& meter, Dict& dict, Object key, Object value) {
    constexpr std::size_t kEntryBytes =
        2 * sizeof(Object) + 64;  // the pair and its place in the index
    if (!hashable(meter, key)) {
        meter.fail(std::string("a ") + type_name(key) + " cannot be a key of a dict");
        return;
    }
    dict.put(meter, std::move(key), std::move(value));
    dict.paid.grow(kEntryBytes);
    if (dict.depth > kDepthMax)
        meter.fail("a value is nested more than " + std::to_string(kDepthMax) + " levels deep");
}

std::optional<Objects> iterate(Meter& meter, const Object& object) {
    Objects out;
    if (object.undefined()) return out;
    if (const auto* loop = object.as<std::shared_ptr<Loop>>()) {
        const auto& items = (*loop)->items->items;
        return Objects(
            items.begin() + static_cast<std::ptrdiff_t>(std::min((*loop)->index + 1, items.size())),
            items.end());
    }
    if (List* list = object.list()) {
        meter.step(1 + list->items.size() / 4);
        if (list->flavor != Flavor::generator) return list->items;
        if (std::exchange(list->consumed, true)) return out;
        return list->items;
    }
    if (const Dict* dict = object.dict()) {
        meter.step(1 + dict->entries.size() / 4);
        for (const auto& entry : dict->entries) out.push_back(entry.first);
        return out;
    }
    if (const Text* text = object.text()) {
        for (std::size_t at = 0; at < text->size() && !meter.halted();) {
            const std::size_t next = at + utf8_step(text->bytes(), at).bytes;
            out.push_back(make_slice(meter, *text, at, next));
            at = next;
        }
        return out;
    }
    meter.fail(std::string("a ") + type_name(object) + " cannot be iterated over");
    return std::nullopt;
}

std::string undefined_message(const Undefined& undefined) {
    if (undefined.name == nullptr && undefined.owner == nullptr)
        return "an undefined value is used";
    if (undefined.name == nullptr)
        return "an undefined item of a " + std::string(undefined.owner) + " is used";
    if (undefined.owner == nullptr) return "'" + *undefined.name + "' is undefined";
    return "'" + std::string(undefined.owner) + "' has no attribute '" + *undefined.name + "'";
}

bool defined(Meter& meter, const Object& object) {
    if (const auto* undefined = object.as<Undefined>()) meter.fail(undefined_message(*undefined));
    return !meter.halted();
}

}  // namespace strata::serve::jinja
