// A model without weights, for tests of everything above model/. Each K/V row is a hash of all rows
// below it, its token and its position; the running state is a hash of its tokens; logits are a
// hash of all rows and the state. A steering mode goes into every one of these hashes. So an answer
// changes when anything that was reused is not what it should be, and chunks do not matter. Its
// device is host memory with a limit.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <vector>

#include "strata/backend/device.hpp"
#include "strata/model/runner.hpp"
#include "tests/support/listed_logits.hpp"

namespace strata::tests {

// Ids below this are control tokens: the fake writes one only when the script says so.
inline constexpr TokenId kFakeFirstText = 10;
inline constexpr TokenId kFakeTurnOpen = 1;
inline constexpr TokenId kFakeSystem = 2;
inline constexpr TokenId kFakeUser = 3;
inline constexpr TokenId kFakeAssistant = 4;
inline constexpr TokenId kFakeEnd = 5;

class FakeDevice : public Device {
  public:
    DeviceFacts facts() const override {
        return {"fake", "none", tells_free ? limit_bytes - *held_ : 0, 1};
    }
    Result<Buffer> allocate(std::size_t bytes) override;
    Result<std::unique_ptr<Weight>> upload(const StoredTensor& stored) override;
    Result<Buffer> upload_values(const StoredTensor& stored) override;
    void copy_to_host(void* to, const void* from_device, std::size_t bytes) override;
    void copy_from_host(void* to_device, const void* from, std::size_t bytes) override;
    void copy_on_device(void* to_device, const void* from_device, std::size_t bytes) override;
    void synchronize() override { finish_all(); }
    bool copies_aside() const override { return aside; }
    // Of a device that copies by itself, made to be hard on whoever relies on it: until somebody
    // must have them the places hold rubbish, and copies of a stage come in an order of their own.
    void start_copies_from_host(std::span<const HostCopy> copies,
                                std::span<const CopyStage> stages) override;
    double finish_copies() override;
    // On any thread: nothing of the above is touched.
    void copy_to_host_aside(void* to, const void* from_device, std::size_t bytes) override;
    Ops& ops() override;
    // An operation reads the running state, or the bytes of pages below this offset.
    void await_rows(std::size_t page_bytes);

    bool aside = false;          // copies by itself
    std::uint64_t bytes_in = 0;  // copied so
    double copies_ms = 0;        // that they take at least
    std::size_t stages_begun = 0;
    std::size_t copies_going() const { return going_.size(); }
    std::size_t held_bytes() const { return *held_; }
    std::size_t limit_bytes = SIZE_MAX;
    bool tells_free = false;
    // Before each allocation and each copy: may throw.
    std::function<void()> on_call;

  private:
    void called() const {
        if (on_call) on_call();
    }
    void finish_one();
    void finish_all();

    // Of copies from the host that have not happened, in order.
    struct Going {
        std::vector<HostCopy> copies;
        std::size_t page_bytes = 0;
    };
    std::vector<Going> going_;
    std::size_t there_ = SIZE_MAX;  // of pages: bytes below it have come
    std::mt19937_64 random_{7};

    // Outlives the device in its buffers' owners.
    std::shared_ptr<std::size_t> held_ = std::make_shared<std::size_t>(0);
};

struct FakeShape {
    bool recurrent = false;  // a hybrid: attention layers between recurrent ones
    std::int64_t vocabulary = 97;
    std::int64_t chunk_tokens = 64;
    std::size_t row_bytes = 0;  // of a K row, and of a V row; 0 = what the fake needs
};

struct FakePass {
    Position first = 0;
    std::int64_t tokens = 0;
    friend bool operator==(const FakePass&, const FakePass&) = default;
};

class FakeRunner : public Runner {
  public:
    explicit FakeRunner(const FakeShape& shape, std::shared_ptr<FakeDevice> device);

    const Geometry& geometry() const override { return geometry_; }
    const VocabularyFacts& vocabulary() const override { return facts_; }
    Device& device() override { return *device_; }
    std::int64_t chunk_tokens_max() const override { return shape_.chunk_tokens; }
    std::span<const SteeringMode> steering_modes() const override { return modes; }
    bool forward(const SequenceMemory& memory, Position first, std::span<const TokenId> ids,
                 const LastRow& wanted) override;
    void copy_logits(TokenId first, std::span<float> to) override;

    // What tests do to it:
    std::map<Position, TokenId> script;  // the token that the row before this position favours
    std::function<void(const FakePass&)> on_pass;  // before a pass: may throw, stop, move a clock
    // After each of a pass's layers, and then the watch is asked.
    std::function<void(const FakePass&, std::int64_t layer)> on_layer;
    std::int64_t layers = 0;
    bool nan_logits = false;
    std::vector<FakePass> passes;
    std::int64_t logits_given = 0;  // passes that wrote logits
    std::int64_t shortlists_given = 0;
    std::int64_t logits_copied = 0;  // values of rows that were asked for afterwards
    std::int32_t listed_most = Shortlist::kCandidatesMax;  // a shortlist has room for so many
    std::vector<SteeringMode> modes;                       // each changes all hashes by its content
    // From now on the geometry says another size than that of the memory that was allocated by it.
    void grow_state() { ++geometry_.matrix_state_bytes; }

  private:
    std::uint64_t read_rows(const SequenceMemory& memory, std::size_t layer, Position rows) const;
    std::uint64_t write_row(const SequenceMemory& memory, std::size_t layer, Position row,
                            TokenId id, std::uint64_t below) const;
    std::uint64_t advance_state(const SequenceMemory& memory, std::span<const TokenId> ids) const;

    bool compute_layers(const FakePass& pass);
    std::uint64_t steering_salt() const;
    void list(RowShortlist& wish);

    FakeShape shape_;
    std::shared_ptr<FakeDevice> device_;
    Geometry geometry_;
    VocabularyFacts facts_;
    std::vector<float> logits_;  // of the last row for which something was wanted
    ListedLogits listed_;
};

// The greedy answer that a model of this shape gives to `prompt`, read token by token into memory
// of its own: the oracle for whatever road an engine took. Ends before kFakeEnd.
[[nodiscard]] TokenIds fake_answer(const FakeShape& shape, std::span<const TokenId> prompt,
                                   std::int64_t max_new,
                                   const std::map<Position, TokenId>& script = {},
                                   const SteeringMode& steering = {});

}  // namespace strata::tests
