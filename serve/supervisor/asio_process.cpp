// Pipes and pidfd of one engine on the io_context. Handlers keep the Pipes object alive; what they
// may call is cut off when the EngineProcess goes.
#include "serve/supervisor/asio_process.hpp"

#include <array>
#include <cerrno>
#include <deque>
#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/line_reader.hpp"
#include "serve/supervisor/child_launch.hpp"
#include "serve/supervisor/defences.hpp"

namespace strata::serve {

namespace {

using boost::asio::posix::stream_descriptor;
using boost::system::error_code;

constexpr std::size_t kReadBytes = 64 * 1024;  // what a pipe holds

class Pipes : public std::enable_shared_from_this<Pipes> {
  public:
    Pipes(boost::asio::io_context& loop, const LaunchedChild& child, ProcessEvents& events)
        : loop_(loop),
          pid_(child.pid),
          pidfd_(loop, child.pidfd),
          stdin_(loop, child.stdin_write),
          stdout_(loop, child.stdout_read, protocol::kEventLineBytesMax),
          stderr_(loop, child.stderr_read, kStderrLineBytesMax),
          drain_timer_(loop),
          events_(&events) {}

    void start() {
        read(stdout_);
        read(stderr_);
        if (defended(Defence::reap_at_once)) wait_for_exit();
    }

    pid_t pid() const { return pid_; }
    void write_line(std::string line);
    void close_stdin();
    void send_signal(int number);
    void kill_group();
    void cut_off();

  private:
    struct Stream {
        Stream(boost::asio::io_context& loop, int fd, std::size_t line_bytes_max)
            : descriptor(loop, fd), lines(line_bytes_max) {}
        stream_descriptor descriptor;
        protocol::LineReader lines;
        std::array<char, kReadBytes> bytes{};
        bool reading = false;
        bool ended = false;
    };

    void read(Stream& stream);
    void take(Stream& stream, std::size_t count);
    void end_of(Stream& stream);
    void write_next();
    void stdin_broken();
    void fault(StreamFault kind);
    void wait_for_exit();
    void reap();
    void check_drained();

    boost::asio::io_context& loop_;
    pid_t pid_;
    stream_descriptor pidfd_;
    stream_descriptor stdin_;
    Stream stdout_;
    Stream stderr_;
    boost::asio::steady_timer drain_timer_;
    ProcessEvents* events_;  // null once cut off
    std::deque<std::string> queue_;
    std::size_t queued_bytes_ = 0;
    std::size_t front_written_ = 0;
    bool writing_ = false;
    bool close_wanted_ = false;
    bool reaped_ = false;
    bool drained_ = false;
};

void Pipes::read(Stream& stream) {
    if (stream.ended || stream.reading) return;
    if (!defended(Defence::joint_pipes) && writing_) return;
    stream.reading = true;
    stream.descriptor.async_read_some(
        boost::asio::buffer(stream.bytes),
        [self = shared_from_this(), &stream](const error_code& error, std::size_t count) {
            stream.reading = false;
            if (self->events_ == nullptr || stream.ended) return;
            if (error) {
                self->end_of(stream);
                return;
            }
            self->take(stream, count);
            self->read(stream);
        });
}

void Pipes::take(Stream& stream, std::size_t count) {
    const auto sink = [this, &stream](const protocol::RawLine& line) {
        if (events_ == nullptr) return;
        if (&stream == &stderr_) {
            events_->on_stderr_line(line.text);
        } else if (!line.overlong) {
            events_->on_line(line.text);
        } else if (defended(Defence::line_limit)) {
            fault(StreamFault::overlong_line);
        }
    };
    stream.lines.feed(std::string_view(stream.bytes.data(), count), sink);
    if (&stream == &stdout_ && !defended(Defence::whole_lines)) stream.lines.feed("\n", sink);
}

void Pipes::end_of(Stream& stream) {
    stream.ended = true;
    error_code ignored;
    stream.descriptor.close(ignored);
    if (&stream == &stderr_) {
        // The last words of a dying process often lack their LF.
        stream.lines.feed("\n", [this](const protocol::RawLine& line) {
            if (events_ != nullptr) events_->on_stderr_line(line.text);
        });
    } else {
        stream.lines.finish();
        fault(StreamFault::stdout_closed);
    }
    if (!defended(Defence::reap_at_once) && stdout_.ended && stderr_.ended) wait_for_exit();
    check_drained();
}

void Pipes::fault(StreamFault kind) {
    if (events_ != nullptr && !reaped_) events_->on_stream_fault(kind);
}

void Pipes::write_line(std::string line) {
    if (!stdin_.is_open() || close_wanted_) return;
    line += '\n';
    if (queued_bytes_ + line.size() > kStdinQueueBytesMax) {
        boost::asio::post(
            loop_, [self = shared_from_this()] { self->fault(StreamFault::stdin_overflow); });
        return;
    }
    queued_bytes_ += line.size();
    queue_.push_back(std::move(line));
    if (!writing_) write_next();
}

void Pipes::write_next() {
    if (queue_.empty()) {
        writing_ = false;
        error_code ignored;
        if (close_wanted_) stdin_.close(ignored);
        read(stdout_);
        read(stderr_);
        return;
    }
    writing_ = true;
    stdin_.async_write_some(
        boost::asio::buffer(queue_.front().data() + front_written_,
                            queue_.front().size() - front_written_),
        [self = shared_from_this()](const error_code& error, std::size_t count) {
            if (self->events_ == nullptr) return;
            if (error) {
                self->stdin_broken();
                return;
            }
            self->front_written_ += count;
            if (self->front_written_ == self->queue_.front().size()) {
                self->queued_bytes_ -= self->front_written_;
                self->queue_.pop_front();
                self->front_written_ = 0;
            }
            self->write_next();
        });
}

void Pipes::stdin_broken() {
    writing_ = false;
    queue_.clear();
    queued_bytes_ = 0;
    front_written_ = 0;
    error_code ignored;
    stdin_.close(ignored);
    read(stdout_);
    read(stderr_);
    fault(StreamFault::stdin_closed);
}

void Pipes::close_stdin() {
    close_wanted_ = true;
    error_code ignored;
    if (!writing_ && stdin_.is_open()) stdin_.close(ignored);
}

void Pipes::send_signal(int number) {
    if (!reaped_) ::syscall(SYS_pidfd_send_signal, pidfd_.native_handle(), number, nullptr, 0);
}

void Pipes::kill_group() {
    if (reaped_) return;
    ::kill(-pid_, SIGKILL);
    send_signal(SIGKILL);
}

void Pipes::wait_for_exit() {
    pidfd_.async_wait(stream_descriptor::wait_read,
                      [self = shared_from_this()](const error_code& error) {
                          if (!error && self->events_ != nullptr) self->reap();
                      });
}

ExitStatus status_of(const siginfo_t& facts) {
    ExitStatus status;
    status.signalled = facts.si_code != CLD_EXITED;
    status.number = facts.si_status;
    status.core = facts.si_code == CLD_DUMPED;
    return status;
}

void Pipes::reap() {
    siginfo_t facts{};
    const auto id = static_cast<id_t>(pidfd_.native_handle());
    if (::waitid(P_PIDFD, id, &facts, WEXITED | WNOHANG | WNOWAIT) != 0 || facts.si_pid == 0) {
        wait_for_exit();
        return;
    }
    // While the dead leader is not reaped its number cannot be another group's.
    if (defended(Defence::escalation)) ::kill(-pid_, SIGKILL);
    ::waitid(P_PIDFD, id, &facts, WEXITED | WNOHANG);
    reaped_ = true;
    error_code ignored;
    stdin_.close(ignored);
    drain_timer_.expires_after(kDrainLimit);
    drain_timer_.async_wait([self = shared_from_this()](const error_code& error) {
        if (error || self->events_ == nullptr) return;
        error_code closing;
        for (Stream* stream : {&self->stdout_, &self->stderr_}) {
            stream->ended = true;
            stream->descriptor.close(closing);
        }
        self->check_drained();
    });
    events_->on_exit(status_of(facts));
    check_drained();
}

void Pipes::check_drained() {
    if (!reaped_ || drained_ || !stdout_.ended || !stderr_.ended || events_ == nullptr) return;
    drained_ = true;
    drain_timer_.cancel();
    // Not from inside on_exit: the caller may be in the middle of a line.
    boost::asio::post(loop_, [self = shared_from_this()] {
        if (self->events_ != nullptr) self->events_->on_drained();
    });
}

void Pipes::cut_off() {
    events_ = nullptr;
    if (!reaped_) {
        kill_group();
        // By number: waiting on a pidfd that the loop made non-blocking would not wait.
        while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
        }
        reaped_ = true;
    }
    error_code ignored;
    drain_timer_.cancel();
    pidfd_.close(ignored);
    stdin_.close(ignored);
    stdout_.descriptor.close(ignored);
    stderr_.descriptor.close(ignored);
}

class AsioProcess : public EngineProcess {
  public:
    explicit AsioProcess(std::shared_ptr<Pipes> pipes) : pipes_(std::move(pipes)) {}
    AsioProcess(const AsioProcess&) = delete;
    AsioProcess& operator=(const AsioProcess&) = delete;
    ~AsioProcess() override { pipes_->cut_off(); }
    pid_t pid() const override { return pipes_->pid(); }
    void write_line(std::string line) override { pipes_->write_line(std::move(line)); }
    void close_stdin() override { pipes_->close_stdin(); }
    void send_signal(int number) override { pipes_->send_signal(number); }
    void kill_group() override { pipes_->kill_group(); }

  private:
    std::shared_ptr<Pipes> pipes_;
};

}  // namespace

AsioLauncher::AsioLauncher(boost::asio::io_context& loop) : loop_(loop) {
    if (defended(Defence::sigpipe)) ::signal(SIGPIPE, SIG_IGN);
}

Result<std::unique_ptr<EngineProcess>, LaunchRefusal> AsioLauncher::launch(
    const EngineCommand& command, ProcessEvents& events) {
    const Result<LaunchedChild, LaunchRefusal> child = launch_child(command);
    if (!child.ok()) return child.failure();
    auto pipes = std::make_shared<Pipes>(loop_, *child, events);
    pipes->start();
    return std::unique_ptr<EngineProcess>(std::make_unique<AsioProcess>(std::move(pipes)));
}

}  // namespace strata::serve
