// Reading and writing, pass by pass, on a runner: what the model alone takes.
//
//   prefill N  reading N tokens into an empty conversation, in chunks; logits of the last one
//   decode N   writing N tokens one by one from an empty conversation, as the engine answers a
//              request with the settings of the test's sampling: by engine/next_token
//
// Every test runs once unmeasured, then `repeat` times in turn with the others, so that a machine
// that slows down slows all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/result.hpp"
#include "strata/core/types.hpp"
#include "strata/model/runner.hpp"
#include "strata/model/sampling.hpp"

namespace strata::bench {

enum class Kind : std::uint8_t { prefill, decode };

// How the tokens of a decode test are chosen.
struct Sampling {
    std::string name = "greedy";
    SamplingSettings settings{};
    bool logits = false;  // from all logits, as for a request that wants reports
};
// The sampling of that name, with ":logits" behind it or not; the refusal of another name lists
// those that there are.
Result<Sampling> sampling_of(std::string_view name);

struct Test {
    Kind kind = Kind::prefill;
    std::int64_t tokens = 0;
    Sampling sampling{};  // of a decode test
    std::vector<double> milliseconds{};

    double rate(double ms) const { return static_cast<double>(tokens) * 1000.0 / ms; }
};

// Runs what `tests` ask for, and fills in their times.
Status<> measure_passes(Runner& runner, std::vector<Test>& tests, std::int64_t repeat);

// Ids spread over the vocabulary; another seed, other ids.
TokenIds some_ids(std::int64_t count, std::int64_t vocabulary, std::uint64_t seed);

double median(std::vector<double> values);
double least(const std::vector<double>& values);

void print_passes(const std::vector<Test>& tests);
// [{"test", "tokens", "sampling" (of decode), "ms_median", "ms_min", "tokens_per_second", "ms"}]
std::string passes_json(const std::vector<Test>& tests);
std::string numbers_json(const std::vector<double>& values);

}  // namespace strata::bench
