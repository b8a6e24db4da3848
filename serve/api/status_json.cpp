// One function for each document.
#include "serve/api/status_json.hpp"

#include <chrono>

#include "serve/api/engine_errors.hpp"
#include "serve/api/json_writer.hpp"

namespace strata::serve {

namespace {

constexpr int kLanes = 1;  // requests that are computed at a time

bool loading(EngineState state) {
    return state == EngineState::starting || state == EngineState::preparing ||
           state == EngineState::loading || state == EngineState::restarting;
}

// Nothing is loaded, and a request would change that: the server is well.
bool asleep(EngineState state) {
    return state == EngineState::unloading || state == EngineState::unloaded;
}

std::string_view stage_word(EngineState state) {
    switch (state) {
        case EngineState::starting:
            return "starting";
        case EngineState::preparing:
            return "before_load";
        case EngineState::loading:
            return "weights";
        case EngineState::restarting:
            return "restarting";
        case EngineState::ready:
            return "ready";
        case EngineState::unloading:
            return "unloading";
        case EngineState::unloaded:
            return "unloaded";
        case EngineState::failed:
            return "failed";
        case EngineState::stopped:
            return "stopped";
    }
    return "failed";
}

void write_sampling(JsonWriter& json, const RequestDefaults& defaults) {
    json.key("params").begin_object();
    json.field("temperature", defaults.temperature, 6);
    json.field("top_p", defaults.top_p, 6);
    json.field("top_k", defaults.top_k);
    json.field("min_p", defaults.min_p, 6);
    json.field("repeat_penalty", defaults.repeat_penalty, 6);
    json.field("max_tokens", defaults.max_tokens.value_or(-1));
    json.end_object();
}

}  // namespace

Reply health_reply(const EngineView& view, const ApiSettings& settings, std::int64_t n_ctx) {
    Reply reply;
    JsonWriter json;
    json.begin_object();
    const bool sleeping = asleep(view.state);
    if (view.state == EngineState::ready || sleeping) {
        json.field("status", "ok").field("loaded", !sleeping).field("model", settings.model_name);
        json.field("max_context", n_ctx).field("version", settings.version);
        json.field("state", stage_word(view.state));
        if (sleeping && !view.failure.empty()) json.field("failure", view.failure);
    } else {
        reply.status = 503;
        const std::chrono::seconds wait = retry_after(view);
        reply.headers.emplace_back("retry-after", std::to_string(wait.count()));
        json.key("error").begin_object().field("code", 503).field("type", "unavailable_error");
        if (view.state == EngineState::failed) {
            json.field("message", "the engine does not start: " + view.failure);
        } else if (view.state == EngineState::restarting) {
            json.field("message", "the engine restarts: " + view.failure);
        } else {
            json.field("message", loading(view.state) ? "Loading model" : "shutting down");
        }
        json.end_object().field("stage", stage_word(view.state));
        json.field("progress", view.load_progress, 3).key("eta_s");
        if (view.eta) {
            json.integer(view.eta->count());
        } else {
            json.null();
        }
    }
    json.end_object();
    reply.body = json.take();
    return reply;
}

Reply life_reply(const EngineView& view) {
    Reply reply;
    const bool settled = view.state == EngineState::ready || view.state == EngineState::unloaded ||
                         view.state == EngineState::failed || view.state == EngineState::stopped;
    if (!settled) reply.status = 202;
    JsonWriter json;
    json.begin_object().field("status", "ok");
    json.field("loaded", view.state == EngineState::ready).field("state", stage_word(view.state));
    json.field("epoch", view.epoch).end_object();
    reply.body = json.take();
    return reply;
}

std::string props_json(const EngineView& view, const ApiSettings& settings, const TextModel& text,
                       std::int64_t n_ctx) {
    JsonWriter json;
    json.begin_object();
    json.key("default_generation_settings").begin_object().field("n_ctx", n_ctx);
    write_sampling(json, settings.defaults);
    json.end_object();
    json.field("total_slots", kLanes);
    json.field("model_alias", settings.model_name);
    json.field("model_path", settings.model_path);
    json.field("chat_template", text.template_source());
    json.key("modalities").begin_object().field("vision", false).field("audio", false).end_object();
    json.field("is_sleeping", asleep(view.state));
    json.field("build_info", settings.version);
    json.end_object();
    return json.take();
}

std::string slots_json(const EngineView& view, std::int64_t n_ctx) {
    JsonWriter json;
    json.begin_array().begin_object();
    json.field("id", 0).field("n_ctx", n_ctx).field("is_processing", view.busy);
    json.field("n_prompt_tokens", view.busy ? view.prompt_tokens : 0);
    json.end_object().end_array();
    return json.take();
}

std::string model_json(const EngineView& view, const ApiSettings& settings, const TextModel& text,
                       std::int64_t n_ctx) {
    JsonWriter json;
    json.begin_object();
    json.field("id", settings.model_name).field("object", "model");
    json.field("created", settings.created).field("owned_by", "strata");
    json.field("type", "model").field("display_name", settings.model_name);
    json.key("meta").begin_object();
    json.field("n_ctx", n_ctx).field("n_ctx_train", settings.model.context_tokens);
    json.field("n_params", settings.model.parameters).field("size", settings.model.file_bytes);
    json.field("n_vocab", text.tokenizer().size());
    json.end_object();
    json.field("max_model_len", n_ctx);
    json.key("architecture").begin_object();
    json.field("name",
               view.info && view.info->arch ? *view.info->arch : settings.model.architecture);
    json.key("input_modalities").begin_array().string("text").end_array();
    json.key("output_modalities").begin_array().string("text").end_array();
    json.end_object().end_object();
    return json.take();
}

}  // namespace strata::serve
