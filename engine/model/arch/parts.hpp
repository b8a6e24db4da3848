// Tensors that several architectures have under the same names and in the same shapes.
#pragma once

#include <cstdint>
#include <string_view>

#include "engine/model/arch/architectures.hpp"

namespace strata {

// Embedding, last norm, head (token_embd when there is no output.weight), rotary frequencies; no
// layers.
Decoder load_frame(const ModelSource& source);

// attn_{q,k,v,output}.weight, their biases (required where the configuration says so, otherwise
// used when present), attn_{q,k}_norm.weight where the configuration says so.
AttentionPart load_attention(const ModelSource& source, std::int64_t block);

// What the delta nets of all architectures share: all but beta and alpha.
DeltaNetPart load_delta_net(const ModelSource& source, std::int64_t block);

// ssm_beta.weight and ssm_alpha.weight (qwen35, qwen35moe).
void load_separate_gates(const ModelSource& source, std::int64_t block, DeltaNetPart& part);

DensePart load_dense(const ModelSource& source, std::int64_t block);

// Router and experts (apart, or gate and up fused), and the shared expert where the configuration
// has one.
MixturePart load_mixture(const ModelSource& source, std::int64_t block);

const float* load_norm(const ModelSource& source, std::int64_t block, std::string_view part);

}  // namespace strata
