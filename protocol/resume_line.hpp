// RESUME: from where a request's prompt is continued; printed before reading. Owns the words for
// the source, which DONE repeats. `RESUME reused id=N source=WORD conv=N parked=N
// held=BYTES retained=BYTES`
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"
#include "protocol/held_figures.hpp"

namespace strata::protocol {

inline constexpr std::string_view kResumeVerb = "RESUME";

enum class PromptSource : std::uint8_t {
    cold,  // read from token 0
    live,  // the running state of the live conversation
    turn,  // its checkpoints, by kind
    root,
    interval,
    tail,
    pin,
    lane,               // an idle batch lane
    parked,             // a parked snapshot's end
    parked_checkpoint,  // a parked snapshot, at its deepest checkpoint
    borrowed,           // a parked snapshot that stays parked
    device,             // pages that had stayed on the device
    disk,
};
std::string_view word(PromptSource source);
std::optional<PromptSource> prompt_source_of(std::string_view word);

struct ResumeLine {
    std::int64_t reused = 0;  // prompt tokens that are not read again
    std::uint64_t id = 0;
    std::optional<PromptSource> source;  // absent also for a word of a newer engine
    std::optional<std::uint64_t> conv;   // number of the conversation that is live from here on
    HeldFigures now;
    friend bool operator==(const ResumeLine&, const ResumeLine&) = default;
};

std::string format(const ResumeLine& line);
Parsed<ResumeLine> parse_resume_line(std::string_view line);

}  // namespace strata::protocol
