// Every sequence of seven kinds of steps up to a length: two identities, three tokens, two places,
// and a budget that three small conversations fill. All invariants after every step.
//
//   cache_small_scope_run [length]     7
#include <cstdlib>
#include <iostream>
#include <string>

#include "cache_walk.hpp"

namespace {

using strata::tests::CacheWalk;

constexpr int kKinds = 8;
constexpr int kLengthMax = 12;  // 8^12 sequences are more than anybody waits for

void step(CacheWalk& walk, int kind) {
    switch (kind) {
        case 0:
        case 1:
        case 2:
            walk.say(static_cast<strata::TokenId>(kind));
            break;
        case 3:
            walk.begin_chat(false);
            break;
        case 4:
            walk.begin_chat(true);
            break;
        case 5:
            walk.go_back_to_oldest();
            break;
        case 6:
            walk.branch_from_newest();
            break;
        default:
            walk.release_oldest();
    }
}

struct Search {
    std::uint64_t sequences = 0;
    std::string fault;

    void go(const CacheWalk& walk, int length) {
        for (int kind = 0; kind < kKinds && fault.empty(); ++kind) {
            CacheWalk next = walk;
            step(next, kind);
            ++sequences;
            if (!next.fault().empty()) {
                fault = next.fault();
            } else if (length > 1) {
                go(next, length - 1);
            }
        }
    }
};

}  // namespace

int main(int argc, char** argv) {
    const int length = argc > 1 ? std::atoi(argv[1]) : 7;
    if (length < 1 || length > kLengthMax) {
        std::cerr << "length is " << length << ", allowed are 1 to " << kLengthMax << "\n";
        return 2;
    }
    Search search;
    search.go(CacheWalk({{true, 10, 7}, {60, 2, 0, 6}}, 1), length);
    if (!search.fault.empty()) {
        std::cerr << search.fault << "\n";
        return 1;
    }
    std::cout << search.sequences << " sequences agree\n";
    return 0;
}
