// Runner: a loaded model. It reads tokens into one conversation's memory and gives logits. It owns
// the weights and the scratch memory; the conversation's memory belongs to state/live_session.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "strata/backend/device.hpp"
#include "strata/backend/shortlist.hpp"
#include "strata/core/result.hpp"
#include "strata/core/types.hpp"
#include "strata/model/geometry.hpp"

namespace strata {

// Where one conversation lives on the device (layout: geometry.hpp). Page p holds rows
// [p * kPageTokens, (p + 1) * kPageTokens).
struct SequenceMemory {
    std::span<void* const> pages;   // device addresses; enough pages for every row that is written
    void* running_state = nullptr;  // Geometry::state_bytes(); null for an attention-only model
};

// The shortlist of a row of logits, as a device makes it.
struct RowShortlist {
    ShortlistRule rule;
    // Lowered first, in place: the logits of these tokens, at most TokenCounts::kMost.
    std::optional<Penalties> penalties{};
    std::span<const TokenCount> seen{};

    // Filled in by forward(); good until the next one.
    const Shortlist* list = nullptr;
    std::span<const double> weights{};  // of the blocks, if the rule has them
};

// What a forward pass is asked for besides its rows: places in host memory for what follows from
// the LAST row, one of them or none. What has no place is not computed, or at least does not leave
// the device.
struct LastRow {
    LastRow() = default;
    LastRow(std::span<float> all) : logits(all) {}
    LastRow(std::vector<float>& all) : logits(all) {}
    LastRow(TokenId& largest) : best(&largest) {}
    LastRow(RowShortlist& wish) : shortlist(&wish) {}

    bool wanted() const { return best != nullptr || shortlist != nullptr || !logits.empty(); }

    std::span<float> logits{};  // the vocabulary's f32 logits
    TokenId* best = nullptr;    // of the largest logit, as Ops::find_largest() has it
    RowShortlist* shortlist = nullptr;
};

// What the vocabulary of the model file says about ids that mean something to the engine.
struct VocabularyFacts {
    TokenIds end_ids;          // eos, eot and eom ids of the file: any of them ends an answer
    TokenId turn_open = -1;    // opens every message (<|im_start|>); -1 = none
    TokenId system_word = -1;  // the id of the token "system"; -1 = none
    std::string model_id;      // content fingerprint of the file (hex)
    std::string name;          // general.name
};

// A way to steer the model: directions that are added to the hidden state behind its layers.
struct SteeringMode {
    std::string name;
    std::string content;  // fingerprint of all that it adds, layers and scale included; not empty
};

class Runner {
  public:
    virtual ~Runner() = default;
    virtual const Geometry& geometry() const = 0;
    virtual const VocabularyFacts& vocabulary() const = 0;
    virtual Device& device() = 0;

    // Most tokens that one forward() takes.
    virtual std::int64_t chunk_tokens_max() const = 0;

    // The steering modes that can be asked for.
    virtual std::span<const SteeringMode> steering_modes() const { return {}; }
    // Every forward() from here on is steered by this one of steering_modes(), or, as those of a
    // new runner, by none. Rows and states belong to the mode that they were computed with.
    void steer(std::optional<std::size_t> mode) { steering_ = mode; }

    // Asked between two parts of a layer while forward() computes, on its thread: false = abandon
    // the pass. A pass of many tokens may take long; this is where it can show that it lives. The
    // watch must not touch the conversation.
    using Watch = std::function<bool()>;
    void watch(Watch watch) { watch_ = std::move(watch); }

    // Computes rows [first, first + ids.size()): writes their K/V, advances the running state, and
    // fills the places of `wanted`. Preconditions: the running state and all rows below `first` are
    // those of the same conversation; 1 <= ids.size() <= chunk_tokens_max(). False when the watch
    // abandoned it: rows below `first` are as they were, the running state is neither the old nor
    // the next one.
    virtual bool forward(const SequenceMemory& memory, Position first, std::span<const TokenId> ids,
                         const LastRow& wanted) = 0;
    // Of the logits that the newest forward() computed for its last row: those from token `first`
    // on, lowered by penalties if a shortlist was asked for with them. Precondition: it computed
    // some.
    virtual void copy_logits(TokenId first, std::span<float> to) = 0;

  protected:
    bool goes_on() const { return !watch_ || watch_(); }
    std::optional<std::size_t> steering() const { return steering_; }

  private:
    Watch watch_;
    std::optional<std::size_t> steering_;
};

// A steering mode to load: a GGUF file with tensors "direction.N" (F32, one value for each of the
// model's width), each of them added, times `scale`, to the hidden state behind layer N. Layers are
// counted from 0, as the model file's "blk.N" are; one without a tensor stays as it is.
struct ControlVector {
    std::string name;
    std::string path;
    float scale = 1.0F;
};

// The bytes of a whole model file that are in memory, and who keeps them there.
struct ModelImage {
    std::span<const std::byte> bytes;
    std::shared_ptr<const void> owner;
    std::string fingerprint{};  // of the content, if it is known; empty: from all bytes
};

struct RunnerOptions {
    std::string model_path;
    KvType kv_type = KvType::f16;
    std::int64_t max_context = 0;  // rows; more than the model was made for is refused
    // Rows that a conversation may have when max_context is 0, if the model was made for as many.
    // For the memory that the load asks of the device; 0 = none is asked for.
    std::int64_t default_context = 0;
    std::int64_t chunk_tokens = 512;
    TokenId turn_token = -1;  // must be an id of the vocabulary; -1 = none is asked for
    std::vector<ControlVector> control_vectors{};
    // In place of the file at `model_path`, which only names it in refusals then.
    std::optional<ModelImage> image{};
};

// Loads a GGUF file (also split files) onto the device. `progress(bytes_done, bytes_total)` is
// called from the calling thread, first with 0 bytes done: by then all is known that can be known
// of the file and of the options without reading the weights, and a device that tells its free
// memory has room for all of it and a whole context; so what is refused later is memory that was
// not foreseen, or the device's word on a weight. Refusals name the file, the fault and what is
// allowed.
Result<std::unique_ptr<Runner>> load_runner(
    Device& device, const RunnerOptions& options,
    const std::function<void(std::uint64_t, std::uint64_t)>& progress);

}  // namespace strata
