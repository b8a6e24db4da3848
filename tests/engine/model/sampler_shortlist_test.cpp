// A token from a shortlist is the token from the row: over many rows and settings both are compared
// with each other, bit for bit the same, and with a float64 oracle that sorts the whole vocabulary.
// What is asked for besides the list is counted, so that every way is known to be taken.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>

#include <catch2/catch.hpp>

#include "engine/model/sampler.hpp"
#include "tests/support/listed_logits.hpp"

namespace strata {
namespace {

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// By its definition (sampler.hpp): in f64, then held within the finite floats.
std::vector<float> lowered(std::vector<float> logits, const TokenIds& newest,
                           const SamplingSettings& s) {
    std::map<TokenId, int> counts;
    const auto window =
        std::min<std::size_t>(newest.size(), static_cast<std::size_t>(s.penalty_last_n));
    for (std::size_t i = newest.size() - window; i < newest.size(); ++i) ++counts[newest[i]];
    for (const auto& [token, count] : counts) {
        float& logit = logits[static_cast<std::size_t>(token)];
        if (logit == kMasked) continue;
        double value = static_cast<double>(logit);
        value = value > 0 ? value / s.repeat_penalty : value * s.repeat_penalty;
        value -= count * s.frequency_penalty + s.presence_penalty;
        logit = static_cast<float>(value);
    }
    return logits;
}

// The token, or nothing where a decision is so close that rounding may make it.
class Oracle {
  public:
    Oracle(const std::vector<float>& logits, const SamplingSettings& s, double chance) {
        for (std::size_t i = 0; i < logits.size(); ++i) {
            if (logits[i] > kMasked) kept_.push_back({logits[i], static_cast<TokenId>(i)});
        }
        std::stable_sort(kept_.begin(), kept_.end(),
                         [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
        largest_ = static_cast<double>(kept_.front().logit);
        if (s.temperature <= 0) {
            token_ = kept_.front().token;
            return;
        }
        const bool cuts_k = s.top_k > 0 && s.top_k < std::ssize(logits);
        if (cuts_k) kept_.resize(std::min(kept_.size(), static_cast<std::size_t>(s.top_k)));
        if (s.top_p < 1) cut_top_p(s.top_p);
        if (s.min_p > 0) cut_min_p(s.min_p);
        // What is not cut by rank stays in the order of the vocabulary.
        if (!cuts_k && s.top_p >= 1) {
            std::sort(kept_.begin(), kept_.end(),
                      [](const Candidate& a, const Candidate& b) { return a.token < b.token; });
        }
        draw(s.temperature, chance);
    }
    std::optional<TokenId> token() const { return close_ ? std::nullopt : token_; }

  private:
    static constexpr double kRounding = 2e-6;

    double weight(const Candidate& each, double temperature) const {
        return std::exp((static_cast<double>(each.logit) - largest_) / temperature);
    }
    double sum(double temperature) const {
        double total = 0;
        for (const Candidate& each : kept_) total += weight(each, temperature);
        return total;
    }
    void near(double a, double b, double size) {
        close_ = close_ || std::abs(a - b) < kRounding * size;
    }
    void cut_top_p(double top_p) {
        const double total = sum(1);
        double reached = 0;
        std::size_t count = 0;
        while (count < kept_.size() && reached < top_p * total) {
            near(reached, top_p * total, total);
            reached += weight(kept_[count++], 1);
        }
        near(reached, top_p * total, total);
        kept_.resize(count);
    }
    void cut_min_p(double min_p) {
        std::erase_if(kept_, [&](const Candidate& each) {
            near(weight(each, 1), min_p, 10 * min_p);
            return weight(each, 1) < min_p;
        });
    }
    void draw(double temperature, double chance) {
        const double total = sum(temperature);
        double reached = 0;
        for (const Candidate& each : kept_) {
            near(reached, chance * total, total);
            reached += weight(each, temperature);
            token_ = each.token;
            if (reached > chance * total) break;
        }
        near(reached, chance * total, total);
    }

    std::vector<Candidate> kept_;
    double largest_ = 0;
    std::optional<TokenId> token_;
    bool close_ = false;
};

// How often a token came from the list alone, with one block of the row, and from the whole row.
struct Ways {
    int list = 0;
    int block = 0;
    int row = 0;
};

std::optional<TokenId> choose_listed(Sampler& sampler, const std::vector<float>& lowered,
                                     const SamplingSettings& s, std::uint64_t counter,
                                     std::int32_t room, Ways& ways) {
    const auto size = static_cast<std::int64_t>(lowered.size());
    const auto rule = shortlist_rule(s, size);
    REQUIRE(rule);
    const auto listed = tests::list_logits(lowered, *rule, room);
    std::vector<std::size_t> asked;
    std::vector<float> given;
    const ShortRow row{listed.list, listed.weights, size,
                       [&](std::size_t first, std::size_t count) {
                           asked.push_back(count);
                           const auto from = lowered.begin() + static_cast<std::ptrdiff_t>(first);
                           given.assign(from, from + static_cast<std::ptrdiff_t>(count));
                           return std::span<const float>(given);
                       }};
    const auto token = sampler.choose(row, s, counter);
    CHECK(asked.size() <= 1);
    if (asked.empty()) {
        ++ways.list;
    } else if (rule->count == 0) {
        CHECK(asked.front() <= 256);
        ++ways.block;
    } else {
        CHECK(asked.front() == lowered.size());
        ++ways.row;
    }
    return token;
}

class Dice {
  public:
    explicit Dice(unsigned seed) : random_(seed) {}
    bool one_in(unsigned sides) { return random_() % sides == 0; }
    std::uint64_t below(std::uint64_t end) { return random_() % end; }
    double unit() { return static_cast<double>(random_()) / 4294967296.0; }

    std::vector<float> logits() {
        const std::size_t sizes[] = {1 + below(40), 200 + below(200), 1'000 + below(3'000), 9'001};
        std::vector<float> out(sizes[below(4)]);
        std::normal_distribution<float> normal(static_cast<float>(below(3)) * 8 - 8,
                                               static_cast<float>(0.2 + 6 * unit()));
        const bool rounds = one_in(4);
        const bool masks = one_in(4);
        for (float& logit : out) {
            logit = normal(random_);
            if (rounds) logit = std::round(logit);
            if (masks && one_in(3)) logit = kMasked;
        }
        out[below(out.size())] = 12;
        return out;
    }
    SamplingSettings settings() {
        SamplingSettings s;
        s.seed = below(1'000);
        s.temperature = one_in(8) ? 0 : one_in(6) ? 30 * unit() : 0.1 + 1.4 * unit();
        if (one_in(2)) s.top_k = static_cast<std::int64_t>(1 + below(one_in(3) ? 500 : 60));
        if (one_in(2)) s.top_p = 0.02 + 0.97 * unit();
        if (one_in(3)) s.min_p = std::pow(10, -5 * unit());
        if (one_in(3)) {
            s.repeat_penalty = 0.8 + unit();
            s.frequency_penalty = unit() - 0.3;
            s.presence_penalty = unit() - 0.3;
            s.penalty_last_n = static_cast<std::int64_t>(below(80));
        }
        return s;
    }
    TokenIds newest(std::size_t vocabulary) {
        TokenIds ids(below(120));
        for (TokenId& id : ids)
            id = static_cast<TokenId>(below(std::min<std::size_t>(vocabulary, 50)));
        return ids;
    }

  private:
    std::mt19937 random_;
};

}  // namespace

TEST_CASE("a token from a shortlist is the token from the row and what sorting everything gives") {
    Dice dice(23);
    Sampler sampler;
    Sampler other;
    Ways ways;
    int close = 0;
    constexpr int kRounds = 4'000;
    for (int round = 0; round < kRounds; ++round) {
        const auto logits = dice.logits();
        const auto newest = dice.newest(logits.size());
        const SamplingSettings s = dice.settings();
        const std::uint64_t counter = dice.below(1 << 20);
        const std::int32_t room = dice.one_in(4) ? 20 : Shortlist::kCandidatesMax;
        const auto row = lowered(logits, newest, s);
        INFO("round " << round << ", " << logits.size() << " tokens, temperature " << s.temperature
                      << ", top_k " << s.top_k << ", top_p " << s.top_p << ", min_p " << s.min_p
                      << ", room " << room);
        const auto whole = sampler.choose(logits, newest, s, counter);
        REQUIRE(whole);
        CHECK(choose_listed(other, row, s, counter, room, ways) == whole);
        const Oracle oracle(row, s, uniform(s.seed, counter));
        if (oracle.token()) {
            CHECK(oracle.token() == whole);
        } else {
            ++close;
        }
    }
    CHECK(ways.list > kRounds / 2);
    CHECK(ways.block > kRounds / 20);
    CHECK(ways.row > kRounds / 20);
    CHECK(close < kRounds / 50);
}

TEST_CASE("a vocabulary of usual logits is decided from its list") {
    std::mt19937 random(5);
    std::normal_distribution<float> normal(0, 2.5F);
    std::vector<float> logits(151'936);
    Sampler sampler;
    Ways ways;
    for (int round = 0; round < 4; ++round) {
        for (float& logit : logits) logit = normal(random);
        for (std::size_t i = 0; i < 60; ++i) logits[i * 2'500] = 16 + normal(random);
        for (int kind = 0; kind < 5; ++kind) {
            INFO(round << ", " << kind);
            SamplingSettings s;
            s.temperature = 0.8;
            if (kind == 1) s.top_k = 40;
            if (kind == 1 || kind == 2) s.top_p = 0.9;
            if (kind == 3) s.min_p = 0.05;
            if (kind == 4) s.temperature = 0;
            const auto whole = sampler.choose(logits, {}, s, 7);
            CHECK(choose_listed(sampler, logits, s, 7, Shortlist::kCandidatesMax, ways) == whole);
        }
    }
    CHECK(ways.list == 16);
    CHECK(ways.block == 4);
    CHECK(ways.row == 0);
}

TEST_CASE("a faulty shortlist chooses nothing") {
    Shortlist list;
    list.verdict = Shortlist::faulty;
    Sampler sampler;
    for (const double temperature : {0.0, 1.0}) {
        SamplingSettings s;
        s.temperature = temperature;
        s.presence_penalty = 1;
        CHECK_FALSE(sampler.choose(ShortRow{list, {}, 100}, s, 0));
    }
}

TEST_CASE("what a shortlist is asked for follows from the settings") {
    constexpr std::int64_t kVocabulary = 50'000;
    const auto rule = [](const SamplingSettings& s) { return shortlist_rule(s, kVocabulary); };
    SamplingSettings s;
    s.presence_penalty = 1;
    CHECK(rule(s)->count == 1);
    CHECK_FALSE(rule(s)->weighs);
    s.penalty_last_n = TokenCounts::kMost;
    CHECK(rule(s));
    s.penalty_last_n = TokenCounts::kMost + 1;
    CHECK_FALSE(rule(s));
    s.presence_penalty = 0;  // the window is not looked at
    s.temperature = 0.5;
    CHECK(rule(s)->count == 0);
    CHECK(rule(s)->weighs);
    CHECK(rule(s)->factor == 2);
    s.top_k = kVocabulary;  // cuts nothing
    CHECK(rule(s)->count == 0);
    s.top_k = Shortlist::kCountMax;
    s.top_p = 0.9;
    CHECK(rule(s)->count == Shortlist::kCountMax);
    CHECK_FALSE(rule(s)->weighs);
    s.top_k = Shortlist::kCountMax + 1;
    CHECK_FALSE(rule(s));
    s.top_k = 0;
    CHECK(rule(s)->count > 100);
    CHECK(rule(s)->weighs);
    CHECK(rule(s)->factor == 1);
    s.top_p = 1;
    s.min_p = 0.1;
    CHECK(rule(s)->count > 100);
    CHECK_FALSE(rule(s)->weighs);
}

TEST_CASE("the window of the penalties is the newest ids of both parts") {
    PenaltyWindow window;
    const TokenIds before{5, 6, 7, 5};
    const TokenIds after{7, 9};
    const auto counted = [&](std::span<const TokenId> a, std::span<const TokenId> b,
                             std::int64_t length) {
        std::map<TokenId, int> out;
        for (const TokenCount& one : window.count(a, b, length)) {
            CHECK(out[one.token] == 0);
            out[one.token] = one.count;
        }
        return out;
    };
    using Counts = std::map<TokenId, int>;
    CHECK(counted(before, after, 64) == Counts{{5, 2}, {6, 1}, {7, 2}, {9, 1}});
    CHECK(counted(before, after, 3) == Counts{{5, 1}, {7, 1}, {9, 1}});
    CHECK(counted(before, after, 1) == Counts{{9, 1}});
    CHECK(counted(before, after, 0).empty());
    CHECK(counted({}, before, 3) == Counts{{5, 1}, {6, 1}, {7, 1}});
    CHECK(counted({}, {}, 3).empty());
}

}  // namespace strata
