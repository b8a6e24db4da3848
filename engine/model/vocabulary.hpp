// What the engine takes from a file's vocabulary: the ids that end an answer, the one that opens a
// turn, the word "system". Text is the server's business; nothing here tokenises.
#pragma once

#include <cstdint>

#include "protocol/gguf/gguf.hpp"
#include "strata/core/result.hpp"
#include "strata/model/runner.hpp"

namespace strata {

// Everything but model_id. `vocabulary`: ids the model has; an id of the metadata beyond it is
// refused.
Result<VocabularyFacts> read_vocabulary(const gguf::Header& header, std::int64_t vocabulary);

}  // namespace strata
