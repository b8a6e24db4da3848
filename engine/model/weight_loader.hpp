// Brings the tensors of a model file onto a device, one by one, and keeps them. Owns the uploading
// and its progress; which tensors a model has and how they are called is said by arch/*.cpp.
//
// The first refusal is kept and wins: the calls after it give null, so that an architecture can
// list its tensors without a check after each of them. For the same reason a loader without a
// device can rehearse: it finds and checks all that is asked for, uploads nothing and gives null.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/model/weights.hpp"
#include "strata/backend/device.hpp"

namespace strata {

// Owns what the pointers of a loaded model point to.
struct DeviceTensors {
    std::vector<std::unique_ptr<Weight>> weights;
    std::vector<Buffer> values;
};

class WeightLoader {
  public:
    // Bytes done and bytes in all.
    using Progress = std::function<void(std::uint64_t, std::uint64_t)>;
    WeightLoader(Device& device, const Weights& stored, Progress progress)
        : device_(&device), stored_(stored), progress_(std::move(progress)) {}
    // A rehearsal.
    explicit WeightLoader(const Weights& stored) : stored_(stored) {}

    bool contains(const std::string& name) const { return stored_.contains(name); }
    // {cols, rows}, or {cols, rows, experts}.
    const Weight* matrix(const std::string& name, std::int64_t cols, std::int64_t rows,
                         std::int64_t experts = 1);
    const float* values(const std::string& name, std::int64_t count);
    // Null when the file has no such tensor.
    const float* optional_values(const std::string& name, std::int64_t count);
    // {kernel, channels} turned to [kernel][channels].
    const float* turned_values(const std::string& name, std::int64_t kernel, std::int64_t channels);
    // Rows `part` + i * `stride` .. + `count` for i = 0, 1 ... of a matrix {cols, rows}, as a
    // matrix.
    const Weight* row_groups(const std::string& name, std::int64_t cols, std::int64_t rows,
                             std::int64_t part, std::int64_t count, std::int64_t stride);
    // The stored values themselves, on the host; empty when the file has no such tensor.
    std::vector<float> optional_host_values(const std::string& name, std::int64_t count);
    const double* upload_doubles(std::span<const double> values);

    void refuse_if_present(const std::string& name, const std::string& why);
    const std::optional<Refusal>& refusal() const { return refusal_; }
    DeviceTensors take() { return std::move(tensors_); }

  private:
    std::optional<StoredTensor> find(const std::string& name,
                                     std::initializer_list<std::int64_t> dims);
    const Weight* keep(const std::string& name, const StoredTensor& stored);
    const float* keep_values(const std::string& name, const StoredTensor& stored);
    Buffer allocate(std::size_t bytes);
    void fail(const std::string& name, const Refusal& refusal);
    void report(std::size_t bytes);

    Device* device_ = nullptr;  // null: a rehearsal
    const Weights& stored_;
    Progress progress_;
    std::uint64_t bytes_done_ = 0;
    DeviceTensors tensors_;
    std::optional<Refusal> refusal_;
};

}  // namespace strata
