// Control vectors: GGUF files with one direction for each layer, which steer a model by being added
// to its hidden state. Owns what such a file must look like and the fingerprint of what it adds;
// where it is added is the decoder's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/backend/device.hpp"
#include "strata/core/result.hpp"
#include "strata/model/runner.hpp"

namespace strata {

// What a control vector adds, on the host.
struct ControlVectorValues {
    // [layer]: `width` values, the scale applied; empty = nothing is added behind that layer.
    std::vector<std::vector<float>> layers;
    // 32 hex digits, XXH3-128 over the layers' numbers and values: two that are equal add the same.
    std::string fingerprint;
};

// Refuses a file that cannot be read or is no GGUF file; a tensor that is not "direction.N" with N
// from 0 to layers - 1, is not F32, or has not `width` values; a value that is no finite number,
// also after scaling; a file without any tensor.
Result<ControlVectorValues> read_control_vector(const ControlVector& from, std::int64_t width,
                                                std::size_t layers);

// The same on a device.
struct Directions {
    std::vector<Buffer> values;
    std::vector<const float*> layers;  // [layer]; null = nothing is added
};
Result<Directions> upload_directions(Device& device, const ControlVectorValues& values);

}  // namespace strata
