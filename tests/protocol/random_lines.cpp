#include "tests/protocol/random_lines.hpp"

#include <algorithm>

#include "protocol/token_line.hpp"

namespace strata::protocol {

std::uint64_t RandomLines::number() {
    return random_() >> below(64);
}

double RandomLines::real(double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random_);
}

std::string RandomLines::name() {
    static constexpr std::string_view kLetters = "abcXYZ019_-+.:/=,\\'\"";
    std::string out = flip() ? "\xC3\xB6" : "n";  // at most 32 bytes, so at most 32 characters
    for (std::size_t n = below(30); n > 0; --n) out += kLetters[below(kLetters.size())];
    return out;
}

std::string RandomLines::text() {
    std::string out;
    for (std::size_t n = below(60); n > 0; --n) {
        static constexpr std::string_view kOften = " \\\n\r\t\0x0an=é";
        out += flip() ? kOften[below(kOften.size())] : static_cast<char>(below(256));
    }
    return out;
}

std::vector<std::int32_t> RandomLines::ids(std::size_t at_least) {
    std::vector<std::int32_t> out(at_least + below(20));
    std::generate(out.begin(), out.end(), [this] { return token(); });
    return out;
}

GenCommand RandomLines::gen() {
    GenCommand out;
    out.max_new = tokens();
    out.id = number();
    if (flip()) out.temperature = real(0, 2);
    if (flip()) out.top_p = real(1e-6, 1);
    if (flip()) out.top_k = token();
    if (flip()) out.min_p = real(0, 1);
    if (flip()) out.repeat_penalty = real(1e-6, 3);
    if (flip()) out.frequency_penalty = real(-2, 2);
    if (flip()) out.presence_penalty = real(-2, 2);
    if (flip()) out.penalty_last_n = token();
    if (flip()) out.seed = number();
    if (flip()) out.stop = ids(0);
    out.ignore_eos = flip();
    out.root = tokens();
    out.steer = maybe([&] { return flip() ? std::string() : name(); });
    if (flip()) out.think = name();
    out.ckpt = flip();
    out.pin = tokens();
    out.label = label();
    out.logprobs = static_cast<std::int32_t>(below(kTopLogprobsMax + 1));
    if (flip()) out.grammar = name();
    out.hash = flip();
    out.ids = ids(1);
    return out;
}

CacheCommand RandomLines::cache_command() {
    CacheCommand out{.action = any<CacheAction>(5), .entry = {}};
    if (out.action != CacheAction::list && out.action != CacheAction::clear) out.entry = number();
    return out;
}

Command RandomLines::command(std::size_t kind) {
    switch (kind) {
        case 0:
            return gen();
        case 1:
            return StopCommand{maybe([&] { return number(); })};
        case 2:
            return cache_command();
        case 3:
            return TrimCommand{};
        case 4:
            return PingCommand{number()};
        case 5:
            return SaveCommand{"/" + text()};
        case 6:
            return RestoreCommand{"/" + text()};
        default:
            return QuitCommand{};
    }
}

InfoLine RandomLines::info() {
    InfoLine out;
    for (auto member :
         {&InfoLine::protocol, &InfoLine::context_tokens, &InfoLine::vocab, &InfoLine::page_tokens,
          &InfoLine::batch, &InfoLine::vram_free_mib, &InfoLine::weights_mib,
          &InfoLine::prompt_cache, &InfoLine::prompt_cache_every, &InfoLine::prompt_cache_root,
          &InfoLine::conversation_cache_mib, &InfoLine::conversation_cache_slots,
          &InfoLine::conversation_cache_min_free_mib, &InfoLine::memory_limit_mib,
          &InfoLine::device_pool_mib, &InfoLine::kv_bytes_per_token, &InfoLine::state_bytes}) {
        out.*member = maybe([&] { return count(); });
    }
    for (auto member : {&InfoLine::kv, &InfoLine::spec, &InfoLine::device, &InfoLine::arch,
                        &InfoLine::quant, &InfoLine::model_id, &InfoLine::engine}) {
        out.*member = maybe([&] { return name(); });
    }
    out.steer = maybe([&] { return flip() ? std::string() : name(); });
    return out;
}

TokenLine RandomLines::token_line() {
    TokenLine out{.token = token(), .id = number(), .lp = {}, .top = {}};
    const auto logprob = [&] { return static_cast<float>(-real(0, 40)); };
    out.lp = maybe(logprob);
    if (flip()) out.top.resize(below(kTopLogprobsMax + 1));
    for (TopLogprob& top : out.top) top = {token(), logprob()};
    return out;
}

HeldFigures RandomLines::held() {
    return {maybe([&] { return count(); }), maybe([&] { return count(); }),
            maybe([&] { return count(); })};
}

ConvLine RandomLines::conv() {
    ConvLine out;
    out.kind = any<ConvKind>(9);
    out.entry = maybe([&] { return number(); });
    out.conv = maybe([&] { return number(); });
    out.tokens = maybe([&] { return count(); });
    out.bytes = maybe([&] { return count(); });
    out.ms = maybe([&] { return tenths(); });
    out.id = maybe([&] { return number(); });
    out.reason = maybe([&] { return any<ConvReason>(10); });
    out.label = label();
    out.now = held();
    return out;
}

DoneLine RandomLines::done() {
    DoneLine out;
    for (auto member : {&DoneLine::generated, &DoneLine::prompt_tokens, &DoneLine::drafts_accepted,
                        &DoneLine::drafts_offered, &DoneLine::reused, &DoneLine::expert_hits,
                        &DoneLine::expert_lookups, &DoneLine::experts_from_ram,
                        &DoneLine::experts_from_file, &DoneLine::prompt_read}) {
        out.*member = count();
    }
    out.prompt_ms = tenths();
    out.decode_ms = tenths();
    out.file_mb = real(0, 1e6);
    out.finish = any<Finish>(4);
    out.cache_fields = maybe([&] {
        return CacheFields{flip(), flip(), count(), count(), count()};
    });
    out.id = number();
    out.conv = maybe([&] { return number(); });
    out.label = label();
    out.stop_id = maybe([&] { return token(); });
    out.source = maybe([&] { return any<PromptSource>(13); });
    out.miss = maybe([&] { return any<MissReason>(11); });
    for (auto member : {&DoneLine::park_ms, &DoneLine::restore_ms, &DoneLine::queue_ms}) {
        out.*member = maybe([&] { return tenths(); });
    }
    out.parked_now = maybe([&] { return flip(); });
    out.park_skip = maybe([&] { return any<ParkSkip>(8); });
    for (auto member :
         {&DoneLine::common, &DoneLine::retained, &DoneLine::superseded, &DoneLine::released,
          &DoneLine::lost, &DoneLine::evicted_budget, &DoneLine::evicted_slots,
          &DoneLine::checkpoints, &DoneLine::available_mib}) {
        out.*member = maybe([&] { return count(); });
    }
    if (flip()) out.logits_sha256 = name();
    if (flip()) out.state_sha256 = name();
    return out;
}

CacheLine RandomLines::cache_line() {
    if (flip()) return {{}, held()};
    CacheRow row;
    row.entry = number();
    row.conv = maybe([&] { return number(); });
    for (auto member : {&CacheRow::tokens, &CacheRow::bytes, &CacheRow::unique_bytes,
                        &CacheRow::checkpoints, &CacheRow::last_used, &CacheRow::hits}) {
        row.*member = maybe([&] { return count(); });
    }
    row.pinned = maybe([&] { return flip(); });
    row.steer = maybe([&] { return flip() ? std::string() : name(); });
    row.where = maybe([&] { return any<EntryPlace>(3); });
    row.label = label();
    return {row, {}};
}

PressureLine RandomLines::pressure() {
    PressureLine out;
    for (auto member : {&PressureLine::available_before_mib, &PressureLine::available_after_mib,
                        &PressureLine::floor_mib, &PressureLine::target_mib,
                        &PressureLine::released_dialogs, &PressureLine::released_mib,
                        &PressureLine::retained_mib, &PressureLine::lane_checkpoints_mib}) {
        out.*member = maybe([&] { return count(); });
    }
    out.ms = maybe([&] { return tenths(); });
    out.where = maybe([&] { return any<PressureWhere>(4); });
    out.exhausted = maybe([&] { return flip(); });
    out.now = held();
    return out;
}

ReadyLine RandomLines::ready() {
    return {.max_context = count(),
            .can = {flip(), flip(), flip(), flip(), flip(), flip()},
            .batch = maybe([&] { return count(); })};
}

Event RandomLines::event(std::size_t kind) {
    switch (kind) {
        case 0:
            return info();
        case 1:
            return LoadLine{number(), number()};
        case 2:
            return ready();
        case 3:
            return ResumeLine{count(), number(), maybe([&] { return any<PromptSource>(13); }),
                              maybe([&] { return number(); }), held()};
        case 4:
            return ProgressLine{count(), count(), tenths(), tenths(), number()};
        case 5:
            return token_line();
        case 6:
            return conv();
        case 7:
            return done();
        case 8:
            return ErrLine{any<ErrCode>(10), number(), flip(), text()};
        case 9:
            return cache_line();
        case 10:
            return pressure();
        case 11:
            return PongLine{number()};
        case 12:
            return SavedLine{count(), count(), tenths()};
        case 13:
            return RestoredLine{count(), count(), tenths()};
        default:
            return SessionErrorLine{any<SessionFault>(7), text()};
    }
}

}  // namespace strata::protocol
