// The page's files: embedded in the program, or read from a folder while somebody works on them.
// Owns their content types and entity tags; the session decides about status and headers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace strata::serve {

struct Bytes {
    const char* begin = nullptr;
    const char* end = nullptr;
    std::string_view view() const { return {begin, static_cast<std::size_t>(end - begin)}; }
};

struct EmbeddedAsset {
    std::string_view path;  // "/js/app.js"
    Bytes plain;
    Bytes gzip;
};

// Made by web/CMakeLists.txt.
std::span<const EmbeddedAsset> embedded_assets();

struct StaticFile {
    std::string content_type;
    std::string etag;  // quoted, as the header has it
    std::string_view plain;
    std::string_view gzip;  // empty = only the plain form exists
};

class StaticFiles {
  public:
    // `folder` "" = the embedded files. Only paths of embedded files are ever served, so that no
    // request can name another file of the folder.
    explicit StaticFiles(std::string folder);

    // "/" is the page itself. Null = no such file. The answer lives until the next find().
    const StaticFile* find(std::string_view path);

  private:
    struct Entry {
        std::string_view path;
        StaticFile file;
        std::string from_disk;
    };
    std::string folder_;
    std::vector<Entry> entries_;
};

}  // namespace strata::serve
