// Float kernels, part 1: single rows and heads. Included only by float_kernels_*.cpp (lanes.hpp).
#pragma once

#include "engine/backend/cpu/float_kernels.hpp"
#include "engine/backend/cpu/lanes.hpp"

namespace {

inline float dot(const float* a, const float* b, std::int64_t n) {
    Lanes first{};
    Lanes second{};
    std::int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
        first = fused(load(a + i), load(b + i), first);
        second = fused(load(a + i + kLanes), load(b + i + kLanes), second);
    }
    for (; i + kLanes <= n; i += kLanes) first = fused(load(a + i), load(b + i), first);
    float total = sum(first + second);
    for (; i < n; ++i) total = fused(a[i], b[i], total);
    return total;
}

// y[i] = function(i) for whole vectors, then the rest through a vector of its own.
template <class Function>
inline void for_lanes(std::int64_t n, const Function& function) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) function(i, kLanes);
    if (i < n) function(i, n - i);
}

inline Lanes load_some(const float* from, std::int64_t count) {
    if (count == kLanes) return load(from);
    Lanes out{};
    for (std::int64_t i = 0; i < count; ++i) out[i] = from[i];
    return out;
}

inline void store_some(float* to, Lanes value, std::int64_t count) {
    if (count == kLanes) {
        store(to, value);
        return;
    }
    for (std::int64_t i = 0; i < count; ++i) to[i] = value[i];
}

inline void rms_norm(const float* x, const float* gain, float epsilon, std::int64_t n, float* y) {
    const float mean = dot(x, x, n) / static_cast<float>(n);
    const Lanes factor = all(1.0F / __builtin_sqrtf(mean + epsilon));
    for_lanes(n, [&](std::int64_t i, std::int64_t count) {
        store_some(y + i, load_some(x + i, count) * factor * load_some(gain + i, count), count);
    });
}

inline void gated_rms_norm(const float* x, const float* z, const float* gain, float epsilon,
                           std::int64_t n, float* y) {
    const float mean = dot(x, x, n) / static_cast<float>(n);
    const Lanes factor = all(1.0F / __builtin_sqrtf(mean + epsilon));
    for_lanes(n, [&](std::int64_t i, std::int64_t count) {
        const Lanes gate = load_some(z + i, count);
        const Lanes normed = load_some(x + i, count) * factor * load_some(gain + i, count);
        store_some(y + i, normed * gate * sigmoid(gate), count);
    });
}

inline void swiglu(float* gate, const float* up, std::int64_t n) {
    for_lanes(n, [&](std::int64_t i, std::int64_t count) {
        const Lanes g = load_some(gate + i, count);
        store_some(gate + i, g * sigmoid(g) * load_some(up + i, count), count);
    });
}

inline void sigmoid_gate(const float* x, const float* gate, std::int64_t n, float* y) {
    for_lanes(n, [&](std::int64_t i, std::int64_t count) {
        store_some(y + i, load_some(x + i, count) * sigmoid(load_some(gate + i, count)), count);
    });
}

inline void add_scaled(const float* x, float factor, std::int64_t n, float* y) {
    for_lanes(n, [&](std::int64_t i, std::int64_t count) {
        store_some(y + i, fused(load_some(x + i, count), all(factor), load_some(y + i, count)),
                   count);
    });
}

inline void scale(const float* x, float factor, std::int64_t n, float* y) {
    for_lanes(n, [&](std::int64_t i, std::int64_t count) {
        store_some(y + i, load_some(x + i, count) * factor, count);
    });
}

// Whether all of n values are finite or -infinity, and the largest of those that are.
struct Largest {
    float value;
    bool sound;
};
inline Largest largest_of(const float* x, std::int64_t n) {
    const float lowest = -__builtin_inff();
    const float most = 3.402823466e+38F;  // the largest finite number
    Lanes best = all(lowest);
    IntLanes sound = IntLanes{} - 1;
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
        const Lanes value = load(x + i);
        sound &= value <= all(most);
        best = larger(value, best);
    }
    Largest out{lowest, true};
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        out.value = best[lane] > out.value ? best[lane] : out.value;
        out.sound = out.sound && sound[lane] != 0;
    }
    for (; i < n; ++i) {
        out.value = x[i] > out.value ? x[i] : out.value;
        out.sound = out.sound && x[i] <= most;
    }
    return out;
}

// Block by block, so that only one block is read twice.
inline std::int64_t find_largest(const float* x, std::int64_t n) {
    constexpr std::int64_t kBlock = 4096;
    float best = -__builtin_inff();
    std::int64_t place = -1;
    for (std::int64_t begin = 0; begin < n; begin += kBlock) {
        const Largest block = largest_of(x + begin, n - begin < kBlock ? n - begin : kBlock);
        if (!block.sound) return -1;
        if (block.value > best) {
            best = block.value;
            place = begin;
        }
    }
    while (place >= 0 && x[place] != best) ++place;
    return place;
}

inline void to_halves(const float* x, std::int64_t n, std::uint16_t* y) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store_halves(y + i, load(x + i));
    for (; i < n; ++i) y[i] = float_to_half(x[i]);
}

inline void from_halves(const std::uint16_t* x, std::int64_t n, float* y) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(y + i, load_halves(x + i));
    for (; i < n; ++i) y[i] = half_to_float(x[i]);
}

// A head of int8 K/V (kv_rows.hpp): its codes; returns the scale.
inline float to_codes(const float* x, std::int64_t n, std::int8_t* codes) {
    constexpr std::int32_t kInfinity = 0x7F800000;  // the bits of magnitudes order like the numbers
    std::int32_t top = 0;
    for (std::int64_t i = 0; i < n; ++i) {
        std::int32_t bits = 0;
        std::memcpy(&bits, x + i, sizeof bits);
        bits &= 0x7FFFFFFF;
        top = bits > top ? bits : top;
    }
    float largest = 0.0F;
    std::memcpy(&largest, &top, sizeof largest);
    float scale = top < kInfinity ? largest / strata::kKvCodeMax : __builtin_nanf("");
    if (scale < strata::kKvScaleMin) scale = 0.0F;
    const float inverse = scale > 0.0F ? 1.0F / scale : 0.0F;
    for (std::int64_t i = 0; i < n; ++i) {
        // Adding 1.5 * 2^23 rounds to an integer, ties to even, and leaves it in the low bits.
        const float rounded = (scale > 0.0F ? x[i] : 0.0F) * inverse + 12582912.0F;
        std::int32_t bits = 0;
        std::memcpy(&bits, &rounded, sizeof bits);
        codes[i] = static_cast<std::int8_t>(bits);
    }
    return scale;
}

inline void from_codes(const std::int8_t* codes, float scale, std::int64_t n, float* y) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) store(y + i, load_codes(codes + i) * scale);
    for (; i < n; ++i) y[i] = static_cast<float>(codes[i]) * scale;
}

inline void rotate_pair(float& a, float& b, float cosine, float sine) {
    const float turned = fused(a, cosine, -(b * sine));
    b = fused(a, sine, b * cosine);
    a = turned;
}

inline void rotate_adjacent(float* head, const float* table, std::int64_t pairs) {
    for (std::int64_t i = 0; i < pairs; ++i) {
        rotate_pair(head[2 * i], head[2 * i + 1], table[2 * i], table[2 * i + 1]);
    }
}

inline void rotate_halves(float* head, const float* table, std::int64_t pairs) {
    for (std::int64_t i = 0; i < pairs; ++i) {
        rotate_pair(head[i], head[i + pairs], table[2 * i], table[2 * i + 1]);
    }
}

template <std::int64_t kKernel>
inline void convolve_taps(const float* const* rows, const float* taps, std::int64_t n, float* c) {
    for_lanes(n, [&](std::int64_t i, std::int64_t count) {
        Lanes total{};
        for (std::int64_t j = 0; j < kKernel; ++j) {
            total = fused(load_some(taps + j * n + i, count), load_some(rows[j] + i, count), total);
        }
        store_some(c + i, total * sigmoid(total), count);
    });
}

inline void convolve(const float* const* rows, const float* taps, std::int64_t kernel,
                     std::int64_t n, float* c) {
    if (kernel == 4) {  // every released model
        convolve_taps<4>(rows, taps, n, c);
        return;
    }
    for_lanes(n, [&](std::int64_t i, std::int64_t count) {
        Lanes total{};
        for (std::int64_t j = 0; j < kernel; ++j) {
            total = fused(load_some(taps + j * n + i, count), load_some(rows[j] + i, count), total);
        }
        store_some(c + i, total * sigmoid(total), count);
    });
}

}  // namespace
