// What a Device and its Ops throw when the device or its driver fails. What it held is lost, and
// nothing can be asked of it any more: rooms above let it pass, and the engine's process ends (ERR
// device_lost). Out of memory is none of these.
#pragma once

#include <stdexcept>

namespace strata {

class DeviceFault : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

}  // namespace strata
