#include "engine/model/metadata_keys.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>
#include <variant>

namespace strata {
namespace {

std::string shown(double value) {
    std::array<char, 32> out{};
    const auto end = std::to_chars(out.data(), out.data() + out.size(), value);
    return std::string(out.data(), end.ptr);
}

std::string shown(const IntegerRange& range) {
    if (range.min == range.max) return std::to_string(range.min);
    return std::to_string(range.min) + " to " + std::to_string(range.max);
}

template <class T>
std::optional<std::uint64_t> uniform_array(const std::vector<T>& values) {
    if (values.empty() || values.front() < T{0}) return std::nullopt;
    const auto other = [&](T value) { return value != values.front(); };
    if (std::any_of(values.begin(), values.end(), other)) return std::nullopt;
    return static_cast<std::uint64_t>(values.front());
}

template <class T>
std::optional<std::vector<bool>> as_flags(const std::vector<T>& values) {
    std::vector<bool> out;
    out.reserve(values.size());
    for (const auto value : values) {
        if (value != T{0} && value != T{1}) return std::nullopt;
        out.push_back(value == T{1});
    }
    return out;
}

}  // namespace

std::optional<std::uint64_t> MetadataKeys::uniform(const gguf::Value& value) const {
    if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number;
    if (const auto* number = std::get_if<std::int64_t>(&value)) {
        return *number < 0 ? std::nullopt : std::optional(static_cast<std::uint64_t>(*number));
    }
    if (const auto* list = std::get_if<std::vector<std::uint64_t>>(&value))
        return uniform_array(*list);
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
        return uniform_array(*list);
    return std::nullopt;
}

std::int64_t MetadataKeys::integer(std::string_view key, IntegerRange range,
                                   std::optional<std::int64_t> fallback) {
    const gguf::Value* value = header_.find(prefix_ + std::string(key));
    if (value == nullptr && fallback) return *fallback;
    if (value == nullptr) {
        refuse_key(key, "missing", shown(range));
        return range.min;
    }
    const auto number = uniform(*value);
    if (!number) {
        refuse_key(key, "not an integer of 0 or more, equal in all layers", shown(range));
        return range.min;
    }
    if (*number < static_cast<std::uint64_t>(range.min) ||
        *number > static_cast<std::uint64_t>(range.max)) {
        refuse_key(key, std::to_string(*number), shown(range));
        return range.min;
    }
    return static_cast<std::int64_t>(*number);
}

double MetadataKeys::real(std::string_view key, RealRange range, std::optional<double> fallback) {
    const gguf::Value* value = header_.find(prefix_ + std::string(key));
    if (value == nullptr && fallback) return *fallback;
    const std::string allowed = (range.min_allowed ? "a number from " : "a number above ") +
                                shown(range.min) + " to " + shown(range.max);
    const auto* number = value == nullptr ? nullptr : std::get_if<double>(value);
    if (number == nullptr) {
        refuse_key(key, value == nullptr ? "missing" : "not a float", allowed);
        return range.max;
    }
    const bool inside = *number >= range.min && *number <= range.max;  // false for NaN
    if (!inside || (*number == range.min && !range.min_allowed)) {
        refuse_key(key, shown(*number), allowed);
        return range.max;
    }
    return *number;
}

bool MetadataKeys::flag(std::string_view key, bool fallback) {
    const gguf::Value* value = header_.find(prefix_ + std::string(key));
    if (value == nullptr) return fallback;
    if (const auto* flag = std::get_if<bool>(value)) return *flag;
    refuse_key(key, "not a bool", "true and false");
    return fallback;
}

std::string MetadataKeys::text(std::string_view key, std::string fallback) {
    const gguf::Value* value = header_.find(prefix_ + std::string(key));
    if (value == nullptr) return fallback;
    if (const auto* text = std::get_if<std::string>(value)) return *text;
    refuse_key(key, "not a string", "a string");
    return fallback;
}

std::optional<std::vector<bool>> MetadataKeys::flags(std::string_view key) {
    const gguf::Value* value = header_.find(prefix_ + std::string(key));
    if (value == nullptr) return std::nullopt;
    std::optional<std::vector<bool>> out;
    if (const auto* list = std::get_if<std::vector<bool>>(value)) out = *list;
    if (const auto* list = std::get_if<std::vector<std::uint64_t>>(value)) out = as_flags(*list);
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(value)) out = as_flags(*list);
    if (!out) refuse_key(key, "not an array of bools", "one bool (or 0 and 1) for each layer");
    return out;
}

void MetadataKeys::refuse_key(std::string_view key, const std::string& value,
                              const std::string& allowed) {
    if (refusal_) return;
    refusal_ = Refusal{"metadata key " + prefix_ + std::string(key) + " is " + value +
                       "; allowed: " + allowed};
}

}  // namespace strata
