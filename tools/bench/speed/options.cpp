#include "tools/bench/speed/options.hpp"

#include <algorithm>
#include <charconv>

namespace strata::bench {
namespace {

constexpr std::int64_t kTokensMax = 1 << 20;  // of one test: more than any trained context
constexpr std::int64_t kRepeatMax = 1000;
constexpr std::int64_t kThreadsMax = 512;
constexpr std::int64_t kChunkMax = 8192;  // as the engine's --chunk-tokens
constexpr std::int64_t kSeedMax = 1 << 30;

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

// "greedy,top-k:logits"
Result<std::vector<Sampling>> parse_samplings(std::string_view name, std::string_view text) {
    std::vector<Sampling> out;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(',', at), text.size());
        auto one = sampling_of(text.substr(at, end - at));
        if (!one) return refuse(std::string(name) + ": " + one.error().text);
        out.push_back(std::move(one).value());
        at = end + 1;
    }
    return out;
}

Status<> set_kv(std::string_view text, BenchOptions& options) {
    for (const KvType type : kKvTypes) {
        if (text != kv_type_name(type)) continue;
        options.kv = type;
        return Done{};
    }
    return refuse("--kv: '" + std::string(text) + "' is not one of f16, f32, int8");
}

Status<> set_device(std::string_view text, BenchOptions& options) {
    const auto choice = parse_device(text);
    if (!choice) {
        return refuse("--device: '" + std::string(text) + "' is not one of " +
                      std::string(kDeviceWords));
    }
    options.device = *choice;
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
    } else if (name == "--synthetic") {
        options.synthetic = text;
        options.list = text == "list";
    } else if (name == "--seed") {
        return take(parse_number(name, text, 0, kSeedMax), options.seed);
    } else if (name == "--json") {
        options.json = text;
    } else if (name == "--kernels") {
        options.kernels = text;
    } else if (name == "--kv") {
        return set_kv(text, options);
    } else if (name == "--device") {
        return set_device(text, options);
    } else if (name == "--threads") {
        return take(parse_number(name, text, 1, kThreadsMax), options.threads);
    } else if (name == "--chunk") {
        return take(parse_number(name, text, 1, kChunkMax), options.chunk);
    } else if (name == "--repeat") {
        return take(parse_number(name, text, 1, kRepeatMax), options.repeat);
    } else if (name == "--cache") {
        return take(parse_number(name, text, 0, kTokensMax), options.cache);
    } else if (name == "--prefill") {
        return take(parse_counts(name, text), options.prefill);
    } else if (name == "--decode") {
        return take(parse_counts(name, text), options.decode);
    } else if (name == "--sampling") {
        return take(parse_samplings(name, text), options.sampling);
    } else {
        return refuse("unknown option '" + std::string(name) + "'");
    }
    return Done{};
}

// Whoever asks for the cache alone gets it alone.
void settle_tests(const std::vector<std::string_view>& arguments, BenchOptions& options) {
    const auto given = [&](std::string_view name) {
        return std::find(arguments.begin(), arguments.end(), name) != arguments.end();
    };
    if (options.cache == 0 || given("--prefill") || given("--decode")) return;
    options.prefill.clear();
    options.decode.clear();
}

}  // namespace

const char* const kUsage =
    "strata-bench --model FILE | --synthetic NAME [options]\n"
    "  --model FILE                         a GGUF file\n"
    "  --synthetic NAME                     a model of that size with random weights and no\n"
    "                                       file, as qwen3-8b:q4_k; list = print all names\n"
    "  --seed N                             of the random weights (1)\n"
    "  --threads N                          compute threads (2)\n"
    "  --kv f16|f32|int8                    type of K/V rows (f16)\n"
    "  --device auto|cpu|cuda[:N]           what computes (auto)\n"
    "  --exact                              as the engine's --exact\n"
    "  --chunk N                            tokens that are read at a time (512)\n"
    "  --kernels auto|scalar|avx2|avx512    instruction set (auto)\n"
    "  --prefill N,N,...                    tokens to read; 0 = none (128,512,2048)\n"
    "  --decode N,N,...                     tokens to write; 0 = none (128)\n"
    "  --sampling NAME,NAME,...             how tokens are chosen: greedy, all (temperature 0.8),\n"
    "                                       top-k (and 40, 0.95), top-p (and 0.95), min-p (and\n"
    "                                       0.05), penalties (and 1.1, top-k 40); NAME:logits =\n"
    "                                       from all logits, as with logprobs (greedy)\n"
    "  --cache N                            two conversations of N tokens change places: park,\n"
    "                                       restore, first token; alone unless --prefill or\n"
    "                                       --decode is given, too; 0 = not (0)\n"
    "  --repeat N                           measured runs of each test (5)\n"
    "  --json FILE                          write the results there as well\n";

std::string BenchOptions::model_name() const {
    if (!synthetic.empty()) return synthetic;
    const std::size_t folder = model.find_last_of('/');
    return folder == std::string::npos ? model : model.substr(folder + 1);
}

Result<BenchOptions> parse_options(const std::vector<std::string_view>& arguments) {
    BenchOptions options;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string_view name = arguments[i];
        if (name == "--help" || name == "-h") {
            options.help = true;
            return options;
        }
        if (name == "--exact") {
            options.exact = true;
            continue;
        }
        if (i + 1 == arguments.size()) return refuse(std::string(name) + " needs a value");
        const auto set = set_option(name, arguments[++i], options);
        if (!set) return set.failure();
    }
    if (options.list) return options;
    if (options.model.empty() == options.synthetic.empty()) {
        return refuse("one of --model and --synthetic is needed");
    }
    settle_tests(arguments, options);
    if (options.prefill.empty() && options.decode.empty() && options.cache == 0) {
        return refuse("there is nothing to do");
    }
    return options;
}

}  // namespace strata::bench
