#include "engine/model/arch/architectures.hpp"

#include "strata/core/invariant.hpp"

namespace strata {

Decoder load_decoder(const ModelSource& source) {
    switch (source.config.architecture) {
        case Architecture::llama:
            return load_llama(source);
        case Architecture::qwen2:
            return load_qwen2(source);
        case Architecture::qwen3:
            return load_qwen3(source);
        case Architecture::qwen3_moe:
            return load_qwen3_moe(source);
        case Architecture::qwen3_next:
            return load_qwen3_next(source);
        case Architecture::qwen35:
            return load_qwen35(source);
        case Architecture::qwen35_moe:
            return load_qwen35_moe(source);
    }
    STRATA_INVARIANT(false);
}

}  // namespace strata
