// What the checks and the timings of the attention kernels share: memory on the device, cases,
// conversations in pages.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <cuda_fp16.h>
#include <cuda_runtime.h>

#include "engine/backend/cuda/launch/attention.hpp"
#include "engine/backend/cuda/launch/launch.cuh"

namespace strata::cuda::attention_check {

template <class T>
class DeviceArray {
  public:
    explicit DeviceArray(std::size_t count) : count_(count) {
        check(cudaMalloc(&at_, std::max<std::size_t>(count, 1) * sizeof(T)), "cudaMalloc");
    }
    explicit DeviceArray(const std::vector<T>& from) : DeviceArray(from.size()) { write(from); }
    ~DeviceArray() { cudaFree(at_); }
    DeviceArray(const DeviceArray&) = delete;
    DeviceArray& operator=(const DeviceArray&) = delete;

    T* at() const { return at_; }
    std::size_t count() const { return count_; }
    void fill_bytes(int byte) { check(cudaMemset(at_, byte, count_ * sizeof(T)), "cudaMemset"); }
    void write(const std::vector<T>& from) {
        check(cudaMemcpy(at_, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice),
              "copy to the device");
    }
    std::vector<T> read() const {
        std::vector<T> out(count_);
        check(cudaMemcpy(out.data(), at_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
              "copy from the device");
        return out;
    }

  private:
    T* at_ = nullptr;
    std::size_t count_;
};

struct Failures {
    int count = 0;
    void note(bool good, const std::string& what) {
        std::printf("%s  %s\n", good ? "ok  " : "FAIL", what.c_str());
        std::fflush(stdout);
        if (!good) ++count;
    }
};

inline int multiprocessors() {
    int count = 0;
    check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, 0), "multiprocessors");
    return count;
}

inline std::size_t index(std::int64_t i) {
    return static_cast<std::size_t>(i);
}

struct Case {
    int heads, kv_heads, key_dim, value_dim;
    bool gated, half, exact;
    std::int64_t first, rows;
    float spread = 2.0F;  // of q and k

    std::string name() const {
        return std::to_string(heads) + "/" + std::to_string(kv_heads) + " x " +
               std::to_string(key_dim) + "/" + std::to_string(value_dim) + (gated ? " gated" : "") +
               (half ? " f16" : " f32") + (exact ? " exact" : "") + " first " +
               std::to_string(first) + " rows " + std::to_string(rows);
    }
};

inline AttentionShape shape_of(const Case& one) {
    AttentionShape shape;
    shape.heads = one.heads;
    shape.kv_heads = one.kv_heads;
    shape.key_dim = one.key_dim;
    shape.value_dim = one.value_dim;
    shape.scale = 1.0F / std::sqrt(static_cast<float>(one.key_dim));
    shape.gated = one.gated;
    shape.kv_type = one.half ? ElementType::f16 : ElementType::f32;
    const std::size_t bytes = one.half ? 2 : 4;
    constexpr std::size_t kBefore = 4096;  // another layer's rows
    shape.k_offset = kBefore;
    shape.v_offset = shape.k_offset + static_cast<std::size_t>(kPageTokens) * bytes *
                                          index(one.kv_heads * one.key_dim);
    return shape;
}

inline std::size_t page_bytes(const AttentionShape& shape) {
    const std::size_t bytes = shape.kv_type == ElementType::f16 ? 2 : 4;
    const std::size_t used = shape.v_offset + static_cast<std::size_t>(kPageTokens) * bytes *
                                                  index(shape.kv_heads * shape.value_dim);
    return (used + 255) / 256 * 256;
}

inline std::vector<float> numbers(std::mt19937& random, std::int64_t count, float spread) {
    std::uniform_real_distribution<float> even(-spread, spread);
    std::vector<float> out(index(count));
    for (float& value : out) value = even(random);
    return out;
}

// A conversation on the device: pages in an order of their own, NaN where nothing is stored.
class Conversation {
  public:
    Conversation(const AttentionShape& shape, std::int64_t length, const std::vector<float>& k,
                 const std::vector<float>& v)
        : pages_((length + kPageTokens - 1) / kPageTokens),
          bytes_(page_bytes(shape)),
          room_(index(pages_) * bytes_),
          addresses_(index(pages_)),
          head_(1) {
        std::vector<char> host(index(pages_) * bytes_, static_cast<char>(0xff));
        std::vector<void*> addresses;
        for (std::int64_t p = 0; p < pages_; ++p) {
            const std::size_t start = index(pages_ - 1 - p) * bytes_;
            addresses.push_back(room_.at() + start);
            for (std::int64_t i = p * kPageTokens; i < std::min((p + 1) * kPageTokens, length);
                 ++i) {
                put(shape, host.data() + start + shape.k_offset, i, shape.kv_heads * shape.key_dim,
                    k);
                put(shape, host.data() + start + shape.v_offset, i,
                    shape.kv_heads * shape.value_dim, v);
            }
        }
        room_.write(host);
        addresses_.write(addresses);
    }
    StepView step(std::int64_t first, std::int64_t rows) {
        head_.write({StepHead{first, rows, nullptr}});
        StepView view;
        view.head = head_.at();
        view.pages = addresses_.at();
        return view;
    }
    // K or V of a position as stored.
    std::vector<float> row(const AttentionShape& shape, std::int64_t position, bool value) const {
        const std::int64_t count = shape.kv_heads * (value ? shape.value_dim : shape.key_dim);
        const bool half = shape.kv_type == ElementType::f16;
        const std::size_t element = half ? 2 : 4;
        const std::size_t from = index(pages_ - 1 - position / kPageTokens) * bytes_ +
                                 (value ? shape.v_offset : shape.k_offset) +
                                 index(position % kPageTokens * count) * element;
        std::vector<char> raw(index(count) * element);
        check(cudaMemcpy(raw.data(), room_.at() + from, raw.size(), cudaMemcpyDeviceToHost),
              "copy from the device");
        std::vector<float> out(index(count));
        for (std::size_t i = 0; i < out.size(); ++i) {
            if (half) {
                __half one;
                std::memcpy(&one, raw.data() + i * element, element);
                out[i] = __half2float(one);
            } else {
                std::memcpy(&out[i], raw.data() + i * element, element);
            }
        }
        return out;
    }

  private:
    static void put(const AttentionShape& shape, char* rows, std::int64_t position,
                    std::int64_t count, const std::vector<float>& from) {
        for (std::int64_t i = 0; i < count; ++i) {
            const float value = from[index(position * count + i)];
            const std::size_t at = index(position % kPageTokens * count + i);
            if (shape.kv_type == ElementType::f16) {
                reinterpret_cast<__half*>(rows)[at] = __float2half_rn(value);
            } else {
                reinterpret_cast<float*>(rows)[at] = value;
            }
        }
    }

    std::int64_t pages_;
    std::size_t bytes_;
    DeviceArray<char> room_;
    DeviceArray<void*> addresses_;
    DeviceArray<StepHead> head_;
};

// Scratch for a step, poisoned except for the counters.
struct Scratch {
    DeviceArray<float> partials;
    DeviceArray<unsigned> counters;
    Scratch(const AttentionShape& shape, std::int64_t rows, bool exact)
        : partials(index(attention_partial_floats(shape, rows, multiprocessors(), exact))),
          counters(index(attention_counters(shape, rows))) {
        partials.fill_bytes(0xff);
        counters.fill_bytes(0);
    }
    AttentionScratch view() const { return {partials.at(), counters.at(), multiprocessors()}; }
};

// Device time of attention against the rate of reading memory: a table.
void time_all();

}  // namespace strata::cuda::attention_check
