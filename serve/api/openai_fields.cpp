// One function for each group of fields.
#include "serve/api/openai_fields.hpp"

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace strata::serve {

namespace json = boost::json;

namespace {

constexpr std::int64_t kTokensMax =
    2'147'483'647;  // positions are 31 bits wide in the line protocol

// Both spellings of a field are known; the first that is given counts.
template <class Read>
auto either(std::string_view first, std::string_view second, Read read) -> decltype(read(first)) {
    auto value = read(first);
    auto other = read(second);
    return value ? value : other;
}

std::optional<std::uint64_t> read_seed(FieldReader& reader) {
    const json::value* const found = reader.find("seed");
    if (found != nullptr && found->is_uint64()) return found->get_uint64();
    const std::optional<std::int64_t> seed = reader.integer(
        "seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
    if (!seed || *seed == -1) return std::nullopt;  // -1: any, as other servers read it
    return static_cast<std::uint64_t>(*seed);
}

void add_stop(const json::value& value, const std::string& path, FirstFault& fault,
              std::vector<std::string>& stop) {
    const std::string allowed =
        "a string of 1 to " + std::to_string(kStopStringBytesMax) + " bytes";
    if (!value.is_string()) {
        fault.set_value(path, value, allowed);
        return;
    }
    const std::size_t bytes = value.get_string().size();
    if (bytes == 0 || bytes > kStopStringBytesMax) {
        fault.set(path, path + " has " + std::to_string(bytes) + " bytes; allowed: " + allowed,
                  "invalid_value");
        return;
    }
    stop.emplace_back(value.get_string().data(), bytes);
}

SamplingFields read_sampling(FieldReader& reader) {
    SamplingFields fields;
    const auto integer = [&](std::int64_t least) {
        return [&reader, least](std::string_view name) {
            return reader.integer(name, least, std::numeric_limits<std::int32_t>::max());
        };
    };
    fields.temperature = reader.number("temperature", {.least = 0, .most = 2});
    fields.top_p = reader.number("top_p", {.least = 0, .most = 1});
    fields.top_k = integer(-1)("top_k");
    fields.min_p = reader.number("min_p", {.least = 0, .most = 1});
    fields.repeat_penalty =
        either("repeat_penalty", "repetition_penalty", [&](std::string_view name) {
            return reader.number(name, {.least = 0, .most = 10, .above_least = true});
        });
    fields.frequency_penalty = reader.number("frequency_penalty", {.least = -2, .most = 2});
    fields.presence_penalty = reader.number("presence_penalty", {.least = -2, .most = 2});
    fields.penalty_last_n = either("penalty_last_n", "repeat_last_n", integer(0));
    fields.seed = read_seed(reader);
    fields.ignore_eos = reader.boolean("ignore_eos").value_or(false);
    return fields;
}

std::vector<std::string> read_stop(FieldReader& reader) {
    std::vector<std::string> stop;
    const json::value* const found = reader.find("stop");
    if (found == nullptr) return stop;
    if (!found->is_array()) {
        add_stop(*found, "stop", reader.fault(), stop);
        return stop;
    }
    const json::array* const list = reader.array("stop", kStopStringsMax);
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
        add_stop((*list)[i], "stop[" + std::to_string(i) + "]", reader.fault(), stop);
    }
    return stop;
}

std::optional<std::int64_t> read_max_tokens(FieldReader& reader) {
    return either("max_completion_tokens", "max_tokens",
                  [&](std::string_view name) { return reader.integer(name, 0, kTokensMax); });
}

void read_stream_fields(FieldReader& reader, ChatRequest& request) {
    request.stream = reader.boolean("stream").value_or(false);
    request.return_progress = reader.boolean("return_progress").value_or(false);
    const json::object* const options = reader.object("stream_options");
    if (options == nullptr) return;
    FieldReader inner(*options, "stream_options", reader.fault());
    request.include_usage = inner.boolean("include_usage").value_or(false);
}

}  // namespace

void refuse_field(FieldReader& reader, std::string_view name, std::string_view why) {
    reader.fault().set(reader.path_of(name),
                       std::string(name) + " is not supported: " + std::string(why),
                       "unsupported_parameter");
}

void check_logit_bias(FieldReader& reader) {
    const json::value* const bias = reader.find("logit_bias");
    if (bias == nullptr) return;
    if (!bias->is_object() && !bias->is_array()) {
        reader.wrong_type("logit_bias", "an object of token ids, or a list of pairs");
        return;
    }
    const std::size_t entries =
        bias->is_object() ? bias->get_object().size() : bias->get_array().size();
    if (entries > kLogitBiasMax) {
        reader.fault().set("logit_bias",
                           "logit_bias has " + std::to_string(entries) +
                               " entries; allowed: at most " + std::to_string(kLogitBiasMax),
                           "invalid_value");
    } else if (entries > 0) {
        refuse_field(reader, "logit_bias", "the engine does not change single logits");
    }
}

void read_shared_fields(FieldReader& reader, ChatRequest& request) {
    read_stream_fields(reader, request);
    request.max_tokens = read_max_tokens(reader);
    request.sampling = read_sampling(reader);
    request.stop = read_stop(reader);
}

}  // namespace strata::serve
