// The server's stderr: lines for people or as JSON, and the load bar of a terminal, which every
// line first wipes away.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "serve/api/finished_request.hpp"
#include "serve/api/json_writer.hpp"
#include "serve/config.hpp"
#include "serve/log_output.hpp"
#include "serve/supervisor/engine_supervisor.hpp"

namespace strata::serve {

class Log final : public SupervisorLog {
  public:
    Log(LogFormat format, bool terminal);

    void line(std::string_view text);  // of the server
    // The summary of a request; as JSON with its numbers as fields.
    void request(const FinishedRequest& finished);
    void block(std::string_view text);  // several lines of text, as they are
    void event(std::string_view text) override;
    void engine_line(std::string_view line) override;

    // Redraws the bar of a terminal; "" wipes it away.
    void bar(std::string_view text);
    bool terminal() const { return terminal_ && format_ == LogFormat::text; }

  private:
    void write(std::string_view from, std::string_view text);
    void put_line(std::string line);
    // Opens an object and writes what every line has.
    JsonWriter json_line(std::string_view from, std::string_view level) const;

    LogFormat format_;
    bool terminal_;
    bool bar_shown_ = false;
    LogOutput output_;
    std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
};

}  // namespace strata::serve
