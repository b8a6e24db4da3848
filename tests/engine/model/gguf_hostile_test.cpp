// Files meant to harm: bounded memory and time whatever a count says, and no crash for thousands of
// seeded mutations of a whole small model, from the container to the tensor bytes.
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <new>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "engine/model/model_config.hpp"
#include "engine/model/vocabulary.hpp"
#include "engine/model/weights.hpp"
#include "tests/engine/model/model_metadata.hpp"

using namespace strata;
using test::Bytes;
using test::GgufFile;
using test::Pieces;
using test::ScratchFolder;

namespace {

// Bytes asked of operator new since the last reset; frees do not count, so this bounds the peak
// from above.
std::atomic<std::size_t> allocated_bytes{0};

void* counted_allocation(std::size_t bytes) {
    allocated_bytes += bytes;
    if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) {
    return counted_allocation(bytes);
}
void* operator new[](std::size_t bytes) {
    return counted_allocation(bytes);
}
// A sanitizer brings its own of these two, which do not go with our delete.
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return counted_allocation(bytes);
}
void* operator new[](std::size_t bytes, const std::nothrow_t&) noexcept {
    return counted_allocation(bytes);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete[](void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace {

// The product's promise for headers, in processor time so that a busy machine does not break it.
// Builds that check every access, and those without optimisation, are slower by this much at most.
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
constexpr double kSecondsMax = 1.0;
#else
constexpr double kSecondsMax = 20.0;
#endif

struct Cost {
    std::size_t bytes;
    double seconds;
};

template <class F>
Cost cost_of(const F& work) {
    allocated_bytes = 0;
    const std::clock_t start = std::clock();
    work();
    return {allocated_bytes, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC};
}

Cost cost_of_parsing(const Bytes& bytes, bool parses) {
    return cost_of([&] { REQUIRE(gguf::parse_header(bytes, bytes.size()).ok() == parses); });
}

Pieces head(std::uint64_t tensors, std::uint64_t keys) {
    return Pieces().raw("GGUF").u32(3).u64(tensors).u64(keys);
}

// A small model with vocabulary, end tokens and one tensor of each of several types.
GgufFile small_model() {
    test::Metadata metadata = test::metadata_of("qwen35moe");
    metadata.texts("tokenizer.ggml.tokens", {"a", "b", "system", "<|im_start|>", "<|im_end|>"});
    metadata.array<std::int32_t>("tokenizer.ggml.token_type", 5, {1, 1, 1, 3, 3});
    metadata.u32("tokenizer.ggml.eos_token_id", 4).u32("general.alignment", 32);
    metadata.array<std::uint8_t>("attention.recurrent_layers", 7, std::vector<std::uint8_t>(8, 1));
    GgufFile file = metadata.file();
    file.tensor("token_embd.weight", {32, 4}, 8, 136).tensor("blk.0.attn_norm.weight", {8}, 0, 32);
    return file.tensor("blk.0.ffn_up.weight", {64, 2}, 40, 72)
        .tensor("blk.0.ffn_up.scale", {1}, 0, 4);
}

class Mutator {
  public:
    explicit Mutator(std::uint32_t seed) : random_(seed) {}

    Bytes mutate(Bytes bytes) {
        const std::size_t changes = 1 + below(6);
        for (std::size_t i = 0; i < changes && !bytes.empty(); ++i) change(bytes);
        return bytes;
    }

  private:
    std::size_t below(std::size_t n) { return random_() % n; }

    void change(Bytes& bytes) {
        const std::size_t at = below(bytes.size());
        switch (below(6)) {
            case 0:
                bytes[at] ^= static_cast<std::byte>(1U << below(8));
                break;
            case 1:
                bytes[at] = static_cast<std::byte>(below(256));
                break;
            case 2:
                overwrite(bytes, at);
                break;
            case 3:
                bytes.resize(at);
                break;
            case 4:
                bytes.erase(bytes.begin() + static_cast<std::ptrdiff_t>(at));
                break;
            default:
                std::rotate(bytes.begin() + static_cast<std::ptrdiff_t>(at / 2),
                            bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end());
        }
    }

    void overwrite(Bytes& bytes, std::size_t at) {
        constexpr std::uint64_t kTelling[] = {0,
                                              1,
                                              0x7F,
                                              0xFF,
                                              0x7FFFFFFF,
                                              0xFFFFFFFF,
                                              std::uint64_t{1} << 32,
                                              std::uint64_t{1} << 63,
                                              ~std::uint64_t{0},
                                              3,
                                              9,
                                              13,
                                              64,
                                              65'536};
        const std::uint64_t value = kTelling[below(std::size(kTelling))];
        const std::size_t width = below(2) == 0 ? 4 : 8;
        for (std::size_t i = 0; i < width && at + i < bytes.size(); ++i) {
            bytes[at + i] = static_cast<std::byte>(value >> (8 * i) & 255U);
        }
    }

    std::mt19937 random_;
};

// What every reader makes of a header that parsed; returns true when all of them took it.
bool read_all(const gguf::Header& header) {
    const auto config = read_model_config(header);
    if (!config) REQUIRE_FALSE(config.error().text.empty());
    const auto vocabulary = read_vocabulary(header, config ? config->vocabulary : 512);
    if (!vocabulary) REQUIRE_FALSE(vocabulary.error().text.empty());
    if (!vocabulary || !config) return false;
    for (const TokenId id : vocabulary->end_ids) REQUIRE((id >= 0 && id < config->vocabulary));
    const Geometry geometry = geometry_of(*config, KvType::f32);
    REQUIRE(geometry.layers.size() <= 1'024);
    return true;
}

// Sums every byte that the table says is there: AddressSanitizer or a signal would tell of one that
// is not.
unsigned touch(const Weights& weights) {
    unsigned sum = 0;
    for (const auto& tensor : weights.header().tensors) {
        const auto dim = [&](std::size_t i) {
            return i < tensor.dims.size() ? static_cast<std::int64_t>(tensor.dims[i]) : 1;
        };
        const auto found = weights.find(tensor.name, {dim(0), dim(1), dim(2), dim(3)});
        if (!found) continue;
        for (const std::byte byte : found->bytes) sum += std::to_integer<unsigned>(byte);
        const auto scale = weights.companion_scale(tensor.name, 1);
        sum += scale && !scale->empty() ? 1U : 0U;
    }
    return sum;
}

}  // namespace

TEST_CASE("a hostile count allocates next to nothing") {
    constexpr std::uint64_t kCounts[] = {1'000'000, std::uint64_t{1} << 32, std::uint64_t{1} << 60,
                                         std::uint64_t{1} << 63, ~std::uint64_t{0}};
    constexpr std::size_t kLittle = 64 * 1024;
    for (const std::uint64_t count : kCounts) {
        INFO("count " << count);
        CHECK(cost_of_parsing(head(count, 0).raw("....").bytes, false).bytes < kLittle);
        CHECK(cost_of_parsing(head(0, count).raw("....").bytes, false).bytes < kLittle);
        CHECK(cost_of_parsing(head(0, 1).u64(count).raw("....").bytes, false).bytes < kLittle);
        CHECK(cost_of_parsing(head(0, 1).string("k").u32(8).u64(count).raw("....").bytes, false)
                  .bytes < kLittle);
        CHECK(cost_of_parsing(head(1, 0).u64(count).raw("....").bytes, false).bytes < kLittle);
        for (std::uint32_t element = 0; element < 13; ++element) {
            const Pieces list = head(0, 1).string("k").u32(9).u32(element).u64(count).raw("....");
            CHECK(cost_of_parsing(list.bytes, false).bytes < kLittle);
        }
    }
}

TEST_CASE("a count that fits the file costs no more than its bytes and the allowance") {
    constexpr std::size_t kFileBytes = std::size_t{16} << 20;
    constexpr std::size_t kAllowance = gguf::kExpansionBytesMax + (std::size_t{1} << 20);
    // The worst cases: one byte becomes eight, eight bytes become a string object.
    const Bytes bytes_list =
        head(0, 1).string("k").u32(9).u32(0).u64(kFileBytes).append({Bytes(kFileBytes)}).bytes;
    const Bytes empty_strings =
        head(0, 1).string("k").u32(9).u32(8).u64(kFileBytes / 8).append({Bytes(kFileBytes)}).bytes;
    for (const Bytes* file : {&bytes_list, &empty_strings}) {
        const Cost cost = cost_of_parsing(*file, false);
        CHECK(cost.bytes < kFileBytes + kAllowance);
        CHECK(cost.seconds < kSecondsMax);
    }
    constexpr std::size_t kFitting = std::size_t{3} << 20;
    const Bytes fitting =
        head(0, 1).string("k").u32(9).u32(0).u64(kFitting).append({Bytes(kFitting)}).bytes;
    CHECK(cost_of_parsing(fitting, true).bytes < kFitting + kAllowance);
}

TEST_CASE("many keys and tensors stay within the allowance and a second") {
    GgufFile file;
    for (std::uint64_t i = 0; i < 60'000; ++i) file.u32("key." + std::to_string(i), 1);
    for (std::uint64_t i = 0; i < 100'000; ++i) file.tensor("t" + std::to_string(i), {1}, 0, 4);
    const Bytes bytes = file.bytes();
    const Cost cost = cost_of_parsing(bytes, true);
    CHECK(cost.bytes < bytes.size() + gguf::kExpansionBytesMax);
    CHECK(cost.seconds < kSecondsMax);
}

TEST_CASE("thousands of mutations of a model file never crash a reader") {
    const Bytes original = small_model().bytes();
    const auto whole = gguf::parse_header(original, original.size());
    REQUIRE(whole);
    REQUIRE(read_all(*whole));
    Mutator mutator(20'240'601);
    int parsed = 0;
    int taken = 0;
    for (int i = 0; i < 6'000; ++i) {
        const Bytes mutated = mutator.mutate(original);
        const auto header = gguf::parse_header(mutated, mutated.size());
        if (!header) {
            REQUIRE_FALSE(header.error().needs_more);
            REQUIRE_FALSE(header.error().text.empty());
            continue;
        }
        ++parsed;
        if (read_all(*header)) ++taken;
    }
    // The mutations are of use only when some of them get past each reader and some do not.
    CHECK(parsed > 200);
    CHECK(taken > 50);
    CHECK(taken < parsed);
    CHECK(parsed < 6'000);
}

TEST_CASE("mutated files on disk never lead a tensor outside of its file") {
    const ScratchFolder folder;
    const Bytes original = small_model().bytes();
    Mutator mutator(7);
    int opened = 0;
    for (int i = 0; i < 600; ++i) {
        const auto weights = Weights::open(folder.write("m.gguf", mutator.mutate(original)));
        if (!weights) {
            REQUIRE_FALSE(weights.error().text.empty());
            continue;
        }
        ++opened;
        static_cast<void>(touch(*weights));
        REQUIRE(weights->fingerprint().size() == 32);
        static_cast<void>(weights->main_type());
    }
    CHECK(opened > 20);
}
