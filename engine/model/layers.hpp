// The parts that layers are made of, each a struct of weights and the few ops that compute it. Owns
// no weight (WeightLoader's DeviceTensors) and no memory (Arena). What is added to x:
//
//   attention  output * (softmax(scale q k^T) v), q and k normed per head and turned, the result
//              times sigmoid(gate) where the queries carry a gate
//   delta net  output * (RMS(delta rule of silu(convolution(qkv n))) * silu(gate n))
//   dense      down * (silu(gate n) * (up n))
//   mixture    the chosen experts' dense parts by their weights, and the shared expert's
#pragma once

#include <cstdint>

#include "engine/model/arena.hpp"
#include "strata/backend/ops.hpp"

namespace strata {

// What every part of one forward pass uses.
struct Pass {
    Ops& ops;
    Arena& arena;
    float epsilon = 0.0F;       // of every norm
    QkPreparation preparation;  // rotary table and pairing of this pass; gains are the layer's
};

// Every part reads n (a normed copy of x) and adds its result to x.

struct AttentionPart {
    const Weight* q = nullptr;
    const Weight* k = nullptr;
    const Weight* v = nullptr;
    const Weight* output = nullptr;
    const float* q_bias = nullptr;  // null = none, as the three after it
    const float* k_bias = nullptr;
    const float* v_bias = nullptr;
    const float* output_bias = nullptr;
    const float* q_gain = nullptr;  // null = no norm
    const float* k_gain = nullptr;
    AttentionShape shape;

    void add_to(Pass& pass, Rows n, Rows x) const;
    std::int64_t scratch_columns() const;
};

struct DeltaNetPart {
    const Weight* qkv = nullptr;
    const Weight* gate = nullptr;
    const Weight* beta = nullptr;
    const Weight* alpha = nullptr;
    const Weight* output = nullptr;
    const float* taps = nullptr;  // [kernel][channels]
    const float* dt_bias = nullptr;
    const float* a = nullptr;  // already -exp(A_log)
    const float* gain = nullptr;
    ConvolutionShape convolution;
    DeltaShape shape;

    void add_to(Pass& pass, Rows n, Rows x) const;
    std::int64_t scratch_columns() const;
};

struct DensePart {
    const Weight* gate = nullptr;
    const Weight* up = nullptr;
    const Weight* down = nullptr;
    std::int64_t hidden = 0;  // rows of gate and up

    void add_to(Pass& pass, Rows n, Rows x) const;
    std::int64_t scratch_columns() const { return hidden; }
};

struct MixturePart {
    const Weight* router = nullptr;
    std::int64_t used = 0;
    RouteRule rule;
    Experts experts;
    bool has_shared = false;
    SharedExpert shared;

    void add_to(Pass& pass, Rows n, Rows x) const;
    std::int64_t scratch_columns() const;
};

}  // namespace strata
