// Random commands and events, legal ones, from a seed: the material of the round-trip and stream
// tests. Figures that the wire shows with one decimal have one decimal here.
#pragma once

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "protocol/command.hpp"
#include "protocol/event.hpp"

namespace strata::protocol {

class RandomLines {
  public:
    explicit RandomLines(std::uint64_t seed) : random_(seed) {}

    Command command(std::size_t kind);
    Event event(std::size_t kind);
    std::uint64_t below(std::uint64_t limit) { return random_() % limit; }

  private:
    bool flip() { return below(2) == 0; }
    std::uint64_t number();  // all magnitudes alike
    std::int64_t count() { return static_cast<std::int64_t>(number() >> 1U); }
    std::int32_t token() { return static_cast<std::int32_t>(number() >> 33U); }
    std::int64_t tokens() { return static_cast<std::int64_t>(number() >> 33U); }
    double tenths() { return static_cast<double>(below(100000000)) / 10; }
    double real(double low, double high);
    std::string name();  // a text value, not empty
    std::string text();  // free text: any byte
    std::string label() { return flip() ? name().substr(0, 32) : ""; }
    std::vector<std::int32_t> ids(std::size_t at_least);
    template <class E>
    E any(std::uint64_t values) {
        return static_cast<E>(below(values));
    }
    template <class Make>
    auto maybe(Make make) -> std::optional<decltype(make())> {
        if (flip()) return std::nullopt;
        return make();
    }

    GenCommand gen();
    CacheCommand cache_command();
    InfoLine info();
    TokenLine token_line();
    HeldFigures held();
    ConvLine conv();
    DoneLine done();
    CacheLine cache_line();
    PressureLine pressure();
    ReadyLine ready();

    std::mt19937_64 random_;
};

}  // namespace strata::protocol
