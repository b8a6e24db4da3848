// From the name a user typed to a model file: `demo`, a path to a .gguf, or a name that stands for
// strata-NAME.json or NAME.gguf in one of the searched folders.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "strata/core/result.hpp"

namespace strata::serve {

struct ModelLocation {
    std::string name;      // what /v1/models calls it
    std::string gguf;      // "" when the settings file has to say
    std::string settings;  // strata-NAME.json; "" = none
};

// Why there is no model file at `path`: nothing is there, or a folder, whose files are named.
std::string no_model_file_text(const std::string& path);

// Folders are searched in order, and in each one the settings file wins over NAME.gguf. `demo_file`
// is the model that `demo` stands for. A refusal lists the names that exist, closest first.
Result<ModelLocation> find_model(std::string_view wanted, const std::vector<std::string>& folders,
                                 const std::string& demo_file);

}  // namespace strata::serve
