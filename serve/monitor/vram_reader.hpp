// Free GPU memory through the driver's library, for the supervisor. Each question is asked on a
// thread of its own: a driver that hangs is left behind, nobody waits for it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "serve/monitor/hardware_gpu.hpp"
#include "serve/supervisor/free_vram.hpp"

namespace strata::serve {

class VramReader final : public VramSource {
  public:
    explicit VramReader(std::string library = kNvmlLibrary) : library_(std::move(library)) {}

    void ask() override;
    std::optional<std::vector<GpuMemory>> answer() override;

  private:
    struct Question;

    std::string library_;
    std::shared_ptr<Question> question_;  // the newest; its thread may outlive this object
};

}  // namespace strata::serve
