// Lines as text and as JSON.
#include "serve/log.hpp"

#include <ctime>
#include <utility>

#include <unistd.h>

namespace strata::serve {

namespace {

constexpr std::string_view kWipe = "\r\x1b[K";

std::string clock_text() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm local{};
    localtime_r(&now, &local);
    char text[16] = {};
    const std::size_t size = std::strftime(text, sizeof text, "%H:%M:%S", &local);
    return {text, size};
}

}  // namespace

Log::Log(LogFormat format, bool terminal)
    : format_(format), terminal_(terminal), output_(STDERR_FILENO, [this](std::uint64_t dropped) {
          const std::string text =
              std::to_string(dropped) + " lines of this log were dropped: " + "nothing took them";
          if (format_ == LogFormat::text) return clock_text() + " " + text + "\n";
          JsonWriter json = json_line("server", "warn");
          return json.field("text", text).end_object().take() + "\n";
      }) {}

JsonWriter Log::json_line(std::string_view from, std::string_view level) const {
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    const auto up = std::chrono::steady_clock::now() - started_;
    JsonWriter json;
    json.begin_object().field("time", std::chrono::duration<double>(now).count());
    json.field("uptime_s", std::chrono::duration<double>(up).count());
    json.field("level", level).field("from", from);
    return json;
}

void Log::put_line(std::string line) {
    if (bar_shown_) line = std::string(kWipe) + line;
    bar_shown_ = false;
    output_.write(line + "\n");
}

void Log::write(std::string_view from, std::string_view text) {
    if (format_ == LogFormat::json) {
        put_line(json_line(from, "info").field("text", text).end_object().take());
        return;
    }
    std::string out = clock_text() + " ";
    if (!from.empty()) out += std::string(from) + ": ";
    put_line(out + std::string(text));
}

void Log::request(const FinishedRequest& finished) {
    if (format_ == LogFormat::text) {
        line(summary_line(finished));
        return;
    }
    const bool failed = finished.finish == AnswerFinish::error;
    JsonWriter json = json_line("server", failed ? "warn" : "info");
    json.field("event", "request");
    write_fields(json, finished);
    put_line(json.field("text", summary_line(finished)).end_object().take());
}

void Log::line(std::string_view text) {
    write(format_ == LogFormat::json ? "server" : "", text);
}

void Log::event(std::string_view text) {
    line(text);
}

void Log::engine_line(std::string_view line) {
    write("engine", line);
}

void Log::block(std::string_view text) {
    if (format_ == LogFormat::json) {
        line(text);
        return;
    }
    bar("");
    output_.write(text);
}

void Log::bar(std::string_view text) {
    if (!terminal() || (text.empty() && !bar_shown_)) return;
    output_.write(std::string(kWipe) + std::string(text));
    bar_shown_ = !text.empty();
}

}  // namespace strata::serve
