// The sampler against straightforward float64 oracles that sort the whole vocabulary, published
// vectors of the random number generator, and the distributions that many draws must have.
#include "engine/model/sampler.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include <catch2/catch.hpp>

namespace strata {
namespace {

std::vector<float> random_logits(std::size_t count, unsigned seed, float spread = 4) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, spread);
    std::vector<float> logits(count);
    for (float& logit : logits) logit = normal(random);
    return logits;
}

struct Share {
    TokenId token;
    double probability;
};

// The chain of sampler.hpp by its definition: everything sorted, everything float64.
std::map<TokenId, double> oracle(const std::vector<float>& given, const TokenIds& newest,
                                 const SamplingSettings& s) {
    std::vector<double> logits(given.begin(), given.end());
    const auto window =
        std::min<std::size_t>(newest.size(), static_cast<std::size_t>(s.penalty_last_n));
    std::map<TokenId, int> counts;
    for (std::size_t i = newest.size() - window; i < newest.size(); ++i) ++counts[newest[i]];
    for (const auto& [token, count] : counts) {
        double& logit = logits[static_cast<std::size_t>(token)];
        logit = logit > 0 ? logit / s.repeat_penalty : logit * s.repeat_penalty;
        logit -= count * s.frequency_penalty + s.presence_penalty;
    }
    std::vector<Share> shares;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        shares.push_back({static_cast<TokenId>(i), logits[i]});
    }
    std::stable_sort(shares.begin(), shares.end(),
                     [](const Share& a, const Share& b) { return a.probability > b.probability; });
    if (s.top_k > 0 && static_cast<std::size_t>(s.top_k) < shares.size()) {
        shares.resize(static_cast<std::size_t>(s.top_k));
    }
    double sum = 0;
    for (const Share& each : shares) sum += std::exp(each.probability - shares[0].probability);
    std::size_t kept = 0;
    for (double reached = 0; kept < shares.size() && reached < s.top_p * sum; ++kept) {
        reached += std::exp(shares[kept].probability - shares[0].probability);
    }
    shares.resize(s.top_p < 1 ? kept : shares.size());
    const double most = shares[0].probability;
    std::erase_if(shares,
                  [&](const Share& each) { return std::exp(each.probability - most) < s.min_p; });
    std::map<TokenId, double> out;
    double total = 0;
    for (const Share& each : shares) {
        total += out[each.token] = std::exp((each.probability - most) / s.temperature);
    }
    for (auto& [token, probability] : out) probability /= total;
    return out;
}

// Pearson's statistic of many draws against the oracle; rare tokens are pooled.
void check_distribution(const std::vector<float>& logits, const TokenIds& newest,
                        const SamplingSettings& settings) {
    constexpr int kDraws = 40'000;
    const auto wanted = oracle(logits, newest, settings);
    std::map<TokenId, int> got;
    Sampler sampler;
    for (std::uint64_t i = 0; i < kDraws; ++i)
        ++got[sampler.choose(logits, newest, settings, i).value()];
    double statistic = 0;
    double pooled_wanted = 0;
    double pooled_got = 0;
    int cells = 0;
    for (const auto& [token, count] : got) {
        INFO("token " << token);
        REQUIRE(wanted.contains(token));
    }
    const auto add = [&](double expected, double observed) {
        statistic += (observed - expected) * (observed - expected) / expected;
        ++cells;
    };
    for (const auto& [token, probability] : wanted) {
        const double expected = probability * kDraws;
        const double observed = got.contains(token) ? got[token] : 0;
        if (expected < 10) {
            pooled_wanted += expected;
            pooled_got += observed;
        } else {
            add(expected, observed);
        }
    }
    if (pooled_wanted >= 10) add(pooled_wanted, pooled_got);
    // Mean and deviation of chi-square with cells - 1 degrees; five deviations never fail by
    // chance.
    const double degrees = std::max(cells - 1, 1);
    CHECK(statistic < degrees + 5 * std::sqrt(2 * degrees));
}

SamplingSettings warm(double temperature = 1) {
    SamplingSettings settings;
    settings.temperature = temperature;
    settings.seed = 42;
    return settings;
}

}  // namespace

TEST_CASE("philox gives the published numbers") {
    // Random123's known answers for philox4x32-10 whose upper counter words are zero.
    const PhiloxWords zero = philox(0, 0);
    CHECK(zero.word[0] == 0x6627e8d5U);
    CHECK(zero.word[1] == 0xe169c58dU);
    CHECK(zero.word[2] == 0xbc57ac4cU);
    CHECK(zero.word[3] == 0x9b00dbd8U);
}

TEST_CASE("uniform numbers fill the unit interval evenly and differ by seed and counter") {
    std::vector<int> cells(64);
    constexpr int kDraws = 64'000;
    for (std::uint64_t i = 0; i < kDraws; ++i) {
        const double u = uniform(7, i);
        REQUIRE((u >= 0 && u < 1));
        ++cells[static_cast<std::size_t>(u * 64)];
    }
    double statistic = 0;
    for (const int count : cells) statistic += (count - 1000.0) * (count - 1000.0) / 1000.0;
    CHECK(statistic < 63 + 5 * std::sqrt(2 * 63.0));
    CHECK(uniform(7, 0) != uniform(7, 1));
    CHECK(uniform(7, 0) != uniform(8, 0));
}

TEST_CASE("greedy takes the largest logit and at equality the lowest id") {
    Sampler sampler;
    for (const std::size_t count : {1U, 2U, 15U, 16U, 17U, 33U, 1000U}) {
        const auto logits = random_logits(count, static_cast<unsigned>(count));
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        CHECK(sampler.choose(logits, {}, {}, 0) == static_cast<TokenId>(best));
    }
    std::vector<float> ties(40, 1.0F);
    CHECK(greedy_token(ties) == 0);
    ties[0] = ties[1] = -3;
    CHECK(greedy_token(ties) == 2);
    ties[39] = 2;
    ties[20] = 2;
    CHECK(greedy_token(ties) == 20);
}

TEST_CASE("logits of a failed pass choose nothing") {
    Sampler sampler;
    const float nan = std::numeric_limits<float>::quiet_NaN();
    const float infinity = std::numeric_limits<float>::infinity();
    for (const std::size_t at : {0U, 17U, 39U}) {
        for (const float bad : {nan, infinity}) {
            std::vector<float> logits(40, 1.0F);
            logits[at] = bad;
            CHECK_FALSE(sampler.choose(logits, {}, {}, 0));
            CHECK_FALSE(sampler.choose(logits, {}, warm(), 0));
        }
    }
    CHECK_FALSE(greedy_token(std::vector<float>(40, -infinity)));
    std::vector<float> masked(40, -infinity);
    masked[33] = -7;
    CHECK(greedy_token(masked) == 33);
    CHECK(sampler.choose(masked, {}, warm(), 0) == 33);
}

TEST_CASE("the same seed and position give the same token and others differ") {
    const auto logits = random_logits(500, 1, 1);
    Sampler sampler;
    Sampler other;
    int differing = 0;
    for (std::uint64_t i = 0; i < 200; ++i) {
        const auto token = sampler.choose(logits, {}, warm(), i);
        CHECK(other.choose(logits, {}, warm(), i) == token);
        SamplingSettings reseeded = warm();
        reseeded.seed = 43;
        differing += other.choose(logits, {}, reseeded, i) != token ? 1 : 0;
    }
    CHECK(differing > 150);
}

TEST_CASE("draws have the distribution of the chain") {
    const auto logits = random_logits(300, 3, 2);
    SECTION("temperature alone") {
        check_distribution(logits, {}, warm(0.8));
    }
    SECTION("hot") {
        check_distribution(logits, {}, warm(3));
    }
    SECTION("more tokens than a block has") {
        check_distribution(random_logits(1'500, 4, 1), {}, warm(1.2));
    }
    SECTION("top_k") {
        auto s = warm();
        s.top_k = 12;
        check_distribution(logits, {}, s);
    }
    SECTION("top_p") {
        auto s = warm();
        s.top_p = 0.7;
        check_distribution(logits, {}, s);
    }
    SECTION("min_p") {
        auto s = warm(1.5);
        s.min_p = 0.05;
        check_distribution(logits, {}, s);
    }
    SECTION("all filters together") {
        auto s = warm(1.3);
        s.top_k = 40;
        s.top_p = 0.9;
        s.min_p = 0.02;
        check_distribution(logits, {}, s);
    }
    SECTION("penalties before filters") {
        auto s = warm();
        s.top_k = 20;
        s.repeat_penalty = 1.4;
        s.frequency_penalty = 0.3;
        s.presence_penalty = 0.5;
        s.penalty_last_n = 6;
        TokenIds newest(40);
        std::iota(newest.begin(), newest.end(), 5);
        newest.insert(newest.end(), {17, 17, 17, 250, 3, 17});
        check_distribution(logits, newest, s);
    }
}

TEST_CASE(
    "a draw from a whole vocabulary takes the token at which the probabilities add up to it") {
    constexpr double kRounding =
        1.0e-6;  // of the sum: draws so close to an edge may fall beside it
    for (const std::size_t size : {1U, 15U, 255U, 256U, 257U, 5'003U, 151'936U}) {
        std::vector<float> logits = random_logits(size, 7, 3);
        // Masked tokens, and whole stretches of them at either end and between.
        const float masked = -std::numeric_limits<float>::infinity();
        for (std::size_t i = 0; i < size; i += 5) logits[i] = masked;
        std::fill_n(logits.begin(), size / 9, masked);
        std::fill_n(logits.begin() + static_cast<std::ptrdiff_t>(size / 2), size / 9, masked);
        std::fill_n(logits.rbegin(), size / 9, masked);
        logits[size / 3] = 9;
        for (const double temperature : {0.3, 1.0, 20.0}) {
            std::vector<double> reached;
            double sum = 0;
            for (const float logit : logits) {
                sum += std::exp((static_cast<double>(logit) - 9) / temperature);
                reached.push_back(sum);
            }
            Sampler sampler;
            const SamplingSettings settings = warm(temperature);
            std::size_t wrong = 0;
            for (std::uint64_t i = 0; i < 60; ++i) {
                const auto at =
                    static_cast<std::size_t>(sampler.choose(logits, {}, settings, i).value());
                const double target = uniform(settings.seed, i) * sum;
                const double below = at == 0 ? 0 : reached[at - 1];
                const bool there =
                    target >= below - kRounding * sum && target <= reached[at] + kRounding * sum;
                if (!there || logits[at] == masked) ++wrong;
            }
            INFO(size << " tokens, temperature " << temperature);
            CHECK(wrong == 0);
        }
    }
}

TEST_CASE("what the filters keep is exactly what sorting everything keeps") {
    std::mt19937 random(11);
    for (unsigned round = 0; round < 60; ++round) {
        const auto logits =
            random_logits(64 + round * 7, round, 0.5F + static_cast<float>(round % 5));
        SamplingSettings s = warm(50);  // so hot that every kept token is drawn
        if (round % 2 == 0) s.top_k = 1 + static_cast<std::int64_t>(random() % 10);
        if (round % 3 != 0) s.top_p = 0.05 + 0.3 * static_cast<double>(random() % 3);
        if (round % 5 == 0) s.min_p = 0.3;
        const auto wanted = oracle(logits, {}, s);
        std::map<TokenId, int> got;
        Sampler sampler;
        const auto draws = static_cast<std::uint64_t>(wanted.size() * 40);
        for (std::uint64_t i = 0; i < draws; ++i) ++got[sampler.choose(logits, {}, s, i).value()];
        INFO("round " << round);
        CHECK(got.size() == wanted.size());
        for (const auto& [token, count] : got) CHECK(wanted.contains(token));
    }
}

TEST_CASE("equal logits are cut by rising id") {
    const std::vector<float> logits(50, 2.0F);
    SamplingSettings s = warm();
    s.top_k = 3;
    Sampler sampler;
    for (std::uint64_t i = 0; i < 200; ++i) CHECK(*sampler.choose(logits, {}, s, i) < 3);
    s.top_k = 0;
    s.top_p = 0.1;
    for (std::uint64_t i = 0; i < 200; ++i) CHECK(*sampler.choose(logits, {}, s, i) < 6);
}

TEST_CASE("penalties move the greedy choice by their formula") {
    std::vector<float> logits{4, 3, -1, 2};
    Sampler sampler;
    SamplingSettings s;
    s.repeat_penalty = 2;
    CHECK(sampler.choose(logits, TokenIds{0}, s, 0) == 1);  // 4 / 2 < 3
    s = {};
    s.frequency_penalty = 0.4;
    CHECK(sampler.choose(logits, TokenIds{0, 0}, s, 0) == 0);     // 4 - 0.8
    CHECK(sampler.choose(logits, TokenIds{0, 0, 0}, s, 0) == 1);  // 4 - 1.2
    s = {};
    s.presence_penalty = 1.5;
    CHECK(sampler.choose(logits, TokenIds{0, 0, 0}, s, 0) == 1);
    s.penalty_last_n = 2;
    CHECK(sampler.choose(logits, TokenIds{0, 2, 2}, s, 0) == 0);  // outside the window
    s.penalty_last_n = 0;
    CHECK(sampler.choose(logits, TokenIds{0}, s, 0) == 0);
    s = {};
    s.repeat_penalty = 2;
    logits = {-1, -1.5F};
    CHECK(sampler.choose(logits, TokenIds{0}, s, 0) == 1);  // -1 * 2 < -1.5
    s = {};
    s.frequency_penalty = -1e308;
    CHECK(sampler.choose(logits, TokenIds{1}, s, 0) == 1);  // huge and still a number
}

TEST_CASE("a temperature near zero is greedy and no accident") {
    const auto logits = random_logits(100, 9);
    Sampler sampler;
    for (const double temperature : {1e-3, 1e-30, 1e-300}) {
        CHECK(sampler.choose(logits, {}, warm(temperature), 5) == greedy_token(logits));
    }
}

TEST_CASE("reports are log-softmax before penalties with the most probable first") {
    const auto logits = random_logits(200, 4, 3);
    double sum = 0;
    for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
    const TokenReport report = report_token(logits, 17, 5);
    CHECK(report.logprob == Approx(static_cast<double>(logits[17]) - std::log(sum)).margin(1e-5));
    std::vector<TokenId> order(logits.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
        return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
    });
    REQUIRE(report.top.size() == 5);
    for (std::size_t i = 0; i < 5; ++i) {
        CHECK(report.top[i].token == order[i]);
        const double logit = logits[static_cast<std::size_t>(order[i])];
        CHECK(report.top[i].logprob == Approx(logit - std::log(sum)).margin(1e-5));
    }
    CHECK(report_token(std::vector<float>{1, 2}, 0, 9).top.size() == 2);
}

}  // namespace strata
