// Listener and log that remember what they heard.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "serve/supervisor/engine_supervisor.hpp"

namespace strata::serve::tests {

class RecordingListener : public RequestListener {
  public:
    void on_admitted(const Ticket& ticket) override;
    void on_resume(const protocol::ResumeLine& line) override;
    void on_progress(const protocol::ProgressLine& line) override;
    void on_token(const protocol::TokenLine& line) override;
    void on_done(const protocol::DoneLine& line) override;
    void on_failure(const EngineFailure& failure) override;

    bool ended() const { return final_calls > 0; }
    // Empty, or what a listener that was not cancelled may not have heard.
    std::string complaint() const;

    RequestId id = 0;
    bool cancelled = false;  // set by the test when it cancels
    int final_calls = 0;
    int calls_after_end = 0;  // after the final call, or after the cancel
    std::optional<Ticket> ticket;
    std::vector<std::int32_t> tokens;
    std::vector<protocol::ProgressLine> progress;
    std::optional<protocol::ResumeLine> resume;
    std::optional<protocol::DoneLine> done;
    std::optional<EngineFailure> failure;
    std::function<void()> at_token;  // called after each token was recorded
    std::function<void()> at_end;

  private:
    void note();
};

class RecordingLog : public SupervisorLog {
  public:
    void event(std::string_view text) override { events.emplace_back(text); }
    void engine_line(std::string_view line) override {
        if (keep_engine_lines) engine_lines.emplace_back(line);
        ++engine_line_count;
    }
    // How many events contain `part`.
    std::size_t count(const std::string& part) const;

    std::vector<std::string> events;
    std::vector<std::string> engine_lines;
    std::size_t engine_line_count = 0;
    bool keep_engine_lines = true;
};

}  // namespace strata::serve::tests
