#include "engine/model/mapped_file.hpp"

#include <cerrno>
#include <system_error>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "protocol/gguf/gguf.hpp"

namespace strata {
namespace {

std::string last_error() {
    return std::generic_category().message(errno);
}

// Closes the descriptor at the end of open(); a mapping outlives it.
class OpenFile {
  public:
    explicit OpenFile(const std::string& path)
        : descriptor_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {}
    OpenFile(const OpenFile&) = delete;
    OpenFile& operator=(const OpenFile&) = delete;
    ~OpenFile() {
        if (descriptor_ >= 0) ::close(descriptor_);
    }
    int descriptor() const { return descriptor_; }

  private:
    int descriptor_;
};

}  // namespace

Result<MappedFile> MappedFile::open(const std::string& path, std::string_view kind) {
    const std::string which = std::string(kind) + " " + gguf::in_quotes(path);
    struct stat facts {};
    // Asked before opening: opening a pipe without a writer would wait for one.
    if (::stat(path.c_str(), &facts) != 0) return refuse(which + ": " + last_error());
    if (!S_ISREG(facts.st_mode)) return refuse(which + " is not a regular file");
    const OpenFile file(path);
    if (file.descriptor() < 0) return refuse(which + ": " + last_error());
    if (::fstat(file.descriptor(), &facts) != 0) return refuse(which + ": " + last_error());
    if (!S_ISREG(facts.st_mode) || facts.st_size <= 0) return refuse(which + " is empty");
    const auto bytes = static_cast<std::size_t>(facts.st_size);
    void* address = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, file.descriptor(), 0);
    if (address == MAP_FAILED) return refuse(which + " cannot be mapped: " + last_error());
    return MappedFile(address, bytes);
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
    std::swap(address_, other.address_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

MappedFile::~MappedFile() {
    if (address_ != nullptr) ::munmap(address_, bytes_);
}

}  // namespace strata
