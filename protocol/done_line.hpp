// DONE: the request ended, however it ended. Owns the order of its positional fields, which never
// move, and the words for finish, miss and park_skip. 1-14 are always there, 15-19 all or none,
// then names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"
#include "protocol/resume_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kDoneVerb = "DONE";

enum class Finish : std::uint8_t { stop, length, cancel, error };
std::string_view word(Finish finish);
std::optional<Finish> finish_of(std::string_view word);

// Why a switch is no hit.
enum class MissReason : std::uint8_t {
    none,       // no miss; or all of the prompt is known, and only no state was kept to resume at
    unseen,     // word: new. No candidate shares more than the root
    steering,   // only the steering differs
    level,      // the ids part because of another thinking level
    rewritten,  // the history changed at `common`
    evicted,    // known, and lost that way
    released,
    budget,
    floor,
    invalid,   // its image was refused
    identity,  // a stored image of other weights or settings
};
std::string_view word(MissReason reason);
std::optional<MissReason> miss_reason_of(std::string_view word);

// Why the outgoing conversation was not parked.
enum class ParkSkip : std::uint8_t {
    budget,
    too_large,
    slots,
    floor,
    unknown_reading,
    one_shot,
    incomplete,
    allocation,
};
std::string_view word(ParkSkip skip);
std::optional<ParkSkip> park_skip_of(std::string_view word);

// Index after the word DONE.
enum class DoneField : std::uint8_t {
    generated = 1,
    prompt_tokens,
    prompt_ms,
    decode_ms,
    finish,
    drafts_accepted,
    drafts_offered,
    reused,
    expert_hits,
    expert_lookups,
    experts_from_ram,
    experts_from_file,
    file_mb,
    prompt_read,
    switched,
    restored,
    parked,
    bytes,
    evictions,
};
inline constexpr std::size_t kDoneBaseFields = 14;
inline constexpr std::size_t kDoneFields = 19;
static_assert(static_cast<std::size_t>(DoneField::prompt_read) == kDoneBaseFields);
static_assert(static_cast<std::size_t>(DoneField::evictions) == kDoneFields);

// Fields 15-19. A request that ended before its plan was made has none.
struct CacheFields {
    bool switched = false;
    bool restored = false;
    std::int64_t parked = 0;     // conversations now
    std::int64_t bytes = 0;      // now: parked snapshots + kept K/V of the active conversation
    std::int64_t evictions = 0;  // since the engine started
    friend bool operator==(const CacheFields&, const CacheFields&) = default;
};

struct DoneLine {
    std::int64_t generated = 0;
    std::int64_t prompt_tokens = 0;
    double prompt_ms = 0;  // start of reading to first token, without park and restore; one decimal
    double decode_ms = 0;  // one decimal
    Finish finish = Finish::stop;
    std::int64_t drafts_accepted = 0;
    std::int64_t drafts_offered = 0;
    std::int64_t reused = 0;
    std::int64_t expert_hits = 0;  // blobs
    std::int64_t expert_lookups = 0;
    std::int64_t experts_from_ram = 0;
    std::int64_t experts_from_file = 0;
    double file_mb = 0;
    std::int64_t prompt_read = 0;
    std::optional<CacheFields> cache_fields;

    std::uint64_t id = 0;
    std::optional<std::uint64_t> conv;
    std::string label;  // empty = none
    std::optional<std::int32_t>
        stop_id;  // the token that ended the answer; not printed, not counted
    std::optional<PromptSource> source;
    std::optional<MissReason> miss;
    std::optional<std::int64_t> common;  // tokens shared with the best candidate
    std::optional<double> park_ms;       // one decimal, as the next two
    std::optional<double> restore_ms;
    std::optional<double> queue_ms;
    std::optional<bool> parked_now;
    std::optional<ParkSkip> park_skip;
    std::optional<std::int64_t> retained;    // bytes, part of field 18
    std::optional<std::int64_t> superseded;  // this and the next four: totals since the start
    std::optional<std::int64_t> released;
    std::optional<std::int64_t> lost;
    std::optional<std::int64_t> evicted_budget;
    std::optional<std::int64_t> evicted_slots;
    std::optional<std::int64_t> checkpoints;    // held by the live conversation
    std::optional<std::int64_t> available_mib;  // the last reading
    std::string logits_sha256;                  // with hash=1, lower-case hex; empty = none
    std::string state_sha256;
    friend bool operator==(const DoneLine&, const DoneLine&) = default;
};

std::string format(const DoneLine& line);
Parsed<DoneLine> parse_done_line(std::string_view line);

}  // namespace strata::protocol
