#include "protocol/cache_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

constexpr WordTable<EntryPlace, 3> kPlaces{{
    {EntryPlace::ram, "ram"},
    {EntryPlace::device, "device"},
    {EntryPlace::disk, "disk"},
}};

constexpr std::string_view kEnd = "end";
constexpr std::string_view kSteerOff = "off";

}  // namespace

std::string_view word(EntryPlace place) {
    return word_in(kPlaces, place);
}

std::optional<EntryPlace> entry_place_of(std::string_view word) {
    return value_in(kPlaces, word);
}

std::string format(const CacheLine& line) {
    FieldWriter out(kCacheRowVerb);
    if (!line.row) {
        out.put(kEnd);
        put(out, line.now);
        return out.take();
    }
    const CacheRow& row = *line.row;
    out.name("entry", row.entry);
    out.name("conv", row.conv);
    out.name("tokens", row.tokens);
    out.name("bytes", row.bytes);
    out.name("unique_bytes", row.unique_bytes);
    out.name("checkpoints", row.checkpoints);
    out.name("last_used", row.last_used);
    out.name("hits", row.hits);
    out.name("pinned", row.pinned);
    if (row.steer) out.name("steer", row.steer->empty() ? kSteerOff : *row.steer);
    out.name_word("where", row.where);
    out.name("label", row.label);
    return out.take();
}

Parsed<CacheLine> parse_cache_line(std::string_view line) {
    FieldReader fields(line, kCacheRowVerb);
    if (fields.positions() > 0 && fields.position_text(1) == kEnd) {
        CacheLine end;
        take(fields, end.now);
        return fields.finish(std::move(end));
    }
    CacheRow row;
    if (!fields.value_of("entry")) fields.refuse(ErrCode::bad_line, "CACHE row has no entry=");
    fields.named("entry", row.entry);
    fields.named("conv", row.conv);
    fields.named("tokens", row.tokens);
    fields.named("bytes", row.bytes);
    fields.named("unique_bytes", row.unique_bytes);
    fields.named("checkpoints", row.checkpoints);
    fields.named("last_used", row.last_used);
    fields.named("hits", row.hits);
    fields.named("pinned", row.pinned);
    fields.named("steer", row.steer);
    if (row.steer == kSteerOff) row.steer = "";
    fields.named_word("where", row.where, entry_place_of);
    fields.named("label", row.label);
    return fields.finish(CacheLine{std::move(row), {}});
}

}  // namespace strata::protocol
