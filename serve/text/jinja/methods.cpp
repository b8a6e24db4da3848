// Methods of dict, list, tuple, loop and cycler, and the door to those of str.
#include <algorithm>

#include "serve/text/jinja/library.hpp"
#include "serve/text/jinja/operators.hpp"
#include "serve/text/jinja/string_format.hpp"
#include "serve/text/jinja/text_ops.hpp"

namespace strata::serve::jinja {
namespace {

Object dict_view(Meter& meter, const Dict& dict, Flavor flavor) {
    Objects items;
    for (const auto& [key, value] : dict.entries) {
        if (flavor == Flavor::dict_items)
            items.push_back(make_list(meter, Flavor::tuple, {key, value}));
        else
            items.push_back(flavor == Flavor::dict_keys ? key : value);
    }
    return make_list(meter, flavor, std::move(items));
}

Object call_dict(Meter& meter, const Object& self, std::string_view name,
                 const Arguments& arguments) {
    const Dict& dict = *self.dict();
    if (name == "get") {
        const auto bound = bind(meter, {1, {"key", "default"}}, arguments);
        if (!bound || !hashable(meter, *(*bound)[0])) {
            meter.fail("the key of get is not hashable");
            return {};
        }
        const Object* value = dict.find(meter, *(*bound)[0]);
        if (value != nullptr) return *value;
        return (*bound)[1] != nullptr ? *(*bound)[1] : Object(None{});
    }
    if (name == "fromkeys" || !bind(meter, {}, arguments)) {
        meter.fail("the method is not known here");
        return {};
    }
    if (name == "items") return dict_view(meter, dict, Flavor::dict_items);
    if (name == "keys") return dict_view(meter, dict, Flavor::dict_keys);
    if (name == "values") return dict_view(meter, dict, Flavor::dict_values);
    return self;  // copy: dicts never change
}

// Grows the list, invariant 2 of object.hpp.
Object append_to(Meter& meter, List& list, const Object& item) {
    if (depth_of(item) + 1 > list.depth && depth_of(item) > 0) {
        meter.fail("a list that was not empty takes no values that are nested deeper than its own");
        return None{};
    }
    const std::size_t before = list.items.capacity();
    list.items.push_back(item);
    list.paid.grow((list.items.capacity() - before) * sizeof(Object));
    return None{};
}

Object call_list(Meter& meter, const Object& self, std::string_view name,
                 const Arguments& arguments) {
    List& list = *self.list();
    if (name == "copy")
        return bind(meter, {}, arguments) ? make_list(meter, Flavor::list, list.items) : Object();
    const auto bound = bind(meter, {1, {"value"}}, arguments);
    if (!bound) return {};
    const Object& value = *(*bound)[0];
    if (name == "append") return append_to(meter, list, value);
    std::int64_t count = 0;
    for (std::size_t i = 0; i < list.items.size() && !meter.halted(); ++i) {
        if (!equal(meter, list.items[i], value)) continue;
        if (name == "index") return static_cast<std::int64_t>(i);
        ++count;
    }
    if (name == "index") meter.fail("the value is not in the list");
    return count;
}

Object call_loop(Meter& meter, Loop& loop, std::string_view name, const Arguments& arguments) {
    if (!arguments.named.empty()) meter.fail("takes no named arguments");
    if (meter.halted()) return {};
    if (name == "cycle") {
        if (arguments.positional.empty()) meter.fail("there is nothing to cycle through");
        return meter.halted() ? Object()
                              : arguments.positional[loop.index % arguments.positional.size()];
    }
    // changed: the values differ from those of the last call, the first of which always counts.
    const Object now = make_list(meter, Flavor::tuple, arguments.positional);
    const bool changed = loop.last_changed.undefined() || !equal(meter, loop.last_changed, now);
    // A loop that is over must not hold values that may hold the loop.
    if (!loop.finished) loop.last_changed = now;
    return changed;
}

Object call_cycler(Meter& meter, Cycler& cycler, std::string_view name,
                   const Arguments& arguments) {
    if (!bind(meter, {}, arguments)) return {};
    if (name == "reset") {
        cycler.position = 0;
        return None{};
    }
    const Object item = cycler.items[cycler.position];
    cycler.position = (cycler.position + 1) % cycler.items.size();
    return item;
}

}  // namespace

Object call_method(Meter& meter, const Object& self, std::string_view name,
                   const Arguments& arguments) {
    if (!meter.step()) return {};
    if (self.text()) {
        if (name == "format") return format_braces(meter, *self.text(), arguments);
        if (const Function* method = find_text_method(name)) {
            const auto bound = bind(meter, method->signature, arguments);
            return bound ? method->apply(meter, self, *bound) : Object();
        }
    }
    if (self.dict()) return call_dict(meter, self, name, arguments);
    if (self.list()) return call_list(meter, self, name, arguments);
    if (const auto* loop = self.as<std::shared_ptr<Loop>>())
        return call_loop(meter, **loop, name, arguments);
    if (const auto* cycler = self.as<std::shared_ptr<Cycler>>())
        return call_cycler(meter, **cycler, name, arguments);
    meter.fail("the method is not known here");
    return {};
}

}  // namespace strata::serve::jinja
