// The GGUF container (versions 2 and 3, little-endian): header, metadata, tensor table. Both processes
// read model files, so the one parser of this untrusted format lives in the folder both link.
//
// Trusts nothing: every count, length, offset, alignment and type is checked against the file's size
// before it is used in arithmetic or allocation. Tensor data is never touched here.
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

struct StringArray {
    std::vector<std::string> values;
};
// Arrays keep their element kind: integers widen to int64/uint64, floats to double.
using Value = std::variant<bool, std::int64_t, std::uint64_t, double, std::string, StringArray,
                           std::vector<std::int64_t>, std::vector<std::uint64_t>, std::vector<double>,
                           std::vector<bool>>;

struct TensorInfo {
    std::string name;
    std::vector<std::uint64_t> dims;  // ne0 (contiguous) first, 1 to 4 of them
    std::uint32_t type = 0;           // ggml type id, models.md C1
    std::uint64_t offset = 0;         // from data_start, a multiple of the alignment
};

struct Header {
    std::uint32_t version = 0;
    std::uint64_t alignment = 32;
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

// Parses the start of a file of `file_bytes` bytes of which `prefix` is here. When the header goes past
// the prefix (but not past the file), `needs_more` in the error is true.
struct HeaderError {
    std::string text;
    bool needs_more = false;
};
Result<Header, HeaderError> parse_header(std::span<const std::byte> prefix, std::uint64_t file_bytes);

// Reads the header of a file from disk, growing the prefix as needed.
Result<Header> read_header(const std::string& path);

}  // namespace strata::gguf
