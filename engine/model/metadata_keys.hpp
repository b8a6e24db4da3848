// Typed, range-checked reading of the metadata keys of one architecture. The first refusal is kept
// and wins; a read that was refused gives the smallest allowed value, so what is computed from it
// stays in range.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gguf/gguf.hpp"
#include "strata/core/result.hpp"

namespace strata {

struct IntegerRange {
    std::int64_t min;
    std::int64_t max;
};
struct RealRange {
    double min;
    double max;
    bool min_allowed = true;
};
constexpr RealRange positive(double max) {
    return {0.0, max, false};
}

class MetadataKeys {
  public:
    MetadataKeys(const gguf::Header& header, std::string prefix)
        : header_(header), prefix_(std::move(prefix)) {}

    bool has(std::string_view key) const {
        return header_.find(prefix_ + std::string(key)) != nullptr;
    }
    // Without a fallback the key is required. A per-layer array of equal values counts as its
    // value.
    std::int64_t integer(std::string_view key, IntegerRange range,
                         std::optional<std::int64_t> fallback = std::nullopt);
    double real(std::string_view key, RealRange range,
                std::optional<double> fallback = std::nullopt);
    bool flag(std::string_view key, bool fallback);
    std::string text(std::string_view key, std::string fallback);
    // A per-layer array of bools or of the integers 0 and 1; nothing when the key is absent.
    std::optional<std::vector<bool>> flags(std::string_view key);

    void refuse_key(std::string_view key, const std::string& value, const std::string& allowed);
    const std::optional<Refusal>& refusal() const { return refusal_; }

  private:
    std::optional<std::uint64_t> uniform(const gguf::Value& value) const;

    const gguf::Header& header_;
    std::string prefix_;
    std::optional<Refusal> refusal_;
};

}  // namespace strata
