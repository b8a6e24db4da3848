#include "tests/engine/model/model_fixture.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>

#include <boost/json.hpp>
#include <catch2/catch.hpp>

namespace strata::model_fixture {
namespace {

boost::json::array prompts_of(const std::string& path) {
    std::ifstream file(path);
    REQUIRE(file.good());
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return boost::json::parse(text).as_object().at("prompts").as_array();
}

std::vector<double> numbers(const boost::json::value& list) {
    return boost::json::value_to<std::vector<double>>(list);
}

TokenIds ids(const boost::json::value& list) {
    return boost::json::value_to<TokenIds>(list);
}

}  // namespace

Loaded load(const std::string& path, KvType kv_type, std::int64_t chunk_tokens,
            const std::string& kernels, bool exact) {
    Loaded out;
    auto device = make_cpu_device({2, kernels, exact});
    REQUIRE(device.ok());
    out.device = std::move(*device);
    auto runner = load_runner(
        *out.device, {.model_path = path, .kv_type = kv_type, .chunk_tokens = chunk_tokens}, {});
    if (!runner.ok()) FAIL(runner.error().text);
    out.runner = std::move(*runner);
    return out;
}

Conversation::Conversation(Runner& runner, std::size_t rows_max) : runner_(runner) {
    const Geometry& geometry = runner.geometry();
    for (std::size_t row = 0; row < rows_max; row += static_cast<std::size_t>(kPageTokens)) {
        buffers_.push_back(allocate(geometry.page_bytes()));
        pages_.push_back(buffers_.back().address());
    }
    if (geometry.recurrent()) state_ = allocate(geometry.state_bytes());
}

Buffer Conversation::allocate(std::size_t bytes) {
    auto buffer = runner_.device().allocate(bytes);
    REQUIRE(buffer.ok());
    return *buffer;
}

std::vector<float> Conversation::read(std::span<const TokenId> ids, std::int64_t chunk) {
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

TokenId Conversation::read_for_best(TokenId id) {
    TokenId best = -1;
    runner_.forward({pages_, state_.address()}, rows_++, {&id, 1}, best);
    return best;
}

std::size_t Recorded::certain_steps(double margin_min) const {
    const auto first = std::find_if(margins.begin(), margins.end(),
                                    [&](double margin) { return margin < margin_min; });
    return static_cast<std::size_t>(first - margins.begin());
}

std::vector<Recorded> reference_prompts(const std::string& path) {
    std::vector<Recorded> out;
    for (const auto& entry : prompts_of(path)) {
        const boost::json::object& prompt = entry.as_object();
        Recorded one;
        one.ids = ids(prompt.at("ids"));
        one.continuation = ids(prompt.at("continuation"));
        one.margins = numbers(prompt.at("continuation_margins"));
        for (const auto& [position, logits] : prompt.at("logits").as_object()) {
            one.logits[std::stoul(position)] = numbers(logits);
        }
        out.push_back(std::move(one));
    }
    return out;
}

std::vector<Recorded> demo_prompts() {
    std::vector<Recorded> out;
    for (const auto& entry :
         prompts_of(STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-reference.json")) {
        const boost::json::object& prompt = entry.as_object();
        Recorded one;
        one.name = prompt.at("name").as_string();
        one.ids = ids(prompt.at("prompt_ids"));
        one.continuation = ids(prompt.at("greedy_ids"));
        one.margins = numbers(prompt.at("greedy_margins"));
        out.push_back(std::move(one));
    }
    return out;
}

TokenId best_of(const std::vector<float>& logits) {
    return static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

double largest_difference(std::span<const float> got, std::span<const double> wanted) {
    REQUIRE(got.size() == wanted.size());
    double worst = 0.0;
    for (std::size_t i = 0; i < got.size(); ++i) {
        const double difference = std::abs(static_cast<double>(got[i]) - wanted[i]);
        if (!(difference <= worst)) worst = difference;
        if (std::isnan(worst)) break;
    }
    return worst;
}

std::vector<float> read_recorded(Conversation& conversation, const Recorded& prompt,
                                 std::int64_t chunk, const Visit& visit) {
    std::vector<float> logits;
    std::size_t read = 0;
    for (const auto& [position, wanted] : prompt.logits) {
        const std::span<const TokenId> ids(prompt.ids);
        logits = conversation.read(ids.subspan(read, position + 1 - read), chunk);
        read = position + 1;
        visit(position, logits, wanted);
    }
    REQUIRE(read == prompt.ids.size());
    return logits;
}

void check_continuation(Conversation& conversation, const Recorded& prompt,
                        std::vector<float> logits, double margin_min) {
    REQUIRE(prompt.margins.size() == prompt.continuation.size());
    const std::size_t certain = prompt.certain_steps(margin_min);
    for (std::size_t step = 0; step < certain; ++step) {
        INFO("step " << step << " of " << certain);
        const TokenId id = best_of(logits);
        REQUIRE(id == prompt.continuation[step]);
        logits = conversation.read({&id, 1}, 1);
    }
}

}  // namespace strata::model_fixture
