// Bodies in, documents out.
#include "serve/api/text_calls.hpp"

#include <utility>
#include <vector>

#include "serve/api/json_reader.hpp"
#include "serve/api/json_writer.hpp"
#include "serve/api/openai_request.hpp"
#include "serve/api/prompt.hpp"
#include "serve/api/token_ids.hpp"
#include "serve/text/unicode.hpp"

namespace strata::serve {

namespace json = boost::json;

namespace {

Reply document(JsonWriter& writer) {
    Reply reply;
    reply.body = writer.take();
    return reply;
}

void write_piece(JsonWriter& out, std::string_view bytes) {
    if (is_utf8(bytes)) {
        out.string(bytes);
        return;
    }
    out.begin_array();
    for (const char byte : bytes) out.integer(static_cast<unsigned char>(byte));
    out.end_array();
}

// The body's size bounds their number.
GivenIds read_token_list(FieldReader& reader) {
    constexpr std::string_view kAllowed = "a list of token ids";
    const json::value* const found = reader.find("tokens");
    if (found == nullptr) {
        reader.missing("tokens", kAllowed);
    } else if (!found->is_array()) {
        reader.wrong_type("tokens", kAllowed);
    } else {
        return read_token_ids(found->get_array(), "tokens", reader.fault());
    }
    return {};
}

}  // namespace

ApiResult<Reply> tokenize(std::string_view body, const TextPlaces& places) {
    const ApiResult<JsonBody> parsed = JsonBody::parse(body);
    if (!parsed) return parsed.failure();
    FirstFault fault(body);
    FieldReader reader(parsed->object(), "", fault);
    const std::optional<std::string> content = reader.text("content");
    if (!content) reader.missing("content", "a text");
    RawPrompt raw;
    raw.text = content.value_or("");
    raw.add_special = reader.boolean("add_special").value_or(false);
    raw.parse_special = reader.boolean("parse_special").value_or(true);
    const bool with_pieces = reader.boolean("with_pieces").value_or(false);
    if (fault.any()) return Failure{fault.error()};
    const Result<std::vector<TokenId>> ids = encode_raw(raw, places.text);
    if (!ids) {
        fault.set("content", "content: " + ids.error().text, "invalid_value");
        return Failure{fault.error()};
    }
    JsonWriter out;
    out.begin_object().key("tokens").begin_array();
    for (const TokenId id : *ids) {
        if (!with_pieces) {
            out.integer(id);
            continue;
        }
        out.begin_object().field("id", id).key("piece");
        write_piece(out, places.text.tokenizer().bytes(id));
        out.end_object();
    }
    out.end_array().end_object();
    return document(out);
}

ApiResult<Reply> detokenize(std::string_view body, const TextPlaces& places) {
    const ApiResult<JsonBody> parsed = JsonBody::parse(body);
    if (!parsed) return parsed.failure();
    FirstFault fault(body);
    FieldReader reader(parsed->object(), "", fault);
    const GivenIds given = read_token_list(reader);
    if (fault.any()) return Failure{fault.error()};
    const ApiResult<std::vector<TokenId>> ids = checked_ids(given, places.text);
    if (!ids) return ids.failure();
    JsonWriter out;
    out.begin_object().field("content", places.text.decode(*ids)).end_object();
    return document(out);
}

ApiResult<Reply> apply_template(std::string_view body, const TextPlaces& places) {
    const ApiResult<ChatRequest> request = parse_openai_chat(body);
    if (!request) return request.failure();
    const TemplateDict variables = template_variables(*request, knows_developer(places.text));
    const Result<std::string> prompt = places.text.render_text(
        variables, template_limits(places.settings, body.size(), places.n_ctx));
    if (!prompt) return Failure{template_error(prompt.error())};
    JsonWriter out;
    out.begin_object().field("prompt", *prompt).end_object();
    return document(out);
}

}  // namespace strata::serve
