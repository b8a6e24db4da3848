// Expressions.
#include <algorithm>
#include <array>

#include "serve/text/jinja/access.hpp"
#include "serve/text/jinja/interpreter.hpp"
#include "serve/text/jinja/library.hpp"
#include "serve/text/jinja/operators.hpp"
#include "serve/text/jinja/print.hpp"

namespace strata::serve::jinja {
namespace {

constexpr std::array<std::pair<std::string_view, Builtin>, 7> kBuiltins = {{
    {"range", Builtin::range},
    {"dict", Builtin::dict},
    {"namespace", Builtin::namespace_},
    {"raise_exception", Builtin::raise_exception},
    {"strftime_now", Builtin::strftime_now},
    {"cycler", Builtin::cycler},
    {"joiner", Builtin::joiner},
}};

}  // namespace

const Object* Interpreter::find(Symbol symbol) const {
    for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
        for (const auto& [name, value] : scope->variables) {
            if (name == symbol) return &value;
        }
    }
    return context_[symbol].first ? &context_[symbol].second : nullptr;
}

Object Interpreter::look_up(const Expr& expr) const {
    if (const Object* value = find(expr.symbol)) return *value;
    for (const auto& [name, builtin] : kBuiltins) {
        if (name == expr.name) return builtin;
    }
    return Undefined{&expr.name, nullptr};
}

Object Interpreter::evaluate(const Expr& expr) {
    const Nesting nesting(*this);
    if (!meter_.step()) return {};
    return evaluate_kind(expr);
}

Object Interpreter::evaluate_kind(const Expr& expr) {
    const auto operand = [&](std::size_t i) { return evaluate(*expr.items[i]); };
    switch (expr.kind) {
        case ExprKind::constant:
            return expr.constant;
        case ExprKind::variable:
            return look_up(expr);
        case ExprKind::list:
            return evaluate_sequence(expr, Flavor::list);
        case ExprKind::tuple:
            return evaluate_sequence(expr, Flavor::tuple);
        case ExprKind::dict:
            return evaluate_dict(expr);
        case ExprKind::attribute: {
            const Object object = operand(0);
            meter_.at(expr.at, "attribute", expr.name);
            return get_attribute(meter_, object, expr.name);
        }
        case ExprKind::subscript: {
            const Object object = operand(0);
            const Object key = operand(1);
            meter_.at(expr.at, "subscript");
            return get_item(meter_, object, key);
        }
        case ExprKind::slice:
            return evaluate_slice(expr);
        case ExprKind::call:
            return evaluate_call(expr);
        case ExprKind::filter:
            return evaluate_filter(expr);
        case ExprKind::test: {
            const Object value = operand(0);
            const Arguments arguments = evaluate_arguments(expr);
            meter_.at(expr.at, "test", expr.name);
            return apply_test(meter_, expr.name, value, arguments);
        }
        case ExprKind::negate:
        case ExprKind::plus: {
            const Object value = operand(0);
            meter_.at(expr.at);
            return apply_sign(meter_, value, expr.kind == ExprKind::negate);
        }
        case ExprKind::not_:
            return !truthy(operand(0));
        case ExprKind::and_: {
            Object left = operand(0);
            return truthy(left) ? operand(1) : left;
        }
        case ExprKind::or_: {
            Object left = operand(0);
            return truthy(left) ? left : operand(1);
        }
        case ExprKind::binary: {
            const Object left = operand(0);
            const Object right = operand(1);
            meter_.at(expr.at);
            return apply_binary(meter_, expr.op, left, right);
        }
        case ExprKind::compare:
            return evaluate_compare(expr);
        case ExprKind::concat:
            return evaluate_concat(expr);
        case ExprKind::conditional:
            if (truthy(operand(1))) return operand(0);
            return expr.items[2] ? operand(2) : Object();
    }
    return {};
}

Object Interpreter::evaluate_slice(const Expr& expr) {
    const Object object = evaluate(*expr.items[0]);
    const Object start = evaluate_part(expr.items[1]);
    const Object stop = evaluate_part(expr.items[2]);
    const Object step = evaluate_part(expr.items[3]);
    meter_.at(expr.at, "slice");
    return get_slice(meter_, object, start, stop, step);
}

Object Interpreter::evaluate_part(const ExprPtr& part) {
    return part ? evaluate(*part) : Object(None{});
}

Object Interpreter::evaluate_sequence(const Expr& expr, Flavor flavor) {
    Objects items;
    for (const ExprPtr& item : expr.items) items.push_back(evaluate(*item));
    meter_.at(expr.at);
    const bool may_grow = flavor == Flavor::list && items.empty();
    Object object = make_list(meter_, flavor, std::move(items));
    if (may_grow) object.list()->depth = kGrowDepth;
    return object;
}

Object Interpreter::evaluate_dict(const Expr& expr) {
    auto dict = make_dict(meter_);
    for (std::size_t i = 0; i + 1 < expr.items.size() && !meter_.halted(); i += 2) {
        Object key = evaluate(*expr.items[i]);
        Object value = evaluate(*expr.items[i + 1]);
        meter_.at(expr.at, "dict");
        put(meter_, *dict, std::move(key), std::move(value));
    }
    return DictPtr(std::move(dict));
}

Object Interpreter::evaluate_filter(const Expr& expr) {
    const Object input = expr.items[0] ? evaluate(*expr.items[0]) : *filter_input_;
    const Arguments arguments = evaluate_arguments(expr);
    meter_.at(expr.at, "filter", expr.name);
    return apply_filter(meter_, expr.name, input, arguments);
}

Object Interpreter::evaluate_compare(const Expr& expr) {
    Object left = evaluate(*expr.items[0]);
    for (std::size_t i = 0; i < expr.compares.size(); ++i) {
        Object right = evaluate(*expr.items[i + 1]);
        meter_.at(expr.at, "comparison");
        if (!apply_compare(meter_, expr.compares[i], left, right)) return false;
        left = std::move(right);
    }
    return true;
}

Object Interpreter::evaluate_concat(const Expr& expr) {
    TextBuilder out(meter_);
    for (const ExprPtr& item : expr.items) {
        const Object value = evaluate(*item);
        meter_.at(expr.at);
        print(out, meter_, value);
    }
    return out.finish();
}

Arguments Interpreter::evaluate_arguments(const Expr& expr) {
    Arguments arguments;
    for (const Argument& argument : expr.arguments) {
        const Object value = evaluate(*argument.value);
        meter_.at(expr.at, "arguments of", expr.name);
        switch (argument.kind) {
            case Argument::Kind::positional:
                arguments.positional.push_back(value);
                break;
            case Argument::Kind::keyword:
                arguments.named.emplace_back(argument.name, value);
                break;
            case Argument::Kind::star:
                for (Object& item : iterate(meter_, value).value_or(Objects{}))
                    arguments.positional.push_back(std::move(item));
                break;
            case Argument::Kind::star_star:
                if (value.dict() == nullptr)
                    meter_.fail(std::string("'**' needs a dict, not ") + type_name(value));
                if (meter_.halted()) break;
                for (const auto& [key, held] : value.dict()->entries) {
                    if (key.text())
                        arguments.named.emplace_back(std::string(key.text()->bytes()), held);
                }
                break;
        }
    }
    return arguments;
}

Object Interpreter::evaluate_call(const Expr& expr, const Macro* caller) {
    const Object callee = evaluate(*expr.items[0]);
    const Arguments arguments = evaluate_arguments(expr);
    meter_.at(expr.at, "call of", expr.items[0]->name);
    return meter_.halted() ? Object() : call(callee, arguments, caller);
}

}  // namespace strata::serve::jinja
