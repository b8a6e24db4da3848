// The server's stderr: lines for people or as JSON, and the load bar of a terminal, which every
// line first wipes away.
#pragma once

#include <string>
#include <string_view>

#include "serve/config.hpp"
#include "serve/supervisor/engine_supervisor.hpp"

namespace strata::serve {

class Log final : public SupervisorLog {
  public:
    Log(LogFormat format, bool terminal) : format_(format), terminal_(terminal) {}

    void line(std::string_view text);   // of the server
    void block(std::string_view text);  // several lines of text, as they are
    void event(std::string_view text) override;
    void engine_line(std::string_view line) override;

    // Redraws the bar of a terminal; "" wipes it away.
    void bar(std::string_view text);
    bool terminal() const { return terminal_ && format_ == LogFormat::text; }

  private:
    void write(std::string_view from, std::string_view text);

    LogFormat format_;
    bool terminal_;
    bool bar_shown_ = false;
};

}  // namespace strata::serve
