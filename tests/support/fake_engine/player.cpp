// Plays a script.
#include "tests/support/fake_engine/player.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <map>
#include <thread>

#include <dirent.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

namespace strata::fake {

namespace {

using std::chrono::milliseconds;
using Verb = void (Player::*)(const Statement&);

constexpr std::size_t kFloodBlockBytes = 64 * 1024;

const std::map<std::string, Verb>& verbs() {
    static const std::map<std::string, Verb> table = {
        {"serve", &Player::serve},
        {"await", &Player::await},
        {"line", &Player::line},
        {"raw", &Player::raw},
        {"err", &Player::err},
        {"flood", &Player::flood},
        {"endless", &Player::endless},
        {"sleep", &Player::sleep},
        {"hang", &Player::hang},
        {"spin", &Player::spin},
        {"grow", &Player::grow},
        {"die", &Player::die},
        {"exit", &Player::leave},
        {"ignore", &Player::ignore},
        {"grandchild", &Player::grandchild},
        {"close", &Player::close_stream},
        {"fds", &Player::fds},
        {"status", &Player::status},
        {"env", &Player::environment},
        {"load", &Player::load},
        {"ready", &Player::ready},
        {"tokens", &Player::tokens},
        {"done", &Player::done},
        {"pings", &Player::pings},
        {"parked", &Player::parked},
        {"repeat", &Player::repeat},
        {"on", &Player::on},
        {"from", &Player::from},
    };
    return table;
}

int signal_of(const std::string& word) {
    static const std::map<std::string, int> names = {
        {"HUP", SIGHUP},   {"INT", SIGINT},   {"QUIT", SIGQUIT}, {"ILL", SIGILL},
        {"ABRT", SIGABRT}, {"BUS", SIGBUS},   {"FPE", SIGFPE},   {"KILL", SIGKILL},
        {"SEGV", SIGSEGV}, {"PIPE", SIGPIPE}, {"TERM", SIGTERM}, {"STOP", SIGSTOP}};
    const auto found = names.find(word);
    return found == names.end() ? std::atoi(word.c_str()) : found->second;
}

int descriptor_of(const std::string& word) {
    return word == "stdin" ? 0 : word == "stdout" ? 1 : 2;
}

}  // namespace

void Player::play(const std::vector<Statement>& statements) {
    for (const Statement& statement : statements) {
        const auto found = verbs().find(statement.verb);
        if (found == verbs().end()) bad_script("unknown verb " + statement.verb);
        (this->*found->second)(statement);
    }
}

std::string Player::filled(std::string text) const {
    const auto replace = [&text](const std::string& name, const std::string& value) {
        for (auto at = text.find(name); at != std::string::npos; at = text.find(name, at)) {
            text.replace(at, name.size(), value);
        }
    };
    for (std::size_t i = std::min<std::size_t>(ids_.size(), 9); i > 0; --i) {
        replace("$ID" + std::to_string(i), std::to_string(ids_[i - 1]));
    }
    replace("$ID", std::to_string(id_));
    replace("$START", std::to_string(start_number_));
    return text;
}

std::int64_t Player::number(const Statement& statement, std::size_t index,
                            std::int64_t otherwise) const {
    return index < statement.words.size() ? std::stoll(filled(statement.words[index])) : otherwise;
}

std::uint64_t Player::id_of(const Statement& statement, std::size_t index) const {
    return static_cast<std::uint64_t>(number(statement, index, static_cast<std::int64_t>(id_)));
}

void Player::take(const Command& command) {
    if (command.verb != "GEN") return;
    id_ = command.id();
    ids_.push_back(id_);
}

void Player::serve(const Statement& statement) {
    const std::int64_t count = number(statement, 0, INT64_MAX);
    for (std::int64_t i = 0; i < count; ++i) {
        const Command command = wire_.await();
        take(command);
        story_.serve(command);
    }
}

void Player::await(const Statement& statement) {
    const std::string verb = statement.words.empty() ? "GEN" : statement.words[0];
    if (verb == "STOP" || verb == "PING" || verb == "QUIT") {
        while (wire_.seen.count(verb) == 0) wire_.listen(milliseconds(5));
        wire_.seen.erase(verb);
        return;
    }
    for (Command command = wire_.await();; command = wire_.await()) {
        take(command);
        if (command.verb == verb) return;
    }
}

void Player::line(const Statement& statement) {
    wire_.print(filled(statement.rest));
}

void Player::raw(const Statement& statement) {
    Wire::write_all(1, unescape(filled(statement.rest)));
}

void Player::err(const Statement& statement) {
    Wire::write_all(2, filled(statement.rest) + "\n");
}

void Player::flood(const Statement& statement) {
    const int fd = statement.words.empty() ? 2 : descriptor_of(statement.words[0]);
    std::string block;
    while (block.size() < kFloodBlockBytes) block += "flood of foreign text\n";
    for (std::int64_t left = number(statement, 1, 1 << 20); left > 0;) {
        Wire::write_all(fd, block);
        left -= static_cast<std::int64_t>(block.size());
    }
}

void Player::endless(const Statement& statement) {
    const std::string block(kFloodBlockBytes, 'x');
    for (std::int64_t left = number(statement, 0, 1 << 20); left > 0;) {
        const auto size = std::min<std::int64_t>(left, static_cast<std::int64_t>(block.size()));
        Wire::write_all(1, block.substr(0, static_cast<std::size_t>(size)));
        left -= size;
    }
}

void Player::sleep(const Statement& statement) {
    wire_.listen(milliseconds(number(statement, 0, 1000)));
}

void Player::hang(const Statement& statement) {
    std::this_thread::sleep_for(milliseconds(number(statement, 0, 1000)));
}

void Player::spin(const Statement& statement) {
    const auto until = std::chrono::steady_clock::now() + milliseconds(number(statement, 0, 1000));
    while (std::chrono::steady_clock::now() < until) {
    }
}

void Player::grow(const Statement& statement) {
    constexpr std::int64_t kMiB = 1 << 20;
    constexpr std::int64_t kPageBytes = 4096;
    for (std::int64_t left = number(statement, 0, 1); left > 0; --left) {
        grown_.emplace_back(kMiB);
        for (std::int64_t at = 0; at < kMiB; at += kPageBytes) {
            grown_.back()[static_cast<std::size_t>(at)] = 1;
        }
    }
}

void Player::die(const Statement& statement) {
    const int number = signal_of(statement.words.empty() ? "KILL" : statement.words[0]);
    rlimit none{0, 0};
    ::setrlimit(RLIMIT_CORE, &none);
    ::signal(number, SIG_DFL);
    ::raise(number);
}

void Player::leave(const Statement& statement) {
    ::_exit(static_cast<int>(number(statement, 0, 0)));
}

void Player::ignore(const Statement& statement) {
    for (const std::string& word : statement.words) {
        if (word == "eof") {
            wire_.ignore_end_of_input = true;
        } else if (word == "quit") {
            wire_.ignore_quit = true;
        } else if (word == "stop") {
            wire_.ignore_stop = true;
        } else {
            ::signal(signal_of(word), SIG_IGN);
        }
    }
}

void Player::grandchild(const Statement& statement) {
    const std::int64_t span_ms = number(statement, 0, 1000);
    const bool escapes = statement.words.size() > 1 && statement.words[1] == "escape";
    const pid_t pid = ::fork();
    if (pid == 0) {
        if (escapes) ::setsid();
        std::this_thread::sleep_for(milliseconds(span_ms));
        ::_exit(0);
    }
    Wire::write_all(2, "grandchild " + std::to_string(pid) + "\n");
}

void Player::close_stream(const Statement& statement) {
    for (const std::string& word : statement.words) ::close(descriptor_of(word));
}

void Player::fds(const Statement&) {
    std::vector<int> open;
    DIR* const folder = ::opendir("/proc/self/fd");
    for (const dirent* entry = ::readdir(folder); entry != nullptr; entry = ::readdir(folder)) {
        if (entry->d_name[0] == '.') continue;
        const int fd = std::atoi(entry->d_name);
        if (fd != ::dirfd(folder)) open.push_back(fd);
    }
    ::closedir(folder);
    std::sort(open.begin(), open.end());
    std::string text = "fds";
    for (const int fd : open) text += " " + std::to_string(fd);
    Wire::write_all(2, text + "\n");
}

void Player::environment(const Statement& statement) {
    for (const std::string& name : statement.words) {
        const char* const value = ::secure_getenv(name.c_str());
        Wire::write_all(
            2, "env " + name + (value == nullptr ? " unset" : "=" + std::string(value)) + "\n");
    }
}

void Player::status(const Statement& statement) {
    std::ifstream in("/proc/self/status");
    for (std::string text; std::getline(in, text);) {
        for (const std::string& name : statement.words) {
            if (text.rfind(name + ":", 0) == 0) Wire::write_all(2, text + "\n");
        }
    }
}

void Player::load(const Statement& statement) {
    story_.print_load(number(statement, 0, 0));
}

void Player::ready(const Statement&) {
    story_.print_info_and_ready();
}

void Player::tokens(const Statement& statement) {
    story_.print_tokens(id_of(statement, 1), number(statement, 0, 1));
}

void Player::done(const Statement& statement) {
    const std::string finish = statement.words.empty() ? "length" : statement.words[0];
    story_.print_done(id_of(statement, 1), finish);
}

void Player::pings(const Statement& statement) {
    wire_.answer_pings = !statement.words.empty() && statement.words[0] == "on";
}

void Player::parked(const Statement& statement) {
    if (statement.words.empty() || !wire_.parked) wire_.parked.emplace();
    if (!statement.words.empty()) wire_.parked->push_back(filled(statement.rest));
}

void Player::repeat(const Statement& statement) {
    for (std::int64_t left = number(statement, 0, INT64_MAX); left > 0; --left) {
        play(statement.block);
    }
}

void Player::on(const Statement& statement) {
    if (start_number_ == number(statement, 0, 1)) play(statement.block);
}

void Player::from(const Statement& statement) {
    if (start_number_ >= number(statement, 0, 1)) play(statement.block);
}

}  // namespace strata::fake
