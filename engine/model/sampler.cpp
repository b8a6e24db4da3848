// See engine/model/sampler.hpp.
#include "engine/model/sampler.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace strata {

namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();

bool comes_first(const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.token < b.token;
}

// The largest logit; NaN when one of them is NaN or +infinity. Lanes, so that the compiler may use
// vector instructions without being allowed to reorder floating-point arithmetic.
float largest_logit(std::span<const float> logits) {
    constexpr std::size_t kLanes = 16;
    std::array<float, kLanes> best;
    best.fill(kLowest);
    std::array<std::uint32_t, kLanes> bad{};
    const std::size_t whole = logits.size() / kLanes * kLanes;
    for (std::size_t i = 0; i < whole; i += kLanes) {
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            const float logit = logits[i + lane];
            best[lane] = logit > best[lane] ? logit : best[lane];
            bad[lane] |= logit <= std::numeric_limits<float>::max() ? 0U : 1U;
        }
    }
    float largest = kLowest;
    bool any_bad = false;
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        largest = std::max(largest, best[lane]);
        any_bad = any_bad || bad[lane] != 0;
    }
    for (std::size_t i = whole; i < logits.size(); ++i) {
        largest = logits[i] > largest ? logits[i] : largest;
        any_bad = any_bad || !(logits[i] <= std::numeric_limits<float>::max());
    }
    return any_bad ? std::numeric_limits<float>::quiet_NaN() : largest;
}

// Draws an index with probability weights[i] / sum. Zero weights are never drawn.
std::size_t draw(std::span<const double> weights, double sum, double chance) {
    const double target = chance * sum;
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

double exp_of(float logit, float largest) {
    return static_cast<double>(std::exp(logit - largest));
}

// Below this exponent a weight is zero anyway; the bound keeps tiny temperatures inside a float.
constexpr double kExponentMin = -1000;

bool has_penalties(const SamplingSettings& settings) {
    return settings.penalty_last_n > 0 &&
           (settings.repeat_penalty != 1 || settings.frequency_penalty != 0 ||
            settings.presence_penalty != 0);
}

double tempered(float logit, float largest, double temperature) {
    const double exponent = static_cast<double>(logit - largest) / temperature;
    return static_cast<double>(std::exp(static_cast<float>(std::max(exponent, kExponentMin))));
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
    double sum = 0;
    for (const float logit : logits) sum += exp_of(logit, largest);
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
    out.clear();
    if (count == 0) return;
    // A heap whose front is the weakest that is kept. Ids come in rising order, so an equal logit
    // never displaces one that is there.
    for (std::size_t i = 0; i < logits.size(); ++i) {
        const Candidate each{logits[i], static_cast<TokenId>(i)};
        if (out.size() < count) {
            out.push_back(each);
            std::push_heap(out.begin(), out.end(), comes_first);
        } else if (each.logit > out.front().logit) {
            std::pop_heap(out.begin(), out.end(), comes_first);
            out.back() = each;
            std::push_heap(out.begin(), out.end(), comes_first);
        }
    }
    std::sort_heap(out.begin(), out.end(), comes_first);
}

std::span<const float> Sampler::penalised(std::span<const float> logits,
                                          std::span<const TokenId> newest,
                                          const SamplingSettings& settings) {
    if (!has_penalties(settings) || newest.empty()) return logits;
    const auto window =
        newest.last(std::min(newest.size(), static_cast<std::size_t>(settings.penalty_last_n)));
    penalised_.assign(logits.begin(), logits.end());
    counts_.resize(logits.size());
    for (const TokenId id : window) ++counts_[static_cast<std::size_t>(id)];
    for (const TokenId id : window) {
        std::int32_t& count = counts_[static_cast<std::size_t>(id)];
        if (count == 0) continue;  // seen earlier in this loop
        float& logit = penalised_[static_cast<std::size_t>(id)];
        double value = logit;
        value = value > 0 ? value / settings.repeat_penalty : value * settings.repeat_penalty;
        value -= count * settings.frequency_penalty + settings.presence_penalty;
        constexpr double kMost = std::numeric_limits<float>::max();
        if (std::isfinite(logit)) logit = static_cast<float>(std::clamp(value, -kMost, kMost));
        count = 0;
    }
    return penalised_;
}

// Falling order is made band by band: nearly always the first bands hold top_p of the mass, and
// only they are sorted.
void Sampler::gather_top_p(std::span<const float> logits, float largest, double top_p) {
    constexpr std::array<float, 4> kBandDepths = {3.0F, 6.0F, 12.0F,
                                                  std::numeric_limits<float>::infinity()};
    double sum = 0;
    for (const float logit : logits) sum += exp_of(logit, largest);
    double reached = 0;
    float above = std::numeric_limits<float>::infinity();
    candidates_.clear();
    for (const float depth : kBandDepths) {
        const float floor = largest - depth;
        band_.clear();
        for (std::size_t i = 0; i < logits.size(); ++i) {
            if (logits[i] < above && logits[i] >= floor) {
                band_.push_back({logits[i], static_cast<TokenId>(i)});
            }
        }
        std::sort(band_.begin(), band_.end(), comes_first);
        for (const Candidate& each : band_) {
            candidates_.push_back(each);
            reached += exp_of(each.logit, largest);
            if (reached >= top_p * sum) return;
        }
        above = floor;
    }
}

bool Sampler::filter(std::span<const float> logits, float largest,
                     const SamplingSettings& settings) {
    const auto top_k = static_cast<std::size_t>(settings.top_k);
    const bool cuts_k = top_k > 0 && top_k < logits.size();
    const bool cuts_p = settings.top_p < 1;
    const bool cuts_min = settings.min_p > 0;
    const float floor =
        cuts_min ? static_cast<float>(static_cast<double>(largest) + std::log(settings.min_p)) : 0;
    if (!cuts_k && !cuts_p && !cuts_min) return false;
    if (cuts_k) {
        select_largest(logits, top_k, candidates_);
        if (cuts_p) {
            double sum = 0;
            for (const Candidate& each : candidates_) sum += exp_of(each.logit, largest);
            double reached = 0;
            std::size_t kept = 0;
            while (kept < candidates_.size() && reached < settings.top_p * sum) {
                reached += exp_of(candidates_[kept++].logit, largest);
            }
            candidates_.resize(std::max<std::size_t>(kept, 1));
        }
    } else if (cuts_p) {
        gather_top_p(logits, largest, settings.top_p);
    } else {
        candidates_.clear();
        for (std::size_t i = 0; i < logits.size(); ++i) {
            if (logits[i] >= floor) candidates_.push_back({logits[i], static_cast<TokenId>(i)});
        }
    }
    if (cuts_min) {
        std::erase_if(candidates_, [floor](const Candidate& each) { return each.logit < floor; });
    }
    return true;
}

std::optional<TokenId> Sampler::choose(std::span<const float> given,
                                       std::span<const TokenId> newest,
                                       const SamplingSettings& settings, std::uint64_t counter) {
    const std::span<const float> logits = penalised(given, newest, settings);
    if (settings.temperature <= 0) return greedy_token(logits);
    const float largest = largest_logit(logits);
    if (!std::isfinite(largest)) return std::nullopt;
    const bool filtered = filter(logits, largest, settings);
    const std::size_t count = filtered ? candidates_.size() : logits.size();
    weights_.resize(count);
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const float logit = filtered ? candidates_[i].logit : logits[i];
        weights_[i] = tempered(logit, largest, settings.temperature);
        sum += weights_[i];
    }
    const std::size_t drawn = draw(weights_, sum, uniform(settings.seed, counter));
    return filtered ? candidates_[drawn].token : static_cast<TokenId>(drawn);
}

}  // namespace strata
