// What a chat completion request may say: tables of good and bad fields, written from the API's
// description. A bad field is a 400 whose param is its JSON path.
#include "serve/api/openai_request.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace strata::serve;

namespace {

// A body with a good message and `fields` beside it.
std::string with(const std::string& fields) {
    return R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}";
}

std::string with_message(const std::string& message) {
    return R"({"messages":[)" + message + "]}";
}

ChatRequest good(const std::string& body) {
    INFO(body.substr(0, 300));
    const ApiResult<ChatRequest> parsed = parse_openai_chat(body);
    if (!parsed) FAIL(openai_error_body(parsed.error()));
    return *parsed;
}

ApiError bad(const std::string& body) {
    INFO(body.substr(0, 300));
    const ApiResult<ChatRequest> parsed = parse_openai_chat(body);
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().kind == ErrorKind::invalid_request);
    return parsed.error();
}

std::string nested(std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
}

std::string repeated(const std::string& item, std::size_t count) {
    std::string out = "[";
    for (std::size_t i = 0; i < count; ++i) out += (i > 0 ? "," : "") + item;
    return out + "]";
}

struct BadField {
    const char* fields;
    const char* param;
    const char* code;
    const char* message;
};

const BadField kBadFields[] = {
    {R"("temperature":"hot")", "temperature", "invalid_type",
     R"(temperature is "hot"; allowed: a number from 0 to 2)"},
    {R"("temperature":2.5)", "temperature", "invalid_value",
     "temperature is 2.5; allowed: a number from 0 to 2"},
    {R"("temperature":-0.1)", "temperature", "invalid_value",
     "temperature is -0.1; allowed: a number from 0 to 2"},
    {R"("temperature":[1])", "temperature", "invalid_type",
     "temperature is a list; allowed: a number from 0 to 2"},
    {R"("top_p":1.01)", "top_p", "invalid_value", "top_p is 1.01; allowed: a number from 0 to 1"},
    {R"("min_p":-1)", "min_p", "invalid_value", "min_p is -1; allowed: a number from 0 to 1"},
    {R"("top_k":1.5)", "top_k", "invalid_value",
     "top_k is 1.5; allowed: a whole number from -1 to 2147483647"},
    {R"("top_k":1.500)", "top_k", "invalid_value",
     "top_k is 1.500; allowed: a whole number from -1 to 2147483647"},
    {R"("x":{"top_k":7.0},"top_k":99999999999999999999)", "top_k", "invalid_value",
     "top_k is 99999999999999999999; allowed: a whole number from -1 to 2147483647"},
    {R"("temperature":25E-1)", "temperature", "invalid_value",
     "temperature is 25E-1; allowed: a number from 0 to 2"},
    {R"("stop":["a",1.0])", "stop[1]", "invalid_type",
     "stop[1] is 1.0; allowed: a string of 1 to 256 bytes"},
    {R"("stream":1.0)", "stream", "invalid_type", "stream is 1.0; allowed: true or false"},
    {R"("top_k":-2)", "top_k", "invalid_value",
     "top_k is -2; allowed: a whole number from -1 to 2147483647"},
    {R"("repeat_penalty":0)", "repeat_penalty", "invalid_value",
     "repeat_penalty is 0; allowed: a number above 0, at most 10"},
    {R"("repetition_penalty":"x")", "repetition_penalty", "invalid_type",
     R"(repetition_penalty is "x"; allowed: a number above 0, at most 10)"},
    {R"("presence_penalty":3)", "presence_penalty", "invalid_value",
     "presence_penalty is 3; allowed: a number from -2 to 2"},
    {R"("frequency_penalty":-3)", "frequency_penalty", "invalid_value",
     "frequency_penalty is -3; allowed: a number from -2 to 2"},
    {R"("repeat_last_n":-1)", "repeat_last_n", "invalid_value",
     "repeat_last_n is -1; allowed: a whole number from 0 to 2147483647"},
    {R"("seed":"7")", "seed", "invalid_type", R"(seed is "7"; allowed: a whole number)"},
    {R"("seed":1.5)", "seed", "invalid_value", "seed is 1.5; allowed: a whole number"},
    {R"("max_tokens":-1)", "max_tokens", "invalid_value",
     "max_tokens is -1; allowed: a whole number from 0 to 2147483647"},
    {R"("max_tokens":"10")", "max_tokens", "invalid_type",
     R"(max_tokens is "10"; allowed: a whole number from 0 to 2147483647)"},
    {R"("max_completion_tokens":1e30)", "max_completion_tokens", "invalid_value",
     "max_completion_tokens is 1e30; allowed: a whole number from 0 to 2147483647"},
    {R"("stream":"yes")", "stream", "invalid_type", R"(stream is "yes"; allowed: true or false)"},
    {R"("stream_options":[])", "stream_options", "invalid_type",
     "stream_options is a list; allowed: an object"},
    {R"("stream_options":{"include_usage":1})", "stream_options.include_usage", "invalid_type",
     "stream_options.include_usage is 1; allowed: true or false"},
    {R"("model":7)", "model", "invalid_type", "model is 7; allowed: a string"},
    {R"("n":2)", "n", "invalid_value", "n is 2; allowed: a whole number from 1 to 1"},
    {R"("n":0)", "n", "invalid_value", "n is 0; allowed: a whole number from 1 to 1"},
    {R"("logprobs":2)", "logprobs", "invalid_type", "logprobs is 2; allowed: true or false"},
    {R"("logprobs":true,"top_logprobs":21)", "top_logprobs", "invalid_value",
     "top_logprobs is 21; allowed: a whole number from 0 to 20"},
    {R"("top_logprobs":2)", "top_logprobs", "invalid_value", "top_logprobs needs logprobs: true"},
    {R"("stop":5)", "stop", "invalid_type", "stop is 5; allowed: a string of 1 to 256 bytes"},
    {R"("stop":["a",""])", "stop[1]", "invalid_value",
     "stop[1] has 0 bytes; allowed: a string of 1 to 256 bytes"},
    {R"("stop":["a",null])", "stop[1]", "invalid_type",
     "stop[1] is null; allowed: a string of 1 to 256 bytes"},
    {R"("logit_bias":{"50":1})", "logit_bias", "unsupported_parameter",
     "logit_bias is not supported: the engine does not change single logits"},
    {R"("logit_bias":3)", "logit_bias", "invalid_type",
     "logit_bias is 3; allowed: an object of token ids, or a list of pairs"},
    {R"("response_format":{"type":"json_object"})", "response_format.type", "unsupported_value",
     R"(response_format.type is "json_object"; allowed: "text" (the engine does not constrain )"
     R"(its answer))"},
    {R"("response_format":{})", "response_format.type", "missing_required_parameter",
     R"(response_format.type is missing; wanted: "text")"},
    {R"("tool_choice":"required")", "tool_choice", "unsupported_value",
     R"(tool_choice is "required"; allowed: "auto" or "none" (the engine cannot force a call))"},
    {R"("tool_choice":1)", "tool_choice", "invalid_type",
     R"(tool_choice is 1; allowed: "auto" or "none")"},
    {R"("tools":{})", "tools", "invalid_type",
     "tools is an object; allowed: a list of at most 1024 entries"},
    {R"("tools":[1])", "tools[0]", "invalid_type", "tools[0] is 1; allowed: an object"},
    {R"("tools":[{"type":"function"}])", "tools[0].function", "missing_required_parameter",
     "tools[0].function is missing; wanted: an object with name and parameters"},
    {R"("tools":[{"type":"function","function":{}}])", "tools[0].function.name",
     "missing_required_parameter", "tools[0].function.name is missing; wanted: a string"},
    {R"("tools":[{"function":{"name":"f"}},{"type":"function","function":{"name":""}}])",
     "tools[1].function.name", "invalid_value",
     R"(tools[1].function.name is ""; allowed: a name of at least one character)"},
    {R"("tool_choice":{"type":"function","function":{"name":""}})", "tool_choice",
     "unsupported_value",
     R"(tool_choice is an object; allowed: "auto" or "none" (the engine cannot force a call))"},
    {R"("response_format":{"type":"json_schema","json_schema":{"name":""}})",
     "response_format.type", "unsupported_value",
     R"(response_format.type is "json_schema"; allowed: "text" (the engine does not constrain )"
     R"(its answer))"},
    {R"("functions":[{"name":""}])", "functions", "unsupported_parameter",
     "functions is not supported: use tools"},
    {R"("tools":[{"type":"function","function":{"name":"f","parameters":[]}}])",
     "tools[0].function.parameters", "invalid_type",
     "tools[0].function.parameters is a list; allowed: an object"},
    {R"("reasoning_effort":"enormous")", "reasoning_effort", "invalid_value",
     R"(reasoning_effort is "enormous"; allowed: none, minimal, low, medium, high, xhigh, max)"},
    {R"("reasoning_effort":3)", "reasoning_effort", "invalid_type",
     "reasoning_effort is 3; allowed: a string"},
    {R"("enable_thinking":"no")", "enable_thinking", "invalid_type",
     R"(enable_thinking is "no"; allowed: true or false)"},
    {R"("chat_template_kwargs":[])", "chat_template_kwargs", "invalid_type",
     "chat_template_kwargs is a list; allowed: an object"},
    {R"("chat_template_kwargs":{"enable_thinking":"no"})", "chat_template_kwargs.enable_thinking",
     "invalid_type", R"(chat_template_kwargs.enable_thinking is "no"; allowed: true or false)"},
    {R"("functions":[{"name":"f"}])", "functions", "unsupported_parameter",
     "functions is not supported: use tools"},
    {R"("ignore_eos":"x")", "ignore_eos", "invalid_type",
     R"(ignore_eos is "x"; allowed: true or false)"},
    {R"("parallel_tool_calls":"x")", "parallel_tool_calls", "invalid_type",
     R"(parallel_tool_calls is "x"; allowed: true or false)"},
};

}  // namespace

TEST_CASE("a request with a message alone is whole") {
    const ChatRequest request = good(R"({"messages":[{"role":"user","content":"hi"}]})");
    REQUIRE(request.messages.size() == 1);
    CHECK(request.messages[0].role == Role::user);
    CHECK(request.messages[0].content == "hi");
    CHECK_FALSE(request.stream);
    CHECK_FALSE(request.max_tokens);
    CHECK_FALSE(request.sampling.temperature);
    CHECK(request.thinking == ThinkingLevel::unset);
}

TEST_CASE("what is no JSON object is refused in words") {
    CHECK(openai_error_body(bad("[]")) ==
          R"({"error":{"message":"the body is a list; wanted: a JSON object",)"
          R"("type":"invalid_request_error","param":null,"code":"invalid_json"}})");
    for (const char* body : {"", "{", "nul", "{\"messages\":}", "{} x", "{\"a\":\"\xff\"}",
                             "{\"a\":01}", "{'a':1}", "\xef\xbb\xbf{}"}) {
        CHECK(bad(body).code == "invalid_json");
    }
}

TEST_CASE("a key given twice and bytes that are no UTF-8 are named") {
    const ApiError twice = bad(R"({"messages":[{"role":"user","role":"system","content":"x"}]})");
    CHECK(twice.code == "invalid_json");
    CHECK(twice.param == "messages[0].role");
    CHECK(twice.message == R"(the key "role" is given twice in one object)");
    CHECK(bad("{\"a\":\"\xff\"}").message == "the body is not valid UTF-8 at byte 6");
    CHECK(bad("{\"a\":x}").message == "the body is no valid JSON: syntax error at byte 5");
}

TEST_CASE("nesting is refused one level over the limit") {
    // The field itself is inside the object: one level.
    good(with(R"("x":)" + nested(kJsonDepthMax - 2)));
    good(with(R"("x":)" + nested(kJsonDepthMax - 1)));
    CHECK(bad(with(R"("x":)" + nested(kJsonDepthMax))).message ==
          "the body nests deeper than 64 levels");
}

TEST_CASE("a body of many tiny values is refused by memory") {
    const std::string many = with(R"("x":)" + repeated("1", 8'000'000));
    CHECK(bad(many).message == "the body holds too many values for its size");
}

TEST_CASE("bad fields are refused with their path") {
    for (const BadField& row : kBadFields) {
        const ApiError error = bad(with(row.fields));
        INFO(row.fields);
        CHECK(error.param == row.param);
        CHECK(error.code == row.code);
        CHECK(error.message == row.message);
    }
}

TEST_CASE("bad messages are refused with their path") {
    struct Row {
        const char* message;
        const char* param;
        const char* code;
    };
    const Row rows[] = {
        {"1", "messages[0]", "invalid_type"},
        {R"({"content":"x"})", "messages[0].role", "missing_required_parameter"},
        {R"({"role":"robot","content":"x"})", "messages[0].role", "invalid_value"},
        {R"({"role":5,"content":"x"})", "messages[0].role", "invalid_type"},
        {R"({"role":"user"})", "messages[0].content", "missing_required_parameter"},
        {R"({"role":"user","content":null})", "messages[0].content", "missing_required_parameter"},
        {R"({"role":"user","content":5})", "messages[0].content", "invalid_type"},
        {R"({"role":"user","content":{"text":"x"}})", "messages[0].content", "invalid_type"},
        {R"({"role":"user","content":["x"]})", "messages[0].content[0]", "invalid_type"},
        {R"({"role":"user","content":[{"text":"x"}]})", "messages[0].content[0].type",
         "missing_required_parameter"},
        {R"({"role":"user","content":[{"type":"text"}]})", "messages[0].content[0].text",
         "missing_required_parameter"},
        {R"({"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{}}]})",
         "messages[0].content[1].type", "unsupported_value"},
        {R"({"role":"user","content":"x"},{"role":"assistant","reasoning_content":4})",
         "messages[1].reasoning_content", "invalid_type"},
        {R"({"role":"assistant","tool_calls":{}})", "messages[0].tool_calls", "invalid_type"},
        {R"({"role":"assistant","tool_calls":[{"id":"a"}]})", "messages[0].tool_calls[0].function",
         "missing_required_parameter"},
        {R"({"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]})",
         "messages[0].tool_calls[0].function.name", "missing_required_parameter"},
        {R"({"role":"assistant","tool_calls":[{"function":{"name":"","arguments":"{}"}}]})",
         "messages[0].tool_calls[0].function.name", "invalid_value"},
        {R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":7}}]})",
         "messages[0].tool_calls[0].function.arguments", "invalid_type"},
        {R"({"role":"user","content":"x","name":1})", "messages[0].name", "invalid_type"},
    };
    for (const Row& row : rows) {
        const ApiError error = bad(with_message(row.message));
        INFO(row.message);
        CHECK(error.param == row.param);
        CHECK(error.code == row.code);
    }
    CHECK(bad("{}").param == "messages");
    CHECK(bad(R"({"messages":[]})").param == "messages");
    CHECK(bad(R"({"messages":[]})").message ==
          "messages is an empty list; allowed: a list of at least one message");
    CHECK(bad(R"({"messages":"hi"})").code == "invalid_type");
}

TEST_CASE("the first bad field is the one that is named") {
    CHECK(bad(R"({"messages":[{"role":"user","content":"x"},{"role":"x"},{"role":"y"}]})").param ==
          "messages[1].role");
}

TEST_CASE("counts and lengths are refused one over their limits") {
    const std::string user = R"({"role":"user","content":"x"})";
    good(R"({"messages":)" + repeated(user, kMessagesMax) + "}");
    CHECK(bad(R"({"messages":)" + repeated(user, kMessagesMax + 1) + "}").param == "messages");

    const std::string part = R"({"type":"text","text":"x"})";
    const auto parts = [&](std::size_t n) {
        return with_message(R"({"role":"user","content":)" + repeated(part, n) + "}");
    };
    CHECK(good(parts(kContentPartsMax)).messages[0].content->size() == kContentPartsMax);
    CHECK(bad(parts(kContentPartsMax + 1)).param == "messages[0].content");

    good(with(R"("stop":)" + repeated("\"s\"", kStopStringsMax)));
    CHECK(bad(with(R"("stop":)" + repeated("\"s\"", kStopStringsMax + 1))).param == "stop");
    const auto stop = [](std::size_t bytes) {
        return with(R"("stop":")" + std::string(bytes, 's') + "\"");
    };
    CHECK(good(stop(kStopStringBytesMax)).stop[0].size() == kStopStringBytesMax);
    CHECK(bad(stop(kStopStringBytesMax + 1)).param == "stop");

    const std::string tool = R"({"type":"function","function":{"name":"f"}})";
    CHECK(good(with(R"("tools":)" + repeated(tool, kToolsMax))).tools.size() == kToolsMax);
    CHECK(bad(with(R"("tools":)" + repeated(tool, kToolsMax + 1))).param == "tools");

    const std::string frame = R"({"type":"function","function":{"name":"f","description":""}})";
    const auto long_tool = [&](std::size_t bytes) {
        std::string text = frame;
        text.insert(text.size() - 3, std::string(bytes - frame.size(), 'd'));
        return with(R"("tools":[)" + text + "]");
    };
    good(long_tool(kToolBytesMax));
    CHECK(bad(long_tool(kToolBytesMax + 1)).param == "tools[0]");

    const auto biases = [](std::size_t n) {
        return with(R"("logit_bias":)" + repeated("[1,2]", n));
    };
    CHECK(bad(biases(kLogitBiasMax)).code == "unsupported_parameter");
    CHECK(bad(biases(kLogitBiasMax + 1)).code == "invalid_value");

    CHECK(good(with(R"("logprobs":true,"top_logprobs":20)")).top_logprobs == 20);
}

TEST_CASE("both spellings of a field are read") {
    CHECK(good(with(R"("max_tokens":7)")).max_tokens == 7);
    CHECK(good(with(R"("max_completion_tokens":8)")).max_tokens == 8);
    CHECK(good(with(R"("max_completion_tokens":8,"max_tokens":7)")).max_tokens == 8);
    CHECK(good(with(R"("repeat_penalty":1.5)")).sampling.repeat_penalty == 1.5);
    CHECK(good(with(R"("repetition_penalty":1.5)")).sampling.repeat_penalty == 1.5);
    CHECK(good(with(R"("repeat_last_n":9)")).sampling.penalty_last_n == 9);
    CHECK(good(with(R"("penalty_last_n":9)")).sampling.penalty_last_n == 9);
}

TEST_CASE("null is the same as not given") {
    const ChatRequest request = good(
        with(R"("temperature":null,"max_tokens":null,"stop":null,"tools":null,"seed":null,)"
             R"("stream":null,"stream_options":null,"logit_bias":null,"response_format":null)"));
    CHECK_FALSE(request.sampling.temperature);
    CHECK_FALSE(request.max_tokens);
    CHECK(request.stop.empty());
}

TEST_CASE("unknown fields and hosted tools are passed over") {
    const ChatRequest request = good(with(
        R"("user":"u","metadata":{"a":1},"store":false,"xtc_probability":0.5,"best_of":1,)"
        R"("tools":[{"type":"web_search"},{"type":"function","function":{"name":"f"}}],"logit_bias":{})"));
    CHECK(request.tools.size() == 1);
}

TEST_CASE("seeds keep every bit") {
    CHECK(good(with(R"("seed":18446744073709551615)")).sampling.seed == 18446744073709551615U);
    CHECK(good(with(R"("seed":-5)")).sampling.seed == static_cast<std::uint64_t>(-5));
    CHECK(good(with(R"("seed":0)")).sampling.seed == 0U);
    CHECK_FALSE(good(with(R"("seed":-1)")).sampling.seed);
}

TEST_CASE("roles contents and thinking of a history are kept") {
    const ChatRequest request = good(R"({"messages":[
        {"role":"developer","content":"d"},
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"name":"Ann"},
        {"role":"assistant","content":null,"reasoning_content":"r","tool_calls":[
            {"id":"c1","type":"function","function":{"name":"f","arguments":"{\"x\": [1, 2.0]}"}},
            {"id":"c2","type":"function","function":{"name":"g","arguments":"not json"}},
            {"id":"c3","type":"function","function":{"name":"h","arguments":{"y":true}}}]},
        {"role":"tool","tool_call_id":"c1","content":"result"},
        {"role":"assistant","content":"x","thinking":"t"},
        {"role":"assistant","content":"x","reasoning":"s"}]})");
    REQUIRE(request.messages.size() == 6);
    CHECK(request.messages[0].role == Role::developer);
    CHECK(request.messages[1].content == "ab");
    CHECK(request.messages[1].name == "Ann");
    const ChatMessage& calls = request.messages[2];
    CHECK_FALSE(calls.content);
    CHECK(calls.reasoning == "r");
    REQUIRE(calls.tool_calls.size() == 3);
    const auto& dict = std::get<TemplateDict>(calls.tool_calls[0].arguments.held());
    REQUIRE(dict.size() == 1);
    CHECK(dict[0].first == "x");
    const auto& list = std::get<TemplateList>(dict[0].second.held());
    CHECK(std::get<std::int64_t>(list[0].held()) == 1);
    CHECK(std::get<double>(list[1].held()) == 2.0);
    CHECK(std::get<std::string>(calls.tool_calls[1].arguments.held()) == "not json");
    CHECK(std::holds_alternative<TemplateDict>(calls.tool_calls[2].arguments.held()));
    CHECK(request.messages[3].tool_call_id == "c1");
    CHECK(request.messages[4].reasoning == "t");
    CHECK(request.messages[5].reasoning == "s");
}

TEST_CASE("thinking levels have one meaning in each spelling") {
    CHECK(good(with(R"("reasoning_effort":"none")")).thinking == ThinkingLevel::off);
    CHECK(good(with(R"("reasoning_effort":"low")")).thinking == ThinkingLevel::low);
    CHECK(good(with(R"("reasoning_effort":"max")")).thinking == ThinkingLevel::xhigh);
    CHECK(good(with(R"("enable_thinking":true)")).thinking == ThinkingLevel::on);
    CHECK(good(with(R"("enable_thinking":false)")).thinking == ThinkingLevel::off);
    CHECK(good(with(R"("enable_thinking":true,"reasoning_effort":"high")")).thinking ==
          ThinkingLevel::high);
}

TEST_CASE("tool choice none leaves the tools out") {
    const std::string tools = R"("tools":[{"type":"function","function":{"name":"f"}}])";
    CHECK(good(with(tools + R"(,"tool_choice":"none")")).tools.empty());
    CHECK(good(with(tools + R"(,"tool_choice":"auto")")).tools.size() == 1);
}
