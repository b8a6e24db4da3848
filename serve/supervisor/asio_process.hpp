// Engine processes on the server's io_context: non-blocking pipes, all three handled together, and
// a pidfd that tells of the end.
//
// Invariants: (1) no read and no write blocks the loop; (2) at most kStdinQueueBytesMax wait for
// stdin and one line per stream is held back; (3) the process is reaped as soon as it ended,
// whoever still holds its pipes, and what is in them is read until their end or kDrainLimit after
// it.
#pragma once

#include <boost/asio/io_context.hpp>

#include "serve/supervisor/engine_process.hpp"
#include "serve/supervisor/time_source.hpp"

namespace strata::serve {

// One GEN of the largest size and the short commands beside it.
inline constexpr std::size_t kStdinQueueBytesMax = (std::size_t{64} << 20) + (std::size_t{1} << 20);
// A longer line of the human log is shown cut.
inline constexpr std::size_t kStderrLineBytesMax = 4096;
// A process that the engine started may hold the pipes open for ever.
inline constexpr Milliseconds kDrainLimit{500};

class AsioLauncher : public ProcessLauncher {
  public:
    // Ignores SIGPIPE for this process: a broken pipe or socket is an error of one write.
    explicit AsioLauncher(boost::asio::io_context& loop);
    // From the thread that runs the loop; it must live as long as the process (child_launch.hpp).
    Result<std::unique_ptr<EngineProcess>, LaunchRefusal> launch(const EngineCommand& command,
                                                                 ProcessEvents& events) override;

  private:
    boost::asio::io_context& loop_;
};

}  // namespace strata::serve
