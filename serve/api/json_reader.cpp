// Parsing with limits, and the sentences for what is wrong.
#include "serve/api/json_reader.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <new>

#include <boost/json/memory_resource.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>

#include "serve/api/chat_request.hpp"
#include "serve/api/json_scan.hpp"

namespace strata::serve {

namespace json = boost::json;

namespace {

constexpr std::size_t kShownBytesMax = 64;  // of a client's value in an error message
constexpr std::string_view kTooManyValues = "the body holds too many values for its size";
// A body may cost its own size and this much more while it is parsed: `[1,1,1...` would else take
// ten times its size.
constexpr std::size_t kParseOverheadBytesMax = 32U << 20U;

// Memory for one parsed body; bad_alloc when it would take more than its limit. Boost.JSON 1.81
// gives keys back with another alignment than it took them with: the plain operators do not look at
// it.
class BoundedMemory final : public json::memory_resource {
  public:
    explicit BoundedMemory(std::size_t bytes_max) : left_(bytes_max) {}

  private:
    void* do_allocate(std::size_t bytes, std::size_t alignment) override {
        if (bytes > left_ || alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__) throw std::bad_alloc();
        void* const memory = ::operator new(bytes);
        left_ -= bytes;
        return memory;
    }
    void do_deallocate(void* memory, std::size_t bytes, std::size_t) override {
        ::operator delete(memory);
        left_ += bytes;
    }
    bool do_is_equal(const json::memory_resource& other) const noexcept override {
        return this == &other;
    }

    std::size_t left_;
};

json::parse_options strict_options(std::size_t depth) {
    json::parse_options options;
    options.max_depth = depth;
    return options;
}

std::string plain_number(double value) {
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    return {digits.data(), end};
}

std::string range_words(const NumberRange& range) {
    const bool open_below = range.least == std::numeric_limits<double>::lowest();
    const bool open_above = range.most == std::numeric_limits<double>::max();
    if (open_below && open_above) return "a number";
    if (open_above) {
        return (range.above_least ? "a number above " : "a number from ") +
               plain_number(range.least);
    }
    return "a number " + std::string(range.above_least ? "above " : "from ") +
           plain_number(range.least) + (range.above_least ? ", at most " : " to ") +
           plain_number(range.most);
}

std::string integer_words(std::int64_t least, std::int64_t most) {
    if (most == std::numeric_limits<std::int64_t>::max()) {
        return least == std::numeric_limits<std::int64_t>::min()
                   ? "a whole number"
                   : "a whole number from " + std::to_string(least);
    }
    return "a whole number from " + std::to_string(least) + " to " + std::to_string(most);
}

// A whole number in any spelling that JSON has for it; none when it is no such number.
std::optional<std::int64_t> whole(const json::value& value) {
    if (value.is_int64()) return value.get_int64();
    if (!value.is_double()) return std::nullopt;
    constexpr double kExactMax = 9007199254740992.0;  // 2^53
    const double number = value.get_double();
    if (std::trunc(number) != number || std::abs(number) > kExactMax) return std::nullopt;
    return static_cast<std::int64_t>(number);
}

// A double has lost its spelling: "1.0" would be shown as the whole number that was wanted.
std::string shown_as_written(const json::value& value, std::string_view body,
                             std::string_view path) {
    if (!value.is_double()) return shown(value);
    const std::string written = number_at(body, path);
    if (written.empty()) return shown(value);
    return written.size() <= kShownBytesMax ? written : written.substr(0, kShownBytesMax) + "...";
}

std::string body_fault_text(const JsonFault& fault) {
    switch (fault.kind) {
        case JsonFaultKind::not_utf8:
            return "the body is not valid UTF-8 at byte " + std::to_string(fault.byte);
        case JsonFaultKind::syntax:
            return "the body is no valid JSON: " + fault.text;
        case JsonFaultKind::too_deep:
            return "the body nests deeper than " + std::to_string(kJsonDepthMax) + " levels";
        case JsonFaultKind::repeated_key:
            return fault.text;
        case JsonFaultKind::too_many_keys:
            return std::string(kTooManyValues);
    }
    return fault.text;
}

}  // namespace

void FirstFault::set(std::string param, std::string message, std::string code, ErrorKind kind) {
    if (error_) return;
    error_.emplace();
    error_->kind = kind;
    error_->param = std::move(param);
    error_->message = std::move(message);
    error_->code = std::move(code);
}

void FirstFault::set_value(const std::string& path, const json::value& value,
                           std::string_view allowed, std::string code) {
    if (error_) return;
    set(path,
        path + " is " + shown_as_written(value, body_, path) + "; allowed: " + std::string(allowed),
        std::move(code));
}

std::string FirstFault::as_written(const std::string& path, const json::value& value) const {
    return shown_as_written(value, body_, path);
}

std::string shown(const json::value& value) {
    switch (value.kind()) {
        case json::kind::null:
            return "null";
        case json::kind::bool_:
            return value.get_bool() ? "true" : "false";
        case json::kind::int64:
            return std::to_string(value.get_int64());
        case json::kind::uint64:
            return std::to_string(value.get_uint64());
        case json::kind::double_:
            return plain_number(value.get_double());
        case json::kind::string: {
            const std::string_view text(value.get_string().data(), value.get_string().size());
            return text.size() <= kShownBytesMax ? "\"" + std::string(text) + "\""
                                                 : "a long string";
        }
        case json::kind::array:
            return "a list";
        case json::kind::object:
            return "an object";
    }
    return "unknown";
}

std::string FieldReader::path_of(std::string_view name) const {
    return path_.empty() ? std::string(name) : path_ + "." + std::string(name);
}

const json::value* FieldReader::find(std::string_view name) const {
    const json::value* const found =
        object_.if_contains(json::string_view(name.data(), name.size()));
    return found == nullptr || found->is_null() ? nullptr : found;
}

void FieldReader::wrong_type(std::string_view name, std::string_view allowed) {
    const json::value* const found = find(name);
    fault_.set_value(path_of(name), found == nullptr ? json::value() : *found, allowed);
}

void FieldReader::missing(std::string_view name, std::string_view allowed) {
    fault_.set(path_of(name), path_of(name) + " is missing; wanted: " + std::string(allowed),
               "missing_required_parameter");
}

std::optional<double> FieldReader::number(std::string_view name, NumberRange range) {
    const json::value* const found = find(name);
    if (found == nullptr) return std::nullopt;
    if (!found->is_number()) {
        wrong_type(name, range_words(range));
        return std::nullopt;
    }
    const double value = found->to_number<double>();
    const bool low = range.above_least ? value <= range.least : value < range.least;
    if (!std::isfinite(value) || low || value > range.most) {
        fault_.set_value(path_of(name), *found, range_words(range), "invalid_value");
        return std::nullopt;
    }
    return value;
}

std::optional<std::int64_t> FieldReader::integer(std::string_view name, std::int64_t least,
                                                 std::int64_t most) {
    const json::value* const found = find(name);
    if (found == nullptr) return std::nullopt;
    if (!found->is_number()) {
        wrong_type(name, integer_words(least, most));
        return std::nullopt;
    }
    const std::optional<std::int64_t> value = whole(*found);
    if (!value || *value < least || *value > most) {
        fault_.set_value(path_of(name), *found, integer_words(least, most), "invalid_value");
        return std::nullopt;
    }
    return value;
}

std::optional<bool> FieldReader::boolean(std::string_view name) {
    const json::value* const found = find(name);
    if (found == nullptr) return std::nullopt;
    if (!found->is_bool()) {
        wrong_type(name, "true or false");
        return std::nullopt;
    }
    return found->get_bool();
}

std::optional<std::string> FieldReader::text(std::string_view name) {
    const json::value* const found = find(name);
    if (found == nullptr) return std::nullopt;
    if (!found->is_string()) {
        wrong_type(name, "a string");
        return std::nullopt;
    }
    return std::string(found->get_string().data(), found->get_string().size());
}

const json::array* FieldReader::array(std::string_view name, std::size_t items_max) {
    const json::value* const found = find(name);
    if (found == nullptr) return nullptr;
    const std::string allowed = "a list of at most " + std::to_string(items_max) + " entries";
    if (!found->is_array()) {
        wrong_type(name, allowed);
        return nullptr;
    }
    if (found->get_array().size() > items_max) {
        fault_.set(path_of(name),
                   path_of(name) + " has " + std::to_string(found->get_array().size()) +
                       " entries; allowed: " + allowed,
                   "invalid_value");
        return nullptr;
    }
    return &found->get_array();
}

const json::object* FieldReader::object(std::string_view name) {
    const json::value* const found = find(name);
    if (found == nullptr) return nullptr;
    if (!found->is_object()) {
        wrong_type(name, "an object");
        return nullptr;
    }
    return &found->get_object();
}

ApiResult<JsonBody> JsonBody::parse(std::string_view body) {
    ApiError error;
    error.code = "invalid_json";
    if (const std::optional<JsonFault> fault = find_json_fault(body, kJsonDepthMax)) {
        error.param = fault->path;
        error.message = body_fault_text(*fault);
        return Failure{std::move(error)};
    }
    json::error_code code;
    try {
        json::value value = json::parse(
            json::string_view(body.data(), body.size()), code,
            json::make_shared_resource<BoundedMemory>(body.size() + kParseOverheadBytesMax),
            strict_options(kJsonDepthMax));
        if (!code && value.is_object()) return JsonBody(std::move(value));
        if (!code) {
            error.message =
                "the body is " + shown_as_written(value, body, "") + "; wanted: a JSON object";
        }
        if (code) error.message = "the body is no valid JSON: " + code.message();
    } catch (const std::bad_alloc&) {
        error.message = std::string(kTooManyValues);
    }
    return Failure{std::move(error)};
}

std::optional<json::value> parse_inner_json(std::string_view text) {
    json::error_code code;
    try {
        json::value value = json::parse(
            json::string_view(text.data(), text.size()), code,
            json::make_shared_resource<BoundedMemory>(text.size() + kParseOverheadBytesMax),
            strict_options(kJsonDepthMax));
        if (!code) return value;
    } catch (const std::bad_alloc&) {
        return std::nullopt;
    }
    return std::nullopt;
}

}  // namespace strata::serve
