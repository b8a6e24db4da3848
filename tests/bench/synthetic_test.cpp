// Synthetic models: their sizes against what is published of the models, their bytes through the
// loader that reads model files, their values by statistics.
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "engine/model/arch/architectures.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/weight_loader.hpp"
#include "engine/model/weights.hpp"
#include "strata/backend/device.hpp"
#include "strata/model/runner.hpp"
#include "tools/bench/speed/passes.hpp"
#include "tools/bench/synthetic/geometry.hpp"
#include "tools/bench/synthetic/image.hpp"
#include "tools/bench/synthetic/patterns.hpp"

namespace strata::bench {
namespace {

const std::vector<std::string> kTinyNames = {"tiny-qwen3", "tiny-qwen3moe", "tiny-qwen3next",
                                             "tiny-qwen35"};
const std::vector<std::string> kTypes = {"f16", "q8_0", "q4_k", "iq3_s", "nvfp4"};

std::unique_ptr<Device> cpu_device() {
    return make_cpu_device({1, "auto"}).value();
}

ModelImage image_of(const std::string& name, std::uint64_t seed) {
    const auto model = synthetic_model(name);
    REQUIRE(model.ok());
    auto image = map_synthetic(*model, seed);
    REQUIRE(image.ok());
    return *image;
}

// Of the last of 20 tokens.
std::vector<float> logits_of(const std::string& name, std::uint64_t seed) {
    const auto device = cpu_device();
    RunnerOptions options;
    options.model_path = name;
    options.image = image_of(name, seed);
    options.max_context = 256;
    auto runner = load_runner(*device, options, [](std::uint64_t, std::uint64_t) {});
    INFO((runner.ok() ? name : runner.error().text));
    REQUIRE(runner.ok());
    const Geometry& geometry = (*runner)->geometry();
    auto page = device->allocate(geometry.page_bytes());
    REQUIRE(page.ok());
    Buffer state;
    if (geometry.recurrent()) state = device->allocate(geometry.state_bytes()).value();
    std::vector<void*> pages = {page->address()};
    std::vector<float> logits(static_cast<std::size_t>(geometry.vocabulary));
    const TokenIds ids = some_ids(20, geometry.vocabulary, 7);
    (*runner)->forward({pages, state.address()}, 0, ids, logits);
    return logits;
}

}  // namespace

TEST_CASE("synthetic models have the parameters that are published of the models") {
    // In f16 a parameter is two bytes; the few f32 values are below the last digit.
    const std::map<std::string, double> billions = {
        {"qwen3-0.6b", 0.596},        {"qwen3-8b", 8.19},   {"qwen3-30b-a3b", 30.5},
        {"qwen3-next-80b-a3b", 79.7}, {"qwen3.5-9b", 8.95},
    };
    for (const auto& [name, published] : billions) {
        const auto model = synthetic_model(name + ":f16");
        REQUIRE(model.ok());
        INFO(name);
        CHECK(static_cast<double>(model->weights_bytes()) / 2e9 ==
              Approx(published).epsilon(0.005));
    }
}

TEST_CASE("every listed geometry is a file that the loader accepts") {
    const std::string list = synthetic_list();
    int count = 0;
    for (std::size_t at = 0; at < list.size();) {
        const std::size_t end = list.find('\n', at);
        const std::string name = list.substr(at, list.find(' ', at) - at);
        at = end + 1;
        ++count;
        if (!name.ends_with(":q4_k")) continue;  // types change the blocks alone
        INFO(name);
        const auto weights = Weights::open(name, image_of(name, 1));
        REQUIRE(weights.ok());
        const auto config = read_model_config(weights->header());
        REQUIRE(config.ok());
        const Geometry geometry = geometry_of(*config, KvType::f16);
        WeightLoader rehearsal(*weights);
        static_cast<void>(load_decoder({*config, geometry, rehearsal}));
        INFO((rehearsal.refusal() ? rehearsal.refusal()->text : "accepted"));
        CHECK_FALSE(rehearsal.refusal());
        CHECK(weights->tensor_bytes() == synthetic_model(name)->weights_bytes());
    }
    CHECK(count == 35);  // 7 geometries in 5 types
}

TEST_CASE("the state of a synthetic hybrid has its published size") {
    // 36 of 48 layers: 32 matrices of 128 x 128 f32, and 3 rows of 8192 channels.
    const auto weights = Weights::open("next", image_of("qwen3-next-80b-a3b:q4_k", 1));
    REQUIRE(weights.ok());
    const Geometry geometry = geometry_of(*read_model_config(weights->header()), KvType::f16);
    CHECK(geometry.state_bytes() == 36 * (32 * 128 * 128 * 4 + 3 * 8192 * 4));
    CHECK(geometry.kv_bytes_per_token() == 24'576);
}

TEST_CASE(
    "a synthetic model of each architecture and type computes finite logits that its seed fixes") {
    for (const std::string& tiny : kTinyNames) {
        for (const std::string& type : kTypes) {
            const std::string name = tiny + ":" + type;
            INFO(name);
            const auto logits = logits_of(name, 1);
            double least = 0;
            double most = 0;
            for (const float value : logits) {
                REQUIRE(std::isfinite(value));
                least = std::min(least, static_cast<double>(value));
                most = std::max(most, static_cast<double>(value));
            }
            CHECK(most - least > 0.1);  // and not all the same
            CHECK(logits == logits_of(name, 1));
            CHECK(logits != logits_of(name, 2));
        }
    }
}

TEST_CASE("the fingerprint of a synthetic model is that of its sizes and type and seed") {
    const auto fingerprint = [](const std::string& name, std::uint64_t seed) {
        return Weights::open(name, image_of(name, seed))->fingerprint();
    };
    const std::string one = fingerprint("tiny-qwen3:q8_0", 1);
    CHECK(one.size() == 32);
    CHECK(one == fingerprint("tiny-qwen3:q8_0", 1));
    CHECK(one != fingerprint("tiny-qwen3:q8_0", 2));
    CHECK(one != fingerprint("tiny-qwen3:q4_k", 1));
    CHECK(one != fingerprint("tiny-qwen3moe:q8_0", 1));
}

TEST_CASE("random blocks have mean 0 and deviation of a trained weight in every type") {
    const auto device = cpu_device();
    for (const ElementType type :
         {ElementType::f32, ElementType::f16, ElementType::q8_0, ElementType::q4_k,
          ElementType::q6_k, ElementType::iq3_s, ElementType::nvfp4}) {
        INFO(element_type_name(type));
        constexpr std::size_t kElements = 1 << 18;
        const BlockShape block = block_shape(type);
        std::vector<std::byte> bytes(kElements / block.elements * block.bytes);
        fill_pattern(type, Content::matrix, 3, bytes);
        const auto values = device->upload_values({type, kElements, 1, 1, bytes});
        REQUIRE(values.ok());
        double sum = 0;
        double squares = 0;
        for (std::size_t i = 0; i < kElements; ++i) {
            const double value = values->f32()[i];
            REQUIRE(std::isfinite(value));
            sum += value;
            squares += value * value;
        }
        CHECK(std::abs(sum / kElements) < 0.001);
        CHECK(std::sqrt(squares / kElements) == Approx(0.02).epsilon(0.25));
    }
}

TEST_CASE("another name than that of a synthetic model is refused with the names there are") {
    for (const char* name : {"", "qwen3-8b", "qwen3-8b:q5_k", "list", "qwen3-8b:q4_k "}) {
        const auto model = synthetic_model(name);
        REQUIRE_FALSE(model.ok());
        CHECK(model.error().kind == RefusalKind::bad_option);
        CHECK(model.error().text.find("'" + std::string(name) + "'") != std::string::npos);
        CHECK(model.error().text.find("qwen3-next-80b-a3b:q4_k") != std::string::npos);
    }
}

}  // namespace strata::bench
