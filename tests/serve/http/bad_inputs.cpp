#include "tests/serve/http/bad_inputs.hpp"

#include "tests/support/http_client.hpp"

namespace strata::tests {

namespace {

const std::string kChat = "/v1/chat/completions";
const std::string kText = "/v1/completions";

class Maker {
  public:
    explicit Maker(std::vector<BadInput>& out) : out_(out) {}

    void body(const std::string& name, const std::string& path, const std::string& bytes,
              int status = 400) {
        out_.push_back({name + " at " + path, post_request(path, bytes), {status}, false});
    }
    void raw(const std::string& name, const std::string& bytes, std::vector<int> statuses) {
        out_.push_back({name, bytes, std::move(statuses), true});
    }

  private:
    std::vector<BadInput>& out_;
};

std::string with(const std::string& field) {
    return R"({"messages":[{"role":"user","content":"hi"}],"max_tokens":2,)" + field + "}";
}

std::string with_message(const std::string& message) {
    return R"({"messages":[)" + message + R"(],"max_tokens":2})";
}

std::string text_with(const std::string& field) {
    return R"({"prompt":"hi","max_tokens":2,)" + field + "}";
}

std::string repeated(const std::string& item, std::size_t count) {
    std::string out = "[";
    for (std::size_t i = 0; i < count; ++i) out += (i > 0 ? "," : "") + item;
    return out + "]";
}

// What no JSON parser takes.
void add_broken_json(Maker& make) {
    const std::vector<std::pair<std::string, std::string>> broken = {
        {"nothing", ""},
        {"spaces", "   "},
        {"a word", "hello"},
        {"an open object", "{"},
        {"an open string", R"({"messages":")"},
        {"an open list", R"({"messages":[)"},
        {"a comma too many", R"({"a":1,})"},
        {"no colon", R"({"a" 1})"},
        {"single quotes", "{'a':1}"},
        {"a comment", "{/*x*/}"},
        {"two documents", "{}{}"},
        {"text behind it", "{} x"},
        {"a leading zero", R"({"a":01})"},
        {"a plus sign", R"({"a":+1})"},
        {"NaN", R"({"temperature":NaN})"},
        {"Infinity", R"({"temperature":Infinity})"},
        {"hexadecimal", R"({"a":0x10})"},
        {"a raw line end in a string", "{\"a\":\"\n\"}"},
        {"a raw NUL in a string", std::string("{\"a\":\"\0\"}", 9)},
        {"a lone surrogate", R"({"a":"\ud800"})"},
        {"a bad escape", R"({"a":"\x"})"},
        {"a short escape", R"({"a":"\u12"})"},
        {"a byte order mark", "\xEF\xBB\xBF{}"},
        {"a byte that is no UTF-8", "{\"a\":\"\xFF\"}"},
        {"an overlong sequence", "{\"a\":\"\xC0\x80\"}"},
        {"an encoded surrogate", "{\"a\":\"\xED\xA0\x80\"}"},
        {"a cut sequence", "{\"a\":\"\xE2\x82\"}"},
        {"above the last code point", "{\"a\":\"\xF4\x90\x80\x80\"}"},
        {"a key twice",
         R"({"messages":[{"role":"user","content":"x"}],"stream":true,"stream":false})"},
        {"a key twice deep inside",
         R"({"messages":[{"role":"user","role":"system","content":"x"}]})"},
        {"a key twice by an escape", R"({"prompt":"a","\u0070rompt":"b"})"},
        {"too deep lists", R"({"x":)" + std::string(70, '[') + std::string(70, ']') + "}"},
        {"a deep open list", std::string(200'000, '[')},
        {"deep open objects",
         [] {
             std::string text;
             for (int i = 0; i < 20'000; ++i) text += R"({"a":)";
             return text;
         }()},
        {"many tiny values", R"({"x":)" + repeated("1", 4'000'000) + "}"},
        {"a list", "[]"},
        {"a number", "1"},
        {"a text", "\"x\""},
        {"null", "null"},
        {"true", "true"},
    };
    for (const std::string& path : {kChat, kText, std::string("/tokenize"),
                                    std::string("/detokenize"), std::string("/apply-template")}) {
        for (const auto& [name, bytes] : broken) {
            if (bytes.size() > 1'000'000 && path != kChat) continue;  // once is enough
            make.body(name, path, bytes);
        }
    }
}

// Every known field with every kind of value that it does not take.
void add_wrong_fields(Maker& make) {
    const std::vector<std::string> values = {"\"x\"", "[1]", "{}", "-1e300", "true"};
    const std::vector<std::string> numbers = {"temperature",
                                              "top_p",
                                              "top_k",
                                              "min_p",
                                              "repeat_penalty",
                                              "seed",
                                              "max_tokens",
                                              "frequency_penalty",
                                              "presence_penalty",
                                              "penalty_last_n",
                                              "top_logprobs",
                                              "n",
                                              "repetition_penalty",
                                              "repeat_last_n",
                                              "max_completion_tokens"};
    for (const std::string& field : numbers) {
        for (const std::string& value : values) {
            make.body(field + " is " + value, kChat, with("\"" + field + "\":" + value));
        }
        make.body(field + " is 1e400", kChat, with("\"" + field + "\":1e400"));
    }
    for (const char* field :
         {"stream", "ignore_eos", "parallel_tool_calls", "logprobs", "enable_thinking"}) {
        for (const char* value : {"\"x\"", "[1]", "{}", "1"}) {
            make.body(std::string(field) + " is " + value, kChat,
                      with("\"" + std::string(field) + "\":" + value));
        }
    }
    for (const char* field : {"model", "reasoning_effort"}) {
        for (const char* value : {"1", "[1]", "{}", "true"}) {
            make.body(std::string(field) + " is " + value, kChat,
                      with("\"" + std::string(field) + "\":" + value));
        }
    }
    for (const char* field : {R"("tools":"x")",
                              R"("tools":[1])",
                              R"("tools":[{"type":"function"}])",
                              R"("tools":[{"type":"function","function":{}}])",
                              R"("tool_choice":"required")",
                              R"("tool_choice":1)",
                              R"("response_format":{"type":"json_object"})",
                              R"("response_format":1)",
                              R"("logit_bias":{"1":5})",
                              R"("logit_bias":"x")",
                              R"("stop":[""])",
                              R"("stop":"")",
                              R"("stop":[1])",
                              R"("stop":{})",
                              R"("reasoning":"high")",
                              R"("reasoning":{"effort":"huge"})",
                              R"("thinking":"x")",
                              R"("thinking":{})",
                              R"("thinking":{"type":"maybe"})",
                              R"("thinking":{"type":"enabled","budget_tokens":-1})",
                              R"("chat_template_kwargs":1)",
                              R"("chat_template_kwargs":{"enable_thinking":"x"})",
                              R"("stream_options":1)",
                              R"("stream_options":{"include_usage":1})",
                              R"("grammar":"root ::= x")",
                              R"("functions":[{"name":"f"}])",
                              R"("top_logprobs":5)",
                              R"("n":2)",
                              R"("reasoning_effort":"huge")"}) {
        make.body(field, kChat, with(field));
    }
}

void add_wrong_messages(Maker& make) {
    for (
        const char* message :
        {"1",
         "null",
         "[]",
         "{}",
         R"({"content":"x"})",
         R"({"role":"user"})",
         R"({"role":"wizard","content":"x"})",
         R"({"role":1,"content":"x"})",
         R"({"role":"user","content":5})",
         R"({"role":"user","content":{"text":"x"}})",
         R"({"role":"user","content":["x"]})",
         R"({"role":"user","content":[{"text":"x"}]})",
         R"({"role":"user","content":[{"type":"text"}]})",
         R"({"role":"user","content":[{"type":"image_url","image_url":{"url":"file:///etc/passwd"}}]})",
         R"({"role":"assistant","tool_calls":{}})",
         R"({"role":"assistant","tool_calls":[1]})",
         R"({"role":"assistant","tool_calls":[{"id":"a"}]})",
         R"({"role":"assistant","tool_calls":[{"function":{"arguments":"{}"}}]})",
         R"({"role":"user","content":"x","name":1})",
         R"({"role":"user","content":"x"},{"role":"assistant","reasoning_content":4})"}) {
        make.body(std::string("message ") + message, kChat, with_message(message));
        make.body(std::string("message ") + message, "/apply-template", with_message(message));
    }
    make.body("no messages", kChat, "{}");
    make.body("messages are a text", kChat, R"({"messages":"hi"})");
    make.body("messages are empty", kChat, R"({"messages":[]})");
    make.body("too many messages", kChat,
              R"({"messages":)" + repeated(R"({"role":"user","content":"x"})", 10'001) + "}");
    make.body("too many parts", kChat,
              with_message(R"({"role":"user","content":)" +
                           repeated(R"({"type":"text","text":"x"})", 1'001) + "}"));
    make.body("too many stop strings", kChat, with(R"("stop":)" + repeated("\"s\"", 17)));
    make.body("a long stop string", kChat, with(R"("stop":")" + std::string(257, 's') + "\""));
    make.body(
        "too many tools", kChat,
        with(R"("tools":)" + repeated(R"({"type":"function","function":{"name":"f"}})", 1'025)));
    make.body("a prompt far over the context", kChat,
              with_message(R"({"role":"user","content":")" + std::string(400'000, 'y') + "\"}"));
}

void add_wrong_completions(Maker& make) {
    for (const char* body :
         {"{}", R"({"prompt":1})", R"({"prompt":{}})", R"({"prompt":[]})", R"({"prompt":""})",
          R"({"prompt":["a","b"]})", R"({"prompt":[[1],[2]]})", R"({"prompt":[-1]})",
          R"({"prompt":[99999999]})", R"({"prompt":[1.5]})", R"({"prompt":[1,"a"]})",
          R"({"prompt":[[]]})", R"({"prompt":[null]})"}) {
        make.body(body, kText, body);
    }
    for (const char* field :
         {R"("echo":true)", R"("echo":1)", R"("suffix":"x")", R"("logprobs":21)",
          R"("logprobs":true)", R"("logprobs":-1)", R"("best_of":2)", R"("n":0)",
          R"("add_special_tokens":1)", R"("parse_special":"x")", R"("temperature":3)"}) {
        make.body(field, kText, text_with(field));
    }
    make.body("ids far over the context", kText, R"({"prompt":)" + repeated("5", 50'000) + "}");
    for (const char* body : {"{}", R"({"content":1})", R"({"content":"x","add_special":"y"})",
                             R"({"content":"x","with_pieces":1})"}) {
        make.body(body, "/tokenize", body);
    }
    for (const char* body : {"{}", R"({"tokens":1})", R"({"tokens":["a"]})", R"({"tokens":[-1]})",
                             R"({"tokens":[99999999]})", R"({"tokens":[1.5]})",
                             R"({"tokens":[9223372036854775808]})"}) {
        make.body(body, "/detokenize", body);
    }
}

std::string head(const std::string& first_line, const std::string& headers) {
    return first_line + "\r\n" + headers + "\r\n";
}

void add_wrong_framing(Maker& make, std::size_t body_bytes_max) {
    const std::string host = "Host: localhost\r\n";
    const std::string post = "POST " + kChat + " HTTP/1.1";
    const std::string json = host + "Content-Type: application/json\r\n";
    for (const char* line :
         {"GET", "GET /health", "GET  /health HTTP/1.1", "GET /health HTTP/1.1 x",
          "GET /health HTTP/9.9", "GET /health HTTP/2.0", "GET /health http/1.1", "/health",
          "G\x01T /health HTTP/1.1", "GET /%zz HTTP/1.1", "GET /%00 HTTP/1.1",
          "GET /a\x7F HTTP/1.1", "GET health HTTP/1.1", " GET /health HTTP/1.1"}) {
        make.raw(std::string("request line ") + line, head(line, host), {400});
    }
    make.raw("TLS hello", "\x16\x03\x01\x02\x01\xFC\x03\x03\r\n\r\n", {400});
    make.raw("binary zeros", std::string(64, '\0') + "\r\n\r\n", {400});
    make.raw("a long request line", "GET /" + std::string(9'000, 'a') + " HTTP/1.1\r\n" + host,
             {414});
    make.raw("a request line without end", "GET /" + std::string(100'000, 'a'), {414});
    make.raw("a long header",
             head("GET /health HTTP/1.1", host + "x: " + std::string(9'000, 'v') + "\r\n"), {431});
    std::string many;
    for (int i = 0; i < 101; ++i) many += "a: b\r\n";
    make.raw("many headers", head("GET /health HTTP/1.1", host + many), {431});
    std::string large;
    for (int i = 0; i < 6; ++i) large += "h: " + std::string(7'000, 'v') + "\r\n";
    make.raw("large headers", head("GET /health HTTP/1.1", host + large), {431});
    for (const char* lines :
         {"", "Host: a\r\nHost: b\r\n", "Host : localhost\r\n", "Host: localhost\r\nx\r\n",
          "Host: localhost\r\n: v\r\n", "Host: localhost\r\na: b\r\n c\r\n",
          "Host: localhost\r\nx: \x01\r\n"}) {
        make.raw(std::string("headers ") + lines, head("GET /health HTTP/1.1", lines), {400});
    }
    for (const char* lines :
         {"Content-Length: -1\r\n", "Content-Length: x\r\n", "Content-Length: 1 1\r\n",
          "Content-Length: 99999999999999999999999\r\n",
          "Content-Length: 2\r\nContent-Length: 3\r\n",
          "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
          "Transfer-Encoding: gzip, chunked\r\n", "Transfer-Encoding: chunked, chunked\r\n",
          "Transfer-Encoding: identity\r\n"}) {
        make.raw(std::string("framing ") + lines, head(post, json + lines) + "{}", {400});
    }
    for (const char* chunks :
         {"zz\r\n", "-1\r\n", "2\r\n{}x\r\n0\r\n\r\n", "ffffffffffffffffffff\r\n"}) {
        make.raw(std::string("chunks ") + chunks,
                 head(post, json + "Transfer-Encoding: chunked\r\n") + chunks, {400, 408, 413});
    }
    make.raw("a body over the limit",
             head(post, json + "Content-Length: " + std::to_string(body_bytes_max + 1) + "\r\n"),
             {413});
    make.raw("an unknown expectation", head(post, json + "Expect: tea\r\nContent-Length: 0\r\n"),
             {417});
}

void add_wrong_access(Maker& make) {
    const std::string json = "Content-Type: application/json\r\nContent-Length: 2\r\n";
    const auto post = [&](const std::string& headers) {
        return head("POST " + kChat + " HTTP/1.1", headers) + "{}";
    };
    for (const char* host : {"evil.example", "localhost.evil.example", "", "a b", "[::1",
                             "127.0.0.1:x", "localhost:80:80"}) {
        make.raw(std::string("host ") + host, post("Host: " + std::string(host) + "\r\n" + json),
                 {400, 403});
    }
    for (const char* origin : {"null", "https://evil.example", "http://localhost.evil.example",
                               "file://", "", "http://"}) {
        make.raw(std::string("origin ") + origin,
                 post("Host: localhost\r\nOrigin: " + std::string(origin) + "\r\n" + json), {403});
    }
    for (const char* type : {"text/plain", "application/x-www-form-urlencoded",
                             "multipart/form-data; boundary=x", "application/jsonx", ""}) {
        make.raw(std::string("content type ") + type,
                 post("Host: localhost\r\nContent-Length: 2\r\nContent-Type: " + std::string(type) +
                      "\r\n"),
                 {415});
    }
    for (const char* path : {"/v1/nothing", "/../etc/passwd", "/%2e%2e/etc/passwd", "//",
                             "/v1/models/", "/v1//models", "/health/x"}) {
        make.raw(std::string("path ") + path, get_request(path), {404});
    }
    for (const char* method : {"DELETE", "PUT", "PATCH", "TRACE", "BREW", "get"}) {
        make.raw(std::string("method ") + method,
                 head(std::string(method) + " /health HTTP/1.1", "Host: localhost\r\n"),
                 {400, 405});
    }
    make.raw("CONNECT", head("CONNECT localhost:80 HTTP/1.1", "Host: localhost\r\n"), {400});
    make.raw("GET of a POST route", get_request(kChat), {405});
    make.raw("POST of a GET route", post_request("/health", "{}"), {405});
    for (const char* path : {"/v1/embeddings", "/v1/rerank"}) {
        make.body("unsupported route", path, "{}", 501);
    }
}

}  // namespace

std::vector<BadInput> bad_inputs(std::size_t body_bytes_max) {
    std::vector<BadInput> out;
    Maker make(out);
    add_broken_json(make);
    add_wrong_fields(make);
    add_wrong_messages(make);
    add_wrong_completions(make);
    add_wrong_framing(make, body_bytes_max);
    add_wrong_access(make);
    return out;
}

}  // namespace strata::tests
