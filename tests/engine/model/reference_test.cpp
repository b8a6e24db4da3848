// The seven architectures against logits that another implementation computed in f32 (recorded with
// the reference models): at each recorded position, and through a greedy continuation of 32 tokens.
#include "tests/engine/model/model_fixture.hpp"

using namespace strata;
using namespace strata::model_fixture;

namespace {

constexpr double kLogitDifferenceMax = 1.0e-4;  // the recorded f32 itself is within 2e-5 of f64
constexpr double kCertainMargin = 2.0e-3;
constexpr std::int64_t kChunk = 512;

// Reads the prompt up to each recorded position and gives the logits of the last one.
std::vector<float> check_positions(Conversation& conversation, const boost::json::object& prompt,
                                   const TokenIds& ids) {
    std::vector<float> logits;
    std::size_t read = 0;
    for (const auto& entry : prompt.at("positions").as_array()) {
        const std::size_t position = boost::json::value_to<std::size_t>(entry);
        const std::string key = std::to_string(position);
        logits = conversation.read(std::span(ids).subspan(read, position + 1 - read), kChunk);
        read = position + 1;
        INFO("position " << key);
        CHECK(largest_difference(logits, numbers_of(prompt.at("logits").at(key))) <=
              kLogitDifferenceMax);
    }
    REQUIRE(read == ids.size());
    return logits;
}

void check_continuation(Conversation& conversation, const boost::json::object& prompt,
                        std::vector<float> logits) {
    const TokenIds wanted = ids_of(prompt.at("continuation"));
    const std::vector<double> margins = numbers_of(prompt.at("continuation_margins"));
    REQUIRE(wanted.size() == 32);
    const std::size_t certain = certain_steps(margins, kCertainMargin);
    for (std::size_t step = 0; step < certain; ++step) {
        INFO("step " << step);
        const TokenId id = best_of(logits);
        REQUIRE(id == wanted[step]);
        logits = conversation.read({&id, 1}, kChunk);
    }
}

void check_model(const std::string& name) {
    const std::string folder = STRATA_REFERENCE_DIR "/" + name;
    const Loaded model = load(folder + "/model.gguf", ElementType::f32, kChunk);
    const boost::json::object reference = read_json(folder + "/reference.json");
    for (const auto& entry : reference.at("prompts").as_array()) {
        const boost::json::object& prompt = entry.as_object();
        const TokenIds ids = ids_of(prompt.at("ids"));
        INFO("prompt of " << ids.size() << " tokens");
        Conversation conversation(*model.runner, static_cast<std::int64_t>(ids.size()) + 32);
        const std::vector<float> logits = check_positions(conversation, prompt, ids);
        check_continuation(conversation, prompt, logits);
    }
}

}  // namespace

TEST_CASE("llama gives the recorded logits and continuation") {
    check_model("llama");
}

TEST_CASE("qwen2 gives the recorded logits and continuation") {
    check_model("qwen2");
}

TEST_CASE("qwen3 gives the recorded logits and continuation") {
    check_model("qwen3");
}

TEST_CASE("qwen3moe gives the recorded logits and continuation") {
    check_model("qwen3_moe");
}

TEST_CASE("qwen3next gives the recorded logits and continuation") {
    check_model("qwen3_next");
}

TEST_CASE("qwen35 gives the recorded logits and continuation") {
    check_model("qwen3_5");
}

TEST_CASE("qwen35moe gives the recorded logits and continuation") {
    check_model("qwen3_5_moe");
}
