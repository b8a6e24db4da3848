// The fake engine's own reading and writing of the wire: lines out, commands in, everything by poll
// in one thread. It shares no code with protocol/ on purpose: it is the independent half of the
// check.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace strata::fake {

struct Command {
    std::string verb;
    std::vector<std::string> positional;
    std::map<std::string, std::string> names;
    std::vector<std::int64_t> ids;  // of GEN

    std::uint64_t id() const;                      // id=, 0 when absent
    std::int64_t number(std::size_t index) const;  // positional field, 0 when absent
};

class Wire {
  public:
    // Writes one line, waiting as long as the pipe is full.
    void print(const std::string& line) { write_all(1, line + "\n"); }
    static void write_all(int fd, const std::string& bytes);

    // Reads commands for `span`; returns early when `until` says so. PING is answered here (unless
    // deaf to pings), STOP is noted, QUIT and end of input end the process with status 0 unless a
    // request runs (then it is marked stopped and the process ends after its DONE).
    void listen(std::chrono::milliseconds span);
    // The next command that is no PING, STOP or QUIT; waits for it without limit.
    Command await();
    bool has_command() const { return !commands_.empty(); }

    void request_begins(std::uint64_t id);
    bool stopped() const { return stopped_; }
    void request_ended();  // leaves with status 0 when QUIT or end of input came meanwhile

    bool answer_pings = true;
    bool ignore_end_of_input = false;
    bool ignore_quit = false;
    bool ignore_stop = false;
    // What CACHE is answered with, each row's fields as they are written; none: CACHE is a command
    // like others, for `await` and `serve`.
    std::optional<std::vector<std::string>> parked;
    std::set<std::string> seen;  // verbs that came so far

  private:
    void read_once(int timeout_ms);
    void take_line(const std::string& line);
    void answer_cache(const Command& command);
    void leave_wanted();

    std::string buffer_;
    std::string chunk_;
    std::size_t scanned_ = 0;
    std::deque<Command> commands_;
    std::uint64_t running_id_ = 0;
    bool running_ = false;
    bool stopped_ = false;
    bool leaving_ = false;
    bool ended_ = false;  // end of input was read
};

}  // namespace strata::fake
