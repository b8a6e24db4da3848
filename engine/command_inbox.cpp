// See engine/command_inbox.hpp.
#include "engine/command_inbox.hpp"

#include <utility>

namespace strata {

namespace {

// The main loop looks between two tokens; a server sends one request and a PING every few seconds.
constexpr std::size_t kWaitingLinesMax = 1024;
// Two of the longest lines: one that is read, one that came too early.
constexpr std::size_t kWaitingIdsMax = 2 * (protocol::kCommandLineBytesMax / 2);

std::size_t ids_of(const ReceivedLine& line) {
    const auto* command = std::get_if<protocol::Command>(&line.what);
    const auto* gen = command == nullptr ? nullptr : std::get_if<protocol::GenCommand>(command);
    return gen == nullptr ? 0 : gen->ids.size();
}

}  // namespace

bool CommandInbox::take(std::string_view bytes) {
    reader_.feed(bytes, [this](const protocol::RawLine& line) { take_line(line); });
    const std::lock_guard lock(mutex_);
    return !closed_;
}

bool CommandInbox::has_room() {
    const std::lock_guard lock(mutex_);
    return lines_.size() < kWaitingLinesMax && waiting_ids_ < kWaitingIdsMax;
}

void CommandInbox::take_line(const protocol::RawLine& line) {
    ReceivedLine received{protocol::Command(protocol::QuitCommand{}),
                          std::chrono::steady_clock::now()};
    if (line.overlong) {
        received.what = protocol::overlong_command(line.text);
    } else if (auto command = protocol::parse_command(line.text)) {
        if (const auto* stop = std::get_if<protocol::StopCommand>(&*command)) {
            board_->stop(stop->id);
            return;
        }
        if (std::holds_alternative<protocol::QuitCommand>(*command)) {
            close();
            return;
        }
        received.what = std::move(command).value();
    } else {
        received.what = command.error();
    }
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    if (const auto* command = std::get_if<protocol::Command>(&received.what)) {
        if (const auto* gen = std::get_if<protocol::GenCommand>(command)) board_->expect(gen->id);
    }
    waiting_ids_ += ids_of(received);
    lines_.push_back(std::move(received));
    arrived_.notify_one();
}

void CommandInbox::close() {
    board_->stop_all();
    const std::lock_guard lock(mutex_);
    closed_ = true;
    arrived_.notify_all();
}

std::optional<ReceivedLine> CommandInbox::pop() {
    if (lines_.empty()) return std::nullopt;
    ReceivedLine line = std::move(lines_.front());
    lines_.pop_front();
    waiting_ids_ -= ids_of(line);
    return line;
}

std::optional<ReceivedLine> CommandInbox::next() {
    const std::lock_guard lock(mutex_);
    return pop();
}

std::optional<ReceivedLine> CommandInbox::wait_next(std::optional<std::chrono::milliseconds> wait) {
    std::unique_lock lock(mutex_);
    const auto ready = [this] { return closed_ || alarmed_ || !lines_.empty(); };
    if (wait) {
        arrived_.wait_for(lock, *wait, ready);
    } else {
        arrived_.wait(lock, ready);
    }
    return pop();
}

void CommandInbox::alarm() {
    const std::lock_guard lock(mutex_);
    alarmed_ = true;
    arrived_.notify_all();
}

bool CommandInbox::take_alarm() {
    const std::lock_guard lock(mutex_);
    return std::exchange(alarmed_, false);
}

bool CommandInbox::closed_and_empty() {
    const std::lock_guard lock(mutex_);
    return closed_ && lines_.empty();
}

}  // namespace strata
