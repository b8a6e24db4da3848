// The end of every test with real processes: whatever happened in it, nothing of it is left. Take
// one at the beginning of the test, call leftovers() at its end and require that it is empty.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace strata::tests {

class ProcessEpilogue {
  public:
    // Also makes this process the one that orphans are given to, so that none escapes the count.
    ProcessEpilogue();

    // One sentence for each thing that is there now and was not at the beginning: descriptors with
    // what they lead to, threads, child processes (zombies and adopted orphans too). Waits up to a
    // second for threads and processes that are just leaving.
    std::string leftovers() const;

  private:
    std::vector<std::string> fds_;
    std::vector<std::string> children_;
    std::size_t threads_ = 0;
};

// Children of this process, zombies too, as "pid state name".
std::vector<std::string> child_processes();
// Is a process with this number there, zombies aside?
bool process_lives(int pid);
// CPU time used so far, in clock ticks; 0 when it is gone.
long cpu_ticks_of(int pid);

}  // namespace strata::tests
