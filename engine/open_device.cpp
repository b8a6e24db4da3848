// The device that a choice means: the one place that knows every backend of this build.
#include "engine/device_choice.hpp"

namespace strata {

Result<std::unique_ptr<Device>> open_device(DeviceChoice choice, const CpuDeviceOptions& cpu) {
    if (choice.kind == DeviceKind::cuda) return make_cuda_device({choice.number, cpu.exact});
    if (choice.kind == DeviceKind::automatic && cuda_device_count() > 0) {
        auto device = make_cuda_device({0, cpu.exact});
        if (device) return device;
    }
    return make_cpu_device(cpu);
}

}  // namespace strata
