// The parser behind gguf.hpp: one forward pass over the prefix with a cursor that cannot leave it.
// Owns the limits of the container; what a key means is for the rooms that read it.
//
// Invariants
// 1. No byte is read before `Cursor::require` said that it is in the prefix.
// 2. Nothing is allocated for a count before its smallest encoding was found to fit the prefix, and
//    its cost beyond those bytes was charged to the expansion budget.
// 3. A header that parses names only tensors whose bytes lie inside the file.
#include "protocol/gguf/gguf.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include "strata/core/checked.hpp"

namespace strata::gguf {
namespace {

static_assert(std::endian::native == std::endian::little,
              "values are copied as they lie in the file");

constexpr std::size_t kPrefixBytesFirst = std::size_t{1}
                                          << 20;  // most headers but the vocabulary's
constexpr std::size_t kPrefixGrowth = 4;

enum ValueType : std::uint32_t {
    kU8,
    kI8,
    kU16,
    kI16,
    kU32,
    kI32,
    kF32,
    kBool,
    kString,
    kArray,
    kU64,
    kI64,
    kF64,
    kValueTypes,
};

// What one decoded thing costs in memory beyond its bytes in the file (measured with libstdc++ on
// 64 bits, rounded up): object, heap block, tree node.
constexpr std::size_t kStringCostBytes = 48;
constexpr std::size_t kPairCostBytes = 192;
constexpr std::size_t kTensorCostBytes = 160;

// Smallest encodings: an empty string; a pair with a one-byte key and value; a tensor with a
// one-byte name and one dimension.
constexpr std::uint64_t kStringBytesMin = 8;
constexpr std::uint64_t kPairBytesMin = 8 + 1 + 4 + 1;
constexpr std::uint64_t kTensorBytesMin = 8 + 1 + 4 + 8 + 4 + 8;

using Fault = Failure<HeaderError>;

Fault fault(std::string text) {
    return {HeaderError{std::move(text), false}};
}

class Cursor {
  public:
    Cursor(std::span<const std::byte> prefix, std::uint64_t file_bytes)
        : prefix_(prefix), end_(std::min(file_bytes, kHeaderBytesMax)), file_bytes_(file_bytes) {}

    std::uint64_t position() const { return position_; }
    std::uint64_t file_bytes() const { return file_bytes_; }

    // The next `count` things of `unit` bytes each are in the prefix.
    Status<HeaderError> require(std::uint64_t count, std::uint64_t unit,
                                const std::string& what) const {
        const auto bytes = checked_mul(count, unit);
        if (!bytes || *bytes > end_ - position_) {
            return fault(what + " needs " + std::to_string(count) + " x " + std::to_string(unit) +
                         " bytes at offset " + std::to_string(position_) + ", but only " +
                         std::to_string(end_ - position_) + " are left of " +
                         (end_ < file_bytes_ ? "the largest header allowed (" : "the file (") +
                         std::to_string(end_) + " bytes)");
        }
        if (*bytes > prefix_.size() - position_) {
            return Fault{HeaderError{what + " goes past the part of the file that was read", true}};
        }
        return Done{};
    }

    // Takes `bytes` of memory beyond the file's own bytes from the budget.
    Status<HeaderError> charge(std::uint64_t count, std::size_t bytes, const std::string& what) {
        const auto cost = checked_mul<std::uint64_t>(count, bytes);
        if (!cost || *cost > kExpansionBytesMax - charged_) {
            return fault(what + " would take more memory than the file's header may (" +
                         std::to_string(kExpansionBytesMax) + " bytes beyond its own size)");
        }
        charged_ += *cost;
        return Done{};
    }

    // Precondition: require() said yes for sizeof(T).
    template <class T>
    T take() {
        T value{};
        std::memcpy(&value, prefix_.data() + position_, sizeof value);
        position_ += sizeof value;
        return value;
    }

    template <class T>
    Result<T, HeaderError> number(const std::string& what) {
        if (auto here = require(1, sizeof(T), what); !here) return here.failure();
        return take<T>();
    }

    Result<std::string, HeaderError> string(const std::string& what) {
        const auto length = number<std::uint64_t>(what);
        if (!length) return length.failure();
        if (auto here = require(*length, 1, what); !here) return here.failure();
        std::string out(static_cast<std::size_t>(*length), '\0');
        if (!out.empty()) std::memcpy(out.data(), prefix_.data() + position_, out.size());
        position_ += *length;
        return out;
    }

  private:
    std::span<const std::byte> prefix_;
    std::uint64_t end_;  // first byte a header may not use
    std::uint64_t file_bytes_;
    std::uint64_t position_ = 0;
    std::uint64_t charged_ = 0;
};

template <class T>
using Wide =
    std::conditional_t<std::is_floating_point_v<T>, double,
                       std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>;

template <class T>
Result<Value, HeaderError> scalar(Cursor& in, const std::string& what) {
    const auto value = in.number<T>(what);
    if (!value) return value.failure();
    return Value{static_cast<Wide<T>>(*value)};
}

template <class T>
Result<Value, HeaderError> numbers(Cursor& in, std::uint64_t count, const std::string& what) {
    if (auto here = in.require(count, sizeof(T), what); !here) return here.failure();
    if (auto paid = in.charge(count, sizeof(Wide<T>), what); !paid) return paid.failure();
    std::vector<Wide<T>> out(static_cast<std::size_t>(count));
    for (auto& value : out) value = static_cast<Wide<T>>(in.take<T>());
    return Value{std::move(out)};
}

Result<bool, HeaderError> boolean(Cursor& in, const std::string& what) {
    const auto byte = in.number<std::uint8_t>(what);
    if (!byte) return byte.failure();
    if (*byte > 1)
        return fault(what + " is the bool " + std::to_string(*byte) + "; allowed are 0 and 1");
    return *byte == 1;
}

Result<Value, HeaderError> booleans(Cursor& in, std::uint64_t count, const std::string& what) {
    if (auto here = in.require(count, 1, what); !here) return here.failure();
    std::vector<bool> out(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < out.size(); ++i) {
        const auto value = boolean(in, what);
        if (!value) return value.failure();
        out[i] = *value;
    }
    return Value{std::move(out)};
}

Result<Value, HeaderError> strings(Cursor& in, std::uint64_t count, const std::string& what) {
    if (auto here = in.require(count, kStringBytesMin, what); !here) return here.failure();
    if (auto paid = in.charge(count, kStringCostBytes, what); !paid) return paid.failure();
    StringArray out;
    out.values.reserve(static_cast<std::size_t>(count));
    for (std::uint64_t i = 0; i < count; ++i) {
        auto text = in.string(what);
        if (!text) return text.failure();
        out.values.push_back(std::move(text).value());
    }
    return Value{std::move(out)};
}

Fault unknown_value_type(const std::string& what, std::uint32_t type) {
    return fault(what + " has the value type " + std::to_string(type) + "; allowed are 0 to " +
                 std::to_string(kValueTypes - 1));
}

Result<Value, HeaderError> array(Cursor& in, const std::string& what) {
    const auto element = in.number<std::uint32_t>(what);
    if (!element) return element.failure();
    const auto count = in.number<std::uint64_t>(what);
    if (!count) return count.failure();
    switch (*element) {
        case kU8:
            return numbers<std::uint8_t>(in, *count, what);
        case kI8:
            return numbers<std::int8_t>(in, *count, what);
        case kU16:
            return numbers<std::uint16_t>(in, *count, what);
        case kI16:
            return numbers<std::int16_t>(in, *count, what);
        case kU32:
            return numbers<std::uint32_t>(in, *count, what);
        case kI32:
            return numbers<std::int32_t>(in, *count, what);
        case kF32:
            return numbers<float>(in, *count, what);
        case kBool:
            return booleans(in, *count, what);
        case kString:
            return strings(in, *count, what);
        case kArray:
            return fault(what + " is an array of arrays; arrays hold numbers, bools or strings");
        case kU64:
            return numbers<std::uint64_t>(in, *count, what);
        case kI64:
            return numbers<std::int64_t>(in, *count, what);
        case kF64:
            return numbers<double>(in, *count, what);
        default:
            return unknown_value_type(what, *element);
    }
}

Result<Value, HeaderError> value_of(Cursor& in, std::uint32_t type, const std::string& what) {
    switch (type) {
        case kU8:
            return scalar<std::uint8_t>(in, what);
        case kI8:
            return scalar<std::int8_t>(in, what);
        case kU16:
            return scalar<std::uint16_t>(in, what);
        case kI16:
            return scalar<std::int16_t>(in, what);
        case kU32:
            return scalar<std::uint32_t>(in, what);
        case kI32:
            return scalar<std::int32_t>(in, what);
        case kF32:
            return scalar<float>(in, what);
        case kBool: {
            const auto value = boolean(in, what);
            if (!value) return value.failure();
            return Value{*value};
        }
        case kString: {
            auto value = in.string(what);
            if (!value) return value.failure();
            return Value{std::move(value).value()};
        }
        case kArray:
            return array(in, what);
        case kU64:
            return scalar<std::uint64_t>(in, what);
        case kI64:
            return scalar<std::int64_t>(in, what);
        case kF64:
            return scalar<double>(in, what);
        default:
            return unknown_value_type(what, type);
    }
}

Status<HeaderError> read_metadata(Cursor& in, std::uint64_t count, Header& header) {
    if (count > kPairsMax) {
        return fault("the file claims " + std::to_string(count) + " metadata keys; at most " +
                     std::to_string(kPairsMax) + " are allowed");
    }
    if (auto here = in.require(count, kPairBytesMin, "the metadata"); !here) return here;
    if (auto paid = in.charge(count, kPairCostBytes, "the metadata"); !paid) return paid;
    for (std::uint64_t i = 0; i < count; ++i) {
        const std::string which = "metadata key " + std::to_string(i);
        auto key = in.string(which);
        if (!key) return key.failure();
        if (key->empty() || key->size() > kKeyBytesMax) {
            return fault(which + " is " + std::to_string(key->size()) +
                         " bytes long; allowed are 1 to " + std::to_string(kKeyBytesMax));
        }
        const std::string what = "metadata " + in_quotes(*key);
        const auto type = in.number<std::uint32_t>(what);
        if (!type) return type.failure();
        auto value = value_of(in, *type, what);
        if (!value) return value.failure();
        if (!header.metadata.emplace(std::move(key).value(), std::move(value).value()).second) {
            return fault(what + " occurs twice");
        }
    }
    return Done{};
}

Result<std::uint64_t, HeaderError> alignment_of(const Header& header) {
    constexpr std::string_view kKey = "general.alignment";
    if (header.find(kKey) == nullptr) return kAlignmentDefault;
    const auto value = header.unsigned_value(kKey);
    if (!value) return fault(value.error().text);
    if (!std::has_single_bit(*value) || *value < 8 || *value > kAlignmentMax) {
        return fault("general.alignment is " + std::to_string(*value) +
                     "; allowed is a power of two from 8 to " + std::to_string(kAlignmentMax));
    }
    return *value;
}

Status<HeaderError> read_dims(Cursor& in, const std::string& what, TensorInfo& tensor) {
    const auto count = in.number<std::uint32_t>(what);
    if (!count) return count.failure();
    if (*count < 1 || *count > kDimsMax) {
        return fault(what + " has " + std::to_string(*count) + " dimensions; allowed are 1 to " +
                     std::to_string(kDimsMax));
    }
    if (auto here = in.require(*count, sizeof(std::uint64_t), what); !here) return here;
    tensor.dims.resize(*count);
    std::uint64_t elements = 1;
    for (auto& dim : tensor.dims) {
        dim = in.take<std::uint64_t>();
        const auto product = checked_mul(elements, dim);
        if (dim == 0 || !product || *product > kElementsMax) {
            return fault(what + " has a dimension of " + std::to_string(dim) +
                         "; allowed are 1 or more, in all at most " + std::to_string(kElementsMax) +
                         " elements");
        }
        elements = *product;
    }
    return Done{};
}

Status<HeaderError> read_tensor(Cursor& in, const std::string& which, TensorInfo& tensor) {
    auto name = in.string(which);
    if (!name) return name.failure();
    if (name->empty() || name->size() > kTensorNameBytesMax) {
        return fault(which + " has a name of " + std::to_string(name->size()) +
                     " bytes; allowed are 1 to " + std::to_string(kTensorNameBytesMax));
    }
    tensor.name = std::move(name).value();
    const std::string what = "tensor " + in_quotes(tensor.name);
    if (auto dims = read_dims(in, what, tensor); !dims) return dims;
    const auto type = in.number<std::uint32_t>(what);
    if (!type) return type.failure();
    const auto offset = in.number<std::uint64_t>(what);
    if (!offset) return offset.failure();
    tensor.type = *type;
    tensor.offset = *offset;
    return Done{};
}

Status<HeaderError> read_tensors(Cursor& in, std::uint64_t count, Header& header) {
    if (count > kTensorsMax) {
        return fault("the file claims " + std::to_string(count) + " tensors; at most " +
                     std::to_string(kTensorsMax) + " are allowed");
    }
    if (auto here = in.require(count, kTensorBytesMin, "the tensor table"); !here) return here;
    if (auto paid = in.charge(count, kTensorCostBytes, "the tensor table"); !paid) return paid;
    header.tensors.resize(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < header.tensors.size(); ++i) {
        const std::string which = "tensor " + std::to_string(i);
        if (auto read = read_tensor(in, which, header.tensors[i]); !read) return read;
    }
    std::vector<std::string_view> names;
    names.reserve(header.tensors.size());
    for (const auto& tensor : header.tensors) names.push_back(tensor.name);
    std::sort(names.begin(), names.end());
    const auto twin = std::adjacent_find(names.begin(), names.end());
    if (twin != names.end()) return fault("tensor " + in_quotes(*twin) + " occurs twice");
    return Done{};
}

// Invariant 3.
Status<HeaderError> check_placement(const Header& header, std::uint64_t file_bytes) {
    for (const auto& tensor : header.tensors) {
        const std::string what = "tensor " + in_quotes(tensor.name);
        const auto bytes = stored_bytes(tensor);
        if (!bytes) return fault(bytes.error().text);
        if (tensor.offset % header.alignment != 0) {
            return fault(what + " lies at offset " + std::to_string(tensor.offset) +
                         ", which is no multiple of the alignment " +
                         std::to_string(header.alignment));
        }
        const auto start = checked_add(header.data_start, tensor.offset);
        const auto end = start ? checked_add(*start, *bytes) : std::nullopt;
        if (!end || *end > file_bytes) {
            return fault(what + " lies at offset " + std::to_string(tensor.offset) + " with " +
                         std::to_string(*bytes) + " bytes, but the tensors of this file have " +
                         std::to_string(file_bytes - std::min(file_bytes, header.data_start)) +
                         " bytes");
        }
    }
    return Done{};
}

Result<std::uint32_t, HeaderError> read_version(Cursor& in) {
    if (auto here = in.require(1, 8, "the GGUF magic and version"); !here) return here.failure();
    constexpr std::uint32_t kMagic = 0x46554747;  // the bytes "GGUF"
    if (in.take<std::uint32_t>() != kMagic)
        return fault("not a GGUF file: it does not start with \"GGUF\"");
    const auto version = in.take<std::uint32_t>();
    if (version == 2 || version == 3) return version;
    if (version == 0x02000000 || version == 0x03000000) {
        return fault("a big-endian GGUF file; only little-endian files can be read");
    }
    return fault("GGUF version " + std::to_string(version) + "; versions 2 and 3 can be read");
}

Failure<Refusal> missing_or_mistyped(const Value* value, std::string_view key, const char* kind) {
    const std::string name = "metadata key " + in_quotes(key);
    if (value == nullptr) return refuse(name + " is missing; it must be " + kind);
    return refuse(name + " has another type; it must be " + kind);
}

}  // namespace

Result<Header, HeaderError> parse_header(std::span<const std::byte> prefix,
                                         std::uint64_t file_bytes) {
    if (prefix.size() > file_bytes) prefix = prefix.first(static_cast<std::size_t>(file_bytes));
    Cursor in(prefix, file_bytes);
    Header header;
    const auto version = read_version(in);
    if (!version) return version.failure();
    header.version = *version;
    const auto tensors = in.number<std::uint64_t>("the tensor count");
    if (!tensors) return tensors.failure();
    const auto pairs = in.number<std::uint64_t>("the metadata count");
    if (!pairs) return pairs.failure();
    if (auto read = read_metadata(in, *pairs, header); !read) return read.failure();
    const auto alignment = alignment_of(header);
    if (!alignment) return alignment.failure();
    header.alignment = *alignment;
    if (auto read = read_tensors(in, *tensors, header); !read) return read.failure();
    // Cannot overflow: a header ends below kHeaderBytesMax and the alignment is at most
    // kAlignmentMax.
    header.data_start = *checked_round_up(in.position(), header.alignment);
    if (auto placed = check_placement(header, file_bytes); !placed) return placed.failure();
    return header;
}

Result<Header> read_header(const std::string& path) {
    const std::string which = "model file " + in_quotes(path);
    std::error_code error;
    if (!std::filesystem::is_regular_file(path, error)) {
        return refuse(which +
                      (error ? ": " + error.message() : std::string(" is not a regular file")));
    }
    const std::uint64_t file_bytes = std::filesystem::file_size(path, error);
    if (error) return refuse(which + ": " + error.message());
    std::ifstream file(path, std::ios::binary);
    if (!file) return refuse(which + " cannot be opened for reading");
    std::vector<std::byte> prefix;
    std::uint64_t wanted = kPrefixBytesFirst;
    while (true) {
        const std::size_t have = prefix.size();
        prefix.resize(static_cast<std::size_t>(std::min({wanted, file_bytes, kHeaderBytesMax})));
        file.read(reinterpret_cast<char*>(prefix.data() + have),
                  static_cast<std::streamsize>(prefix.size() - have));
        if (!file)
            return refuse(which + " could not be read up to byte " + std::to_string(prefix.size()));
        auto header = parse_header(prefix, file_bytes);
        if (header) return std::move(header).value();
        if (!header.error().needs_more) return refuse(which + ": " + header.error().text);
        wanted *= kPrefixGrowth;
    }
}

const Value* Header::find(std::string_view key) const {
    const auto at = metadata.find(key);
    return at == metadata.end() ? nullptr : &at->second;
}

Result<std::uint64_t> Header::unsigned_value(std::string_view key) const {
    const Value* value = find(key);
    if (value != nullptr) {
        if (const auto* number = std::get_if<std::uint64_t>(value)) return *number;
        // Some writers use signed types for counts and ids.
        const auto* number = std::get_if<std::int64_t>(value);
        if (number != nullptr && *number >= 0) return static_cast<std::uint64_t>(*number);
    }
    return missing_or_mistyped(value, key, "an integer of 0 or more");
}

Result<double> Header::float_value(std::string_view key) const {
    const Value* value = find(key);
    if (value != nullptr) {
        if (const auto* number = std::get_if<double>(value)) return *number;
    }
    return missing_or_mistyped(value, key, "a float");
}

Result<std::string> Header::string_value(std::string_view key) const {
    const Value* value = find(key);
    if (value != nullptr) {
        if (const auto* text = std::get_if<std::string>(value)) return *text;
    }
    return missing_or_mistyped(value, key, "a string");
}

Result<bool> Header::bool_value(std::string_view key) const {
    const Value* value = find(key);
    if (value != nullptr) {
        if (const auto* flag = std::get_if<bool>(value)) return *flag;
    }
    return missing_or_mistyped(value, key, "a bool");
}

}  // namespace strata::gguf
