// See engine/next_token.hpp.
#include "engine/next_token.hpp"

namespace strata {

RowWish row_wish(const GenerateRequest& request, std::int64_t vocabulary) {
    if (request.logprobs > 0 || request.hash) return RowWish::logits;
    if (is_plainly_greedy(request.sampling)) return RowWish::best;
    return shortlist_rule(request.sampling, vocabulary) ? RowWish::shortlist : RowWish::logits;
}

NextToken::NextToken(Runner& runner)
    : runner_(runner),
      logits_(static_cast<std::size_t>(runner.geometry().vocabulary)),
      locked_(runner.device(), logits_.data(), logits_.size() * sizeof(float)) {}

LastRow NextToken::wanted(const GenerateRequest& request, std::span<const TokenId> before,
                          std::span<const TokenId> reading) {
    const SamplingSettings& settings = request.sampling;
    const std::int64_t vocabulary = std::ssize(logits_);
    switch (row_wish(request, vocabulary)) {
        case RowWish::best:
            return best_;
        case RowWish::logits:
            return logits_;
        case RowWish::shortlist:
            break;
    }
    shortlist_ = {shortlist_rule(settings, vocabulary).value()};
    if (has_penalties(settings)) {
        shortlist_.penalties = penalties_of(settings);
        shortlist_.seen = window_.count(before, reading, settings.penalty_last_n);
    }
    return shortlist_;
}

std::optional<TokenId> NextToken::choose(const GenerateRequest& request,
                                         std::span<const TokenId> newest, std::uint64_t counter) {
    const SamplingSettings& settings = request.sampling;
    const std::int64_t vocabulary = std::ssize(logits_);
    switch (row_wish(request, vocabulary)) {
        case RowWish::best:
            if (best_ < 0) return std::nullopt;
            return best_;
        case RowWish::logits:
            return sampler_.choose(logits_, newest, settings, counter);
        case RowWish::shortlist:
            break;
    }
    const ShortRow row{
        *shortlist_.list, shortlist_.weights, vocabulary,
        [this](std::size_t first, std::size_t count) { return fetch(first, count); }};
    return sampler_.choose(row, settings, counter);
}

std::span<const float> NextToken::fetch(std::size_t first, std::size_t count) {
    const auto to = std::span(logits_).subspan(first, count);
    runner_.copy_logits(static_cast<TokenId>(first), to);
    return to;
}

std::optional<TokenReport> NextToken::report(const GenerateRequest& request, TokenId chosen) const {
    if (request.logprobs <= 0) return std::nullopt;
    return report_token(logits_, chosen, static_cast<std::size_t>(request.logprobs));
}

}  // namespace strata
