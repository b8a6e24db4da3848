#include "serve/http/static_files.hpp"

#include <array>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <utility>

namespace strata::serve {
namespace {

struct TypeOfSuffix {
    std::string_view suffix;
    std::string_view type;
};
constexpr std::array<TypeOfSuffix, 4> kTypes{{
    {".html", "text/html; charset=utf-8"},
    {".css", "text/css; charset=utf-8"},
    {".js", "text/javascript; charset=utf-8"},
    {".svg", "image/svg+xml"},
}};

std::string_view type_of(std::string_view path) {
    for (const auto& [suffix, type] : kTypes) {
        if (path.ends_with(suffix)) return type;
    }
    return "application/octet-stream";
}

// FNV-1a, 64 bits: a tag tells two versions of a file apart, it protects nothing.
std::string tag_of(std::string_view bytes) {
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (const char c : bytes) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
    std::string out = "\"";
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[(hash >> shift) & 15U];
    return out + "\"";
}

}  // namespace

StaticFiles::StaticFiles(std::string folder) : folder_(std::move(folder)) {
    for (const auto& asset : embedded_assets()) {
        Entry entry{asset.path, {}, {}};
        entry.file.content_type = type_of(asset.path);
        entry.file.plain = asset.plain.view();
        entry.file.gzip = asset.gzip.view();
        entry.file.etag = tag_of(entry.file.plain);
        entries_.push_back(std::move(entry));
    }
}

const StaticFile* StaticFiles::find(std::string_view path) {
    if (path == "/") path = "/index.html";
    for (auto& entry : entries_) {
        if (entry.path != path) continue;
        if (folder_.empty()) return &entry.file;
        std::ifstream file(folder_ + std::string(path), std::ios::binary);
        if (!file) return nullptr;
        entry.from_disk.assign(std::istreambuf_iterator<char>(file), {});
        entry.file.plain = entry.from_disk;
        entry.file.gzip = {};
        entry.file.etag = tag_of(entry.from_disk);
        return &entry.file;
    }
    return nullptr;
}

}  // namespace strata::serve
