#include "tools/bench/speed/passes.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>

#include "engine/next_token.hpp"

namespace strata::bench {
namespace {

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

constexpr std::string_view kFromLogits = ":logits";

const char* kind_name(Kind kind) {
    return kind == Kind::prefill ? "prefill" : "decode";
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

// As the engine answers a request.
void run_decode(Runner& runner, NextToken& next, const SequenceMemory& memory, TokenId first_id,
                const Test& test) {
    GenerateRequest request;
    request.sampling = test.sampling.settings;
    if (test.sampling.logits) request.logprobs = 1;
    TokenIds ids{first_id};
    ids.reserve(static_cast<std::size_t>(test.tokens) + 1);
    for (Position row = 0; row < test.tokens; ++row) {
        const auto before = std::span(ids).first(ids.size() - 1);
        const auto reading = std::span(ids).last(1);
        runner.forward(memory, row, reading, next.wanted(request, before, reading));
        const auto chosen = next.choose(request, ids, static_cast<std::uint64_t>(ids.size()));
        ids.push_back(chosen.value_or(first_id));
    }
}

double run_once(Runner& runner, NextToken& next, Conversation& conversation, const Test& test,
                std::span<float> logits) {
    const TokenIds ids = some_ids(test.tokens, runner.geometry().vocabulary, 0);
    conversation.clear(runner.device());
    const auto start = std::chrono::steady_clock::now();
    if (test.kind == Kind::prefill) {
        run_prefill(runner, conversation.memory(), ids, logits);
    } else {
        run_decode(runner, next, conversation.memory(), ids[0], test);
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return took.count();
}

// Names as --sampling has them: what requests usually ask for.
std::vector<Sampling> samplings() {
    SamplingSettings warm;
    warm.temperature = 0.8;
    std::vector<Sampling> out{{"greedy"},      {"all", warm},   {"top-k", warm},
                              {"top-p", warm}, {"min-p", warm}, {"penalties", warm}};
    for (Sampling& one : out) {
        if (one.name == "top-k" || one.name == "penalties") one.settings.top_k = 40;
        if (one.name == "top-k" || one.name == "top-p") one.settings.top_p = 0.95;
        if (one.name == "min-p") one.settings.min_p = 0.05;
        if (one.name == "penalties") one.settings.repeat_penalty = 1.1;
    }
    return out;
}

// Of a decode test, as tables and results have it.
std::string sampling_name(const Sampling& of) {
    return of.name + (of.logits ? std::string(kFromLogits) : "");
}

}  // namespace

Result<Sampling> sampling_of(std::string_view name) {
    const bool logits = name.ends_with(kFromLogits);
    if (logits) name.remove_suffix(kFromLogits.size());
    std::string known;
    for (Sampling& one : samplings()) {
        if (one.name == name) {
            one.logits = logits;
            return one;
        }
        known += (known.empty() ? "" : ", ") + one.name;
    }
    return refuse("'" + std::string(name) + "' is not one of " + known);
}

Status<> measure_passes(Runner& runner, std::vector<Test>& tests, std::int64_t repeat) {
    std::int64_t rows = 0;
    for (const Test& test : tests) rows = std::max(rows, test.tokens);
    auto conversation = Conversation::make(runner, rows);
    if (!conversation) return conversation.failure();
    std::vector<float> logits(static_cast<std::size_t>(runner.geometry().vocabulary));
    const LockedPages locked(runner.device(), logits.data(), logits.size() * sizeof(float));
    NextToken next(runner);
    for (const Test& test : tests) run_once(runner, next, **conversation, test, logits);
    for (std::int64_t run = 0; run < repeat; ++run) {
        for (Test& test : tests) {
            test.milliseconds.push_back(run_once(runner, next, **conversation, test, logits));
        }
    }
    return Done{};
}

TokenIds some_ids(std::int64_t count, std::int64_t vocabulary, std::uint64_t seed) {
    TokenIds ids(static_cast<std::size_t>(count));
    std::uint64_t number = seed * 2 + 1;
    for (TokenId& id : ids) {
        number = number * 6364136223846793005U + 1442695040888963407U;
        id = static_cast<TokenId>((number >> 33) % static_cast<std::uint64_t>(vocabulary));
    }
    return ids;
}

double median(std::vector<double> values) {
    std::sort(values.begin(), values.end());
    const std::size_t half = values.size() / 2;
    return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

double least(const std::vector<double>& values) {
    return *std::min_element(values.begin(), values.end());
}

void print_passes(const std::vector<Test>& tests) {
    std::printf("%-8s %7s %12s %12s %14s  %s\n", "test", "tokens", "median ms", "least ms",
                "tokens/s", "sampling");
    for (const Test& test : tests) {
        const double middle = median(test.milliseconds);
        const bool samples = test.kind == Kind::decode;
        std::printf("%-8s %7lld %12.2f %12.2f %14.1f  %s\n", kind_name(test.kind),
                    static_cast<long long>(test.tokens), middle, least(test.milliseconds),
                    test.rate(middle), samples ? sampling_name(test.sampling).c_str() : "");
    }
}

std::string numbers_json(const std::vector<double>& values) {
    std::string out = "[";
    for (std::size_t i = 0; i < values.size(); ++i) {
        out += (i == 0 ? "" : ", ") + std::to_string(values[i]);
    }
    return out + "]";
}

std::string passes_json(const std::vector<Test>& tests) {
    std::string out = "[";
    for (std::size_t i = 0; i < tests.size(); ++i) {
        const Test& test = tests[i];
        const double middle = median(test.milliseconds);
        out += i == 0 ? "\n  " : ",\n  ";
        out +=
            "{\"test\": \"" + std::string(kind_name(test.kind)) +
            "\", \"tokens\": " + std::to_string(test.tokens) +
            (test.kind == Kind::decode ? ", \"sampling\": \"" + sampling_name(test.sampling) + "\""
                                       : "") +
            ", \"ms_median\": " + std::to_string(middle) +
            ", \"ms_min\": " + std::to_string(least(test.milliseconds)) +
            ", \"tokens_per_second\": " + std::to_string(test.rate(middle)) +
            ", \"ms\": " + numbers_json(test.milliseconds) + "}";
    }
    return out + "\n ]";
}

}  // namespace strata::bench
