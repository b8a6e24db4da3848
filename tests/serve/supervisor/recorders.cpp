// Listener and log that remember what they heard.
#include "tests/serve/supervisor/recorders.hpp"

#include <algorithm>

namespace strata::serve::tests {

void RecordingListener::note() {
    if (final_calls > 0 || cancelled) ++calls_after_end;
}

void RecordingListener::on_admitted(const Ticket& given) {
    note();
    ticket = given;
}

void RecordingListener::on_resume(const protocol::ResumeLine& line) {
    note();
    resume = line;
}

void RecordingListener::on_progress(const protocol::ProgressLine& line) {
    note();
    progress.push_back(line);
}

void RecordingListener::on_token(const protocol::TokenLine& line) {
    note();
    tokens.push_back(line.token);
    if (at_token) at_token();
}

void RecordingListener::on_done(const protocol::DoneLine& line) {
    note();
    ++final_calls;
    done = line;
    if (at_end) at_end();
}

void RecordingListener::on_failure(const EngineFailure& heard) {
    note();
    ++final_calls;
    failure = heard;
    if (at_end) at_end();
}

std::string RecordingListener::complaint() const {
    const std::string name = "request " + std::to_string(id);
    if (calls_after_end > 0) return name + " was called after its end; ";
    if (!cancelled && final_calls != 1) {
        return name + " heard " + std::to_string(final_calls) + " final calls; ";
    }
    return "";
}

std::size_t RecordingLog::count(const std::string& part) const {
    return static_cast<std::size_t>(std::count_if(
        events.begin(), events.end(),
        [&part](const std::string& text) { return text.find(part) != std::string::npos; }));
}

}  // namespace strata::serve::tests
