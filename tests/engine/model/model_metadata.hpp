// The metadata of a small model of each architecture, as a converter writes it, ready to be changed
// key by key.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "tests/engine/model/gguf_bytes.hpp"

namespace strata::test {

// Keys by name; a value knows how to write itself. Keys of the architecture are named without its
// prefix.
class Metadata {
  public:
    explicit Metadata(std::string architecture) : prefix_(architecture + ".") {
        text("general.architecture", architecture);
    }
    Metadata& u32(const std::string& key, std::uint32_t value) {
        return put(key, [=](GgufFile& file, const std::string& name) { file.u32(name, value); });
    }
    Metadata& i32(const std::string& key, std::int32_t value) {
        return put(key, [=](GgufFile& file, const std::string& name) { file.i32(name, value); });
    }
    Metadata& f32(const std::string& key, float value) {
        return put(key, [=](GgufFile& file, const std::string& name) { file.f32(name, value); });
    }
    Metadata& flag(const std::string& key, bool value) {
        return put(key, [=](GgufFile& file, const std::string& name) { file.flag(name, value); });
    }
    Metadata& text(const std::string& key, const std::string& value) {
        return put(key, [=](GgufFile& file, const std::string& name) { file.text(name, value); });
    }
    Metadata& texts(const std::string& key, const std::vector<std::string>& values) {
        return put(key, [=](GgufFile& file, const std::string& name) { file.texts(name, values); });
    }
    template <class T>
    Metadata& array(const std::string& key, std::uint32_t element, const std::vector<T>& values) {
        return put(key, [=](GgufFile& file, const std::string& name) {
            file.array(name, element, values);
        });
    }
    Metadata& without(const std::string& key) {
        keys_.erase(key);
        return *this;
    }

    GgufFile file() const {
        GgufFile out;
        for (const auto& [key, write] : keys_) {
            const bool global = key.starts_with("general.") || key.starts_with("tokenizer.");
            write(out, global ? key : prefix_ + key);
        }
        return out;
    }

  private:
    using Write = std::function<void(GgufFile&, const std::string&)>;
    Metadata& put(const std::string& key, Write write) {
        keys_[key] = std::move(write);
        return *this;
    }

    std::string prefix_;
    std::map<std::string, Write> keys_;
};

inline Metadata dense_metadata(const std::string& architecture) {
    Metadata out(architecture);
    out.u32("vocab_size", 512)
        .u32("context_length", 4096)
        .u32("embedding_length", 256)
        .u32("block_count", 8);
    out.u32("feed_forward_length", 1024)
        .u32("attention.head_count", 8)
        .u32("attention.head_count_kv", 2);
    out.f32("attention.layer_norm_rms_epsilon", 1e-6F).f32("rope.freq_base", 1e6F);
    return out;
}

inline Metadata expert_metadata(const std::string& architecture) {
    Metadata out = dense_metadata(architecture);
    return out.u32("expert_count", 16)
        .u32("expert_used_count", 4)
        .u32("expert_feed_forward_length", 128);
}

inline Metadata& with_delta_net(Metadata& out) {
    out.u32("attention.key_length", 64)
        .u32("attention.value_length", 64)
        .u32("rope.dimension_count", 16);
    out.u32("ssm.conv_kernel", 4).u32("ssm.state_size", 128).u32("ssm.group_count", 2);
    return out.u32("ssm.time_step_rank", 4).u32("ssm.inner_size", 4 * 96);
}

// The metadata of any of the seven.
inline Metadata metadata_of(const std::string& architecture) {
    const bool hybrid =
        architecture == "qwen3next" || architecture == "qwen35" || architecture == "qwen35moe";
    const bool experts =
        architecture == "qwen3moe" || architecture == "qwen3next" || architecture == "qwen35moe";
    Metadata out = experts ? expert_metadata(architecture) : dense_metadata(architecture);
    if (hybrid) with_delta_net(out);
    return out;
}

}  // namespace strata::test
