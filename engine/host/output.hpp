// stdout of the engine: the original descriptor 1, moved away before anything else runs, so that no
// library's print can land between two events. One writer; one write per group of lines.
//
// 1. Whichever threads write, a group is in the pipe whole before the next one begins; groups of
//    one thread keep their order.
// 2. After the first write that failed nothing is written again.
#pragma once

#include <atomic>
#include <mutex>
#include <string_view>

#include "strata/core/result.hpp"

namespace strata {

// Moves descriptor 1 to a private close-on-exec one and points 1 at stderr (at /dev/null when there
// is no stderr). A closed stdin becomes an empty one: a descriptor that is opened later must not
// take its number and be read as commands. To be called first in main. Refuses when stdout is
// closed.
Result<int> claim_stdout();

class LineOutput {
  public:
    // Borrows the descriptor; blocking or not.
    explicit LineOutput(int descriptor) : descriptor_(descriptor) {}

    // Writes all of it, in as few writes as the pipe takes. False once nobody reads any more; then
    // nothing is written again. From any thread: it waits for the group of another one.
    bool write(std::string_view lines);
    bool broken() const { return broken_; }

  private:
    int descriptor_;
    std::mutex writing_;
    std::atomic<bool> broken_ = false;
};

}  // namespace strata
