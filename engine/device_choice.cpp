#include "engine/device_choice.hpp"

#include <charconv>

namespace strata {

std::optional<DeviceChoice> parse_device(std::string_view text) {
    if (text == "auto") return DeviceChoice{};
    if (text == "cpu") return DeviceChoice{DeviceKind::cpu, 0};
    constexpr std::string_view kCuda = "cuda";
    if (text.substr(0, kCuda.size()) != kCuda) return std::nullopt;
    std::string_view rest = text.substr(kCuda.size());
    if (rest.empty()) return DeviceChoice{DeviceKind::cuda, 0};
    if (rest.front() != ':') return std::nullopt;
    rest.remove_prefix(1);
    int number = -1;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    const bool whole = error == std::errc{} && stop == rest.data() + rest.size();
    if (!whole || number < 0 || number > kCudaNumberMax) return std::nullopt;
    return DeviceChoice{DeviceKind::cuda, number};
}

std::string device_text(DeviceChoice choice) {
    switch (choice.kind) {
        case DeviceKind::automatic:
            return "auto";
        case DeviceKind::cpu:
            return "cpu";
        case DeviceKind::cuda:
            return "cuda:" + std::to_string(choice.number);
    }
    return "";
}

}  // namespace strata
