// Writes one line of JSON. Keys come out in the order of the calls; numbers as JSON readers expect
// them (Boost.JSON would print 1.0 as 1E0). The caller keeps the nesting right.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace strata::serve {

class JsonWriter {
  public:
    JsonWriter& begin_object();
    JsonWriter& end_object();
    JsonWriter& begin_array();
    JsonWriter& end_array();
    JsonWriter& key(std::string_view name);

    JsonWriter& string(std::string_view text);  // UTF-8; invalid bytes become U+FFFD
    JsonWriter& integer(std::int64_t value);
    JsonWriter& unsigned_integer(std::uint64_t value);
    JsonWriter& number(double value, int decimals = 3);  // not finite: null
    JsonWriter& boolean(bool value);
    JsonWriter& null();
    JsonWriter& raw(std::string_view json);  // a value that is JSON already

    // key and value in one
    JsonWriter& field(std::string_view name, std::string_view text) {
        return key(name).string(text);
    }
    JsonWriter& field(std::string_view name, const char* text) { return key(name).string(text); }
    JsonWriter& field(std::string_view name, bool value) { return key(name).boolean(value); }
    template <std::signed_integral T>
    JsonWriter& field(std::string_view name, T value) {
        return key(name).integer(value);
    }
    template <std::unsigned_integral T>
    JsonWriter& field(std::string_view name, T value) {
        return key(name).unsigned_integer(value);
    }
    JsonWriter& field(std::string_view name, double value, int decimals = 3) {
        return key(name).number(value, decimals);
    }
    // "" = null
    JsonWriter& field_or_null(std::string_view name, std::string_view text) {
        key(name);
        return text.empty() ? null() : string(text);
    }

    const std::string& text() const { return text_; }
    std::string take() { return std::move(text_); }

  private:
    void comma();
    std::string text_;
    bool after_value_ = false;  // the next value of this level needs a comma
};

}  // namespace strata::serve
