// The ggml tensor types by id, the size of a stored tensor, and how a stranger's names are shown.
// Owns no decoding: engine/backend does that for the types it supports.
#include <array>
#include <cstddef>

#include "protocol/gguf/gguf.hpp"
#include "strata/core/checked.hpp"

namespace strata::gguf {
namespace {

constexpr std::size_t kQuotedBytesMax = 80;  // more of a hostile name helps nobody

// Indexed by id; ids without a name were retired by the format or never given.
constexpr std::array<TypeFacts, 43> kTypes = {{
    {"F32", 1, 4},
    {"F16", 1, 2},
    {"Q4_0", 32, 18},
    {"Q4_1", 32, 20},
    {},
    {},
    {"Q5_0", 32, 22},
    {"Q5_1", 32, 24},
    {"Q8_0", 32, 34},
    {"Q8_1", 32, 36},
    {"Q2_K", 256, 84},
    {"Q3_K", 256, 110},
    {"Q4_K", 256, 144},
    {"Q5_K", 256, 176},
    {"Q6_K", 256, 210},
    {"Q8_K", 256, 292},
    {"IQ2_XXS", 256, 66},
    {"IQ2_XS", 256, 74},
    {"IQ3_XXS", 256, 98},
    {"IQ1_S", 256, 50},
    {"IQ4_NL", 32, 18},
    {"IQ3_S", 256, 110},
    {"IQ2_S", 256, 82},
    {"IQ4_XS", 256, 136},
    {"I8", 1, 1},
    {"I16", 1, 2},
    {"I32", 1, 4},
    {"I64", 1, 8},
    {"F64", 1, 8},
    {"IQ1_M", 256, 56},
    {"BF16", 1, 2},
    {},
    {},
    {},
    {"TQ1_0", 256, 54},
    {"TQ2_0", 256, 66},
    {},
    {},
    {},
    {"MXFP4", 32, 17},
    {"NVFP4", 64, 36},
    {"Q1_0", 0, 0},
    {"Q2_0", 0, 0},
}};

bool printable(unsigned char c) {
    return c >= 0x20 && c < 0x7F && c != '"' && c != '\\';
}

}  // namespace

const TypeFacts* type_facts(std::uint32_t type) {
    if (type >= kTypes.size() || kTypes[type].name.empty()) return nullptr;
    return &kTypes[type];
}

Result<std::uint64_t> stored_bytes(const TensorInfo& tensor) {
    const std::string what = "tensor " + in_quotes(tensor.name);
    const TypeFacts* facts = type_facts(tensor.type);
    if (facts == nullptr) {
        return refuse(what + " has the type " + std::to_string(tensor.type) +
                      ", which is no ggml type");
    }
    if (facts->block_bytes == 0) return std::uint64_t{0};
    if (tensor.dims.empty() || tensor.dims[0] % facts->block_elements != 0) {
        return refuse(what + " has rows of " +
                      std::to_string(tensor.dims.empty() ? 0 : tensor.dims[0]) + " elements; " +
                      std::string(facts->name) + " needs a multiple of " +
                      std::to_string(facts->block_elements));
    }
    std::uint64_t bytes = facts->block_bytes;
    for (std::size_t i = 0; i < tensor.dims.size(); ++i) {
        const auto count = i == 0 ? tensor.dims[0] / facts->block_elements : tensor.dims[i];
        const auto product = checked_mul(bytes, count);
        if (!product) return refuse(what + " is larger than 2^64 bytes");
        bytes = *product;
    }
    return bytes;
}

std::string in_quotes(std::string_view text) {
    constexpr std::string_view kHex = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : text.substr(0, kQuotedBytesMax)) {
        const auto byte = static_cast<unsigned char>(c);
        if (printable(byte)) {
            out += c;
        } else {
            out += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
        }
    }
    return out + (text.size() > kQuotedBytesMax ? "\"..." : "\"");
}

}  // namespace strata::gguf
