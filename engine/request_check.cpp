// See engine/request_check.hpp.
#include "engine/request_check.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace strata {

namespace {

std::string range(std::int64_t value, std::int64_t least, std::int64_t most) {
    return std::to_string(value) + ", allowed are " + std::to_string(least) + " to " +
           std::to_string(most);
}

std::optional<RequestRefusal> check_ids(std::span<const TokenId> ids, const char* name,
                                        std::int64_t vocabulary) {
    const auto outside = std::find_if(
        ids.begin(), ids.end(), [vocabulary](TokenId id) { return id < 0 || id >= vocabulary; });
    if (outside == ids.end()) return std::nullopt;
    return RequestRefusal{RefusalCode::bad_token, std::string(name) + " number " +
                                                      std::to_string(outside - ids.begin()) +
                                                      " is " + range(*outside, 0, vocabulary - 1)};
}

}  // namespace

std::optional<RequestRefusal> check_request(const GenerateRequest& request, std::int64_t vocabulary,
                                            Position context_tokens) {
    const Position prompt_tokens = std::ssize(request.prompt);
    const auto bad_field = [](std::string text) {
        return RequestRefusal{RefusalCode::bad_field, std::move(text)};
    };
    if (prompt_tokens == 0) return bad_field("ids is empty, allowed is one id at least");
    if (request.max_new < 0) {
        return bad_field("max_new is " + range(request.max_new, 0, context_tokens));
    }
    if (auto refusal = check_ids(request.prompt, "id", vocabulary)) return refusal;
    if (auto refusal = check_ids(request.stop_ids, "stop id", vocabulary)) return refusal;
    // Compared without a sum, which could overflow.
    if (prompt_tokens > context_tokens || request.max_new > context_tokens - prompt_tokens) {
        return RequestRefusal{RefusalCode::too_long,
                              "a prompt of " + std::to_string(prompt_tokens) +
                                  " tokens and max_new " + std::to_string(request.max_new) +
                                  " do not fit the context of " + std::to_string(context_tokens) +
                                  " tokens"};
    }
    if (request.root && (*request.root < 0 || *request.root > prompt_tokens)) {
        return bad_field("root is " + range(*request.root, 0, prompt_tokens));
    }
    if (request.pin < 0 || request.pin > prompt_tokens) {
        return bad_field("pin is " + range(request.pin, 0, prompt_tokens));
    }
    return std::nullopt;
}

Result<std::optional<std::size_t>, RequestRefusal> find_steering(
    std::string_view name, std::span<const SteeringMode> modes) {
    if (name.empty()) return std::optional<std::size_t>();
    std::string known = "off";
    for (std::size_t i = 0; i < modes.size(); ++i) {
        if (modes[i].name == name) return std::optional(i);
        known += ", " + modes[i].name;
    }
    return Failure{RequestRefusal{RefusalCode::bad_field,
                                  "steer is " + std::string(name) + ", allowed: " + known}};
}

}  // namespace strata
