// What the tests with real weights share: a loaded model, a conversation's memory, recorded
// references.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <boost/json.hpp>
#include <catch2/catch.hpp>

#include "strata/backend/device.hpp"
#include "strata/model/runner.hpp"

namespace strata::model_fixture {

inline const std::vector<std::string> kReferenceNames = {
    "llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe"};
inline const std::string kDemoModel = STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-q8_0.gguf";
inline const std::string kDemoReference =
    STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-reference.json";

struct Loaded {
    std::unique_ptr<Device> device;
    std::unique_ptr<Runner> runner;
};

inline Loaded load(const std::string& path, ElementType kv_type, std::int64_t chunk_tokens,
                   const std::string& kernels = "auto") {
    Loaded out;
    auto device = make_cpu_device({2, kernels});
    REQUIRE(device.ok());
    out.device = std::move(*device);
    auto runner = load_runner(*out.device, {path, kv_type, 0, chunk_tokens}, {});
    if (!runner.ok()) FAIL(runner.error().text);
    out.runner = std::move(*runner);
    return out;
}

// The memory of one conversation of at most `rows_max` rows, and how far it was read.
class Conversation {
  public:
    Conversation(Runner& runner, std::int64_t rows_max) : runner_(runner) {
        const Geometry& geometry = runner.geometry();
        for (std::int64_t row = 0; row < rows_max; row += kPageTokens) {
            buffers_.push_back(allocate(geometry.page_bytes()));
            pages_.push_back(buffers_.back().address());
        }
        if (geometry.recurrent()) state_ = allocate(geometry.state_bytes());
    }

    // Reads `ids` in chunks of at most `chunk`; gives the logits of the last one.
    std::vector<float> read(std::span<const TokenId> ids, std::int64_t chunk) {
        std::vector<float> logits(static_cast<std::size_t>(runner_.geometry().vocabulary));
        const SequenceMemory memory{pages_, state_.address()};
        while (!ids.empty()) {
            const std::size_t count = std::min(ids.size(), static_cast<std::size_t>(chunk));
            const bool last = count == ids.size();
            runner_.forward(memory, rows_, ids.first(count),
                            last ? std::span<float>(logits) : std::span<float>());
            rows_ += static_cast<Position>(count);
            ids = ids.subspan(count);
        }
        return logits;
    }

  private:
    Buffer allocate(std::size_t bytes) {
        auto buffer = runner_.device().allocate(bytes);
        REQUIRE(buffer.ok());
        return *buffer;
    }

    Runner& runner_;
    std::vector<Buffer> buffers_;
    std::vector<void*> pages_;
    Buffer state_;
    Position rows_ = 0;
};

inline TokenId best_of(const std::vector<float>& logits) {
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

inline boost::json::object read_json(const std::string& path) {
    std::ifstream file(path);
    REQUIRE(file.good());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return boost::json::parse(text).as_object();
}

inline TokenIds ids_of(const boost::json::value& list) {
    return boost::json::value_to<TokenIds>(list);
}

inline std::vector<double> numbers_of(const boost::json::value& list) {
    return boost::json::value_to<std::vector<double>>(list);
}

inline double largest_difference(std::span<const float> got, std::span<const double> wanted) {
    REQUIRE(got.size() == wanted.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double difference = std::abs(static_cast<double>(got[i]) - wanted[i]);
        if (!(difference <= worst)) worst = difference;  // a NaN stays
    }
    return worst;
}

// Steps of a greedy continuation that are certain: up to the first margin under `margin_min`.
inline std::size_t certain_steps(const std::vector<double>& margins, double margin_min) {
    const auto first = std::find_if(margins.begin(), margins.end(),
                                    [&](double margin) { return margin < margin_min; });
    return static_cast<std::size_t>(first - margins.begin());
}

}  // namespace strata::model_fixture
