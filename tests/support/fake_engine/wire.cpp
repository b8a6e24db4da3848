// The fake engine's own reading and writing of the wire. It leaves by _exit: a leak check at exit
// would start a process of its own, which a test then finds as an orphan.
#include "tests/support/fake_engine/wire.hpp"

#include <algorithm>
#include <cerrno>
#include <sstream>

#include <poll.h>
#include <unistd.h>

#include "tests/support/fake_engine/script.hpp"

namespace strata::fake {

namespace {

constexpr std::size_t kReadBytes = 256 * 1024;
constexpr int kLongWaitMs = 1000;

void read_ids(const std::string& word, std::vector<std::int64_t>& out) {
    const std::string list = word.rfind("ids=", 0) == 0 ? word.substr(4) : word;
    std::istringstream in(list);
    for (std::string item; std::getline(in, item, ',');) out.push_back(std::stoll(item));
}

Command parse_command(const std::string& line) {
    Command command;
    std::istringstream in(line);
    in >> command.verb;
    for (std::string word; in >> word;) {
        const std::size_t equals = word.find('=');
        const bool is_ids =
            command.verb == "GEN" && (word.rfind("ids=", 0) == 0 ||
                                      (equals == std::string::npos && !command.positional.empty()));
        if (is_ids) {
            read_ids(word, command.ids);
        } else if (equals != std::string::npos) {
            command.names[word.substr(0, equals)] = word.substr(equals + 1);
        } else {
            command.positional.push_back(word);
        }
    }
    return command;
}

}  // namespace

std::uint64_t Command::id() const {
    const auto found = names.find("id");
    return found == names.end() ? 0 : std::stoull(found->second);
}

std::int64_t Command::number(std::size_t index) const {
    return index < positional.size() ? std::stoll(positional[index]) : 0;
}

void Wire::write_all(int fd, const std::string& bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
        const ssize_t n = ::write(fd, bytes.data() + done, bytes.size() - done);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) ::_exit(0);
        done += static_cast<std::size_t>(n);
    }
}

void Wire::leave_wanted() {
    if (!running_) ::_exit(0);
    leaving_ = true;
    stopped_ = true;
}

void Wire::take_line(const std::string& line) {
    Command command = parse_command(line);
    if (command.verb.empty()) return;
    seen.insert(command.verb);
    if (command.verb == "PING") {
        if (answer_pings)
            print("PONG " + (command.positional.empty() ? "0" : command.positional[0]));
    } else if (command.verb == "STOP") {
        const bool ours =
            running_ && (command.names.count("id") == 0 || command.id() == running_id_);
        if (ours && !ignore_stop) stopped_ = true;
    } else if (command.verb == "QUIT") {
        if (!ignore_quit) leave_wanted();
    } else if (command.verb == "CACHE" && parked) {
        answer_cache(command);
    } else {
        commands_.push_back(std::move(command));
    }
}

// drop, pin and unpin change the rows that name their entry; every answer is the list as it is
// then.
void Wire::answer_cache(const Command& command) {
    const std::string action = command.positional.empty() ? "list" : command.positional[0];
    const auto named = command.names.find("entry");
    const std::string entry = named == command.names.end() ? "" : "entry=" + named->second + " ";
    const auto mine = [&entry](const std::string& row) { return (row + " ").rfind(entry, 0) == 0; };
    if (action == "clear") parked->clear();
    if (action == "drop") {
        parked->erase(std::remove_if(parked->begin(), parked->end(), mine), parked->end());
    }
    for (std::string& row : *parked) {
        const std::size_t at = row.find("pinned=");
        if ((action != "pin" && action != "unpin") || !mine(row) || at == std::string::npos)
            continue;
        row[at + 7] = action == "pin" ? '1' : '0';
    }
    for (const std::string& row : *parked) print("CACHE " + row);
    print("CACHE end");
}

void Wire::read_once(int timeout_ms) {
    pollfd want{0, POLLIN, 0};
    if (ended_) want.fd = -1;
    if (::poll(&want, 1, timeout_ms) <= 0 || want.revents == 0) return;
    chunk_.resize(kReadBytes);
    const ssize_t n = ::read(0, chunk_.data(), chunk_.size());
    if (n <= 0) {
        if (n < 0 && errno == EINTR) return;
        ended_ = true;
        if (!ignore_end_of_input) leave_wanted();
        return;
    }
    buffer_.append(chunk_.data(), static_cast<std::size_t>(n));
    std::size_t begin = 0;
    for (std::size_t lf = buffer_.find('\n', scanned_); lf != std::string::npos;
         lf = buffer_.find('\n', begin)) {
        take_line(buffer_.substr(begin, lf - begin));
        begin = lf + 1;
    }
    buffer_.erase(0, begin);
    scanned_ = buffer_.size();
}

void Wire::listen(std::chrono::milliseconds span) {
    const auto until = std::chrono::steady_clock::now() + span;
    do {
        const auto left =
            std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
        read_once(static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, kLongWaitMs)));
    } while (!stopped_ && std::chrono::steady_clock::now() < until);
}

Command Wire::await() {
    while (commands_.empty()) read_once(kLongWaitMs);
    Command first = std::move(commands_.front());
    commands_.pop_front();
    return first;
}

void Wire::request_begins(std::uint64_t id) {
    running_ = true;
    stopped_ = false;
    running_id_ = id;
}

void Wire::request_ended() {
    running_ = false;
    stopped_ = false;
    if (leaving_) ::_exit(0);
}

}  // namespace strata::fake
