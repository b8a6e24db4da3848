// The verdict and its words.
#include "serve/supervisor/free_vram.hpp"

#include <algorithm>

namespace strata::serve {

VramVerdict judge_vram(const std::optional<std::vector<GpuMemory>>& answer, std::int64_t min_mib,
                       Milliseconds waited, const VramLimits& limits) {
    if (!answer) return waited < limits.answer ? VramVerdict::look_again : VramVerdict::unknown;
    if (answer->empty()) return VramVerdict::unknown;
    const bool enough = std::any_of(answer->begin(), answer->end(),
                                    [min_mib](const auto& gpu) { return gpu.free_mib >= min_mib; });
    if (enough) return VramVerdict::enough;
    return waited < limits.settle ? VramVerdict::look_again : VramVerdict::too_little;
}

std::string vram_text(const std::vector<GpuMemory>& gpus) {
    std::string text;
    for (const GpuMemory& gpu : gpus) {
        if (!text.empty()) text += ", ";
        text += std::to_string(gpu.free_mib) + " of " + std::to_string(gpu.total_mib) +
                " MiB are free on " + gpu.name;
    }
    return text;
}

}  // namespace strata::serve
