// What the rooms above model/ must know of a model: how big a conversation is, and in which parts.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "strata/backend/kv_rows.hpp"
#include "strata/core/types.hpp"

namespace strata {

enum class LayerKind : std::uint8_t { attention, recurrent };

// A type that K/V rows can have, and what a token takes with it in all attention layers.
struct KvChoice {
    KvType type = KvType::f16;
    std::uint64_t bytes_per_token = 0;
};

// Sizes of one conversation's memory on the device.
//   K/V page: for each attention layer in order, kPageTokens K rows then kPageTokens V rows, a row
//   as kv_rows.hpp has it. Running state: for each recurrent
//   layer in order, the matrix state (value heads x key dim x value dim f32) then
//   the convolution window ((kernel - 1) rows x channels f32, oldest first).
struct Geometry {
    std::string architecture;
    std::string quantisation;  // of most weight bytes, e.g. "Q8_0"
    std::int64_t vocabulary = 0;
    std::int64_t trained_context = 0;
    std::vector<LayerKind> layers;
    KvType kv_type = KvType::f16;
    std::vector<KvChoice> kv_choices;  // all there are, kv_type among them
    std::size_t k_row_bytes = 0;       // of one attention layer and one token
    std::size_t v_row_bytes = 0;
    std::size_t matrix_state_bytes = 0;  // of one recurrent layer
    std::size_t conv_state_bytes = 0;    // of one recurrent layer
    std::size_t weights_bytes = 0;

    std::size_t attention_layers() const { return layers_of(LayerKind::attention); }
    std::size_t recurrent_layers() const { return layers_of(LayerKind::recurrent); }
    std::size_t layers_of(LayerKind kind) const {
        return static_cast<std::size_t>(std::count(layers.begin(), layers.end(), kind));
    }
    std::size_t kv_bytes_per_token() const {
        return attention_layers() * (k_row_bytes + v_row_bytes);
    }
    std::size_t page_bytes() const {
        return kv_bytes_per_token() * static_cast<std::size_t>(kPageTokens);
    }
    std::size_t state_bytes() const {
        return recurrent_layers() * (matrix_state_bytes + conv_state_bytes);
    }
    bool recurrent() const { return recurrent_layers() > 0; }
};

}  // namespace strata
