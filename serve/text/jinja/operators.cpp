// Arithmetic with Python's rules for int, float and their mixtures; joining and repeating of
// sequences.
#include "serve/text/jinja/operators.hpp"

#include <cmath>
#include <limits>

namespace strata::serve::jinja {
namespace {

const char* sign_of(BinaryOp op) {
    switch (op) {
        case BinaryOp::add:
            return "+";
        case BinaryOp::subtract:
            return "-";
        case BinaryOp::multiply:
            return "*";
        case BinaryOp::divide:
            return "/";
        case BinaryOp::floor_divide:
            return "//";
        case BinaryOp::modulo:
            return "%";
        case BinaryOp::power:
            return "**";
    }
    return "?";
}

const char* sign_of(CompareOp op) {
    switch (op) {
        case CompareOp::less:
            return "<";
        case CompareOp::less_equal:
            return "<=";
        case CompareOp::greater:
            return ">";
        case CompareOp::greater_equal:
            return ">=";
        case CompareOp::equal:
            return "==";
        case CompareOp::unequal:
            return "!=";
        case CompareOp::in:
            return "in";
        case CompareOp::not_in:
            return "not in";
    }
    return "?";
}

Object unsupported(Meter& meter, const char* sign, const Object& a, const Object& b) {
    meter.fail(std::string("'") + sign + "' does not work between " + type_name(a) + " and " +
               type_name(b));
    return {};
}

Object too_large(Meter& meter) {
    meter.fail("the integer does not fit 64 bits");
    return {};
}

Object by_zero(Meter& meter) {
    meter.fail("division by zero");
    return {};
}

Object integer_power(Meter& meter, std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) {
        if (base == 0) return by_zero(meter);
        return std::pow(static_cast<double>(base), static_cast<double>(exponent));
    }
    if (base == 0 || base == 1) return exponent == 0 ? std::int64_t{1} : base;
    if (base == -1) return std::int64_t{exponent % 2 == 0 ? 1 : -1};
    std::int64_t result = 1;
    for (; exponent > 0; --exponent) {  // |base| >= 2: overflows within 64 rounds
        if (__builtin_mul_overflow(result, base, &result)) return too_large(meter);
    }
    return result;
}

Object on_integers(Meter& meter, BinaryOp op, std::int64_t a, std::int64_t b) {
    std::int64_t result = 0;
    switch (op) {
        case BinaryOp::add:
            return __builtin_add_overflow(a, b, &result) ? too_large(meter) : Object(result);
        case BinaryOp::subtract:
            return __builtin_sub_overflow(a, b, &result) ? too_large(meter) : Object(result);
        case BinaryOp::multiply:
            return __builtin_mul_overflow(a, b, &result) ? too_large(meter) : Object(result);
        case BinaryOp::divide:
            if (b == 0) return by_zero(meter);
            return static_cast<double>(a) / static_cast<double>(b);
        case BinaryOp::floor_divide:
        case BinaryOp::modulo: {
            if (b == 0) return by_zero(meter);
            if (b == -1) {  // the one quotient that could overflow
                if (op == BinaryOp::modulo) return std::int64_t{0};
                return __builtin_sub_overflow(std::int64_t{0}, a, &result) ? too_large(meter)
                                                                           : Object(result);
            }
            // Rounded down; the rest has the sign of b.
            const std::int64_t rest = a % b;
            const bool adjust = rest != 0 && (rest < 0) != (b < 0);
            if (op == BinaryOp::modulo) return adjust ? rest + b : rest;
            return a / b - (adjust ? 1 : 0);
        }
        case BinaryOp::power:
            return integer_power(meter, a, b);
    }
    return {};
}

Object on_reals(Meter& meter, BinaryOp op, double a, double b) {
    switch (op) {
        case BinaryOp::add:
            return a + b;
        case BinaryOp::subtract:
            return a - b;
        case BinaryOp::multiply:
            return a * b;
        case BinaryOp::divide:
            return b == 0 ? by_zero(meter) : Object(a / b);
        case BinaryOp::floor_divide:
        case BinaryOp::modulo: {
            if (b == 0) return by_zero(meter);
            double rest = std::fmod(a, b);
            double quotient = (a - rest) / b;
            if (rest != 0 && (rest < 0) != (b < 0)) {
                rest += b;
                quotient -= 1;
            }
            if (op == BinaryOp::modulo) return rest == 0 ? std::copysign(0.0, b) : rest;
            return quotient == 0 ? std::copysign(0.0, a / b) : std::floor(quotient + 0.5);
        }
        case BinaryOp::power: {
            if (a == 0 && b < 0) return by_zero(meter);
            const double result = std::pow(a, b);
            if (std::isfinite(a) && std::isfinite(b) && !std::isfinite(result)) {
                meter.fail("the result of '**' is out of range");
                return {};
            }
            return result;
        }
    }
    return {};
}

bool is_plain_sequence(const List* list) {
    return list != nullptr && (list->flavor == Flavor::list || list->flavor == Flavor::tuple);
}

Object joined(Meter& meter, const Object& a, const Object& b) {
    if (a.text() && b.text()) {
        TextBuilder out(meter);
        out.append(*a.text());
        out.append(*b.text());
        return out.finish();
    }
    const List* left = a.list();
    const List* right = b.list();
    if (!is_plain_sequence(left) || !is_plain_sequence(right) || left->flavor != right->flavor) {
        return unsupported(meter, "+", a, b);
    }
    Objects items = left->items;
    items.insert(items.end(), right->items.begin(), right->items.end());
    return make_list(meter, left->flavor, std::move(items));
}

Object repeated(Meter& meter, const Object& sequence, std::int64_t times) {
    const auto count = static_cast<std::size_t>(std::max<std::int64_t>(times, 0));
    if (const Text* text = sequence.text()) {
        TextBuilder out(meter);
        for (std::size_t i = 0; i < count && text->size() > 0 && !meter.halted(); ++i)
            out.append(*text);
        return out.finish();
    }
    const List& list = *sequence.list();
    Objects items;
    for (std::size_t i = 0; i < count && !list.items.empty(); ++i) {
        // The growing vector is paid for only when it is done: keep it within what a text may hold.
        if (!meter.step(1 + list.items.size() / 4)) break;
        if (!meter.fits_text((items.size() + list.items.size()) * sizeof(Object))) break;
        items.insert(items.end(), list.items.begin(), list.items.end());
    }
    return make_list(meter, list.flavor, std::move(items));
}

}  // namespace

Object apply_binary(Meter& meter, BinaryOp op, const Object& a, const Object& b) {
    // A pattern takes an undefined value as it takes any other.
    if (op == BinaryOp::modulo && a.text()) return format_percent(meter, *a.text(), b);
    if (!defined(meter, a) || !defined(meter, b)) return {};
    if (is_integral(a) && is_integral(b))
        return on_integers(meter, op, integer_of(a), integer_of(b));
    if (is_numeric(a) && is_numeric(b)) return on_reals(meter, op, real_of(a), real_of(b));
    if (op == BinaryOp::add) return joined(meter, a, b);
    const auto repeats = [](const Object& o) { return o.text() || is_plain_sequence(o.list()); };
    if (op == BinaryOp::multiply && repeats(a) && is_integral(b))
        return repeated(meter, a, integer_of(b));
    if (op == BinaryOp::multiply && is_integral(a) && repeats(b))
        return repeated(meter, b, integer_of(a));
    return unsupported(meter, sign_of(op), a, b);
}

Object apply_sign(Meter& meter, const Object& value, bool negative) {
    if (!defined(meter, value)) return {};
    if (is_integral(value))
        return negative ? on_integers(meter, BinaryOp::subtract, 0, integer_of(value))
                        : Object(integer_of(value));
    if (const auto* real = value.as<double>()) return negative ? -*real : *real;
    meter.fail(std::string("a sign before a ") + type_name(value));
    return {};
}

bool contains(Meter& meter, const Object& container, const Object& item) {
    if (const Text* text = container.text()) {
        const Text* part = item.text();
        if (part == nullptr) {
            unsupported(meter, "in", item, container);
            return false;
        }
        if (!meter.step_search(text->size(), part->size())) return false;
        return text->bytes().find(part->bytes()) != std::string_view::npos;
    }
    if (const Dict* dict = container.dict()) {
        if (!hashable(meter, item)) meter.fail(std::string("a ") + type_name(item) + " is no key");
        return !meter.halted() && dict->find(meter, item) != nullptr;
    }
    const auto items = iterate(meter, container);
    if (!items) return false;
    for (const Object& each : *items) {
        if (equal(meter, each, item)) return true;
    }
    return false;
}

bool apply_compare(Meter& meter, CompareOp op, const Object& a, const Object& b) {
    switch (op) {
        case CompareOp::equal:
            return equal(meter, a, b);
        case CompareOp::unequal:
            return !equal(meter, a, b);
        case CompareOp::in:
            return contains(meter, b, a);
        case CompareOp::not_in:
            return !contains(meter, b, a);
        case CompareOp::less:
        case CompareOp::less_equal:
        case CompareOp::greater:
        case CompareOp::greater_equal:
            break;
    }
    if (!defined(meter, a) || !defined(meter, b)) return false;
    const auto result = order(meter, a, b);
    if (!result) {
        unsupported(meter, sign_of(op), a, b);
        return false;
    }
    if (*result == kUnordered) return false;
    if (op == CompareOp::less) return *result < 0;
    if (op == CompareOp::less_equal) return *result <= 0;
    return op == CompareOp::greater ? *result > 0 : *result >= 0;
}

}  // namespace strata::serve::jinja
