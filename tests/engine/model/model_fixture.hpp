// What the tests with real weights share: a loaded model, a conversation's memory, recorded
// references.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "strata/backend/device.hpp"
#include "strata/model/runner.hpp"

namespace strata::model_fixture {

inline constexpr const char* kDemoModel =
    STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-q8_0.gguf";

struct Loaded {
    std::unique_ptr<Device> device;
    std::unique_ptr<Runner> runner;
};
// On two threads. Fails the test when the model does not load.
Loaded load(const std::string& path, KvType kv_type, std::int64_t chunk_tokens,
            const std::string& kernels = "auto", bool exact = false);

// The memory of one conversation of at most `rows_max` rows, and how far it was read.
class Conversation {
  public:
    Conversation(Runner& runner, std::size_t rows_max);
    // Reads `ids` in chunks of at most `chunk`; gives the logits of the last one.
    std::vector<float> read(std::span<const TokenId> ids, std::int64_t chunk);
    // Reads one more token; gives the best next one as the device found it.
    TokenId read_for_best(TokenId id);

  private:
    Buffer allocate(std::size_t bytes);

    Runner& runner_;
    std::vector<Buffer> buffers_;
    std::vector<void*> pages_;
    Buffer state_;
    Position rows_ = 0;
};

// A recorded prompt: logits at some positions (reference models only), and a greedy continuation
// with the distance of the two best logits at each of its steps.
struct Recorded {
    std::string name;
    TokenIds ids;
    std::map<std::size_t, std::vector<double>> logits;
    TokenIds continuation;
    std::vector<double> margins;

    // Steps that another rounding cannot change: up to the first margin under `margin_min`.
    std::size_t certain_steps(double margin_min) const;
};
std::vector<Recorded> reference_prompts(const std::string& path);
std::vector<Recorded> demo_prompts();

TokenId best_of(const std::vector<float>& logits);

// NaN when a value is NaN. Fails the test when the lengths differ.
double largest_difference(std::span<const float> got, std::span<const double> wanted);

// Reads the prompt up to each recorded position and shows its logits beside the recorded ones;
// gives the last ones.
using Visit = std::function<void(std::size_t position, std::span<const float> got,
                                 std::span<const double> wanted)>;
std::vector<float> read_recorded(Conversation& conversation, const Recorded& prompt,
                                 std::int64_t chunk, const Visit& visit);

// Reads the recorded continuation greedily from `logits` on; fails at the first other token.
void check_continuation(Conversation& conversation, const Recorded& prompt,
                        std::vector<float> logits, double margin_min);

}  // namespace strata::model_fixture
