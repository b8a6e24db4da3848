// See engine/command_to_request.hpp.
#include "engine/command_to_request.hpp"

#include <utility>

namespace strata {

std::optional<protocol::ErrLine> unsupported_part(const protocol::GenCommand& command) {
    const auto refused = [&](const std::string& text) {
        return protocol::ErrLine{protocol::ErrCode::unsupported, command.id, false, text};
    };
    if (!command.grammar.empty()) {
        return refused("grammar is " + command.grammar + ", allowed is none");
    }
    return std::nullopt;
}

GenerateRequest request_of(protocol::GenCommand command, TimePoint received) {
    GenerateRequest request;
    request.id = command.id;
    request.prompt = std::move(command.ids);
    request.max_new = command.max_new;
    request.sampling = {command.temperature,
                        command.top_p,
                        command.top_k,
                        command.min_p,
                        command.repeat_penalty,
                        command.frequency_penalty,
                        command.presence_penalty,
                        command.penalty_last_n,
                        command.seed};
    request.stop_ids = std::move(command.stop);
    request.ignore_eos = command.ignore_eos;
    if (command.root > 0) request.root = command.root;
    request.pin = command.pin;
    request.keep = command.ckpt;
    request.identity.steering = command.steer.value_or("");
    request.identity.level = std::move(command.think);
    request.label = std::move(command.label);
    request.logprobs = command.logprobs;
    request.hash = command.hash;
    request.received = received;
    return request;
}

}  // namespace strata
