// strata-bench: how fast this machine reads and writes tokens with a model, and how fast two
// conversations change places. Goes the public ways (load_runner, make_engine) and owns nothing but
// the clock: what it measures is what the engine does. What each test is stands in speed/.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/device_choice.hpp"
#include "strata/backend/device.hpp"
#include "strata/core/result.hpp"
#include "strata/model/runner.hpp"
#include "tools/bench/speed/options.hpp"
#include "tools/bench/speed/passes.hpp"
#include "tools/bench/speed/switching.hpp"
#include "tools/bench/synthetic/geometry.hpp"
#include "tools/bench/synthetic/image.hpp"

namespace strata::bench {
namespace {

std::vector<Test> tests_of(const BenchOptions& options) {
    std::vector<Test> tests;
    for (const std::int64_t tokens : options.prefill) tests.push_back({Kind::prefill, tokens});
    for (const std::int64_t tokens : options.decode) {
        for (const Sampling& one : options.sampling) tests.push_back({Kind::decode, tokens, one});
    }
    return tests;
}

Result<std::unique_ptr<Runner>> load(Device& device, const BenchOptions& options) {
    RunnerOptions runner;
    runner.chunk_tokens = options.chunk;
    runner.model_path = options.model_name();
    runner.kv_type = options.kv;
    runner.max_context = 1;
    for (const Test& test : tests_of(options)) {
        runner.max_context = std::max(runner.max_context, test.tokens);
    }
    if (options.cache > 0) {
        runner.max_context =
            std::max(runner.max_context, switching_rows(options.cache, options.repeat));
    }
    if (options.synthetic.empty()) {
        runner.model_path = options.model;
    } else {
        const auto model = synthetic_model(options.synthetic);
        if (!model) return model.failure();
        auto image = map_synthetic(*model, static_cast<std::uint64_t>(options.seed));
        if (!image) return image.failure();
        runner.image = std::move(image).value();
    }
    return load_runner(device, runner, [](std::uint64_t, std::uint64_t) {});
}

void print_head(const BenchOptions& options, const Geometry& geometry, const DeviceFacts& facts) {
    std::printf("%s, %s, %.1f MB of weights; %s, %s, %lld threads, K/V %s%s, %lld runs\n",
                options.model_name().c_str(), geometry.quantisation.c_str(),
                static_cast<double>(geometry.weights_bytes) / 1e6, facts.name.c_str(),
                facts.kernels.c_str(), static_cast<long long>(options.threads),
                kv_type_name(options.kv), options.exact ? ", exact" : "",
                static_cast<long long>(options.repeat));
    std::fflush(stdout);
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + '"';
}

// {"model", "device", "kernels", "threads", "kv", "exact", "tests": [...], "cache": {...}}; the
// last two are passes.hpp's and switching.hpp's.
std::string json_text(const BenchOptions& options, const DeviceFacts& facts,
                      const std::vector<Test>& tests, const std::optional<SwitchFigures>& cache) {
    std::string out = "{\"model\": " + quoted(options.model_name()) +
                      ", \"device\": " + quoted(facts.name) +
                      ", \"kernels\": " + quoted(facts.kernels) +
                      ", \"threads\": " + std::to_string(options.threads) +
                      ", \"kv\": " + quoted(kv_type_name(options.kv)) +
                      ", \"exact\": " + (options.exact ? "true" : "false") +
                      ",\n \"tests\": " + passes_json(tests);
    if (cache) out += ",\n \"cache\": " + switching_json(*cache);
    return out + "}\n";
}

Status<> bench(const BenchOptions& options) {
    CpuDeviceOptions cpu{static_cast<int>(options.threads), options.kernels};
    cpu.exact = options.exact;
    auto device = open_device(options.device, cpu);
    if (!device) return device.failure();
    auto runner = load(**device, options);
    if (!runner) return runner.failure();
    const DeviceFacts facts = (*device)->facts();
    print_head(options, (*runner)->geometry(), facts);
    std::vector<Test> tests = tests_of(options);
    if (!tests.empty()) {
        const auto measured = measure_passes(**runner, tests, options.repeat);
        if (!measured) return measured.failure();
        print_passes(tests);
        std::fflush(stdout);
    }
    std::optional<SwitchFigures> cache;
    if (options.cache > 0) {
        auto figures = measure_switching(std::move(runner).value(), options.cache, options.chunk,
                                         options.repeat, [](const std::string& line) {
                                             std::printf("%s\n", line.c_str());
                                             std::fflush(stdout);
                                         });
        if (!figures) return figures.failure();
        cache = std::move(figures).value();
        print_switching(*cache);
    }
    if (options.json.empty()) return Done{};
    std::ofstream file(options.json);
    file << json_text(options, facts, tests, cache);
    file.close();
    if (!file) return refuse("--json: cannot write '" + options.json + "'");
    return Done{};
}

int run(const std::vector<std::string_view>& arguments) {
    const auto options = parse_options(arguments);
    if (!options) {
        std::cerr << "strata-bench: " << options.error().text << "\n\n" << kUsage;
        return 2;
    }
    if (options->help || options->list) {
        std::cout << (options->help ? std::string(kUsage) : synthetic_list());
        return 0;
    }
    const auto done = bench(*options);
    if (done) return 0;
    std::cerr << "strata-bench: " << done.error().text << '\n';
    return done.error().kind == RefusalKind::bad_option ? 2 : 1;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
    try {
        return strata::bench::run(std::vector<std::string_view>(argv + 1, argv + argc));
    } catch (const std::exception& fault) {  // a device that fails, or memory that ends
        std::cerr << "strata-bench: " << fault.what() << '\n';
        return 1;
    }
}
