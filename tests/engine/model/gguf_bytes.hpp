// GGUF files by hand: the bytes that a well-formed writer would write, and the raw pieces to write
// a bad one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <stdlib.h>

namespace strata::test {

using Bytes = std::vector<std::byte>;

// Little-endian pieces, one after the other.
class Pieces {
  public:
    template <class T>
    Pieces& number(T value) {
        return raw({reinterpret_cast<const char*>(&value), sizeof value});
    }
    Pieces& u32(std::uint32_t value) { return number(value); }
    Pieces& u64(std::uint64_t value) { return number(value); }
    Pieces& raw(std::string_view text) {
        for (const char c : text) bytes.push_back(static_cast<std::byte>(c));
        return *this;
    }
    Pieces& string(std::string_view text) { return u64(text.size()).raw(text); }
    Pieces& append(const Pieces& other) {
        for (const std::byte b : other.bytes) bytes.push_back(b);
        return *this;
    }
    Pieces& pad_to(std::size_t multiple) {
        bytes.resize((bytes.size() + multiple - 1) / multiple * multiple);
        return *this;
    }

    Bytes bytes;
};

// A whole file: keys and tensors in the order given, tensors of zero bytes unless given.
class GgufFile {
  public:
    std::uint32_t version = 3;
    std::size_t alignment = 32;  // of what is written; the key is the test's to add

    GgufFile& key(std::string_view name, std::uint32_t type, const Pieces& value) {
        keys_.string(name).u32(type).append(value);
        ++key_count_;
        return *this;
    }
    GgufFile& u32(std::string_view name, std::uint32_t value) {
        return key(name, 4, Pieces().u32(value));
    }
    GgufFile& u16(std::string_view name, std::uint16_t value) {
        return key(name, 2, Pieces().number(value));
    }
    GgufFile& i32(std::string_view name, std::int32_t value) {
        return key(name, 5, Pieces().number(value));
    }
    GgufFile& f32(std::string_view name, float value) {
        return key(name, 6, Pieces().number(value));
    }
    GgufFile& flag(std::string_view name, bool value) {
        return key(name, 7, Pieces().number(static_cast<std::uint8_t>(value)));
    }
    GgufFile& text(std::string_view name, std::string_view value) {
        return key(name, 8, Pieces().string(value));
    }
    GgufFile& texts(std::string_view name, const std::vector<std::string>& values) {
        Pieces list;
        list.u32(8).u64(values.size());
        for (const auto& value : values) list.string(value);
        return key(name, 9, list);
    }
    template <class T>
    GgufFile& array(std::string_view name, std::uint32_t element, const std::vector<T>& values) {
        Pieces list;
        list.u32(element).u64(values.size());
        for (const T value : values) list.number(value);
        return key(name, 9, list);
    }
    GgufFile& tensor(std::string_view name, const std::vector<std::uint64_t>& dims,
                     std::uint32_t type, std::size_t bytes) {
        return tensor(name, dims, type, Bytes(bytes));
    }
    GgufFile& tensor(std::string_view name, const std::vector<std::uint64_t>& dims,
                     std::uint32_t type, const Bytes& bytes) {
        table_.string(name).u32(static_cast<std::uint32_t>(dims.size()));
        for (const auto dim : dims) table_.u64(dim);
        table_.u32(type).u64(contents_.bytes.size());
        for (const std::byte b : bytes) contents_.bytes.push_back(b);
        contents_.pad_to(alignment);
        ++tensor_count_;
        return *this;
    }

    Bytes header() const {
        Pieces out;
        out.raw("GGUF").u32(version).u64(tensor_count_).u64(key_count_);
        return out.append(keys_).append(table_).bytes;
    }
    Bytes bytes() const {
        Pieces out;
        out.bytes = header();
        return out.pad_to(alignment).append(contents_).bytes;
    }

  private:
    Pieces keys_;
    Pieces table_;
    Pieces contents_;
    std::uint64_t key_count_ = 0;
    std::uint64_t tensor_count_ = 0;
};

// A folder of its own for one test, removed at its end.
class ScratchFolder {
  public:
    ScratchFolder() {
        std::string pattern =
            (std::filesystem::temp_directory_path() / "strata-test-XXXXXX").string();
        path_ = ::mkdtemp(pattern.data());
    }
    ScratchFolder(const ScratchFolder&) = delete;
    ScratchFolder& operator=(const ScratchFolder&) = delete;
    ~ScratchFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }
    std::string path(std::string_view name) const { return (path_ / name).string(); }
    std::string write(std::string_view name, const Bytes& bytes) const {
        std::ofstream file(path_ / name, std::ios::binary);
        file.write(reinterpret_cast<const char*>(bytes.data()),
                   static_cast<std::streamsize>(bytes.size()));
        return path(name);
    }

  private:
    std::filesystem::path path_;
};

}  // namespace strata::test
