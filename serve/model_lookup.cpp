#include "serve/model_lookup.hpp"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>

#include "strata/core/closest.hpp"

namespace strata::serve {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kSettingsPrefix = "strata-";
constexpr std::string_view kSettingsSuffix = ".json";
constexpr std::string_view kModelSuffix = ".gguf";
constexpr std::string_view kDemo = "demo";
constexpr std::size_t kListedNamesMax = 8;        // a refusal is read by a person
constexpr std::size_t kScannedFilesMax = 10'000;  // a mistaken --models-dir / must not take minutes

bool is_file(const fs::path& path) {
    std::error_code error;
    return fs::is_regular_file(path, error);
}

std::string folder_prefix(const std::string& folder) {
    return folder.empty() ? "." : folder;
}

std::vector<std::string> names_in(const std::vector<std::string>& folders) {
    std::set<std::string> names{std::string(kDemo)};
    for (const auto& folder : folders) {
        std::error_code error;
        std::size_t scanned = 0;
        for (fs::directory_iterator it(folder_prefix(folder), error), end;
             !error && it != end && scanned < kScannedFilesMax; it.increment(error), ++scanned) {
            const std::string file = it->path().filename().string();
            if (file.ends_with(kModelSuffix)) {
                names.insert(file.substr(0, file.size() - kModelSuffix.size()));
            } else if (file.starts_with(kSettingsPrefix) && file.ends_with(kSettingsSuffix)) {
                names.insert(
                    file.substr(kSettingsPrefix.size(),
                                file.size() - kSettingsPrefix.size() - kSettingsSuffix.size()));
            }
        }
    }
    return {names.begin(), names.end()};
}

Failure<Refusal> unknown_model(std::string_view wanted, const std::vector<std::string>& folders) {
    auto names = by_closeness(wanted, names_in(folders));
    if (names.size() > kListedNamesMax) names.resize(kListedNamesMax);
    std::string list;
    for (const auto& name : names) list += (list.empty() ? "" : ", ") + name;
    std::string searched;
    for (const auto& folder : folders) {
        searched += (searched.empty() ? "" : ", ") + folder_prefix(folder);
    }
    return refuse("no model '" + std::string(wanted) + "'; there are: " + list +
                  " (searched: " + searched + "; a path to a .gguf file works, too)");
}

}  // namespace

std::string no_model_file_text(const std::string& path) {
    std::error_code error;
    const std::string named = "the model file '" + path + "' ";
    if (!fs::exists(path, error)) return named + "does not exist";
    if (!fs::is_directory(path, error)) return named + "is no regular file";
    std::set<std::string> inside;
    std::size_t scanned = 0;
    for (fs::directory_iterator it(path, error), end;
         !error && it != end && scanned < kScannedFilesMax; it.increment(error), ++scanned) {
        const std::string file = it->path().filename().string();
        if (file.ends_with(kModelSuffix) && is_file(it->path())) inside.insert(file);
    }
    if (inside.empty()) return named + "is a folder, without a .gguf file in it; name a file";
    std::string list;
    std::size_t listed = 0;
    for (const std::string& file : inside) {
        if (listed++ == kListedNamesMax) break;
        list += (list.empty() ? "" : ", ") + file;
    }
    return named + "is a folder; name a file in it: " + list;
}

Result<ModelLocation> find_model(std::string_view wanted, const std::vector<std::string>& folders,
                                 const std::string& demo_file) {
    const std::string name(wanted);
    if (name.ends_with(kModelSuffix)) {
        if (!is_file(name)) return refuse(no_model_file_text(name));
        return ModelLocation{fs::path(name).stem().string(), name, ""};
    }
    ModelLocation found{name, name == kDemo ? demo_file : "", ""};
    const bool plain = !name.empty() && name.find('/') == std::string::npos;
    for (const auto& folder : folders) {
        if (!plain) break;
        const fs::path base = folder_prefix(folder);
        const fs::path settings = base / (std::string(kSettingsPrefix) + name + ".json");
        const fs::path model = base / (name + std::string(kModelSuffix));
        if (found.settings.empty() && is_file(settings)) found.settings = settings.string();
        if (found.gguf.empty() && is_file(model)) found.gguf = model.string();
        if (!found.settings.empty() || !found.gguf.empty()) break;
    }
    if (found.gguf.empty() && found.settings.empty()) {
        std::error_code error;
        if (fs::is_directory(name, error)) return refuse(no_model_file_text(name));
        if (fs::exists(name, error)) {
            return refuse("'" + name + "' is no model file: a path has to end in .gguf");
        }
        return unknown_model(wanted, folders);
    }
    if (name == kDemo && !is_file(found.gguf)) {
        return refuse("the demo model '" + found.gguf + "' does not exist: run from a full clone");
    }
    return found;
}

}  // namespace strata::serve
