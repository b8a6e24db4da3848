// Loading a model file, and the forward pass of one chunk (include/strata/model/runner.hpp).
#include "strata/model/runner.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "engine/model/arch/architectures.hpp"
#include "engine/model/control_vector.hpp"
#include "engine/model/model_config.hpp"
#include "engine/model/vocabulary.hpp"
#include "engine/model/weight_loader.hpp"
#include "engine/model/weights.hpp"
#include "strata/backend/row_weights.hpp"
#include "strata/core/invariant.hpp"
#include "strata/model/memory_advice.hpp"

namespace strata {
namespace {

// Rows of scratch memory that a chunk may ask for: beyond it, chunks gain nothing on any device.
constexpr std::int64_t kChunkTokensMax = 16'384;

// Of a weight's bytes in the file: a device's own layout is up to 4 % larger (IQ3_S on CUDA).
constexpr std::size_t kLayoutShare = 25;
// What a device allocates by itself while it computes: unpacked panels, partial sums, the graph of
// a step, code that is loaded when it is first used.
constexpr std::size_t kDeviceReserveBytes = std::size_t{512} << 20;

// What the host and the device both look at. The weights of the blocks of a row lie behind it.
struct VisiblePlaces {
    TokenId best = -1;
    TokenCounts seen;
    Shortlist list;

    double* weights() { return reinterpret_cast<double*>(this + 1); }
    static std::size_t bytes(std::int64_t vocabulary) {
        const auto blocks = static_cast<std::size_t>(weight_blocks(vocabulary));
        return sizeof(VisiblePlaces) + blocks * sizeof(double);
    }
};
static_assert(sizeof(VisiblePlaces) % sizeof(double) == 0);

class LoadedRunner final : public Runner {
  public:
    struct Parts {
        Geometry geometry;
        VocabularyFacts vocabulary;
        Decoder decoder;
        DeviceTensors tensors;
        Buffer scratch;
        Buffer logits;
        Buffer visible;  // VisiblePlaces
        std::int64_t chunk_tokens = 0;
        std::vector<Directions> directions;  // of each steering mode
        std::vector<SteeringMode> modes;
    };
    LoadedRunner(Device& device, Parts parts)
        : device_(device), parts_(std::move(parts)), arena_(parts_.scratch) {}

    const Geometry& geometry() const override { return parts_.geometry; }
    const VocabularyFacts& vocabulary() const override { return parts_.vocabulary; }
    Device& device() override { return device_; }
    std::int64_t chunk_tokens_max() const override { return parts_.chunk_tokens; }
    std::span<const SteeringMode> steering_modes() const override { return parts_.modes; }

    bool forward(const SequenceMemory& memory, Position first, std::span<const TokenId> ids,
                 const LastRow& wanted) override {
        const std::int64_t rows = static_cast<std::int64_t>(ids.size());
        STRATA_INVARIANT(rows >= 1 && rows <= parts_.chunk_tokens);
        const std::span<float> logits = wanted.logits;
        const std::int64_t vocabulary = parts_.geometry.vocabulary;
        STRATA_INVARIANT(logits.empty() || std::ssize(logits) == vocabulary);
        if (wanted.shortlist != nullptr) tell_seen(*wanted.shortlist);
        Ops& ops = device_.ops();
        ops.begin({ids, first, memory.pages, memory.running_state});
        const Rows row{wanted.wanted() ? parts_.logits.f32() : nullptr, 1, vocabulary};
        std::span<const float* const> directions;
        if (steering()) directions = parts_.directions.at(*steering()).layers;
        const bool whole = parts_.decoder.forward(
            ops, arena_, rows, row, [this] { return goes_on(); }, directions);
        if (whole && wanted.best != nullptr) {
            find_best(row, *wanted.best);
        } else if (whole && wanted.shortlist != nullptr) {
            list(row, *wanted.shortlist);
        } else {
            if (whole && !logits.empty()) {
                device_.copy_to_host(logits.data(), row.values, logits.size_bytes());
            }
            device_.synchronize();
        }
        return whole;
    }

    void copy_logits(TokenId first, std::span<float> to) override {
        STRATA_INVARIANT(first >= 0 && first + std::ssize(to) <= parts_.geometry.vocabulary);
        device_.copy_to_host(to.data(), parts_.logits.f32() + first, to.size_bytes());
        device_.synchronize();
    }

  private:
    void find_best(Rows row, TokenId& to) {
        constexpr TokenId kUnset = -2;  // what find_largest never says
        TokenId& best = places().best;
        best = kUnset;
        device_.ops().find_largest(row, &best);
        device_.wait_for_change(&best, kUnset);
        to = best;
    }
    void list(Rows row, RowShortlist& wish) {
        VisiblePlaces& at = places();
        at.list.verdict = Shortlist::unset;
        if (wish.penalties) device_.ops().penalise(row, &at.seen, *wish.penalties);
        device_.ops().shortlist(row, wish.rule, &at.list, at.weights());
        device_.wait_for_change(&at.list.verdict, Shortlist::unset);
        wish.list = &at.list;
        wish.weights = {};
        if (!wish.rule.weighs) return;
        wish.weights = {at.weights(), static_cast<std::size_t>(weight_blocks(row.cols))};
    }
    // Before the step: the device may look at them from its beginning on.
    void tell_seen(const RowShortlist& wish) {
        TokenCounts& seen = places().seen;
        STRATA_INVARIANT(wish.seen.size() <= std::size(seen.each));
        seen.size = static_cast<std::int32_t>(wish.seen.size());
        std::copy(wish.seen.begin(), wish.seen.end(), seen.each);
    }
    VisiblePlaces& places() { return *static_cast<VisiblePlaces*>(parts_.visible.address()); }

    Device& device_;
    Parts parts_;
    Arena arena_;
};

Status<> check(const RunnerOptions& options) {
    if (options.chunk_tokens < 1 || options.chunk_tokens > kChunkTokensMax) {
        return refuse_option("chunk of " + std::to_string(options.chunk_tokens) +
                             " tokens is not within 1 to " + std::to_string(kChunkTokensMax));
    }
    return Done{};
}

Status<> check_fit(const RunnerOptions& options, const ModelConfig& config) {
    if (options.max_context > config.trained_context) {
        return refuse_option("a context of " + std::to_string(options.max_context) +
                             " tokens is more than the " + std::to_string(config.trained_context) +
                             " it was made for");
    }
    if (options.turn_token >= config.vocabulary) {
        return refuse_option("turn-token is " + std::to_string(options.turn_token) +
                             ", allowed are ids of the vocabulary, 0 to " +
                             std::to_string(config.vocabulary - 1));
    }
    return Done{};
}

Result<std::vector<ControlVectorValues>> read_control_vectors(const RunnerOptions& options,
                                                              const ModelConfig& config) {
    std::vector<ControlVectorValues> out;
    for (const ControlVector& one : options.control_vectors) {
        auto values = read_control_vector(one, config.width, config.layers.size());
        if (!values.ok()) return values.failure();
        out.push_back(std::move(*values));
    }
    return out;
}

// The steering modes in `out`, and their values on the device.
Status<> add_steering(Device& device, const RunnerOptions& options,
                      const std::vector<ControlVectorValues>& values, LoadedRunner::Parts& out) {
    for (std::size_t i = 0; i < values.size(); ++i) {
        Result<Directions> directions = upload_directions(device, values[i]);
        if (!directions.ok()) return directions.failure();
        out.directions.push_back(std::move(*directions));
        out.modes.push_back({options.control_vectors[i].name, values[i].fingerprint});
    }
    return Done{};
}

// That the file has every tensor in its shape, before the first of many gigabytes is read. Gives
// the decoder without its weights.
Result<Decoder> rehearse(const Weights& weights, const ModelConfig& config,
                         const Geometry& geometry) {
    WeightLoader rehearsal(weights);
    Decoder decoder = load_decoder({config, geometry, rehearsal});
    if (rehearsal.refusal()) return Failure<Refusal>{*rehearsal.refusal()};
    return decoder;
}

std::size_t scratch_bytes(const Decoder& decoder, const RunnerOptions& options) {
    return static_cast<std::size_t>(decoder.scratch_floats(options.chunk_tokens)) * sizeof(float);
}

std::size_t logits_bytes(const Geometry& geometry) {
    return static_cast<std::size_t>(geometry.vocabulary) * sizeof(float);
}

// What the load, one conversation and the device's own work will take.
DeviceMemoryNeed memory_need(const Geometry& geometry, const Decoder& decoder,
                             const RunnerOptions& options, std::uint64_t free_bytes) {
    const std::int64_t unset = std::min(options.default_context, geometry.trained_context);
    DeviceMemoryNeed need =
        growth_need(geometry, 0, options.max_context > 0 ? options.max_context : unset, free_bytes);
    need.weights_bytes = geometry.weights_bytes + geometry.weights_bytes / kLayoutShare;
    need.fixed_bytes = scratch_bytes(decoder, options) + logits_bytes(geometry) +
                       geometry.state_bytes() + kDeviceReserveBytes;
    return need;
}

// Memory that ended although it was foreseen, or on a device that does not tell what is free.
Refusal with_need(Refusal refusal, const DeviceMemoryNeed& need) {
    if (refusal.kind != RefusalKind::out_of_memory) return refusal;
    refusal.text += "; " + need_text(need);
    return refusal;
}

Result<LoadedRunner::Parts> load_parts(Device& device, const RunnerOptions& options,
                                       const WeightLoader::Progress& progress) {
    const Result<Weights> weights = options.image
                                        ? Weights::open(options.model_path, *options.image)
                                        : Weights::open(options.model_path);
    if (!weights.ok()) return weights.failure();
    const Result<ModelConfig> config = read_model_config(weights->header());
    if (!config.ok()) return config.failure();
    Result<VocabularyFacts> vocabulary = read_vocabulary(weights->header(), config->vocabulary);
    if (!vocabulary.ok()) return vocabulary.failure();
    if (const Status<> fits = check_fit(options, *config); !fits.ok()) return fits.failure();
    const auto steering = read_control_vectors(options, *config);
    if (!steering.ok()) return steering.failure();

    LoadedRunner::Parts out;
    out.chunk_tokens = options.chunk_tokens;
    out.geometry = geometry_of(*config, options.kv_type);
    out.geometry.quantisation = weights->main_type();
    out.geometry.weights_bytes = static_cast<std::size_t>(weights->tensor_bytes());
    out.vocabulary = std::move(*vocabulary);
    out.vocabulary.name = config->name;
    const Result<Decoder> plan = rehearse(*weights, *config, out.geometry);
    if (!plan.ok()) return plan.failure();
    const DeviceMemoryNeed need =
        memory_need(out.geometry, *plan, options, device.facts().free_bytes);
    if (const auto advice = memory_advice(need)) return refuse_memory(*advice);
    if (progress) progress(0, weights->tensor_bytes());
    WeightLoader load(device, *weights, progress);
    out.decoder = load_decoder({*config, out.geometry, load});
    if (load.refusal()) return Failure<Refusal>{with_need(*load.refusal(), need)};
    out.tensors = load.take();
    if (const Status<> steered = add_steering(device, options, *steering, out); !steered.ok()) {
        return steered.failure();
    }
    out.vocabulary.model_id = weights->fingerprint();
    if (progress) progress(weights->tensor_bytes(), weights->tensor_bytes());

    Result<Buffer> scratch = device.allocate(scratch_bytes(out.decoder, options));
    if (!scratch.ok()) return Failure<Refusal>{with_need(scratch.error(), need)};
    out.scratch = std::move(*scratch);
    Result<Buffer> logits = device.allocate(logits_bytes(out.geometry));
    if (!logits.ok()) return Failure<Refusal>{with_need(logits.error(), need)};
    out.logits = std::move(*logits);
    Result<Buffer> visible = device.allocate_visible(VisiblePlaces::bytes(out.geometry.vocabulary));
    if (!visible.ok()) return Failure<Refusal>{with_need(visible.error(), need)};
    out.visible = std::move(*visible);
    return out;
}

}  // namespace

Result<std::unique_ptr<Runner>> load_runner(
    Device& device, const RunnerOptions& options,
    const std::function<void(std::uint64_t, std::uint64_t)>& progress) {
    const Status<> allowed = check(options);
    if (!allowed.ok()) return allowed.failure();
    Result<LoadedRunner::Parts> parts = load_parts(device, options, progress);
    if (!parts.ok()) {
        return Failure<Refusal>{
            {"model " + options.model_path + ": " + parts.error().text, parts.error().kind}};
    }
    return std::unique_ptr<Runner>(std::make_unique<LoadedRunner>(device, std::move(*parts)));
}

}  // namespace strata
