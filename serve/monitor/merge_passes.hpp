// A request with a thinking budget is answered in two passes of the engine, and is one request for
// everybody who looks at it. Owns the rule by which two DONEs become one; pure.
//
//   from the first pass  prompt, reused, read, prompt time, queue time, switched, restored, source,
//                        miss, common, what became of the outgoing conversation, the first logits
//   summed               generated tokens, decode time, park and restore time, drafts, experts
//   from the last pass   fields 17-19 and the figures behind them, finish, stop id, id,
//                        conversation, label, state hash
//
// Why: the last pass's prompt holds the thinking, so it is longer than the request's, and it always
// continues what the first one left.
#pragma once

#include "protocol/done_line.hpp"

namespace strata::serve {

// Without fields 15-19 of the first pass the row has none: whether it switched is not known. A last
// pass that ended before its plan has none either; then the first's stand.
protocol::DoneLine merge_passes(const protocol::DoneLine& first, const protocol::DoneLine& last);

}  // namespace strata::serve
