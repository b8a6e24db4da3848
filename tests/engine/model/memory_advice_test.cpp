// What is said when a device has too little memory: borders of what fits, the smaller choices, and
// that a load asks before it reads weights.
#include "strata/model/memory_advice.hpp"

#include <memory>
#include <string>
#include <utility>

#include <catch2/catch.hpp>

#include "engine/model/model_config.hpp"
#include "gguf_bytes.hpp"
#include "model_metadata.hpp"
#include "strata/backend/device.hpp"
#include "strata/model/runner.hpp"

namespace strata::test {
namespace {

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr std::uint64_t kPage = 36 * kMib;  // of f16 K/V, as 8B parameters have it

// 5,000 MiB of weights, 1,000 whatever the context, f16 K/V of 4,096 tokens: 16 pages.
DeviceMemoryNeed eight_billion() {
    DeviceMemoryNeed need;
    need.weights_bytes = 5000 * kMib;
    need.fixed_bytes = 1000 * kMib;
    need.context_tokens = 4096;
    need.kv = {KvType::f16, kPage / 256};
    need.others = {{KvType::f32, kPage / 128}};
    need.free_bytes = 6000 * kMib + 16 * kPage;
    return need;
}

ModelConfig llama_config() {
    const auto bytes = metadata_of("llama").file().bytes();
    return read_model_config(*gguf::parse_header(bytes, bytes.size())).value();
}

// A CPU device that says how much is free, and counts what is uploaded.
class TellingDevice final : public Device {
  public:
    explicit TellingDevice(std::uint64_t free) : free_bytes_(free) {}
    DeviceFacts facts() const override {
        return {"telling", "none", static_cast<std::size_t>(free_bytes_), 1};
    }
    Result<Buffer> allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
    Result<std::unique_ptr<Weight>> upload(const StoredTensor& stored) override {
        ++uploads;
        return inner_->upload(stored);
    }
    Result<Buffer> upload_values(const StoredTensor& stored) override {
        return inner_->upload_values(stored);
    }
    void copy_to_host(void* to, const void* from, std::size_t bytes) override {
        inner_->copy_to_host(to, from, bytes);
    }
    void copy_from_host(void* to, const void* from, std::size_t bytes) override {
        inner_->copy_from_host(to, from, bytes);
    }
    void copy_on_device(void* to, const void* from, std::size_t bytes) override {
        inner_->copy_on_device(to, from, bytes);
    }
    void synchronize() override {}
    Ops& ops() override { return inner_->ops(); }

    int uploads = 0;

  private:
    std::uint64_t free_bytes_;
    std::unique_ptr<Device> inner_ = make_cpu_device({1, "auto"}).value();
};

struct Load {
    bool ok = false;
    Refusal refusal;
    int uploads = 0;
};
Load load_demo(std::uint64_t free_bytes, std::int64_t context, std::int64_t unset = 0) {
    TellingDevice device(free_bytes);
    RunnerOptions options;
    options.model_path = STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-q8_0.gguf";
    options.max_context = context;
    options.default_context = unset;
    const auto runner = load_runner(device, options, [](std::uint64_t, std::uint64_t) {});
    return {runner.ok(), runner.ok() ? Refusal{} : runner.error(), device.uploads};
}

std::int64_t advised_context(const std::string& text) {
    const std::size_t at = text.find("--max-context ");
    return at == std::string::npos ? 0 : std::stoll(text.substr(at + 14));
}

std::string advice(const DeviceMemoryNeed& need) {
    return memory_advice(need).value_or("fits");
}

}  // namespace

TEST_CASE("what fits to the byte is not advised about") {
    DeviceMemoryNeed need = eight_billion();
    CHECK(needed_bytes(need) == need.free_bytes);
    CHECK(advice(need) == "fits");
    need.free_bytes = 0;  // unknown
    CHECK(advice(need) == "fits");
}

TEST_CASE("a byte less names what is needed and free and the context that fits") {
    DeviceMemoryNeed need = eight_billion();
    --need.free_bytes;
    CHECK(advice(need) ==
          "needed are 6576 MiB of device memory (weights 5000 MiB, scratch and state 1000 MiB, f16 "
          "K/V of 4096 tokens 576 MiB), free are 6575 MiB; --max-context 3840 fits");
    need.free_bytes = 6000 * kMib + kPage;
    CHECK_THAT(advice(need), Catch::EndsWith("; --max-context 256 fits"));
    --need.free_bytes;
    CHECK_THAT(advice(need), Catch::EndsWith("; no context fits: it takes a smaller model or "
                                             "quantisation, or a device with more memory free"));
    need.free_bytes = 1;
    CHECK_THAT(advice(need), Catch::Contains("no context fits"));
}

TEST_CASE("the context that is advised fits and one more page does not") {
    for (std::uint64_t free = 6000 * kMib + kPage; free < 6000 * kMib + 16 * kPage;
         free += kPage / 3) {
        DeviceMemoryNeed need = eight_billion();
        need.free_bytes = free;
        need.context_tokens = advised_context(advice(need));
        REQUIRE(need.context_tokens > 0);
        CHECK(advice(need) == "fits");
        ++need.context_tokens;
        CHECK(advice(need) != "fits");
    }
}

TEST_CASE("smaller rows of K and V are advised when they allow more") {
    DeviceMemoryNeed need = eight_billion();
    need.kv = need.others.front();  // f32
    need.others = {{KvType::f16, kPage / 256}};
    CHECK_THAT(advice(need),
               Catch::EndsWith("; --max-context 2048 fits, or --max-context 4096 with "
                               "--kv f16"));
    need.free_bytes -= 8 * kPage;  // 4 pages of f32, 8 of f16
    CHECK_THAT(advice(need),
               Catch::EndsWith("; --max-context 1024 fits, or --max-context 2048 with "
                               "--kv f16"));
    need.free_bytes = 6000 * kMib + kPage;  // not one page of f32
    CHECK_THAT(advice(need), Catch::EndsWith("free are 6036 MiB; --max-context 256 with --kv f16 "
                                             "fits"));
    // A context that is no whole number of pages is named as it was asked for.
    need = eight_billion();
    need.kv = need.others.front();
    need.others = {{KvType::f16, kPage / 256}};
    need.context_tokens = 4000;
    CHECK_THAT(advice(need), Catch::EndsWith("or --max-context 4000 with --kv f16"));
}

TEST_CASE("int8 rows are advised where they allow more and not where f16 is enough") {
    DeviceMemoryNeed need = eight_billion();
    need.others = {{KvType::f32, kPage / 128}, {KvType::int8, kPage * 33 / 64 / 256}};
    need.free_bytes = 6000 * kMib + 9 * kPage;  // 9 pages of f16, 17 of int8
    CHECK_THAT(advice(need), Catch::EndsWith("; --max-context 2304 fits, or --max-context 4096 "
                                             "with --kv int8"));
    need.free_bytes = 6000 * kMib + kPage - 1;  // not one page of f16, one of int8
    CHECK_THAT(advice(need), Catch::EndsWith("; --max-context 256 with --kv int8 fits"));
    need.kv = {KvType::f32, kPage / 128};
    need.others = {{KvType::f16, kPage / 256}, {KvType::int8, kPage * 33 / 64 / 256}};
    need.free_bytes = 6000 * kMib + 16 * kPage;  // all of it as f16
    CHECK_THAT(advice(need), Catch::EndsWith("or --max-context 4096 with --kv f16"));
    need.free_bytes -= 1;
    CHECK_THAT(advice(need), Catch::EndsWith("or --max-context 4096 with --kv int8"));
}

TEST_CASE("a load asks for memory before it reads weights and its advice loads") {
    const std::int64_t context = 2048;
    std::uint64_t too_little = 1;
    std::uint64_t enough = std::uint64_t{1} << 40;
    REQUIRE_FALSE(load_demo(too_little, context).ok);
    REQUIRE(load_demo(enough, context).ok);
    while (enough - too_little > 4096) {
        const std::uint64_t middle = too_little + (enough - too_little) / 2;
        (load_demo(middle, context).ok ? enough : too_little) = middle;
    }
    const Load refused = load_demo(too_little, context);
    CHECK(refused.uploads == 0);
    CHECK(refused.refusal.kind == RefusalKind::out_of_memory);
    CHECK_THAT(refused.refusal.text, Catch::Contains("weights") &&
                                         Catch::Contains("f16 K/V of 2048 tokens") &&
                                         Catch::Contains("; --max-context 1792 fits, or ") &&
                                         Catch::EndsWith("--max-context 2048 with --kv int8"));
    CHECK(load_demo(too_little, 1792).ok);
    // Without --max-context the rows that a conversation may have by default are wanted.
    CHECK_FALSE(load_demo(too_little, 0, context).ok);
    CHECK(load_demo(too_little, 0, 1792).ok);
    CHECK(load_demo(0, context).ok);  // unknown
    CHECK_THAT(load_demo(1, context).refusal.text, Catch::Contains("no context fits"));
}

TEST_CASE("a conversation that grows may use the pages that it holds") {
    const Geometry geometry = geometry_of(llama_config(), KvType::f32);
    const auto page = static_cast<std::uint64_t>(geometry.page_bytes());
    CHECK(advice(growth_need(geometry, 3, 1024, page)) == "fits");
    const std::string text = advice(growth_need(geometry, 3, 1025, page));
    CHECK_THAT(text, Catch::Contains("f32 K/V of 1025 tokens") &&
                         Catch::Contains("; --max-context 1024 fits, or --max-context 1025 with "
                                         "--kv f16"));
    CHECK(advice(growth_need(geometry, 3, 1025, 0)) == "fits");  // unknown
}

}  // namespace strata::test
