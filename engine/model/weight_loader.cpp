#include "engine/model/weight_loader.hpp"

#include <cstring>
#include <utility>

#include "strata/core/invariant.hpp"

namespace strata {

void WeightLoader::fail(const std::string& name, const Refusal& refusal) {
    if (!refusal_) refusal_ = Refusal{"tensor " + name + ": " + refusal.text, refusal.kind};
}

void WeightLoader::report(std::size_t bytes) {
    bytes_done_ += bytes;
    if (progress_) progress_(bytes_done_, stored_.tensor_bytes());
}

std::optional<StoredTensor> WeightLoader::find(const std::string& name,
                                               std::initializer_list<std::int64_t> dims) {
    if (refusal_) return std::nullopt;
    const Result<StoredTensor> found = stored_.find(name, dims);
    if (found.ok()) return *found;
    refusal_ = found.error();
    return std::nullopt;
}

const Weight* WeightLoader::keep(const std::string& name, const StoredTensor& stored) {
    const Result<std::vector<float>> scales = stored_.companion_scale(name, stored.experts);
    if (!scales.ok()) {
        refusal_ = scales.error();
        return nullptr;
    }
    if (device_ == nullptr) return nullptr;
    Result<std::unique_ptr<Weight>> uploaded = device_->upload(stored);
    if (!uploaded.ok()) {
        fail(name, uploaded.error());
        return nullptr;
    }
    Weight& weight = **uploaded;
    if (scales->size() == 1) {
        weight.scale = scales->front();
    } else {
        weight.expert_scales = *scales;
    }
    tensors_.weights.push_back(std::move(*uploaded));
    report(stored.bytes.size());
    return tensors_.weights.back().get();
}

const float* WeightLoader::keep_values(const std::string& name, const StoredTensor& stored) {
    if (device_ == nullptr) return nullptr;
    Result<Buffer> uploaded = device_->upload_values(stored);
    if (!uploaded.ok()) {
        fail(name, uploaded.error());
        return nullptr;
    }
    tensors_.values.push_back(std::move(*uploaded));
    report(stored.bytes.size());
    return tensors_.values.back().f32();
}

const Weight* WeightLoader::matrix(const std::string& name, std::int64_t cols, std::int64_t rows,
                                   std::int64_t experts) {
    const std::optional<StoredTensor> stored = find(name, {cols, rows, experts});
    return stored ? keep(name, *stored) : nullptr;
}

const float* WeightLoader::values(const std::string& name, std::int64_t count) {
    const std::optional<StoredTensor> stored = find(name, {count});
    return stored ? keep_values(name, *stored) : nullptr;
}

const float* WeightLoader::optional_values(const std::string& name, std::int64_t count) {
    return stored_.contains(name) ? values(name, count) : nullptr;
}

Buffer WeightLoader::allocate(std::size_t bytes) {
    Result<Buffer> buffer = device_->allocate(bytes);
    if (buffer.ok()) return *buffer;
    if (!refusal_) refusal_ = buffer.error();
    return {};
}

const float* WeightLoader::turned_values(const std::string& name, std::int64_t kernel,
                                         std::int64_t channels) {
    const std::optional<StoredTensor> stored = find(name, {kernel, channels});
    const float* flat = stored ? keep_values(name, *stored) : nullptr;
    if (flat == nullptr) return nullptr;
    const std::size_t bytes = static_cast<std::size_t>(kernel * channels) * sizeof(float);
    std::vector<float> before(static_cast<std::size_t>(kernel * channels));
    device_->copy_to_host(before.data(), flat, bytes);
    std::vector<float> after(before.size());
    for (std::int64_t c = 0; c < channels; ++c) {
        for (std::int64_t j = 0; j < kernel; ++j) {
            after[static_cast<std::size_t>(j * channels + c)] =
                before[static_cast<std::size_t>(c * kernel + j)];
        }
    }
    device_->copy_from_host(tensors_.values.back().address(), after.data(), bytes);
    device_->synchronize();
    return flat;
}

const Weight* WeightLoader::row_groups(const std::string& name, std::int64_t cols,
                                       std::int64_t rows, std::int64_t part, std::int64_t count,
                                       std::int64_t stride) {
    const std::optional<StoredTensor> stored = find(name, {cols, rows});
    if (!stored) return nullptr;
    STRATA_INVARIANT(rows % stride == 0 && part + count <= stride);
    if (device_ == nullptr) return keep(name, *stored);
    const std::size_t row_bytes = stored->bytes.size() / static_cast<std::size_t>(rows);
    std::vector<std::byte> picked;
    for (std::int64_t row = part; row < rows; row += stride) {
        const auto group = stored->bytes.subspan(static_cast<std::size_t>(row) * row_bytes,
                                                 static_cast<std::size_t>(count) * row_bytes);
        picked.insert(picked.end(), group.begin(), group.end());
    }
    return keep(name, {stored->type, cols, rows / stride * count, 1, picked});
}

std::vector<float> WeightLoader::optional_host_values(const std::string& name, std::int64_t count) {
    std::vector<float> out;
    const float* on_device = optional_values(name, count);
    if (on_device == nullptr) return out;
    out.resize(static_cast<std::size_t>(count));
    device_->copy_to_host(out.data(), on_device, out.size() * sizeof(float));
    device_->synchronize();
    return out;
}

const double* WeightLoader::upload_doubles(std::span<const double> values) {
    if (device_ == nullptr) return nullptr;
    tensors_.values.push_back(allocate(values.size_bytes()));
    void* to = tensors_.values.back().address();
    if (to == nullptr) return nullptr;
    device_->copy_from_host(to, values.data(), values.size_bytes());
    device_->synchronize();
    return static_cast<const double*>(to);
}

void WeightLoader::refuse_if_present(const std::string& name, const std::string& why) {
    if (!refusal_ && stored_.contains(name)) refusal_ = Refusal{"tensor " + name + ": " + why};
}

}  // namespace strata
