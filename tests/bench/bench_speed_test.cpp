// strata-bench: its options, and that two conversations which change places are what it measures.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "strata/backend/device.hpp"
#include "strata/model/runner.hpp"
#include "tools/bench/speed/options.hpp"
#include "tools/bench/speed/passes.hpp"
#include "tools/bench/speed/switching.hpp"
#include "tools/bench/synthetic/geometry.hpp"
#include "tools/bench/synthetic/image.hpp"

namespace strata::bench {
namespace {

std::string refusal_of(const std::vector<std::string_view>& arguments) {
    const auto options = parse_options(arguments);
    return options ? "" : options.error().text;
}

std::unique_ptr<Runner> runner_of(Device& device, const std::string& name, std::int64_t rows) {
    RunnerOptions options;
    options.model_path = name;
    options.image = map_synthetic(*synthetic_model(name), 1).value();
    options.max_context = rows;
    return load_runner(device, options, [](std::uint64_t, std::uint64_t) {}).value();
}

}  // namespace

TEST_CASE("strata-bench needs one model and something to do") {
    CHECK(refusal_of({}) == "one of --model and --synthetic is needed");
    CHECK(refusal_of({"--model", "a", "--synthetic", "b"}) ==
          "one of --model and --synthetic is needed");
    CHECK(refusal_of({"--model", "a", "--prefill", "0", "--decode", "0"}) ==
          "there is nothing to do");
    CHECK(refusal_of({"--model"}) == "--model needs a value");
    CHECK(refusal_of({"--nothing", "1"}) == "unknown option '--nothing'");
    CHECK(refusal_of({"--model", "a", "--repeat", "0"}) ==
          "--repeat: '0' is not a number from 1 to 1000");
    CHECK(refusal_of({"--model", "a", "--cache", "-1"}) ==
          "--cache: '-1' is not a number from 0 to 1048576");
    CHECK(refusal_of({"--model", "a", "--kv", "q4"}) == "--kv: 'q4' is not one of f16, f32, int8");
    CHECK(refusal_of({"--model", "a", "--sampling", "greedy,hot"}) ==
          "--sampling: 'hot' is not one of greedy, all, top-k, top-p, min-p, penalties");
    CHECK(refusal_of({"--model", "a"}).empty());
    CHECK(refusal_of({"--synthetic", "list"}).empty());
}

TEST_CASE("tokens are written with every sampling that is asked for") {
    const auto options = parse_options({"--synthetic", "x", "--sampling", "greedy,top-k:logits"});
    REQUIRE(options.ok());
    REQUIRE(options->sampling.size() == 2);
    CHECK(options->sampling[0].settings.temperature == 0);
    CHECK_FALSE(options->sampling[0].logits);
    CHECK(options->sampling[1].settings.temperature == 0.8);
    CHECK(options->sampling[1].settings.top_k == 40);
    CHECK(options->sampling[1].settings.top_p == 0.95);
    CHECK(options->sampling[1].logits);
    const auto device = make_cpu_device({1, "auto"}).value();
    const auto runner = runner_of(*device, "tiny-qwen3:q8_0", 64);
    std::vector<Test> tests;
    for (const char* name :
         {"greedy", "all", "top-k", "top-p", "min-p", "penalties", "top-p:logits"}) {
        tests.push_back({Kind::decode, 6, sampling_of(name).value()});
    }
    REQUIRE(measure_passes(*runner, tests, 2).ok());
    for (const Test& test : tests) CHECK(test.milliseconds.size() == 2);
    const std::string json = passes_json(tests);
    CHECK(json.find("\"tokens\": 6, \"sampling\": \"penalties\"") != std::string::npos);
    CHECK(json.find("\"sampling\": \"top-p:logits\"") != std::string::npos);
}

TEST_CASE("the cache is measured alone unless another test is asked for") {
    const auto alone = parse_options({"--synthetic", "x", "--cache", "64", "--exact"});
    REQUIRE(alone.ok());
    CHECK(alone->exact);
    CHECK(alone->cache == 64);
    CHECK(alone->prefill.empty());
    CHECK(alone->decode.empty());
    CHECK(alone->kv == KvType::f16);
    CHECK(parse_options({"--synthetic", "x", "--kv", "int8"})->kv == KvType::int8);
    const auto both = parse_options({"--synthetic", "x", "--cache", "64", "--decode", "8"});
    REQUIRE(both.ok());
    CHECK(both->decode == std::vector<std::int64_t>{8});
}

TEST_CASE("a switch moves the whole conversation back and parks it again by its new pages alone") {
    constexpr std::int64_t kTokens = 600;
    constexpr std::int64_t kRepeat = 2;
    for (const char* name : {"tiny-qwen3:q8_0", "tiny-qwen3next:q8_0"}) {
        INFO(name);
        const auto device = make_cpu_device({1, "auto"}).value();
        auto runner = runner_of(*device, name, switching_rows(kTokens, kRepeat));
        const Geometry geometry = runner->geometry();
        const auto figures = measure_switching(std::move(runner), kTokens, 128, kRepeat);
        INFO((figures.ok() ? "" : figures.error().text));
        REQUIRE(figures.ok());
        CHECK(figures->read.milliseconds.size() == 2);
        CHECK(figures->park.milliseconds.size() == 2);
        CHECK(figures->park_again.milliseconds.size() == 4);  // A and B in each round
        CHECK(figures->restore.milliseconds.size() == 4);
        CHECK(figures->after.milliseconds.size() == 4);
        CHECK(figures->continued.milliseconds.size() == 2);
        CHECK(figures->kept.milliseconds.empty());  // this device copies nothing by itself
        // A conversation of 600 to 1016 rows has 3 or 4 pages.
        const auto page = static_cast<double>(geometry.page_bytes());
        const auto state = static_cast<double>(geometry.state_bytes());
        for (const double bytes : figures->park.bytes) CHECK(bytes == 3 * page + state);
        for (const double bytes : figures->park_again.bytes) {
            CHECK(bytes >= page + state);
            CHECK(bytes <= 2 * page + state);
        }
        for (const double bytes : figures->restore.bytes) {
            CHECK(bytes >= 3 * page + state);
            CHECK(bytes <= 4 * page + state);
        }
    }
}

}  // namespace strata::bench
