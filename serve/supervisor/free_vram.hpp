// Is enough GPU memory free for a load? The question to the driver is an interface (it may take
// seconds and is never waited for); what follows from its answers is a pure function.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/supervisor/time_source.hpp"

namespace strata::serve {

struct GpuMemory {
    std::string name;
    std::int64_t free_mib = 0;
    std::int64_t total_mib = 0;
};

class VramSource {
  public:
    virtual ~VramSource() = default;
    // Begins a new reading; returns at once.
    virtual void ask() = 0;
    // What was read since the last ask(); absent while it is under way. Empty: this machine has no
    // GPU that tells.
    virtual std::optional<std::vector<GpuMemory>> answer() = 0;
};

struct VramLimits {
    // A driver that is busy with another program answers within this.
    Milliseconds answer = std::chrono::seconds(5);
    // What a program that ended had is free only some time after.
    Milliseconds settle = std::chrono::seconds(3);
};

enum class VramVerdict : std::uint8_t {
    enough,
    unknown,  // no GPU, or none that tells: the limit cannot be kept
    look_again,
    too_little,
};

// One GPU must have `min_mib` free. `waited`: since the first question.
VramVerdict judge_vram(const std::optional<std::vector<GpuMemory>>& answer, std::int64_t min_mib,
                       Milliseconds waited, const VramLimits& limits);

// "1,234 of 24,564 MiB are free on NVIDIA X; ..."; for the refusal.
std::string vram_text(const std::vector<GpuMemory>& gpus);

}  // namespace strata::serve
