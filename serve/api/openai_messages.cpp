// Messages, content parts, tool calls and tools, each with its JSON path.
#include "serve/api/openai_messages.hpp"

#include <array>
#include <utility>

#include <boost/json/serialize.hpp>

namespace strata::serve {

namespace json = boost::json;

namespace {

constexpr std::string_view kRolesAllowed =
    "\"system\", \"developer\", \"user\", \"assistant\" or \"tool\"";

std::string indexed(std::string_view path, std::size_t index) {
    return std::string(path) + "[" + std::to_string(index) + "]";
}

std::string text_of(const json::string& text) {
    return {text.data(), text.size()};
}

std::optional<Role> role_of(std::string_view word) {
    constexpr std::array<std::pair<std::string_view, Role>, 5> kRoles = {{
        {"system", Role::system},
        {"developer", Role::developer},
        {"user", Role::user},
        {"assistant", Role::assistant},
        {"tool", Role::tool},
    }};
    for (const auto& [name, role] : kRoles) {
        if (name == word) return role;
    }
    return std::nullopt;
}

// One entry of a content list: its text.
std::string read_part(const json::value& part, const std::string& path, FirstFault& fault) {
    if (!part.is_object()) {
        fault.set_value(path, part, "an object with type and text");
        return {};
    }
    FieldReader reader(part.get_object(), path, fault);
    const std::optional<std::string> type = reader.text("type");
    if (!type) {
        reader.missing("type", "\"text\"");
        return {};
    }
    if (*type == "refusal") return reader.text("refusal").value_or("");
    if (*type != "text") {
        fault.set_value(reader.path_of("type"), *reader.find("type"),
                        "\"text\" (this model reads text only)", "unsupported_value");
        return {};
    }
    const std::optional<std::string> text = reader.text("text");
    if (!text) reader.missing("text", "a string");
    return text.value_or("");
}

// A string or a list of parts; none when it is null or absent.
std::optional<std::string> read_content(FieldReader& message) {
    const json::value* const content = message.find("content");
    if (content == nullptr) return std::nullopt;
    if (content->is_string()) return text_of(content->get_string());
    if (!content->is_array()) {
        message.wrong_type("content", "a string or a list of parts");
        return std::nullopt;
    }
    const json::array* const parts = message.array("content", kContentPartsMax);
    if (parts == nullptr) return std::nullopt;
    std::string joined;
    for (std::size_t i = 0; i < parts->size() && !message.fault().any(); ++i) {
        joined += read_part((*parts)[i], indexed(message.path_of("content"), i), message.fault());
    }
    return joined;
}

// Of a tool or of a call: it has to be called something.
std::string read_function_name(FieldReader& function) {
    const std::optional<std::string> name = function.text("name");
    if (!name) function.missing("name", "a string");
    if (name && name->empty()) {
        function.fault().set_value(function.path_of("name"), *function.find("name"),
                                   "a name of at least one character", "invalid_value");
    }
    return name.value_or("");
}

// Clients send a JSON text; templates want the object in it.
TemplateValue read_arguments(FieldReader& function) {
    const json::value* const found = function.find("arguments");
    if (found == nullptr) return TemplateValue(TemplateDict{});
    if (found->is_object()) return to_template_value(*found);
    if (!found->is_string()) {
        function.wrong_type("arguments", "a string of JSON or an object");
        return {};
    }
    const std::string text = text_of(found->get_string());
    const std::optional<json::value> inner = parse_inner_json(text);
    if (inner && inner->is_object()) return to_template_value(*inner);
    return TemplateValue(text);
}

ToolCall read_tool_call(const json::value& value, const std::string& path, FirstFault& fault) {
    ToolCall call;
    if (!value.is_object()) {
        fault.set_value(path, value, "an object");
        return call;
    }
    FieldReader reader(value.get_object(), path, fault);
    call.id = reader.text("id").value_or("");
    const json::object* const function = reader.object("function");
    if (function == nullptr) {
        reader.missing("function", "an object with name and arguments");
        return call;
    }
    FieldReader inner(*function, reader.path_of("function"), fault);
    call.name = read_function_name(inner);
    call.arguments = read_arguments(inner);
    return call;
}

void read_assistant_fields(FieldReader& reader, ChatMessage& message) {
    for (const std::string_view name : {"reasoning_content", "reasoning", "thinking"}) {
        std::optional<std::string> text = reader.text(name);
        if (text && !message.reasoning) message.reasoning = std::move(text);
    }
    const json::array* const calls = reader.array("tool_calls", kToolCallsMax);
    if (calls == nullptr) return;
    for (std::size_t i = 0; i < calls->size() && !reader.fault().any(); ++i) {
        message.tool_calls.push_back(
            read_tool_call((*calls)[i], indexed(reader.path_of("tool_calls"), i), reader.fault()));
    }
}

ChatMessage read_message(const json::value& value, const std::string& path, FirstFault& fault) {
    ChatMessage message;
    if (!value.is_object()) {
        fault.set_value(path, value, "an object with role and content");
        return message;
    }
    FieldReader reader(value.get_object(), path, fault);
    const std::optional<std::string> role = reader.text("role");
    if (!role) {
        reader.missing("role", kRolesAllowed);
        return message;
    }
    const std::optional<Role> known = role_of(*role);
    if (!known) {
        fault.set_value(reader.path_of("role"), *reader.find("role"), kRolesAllowed,
                        "invalid_value");
        return message;
    }
    message.role = *known;
    message.name = reader.text("name").value_or("");
    message.content = read_content(reader);
    if (message.role == Role::assistant) read_assistant_fields(reader, message);
    if (message.role == Role::tool) {
        message.tool_call_id = reader.text("tool_call_id").value_or("");
    }
    const bool may_be_empty = message.role == Role::assistant;
    if (!message.content && !may_be_empty) reader.missing("content", "a string or a list of parts");
    return message;
}

}  // namespace

TemplateValue to_template_value(const json::value& value) {
    switch (value.kind()) {
        case json::kind::null:
            return {};
        case json::kind::bool_:
            return TemplateValue(value.get_bool());
        case json::kind::int64:
            return TemplateValue(value.get_int64());
        case json::kind::uint64:
            return TemplateValue(static_cast<double>(value.get_uint64()));
        case json::kind::double_:
            return TemplateValue(value.get_double());
        case json::kind::string:
            return TemplateValue(text_of(value.get_string()));
        case json::kind::array: {
            TemplateList list;
            list.reserve(value.get_array().size());
            for (const json::value& item : value.get_array())
                list.push_back(to_template_value(item));
            return TemplateValue(std::move(list));
        }
        case json::kind::object: {
            TemplateDict dict;
            dict.reserve(value.get_object().size());
            for (const auto& item : value.get_object()) {
                dict.emplace_back(std::string(item.key().data(), item.key().size()),
                                  to_template_value(item.value()));
            }
            return TemplateValue(std::move(dict));
        }
    }
    return {};
}

std::vector<ChatMessage> read_openai_messages(FieldReader& request) {
    std::vector<ChatMessage> messages;
    const json::array* const list = request.array("messages", kMessagesMax);
    if (list == nullptr) request.missing("messages", "a list of at least one message");
    if (list != nullptr && list->empty()) {
        request.fault().set("messages",
                            "messages is an empty list; allowed: a list of at least one message",
                            "invalid_value");
    }
    if (list == nullptr) return messages;
    messages.reserve(list->size());
    for (std::size_t i = 0; i < list->size() && !request.fault().any(); ++i) {
        messages.push_back(read_message((*list)[i], indexed("messages", i), request.fault()));
    }
    return messages;
}

TemplateList read_openai_tools(FieldReader& request) {
    TemplateList tools;
    const json::array* const list = request.array("tools", kToolsMax);
    if (list == nullptr) return tools;
    for (std::size_t i = 0; i < list->size() && !request.fault().any(); ++i) {
        const json::value& tool = (*list)[i];
        const std::string path = indexed("tools", i);
        if (!tool.is_object()) {
            request.fault().set_value(path, tool, "an object");
            return tools;
        }
        FieldReader reader(tool.get_object(), path, request.fault());
        if (reader.text("type").value_or("function") != "function") continue;
        const json::object* const function = reader.object("function");
        if (function == nullptr) {
            reader.missing("function", "an object with name and parameters");
            return tools;
        }
        FieldReader inner(*function, reader.path_of("function"), request.fault());
        read_function_name(inner);
        inner.text("description");
        inner.object("parameters");
        const std::size_t bytes = json::serialize(tool).size();
        if (bytes > kToolBytesMax) {
            request.fault().set(path,
                                path + " takes " + std::to_string(bytes) +
                                    " bytes; allowed: at most " + std::to_string(kToolBytesMax),
                                "invalid_value");
        }
        tools.push_back(to_template_value(tool));
    }
    return tools;
}

}  // namespace strata::serve
