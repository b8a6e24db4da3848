// The GGUF container (versions 2 and 3, little-endian): header, metadata, tensor table. Both
// processes read model files, so the one parser of this untrusted format lives where both can link
// it.
//
// Trusts nothing: every count, length, offset, alignment and type is checked against the file's
// size before it is used in arithmetic or allocation. Tensor data is never touched here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/core/result.hpp"

namespace strata::gguf {

// Limits of a header. Real files stay below: the largest vocabularies of our architectures take
// about 12 MiB and 500,000 strings, the largest unstacked expert models about 20,000 tensors. 32
// MiB beyond the file's own size is what any bad input may cost.
inline constexpr std::uint64_t kHeaderBytesMax = std::uint64_t{64} << 20;
// Memory that decoding may take beyond the bytes that it decodes.
inline constexpr std::uint64_t kExpansionBytesMax = std::uint64_t{32} << 20;
inline constexpr std::uint64_t kPairsMax = 65'536;
inline constexpr std::uint64_t kTensorsMax = 131'072;
inline constexpr std::size_t kKeyBytesMax = 65'535;                    // of the format
inline constexpr std::size_t kTensorNameBytesMax = 64;                 // of the format
inline constexpr std::uint32_t kDimsMax = 4;                           // of the format
inline constexpr std::uint64_t kElementsMax = std::uint64_t{1} << 48;  // of one tensor
inline constexpr std::uint64_t kAlignmentDefault = 32;                 // of the format
inline constexpr std::uint64_t kAlignmentMax = 65'536;  // the largest page size in use

struct StringArray {
    std::vector<std::string> values;
};
// Arrays keep their element kind: integers widen to int64/uint64, floats to double.
using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, StringArray,
                           std::vector<std::int64_t>, std::vector<std::uint64_t>,
                           std::vector<double>, std::vector<bool>>;

struct TensorInfo {
    std::string name;
    std::vector<std::uint64_t> dims;  // ne0 (contiguous) first, 1 to 4 of them
    std::uint32_t type = 0;           // ggml type id, see type_facts()
    std::uint64_t offset = 0;         // from data_start, a multiple of the alignment
};

// A ggml tensor type: its name and its block. block_bytes 0: the format exists, its layout is not
// known here.
struct TypeFacts {
    std::string_view name;
    std::uint32_t block_elements = 0;
    std::uint32_t block_bytes = 0;
};
// nullptr for an id that is none.
const TypeFacts* type_facts(std::uint32_t type);
// Bytes of a tensor in the file. Refuses an unknown type and rows that are not whole blocks.
Result<std::uint64_t> stored_bytes(const TensorInfo& tensor);

// `text` in double quotes for a message: at most 80 bytes of it, everything but printable ASCII
// escaped.
std::string in_quotes(std::string_view text);

struct Header {
    std::uint32_t version = 0;
    std::uint64_t alignment = kAlignmentDefault;
    std::uint64_t data_start = 0;  // offset of the data section in the file
    std::map<std::string, Value, std::less<>> metadata;
    std::vector<TensorInfo> tensors;

    const Value* find(std::string_view key) const;
    // Typed look-ups; a missing key or another type is a refusal that names the key and its type.
    Result<std::uint64_t> unsigned_value(std::string_view key) const;
    Result<double> float_value(std::string_view key) const;
    Result<std::string> string_value(std::string_view key) const;
    Result<bool> bool_value(std::string_view key) const;
};

// Parses the start of a file of `file_bytes` bytes of which `prefix` is here. When the header goes
// past the prefix (but not past the file), `needs_more` in the error is true.
struct HeaderError {
    std::string text;
    bool needs_more = false;
};
Result<Header, HeaderError> parse_header(std::span<const std::byte> prefix,
                                         std::uint64_t file_bytes);

// Reads the header of a file from disk, growing the prefix as needed.
Result<Header> read_header(const std::string& path);

}  // namespace strata::gguf
