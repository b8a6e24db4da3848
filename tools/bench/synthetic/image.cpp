#include "tools/bench/synthetic/image.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>
#include <xxhash.h>

#include "tools/bench/synthetic/patterns.hpp"

namespace strata::bench {
namespace {

// Large enough that 45 GB take less than 3,000 mappings (the system allows 65,530), small enough to
// be filled in 20 ms.
constexpr std::size_t kPatternBytesMax = std::size_t{16} << 20;

// Short tensors of a kind, too, begin at that many different places of their pattern.
constexpr std::size_t kShifts = 16;

Failure<Refusal> no_memory(const char* what) {
    return refuse_memory(std::string("synthetic model: ") + what + ": " +
                         std::generic_category().message(errno));
}

std::size_t page_bytes() {
    return static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

std::size_t rounded_up(std::size_t bytes, std::size_t to) {
    return (bytes + to - 1) / to * to;
}

class Descriptor {
  public:
    explicit Descriptor(int number) : number_(number) {}
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&&) = delete;
    ~Descriptor() {
        if (number_ >= 0) ::close(number_);
    }
    int number() const { return number_; }

  private:
    int number_;
};

// Random blocks in memory that can be mapped several times. Its length is a whole number of
// `unit`s, each of them whole pages and whole blocks: behind any unit the next one fits.
struct Pattern {
    Descriptor memory;
    std::size_t unit = 0;
    std::size_t bytes = 0;
};

// `longest`: bytes of the longest tensor that it is for.
Result<Pattern> make_pattern(ElementType type, Content content, std::size_t longest,
                             std::uint64_t seed) {
    const std::size_t unit = std::lcm(page_bytes(), block_shape(type).bytes);
    const std::size_t bytes =
        std::min(kPatternBytesMax / unit * unit, rounded_up(longest, unit) + kShifts * unit);
    Pattern out{Descriptor(::memfd_create("strata-synthetic", MFD_CLOEXEC)), unit, bytes};
    if (out.memory.number() < 0) return no_memory("making a pattern");
    if (::ftruncate(out.memory.number(), static_cast<off_t>(bytes)) != 0) {
        return no_memory("sizing a pattern");
    }
    void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, out.memory.number(), 0);
    if (at == MAP_FAILED) return no_memory("mapping a pattern");
    fill_pattern(type, content, seed, {static_cast<std::byte*>(at), bytes});
    ::munmap(at, bytes);
    return out;
}

using Patterns = std::map<std::pair<ElementType, Content>, Pattern>;

Result<Patterns> make_patterns(const SyntheticModel& model, std::uint64_t seed) {
    std::map<std::pair<ElementType, Content>, std::size_t> longest;
    for (const SyntheticTensor& tensor : model.tensors) {
        std::size_t& bytes = longest[{tensor.type, tensor.content}];
        bytes = std::max(bytes, tensor.bytes());
    }
    Patterns out;
    for (const auto& [kind, bytes] : longest) {
        auto made =
            make_pattern(kind.first, kind.second, bytes, seed * longest.size() + out.size());
        if (!made) return made.failure();
        out.emplace(kind, std::move(made).value());
    }
    return out;
}

// The pieces of a GGUF header (version 3, little-endian).
class HeaderText {
  public:
    template <class T>
    HeaderText& number(T value) {
        std::array<char, sizeof value> bytes{};
        std::memcpy(bytes.data(), &value, sizeof value);
        return raw({bytes.data(), bytes.size()});
    }
    HeaderText& text(std::string_view value) {
        return number(static_cast<std::uint64_t>(value.size())).raw(value);
    }
    HeaderText& raw(std::string_view value) {
        bytes_ += value;
        return *this;
    }
    HeaderText& key(const SyntheticKey& key) {
        constexpr std::uint32_t kU32 = 4;
        constexpr std::uint32_t kF32 = 6;
        constexpr std::uint32_t kText = 8;
        text(key.name);
        if (const auto* word = std::get_if<std::string>(&key.value)) {
            return number(kText).text(*word);
        }
        if (const auto* whole = std::get_if<std::uint32_t>(&key.value)) {
            return number(kU32).number(*whole);
        }
        return number(kF32).number(std::get<float>(key.value));
    }
    const std::string& bytes() const { return bytes_; }

  private:
    std::string bytes_;
};

// Tensors begin at pages, so that patterns can be mapped there.
std::string header_of(const SyntheticModel& model) {
    const auto alignment = static_cast<std::uint32_t>(page_bytes());
    HeaderText out;
    out.raw("GGUF").number(std::uint32_t{3});
    out.number(static_cast<std::uint64_t>(model.tensors.size()));
    out.number(static_cast<std::uint64_t>(model.keys.size() + 1));
    out.key({"general.alignment", alignment});
    for (const SyntheticKey& key : model.keys) out.key(key);
    std::uint64_t offset = 0;
    for (const SyntheticTensor& tensor : model.tensors) {
        out.text(tensor.name).number(static_cast<std::uint32_t>(tensor.dims.size()));
        for (const std::uint64_t dim : tensor.dims) out.number(dim);
        out.number(ggml_type_of(tensor.type)).number(offset);
        offset += rounded_up(tensor.bytes(), alignment);
    }
    return out.bytes();
}

// The header says which tensors there are and the seed what is in them: no need to read them all.
std::string fingerprint_of(const std::string& header, std::uint64_t seed) {
    const XXH128_hash_t hash = XXH3_128bits_withSeed(header.data(), header.size(), seed);
    std::array<char, 33> out{};
    (void)std::snprintf(out.data(), out.size(), "%016llx%016llx",
                        static_cast<unsigned long long>(hash.high64),
                        static_cast<unsigned long long>(hash.low64));
    return out.data();
}

// Address space of the whole file, until the last owner goes. Nothing can be read there before a
// header or a pattern is put there, so the system need not promise memory for it.
class AddressSpace {
  public:
    explicit AddressSpace(std::size_t bytes) : bytes_(bytes) {
        void* at = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (at != MAP_FAILED) at_ = static_cast<std::byte*>(at);
    }
    AddressSpace(const AddressSpace&) = delete;
    AddressSpace& operator=(const AddressSpace&) = delete;
    ~AddressSpace() {
        if (at_ != nullptr) ::munmap(at_, bytes_);
    }
    std::byte* at() const { return at_; }
    std::size_t bytes() const { return bytes_; }

  private:
    std::byte* at_ = nullptr;
    std::size_t bytes_;
};

// Lays `pattern` over [to, to + bytes), beginning with its unit `first`.
Status<> lay(const Pattern& pattern, std::size_t first, std::byte* to, std::size_t bytes) {
    std::size_t from = first % (pattern.bytes / pattern.unit) * pattern.unit;
    for (std::size_t done = 0; done < bytes;) {
        const std::size_t piece = std::min(bytes - done, pattern.bytes - from);
        void* at = ::mmap(to + done, piece, PROT_READ, MAP_SHARED | MAP_FIXED,
                          pattern.memory.number(), static_cast<off_t>(from));
        if (at == MAP_FAILED) return no_memory("mapping a tensor");
        done += piece;
        from = 0;
    }
    return Done{};
}

}  // namespace

Result<ModelImage> map_synthetic(const SyntheticModel& model, std::uint64_t seed) {
    const std::string header = header_of(model);
    const std::size_t header_end = rounded_up(header.size(), page_bytes());
    std::size_t end = header_end;
    std::vector<std::size_t> starts;
    for (const SyntheticTensor& tensor : model.tensors) {
        starts.push_back(end);
        end += rounded_up(tensor.bytes(), page_bytes());
    }
    const auto space = std::make_shared<const AddressSpace>(end);
    if (space->at() == nullptr) return no_memory("reserving its address space");
    if (::mprotect(space->at(), header_end, PROT_READ | PROT_WRITE) != 0)
        return no_memory("its header");
    std::memcpy(space->at(), header.data(), header.size());
    auto patterns = make_patterns(model, seed);
    if (!patterns) return patterns.failure();
    for (std::size_t i = 0; i < model.tensors.size(); ++i) {
        const SyntheticTensor& tensor = model.tensors[i];
        const Pattern& pattern = patterns->at({tensor.type, tensor.content});
        const std::size_t bytes = rounded_up(tensor.bytes(), page_bytes());
        if (auto laid = lay(pattern, i, space->at() + starts[i], bytes); !laid) {
            return laid.failure();
        }
    }
    return ModelImage{{space->at(), space->bytes()}, space, fingerprint_of(header, seed)};
}

}  // namespace strata::bench
