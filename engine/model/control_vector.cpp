#include "engine/model/control_vector.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

#include <xxhash.h>

#include "engine/model/mapped_file.hpp"
#include "protocol/gguf/gguf.hpp"

namespace strata {
namespace {

constexpr std::string_view kPrefix = "direction.";
constexpr std::uint32_t kF32 = 0;  // ggml's type id

// N of "direction.N", written as a number is written; nothing when it is another name.
std::optional<std::size_t> layer_of(std::string_view name) {
    if (!name.starts_with(kPrefix)) return std::nullopt;
    const std::string_view digits = name.substr(kPrefix.size());
    std::size_t layer = 0;
    const auto [stop, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
    if (error != std::errc{} || std::to_string(layer) != digits) return std::nullopt;
    return layer;
}

Status<> check_tensor(const gguf::TensorInfo& tensor, std::int64_t width, std::size_t layers) {
    const std::string what = "tensor " + gguf::in_quotes(tensor.name);
    const auto layer = layer_of(tensor.name);
    if (!layer || *layer >= layers) {
        return refuse(what +
                      " is not of this model's layers; allowed are direction.0 to direction." +
                      std::to_string(layers - 1));
    }
    if (tensor.type != kF32) {
        const gguf::TypeFacts* facts = gguf::type_facts(tensor.type);
        return refuse(what + " has the type " +
                      (facts != nullptr ? std::string(facts->name) : std::to_string(tensor.type)) +
                      ", allowed is F32");
    }
    std::uint64_t elements = 1;
    for (const std::uint64_t dim : tensor.dims) elements *= dim;
    if (tensor.dims[0] != elements || elements != static_cast<std::uint64_t>(width)) {
        return refuse(what + " has " + std::to_string(elements) + " values in " +
                      std::to_string(elements / std::max<std::uint64_t>(1, tensor.dims[0])) +
                      " rows, allowed is one row of the model's width, " + std::to_string(width));
    }
    return Done{};
}

Result<std::vector<float>> scaled_values(std::span<const std::byte> bytes, float scale,
                                         const std::string& name) {
    std::vector<float> out(bytes.size() / sizeof(float));
    std::memcpy(out.data(), bytes.data(), bytes.size());
    for (float& value : out) {
        value *= scale;
        if (!std::isfinite(value)) {
            return refuse("tensor " + gguf::in_quotes(name) +
                          " holds a value that, times the scale, is no finite number");
        }
    }
    return out;
}

std::string fingerprint_of_layers(const std::vector<std::vector<float>>& layers) {
    std::vector<XXH128_canonical_t> digests;
    for (std::uint64_t layer = 0; layer < layers.size(); ++layer) {
        const std::vector<float>& values = layers[layer];
        if (values.empty()) continue;
        XXH128_canonicalFromHash(
            &digests.emplace_back(),
            XXH3_128bits_withSeed(values.data(), values.size() * sizeof(float), layer));
    }
    XXH128_canonical_t digest{};
    XXH128_canonicalFromHash(&digest, XXH3_128bits(digests.data(), digests.size() * sizeof digest));
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string out;
    for (const unsigned char byte : digest.digest) out += {kHex[byte >> 4], kHex[byte & 15]};
    return out;
}

Result<ControlVectorValues> read_file(const ControlVector& from, std::int64_t width,
                                      std::size_t layers) {
    const auto file = MappedFile::open(from.path, "file");
    if (!file.ok()) return file.failure();
    const std::string where = "file " + gguf::in_quotes(from.path) + ": ";
    const auto header = gguf::parse_header(file->bytes(), file->bytes().size());
    if (!header.ok()) return refuse(where + header.error().text);
    if (header->tensors.empty()) return refuse(where + "has no tensor direction.N");
    ControlVectorValues out;
    out.layers.resize(layers);
    for (const gguf::TensorInfo& tensor : header->tensors) {
        const Status<> good = check_tensor(tensor, width, layers);
        if (!good.ok()) return refuse(where + good.error().text);
        const auto bytes =
            file->bytes().subspan(static_cast<std::size_t>(header->data_start + tensor.offset),
                                  static_cast<std::size_t>(width) * sizeof(float));
        auto values = scaled_values(bytes, from.scale, tensor.name);
        if (!values.ok()) return refuse(where + values.error().text);
        out.layers[*layer_of(tensor.name)] = std::move(*values);
    }
    out.fingerprint = fingerprint_of_layers(out.layers);
    return out;
}

}  // namespace

Result<ControlVectorValues> read_control_vector(const ControlVector& from, std::int64_t width,
                                                std::size_t layers) {
    auto values = read_file(from, width, layers);
    if (!values.ok()) return refuse("control vector " + from.name + ": " + values.error().text);
    return values;
}

Result<Directions> upload_directions(Device& device, const ControlVectorValues& values) {
    Directions out;
    for (const std::vector<float>& layer : values.layers) {
        out.layers.push_back(nullptr);
        if (layer.empty()) continue;
        const std::size_t bytes = layer.size() * sizeof(float);
        Result<Buffer> room = device.allocate(bytes);
        if (!room.ok()) return room.failure();
        device.copy_from_host(room->address(), layer.data(), bytes);
        out.layers.back() = room->f32();
        out.values.push_back(std::move(*room));
    }
    return out;
}

}  // namespace strata
