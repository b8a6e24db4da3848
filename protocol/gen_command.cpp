#include "protocol/gen_command.hpp"

#include "protocol/fields.hpp"
#include "protocol/token_line.hpp"

namespace strata::protocol {
namespace {

constexpr std::string_view kSteerOff = "off";
constexpr Range<std::int64_t> kTokenCount{.low = 0, .high = kTokenCountMax};

// The prompt: `ids=1,2,3`, or bare as the line's last field.
void read_ids(FieldReader& fields, GenCommand& out) {
    const auto named = fields.value_of("ids");
    const auto last = fields.take_last();
    const std::size_t lists = (named ? 1U : 0U) + (last ? 1U : 0U) +
                              (fields.positions() > 1 ? fields.positions() - 1 : 0U);
    if (lists == 0) {
        fields.refuse(ErrCode::bad_line, "GEN has no token ids");
        return;
    }
    if (lists > 1) {
        fields.refuse(ErrCode::bad_line, "GEN has more than one list of token ids");
        return;
    }
    fields.token_ids("ids", named ? *named : last ? *last : fields.position_text(2), out.ids);
}

void read_stop(FieldReader& fields, GenCommand& out) {
    const auto list = fields.value_of("stop");
    if (!list) return;
    fields.token_ids("stop", *list, out.stop);
    if (out.stop.size() > kStopIdsMax) {
        fields.refuse_value("stop", *list, "at most " + std::to_string(kStopIdsMax) + " ids");
    }
}

void read_sampling(FieldReader& fields, GenCommand& out) {
    fields.named("temperature", out.temperature);
    fields.named("top_p", out.top_p, {.low = 0, .high = 1, .low_open = true});
    fields.named("top_k", out.top_k);
    fields.named("min_p", out.min_p, {.low = 0, .high = 1});
    fields.named("repeat_penalty", out.repeat_penalty, {.low_open = true});
    fields.named("frequency_penalty", out.frequency_penalty, kAnyFinite<double>);
    fields.named("presence_penalty", out.presence_penalty, kAnyFinite<double>);
    fields.named("penalty_last_n", out.penalty_last_n);
    fields.named("seed", out.seed);
}

void read_conversation(FieldReader& fields, GenCommand& out) {
    fields.named("root", out.root, kTokenCount);
    fields.named("steer", out.steer);
    if (out.steer && out.steer->empty()) fields.refuse_value("steer", "", "a name, or off");
    if (out.steer == kSteerOff) out.steer = "";
    fields.named("think", out.think);
    fields.named("ckpt", out.ckpt);
    fields.named("pin", out.pin, kTokenCount);
    fields.named("label", out.label);
    if (count_characters(out.label) > kLabelCharactersMax) {
        fields.refuse_value("label", out.label,
                            "at most " + std::to_string(kLabelCharactersMax) + " characters");
    }
}

}  // namespace

std::string format(const GenCommand& command) {
    const GenCommand defaults;
    FieldWriter out(kGenVerb);
    // A default is not written: short lines, and an older engine never sees a name that it lacks.
    const auto changed = [&](std::string_view name, auto member) {
        if (command.*member != defaults.*member) out.name(name, command.*member);
    };
    out.put(command.max_new);
    out.name("id", command.id);
    changed("temperature", &GenCommand::temperature);
    changed("top_p", &GenCommand::top_p);
    changed("top_k", &GenCommand::top_k);
    changed("min_p", &GenCommand::min_p);
    changed("repeat_penalty", &GenCommand::repeat_penalty);
    changed("frequency_penalty", &GenCommand::frequency_penalty);
    changed("presence_penalty", &GenCommand::presence_penalty);
    changed("penalty_last_n", &GenCommand::penalty_last_n);
    changed("seed", &GenCommand::seed);
    out.name_ids("stop", command.stop);
    changed("ignore_eos", &GenCommand::ignore_eos);
    out.name("root", command.root);
    if (command.steer) out.name("steer", command.steer->empty() ? kSteerOff : *command.steer);
    changed("think", &GenCommand::think);
    changed("ckpt", &GenCommand::ckpt);
    changed("pin", &GenCommand::pin);
    changed("label", &GenCommand::label);
    changed("logprobs", &GenCommand::logprobs);
    changed("grammar", &GenCommand::grammar);
    changed("hash", &GenCommand::hash);
    out.put_ids(command.ids);
    return out.take();
}

Parsed<GenCommand> parse_gen_command(std::string_view line) {
    FieldReader fields(line, kGenVerb);
    GenCommand out;
    fields.position(1, "max_new", out.max_new, kTokenCount);
    fields.named("id", out.id);
    read_sampling(fields, out);
    read_stop(fields, out);
    fields.named("ignore_eos", out.ignore_eos);
    read_conversation(fields, out);
    fields.named("logprobs", out.logprobs, {.low = 0, .high = kTopLogprobsMax});
    fields.named("grammar", out.grammar);
    fields.named("hash", out.hash);
    read_ids(fields, out);
    return fields.finish(std::move(out));
}

}  // namespace strata::protocol
