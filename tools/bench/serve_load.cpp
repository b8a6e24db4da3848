// strata-serve-load: what many clients cost each other. Three runs:
//
//   streams   512 event streams of 50 chunks a second: every chunk is checked against what the
//             engine said, and its way from the engine to the client is timed
//   turns     the same 512 clients and as many chunks a second in all through strata-serve, its
//             supervisor and an engine process, which answers one after the other
//   slow      2,000 connections that trickle their headers and 2,000 that say nothing, while 32
//             normal clients time the first byte of their answers
//
// In the first and the last the server's own rooms run in a process of their own, with an engine in
// it that answers all at once at a fixed pace: the supervisor serves one request at a time.
//
// Prints its figures with the wanted ones; status 1 when one is missed, 2 for a bad option.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/gguf/gguf.hpp"
#include "tools/bench/load/clients.hpp"
#include "tools/bench/load/server_side.hpp"
#include "tools/bench/load/turn_engine.hpp"
#include "tools/bench/load/whole_server.hpp"

namespace strata::bench {
namespace {

constexpr std::chrono::microseconds kBetweenTokens{20'000};
constexpr double kPerSecond = 1e6 / kBetweenTokens.count();  // 50 chunks
constexpr double kAddedMsMax = 25;
constexpr double kFirstByteMsMax = 100;
constexpr long kResidentKibMax = 8L << 10;
constexpr std::size_t kSettleSeconds = 5;  // of the resident set

struct Options {
    std::string model = STRATA_DEMO_MODEL;
    std::string json;
    StreamPlan plan;
    std::int64_t seconds = 30;
    std::string only;  // the name of one run; "" = all
    bool wants(std::string_view name) const { return only.empty() || only == name; }
};

std::optional<Options> read_options(int argc, char** argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view flag = argv[i];
        if (flag == "--help" || i + 1 == argc) return std::nullopt;
        const std::string value = argv[++i];
        std::int64_t number = 0;
        const auto end = std::from_chars(value.data(), value.data() + value.size(), number);
        const bool good = end.ec == std::errc{} && end.ptr == value.data() + value.size() &&
                          number >= 1 && number <= 4096;
        if (flag == "--json") {
            options.json = value;
        } else if (flag == "--model") {
            options.model = value;
        } else if (flag == "--only" &&
                   (value == "streams" || value == "turns" || value == "slow")) {
            options.only = value;
        } else if (flag == "--streams" && good) {
            options.plan.streams = static_cast<std::size_t>(number);
        } else if (flag == "--seconds" && good) {
            options.seconds = number;
        } else {
            return std::nullopt;
        }
    }
    const auto per_second = std::chrono::microseconds(std::chrono::seconds(1)) / kBetweenTokens;
    options.plan.tokens = static_cast<std::size_t>(options.seconds * per_second);
    options.plan.skip = std::min<std::size_t>(options.plan.skip, options.plan.tokens / 2);
    return options;
}

double quantile(std::vector<double> values, double share) {
    if (values.empty()) return 0;
    const auto at = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1));
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at),
                     values.end());
    return values[at];
}

void allow_descriptors() {
    rlimit limit{};
    ::getrlimit(RLIMIT_NOFILE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

SaidTimes shared_times(const StreamPlan& plan) {
    SaidTimes said;
    said.streams = plan.streams;
    said.tokens = plan.tokens;
    void* const memory = ::mmap(nullptr, plan.streams * plan.tokens * sizeof(std::int64_t),
                                PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED) said.rows = static_cast<std::int64_t*>(memory);
    return said;
}

// How much the server grew between its settling and the end of the streams.
long resident_growth(const std::vector<long>& kib) {
    if (kib.size() < kSettleSeconds + 3) return 0;
    const auto begin = kib.begin() + static_cast<std::ptrdiff_t>(kSettleSeconds);
    const auto end = kib.end() - 2;  // the streams end here
    return *std::max_element(begin, end) - *std::min_element(begin, end);
}

struct Report {
    std::string text = "{";
    bool good = true;

    void line(const std::string& name, double value, const char* unit, double most) {
        const bool met = value <= most;
        good = good && met;
        std::printf("  %-34s %12.3f %-6s wanted: at most %g%s\n", name.c_str(), value, unit, most,
                    met ? "" : "   MISSED");
        add(name, value);
    }
    void fact(const std::string& name, double value, const char* unit) {
        std::printf("  %-34s %12.3f %s\n", name.c_str(), value, unit);
        add(name, value);
    }
    void add(const std::string& name, double value) {
        char number[64];
        std::snprintf(number, sizeof number, "%.3f", value);
        text += (text.size() > 1 ? ",\"" : "\"") + name + "\":" + number;
    }
};

// `run` stands before the names in the JSON.
void report_streams(const StreamFigures& figures, const std::string& run, Report& report) {
    const auto name = [&run](const char* of) { return run + of; };
    report.fact(name("chunks"), static_cast<double>(figures.chunks), "");
    report.line(name("lost, reordered or foreign"), static_cast<double>(figures.faults), "", 0);
    report.fact(name("added latency p50"), quantile(figures.latencies_ms, 0.5), "ms");
    report.line(name("added latency p99"), quantile(figures.latencies_ms, 0.99), "ms", kAddedMsMax);
    report.fact(name("added latency max"), quantile(figures.latencies_ms, 1.0), "ms");
    const auto& kib = figures.resident_kib;
    report.fact(name("resident set"), kib.empty() ? 0.0 : static_cast<double>(kib.back()), "KiB");
    report.line(name("growth of the resident set"), static_cast<double>(resident_growth(kib)),
                "KiB", kResidentKibMax);
}

void report_slow(const FirstByteFigures& figures, const SlowPlan& plan, Report& report) {
    std::printf("slow: %zu slow headers, %zu idle, %zu normal clients\n", plan.slow, plan.idle,
                plan.normal);
    report.fact("slow connections opened", static_cast<double>(figures.slow_opened), "");
    report.fact("normal requests", static_cast<double>(figures.requests), "");
    report.line("failed normal requests", static_cast<double>(figures.faults), "", 0);
    report.fact("first byte p50", quantile(figures.first_byte_ms, 0.5), "ms");
    report.line("first byte p99", quantile(figures.first_byte_ms, 0.99), "ms", kFirstByteMsMax);
    report.fact("first byte max", quantile(figures.first_byte_ms, 1.0), "ms");
}

int fail(const std::string& text) {
    std::fprintf(stderr, "strata-serve-load: %s\n", text.c_str());
    return 2;
}

int run_rooms(const Options& options, const serve::TextModel& text, const Words& words,
              Report& report) {
    const SaidTimes said = shared_times(options.plan);
    if (said.rows == nullptr) return fail("no memory for the times");
    const ServerUnderLoad server = start_server(text, words, said, kBetweenTokens);
    if (server.port == 0) return fail("the server did not start");
    {
        Clients clients(server.port);
        if (options.wants("streams")) {
            std::printf("streams: %zu of 50 chunks/s, %zu tokens each\n", options.plan.streams,
                        options.plan.tokens);
            report_streams(clients.run_streams(options.plan, words.texts, said, server.pid), "",
                           report);
        }
        if (options.wants("slow")) {
            SlowPlan plan;
            plan.time = std::chrono::seconds(options.seconds);
            report_slow(clients.run_beside_slow(plan, server.pid), plan, report);
        }
    }
    int status = 0;
    if (::waitpid(server.pid, &status, WNOHANG) != 0) {
        return fail("the server ended by itself, wait status " + std::to_string(status));
    }
    ::kill(server.pid, SIGKILL);
    ::waitpid(server.pid, nullptr, 0);
    return 0;
}

int run_turns(const Options& options, const Words& words, Report& report) {
    const std::filesystem::path own = std::filesystem::read_symlink("/proc/self/exe");
    TurnPlan turns;
    turns.streams = options.plan.streams;
    turns.tokens = options.plan.tokens;
    turns.tokens_per_second = static_cast<double>(turns.streams) * kPerSecond;
    WholeServer server((own.parent_path() / "strata-serve").string(), own.string(), options.model,
                       turns);
    if (server.port() == 0) return fail("strata-serve did not get ready");
    StreamPlan plan = options.plan;
    plan.skip = 0;  // nobody's beginning is another one's
    std::printf("turns: %zu clients at once, served one by one at %.0f chunks/s, %zu tokens each\n",
                turns.streams, turns.tokens_per_second, turns.tokens);
    Clients clients(server.port());
    const auto began = std::chrono::steady_clock::now();
    const StreamFigures figures =
        clients.run_streams(plan, words.texts, server.said(), server.pid());
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    report_streams(figures, "turns: ", report);
    report.fact("turns: chunks a second", static_cast<double>(figures.chunks) / took.count(), "");
    return server.ended() ? fail("strata-serve ended by itself") : 0;
}

int run(const Options& options) {
    const auto header = gguf::read_header(options.model);
    if (!header) return fail(options.model + ": " + header.error().text);
    const auto text = serve::TextModel::from_header(*header);
    if (!text) return fail(options.model + ": " + text.error().text);
    allow_descriptors();
    const Words words = words_of(*text);
    Report report;
    int status = 0;
    if (options.wants("turns")) status = run_turns(options, words, report);
    if (status == 0 && options.only != "turns") status = run_rooms(options, *text, words, report);
    if (status != 0) return status;
    if (!options.json.empty()) std::ofstream(options.json) << report.text << "}\n";
    return report.good ? 0 : 1;
}

// strata-serve-load --as-engine TIMES STREAMS TOKENS RATE --model FILE and what else a server says.
int run_as_engine(const std::vector<std::string_view>& words) {
    constexpr std::size_t kOwnWords = 5;
    if (words.size() < kOwnWords) return 2;
    TurnPlan plan;
    plan.times_path = words[1];
    plan.streams = std::stoul(std::string(words[2]));
    plan.tokens = std::stoul(std::string(words[3]));
    plan.tokens_per_second = std::stod(std::string(words[4]));
    const auto model = std::find(words.begin(), words.end(), "--model");
    if (model == words.end() || model + 1 == words.end()) return 2;
    const auto header = gguf::read_header(std::string(model[1]));
    if (!header) return fail(header.error().text);
    const auto text = serve::TextModel::from_header(*header);
    if (!text) return fail(text.error().text);
    return run_turn_engine(plan, words_of(*text));
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
    const std::vector<std::string_view> words(argv + 1, argv + argc);
    if (!words.empty() && words[0] == "--as-engine") return strata::bench::run_as_engine(words);
    const auto options = strata::bench::read_options(argc, argv);
    if (!options) {
        std::fputs(
            "strata-serve-load [--streams N] [--seconds N] [--only streams|turns|slow] "
            "[--model FILE.gguf] [--json FILE]\n",
            stderr);
        return 2;
    }
    return strata::bench::run(*options);
}
