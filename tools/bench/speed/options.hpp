// The options of strata-bench: parsing and checking. Knows nothing of models and devices.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device_choice.hpp"
#include "strata/backend/kv_rows.hpp"
#include "strata/core/result.hpp"
#include "tools/bench/speed/passes.hpp"

namespace strata::bench {

struct BenchOptions {
    std::string model;      // a file, or
    std::string synthetic;  // the name of a synthetic model
    std::int64_t seed = 1;
    std::int64_t threads = 2;
    KvType kv = KvType::f16;
    std::string kernels = "auto";
    DeviceChoice device;
    bool exact = false;
    std::int64_t chunk = 512;
    std::vector<std::int64_t> prefill = {128, 512, 2048};
    std::vector<std::int64_t> decode = {128};
    std::vector<Sampling> sampling = {Sampling{}};  // each decode test with each of them
    std::int64_t cache = 0;  // tokens of the conversations that change places; 0 = no such test
    std::int64_t repeat = 5;
    std::string json;
    bool help = false;
    bool list = false;  // --synthetic list

    // What tables and results call the model.
    std::string model_name() const;
};

extern const char* const kUsage;

Result<BenchOptions> parse_options(const std::vector<std::string_view>& arguments);

}  // namespace strata::bench
