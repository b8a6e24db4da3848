// The engine's options: one table feeds parsing, help and refusals.
#include "engine/options.hpp"

#include <map>
#include <sstream>

#include <catch2/catch.hpp>

namespace strata {
namespace {

using Variables = std::map<std::string, std::string>;

Result<EngineOptions> parse(std::vector<std::string_view> arguments, Variables variables = {}) {
    return parse_options(arguments, [variables](const std::string& name) {
        const auto found = variables.find(name);
        return found == variables.end() ? std::nullopt : std::optional(found->second);
    });
}

std::string refusal(std::vector<std::string_view> arguments, Variables variables = {}) {
    const auto options = parse(std::move(arguments), std::move(variables));
    return options ? "" : options.error().text;
}

}  // namespace

TEST_CASE("without more than a model the options are the documented defaults") {
    const auto options = parse({"--model", "m.gguf"}).value();
    CHECK(options.model_path == "m.gguf");
    CHECK(options.max_context == 0);
    CHECK(options.threads == 0);
    CHECK(options.kv == KvType::f16);
    CHECK(options.kernels == KernelChoice::automatic);
    CHECK(options.prompt_cache == 6);
    CHECK(options.prompt_cache_every == 16384);
    CHECK(options.prompt_cache_root == 2048);
    CHECK(options.turn_token == -1);
}

TEST_CASE("the device is one by its name or the first one that there is") {
    const auto device = [](std::string_view word) {
        return parse({"--model", "m", "--device", word})->device;
    };
    CHECK(parse({"--model", "m"})->device.kind == DeviceKind::automatic);
    CHECK(device("auto").kind == DeviceKind::automatic);
    CHECK(device("cpu").kind == DeviceKind::cpu);
    CHECK(device("cuda").kind == DeviceKind::cuda);
    CHECK(device("cuda").number == 0);
    CHECK(device("cuda:0").number == 0);
    CHECK(device("cuda:63").number == 63);
}

TEST_CASE("a value follows its option behind a space or an equals sign and the last one counts") {
    const auto options = parse({"--model=a", "--threads", "3", "--kv=f32", "--kernels", "avx2",
                                "--turn-token=0", "--model", "b=c", "--prompt-cache", "0"})
                             .value();
    CHECK(options.model_path == "b=c");
    CHECK(options.threads == 3);
    CHECK(options.kv == KvType::f32);
    CHECK(parse({"--model", "a", "--kv", "int8"})->kv == KvType::int8);
    CHECK(options.kernels == KernelChoice::avx2);
    CHECK(options.turn_token == 0);
    CHECK(options.prompt_cache == 0);
}

TEST_CASE("a flag wins over the environment and the environment over the default") {
    const Variables variables{{"STRATA_MODEL", "env.gguf"}, {"STRATA_MAX_CONTEXT", "700"}};
    CHECK(parse({}, variables)->model_path == "env.gguf");
    CHECK(parse({}, variables)->max_context == 700);
    CHECK(parse({"--max-context", "800"}, variables)->max_context == 800);
}

TEST_CASE("a variable that a flag overrides is not looked at and another bad one is named") {
    const Variables variables{{"STRATA_THREADS", "many"}};
    CHECK(parse({"--model", "m", "--threads", "2"}, variables)->threads == 2);
    CHECK(refusal({"--model", "m"}, variables) == "STRATA_THREADS is \"many\", allowed: 0 to 512");
}

TEST_CASE("a refusal names the option and its value and what is allowed") {
    CHECK(refusal({"--model", "m", "--threads", "-1"}) == "--threads is \"-1\", allowed: 0 to 512");
    CHECK(refusal({"--model", "m", "--threads", "2x"}) == "--threads is \"2x\", allowed: 0 to 512");
    CHECK(refusal({"--model", "m", "--threads="}) == "--threads is \"\", allowed: 0 to 512");
    CHECK(refusal({"--model", "m", "--max-context", "99999999999999999999"}) ==
          "--max-context is \"99999999999999999999\", allowed: 0 to 16777216");
    const std::string devices = "allowed: auto, cpu, cuda, cuda:N (N is 63 at most)";
    for (const std::string bad :
         {"gpu", "cuda:", "cuda:-1", "cuda:64", "cuda:1x", "cuda1", "CPU"}) {
        CHECK(refusal({"--model", "m", "--device", bad}) ==
              "--device is \"" + bad + "\", " + devices);
    }
    CHECK(refusal({"--model", "m", "--kernels", "neon"}) ==
          "--kernels is \"neon\", allowed: auto, scalar, avx2, avx512");
    CHECK(refusal({"--model", "m", "--help=yes"}) == "--help is \"yes\", allowed: no value");
    CHECK(refusal({"--model", "m", "--threads"}) == "--threads needs a value, allowed: 0 to 512");
    CHECK(refusal({}) == "--model is not set, allowed: a path to a GGUF file");
    CHECK(refusal({"--model", ""}) == "--model is \"\", allowed: a path");
}

TEST_CASE("an unknown option is answered with the closest one") {
    CHECK_THAT(refusal({"--modle", "m"}), Catch::Contains("--modle") && Catch::Contains("--model"));
    CHECK_THAT(refusal({"--prompt-cache-evry", "4"}), Catch::Contains("--prompt-cache-every"));
    CHECK_THAT(refusal({"m.gguf"}), Catch::Contains("unknown option m.gguf"));
}

TEST_CASE("help shows every option with its default and its variable in 80 columns") {
    const std::string help = help_text();
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        CHECK(line.size() <= 80);
    }
    // Words may be wrapped: compare without line ends.
    std::string flat;
    for (const char c : help) {
        if (c == '\n') flat += ' ';
        if (c != '\n' && !(c == ' ' && !flat.empty() && flat.back() == ' ')) flat += c;
    }
    for (const OptionRow& row : option_table()) {
        INFO(row.name);
        CHECK(help.find("  " + std::string(row.name)) != std::string::npos);
        if (row.argument.empty()) continue;
        CHECK(flat.find("(" + row.environment_name() + ")") != std::string::npos);
    }
    CHECK_THAT(flat, Catch::Contains("default 16384 (STRATA_PROMPT_CACHE_EVERY)"));
    CHECK_THAT(flat, Catch::Contains("default f16 (STRATA_KV)"));
}

TEST_CASE("every number of the table is refused below and above its range") {
    for (const OptionRow& row : option_table()) {
        const std::size_t to = row.allowed.find(" to ");
        if (to == std::string::npos) continue;
        const std::int64_t least = std::stoll(row.allowed.substr(0, to));
        const std::int64_t most = std::stoll(row.allowed.substr(to + 4));
        EngineOptions options;
        INFO(row.name);
        CHECK(row.set(options, std::to_string(least)));
        CHECK(row.set(options, std::to_string(most)));
        CHECK_FALSE(row.set(options, std::to_string(least - 1)));
        CHECK_FALSE(row.set(options, std::to_string(most + 1)));
    }
}

TEST_CASE("exact results are asked for by a switch") {
    CHECK_FALSE(parse({"--model", "m"})->exact);
    CHECK(parse({"--model", "m", "--exact"})->exact);
    CHECK(refusal({"--model", "m", "--exact=1"}) == "--exact is \"1\", allowed: no value");
}

TEST_CASE("control vectors add up and a number behind the last colon is their scale") {
    const auto options =
        parse({"--model", "m", "--control-vector", "calm=a.gguf",
               "--control-vector=Up-2.x_=b:c.gguf:-0.5", "--control-vector", "far=d:e"})
            .value();
    REQUIRE(options.control_vectors.size() == 3);
    CHECK(options.control_vectors[0].name == "calm");
    CHECK(options.control_vectors[0].path == "a.gguf");
    CHECK(options.control_vectors[0].scale == 1.0F);
    CHECK(options.control_vectors[1].name == "Up-2.x_");
    CHECK(options.control_vectors[1].path == "b:c.gguf");
    CHECK(options.control_vectors[1].scale == -0.5F);
    CHECK(options.control_vectors[2].path == "d:e");
}

TEST_CASE("a control vector without a good name or file or scale is refused as an option") {
    for (const std::string value :
         {"a.gguf", "=a.gguf", "off=a.gguf", "0=a.gguf", "a b=a.gguf", "calm=", "calm=:2",
          "calm=a.gguf:1001", "calm=a.gguf:nan", "calm=a.gguf:inf",
          "a23456789012345678901234567890123=a.gguf"}) {
        INFO(value);
        CHECK_THAT(refusal({"--model", "m", "--control-vector", value}),
                   Catch::Contains("--control-vector is \"" + value) && Catch::Contains("allowed"));
    }
    CHECK_THAT(
        refusal({"--model", "m", "--control-vector", "calm=a", "--control-vector", "calm=b"}),
        Catch::Contains("calm=b") && Catch::Contains("each once"));
}

}  // namespace strata
