#include "tools/bench/speed/passes.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <span>

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

// As the engine answers a greedy request.
void run_decode(Runner& runner, const SequenceMemory& memory, TokenId first_id,
                std::int64_t tokens) {
    TokenId id = first_id;
    for (Position row = 0; row < tokens; ++row) {
        TokenId best = -1;
        runner.forward(memory, row, std::span(&id, 1), best);
        id = best >= 0 ? best : first_id;
    }
}

double run_once(Runner& runner, Conversation& conversation, const Test& test,
                std::span<float> logits) {
    const TokenIds ids = some_ids(test.tokens, runner.geometry().vocabulary, 0);
    conversation.clear(runner.device());
    const auto start = std::chrono::steady_clock::now();
    if (test.kind == Kind::prefill) {
        run_prefill(runner, conversation.memory(), ids, logits);
    } else {
        run_decode(runner, conversation.memory(), ids[0], test.tokens);
    }
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    return took.count();
}

}  // namespace

Status<> measure_passes(Runner& runner, std::vector<Test>& tests, std::int64_t repeat) {
    std::int64_t rows = 0;
    for (const Test& test : tests) rows = std::max(rows, test.tokens);
    auto conversation = Conversation::make(runner, rows);
    if (!conversation) return conversation.failure();
    std::vector<float> logits(static_cast<std::size_t>(runner.geometry().vocabulary));
    const LockedPages locked(runner.device(), logits.data(), logits.size() * sizeof(float));
    for (const Test& test : tests) run_once(runner, **conversation, test, logits);
    for (std::int64_t run = 0; run < repeat; ++run) {
        for (Test& test : tests) {
            test.milliseconds.push_back(run_once(runner, **conversation, test, logits));
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
    std::printf("%-8s %7s %12s %12s %14s\n", "test", "tokens", "median ms", "least ms", "tokens/s");
    for (const Test& test : tests) {
        const double middle = median(test.milliseconds);
        std::printf("%-8s %7lld %12.2f %12.2f %14.1f\n", kind_name(test.kind),
                    static_cast<long long>(test.tokens), middle, least(test.milliseconds),
                    test.rate(middle));
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
        out += "{\"test\": \"" + std::string(kind_name(test.kind)) +
               "\", \"tokens\": " + std::to_string(test.tokens) +
               ", \"ms_median\": " + std::to_string(middle) +
               ", \"ms_min\": " + std::to_string(least(test.milliseconds)) +
               ", \"tokens_per_second\": " + std::to_string(test.rate(middle)) +
               ", \"ms\": " + numbers_json(test.milliseconds) + "}";
    }
    return out + "\n ]";
}

}  // namespace strata::bench
