// strata-bench: how fast this machine reads and writes tokens with a model. Goes the public way
// (load_runner) and owns nothing but the clock: what it measures is what the engine does.
//
//   prefill N  reading N tokens into an empty conversation, in chunks; logits of the last one
//   decode N   writing N tokens one by one from an empty conversation; logits of each, the largest
//   is next
//
// Every test runs once unmeasured, then `--repeat` times in turn with the others, so that a machine
// that slows down slows all of them.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device_choice.hpp"
#include "strata/backend/device.hpp"
#include "strata/core/result.hpp"
#include "strata/model/runner.hpp"

namespace strata::bench {
namespace {

constexpr std::int64_t kTokensMax = 1 << 20;  // of one test: more than any trained context
constexpr std::int64_t kRepeatMax = 1000;
constexpr std::int64_t kThreadsMax = 512;
constexpr std::int64_t kChunkMax = 8192;  // as the engine's --chunk

struct BenchOptions {
    std::string model;
    std::int64_t threads = 2;
    ElementType kv = ElementType::f16;
    std::string kernels = "auto";
    DeviceChoice device;
    std::int64_t chunk = 512;
    std::vector<std::int64_t> prefill = {128, 512, 2048};
    std::vector<std::int64_t> decode = {128};
    std::int64_t repeat = 5;
    std::string json;
};

constexpr const char* kUsage =
    "strata-bench --model FILE [options]\n"
    "  --threads N                          compute threads (2)\n"
    "  --kv f16|f32                         type of K/V rows (f16)\n"
    "  --device auto|cpu|cuda[:N]           what computes (auto)\n"
    "  --chunk N                            tokens that are read at a time (512)\n"
    "  --kernels auto|scalar|avx2|avx512    instruction set (auto)\n"
    "  --prefill N,N,...                    tokens to read; 0 = none (128,512,2048)\n"
    "  --decode N,N,...                     tokens to write; 0 = none (128)\n"
    "  --repeat N                           measured runs of each test (5)\n"
    "  --json FILE                          write the results there as well\n";

Result<std::int64_t> parse_number(std::string_view name, std::string_view text, std::int64_t least,
                                  std::int64_t most) {
    std::int64_t value = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value < least ||
        value > most) {
        return refuse(std::string(name) + ": '" + std::string(text) + "' is not a number from " +
                      std::to_string(least) + " to " + std::to_string(most));
    }
    return value;
}

// "128,512": the tests of one kind. Zeros are left out.
Result<std::vector<std::int64_t>> parse_counts(std::string_view name, std::string_view text) {
    std::vector<std::int64_t> counts;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(',', at), text.size());
        const auto count = parse_number(name, text.substr(at, end - at), 0, kTokensMax);
        if (!count) return count.failure();
        if (*count > 0) counts.push_back(*count);
        at = end + 1;
    }
    return counts;
}

Status<> set_kv(std::string_view text, BenchOptions& options) {
    if (text != "f16" && text != "f32") {
        return refuse("--kv: '" + std::string(text) + "' is not one of f16, f32");
    }
    options.kv = text == "f32" ? ElementType::f32 : ElementType::f16;
    return Done{};
}

template <class T>
Status<> take(Result<T> value, T& to) {
    if (!value) return value.failure();
    to = std::move(value).value();
    return Done{};
}

Status<> set_option(std::string_view name, std::string_view text, BenchOptions& options) {
    if (name == "--model") {
        options.model = text;
    } else if (name == "--json") {
        options.json = text;
    } else if (name == "--kernels") {
        options.kernels = text;
    } else if (name == "--kv") {
        return set_kv(text, options);
    } else if (name == "--device") {
        const auto choice = parse_device(text);
        if (!choice) {
            return refuse("--device: '" + std::string(text) + "' is not one of " +
                          std::string(kDeviceWords));
        }
        options.device = *choice;
    } else if (name == "--threads") {
        return take(parse_number(name, text, 1, kThreadsMax), options.threads);
    } else if (name == "--chunk") {
        return take(parse_number(name, text, 1, kChunkMax), options.chunk);
    } else if (name == "--repeat") {
        return take(parse_number(name, text, 1, kRepeatMax), options.repeat);
    } else if (name == "--prefill") {
        return take(parse_counts(name, text), options.prefill);
    } else if (name == "--decode") {
        return take(parse_counts(name, text), options.decode);
    } else {
        return refuse("unknown option '" + std::string(name) + "'");
    }
    return Done{};
}

Result<BenchOptions> parse_options(const std::vector<std::string_view>& arguments) {
    BenchOptions options;
    for (std::size_t i = 0; i < arguments.size(); i += 2) {
        if (i + 1 == arguments.size()) {
            return refuse(std::string(arguments[i]) + " needs a value");
        }
        const auto set = set_option(arguments[i], arguments[i + 1], options);
        if (!set) return set.failure();
    }
    if (options.model.empty()) return refuse("--model is missing");
    if (options.prefill.empty() && options.decode.empty()) return refuse("there is nothing to do");
    return options;
}

// An empty conversation, again and again, on memory that was allocated once.
class Conversation {
  public:
    static Result<std::unique_ptr<Conversation>> make(Runner& runner, std::int64_t rows) {
        auto made = std::make_unique<Conversation>();
        Device& device = runner.device();
        const Geometry& geometry = runner.geometry();
        for (std::int64_t row = 0; row < rows; row += kPageTokens) {
            auto page = device.allocate(geometry.page_bytes());
            if (!page) return page.failure();
            made->page_starts_.push_back(page->address());
            made->pages_.push_back(std::move(page).value());
        }
        if (geometry.recurrent()) {
            auto state = device.allocate(geometry.state_bytes());
            if (!state) return state.failure();
            made->running_state_ = std::move(state).value();
            made->zeros_.resize(geometry.state_bytes());
        }
        return made;
    }

    void clear(Device& device) {
        if (!running_state_) return;
        device.copy_from_host(running_state_.address(), zeros_.data(), zeros_.size());
        device.synchronize();
    }
    SequenceMemory memory() const { return {page_starts_, running_state_.address()}; }

  private:
    std::vector<Buffer> pages_;
    std::vector<void*> page_starts_;
    Buffer running_state_;
    std::vector<std::byte> zeros_;
};

enum class Kind : std::uint8_t { prefill, decode };
const char* kind_name(Kind kind) {
    return kind == Kind::prefill ? "prefill" : "decode";
}

struct Test {
    Kind kind = Kind::prefill;
    std::int64_t tokens = 0;
    std::vector<double> milliseconds;

    double least() const { return *std::min_element(milliseconds.begin(), milliseconds.end()); }
    double median() const {
        std::vector<double> sorted = milliseconds;
        std::sort(sorted.begin(), sorted.end());
        const std::size_t half = sorted.size() / 2;
        return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
    }
    double rate(double ms) const { return static_cast<double>(tokens) * 1000.0 / ms; }
};

// Ids spread over the vocabulary, the same in every run.
TokenIds some_ids(std::int64_t count, std::int64_t vocabulary) {
    TokenIds ids(static_cast<std::size_t>(count));
    std::uint64_t number = 1;
    for (TokenId& id : ids) {
        number = number * 6364136223846793005U + 1442695040888963407U;
        id = static_cast<TokenId>((number >> 33) % static_cast<std::uint64_t>(vocabulary));
    }
    return ids;
}

void run_prefill(Runner& runner, const SequenceMemory& memory, std::span<const TokenId> ids,
                 std::span<float> logits) {
    const auto chunk = static_cast<std::size_t>(runner.chunk_tokens_max());
    for (std::size_t first = 0; first < ids.size(); first += chunk) {
        const std::size_t count = std::min(chunk, ids.size() - first);
        const bool last = first + count == ids.size();
        runner.forward(memory, static_cast<Position>(first), ids.subspan(first, count),
                       last ? logits : std::span<float>());
    }
}

void run_decode(Runner& runner, const SequenceMemory& memory, TokenId first_id, std::int64_t tokens,
                std::span<float> logits) {
    TokenId id = first_id;
    for (Position row = 0; row < tokens; ++row) {
        runner.forward(memory, row, std::span(&id, 1), logits);
        id = static_cast<TokenId>(std::max_element(logits.begin(), logits.end()) - logits.begin());
    }
}

double run_once(Runner& runner, Conversation& conversation, const Test& test,
                std::span<float> logits) {
    const TokenIds ids = some_ids(test.tokens, runner.geometry().vocabulary);
    conversation.clear(runner.device());
    const auto start = std::chrono::steady_clock::now();
    if (test.kind == Kind::prefill) {
        run_prefill(runner, conversation.memory(), ids, logits);
    } else {
        run_decode(runner, conversation.memory(), ids[0], test.tokens, logits);
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return took.count();
}

void print_table(const BenchOptions& options, const Runner& runner, const DeviceFacts& facts,
                 const std::vector<Test>& tests) {
    std::printf("%s, %s, %.1f MB of weights; %s, %lld threads, K/V %s, %lld runs\n",
                runner.geometry().architecture.c_str(), runner.geometry().quantisation.c_str(),
                static_cast<double>(runner.geometry().weights_bytes) / 1e6, facts.kernels.c_str(),
                static_cast<long long>(options.threads), element_type_name(options.kv),
                static_cast<long long>(options.repeat));
    std::printf("%-8s %7s %12s %12s %14s\n", "test", "tokens", "median ms", "least ms", "tokens/s");
    for (const Test& test : tests) {
        std::printf("%-8s %7lld %12.2f %12.2f %14.1f\n", kind_name(test.kind),
                    static_cast<long long>(test.tokens), test.median(), test.least(),
                    test.rate(test.median()));
    }
}

std::string quoted(std::string_view text) {
    std::string out = "\"";
    for (const char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
    return out + '"';
}

// {"model", "kernels", "threads", "kv", "tests": [{"test", "tokens", "ms_median", "ms_min",
// "tokens_per_second", "ms"}]}
std::string json_text(const BenchOptions& options, const DeviceFacts& facts,
                      const std::vector<Test>& tests) {
    const std::size_t folder = options.model.find_last_of('/');
    const std::string file =
        folder == std::string::npos ? options.model : options.model.substr(folder + 1);
    std::string out = "{\"model\": " + quoted(file) + ", \"kernels\": " + quoted(facts.kernels) +
                      ", \"threads\": " + std::to_string(options.threads) +
                      ", \"kv\": " + quoted(element_type_name(options.kv)) + ",\n \"tests\": [";
    for (std::size_t i = 0; i < tests.size(); ++i) {
        const Test& test = tests[i];
        out += i == 0 ? "\n  " : ",\n  ";
        out += "{\"test\": " + quoted(kind_name(test.kind)) +
               ", \"tokens\": " + std::to_string(test.tokens) +
               ", \"ms_median\": " + std::to_string(test.median()) +
               ", \"ms_min\": " + std::to_string(test.least()) +
               ", \"tokens_per_second\": " + std::to_string(test.rate(test.median())) +
               ", \"ms\": [";
        for (std::size_t run = 0; run < test.milliseconds.size(); ++run) {
            out += (run == 0 ? "" : ", ") + std::to_string(test.milliseconds[run]);
        }
        out += "]}";
    }
    return out + "\n ]}\n";
}

Result<std::vector<Test>> measure(Runner& runner, const BenchOptions& options) {
    std::vector<Test> tests;
    for (const std::int64_t tokens : options.prefill) tests.push_back({Kind::prefill, tokens, {}});
    for (const std::int64_t tokens : options.decode) tests.push_back({Kind::decode, tokens, {}});
    std::int64_t rows = 0;
    for (const Test& test : tests) rows = std::max(rows, test.tokens);
    auto conversation = Conversation::make(runner, rows);
    if (!conversation) return conversation.failure();
    std::vector<float> logits(static_cast<std::size_t>(runner.geometry().vocabulary));
    const LockedPages locked(runner.device(), logits.data(), logits.size() * sizeof(float));
    for (const Test& test : tests) run_once(runner, **conversation, test, logits);
    for (std::int64_t run = 0; run < options.repeat; ++run) {
        for (Test& test : tests) {
            test.milliseconds.push_back(run_once(runner, **conversation, test, logits));
        }
    }
    return tests;
}

Status<> bench(const BenchOptions& options) {
    auto device = open_device(options.device, {static_cast<int>(options.threads), options.kernels});
    if (!device) return device.failure();
    std::int64_t rows = 1;
    for (const std::int64_t tokens : options.prefill) rows = std::max(rows, tokens);
    for (const std::int64_t tokens : options.decode) rows = std::max(rows, tokens);
    RunnerOptions runner_options;
    runner_options.chunk_tokens = options.chunk;
    runner_options.model_path = options.model;
    runner_options.kv_type = options.kv;
    runner_options.max_context = rows;
    auto runner = load_runner(**device, runner_options, [](std::uint64_t, std::uint64_t) {});
    if (!runner) return runner.failure();
    const auto tests = measure(**runner, options);
    if (!tests) return tests.failure();
    const DeviceFacts facts = (*device)->facts();
    print_table(options, **runner, facts, *tests);
    if (options.json.empty()) return Done{};
    std::ofstream file(options.json);
    file << json_text(options, facts, *tests);
    file.close();
    if (!file) return refuse("--json: cannot write '" + options.json + "'");
    return Done{};
}

int run(const std::vector<std::string_view>& arguments) {
    if (arguments.size() == 1 && (arguments[0] == "--help" || arguments[0] == "-h")) {
        std::cout << kUsage;
        return 0;
    }
    const auto options = parse_options(arguments);
    if (!options) {
        std::cerr << "strata-bench: " << options.error().text << "\n\n" << kUsage;
        return 2;
    }
    const auto done = bench(*options);
    if (done) return 0;
    std::cerr << "strata-bench: " << done.error().text << '\n';
    return 1;
}

}  // namespace
}  // namespace strata::bench

int main(int argc, char** argv) {
    return strata::bench::run(std::vector<std::string_view>(argv + 1, argv + argc));
}
