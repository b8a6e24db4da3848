// See engine/model/sampler.hpp.
#include "engine/model/sampler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "strata/backend/row_weights.hpp"

namespace strata {

namespace {

constexpr std::size_t kLanes = 16;
constexpr auto kBlock = static_cast<std::size_t>(kWeightBlock);
constexpr float kLowest = -std::numeric_limits<float>::infinity();

bool comes_first(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// The largest logit; NaN when one of them is NaN or +infinity. Lanes, so that the compiler may use
// vector instructions without being allowed to reorder floating-point arithmetic.
float largest_logit(std::span<const float> logits) {
    constexpr std::size_t kGroup = 64;
    constexpr float kMost = std::numeric_limits<float>::max();
    std::array<float, kGroup> best;
    best.fill(kLowest);
    std::array<std::uint32_t, kGroup> bad{};
    std::size_t i = 0;
    for (; i + kGroup <= logits.size(); i += kGroup) {
        for (std::size_t lane = 0; lane < kGroup; ++lane) {
            const float logit = logits[i + lane];
            best[lane] = logit > best[lane] ? logit : best[lane];
            bad[lane] |= logit <= kMost ? 0U : 1U;
        }
    }
    float largest = *std::max_element(best.begin(), best.end());
    bool any_bad =
        std::any_of(bad.begin(), bad.end(), [](std::uint32_t lane) { return lane != 0; });
    for (; i < logits.size(); ++i) {
        largest = logits[i] > largest ? logits[i] : largest;
        any_bad = any_bad || !(logits[i] <= kMost);
    }
    return any_bad ? std::numeric_limits<float>::quiet_NaN() : largest;
}

// Draws the index at which the sum of the weights passes `target`. Zero weights are never drawn.
std::size_t draw(std::span<const double> weights, double target) {
    double reached = 0;
    std::size_t last = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
        if (weights[i] <= 0) continue;
        reached += weights[i];
        last = i;
        if (reached > target) return i;
    }
    return last;  // rounding left the target at the very end
}

// What divides logits, as a factor: bounded, so that it stays a number.
float factor_of(double temperature) {
    constexpr double kMost = std::numeric_limits<float>::max();
    return static_cast<float>(std::min(1 / temperature, kMost));
}

// Adds the weights of a row's blocks to a list; `out` may be null.
double weigh(std::span<const float> logits, float largest, float factor, std::vector<double>* out) {
    double sum = 0;
    for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
        const std::size_t count = std::min(kBlock, logits.size() - begin);
        const double weight =
            block_weight(logits.data() + begin, static_cast<std::int64_t>(count), largest, factor);
        if (out != nullptr) out->push_back(weight);
        sum += weight;
    }
    return sum;
}

double exp_of(float logit, float largest) {
    return static_cast<double>(weight_of(logit, largest, 1));
}

// Which of the steps 3 to 5 leave tokens out.
struct Filters {
    bool top_k = false;
    bool top_p = false;
    bool min_p = false;

    bool any() const { return top_k || top_p || min_p; }
};
Filters filters_of(const SamplingSettings& settings, std::size_t vocabulary) {
    Filters out;
    out.top_k = settings.top_k > 0 && static_cast<std::size_t>(settings.top_k) < vocabulary;
    out.top_p = settings.top_p < 1;
    out.min_p = settings.min_p > 0;
    return out;
}

// What of a row the filters look at. All values from `least` on can be asked for, by
// for_each_from(floor, fn), which calls fn(candidate) for those of at least `floor`; fn may raise
// it.
struct WholeRow {
    std::span<const float> logits;
    float largest = 0;
    double weight = 0;  // at temperature 1, for top_p alone
    static constexpr float least = kLowest;

    std::size_t vocabulary() const { return logits.size(); }

    // In order. Nearly all groups of a vocabulary hold none, which one look tells.
    template <class Fn>
    void for_each_from(const float& floor, const Fn& fn) const {
        const auto call = [&](std::size_t at) {
            fn(Candidate{logits[at], static_cast<TokenId>(at)});
        };
        std::size_t i = 0;
        for (; i + kLanes <= logits.size(); i += kLanes) {
            const float lowest = floor;
            std::uint32_t any = 0;
            for (std::size_t lane = 0; lane < kLanes; ++lane) {
                any |= logits[i + lane] >= lowest ? 1U : 0U;
            }
            if (any == 0) continue;
            for (std::size_t lane = 0; lane < kLanes; ++lane) {
                if (logits[i + lane] >= floor) call(i + lane);
            }
        }
        for (; i < logits.size(); ++i) {
            if (logits[i] >= floor) call(i);
        }
    }
};
struct ListedRow {
    std::span<const Candidate> listed;
    std::int64_t size = 0;  // of the row
    float largest = 0;
    float least = 0;
    double weight = 0;

    std::size_t vocabulary() const { return static_cast<std::size_t>(size); }
    template <class Fn>
    void for_each_from(const float& floor, const Fn& fn) const {
        for (const Candidate& each : listed) {
            if (each.logit >= floor) fn(each);
        }
    }
};

template <class Row>
void select_largest_of(const Row& row, std::size_t count, std::vector<Candidate>& out) {
    out.clear();
    if (count == 0) return;
    // A heap whose front is the weakest that is kept.
    float weakest = kLowest;
    row.for_each_from(weakest, [&](const Candidate& each) {
        if (out.size() < count) {
            out.push_back(each);
            if (out.size() < count) return;
            std::make_heap(out.begin(), out.end(), comes_first);
        } else {
            if (!comes_first(each, out.front())) return;
            std::pop_heap(out.begin(), out.end(), comes_first);
            out.back() = each;
            std::push_heap(out.begin(), out.end(), comes_first);
        }
        weakest = out.front().logit;
    });
    std::sort(out.begin(), out.end(), comes_first);
}

// First the block of the vocabulary, then the token in it. `values(first, count)` are those of the
// row.
template <class Values>
TokenId draw_of_all(std::span<const double> blocks, std::size_t vocabulary, float largest,
                    float factor, double chance, std::vector<double>& weights,
                    const Values& values) {
    double sum = 0;
    for (const double weight : blocks) sum += weight;
    double target = chance * sum;
    const std::size_t block = draw(blocks, target);
    for (std::size_t before = 0; before < block; ++before) target -= blocks[before];
    const std::size_t begin = block * kBlock;
    weights.clear();
    for (const float logit : values(begin, std::min(kBlock, vocabulary - begin))) {
        weights.push_back(static_cast<double>(weight_of(logit, largest, factor)));
    }
    return static_cast<TokenId>(begin + draw(weights, target));
}

}  // namespace

PhiloxWords philox(std::uint64_t counter, std::uint64_t key) {
    constexpr std::uint64_t kMultiplier0 = 0xD2511F53;
    constexpr std::uint64_t kMultiplier1 = 0xCD9E8D57;
    constexpr std::uint32_t kWeyl0 = 0x9E3779B9;
    constexpr std::uint32_t kWeyl1 = 0xBB67AE85;
    constexpr int kRounds = 10;
    std::array<std::uint32_t, 4> x{static_cast<std::uint32_t>(counter),
                                   static_cast<std::uint32_t>(counter >> 32), 0, 0};
    auto key0 = static_cast<std::uint32_t>(key);
    auto key1 = static_cast<std::uint32_t>(key >> 32);
    for (int round = 0; round < kRounds; ++round) {
        const std::uint64_t a = kMultiplier0 * x[0];
        const std::uint64_t b = kMultiplier1 * x[2];
        x = {static_cast<std::uint32_t>(b >> 32) ^ x[1] ^ key0, static_cast<std::uint32_t>(b),
             static_cast<std::uint32_t>(a >> 32) ^ x[3] ^ key1, static_cast<std::uint32_t>(a)};
        key0 += kWeyl0;
        key1 += kWeyl1;
    }
    return {{x[0], x[1], x[2], x[3]}};
}

double uniform(std::uint64_t seed, std::uint64_t counter) {
    const PhiloxWords words = philox(counter, seed);
    const std::uint64_t bits = (static_cast<std::uint64_t>(words.word[1]) << 32) | words.word[0];
    return static_cast<double>(bits >> 11) * 0x1.0p-53;
}

bool has_penalties(const SamplingSettings& settings) {
    return settings.penalty_last_n > 0 &&
           (settings.repeat_penalty != 1 || settings.frequency_penalty != 0 ||
            settings.presence_penalty != 0);
}

Penalties penalties_of(const SamplingSettings& settings) {
    return {settings.repeat_penalty, settings.frequency_penalty, settings.presence_penalty};
}

bool is_plainly_greedy(const SamplingSettings& settings) {
    return settings.temperature <= 0 && !has_penalties(settings);
}

std::optional<TokenId> greedy_token(std::span<const float> logits) {
    const float largest = largest_logit(logits);
    if (!std::isfinite(largest)) return std::nullopt;
    return static_cast<TokenId>(std::find(logits.begin(), logits.end(), largest) - logits.begin());
}

TokenReport report_token(std::span<const float> logits, TokenId chosen, std::size_t top) {
    const float largest = largest_logit(logits);
    const double sum = weigh(logits, largest, 1, nullptr);
    const double log_sum = static_cast<double>(largest) + std::log(sum);
    const auto logprob = [log_sum](float logit) {
        return static_cast<float>(static_cast<double>(logit) - log_sum);
    };
    TokenReport report;
    report.logprob = logprob(logits[static_cast<std::size_t>(chosen)]);
    std::vector<Candidate> best;
    select_largest(logits, top, best);
    for (const Candidate& each : best) report.top.push_back({each.token, logprob(each.logit)});
    return report;
}

void select_largest(std::span<const float> logits, std::size_t count, std::vector<Candidate>& out) {
    select_largest_of(WholeRow{logits}, count, out);
}

std::optional<ShortlistRule> shortlist_rule(const SamplingSettings& settings,
                                            std::int64_t vocabulary) {
    // The most probable tokens nearly always hold what top_p and min_p leave in so few.
    constexpr std::int32_t kNucleus = 384;
    static_assert(kNucleus <= Shortlist::kCountMax);
    if (has_penalties(settings) && settings.penalty_last_n > TokenCounts::kMost) {
        return std::nullopt;
    }
    if (settings.temperature <= 0) return ShortlistRule{1};
    const Filters filters = filters_of(settings, static_cast<std::size_t>(vocabulary));
    if (!filters.any()) return ShortlistRule{0, true, factor_of(settings.temperature)};
    if (!filters.top_k) return ShortlistRule{kNucleus, filters.top_p};
    if (settings.top_k > Shortlist::kCountMax) return std::nullopt;
    return ShortlistRule{static_cast<std::int32_t>(settings.top_k)};
}

std::span<const TokenCount> PenaltyWindow::count(std::span<const TokenId> before,
                                                 std::span<const TokenId> after,
                                                 std::int64_t length) {
    const auto most = static_cast<std::size_t>(length);
    after = after.last(std::min(after.size(), most));
    before = before.last(std::min(before.size(), most - after.size()));
    counts_.clear();
    for (const std::span<const TokenId> part : {before, after}) {
        for (const TokenId token : part) {
            const auto at = static_cast<std::size_t>(token);
            if (at >= places_.size()) places_.resize(at + 1);
            if (places_[at] == 0) {
                counts_.push_back({token, 0});
                places_[at] = static_cast<std::int32_t>(counts_.size());
            }
            ++counts_[static_cast<std::size_t>(places_[at]) - 1].count;
        }
    }
    for (const TokenCount& one : counts_) places_[static_cast<std::size_t>(one.token)] = 0;
    return counts_;
}

std::span<const float> Sampler::penalised(std::span<const float> logits,
                                          std::span<const TokenId> newest,
                                          const SamplingSettings& settings) {
    if (!has_penalties(settings) || newest.empty()) return logits;
    const Penalties by = penalties_of(settings);
    penalised_.assign(logits.begin(), logits.end());
    for (const TokenCount& one : window_.count({}, newest, settings.penalty_last_n)) {
        float& logit = penalised_[static_cast<std::size_t>(one.token)];
        logit = strata::penalised(logit, one.count, by);
    }
    return penalised_;
}

template <class Row>
bool Sampler::gather_top_k(const Row& row, std::size_t top_k, double top_p) {
    select_largest_of(row, top_k, candidates_);
    if (candidates_.size() < top_k && row.least > kLowest) return false;
    if (top_p >= 1) return true;
    double sum = 0;
    for (const Candidate& each : candidates_) sum += exp_of(each.logit, row.largest);
    double reached = 0;
    std::size_t kept = 0;
    while (kept < candidates_.size() && reached < top_p * sum) {
        reached += exp_of(candidates_[kept++].logit, row.largest);
    }
    candidates_.resize(std::max<std::size_t>(kept, 1));
    return true;
}

// Falling order is made band by band: nearly always the first bands hold top_p of the weight, and
// only they are sorted. What is below `floor` is not looked for: it goes anyway.
template <class Row>
bool Sampler::gather_top_p(const Row& row, double top_p, float floor) {
    constexpr std::array<float, 4> kBandDepths = {3.0F, 6.0F, 12.0F,
                                                  std::numeric_limits<float>::infinity()};
    double reached = 0;
    float above = std::numeric_limits<float>::infinity();
    candidates_.clear();
    for (const float depth : kBandDepths) {
        const float lowest = std::max(row.largest - depth, row.least);
        band_.clear();
        row.for_each_from(lowest, [&](const Candidate& each) {
            if (each.logit < above) band_.push_back(each);
        });
        std::sort(band_.begin(), band_.end(), comes_first);
        for (const Candidate& each : band_) {
            candidates_.push_back(each);
            reached += exp_of(each.logit, row.largest);
            if (reached >= top_p * row.weight) return true;
        }
        if (lowest <= floor) return true;
        above = lowest;
    }
    return false;
}

// In order of their ids.
template <class Row>
bool Sampler::gather_min_p(const Row& row, float floor) {
    if (row.least > floor) return false;
    candidates_.clear();
    row.for_each_from(floor, [&](const Candidate& each) { candidates_.push_back(each); });
    const auto by_token = [](const Candidate& a, const Candidate& b) { return a.token < b.token; };
    if (!std::is_sorted(candidates_.begin(), candidates_.end(), by_token)) {
        std::sort(candidates_.begin(), candidates_.end(), by_token);
    }
    return true;
}

template <class Row>
std::optional<TokenId> Sampler::draw_of_some(const Row& row, const SamplingSettings& settings,
                                             double chance) {
    if (settings.temperature <= 0) {
        if (!gather_top_k(row, 1, 1)) return std::nullopt;
        return candidates_.front().token;
    }
    const Filters filters = filters_of(settings, row.vocabulary());
    const double depth = filters.min_p ? std::log(settings.min_p) : 0;
    const float floor =
        filters.min_p ? static_cast<float>(static_cast<double>(row.largest) + depth) : kLowest;
    bool there = false;
    if (filters.top_k) {
        there = gather_top_k(row, static_cast<std::size_t>(settings.top_k), settings.top_p);
    } else if (filters.top_p) {
        there = gather_top_p(row, settings.top_p, floor);
    } else {
        there = gather_min_p(row, floor);
    }
    if (!there) return std::nullopt;
    std::erase_if(candidates_, [floor](const Candidate& each) { return each.logit < floor; });
    const float factor = factor_of(settings.temperature);
    weights_.clear();
    double sum = 0;
    for (const Candidate& each : candidates_) {
        weights_.push_back(static_cast<double>(weight_of(each.logit, row.largest, factor)));
        sum += weights_.back();
    }
    return candidates_[draw(weights_, chance * sum)].token;
}

std::optional<TokenId> Sampler::choose(std::span<const float> logits,
                                       std::span<const TokenId> newest,
                                       const SamplingSettings& settings, std::uint64_t counter) {
    return choose_of_row(penalised(logits, newest, settings), settings, counter);
}

std::optional<TokenId> Sampler::choose_of_row(std::span<const float> logits,
                                              const SamplingSettings& settings,
                                              std::uint64_t counter) {
    const float largest = largest_logit(logits);
    if (!std::isfinite(largest)) return std::nullopt;
    const double chance = uniform(settings.seed, counter);
    const Filters filters = filters_of(settings, logits.size());
    if (settings.temperature > 0 && !filters.any()) {
        const float factor = factor_of(settings.temperature);
        block_weights_.clear();
        weigh(logits, largest, factor, &block_weights_);
        return draw_of_all(
            block_weights_, logits.size(), largest, factor, chance, weights_,
            [&](std::size_t first, std::size_t count) { return logits.subspan(first, count); });
    }
    WholeRow row{logits, largest};
    if (filters.top_p && !filters.top_k) row.weight = weigh(logits, largest, 1, nullptr);
    return draw_of_some(row, settings, chance);
}

std::optional<TokenId> Sampler::choose(const ShortRow& row, const SamplingSettings& settings,
                                       std::uint64_t counter) {
    const Shortlist& list = row.list;
    if (list.verdict != Shortlist::sound) return std::nullopt;
    const double chance = uniform(settings.seed, counter);
    const auto vocabulary = static_cast<std::size_t>(row.vocabulary);
    if (settings.temperature > 0 && !filters_of(settings, vocabulary).any()) {
        return draw_of_all(row.weights, vocabulary, list.largest, factor_of(settings.temperature),
                           chance, weights_, row.values);
    }
    ListedRow listed{{list.candidates, static_cast<std::size_t>(list.count)},
                     row.vocabulary,
                     list.largest,
                     list.least};
    for (const double weight : row.weights) listed.weight += weight;
    if (const auto drawn = draw_of_some(listed, settings, chance)) return drawn;
    return choose_of_row(row.values(0, vocabulary), settings, counter);
}

}  // namespace strata
