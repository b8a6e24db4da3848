// See engine/model/sampler.hpp.
#include "engine/model/sampler.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

namespace strata {

namespace {

constexpr std::size_t kLanes = 16;
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

// Calls fn(i) for each logits[i] >= floor, in order; fn may raise the floor. Nearly all groups of a
// vocabulary hold none, which one look tells.
template <class Fn>
void for_each_from(std::span<const float> logits, const float& floor, const Fn& fn) {
    std::size_t i = 0;
    for (; i + kLanes <= logits.size(); i += kLanes) {
        const float least = floor;
        std::uint32_t any = 0;
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            any |= logits[i + lane] >= least ? 1U : 0U;
        }
        if (any == 0) continue;
        for (std::size_t lane = 0; lane < kLanes; ++lane) {
            if (logits[i + lane] >= floor) fn(i + lane);
        }
    }
    for (; i < logits.size(); ++i) {
        if (logits[i] >= floor) fn(i);
    }
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

// e^x for x <= 0, within 3e-7 of it; 0 where that is no normal number. x = n ln 2 + r, |r| <= ln 2
// / 2, the Taylor polynomial of degree 7 for e^r, times 2^n. Without a choice between floats, which
// the compiler would make a branch of: so it can put many into one vector.
float exponential(float x) {
    constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
    constexpr std::int32_t kSizeMax = std::bit_cast<std::int32_t>(87.3F);
    const std::int32_t size = std::bit_cast<std::int32_t>(x) & 0x7FFFFFFF;
    const std::int32_t kept = (size - kSizeMax) >> 31;  // all bits, or none
    const float bounded = -std::bit_cast<float>(size < kSizeMax ? size : kSizeMax);
    const float rounded = bounded * 1.44269504F + kRounder;
    const float n = rounded - kRounder;
    const float r = bounded - n * 0.693359375F + n * 2.12194440e-4F;  // ln 2 in two parts
    float p = 1.0F / 5040.0F;
    p = p * r + 1.0F / 720.0F;
    p = p * r + 1.0F / 120.0F;
    p = p * r + 1.0F / 24.0F;
    p = p * r + 1.0F / 6.0F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const std::uint32_t power = std::bit_cast<std::uint32_t>(rounded) << 23;
    const std::uint32_t result = std::bit_cast<std::uint32_t>(p) + power;
    return std::bit_cast<float>(result & static_cast<std::uint32_t>(kept));
}

double exp_of(float logit, float largest) {
    return static_cast<double>(exponential(logit - largest));
}

// What divides logits, as a factor: bounded, so that it stays a number.
float factor_of(double temperature) {
    constexpr double kMost = std::numeric_limits<float>::max();
    return static_cast<float>(std::min(1 / temperature, kMost));
}

// The sum of e^((logit - largest) * factor).
double sum_of_weights(std::span<const float> logits, float largest, float factor) {
    constexpr std::size_t kGroup = 64;
    std::array<double, kGroup> sums{};
    std::size_t i = 0;
    for (; i + kGroup <= logits.size(); i += kGroup) {
        std::array<float, kGroup> weights;
        for (std::size_t lane = 0; lane < kGroup; ++lane) {
            weights[lane] = exponential((logits[i + lane] - largest) * factor);
        }
        for (std::size_t lane = 0; lane < kGroup; ++lane) {
            sums[lane] += static_cast<double>(weights[lane]);
        }
    }
    double sum = 0;
    for (const double each : sums) sum += each;
    for (; i < logits.size(); ++i) {
        sum += static_cast<double>(exponential((logits[i] - largest) * factor));
    }
    return sum;
}

bool has_penalties(const SamplingSettings& settings) {
    return settings.penalty_last_n > 0 &&
           (settings.repeat_penalty != 1 || settings.frequency_penalty != 0 ||
            settings.presence_penalty != 0);
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
    const double sum = sum_of_weights(logits, largest, 1);
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
    const std::size_t first = std::min(count, logits.size());
    for (std::size_t i = 0; i < first; ++i) out.push_back({logits[i], static_cast<TokenId>(i)});
    if (out.empty()) return;
    std::make_heap(out.begin(), out.end(), comes_first);
    float weakest = out.front().logit;
    for_each_from(logits.subspan(first), weakest, [&](std::size_t behind) {
        const Candidate each{logits[first + behind], static_cast<TokenId>(first + behind)};
        if (each.logit <= weakest) return;
        std::pop_heap(out.begin(), out.end(), comes_first);
        out.back() = each;
        std::push_heap(out.begin(), out.end(), comes_first);
        weakest = out.front().logit;
    });
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
    const double sum = sum_of_weights(logits, largest, 1);
    double reached = 0;
    float above = std::numeric_limits<float>::infinity();
    candidates_.clear();
    for (const float depth : kBandDepths) {
        const float floor = largest - depth;
        band_.clear();
        for_each_from(logits, floor, [&](std::size_t i) {
            if (logits[i] < above) band_.push_back({logits[i], static_cast<TokenId>(i)});
        });
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
        for_each_from(logits, floor, [&](std::size_t i) {
            candidates_.push_back({logits[i], static_cast<TokenId>(i)});
        });
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
    const float factor = factor_of(settings.temperature);
    const double chance = uniform(settings.seed, counter);
    if (!filter(logits, largest, settings)) return draw_of_all(logits, largest, factor, chance);
    weights_.clear();
    double sum = 0;
    for (const Candidate& each : candidates_) {
        weights_.push_back(static_cast<double>(exponential((each.logit - largest) * factor)));
        sum += weights_.back();
    }
    return candidates_[draw(weights_, chance * sum)].token;
}

// First the block of the vocabulary, then the token in it: only one block's weights are written
// down.
TokenId Sampler::draw_of_all(std::span<const float> logits, float largest, float factor,
                             double chance) {
    constexpr std::size_t kBlock = 256;
    const auto block_at = [&](std::size_t begin) {
        return logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    };
    weights_.clear();
    double sum = 0;
    for (std::size_t begin = 0; begin < logits.size(); begin += kBlock) {
        weights_.push_back(sum_of_weights(block_at(begin), largest, factor));
        sum += weights_.back();
    }
    double target = chance * sum;
    const std::size_t block = draw(weights_, target);
    for (std::size_t before = 0; before < block; ++before) target -= weights_[before];
    const auto chosen = block_at(block * kBlock);
    weights_.clear();
    for (const float logit : chosen) {
        weights_.push_back(static_cast<double>(exponential((logit - largest) * factor)));
    }
    return static_cast<TokenId>(block * kBlock + draw(weights_, target));
}

}  // namespace strata
