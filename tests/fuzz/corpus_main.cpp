// A fuzzer's body without libFuzzer: runs once over every file of its corpus, whole and cut short,
// so that every compiler's test run does. A property that does not hold ends the process; the line
// before it names the input.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

namespace {

constexpr std::size_t kCuts = 16;  // shorter versions of each file

std::vector<std::filesystem::path> files_of(const std::filesystem::path& folder) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.is_regular_file()) files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

void run(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    std::printf("%s, %zu bytes\n", path.c_str(), text.size());
    std::fflush(stdout);
    for (std::size_t cut = 1; cut <= kCuts; ++cut) {
        // A copy of its own length: a read behind the end is one behind an allocation.
        const std::string part = text.substr(0, text.size() * cut / kCuts);
        const std::vector<std::uint8_t> bytes(part.begin(), part.end());
        (void)LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    const auto files = files_of(argv[1]);
    for (const auto& file : files) run(file);
    std::printf("%zu files\n", files.size());
    return files.empty() ? 1 : 0;
}
