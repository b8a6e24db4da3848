// One chat request in the server's own words: what every dialect is translated to. Owns no JSON and
// no HTTP; the fields were checked by the dialect that filled them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/text/template_value.hpp"

namespace strata::serve {

// Limits of a request (DETAILS.md, "Limits"): one more is refused. Each stops a body of a few MiB
// from costing a thousand times its size in work, and none is met by a real client.
inline constexpr std::size_t kJsonDepthMax = 64;
inline constexpr std::size_t kMessagesMax = 10'000;
inline constexpr std::size_t kContentPartsMax = 1'000;
inline constexpr std::size_t kToolsMax = 1'024;
inline constexpr std::size_t kToolBytesMax = 256U << 10U;  // one tool as JSON
inline constexpr std::size_t kToolCallsMax = 1'024;        // of one message
inline constexpr std::size_t kStopStringsMax = 16;
inline constexpr std::size_t kStopStringBytesMax = 256;
inline constexpr std::size_t kLogitBiasMax = 1'024;
inline constexpr std::int64_t kTopLogprobsAskedMax = 20;

enum class Role : std::uint8_t { system, developer, user, assistant, tool };

struct ToolCall {
    std::string id;
    std::string name;
    TemplateValue arguments;  // a dict when the client's text parsed as an object, else its string
};

struct ChatMessage {
    Role role = Role::user;
    std::optional<std::string> content;    // parts joined; none = null
    std::optional<std::string> reasoning;  // the thinking of an earlier answer
    std::string name;                      // "" = none
    std::vector<ToolCall> tool_calls;      // of an assistant
    std::string tool_call_id;              // of a tool's result
};

// Absent means: the configuration's value, else the engine's default.
struct SamplingFields {
    std::optional<double> temperature;           // [0, 2]; 0 = greedy
    std::optional<double> top_p;                 // [0, 1]; 0 = the most probable token alone
    std::optional<std::int64_t> top_k;           // 0 or -1 = off
    std::optional<double> min_p;                 // [0, 1]
    std::optional<double> repeat_penalty;        // (0, 10]
    std::optional<double> frequency_penalty;     // [-2, 2]
    std::optional<double> presence_penalty;      // [-2, 2]
    std::optional<std::int64_t> penalty_last_n;  // tokens
    std::optional<std::uint64_t> seed;
    bool ignore_eos = false;
};

// How much the model shall think before it answers; unset leaves it to the template.
enum class ThinkingLevel : std::uint8_t { unset, off, on, minimal, low, medium, high, xhigh };

// Token ids as a client wrote them; whether the vocabulary has them is asked later.
struct GivenIds {
    std::string path;  // of the list in its body
    std::vector<std::int64_t> ids;
    std::string beyond;  // the one behind these, when no 64-bit number is it: reading ended there
};

// A prompt that no template shapes: text, or the tokens themselves.
struct RawPrompt {
    std::string text;
    std::optional<GivenIds> ids;  // when they are given they count
    bool add_special = true;      // the model file's BOS and EOS rules
    bool parse_special = true;    // control tokens are recognised in the text
};

struct ChatRequest {
    std::string model;             // as the client named it; "" = none
    std::optional<RawPrompt> raw;  // of a text completion; then there are no messages
    std::vector<ChatMessage> messages;
    TemplateList tools;               // as the client described them
    TemplateDict template_variables;  // chat_template_kwargs
    ThinkingLevel thinking = ThinkingLevel::unset;
    std::optional<std::int64_t> thinking_budget;  // tokens; absent = the configuration's
    SamplingFields sampling;
    bool checkpoint = true;               // false: a one-shot, neither continued nor parked
    std::int64_t pin_messages = 0;        // a checkpoint behind so many stays; 0 = none
    std::optional<std::string> steering;  // "" = off; absent = the engine's own
    std::vector<std::string> stop;
    std::optional<std::int64_t> max_tokens;  // of the answer; absent = the room left
    bool stream = false;
    bool include_usage = false;    // a usage chunk at the end of a stream
    bool return_progress = false;  // chunks that say how far the prompt is read
    bool logprobs = false;
    std::int64_t top_logprobs = 0;  // 0..kTopLogprobsAskedMax
};

}  // namespace strata::serve
