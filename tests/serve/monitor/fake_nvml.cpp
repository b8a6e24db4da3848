// Stands in for the driver's library: two devices, of which the second refuses most questions.
#include <cstring>

extern "C" {

struct FakeMemory {
    unsigned long long total, free, used;
};
struct FakeLoad {
    unsigned int gpu, memory;
};

int nvmlInit_v2();
int nvmlShutdown();
int nvmlDeviceGetCount_v2(unsigned int* count);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device);
int nvmlDeviceGetName(void* device, char* name, unsigned int length);
int nvmlDeviceGetMemoryInfo(void* device, FakeMemory* memory);
int nvmlDeviceGetUtilizationRates(void* device, FakeLoad* load);
int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts);
int nvmlDeviceGetTemperature(void* device, int sensor, unsigned int* degrees);

constexpr int kNotSupported = 3;

int nvmlInit_v2() {
    return 0;
}
int nvmlShutdown() {
    return 0;
}

int nvmlDeviceGetCount_v2(unsigned int* count) {
    *count = 2;
    return 0;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void** device) {
    static char places[2];
    *device = &places[index];
    places[index] = index == 0 ? 'a' : 'b';
    return 0;
}

static bool silent(void* device) {
    return *static_cast<char*>(device) == 'b';
}

int nvmlDeviceGetName(void* device, char* name, unsigned int length) {
    std::strncpy(name, silent(device) ? "Silent" : "Fake GPU", length);
    return 0;
}

int nvmlDeviceGetMemoryInfo(void* device, FakeMemory* memory) {
    if (silent(device)) return kNotSupported;
    *memory = {80ULL << 30U, 60ULL << 30U, 20ULL << 30U};
    return 0;
}

int nvmlDeviceGetUtilizationRates(void* device, FakeLoad* load) {
    if (silent(device)) return kNotSupported;
    *load = {73, 12};
    return 0;
}

int nvmlDeviceGetPowerUsage(void* device, unsigned int* milliwatts) {
    if (silent(device)) return kNotSupported;
    *milliwatts = 412'500;
    return 0;
}

int nvmlDeviceGetTemperature(void*, int sensor, unsigned int* degrees) {
    if (sensor != 0) return kNotSupported;
    *degrees = 61;
    return 0;
}

}  // extern "C"
