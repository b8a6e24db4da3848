// Calls: macros, recursive loops, the built-in functions.
#include <algorithm>
#include <chrono>
#include <ctime>

#include "serve/text/jinja/interpreter.hpp"
#include "serve/text/jinja/library.hpp"
#include "serve/text/jinja/print.hpp"
#include "serve/text/template_raised.hpp"

namespace strata::serve::jinja {
namespace {

// The sandbox of Jinja has the same limit.
constexpr std::int64_t kRangeMax = 100'000;
constexpr std::size_t kTimeFormatBytesMax = 1024;

// The broken-down time of a date YYYY-MM-DD at midnight, or of now. False for another form.
bool read_time(const std::string& date, std::tm& time) {
    if (date.empty()) {
        const std::time_t now =
            std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
        return localtime_r(&now, &time) != nullptr;
    }
    const auto number = [&date](std::size_t at, std::size_t count) {
        int value = 0;
        for (std::size_t i = at; i < at + count; ++i) {
            if (date[i] < '0' || date[i] > '9') return -1;
            value = value * 10 + (date[i] - '0');
        }
        return value;
    };
    if (date.size() != 10 || date[4] != '-' || date[7] != '-') return false;
    const int year = number(0, 4);
    const int month = number(5, 2);
    const int day = number(8, 2);
    if (year < 0 || month < 1 || month > 12 || day < 1 || day > 31) return false;
    time = {};
    time.tm_year = year - 1900;
    time.tm_mon = month - 1;
    time.tm_mday = day;
    const std::time_t seconds = timegm(&time);  // fills in the days of week and year
    return gmtime_r(&seconds, &time) != nullptr && time.tm_mday == day;
}

}  // namespace

const Macro* Interpreter::make_macro(const MacroNode& node) {
    meter_.allocate(sizeof(Macro));
    macros_.push_back(std::make_unique<Macro>(Macro{&node, scope_}));
    for (Scope* scope = scope_; scope != nullptr && !scope->captured; scope = scope->parent)
        scope->captured = true;
    return macros_.back().get();
}

Object Interpreter::call(const Object& callee, const Arguments& arguments, const Macro* caller) {
    if (const auto* macro = callee.as<const Macro*>())
        return call_macro(**macro, arguments, caller);
    if (caller != nullptr) {
        meter_.fail("a call block works on macros");
        return {};
    }
    if (const auto* builtin = callee.as<Builtin>()) return call_builtin(*builtin, arguments);
    if (const auto* loop = callee.as<std::shared_ptr<Loop>>()) return call_loop(**loop, arguments);
    if (const auto* method = callee.as<std::shared_ptr<const Method>>()) {
        return call_method(meter_, (*method)->self, (*method)->name, arguments);
    }
    if (const auto* joiner = callee.as<std::shared_ptr<Cycler>>();
        joiner != nullptr && (*joiner)->joins) {
        const bool first = (*joiner)->position == 0;
        (*joiner)->position = 1;
        return first ? make_text(meter_, "") : (*joiner)->items[0];
    }
    if (defined(meter_, callee))
        meter_.fail(std::string("a ") + type_name(callee) + " cannot be called");
    return {};
}

Object Interpreter::call_macro(const Macro& macro, const Arguments& arguments,
                               const Macro* caller) {
    const Nesting nesting(*this);
    if (++calls_ > options_.calls_max) {
        meter_.fail("calls are nested more than " + std::to_string(options_.calls_max) + " deep");
    }
    TextBuilder builder(meter_);
    TextBuilder* const outer = std::exchange(out_, &builder);
    {
        const ScopeFrame frame(*this, macro.home);
        if (!meter_.halted() && bind_parameters(macro, arguments, caller))
            execute(macro.node->body);
    }
    out_ = outer;
    --calls_;
    return builder.finish();
}

// Sets the parameters in the scope of the call. Defaults see the parameters before them.
bool Interpreter::bind_parameters(const Macro& macro, const Arguments& arguments,
                                  const Macro* caller) {
    const MacroNode& node = *macro.node;
    const std::size_t count = node.parameters.size();
    if (arguments.positional.size() > count && !node.reads_varargs) {
        meter_.fail("takes at most " + std::to_string(count) + " arguments, " +
                    std::to_string(arguments.positional.size()) + " are given");
        return false;
    }
    std::vector<const Object*> given(count, nullptr);
    for (std::size_t i = 0; i < std::min(count, arguments.positional.size()); ++i)
        given[i] = &arguments.positional[i];
    auto rest = make_dict(meter_);
    for (const auto& entry : arguments.named) {
        const std::string& name = entry.first;
        const auto found = std::find_if(node.parameters.begin(), node.parameters.end(),
                                        [&name](const Parameter& p) { return p.name == name; });
        const auto at = static_cast<std::size_t>(found - node.parameters.begin());
        if (at < count && given[at] == nullptr) {
            given[at] = &entry.second;
        } else if (at == count && node.reads_kwargs) {
            put(meter_, *rest, make_text(meter_, name), entry.second);
        } else {
            meter_.fail((at == count ? "has no parameter '" : "gets twice the parameter '") + name +
                        "'");
            return false;
        }
    }
    if (node.reads_varargs) {
        const auto skip = static_cast<std::ptrdiff_t>(std::min(count, arguments.positional.size()));
        set(varargs_symbol_,
            make_list(meter_, Flavor::tuple,
                      Objects(arguments.positional.begin() + skip, arguments.positional.end())));
    }
    if (node.reads_kwargs) set(kwargs_symbol_, DictPtr(std::move(rest)));
    if (caller != nullptr && !node.reads_caller) {
        meter_.fail("the macro does not call its caller");
        return false;
    }
    if (node.reads_caller)
        set(caller_symbol_, caller != nullptr
                                ? Object(caller)
                                : Object(Undefined{&tree_.symbols.name(caller_symbol_), nullptr}));
    for (std::size_t i = 0; i < count; ++i) {
        const Parameter& parameter = node.parameters[i];
        Object value = Undefined{&parameter.name, nullptr};
        if (given[i] != nullptr) {
            value = *given[i];
        } else if (parameter.fallback) {
            value = evaluate(*parameter.fallback);
        }
        set(parameter.symbol, std::move(value));
    }
    return !meter_.halted();
}

Object Interpreter::call_loop(Loop& loop, const Arguments& arguments) {
    const auto& stmt = *static_cast<const Stmt*>(loop.node);
    const auto bound = bind(meter_, {1, {"iterable"}}, arguments);
    if (!stmt.recursive || loop.finished)
        meter_.fail("only a loop that is 'recursive' and still runs can be called");
    if (!bound || meter_.halted()) return {};
    const Nesting nesting(*this);
    if (++calls_ > options_.calls_max)
        meter_.fail("calls are nested more than " + std::to_string(options_.calls_max) + " deep");
    TextBuilder builder(meter_);
    TextBuilder* const outer = std::exchange(out_, &builder);
    Scope* const inner = std::exchange(scope_, static_cast<Scope*>(loop.scope));
    if (!meter_.halted()) run_loop(stmt, *(*bound)[0], loop.depth + 1);
    scope_ = inner;
    out_ = outer;
    --calls_;
    return builder.finish();
}

Object Interpreter::call_builtin(Builtin builtin, const Arguments& arguments) {
    switch (builtin) {
        case Builtin::range:
            return make_range(arguments);
        case Builtin::dict:
            return make_dict_object(arguments);
        case Builtin::namespace_:
            return make_namespace(arguments);
        case Builtin::strftime_now:
            return format_time(arguments);
        case Builtin::raise_exception: {
            const auto bound = bind(meter_, {1, {"message"}}, arguments);
            if (bound)
                meter_.fail(std::string(kTemplateRaised) +
                            std::string(to_text(meter_, *(*bound)[0])->bytes()));
            return {};
        }
        case Builtin::cycler: {
            if (arguments.positional.empty() || !arguments.named.empty())
                meter_.fail("cycler takes one or more values");
            if (meter_.halted()) return {};
            auto cycler = std::make_shared<Cycler>();
            cycler->items = arguments.positional;
            return cycler;
        }
        case Builtin::joiner: {
            const auto bound = bind(meter_, {0, {"sep"}}, arguments);
            if (!bound) return {};
            auto joiner = std::make_shared<Cycler>();
            joiner->items.push_back((*bound)[0] != nullptr ? *(*bound)[0]
                                                           : make_text(meter_, ", "));
            joiner->joins = true;
            return joiner;
        }
    }
    return {};
}

Object Interpreter::make_range(const Arguments& arguments) {
    const auto bound = bind(meter_, {1, {"start", "stop", "step"}}, arguments);
    if (!bound) return {};
    const bool one = (*bound)[1] == nullptr;
    const std::int64_t start = one ? 0 : integer_or(meter_, (*bound)[0], 0);
    const std::int64_t stop = integer_or(meter_, (*bound)[one ? 0 : 1], 0);
    const std::int64_t step = integer_or(meter_, (*bound)[2], 1);
    if (step == 0) meter_.fail("the step of range is 0");
    if (meter_.halted()) return {};
    Objects items;
    for (std::int64_t at = start; step > 0 ? at < stop : at > stop;) {
        if (static_cast<std::int64_t>(items.size()) == kRangeMax) {
            meter_.fail("range gives more than " + std::to_string(kRangeMax) + " numbers");
            return {};
        }
        items.push_back(at);
        if (__builtin_add_overflow(at, step, &at)) break;
    }
    return make_list(meter_, Flavor::range, std::move(items));
}

Object Interpreter::make_dict_object(const Arguments& arguments) {
    auto dict = make_dict(meter_);
    if (arguments.positional.size() > 1) meter_.fail("dict takes one positional argument");
    if (meter_.halted()) return {};
    if (!arguments.positional.empty() && arguments.positional[0].dict()) {
        for (const auto& [key, value] : arguments.positional[0].dict()->entries)
            put(meter_, *dict, key, value);
    } else if (!arguments.positional.empty() && defined(meter_, arguments.positional[0])) {
        for (const Object& pair : iterate(meter_, arguments.positional[0]).value_or(Objects{})) {
            const auto parts = iterate(meter_, pair);
            if (parts && parts->size() != 2) meter_.fail("dict needs pairs");
            if (meter_.halted()) return {};
            put(meter_, *dict, (*parts)[0], (*parts)[1]);
        }
    }
    for (const auto& [name, value] : arguments.named)
        put(meter_, *dict, make_text(meter_, name), value);
    return DictPtr(std::move(dict));
}

Object Interpreter::make_namespace(const Arguments& arguments) {
    const Object initial = make_dict_object(arguments);
    if (meter_.halted()) return {};
    auto space = std::make_unique<Namespace>();
    for (const auto& [key, value] : initial.dict()->entries) {
        if (key.text()) space->attributes.emplace_back(std::string(key.text()->bytes()), value);
    }
    meter_.allocate(sizeof(Namespace) + space->attributes.size() * 128);
    namespaces_.push_back(std::move(space));
    return namespaces_.back().get();
}

Object Interpreter::format_time(const Arguments& arguments) {
    const auto bound = bind(meter_, {1, {"format"}}, arguments);
    std::tm time{};
    if (!bound || !read_time(options_.date, time)) {
        meter_.fail("the date '" + options_.date + "' is not one of the form YYYY-MM-DD");
        return {};
    }
    const std::string format(text_or_empty(meter_, (*bound)[0])->bytes());
    if (format.empty()) return make_text(meter_, "");
    if (format.size() > kTimeFormatBytesMax) {
        meter_.fail("the format of strftime_now has more than " +
                    std::to_string(kTimeFormatBytesMax) + " bytes");
        return {};
    }
    std::string buffer(kTimeFormatBytesMax * 32, '\0');  // a directive of two bytes gives below 64
    const std::size_t length = std::strftime(buffer.data(), buffer.size(), format.c_str(), &time);
    if (length == 0) meter_.fail("the format of strftime_now gives too long a text");
    return make_text(meter_, std::string_view(buffer).substr(0, length));
}

}  // namespace strata::serve::jinja
