// A file mapped read-only into memory for as long as the object lives. Nothing here looks inside
// it. A file that shrinks while it is mapped raises SIGBUS on the next read past its end; the
// program's main turns that into a message.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "strata/core/result.hpp"

namespace strata {

class MappedFile {
  public:
    // Refuses what is not a regular, non-empty, readable file. `kind`: what refusals call it.
    static Result<MappedFile> open(const std::string& path, std::string_view kind = "model file");
    MappedFile(MappedFile&& other) noexcept
        : address_(std::exchange(other.address_, nullptr)),
          bytes_(std::exchange(other.bytes_, 0)) {}
    MappedFile& operator=(MappedFile&& other) noexcept;
    MappedFile(const MappedFile&) = delete;
    MappedFile& operator=(const MappedFile&) = delete;
    ~MappedFile();

    std::span<const std::byte> bytes() const {
        return {static_cast<const std::byte*>(address_), bytes_};
    }

  private:
    MappedFile(void* address, std::size_t bytes) : address_(address), bytes_(bytes) {}

    void* address_;
    std::size_t bytes_;
};

}  // namespace strata
