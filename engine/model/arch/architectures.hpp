// The architectures: one function and one file each, which list the tensors a model of that name
// has and say what its layers are made of. A new architecture is a new file and a line in
// load_decoder().
#pragma once

#include "engine/model/decoder.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/weight_loader.hpp"
#include "strata/model/geometry.hpp"

namespace strata {

// Where a model comes from. Refusals are kept in `load`; the decoder is usable when there is none.
struct ModelSource {
    const ModelConfig& config;
    const Geometry& geometry;
    WeightLoader& load;
};

Decoder load_llama(const ModelSource& source);
Decoder load_qwen2(const ModelSource& source);
Decoder load_qwen3(const ModelSource& source);
Decoder load_qwen3_moe(const ModelSource& source);
Decoder load_qwen3_next(const ModelSource& source);
Decoder load_qwen35(const ModelSource& source);
Decoder load_qwen35_moe(const ModelSource& source);

// The function of config.architecture.
Decoder load_decoder(const ModelSource& source);

}  // namespace strata
