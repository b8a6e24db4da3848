// See serve/monitor/monitor.hpp.
#include "serve/monitor/monitor.hpp"

#include <algorithm>

#include "serve/monitor/merge_passes.hpp"

namespace strata::serve {

Monitor::Monitor(std::function<double()> now_s) : now_s_(std::move(now_s)), history_(now_s_()) {}

void Monitor::ended(HistoryRow row, const std::optional<Ticket>& open) {
    if (open) {
        open_[{open->epoch, open->id}] = std::move(row);
    } else {
        add(std::move(row));
    }
}

void Monitor::on_ticket_resumed(const Ticket& ticket, const protocol::ResumeLine& line) {
    watch_.resumed(now_s_(), ticket.epoch, line);
}

void Monitor::on_ticket_done(const Ticket& ticket, const protocol::DoneLine& line) {
    watch_.done(now_s_(), ticket.epoch, line);
    auto waiting = open_.extract({ticket.epoch, ticket.id});
    if (waiting.empty()) return;
    HistoryRow& row = waiting.mapped();
    row.done = row.done ? merge_passes(*row.done, line) : line;
    ++row.passes;
    add(std::move(row));
}

void Monitor::refused(const std::string& type) {
    ++counts_.refused[type];
    history_.refused();
}

void Monitor::on_ticket_lost(const Ticket& ticket, const TicketProgress& progress) {
    auto waiting = open_.extract({ticket.epoch, ticket.id});
    if (waiting.empty()) return;
    // What the engine still did when the client had left.
    HistoryRow& row = waiting.mapped();
    row.prompt_tokens = std::max(row.prompt_tokens, progress.prompt_read);
    row.reused = std::max(row.reused, progress.reused);
    row.output_tokens = std::max(row.output_tokens, progress.generated);
    add(std::move(row));
}

void Monitor::on_conversation(std::uint64_t epoch, const protocol::ConvLine& line) {
    watch_.conversation(now_s_(), epoch, line);
}

void Monitor::on_pressure(std::uint64_t epoch, const protocol::PressureLine& line) {
    watch_.pressure(now_s_(), epoch, line);
}

void Monitor::on_parked_list(std::uint64_t epoch, const protocol::HeldFigures& held) {
    watch_.listed(now_s_(), epoch, held);
}

void Monitor::add(HistoryRow row) {
    // Tokens of a last pass that never said DONE were written all the same.
    if (row.done && row.output_tokens > row.done->generated) {
        row.done->generated = row.output_tokens;
        row.unended = true;
        ++row.passes;
    }
    counts_.add(row);
    keep_words(row);
    history_.add(std::move(row));
}

void Monitor::keep_words(const HistoryRow& row) {
    if (row.epoch > words_epoch_) {
        words_epoch_ = row.epoch;
        words_.clear();
    }
    if (row.epoch != words_epoch_ || row.first_words.empty() || !row.done || !row.done->conv)
        return;
    words_[*row.done->conv] = row.first_words;
    if (words_.size() > kWordsMax) words_.erase(words_.begin());
}

}  // namespace strata::serve
