// Which defence the test run does without, if any: named by the environment of the test program
// (STRATA_TEST_WITHOUT), read once.
#pragma once

#include <string>

namespace strata::serve::tests {

// 1, or 100 with STRATA_TEST_LONG set: continuous integration runs a hundredth of the long counts.
int long_factor();

}  // namespace strata::serve::tests
