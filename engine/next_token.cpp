// See engine/next_token.hpp.
#include "engine/next_token.hpp"

namespace strata {
namespace {

bool needs_only_best(const GenerateRequest& request) {
    return is_plainly_greedy(request.sampling) && request.logprobs == 0 && !request.hash;
}

}  // namespace

NextToken::NextToken(Runner& runner)
    : logits_(static_cast<std::size_t>(runner.geometry().vocabulary)),
      locked_(runner.device(), logits_.data(), logits_.size() * sizeof(float)) {}

LastRow NextToken::wanted(const GenerateRequest& request) {
    if (needs_only_best(request)) return best_;
    return logits_;
}

std::optional<TokenId> NextToken::choose(const GenerateRequest& request,
                                         std::span<const TokenId> newest, std::uint64_t counter) {
    if (!needs_only_best(request)) {
        return sampler_.choose(logits_, newest, request.sampling, counter);
    }
    if (best_ < 0) return std::nullopt;
    return best_;
}

std::optional<TokenReport> NextToken::report(const GenerateRequest& request, TokenId chosen) const {
    if (request.logprobs <= 0) return std::nullopt;
    return report_token(logits_, chosen, static_cast<std::size_t>(request.logprobs));
}

}  // namespace strata
