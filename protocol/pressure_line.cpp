#include "protocol/pressure_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

constexpr WordTable<PressureWhere, 4> kWheres{{
    {PressureWhere::request, "request"},
    {PressureWhere::idle, "idle"},
    {PressureWhere::window, "window"},
    {PressureWhere::command, "command"},
}};

}  // namespace

std::string_view word(PressureWhere where) {
    return word_in(kWheres, where);
}

std::optional<PressureWhere> pressure_where_of(std::string_view word) {
    return value_in(kWheres, word);
}

std::string format(const PressureLine& line) {
    FieldWriter out(kPressureVerb);
    out.name("available_before_mib", line.available_before_mib);
    out.name("available_after_mib", line.available_after_mib);
    out.name("floor_mib", line.floor_mib);
    out.name("target_mib", line.target_mib);
    out.name("released_dialogs", line.released_dialogs);
    out.name("released_mib", line.released_mib);
    out.name("retained_mib", line.retained_mib);
    out.name("lane_checkpoints_mib", line.lane_checkpoints_mib);
    out.name_tenths("ms", line.ms);
    put(out, line.now);
    out.name_word("where", line.where);
    out.name("exhausted", line.exhausted);
    return out.take();
}

Parsed<PressureLine> parse_pressure_line(std::string_view line) {
    FieldReader fields(line, kPressureVerb);
    PressureLine out;
    fields.named("available_before_mib", out.available_before_mib);
    fields.named("available_after_mib", out.available_after_mib);
    fields.named("floor_mib", out.floor_mib);
    fields.named("target_mib", out.target_mib);
    fields.named("released_dialogs", out.released_dialogs);
    fields.named("released_mib", out.released_mib);
    fields.named("retained_mib", out.retained_mib);
    fields.named("lane_checkpoints_mib", out.lane_checkpoints_mib);
    fields.named("ms", out.ms);
    take(fields, out.now);
    fields.named_word("where", out.where, pressure_where_of);
    fields.named("exhausted", out.exhausted);
    return fields.finish(out);
}

}  // namespace strata::protocol
