// What computes: the words of --device, and the device they mean on this machine.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "strata/backend/device.hpp"
#include "strata/core/result.hpp"

namespace strata {

inline constexpr int kCudaNumberMax = 63;  // more than one machine has

enum class DeviceKind : std::uint8_t { automatic, cpu, cuda };
struct DeviceChoice {
    DeviceKind kind = DeviceKind::automatic;
    int number = 0;  // of a CUDA device
};

inline constexpr std::string_view kDeviceWords = "auto, cpu, cuda, cuda:N (N is 63 at most)";
std::optional<DeviceChoice> parse_device(std::string_view text);
std::string device_text(DeviceChoice choice);

// `automatic` is the first CUDA device where there is one, the CPU elsewhere. A CUDA device that
// cannot be used is a refusal when it was asked for by name and passed over otherwise.
Result<std::unique_ptr<Device>> open_device(DeviceChoice choice, const CpuDeviceOptions& cpu);

}  // namespace strata
