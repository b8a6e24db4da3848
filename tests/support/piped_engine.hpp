// A child process that speaks lines: an engine as its server sees it. stderr is kept in memory.
// Every wait has a limit; whatever is still running at the end of a test is killed by its process
// id.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

namespace strata::tests {

struct ProcessEnd {
    bool exited = false;  // else killed by a signal
    int status = 0;       // exit status or signal
};

class PipedEngine {
  public:
    using Ms = std::chrono::milliseconds;

    // `arguments` after the program's own name.
    PipedEngine(const std::string& program, const std::vector<std::string>& arguments);
    ~PipedEngine();
    PipedEngine(const PipedEngine&) = delete;
    PipedEngine& operator=(const PipedEngine&) = delete;

    pid_t pid() const { return pid_; }
    bool send(std::string_view line);  // LF is added
    bool send_raw(std::string_view bytes);
    void close_stdin();
    void close_stdout();

    // The next line of stdout; none at the end of the stream or after `limit`.
    std::optional<std::string> next_line(Ms limit = Ms(20'000));
    // Lines up to and with the first that starts with `word`; empty when it does not come in time.
    std::vector<std::string> lines_until(std::string_view word, Ms limit = Ms(20'000));
    // What is left of stdout until its end.
    std::vector<std::string> rest(Ms limit = Ms(20'000));

    void signal(int number) const;
    std::optional<ProcessEnd> wait(Ms limit = Ms(20'000));
    std::string stderr_text() const;

  private:
    pid_t pid_ = -1;
    int to_ = -1;
    int from_ = -1;
    int errors_ = -1;  // a file in memory
    std::string held_;
    bool ended_ = false;  // of stdout
    std::optional<ProcessEnd> end_;
};

// The value of `name=` in a line; empty when it is not there.
std::string named(std::string_view line, std::string_view name);
// Field `index` of a line, the verb being 0.
std::string field(std::string_view line, std::size_t index);

}  // namespace strata::tests
