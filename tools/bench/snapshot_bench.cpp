// strata-snapshot-bench: how fast this machine moves a conversation between the device and host
// memory. A conversation of `--tokens` rows without a model behind it is parked, checked, restored
// and compared by the code that the engine uses; beside it stands what memcpy alone gives.
//
//   park      new segments of the system, filled and summed up; `fault` is what the system itself
//             takes to hand out as much memory (the floor of every first write)
//   check     checksums of all bytes
//   restore   bytes into pages that are there
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "engine/host/mapped_segments.hpp"
#include "strata/backend/device.hpp"
#include "strata/state/live_session.hpp"

namespace strata::bench {
namespace {

struct BenchOptions {
    std::int64_t threads = 2;
    std::int64_t tokens = 20'000;
    std::int64_t kv_bytes_per_token = 16'384;
    std::int64_t state_mib = 16;  // 0 = no recurrent layers
    std::int64_t repeat = 5;
};

constexpr const char* kUsage =
    "strata-snapshot-bench [options]\n"
    "  --threads N             compute threads of the device (2)\n"
    "  --tokens N              rows of the conversation (20000)\n"
    "  --kv-bytes N            K/V bytes per row; a multiple of 2 (16384)\n"
    "  --state-mib N           running state; 0 = none (16)\n"
    "  --repeat N              rounds; the median is printed (5)\n";

constexpr std::int64_t kNumberMax = 1 << 24;

// A conversation's sizes, and nothing that computes.
class SizesOnly : public Runner {
  public:
    SizesOnly(Device& device, const BenchOptions& options) : device_(&device) {
        geometry_.architecture = "none";
        geometry_.layers = {LayerKind::attention};
        geometry_.k_row_bytes = static_cast<std::size_t>(options.kv_bytes_per_token / 2);
        geometry_.v_row_bytes = geometry_.k_row_bytes;
        if (options.state_mib == 0) return;
        geometry_.layers.push_back(LayerKind::recurrent);
        geometry_.matrix_state_bytes = static_cast<std::size_t>(options.state_mib) << 20;
    }
    const Geometry& geometry() const override { return geometry_; }
    const VocabularyFacts& vocabulary() const override { return facts_; }
    Device& device() override { return *device_; }
    std::int64_t chunk_tokens_max() const override { return kNumberMax; }
    bool forward(const SequenceMemory& memory, Position, std::span<const TokenId> ids,
                 const LastRow&) override {
        const std::vector<std::byte> row(geometry_.k_row_bytes, std::byte{0x5a});
        for (std::size_t i = 0; i < ids.size(); ++i) {
            auto* page = static_cast<std::byte*>(memory.pages[i / 256]);
            device_->copy_from_host(page + i % 256 * row.size(), row.data(), row.size());
        }
        return true;
    }
    void copy_logits(TokenId, std::span<float>) override {}

  private:
    Device* device_;
    Geometry geometry_;
    VocabularyFacts facts_;
};

double seconds(const auto& work) {
    const auto began = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
}

// `work(offset, bytes)` of `bytes` in all, on so many threads.
void in_parts(std::size_t bytes, std::int64_t threads, const auto& work) {
    std::vector<std::jthread> others;
    const std::size_t part = bytes / static_cast<std::size_t>(threads);
    for (std::int64_t i = 1; i < threads; ++i) {
        others.emplace_back([&work, part, i] { work(part * static_cast<std::size_t>(i), part); });
    }
    work(0, part);
}

struct Series {
    const char* name;
    std::vector<double> gb_per_s;

    void print() {
        std::sort(gb_per_s.begin(), gb_per_s.end());
        std::printf("%-10s %6.2f GB/s (%.2f to %.2f)\n", name, gb_per_s[gb_per_s.size() / 2],
                    gb_per_s.front(), gb_per_s.back());
    }
};

int fail(const std::string& why) {
    std::cerr << "strata-snapshot-bench: " << why << '\n';
    return 1;
}

int measure(LiveSession& session, BlobStore& store, const BenchOptions& options) {
    Series copy{"memcpy", {}};
    Series fault{"fault", {}};
    Series park{"park", {}};
    Series check{"check", {}};
    Series restore{"restore", {}};
    for (std::int64_t round = 0; round < options.repeat; ++round) {
        ConversationImage image;
        session.describe(image);
        std::uint64_t bytes = 0;
        const double park_s = seconds([&] {
            const auto captured = session.capture(image);
            if (captured) bytes = captured->bytes;
        });
        if (bytes == 0) return fail("no memory to park");
        const auto rate = [&](double s) { return static_cast<double>(bytes) / s / 1e9; };
        park.gb_per_s.push_back(rate(park_s));
        const Position end = image.end();
        bool good = false;
        check.gb_per_s.push_back(
            rate(seconds([&] { good = session.validate(image, end, {}).ok(); })));
        restore.gb_per_s.push_back(rate(seconds([&] {
            good = good && session.restore(image, end, {}).result == RestoreResult::restored;
        })));
        if (!good || session.differs_from(image, end)) return fail("the bytes changed");
        // The tail that restoring made of the end state.
        if (session.checkpoints().size() > 0) session.drop_checkpoint(0);
        std::vector<HostBlobId> left;
        for (const HostBlob& page : image.pages) left.push_back(page.id);
        left.push_back(image.end_state.id);
        std::sort(left.begin(), left.end());
        session.leave(left);
        if (store.bytes() != 0) return fail("something was left");

        std::vector<std::byte> from(bytes, std::byte{1});
        std::unique_ptr<std::byte[]> to(new std::byte[bytes]);
        const auto copy_part = [&](std::size_t at, std::size_t count) {
            std::memcpy(to.get() + at, from.data() + at, count);
        };
        const auto touch = [&](std::size_t at, std::size_t count) {
            for (std::size_t i = 0; i < count; i += 4096) to[at + i] = std::byte{1};
        };
        fault.gb_per_s.push_back(rate(seconds([&] { in_parts(bytes, options.threads, touch); })));
        copy.gb_per_s.push_back(
            rate(seconds([&] { in_parts(bytes, options.threads, copy_part); })));
    }
    for (Series* each : {&copy, &fault, &park, &check, &restore}) each->print();
    return 0;
}

int run(const BenchOptions& options) {
    auto device = make_cpu_device({static_cast<int>(options.threads), "auto"});
    if (!device) return fail(device.error().text);
    SizesOnly runner(**device, options);
    MappedSegments segments;
    BlobStore store(segments, **device);
    auto session = LiveSession::open(runner, store);
    if (!session) return fail(session.error().text);
    const TokenIds ids(static_cast<std::size_t>(options.tokens), 1);
    if (auto pages = (*session)->reserve(options.tokens); !pages) return fail(pages.error().text);
    if (auto read = (*session)->read(ids, {}); !read) return fail(read.error().text);
    std::printf("%lld tokens of %lld bytes, state %lld MiB, %lld threads\n",
                static_cast<long long>(options.tokens),
                static_cast<long long>(options.kv_bytes_per_token),
                static_cast<long long>(options.state_mib), static_cast<long long>(options.threads));
    return measure(**session, store, options);
}

int parse_and_run(int count, char** arguments) {
    BenchOptions options;
    struct Flag {
        std::string_view name;
        std::int64_t* value;
        std::int64_t least;
    };
    const Flag flags[] = {{"--threads", &options.threads, 1},
                          {"--tokens", &options.tokens, 1},
                          {"--kv-bytes", &options.kv_bytes_per_token, 2},
                          {"--state-mib", &options.state_mib, 0},
                          {"--repeat", &options.repeat, 1}};
    for (int i = 1; i < count; i += 2) {
        const std::string_view name = arguments[i];
        const std::string_view text = i + 1 < count ? arguments[i + 1] : "";
        const auto flag = std::find_if(std::begin(flags), std::end(flags),
                                       [name](const Flag& each) { return each.name == name; });
        if (flag == std::end(flags)) {
            std::cerr << kUsage;
            return name == "--help" ? 0 : 2;
        }
        const auto parsed = std::from_chars(text.data(), text.data() + text.size(), *flag->value);
        if (text.empty() || parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() ||
            *flag->value < flag->least || *flag->value > kNumberMax) {
            std::cerr << "strata-snapshot-bench: " << name << ": " << text
                      << " is not a number from " << flag->least << " to " << kNumberMax << '\n';
            return 2;
        }
    }
    return run(options);
}

}  // namespace
}  // namespace strata::bench

int main(int count, char** arguments) {
    return strata::bench::parse_and_run(count, arguments);
}
