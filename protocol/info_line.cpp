#include "protocol/info_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

// Every name of INFO but `steer`, once: `visit(name, member)` in the order of the line.
template <class Visit>
void each_name(const Visit& visit) {
    visit("protocol", &InfoLine::protocol);
    visit("context", &InfoLine::context_tokens);
    visit("vocab", &InfoLine::vocab);
    visit("kv", &InfoLine::kv);
    visit("page_tokens", &InfoLine::page_tokens);
    visit("spec", &InfoLine::spec);
    visit("batch", &InfoLine::batch);
    visit("vram_free_mib", &InfoLine::vram_free_mib);
    visit("device", &InfoLine::device);
    visit("weights_mib", &InfoLine::weights_mib);
    visit("arch", &InfoLine::arch);
    visit("quant", &InfoLine::quant);
    visit("prompt_cache", &InfoLine::prompt_cache);
    visit("prompt_cache_every", &InfoLine::prompt_cache_every);
    visit("prompt_cache_root", &InfoLine::prompt_cache_root);
    visit("conversation_cache_mib", &InfoLine::conversation_cache_mib);
    visit("conversation_cache_slots", &InfoLine::conversation_cache_slots);
    visit("conversation_cache_min_free_mib", &InfoLine::conversation_cache_min_free_mib);
    visit("memory_limit_mib", &InfoLine::memory_limit_mib);
    visit("device_pool_mib", &InfoLine::device_pool_mib);
    visit("kv_bytes_per_token", &InfoLine::kv_bytes_per_token);
    visit("state_bytes", &InfoLine::state_bytes);
    visit("model_id", &InfoLine::model_id);
    visit("engine", &InfoLine::engine);
}

constexpr std::string_view kNoSteering = "0";

}  // namespace

std::string format(const InfoLine& line) {
    FieldWriter out(kInfoVerb);
    each_name([&](std::string_view name, auto member) { out.name(name, line.*member); });
    if (line.steer) out.name("steer", line.steer->empty() ? kNoSteering : *line.steer);
    return out.take();
}

Parsed<InfoLine> parse_info_line(std::string_view line) {
    FieldReader fields(line, kInfoVerb);
    InfoLine out;
    each_name([&](std::string_view name, auto member) { fields.named(name, out.*member); });
    fields.named("steer", out.steer);
    if (out.steer == kNoSteering) out.steer = "";
    return fields.finish(std::move(out));
}

InfoLine merged(InfoLine known, const InfoLine& update) {
    each_name([&](std::string_view, auto member) {
        if (update.*member) known.*member = update.*member;
    });
    if (update.steer) known.steer = update.steer;
    return known;
}

}  // namespace strata::protocol
