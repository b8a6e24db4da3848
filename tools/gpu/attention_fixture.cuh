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
    bool gated;
    KvType type;
    bool exact;
    std::int64_t first, rows;
    float spread = 2.0F;  // of q and k

    std::string name() const {
        return std::to_string(heads) + "/" + std::to_string(kv_heads) + " x " +
               std::to_string(key_dim) + "/" + std::to_string(value_dim) + (gated ? " gated" : "") +
               " " + kv_type_name(type) + (exact ? " exact" : "") + " first " +
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
    shape.kv_type = one.type;
    constexpr std::size_t kBefore = 4096;  // another layer's rows
    shape.k_offset = kBefore;
    shape.v_offset = shape.k_offset + index(kPageTokens) * shape.k_rows().row_bytes();
    return shape;
}

inline std::size_t page_bytes(const AttentionShape& shape) {
    const std::size_t used = shape.v_offset + index(kPageTokens) * shape.v_rows().row_bytes();
    return (used + 255) / 256 * 256;
}

inline std::vector<float> numbers(std::mt19937& random, std::int64_t count, float spread) {
    std::uniform_real_distribution<float> even(-spread, spread);
    std::vector<float> out(index(count));
    for (float& value : out) value = even(random);
    return out;
}

// Element `i` of a row.
inline float number_in(const KvRows& rows, const char* row, std::size_t i) {
    const char* at = row + i * kv_element_bytes(rows.type);
    if (rows.type == KvType::f16) {
        __half half;
        std::memcpy(&half, at, sizeof half);
        return __half2float(half);
    }
    float number = 0.0F;
    if (rows.type == KvType::f32) {
        std::memcpy(&number, at, sizeof number);
        return number;
    }
    const auto head = static_cast<std::int64_t>(i) / rows.dim;
    std::memcpy(&number, row + rows.scale_offset(head), sizeof number);
    return number * static_cast<float>(static_cast<signed char>(*at));
}

// One row; of int8 rows the gap stays as it is.
inline void put(const KvRows& rows, const float* elements, char* row) {
    for (std::int64_t head = 0; head < rows.heads; ++head, elements += rows.dim) {
        char* to = row + rows.head_offset(head);
        if (rows.type == KvType::f32) {
            std::memcpy(to, elements, index(rows.dim) * sizeof(float));
        } else if (rows.type == KvType::f16) {
            for (std::int64_t d = 0; d < rows.dim; ++d) {
                reinterpret_cast<__half*>(to)[d] = __float2half_rn(elements[d]);
            }
        } else {
            float largest = 0.0F;
            for (std::int64_t d = 0; d < rows.dim; ++d) {
                largest = std::max(largest, std::abs(elements[d]));
            }
            const float scale = largest / kKvCodeMax;
            std::memcpy(row + rows.scale_offset(head), &scale, sizeof scale);
            for (std::int64_t d = 0; d < rows.dim; ++d) {
                const float code = scale > 0.0F ? std::nearbyint(elements[d] / scale) : 0.0F;
                to[d] = static_cast<char>(code);
            }
        }
    }
}

// The numbers that rows hold instead of these.
inline void to_stored(const KvRows& rows, std::vector<float>& numbers) {
    std::vector<char> row(rows.row_bytes());
    const std::size_t cols = index(rows.heads * rows.dim);
    for (std::size_t first = 0; first < numbers.size(); first += cols) {
        put(rows, numbers.data() + first, row.data());
        for (std::size_t i = 0; i < cols; ++i) numbers[first + i] = number_in(rows, row.data(), i);
    }
}

// A conversation on the device: pages in an order of their own, NaN where nothing is stored;
// `more` rows have room behind its length.
class Conversation {
  public:
    Conversation(const AttentionShape& shape, std::int64_t length, const std::vector<float>& k,
                 const std::vector<float>& v, std::int64_t more = 0)
        : pages_((length + more + kPageTokens - 1) / kPageTokens),
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
                char* page = host.data() + start;
                put_row(shape.k_rows(), page + shape.k_offset, i, k);
                put_row(shape.v_rows(), page + shape.v_offset, i, v);
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
        const KvRows rows = value ? shape.v_rows() : shape.k_rows();
        std::vector<char> raw(rows.row_bytes());
        const std::size_t from = index(pages_ - 1 - position / kPageTokens) * bytes_ +
                                 (value ? shape.v_offset : shape.k_offset) +
                                 index(position % kPageTokens) * raw.size();
        check(cudaMemcpy(raw.data(), room_.at() + from, raw.size(), cudaMemcpyDeviceToHost),
              "copy from the device");
        std::vector<float> out(index(rows.heads * rows.dim));
        for (std::size_t i = 0; i < out.size(); ++i) out[i] = number_in(rows, raw.data(), i);
        return out;
    }

  private:
    static void put_row(const KvRows& rows, char* page_rows, std::int64_t position,
                        const std::vector<float>& from) {
        put(rows, from.data() + position * rows.heads * rows.dim,
            page_rows + index(position % kPageTokens) * rows.row_bytes());
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
