// One block of memory on a cache-line boundary, zeroed unless asked otherwise. Move-only.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace strata {

inline constexpr std::size_t kCacheLineBytes = 64;

class AlignedBytes {
  public:
    AlignedBytes() = default;
    // No memory: the object is empty, see operator bool.
    explicit AlignedBytes(std::size_t bytes) : AlignedBytes(bytes, Contents::zero) {}

    // Contents that the owner writes anyway: large memory is then touched once.
    enum class Contents { zero, unset };
    AlignedBytes(std::size_t bytes, Contents contents) {
        if (bytes == 0 || bytes > SIZE_MAX - kCacheLineBytes) return;
        const std::size_t rounded =
            (bytes + kCacheLineBytes - 1) / kCacheLineBytes * kCacheLineBytes;
        start_.reset(static_cast<std::byte*>(std::aligned_alloc(kCacheLineBytes, rounded)));
        if (start_ == nullptr) return;
        if (contents == Contents::zero) std::memset(start_.get(), 0, rounded);
        bytes_ = rounded;
    }
    explicit operator bool() const { return start_ != nullptr; }
    std::byte* get() const { return start_.get(); }
    std::size_t bytes() const { return bytes_; }

  private:
    struct Free {
        void operator()(std::byte* start) const { std::free(start); }
    };
    std::unique_ptr<std::byte, Free> start_;
    std::size_t bytes_ = 0;
};

}  // namespace strata
