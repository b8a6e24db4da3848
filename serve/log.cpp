// One write for each line, so that lines of two threads or processes do not mix.
#include "serve/log.hpp"

#include <chrono>
#include <cstdio>
#include <ctime>

#include "serve/api/json_writer.hpp"

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

void put(std::string_view bytes) {
    std::fwrite(bytes.data(), 1, bytes.size(), stderr);
    std::fflush(stderr);
}

}  // namespace

void Log::write(std::string_view from, std::string_view text) {
    std::string out;
    if (format_ == LogFormat::json) {
        const auto now = std::chrono::system_clock::now().time_since_epoch();
        JsonWriter json;
        json.begin_object().field("time", std::chrono::duration<double>(now).count());
        json.field("from", from).field("text", text).end_object();
        out = json.take() + "\n";
    } else {
        if (bar_shown_) out += kWipe;
        bar_shown_ = false;
        out += clock_text() + " ";
        if (!from.empty()) out += std::string(from) + ": ";
        out += std::string(text) + "\n";
    }
    put(out);
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
    put(text);
}

void Log::bar(std::string_view text) {
    if (!terminal() || (text.empty() && !bar_shown_)) return;
    put(std::string(kWipe) + std::string(text));
    bar_shown_ = !text.empty();
}

}  // namespace strata::serve
