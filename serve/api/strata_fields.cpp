// See serve/api/strata_fields.hpp.
#include "serve/api/strata_fields.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace strata::serve {

namespace json = boost::json;

namespace {

constexpr std::array<std::string_view, 3> kKeys = {"checkpoint", "pin_messages", "steering"};
constexpr std::size_t kSteeringBytesMax = 64;  // of a mode's name, as --control-vector takes it

bool is_name(std::string_view text) {
    return !text.empty() && text.size() <= kSteeringBytesMax &&
           std::all_of(text.begin(), text.end(),
                       [](unsigned char c) { return c > 0x20 && c < 0x7F; });
}

void read_steering(FieldReader& reader, ChatRequest& request) {
    const json::value* const value = reader.find("steering");
    if (value == nullptr) return;
    if (value->is_bool() && !value->get_bool()) {
        request.steering = "";
        return;
    }
    if (value->is_string()) {
        const std::string_view name(value->get_string().data(), value->get_string().size());
        if (is_name(name)) {
            request.steering = std::string(name);
            return;
        }
    }
    reader.fault().set_value(reader.path_of("steering"), *value,
                             "false, or the name of a steering mode (--control-vector)",
                             "invalid_value");
}

void read_pin(FieldReader& reader, ChatRequest& request) {
    const json::value* const value = reader.find("pin_messages");
    if (value == nullptr) return;
    if (request.raw) {
        reader.fault().set(reader.path_of("pin_messages"),
                           "strata.pin_messages counts messages, and a text prompt has none",
                           "invalid_value");
        return;
    }
    const auto most = static_cast<std::int64_t>(request.messages.size());
    request.pin_messages = reader.integer("pin_messages", 0, most).value_or(0);
}

}  // namespace

void read_strata_fields(FieldReader& reader, ChatRequest& request) {
    const json::object* const object = reader.object("strata");
    if (object == nullptr) return;
    FieldReader inner(*object, "strata", reader.fault());
    for (const auto& [key, value] : *object) {
        const std::string_view name(key.data(), key.size());
        if (std::find(kKeys.begin(), kKeys.end(), name) != kKeys.end()) continue;
        reader.fault().set(
            inner.path_of(name),
            inner.path_of(name) + " is not known; allowed: checkpoint, pin_messages, steering",
            "unknown_field");
    }
    request.checkpoint = inner.boolean("checkpoint").value_or(true);
    read_pin(inner, request);
    read_steering(inner, request);
}

std::optional<ApiError> steering_refusal(const ChatRequest& request,
                                         const std::vector<std::string>& names) {
    if (!request.steering || request.steering->empty()) return std::nullopt;
    if (std::find(names.begin(), names.end(), *request.steering) != names.end()) {
        return std::nullopt;
    }
    ApiError error;
    error.param = "strata.steering";
    error.code = "invalid_value";
    error.message = "strata.steering is " + *request.steering + "; allowed: false";
    for (const std::string& name : names) error.message += ", " + name;
    return error;
}

}  // namespace strata::serve
