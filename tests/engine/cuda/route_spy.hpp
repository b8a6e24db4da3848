// A device that computes on another one and remembers which experts each token took, layer by
// layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "strata/backend/device.hpp"
#include "strata/backend/ops.hpp"

namespace strata::model_fixture {

// [{position, how many-th choice of its step}] -> the experts.
using ChosenExperts = std::map<std::pair<Position, int>, std::set<std::int32_t>>;

class RouteSpyOps final : public Ops {
  public:
    RouteSpyOps(Device& under, ChosenExperts& chosen)
        : device_(under), under_(under.ops()), chosen_(chosen) {}

    void begin(const Step& step) override {
        end_ = step.first + static_cast<Position>(step.ids.size());
        choice_ = 0;
        under_.begin(step);
    }
    void moe_route(Rows x, const Weight& router, const RouteRule& rule, Routes routes) override {
        under_.moe_route(x, router, rule, routes);
        std::vector<std::int32_t> experts(static_cast<std::size_t>(x.rows * routes.used));
        device_.copy_to_host(experts.data(), routes.experts, experts.size() * sizeof(std::int32_t));
        device_.synchronize();
        for (std::int64_t row = 0; row < x.rows; ++row) {
            const auto first = experts.begin() + row * routes.used;
            chosen_[{end_ - x.rows + row, choice_}] = {first, first + routes.used};
        }
        ++choice_;
    }

    void embed(const Weight& table, Rows x) override { under_.embed(table, x); }
    void rms_norm(Rows x, const float* gain, float epsilon, Rows y) override {
        under_.rms_norm(x, gain, epsilon, y);
    }
    void add_to_rows(Rows x, const float* v) override { under_.add_to_rows(x, v); }
    void linear(Rows x, std::span<const Projection> projections) override {
        under_.linear(x, projections);
    }
    void gated_linear(Rows x, const Weight& gate, const Weight& up, Rows y) override {
        under_.gated_linear(x, gate, up, y);
    }
    void rope_table(const RopeAngles& angles, float* table) override {
        under_.rope_table(angles, table);
    }
    void store_attention_inputs(const AttentionShape& shape, const QkPreparation& preparation,
                                Rows q, Rows k, Rows v) override {
        under_.store_attention_inputs(shape, preparation, q, k, v);
    }
    void attention(const AttentionShape& shape, Rows q, Rows out) override {
        under_.attention(shape, q, out);
    }
    void moe_ffn(Rows x, const Experts& experts, const SharedExpert* shared, Routes routes,
                 Rows y) override {
        under_.moe_ffn(x, experts, shared, routes, y);
    }
    void convolution(const ConvolutionShape& shape, Rows u, const float* taps, Rows c) override {
        under_.convolution(shape, u, taps, c);
    }
    void delta_rule(const DeltaShape& shape, Rows c, Rows b, Rows alpha, const float* a,
                    const float* dt_bias, Rows o) override {
        under_.delta_rule(shape, c, b, alpha, a, dt_bias, o);
    }
    void gated_rms_norm(Rows o, Rows z, std::int64_t head_dim, const float* gain, float epsilon,
                        Rows y) override {
        under_.gated_rms_norm(o, z, head_dim, gain, epsilon, y);
    }
    void find_largest(Rows x, std::int32_t* index) override { under_.find_largest(x, index); }
    void penalise(Rows x, const TokenCounts* counts, const Penalties& by) override {
        under_.penalise(x, counts, by);
    }
    void shortlist(Rows x, const ShortlistRule& rule, Shortlist* list, double* weights) override {
        under_.shortlist(x, rule, list, weights);
    }

  private:
    Device& device_;
    Ops& under_;
    ChosenExperts& chosen_;
    Position end_ = 0;  // behind the step's last row
    int choice_ = 0;
};

class RouteSpyDevice final : public Device {
  public:
    explicit RouteSpyDevice(std::unique_ptr<Device> under)
        : under_(std::move(under)), ops_(*under_, chosen_) {}

    ChosenExperts& chosen() { return chosen_; }

    DeviceFacts facts() const override { return under_->facts(); }
    Result<Buffer> allocate(std::size_t bytes) override { return under_->allocate(bytes); }
    Result<Buffer> allocate_visible(std::size_t bytes) override {
        return under_->allocate_visible(bytes);
    }
    Result<std::unique_ptr<Weight>> upload(const StoredTensor& stored) override {
        return under_->upload(stored);
    }
    Result<Buffer> upload_values(const StoredTensor& stored) override {
        return under_->upload_values(stored);
    }
    void copy_to_host(void* to, const void* from_device, std::size_t bytes) override {
        under_->copy_to_host(to, from_device, bytes);
    }
    void copy_from_host(void* to_device, const void* from, std::size_t bytes) override {
        under_->copy_from_host(to_device, from, bytes);
    }
    void copy_on_device(void* to_device, const void* from_device, std::size_t bytes) override {
        under_->copy_on_device(to_device, from_device, bytes);
    }
    void synchronize() override { under_->synchronize(); }
    Ops& ops() override { return ops_; }

  private:
    std::unique_ptr<Device> under_;
    ChosenExperts chosen_;
    RouteSpyOps ops_;
};

// True when a token up to `position` took other experts.
inline bool other_expert_until(Position position, const ChosenExperts& one,
                               const ChosenExperts& other) {
    return std::any_of(one.begin(), one.end(), [&](const auto& entry) {
        if (entry.first.first > position) return false;
        const auto same = other.find(entry.first);
        return same == other.end() || same->second != entry.second;
    });
}

}  // namespace strata::model_fixture
