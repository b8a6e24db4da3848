#include "protocol/cache_command.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

constexpr WordTable<CacheAction, 5> kActions{{
    {CacheAction::list, "list"},
    {CacheAction::drop, "drop"},
    {CacheAction::pin, "pin"},
    {CacheAction::unpin, "unpin"},
    {CacheAction::clear, "clear"},
}};

bool wants_entry(CacheAction action) {
    return action != CacheAction::list && action != CacheAction::clear;
}

}  // namespace

std::string_view word(CacheAction action) {
    return word_in(kActions, action);
}

std::optional<CacheAction> cache_action_of(std::string_view word) {
    return value_in(kActions, word);
}

std::string format(const CacheCommand& command) {
    FieldWriter out(kCacheVerb);
    out.put(word(command.action));
    out.name("entry", command.entry);
    return out.take();
}

Parsed<CacheCommand> parse_cache_command(std::string_view line) {
    FieldReader fields(line, kCacheVerb);
    CacheCommand out;
    fields.position_word(1, "action", out.action, kActions);
    fields.named("entry", out.entry);
    // `CACHE clear entry=3` meant to drop one entry: clearing them all would be the wrong guess.
    if (out.entry.has_value() != wants_entry(out.action)) {
        fields.refuse(ErrCode::bad_field, "CACHE " + std::string(word(out.action)) +
                                              (out.entry ? " takes no entry=" : " needs entry="));
    }
    return fields.finish(out);
}

}  // namespace strata::protocol
