// Which defence the test run does without, if any: named by the environment of the test program
// (STRATA_TEST_WITHOUT), read once.
#pragma once

#include <chrono>
#include <mutex>
#include <string>

namespace strata::serve::tests {

// 1, or 100 with STRATA_TEST_LONG set: continuous integration runs a hundredth of the long counts.
int long_factor();

// As if somebody had set the machine's clock by that much.
void step_wall_clock(std::chrono::milliseconds step);
// A lock that a thread of the test holds while children are made.
std::mutex& lock_of_the_parent();

}  // namespace strata::serve::tests
