// The forward pass that all our architectures share: embedding, layers of a mixer and a
// feed-forward part each behind a norm, the last norm, the head. What the layers are made of is
// said by arch/*.cpp.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <variant>
#include <vector>

#include "engine/model/layers.hpp"
#include "strata/backend/ops.hpp"

namespace strata {

struct DecoderLayer {
    const float* mixer_gain = nullptr;  // norm before the mixer
    std::variant<AttentionPart, DeltaNetPart> mixer;
    const float* ffn_gain = nullptr;  // norm before the feed-forward part
    std::variant<DensePart, MixturePart> ffn;
};

struct Decoder {
    std::int64_t width = 0;
    float epsilon = 0.0F;
    const Weight* embedding = nullptr;
    const float* output_gain = nullptr;
    const Weight* head = nullptr;  // the embedding when tied
    RopeAngles angles;
    RotaryPairs pairing = RotaryPairs::halves;
    std::vector<DecoderLayer> layers;

    // Enqueues the step that ops.begin() announced. `logits`: one row of the vocabulary's width for
    // the step's last token; no values = not wanted. `go_on` is asked after every part; when it
    // says no, nothing more is enqueued and the answer is false. `directions`: what is added to x
    // behind each layer ([width]; null = nothing); empty = behind none.
    bool forward(Ops& ops, Arena& arena, std::int64_t rows, Rows logits,
                 const std::function<bool()>& go_on,
                 std::span<const float* const> directions = {}) const;
    // Floats that forward() takes from its arena for a step of `rows` tokens.
    std::int64_t scratch_floats(std::int64_t rows) const;
};

}  // namespace strata
