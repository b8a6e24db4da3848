// The conversation cache against the reference, for as long as one likes:
//
//   cache_walk_run [steps] [seed]     1,000,000 steps from seed 1; the long run is 50000000
//
// Several walks in turn, each of a different kind: hybrid and attention-only, tight and wide
// budgets, one place and five, and the three ways of being off. Ends with 1 and one sentence at the
// first difference.
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "cache_walk.hpp"

namespace {

using strata::tests::CacheWalk;
using strata::tests::WalkShape;

std::vector<WalkShape> shapes() {
    std::vector<WalkShape> all;
    for (const bool recurrent : {true, false}) {
        for (const std::uint64_t budget : {60U, 110U, 200U, 100000U}) {
            for (const std::int64_t slots : {1, 2, 5}) {
                all.push_back({{recurrent, 10, 7}, {budget, slots, 1000, 6}});
            }
        }
    }
    all.push_back({{true, 10, 7}, {0, 4, 1000, 6}});
    all.push_back({{true, 10, 7}, {100, 0, 1000, 6}});
    all.push_back({{true, 10, 7}, {100, 4, 1000, 0}});
    return all;
}

void add(CacheWalk::Tally& sum, const CacheWalk::Tally& more) {
    sum.parked += more.parked;
    sum.refused += more.refused;
    sum.taken += more.taken;
    sum.borrowed += more.borrowed;
    sum.undone += more.undone;
    sum.aborted += more.aborted;
    sum.lost += more.lost;
    sum.evicted += more.evicted;
    sum.superseded += more.superseded;
    sum.released += more.released;
    sum.retained_dropped += more.retained_dropped;
}

bool everything_happened(const CacheWalk::Tally& t) {
    return t.parked && t.refused && t.taken && t.borrowed && t.undone && t.aborted && t.lost &&
           t.evicted && t.superseded && t.released && t.retained_dropped;
}

}  // namespace

int main(int argc, char** argv) {
    const std::uint64_t wanted = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1'000'000;
    const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
    const auto kinds = shapes();
    CacheWalk::Tally sum;
    std::uint64_t steps = 0;
    // A walk is left after a while: fresh ones meet the first steps again.
    constexpr std::uint64_t kStepsOfOneWalk = 4000;
    for (std::uint64_t walk = 0; steps < wanted; ++walk) {
        CacheWalk each(kinds[walk % kinds.size()], seed * 1'000'003 + walk);
        while (each.fault().empty() && each.steps() < kStepsOfOneWalk) each.random_step();
        if (!each.fault().empty()) {
            std::cerr << "walk " << walk << " of seed " << seed << ": " << each.fault() << "\n";
            return 1;
        }
        steps += each.steps();
        add(sum, each.tally());
    }
    std::cout << steps << " steps agree: " << sum.parked << " parked, " << sum.refused
              << " refused, " << sum.taken << " taken, " << sum.borrowed << " borrowed, "
              << sum.undone << " undone, " << sum.aborted << " aborted, " << sum.lost << " lost, "
              << sum.evicted << " evicted, " << sum.superseded << " superseded, " << sum.released
              << " released, " << sum.retained_dropped << " times retained pages dropped\n";
    if (steps >= 100'000 && !everything_happened(sum)) {
        std::cerr << "something never happened\n";
        return 1;
    }
    return 0;
}
