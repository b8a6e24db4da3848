#include "protocol/done_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

constexpr WordTable<Finish, 4> kFinishes{{
    {Finish::stop, "stop"},
    {Finish::length, "length"},
    {Finish::cancel, "cancel"},
    {Finish::error, "error"},
}};

constexpr WordTable<MissReason, 11> kMissReasons{{
    {MissReason::none, "none"},
    {MissReason::unseen, "new"},
    {MissReason::steering, "steering"},
    {MissReason::level, "level"},
    {MissReason::rewritten, "rewritten"},
    {MissReason::evicted, "evicted"},
    {MissReason::released, "released"},
    {MissReason::budget, "budget"},
    {MissReason::floor, "floor"},
    {MissReason::invalid, "invalid"},
    {MissReason::identity, "identity"},
}};

constexpr WordTable<ParkSkip, 8> kParkSkips{{
    {ParkSkip::budget, "budget"},
    {ParkSkip::too_large, "too_large"},
    {ParkSkip::slots, "slots"},
    {ParkSkip::floor, "floor"},
    {ParkSkip::unknown_reading, "unknown_reading"},
    {ParkSkip::one_shot, "one_shot"},
    {ParkSkip::incomplete, "incomplete"},
    {ParkSkip::allocation, "allocation"},
}};

constexpr std::size_t at(DoneField field) {
    return static_cast<std::size_t>(field);
}

void read_base_fields(FieldReader& fields, DoneLine& out) {
    fields.position(at(DoneField::generated), "generated", out.generated);
    fields.position(at(DoneField::prompt_tokens), "prompt_tokens", out.prompt_tokens);
    fields.position(at(DoneField::prompt_ms), "prompt_ms", out.prompt_ms);
    fields.position(at(DoneField::decode_ms), "decode_ms", out.decode_ms);
    fields.position_word(at(DoneField::finish), "finish", out.finish, kFinishes);
    fields.position(at(DoneField::drafts_accepted), "drafts_accepted", out.drafts_accepted);
    fields.position(at(DoneField::drafts_offered), "drafts_offered", out.drafts_offered);
    fields.position(at(DoneField::reused), "reused", out.reused);
    fields.position(at(DoneField::expert_hits), "expert_hits", out.expert_hits);
    fields.position(at(DoneField::expert_lookups), "expert_lookups", out.expert_lookups);
    fields.position(at(DoneField::experts_from_ram), "experts_from_ram", out.experts_from_ram);
    fields.position(at(DoneField::experts_from_file), "experts_from_file", out.experts_from_file);
    fields.position(at(DoneField::file_mb), "file_mb", out.file_mb);
    fields.position(at(DoneField::prompt_read), "prompt_read", out.prompt_read);
}

CacheFields read_cache_fields(FieldReader& fields) {
    CacheFields out;
    fields.position(at(DoneField::switched), "switched", out.switched);
    fields.position(at(DoneField::restored), "restored", out.restored);
    fields.position(at(DoneField::parked), "parked", out.parked);
    fields.position(at(DoneField::bytes), "bytes", out.bytes);
    fields.position(at(DoneField::evictions), "evictions", out.evictions);
    return out;
}

void read_names(FieldReader& fields, DoneLine& out) {
    fields.named("id", out.id);
    fields.named("conv", out.conv);
    fields.named("label", out.label);
    fields.named("stop_id", out.stop_id);
    fields.named_word("source", out.source, prompt_source_of);
    fields.named_word("miss", out.miss, miss_reason_of);
    fields.named("common", out.common);
    fields.named("park_ms", out.park_ms);
    fields.named("restore_ms", out.restore_ms);
    fields.named("queue_ms", out.queue_ms);
    fields.named("parked_now", out.parked_now);
    fields.named_word("park_skip", out.park_skip, park_skip_of);
    fields.named("retained", out.retained);
    fields.named("superseded", out.superseded);
    fields.named("released", out.released);
    fields.named("lost", out.lost);
    fields.named("evicted_budget", out.evicted_budget);
    fields.named("evicted_slots", out.evicted_slots);
    fields.named("checkpoints", out.checkpoints);
    fields.named("available_mib", out.available_mib);
    fields.named("logits_sha256", out.logits_sha256);
    fields.named("state_sha256", out.state_sha256);
}

// In the order of DoneField.
void write_positions(FieldWriter& out, const DoneLine& line) {
    out.put(line.generated);
    out.put(line.prompt_tokens);
    out.put_tenths(line.prompt_ms);
    out.put_tenths(line.decode_ms);
    out.put(word(line.finish));
    out.put(line.drafts_accepted);
    out.put(line.drafts_offered);
    out.put(line.reused);
    out.put(line.expert_hits);
    out.put(line.expert_lookups);
    out.put(line.experts_from_ram);
    out.put(line.experts_from_file);
    out.put(readable_figure(line.file_mb));
    out.put(line.prompt_read);
    if (!line.cache_fields) return;
    out.put(line.cache_fields->switched);
    out.put(line.cache_fields->restored);
    out.put(line.cache_fields->parked);
    out.put(line.cache_fields->bytes);
    out.put(line.cache_fields->evictions);
}

void write_names(FieldWriter& out, const DoneLine& line) {
    out.name("id", line.id);
    out.name("conv", line.conv);
    out.name("label", line.label);
    out.name("stop_id", line.stop_id);
    out.name_word("source", line.source);
    out.name_word("miss", line.miss);
    out.name("common", line.common);
    out.name_tenths("park_ms", line.park_ms);
    out.name_tenths("restore_ms", line.restore_ms);
    out.name_tenths("queue_ms", line.queue_ms);
    out.name("parked_now", line.parked_now);
    out.name_word("park_skip", line.park_skip);
    out.name("retained", line.retained);
    out.name("superseded", line.superseded);
    out.name("released", line.released);
    out.name("lost", line.lost);
    out.name("evicted_budget", line.evicted_budget);
    out.name("evicted_slots", line.evicted_slots);
    out.name("checkpoints", line.checkpoints);
    out.name("available_mib", line.available_mib);
    out.name("logits_sha256", line.logits_sha256);
    out.name("state_sha256", line.state_sha256);
}

}  // namespace

std::string_view word(Finish finish) {
    return word_in(kFinishes, finish);
}

std::optional<Finish> finish_of(std::string_view word) {
    return value_in(kFinishes, word);
}

std::string_view word(MissReason reason) {
    return word_in(kMissReasons, reason);
}

std::optional<MissReason> miss_reason_of(std::string_view word) {
    return value_in(kMissReasons, word);
}

std::string_view word(ParkSkip skip) {
    return word_in(kParkSkips, skip);
}

std::optional<ParkSkip> park_skip_of(std::string_view word) {
    return value_in(kParkSkips, word);
}

std::string format(const DoneLine& line) {
    FieldWriter out(kDoneVerb);
    write_positions(out, line);
    write_names(out, line);
    return out.take();
}

Parsed<DoneLine> parse_done_line(std::string_view line) {
    FieldReader fields(line, kDoneVerb);
    DoneLine out;
    read_base_fields(fields, out);
    // A group that is cut short is an older writer's: absent as a whole.
    if (fields.positions() >= kDoneFields) out.cache_fields = read_cache_fields(fields);
    read_names(fields, out);
    return fields.finish(std::move(out));
}

}  // namespace strata::protocol
