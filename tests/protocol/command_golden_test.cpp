// Commands as the specification spells them: the exact line for a struct and the struct for a line.
#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include "protocol/command.hpp"

namespace strata::protocol {
namespace {

struct Golden {
    std::string_view line;
    Command meaning;
};

GenCommand simple_gen() {
    GenCommand gen;
    gen.max_new = 128;
    gen.ids = {1, 2, 3};
    return gen;
}

GenCommand full_gen() {
    GenCommand gen;
    gen.max_new = 0;
    gen.id = 18446744073709551615ULL;
    gen.temperature = 0.7;
    gen.top_p = 0.95;
    gen.top_k = 40;
    gen.min_p = 0.05;
    gen.repeat_penalty = 1.1;
    gen.frequency_penalty = -0.5;
    gen.presence_penalty = 0.25;
    gen.penalty_last_n = 0;
    gen.seed = 42;
    gen.stop = {7, 151645};
    gen.ignore_eos = true;
    gen.root = 2998;
    gen.steer = "calm";
    gen.think = "high";
    gen.ckpt = false;
    gen.pin = 512;
    gen.label = "chat-1";
    gen.logprobs = 5;
    gen.grammar = "g1";
    gen.hash = true;
    gen.ids = {0, 2147483647};
    return gen;
}

constexpr std::string_view kFullGen =
    "GEN 0 id=18446744073709551615 temperature=0.7 top_p=0.95 top_k=40 min_p=0.05 "
    "repeat_penalty=1.1 "
    "frequency_penalty=-0.5 presence_penalty=0.25 penalty_last_n=0 seed=42 stop=7,151645 "
    "ignore_eos=1 "
    "root=2998 steer=calm think=high ckpt=0 pin=512 label=chat-1 logprobs=5 grammar=g1 hash=1 "
    "0,2147483647";

GenCommand gen_of(std::string_view line) {
    const Parsed<Command> read = parse_command(line);
    INFO(line);
    if (!read) FAIL(read.error().text);
    return std::get<GenCommand>(*read);
}

}  // namespace

TEST_CASE("commands are written and read as their golden lines") {
    const Golden table[] = {
        {"GEN 128 id=0 root=0 1,2,3", simple_gen()},
        {kFullGen, full_gen()},
        {"STOP", StopCommand{}},
        {"STOP id=17", StopCommand{17}},
        {"CACHE list", CacheCommand{CacheAction::list, {}}},
        {"CACHE drop entry=3", CacheCommand{CacheAction::drop, 3}},
        {"CACHE pin entry=3", CacheCommand{CacheAction::pin, 3}},
        {"CACHE unpin entry=3", CacheCommand{CacheAction::unpin, 3}},
        {"CACHE clear", CacheCommand{CacheAction::clear, {}}},
        {"TRIM", TrimCommand{}},
        {"PING 12", PingCommand{12}},
        {"SAVE path=/var/lib/my chats/a=b.session", SaveCommand{"/var/lib/my chats/a=b.session"}},
        {"RESTORE path=/tmp/back\\\\slash\\nline", RestoreCommand{"/tmp/back\\slash\nline"}},
        {"QUIT", QuitCommand{}},
    };
    for (const Golden& golden : table) {
        INFO(golden.line);
        CHECK(format(golden.meaning) == golden.line);
        const Parsed<Command> read = parse_command(golden.line);
        if (!read) FAIL(read.error().text);
        CHECK(*read == golden.meaning);
    }
}

TEST_CASE("a person types GEN without names and without the ids prefix") {
    CHECK(gen_of("GEN 128 1,2,3") == simple_gen());
    CHECK(gen_of("GEN 128 ids=1,2,3") == simple_gen());
    CHECK(gen_of("GEN 128 id=0 ids=1,2,3") == simple_gen());
    CHECK(gen_of("  GEN   128    1,2,3  \r") == simple_gen());
    const GenCommand one = gen_of("GEN 4 9");
    CHECK(one.max_new == 4);
    CHECK(one.ids == std::vector<std::int32_t>{9});
}

TEST_CASE("GEN defaults are those of the specification") {
    const GenCommand gen = gen_of("GEN 1 5");
    CHECK(gen.id == 0);
    CHECK(gen.temperature == 0);
    CHECK(gen.top_p == 1);
    CHECK(gen.top_k == 0);
    CHECK(gen.min_p == 0);
    CHECK(gen.repeat_penalty == 1);
    CHECK(gen.frequency_penalty == 0);
    CHECK(gen.presence_penalty == 0);
    CHECK(gen.penalty_last_n == 64);
    CHECK(gen.seed == 0);
    CHECK(gen.stop.empty());
    CHECK_FALSE(gen.ignore_eos);
    CHECK(gen.root == 0);
    CHECK_FALSE(gen.steer.has_value());
    CHECK(gen.ckpt);
    CHECK(gen.pin == 0);
    CHECK(gen.logprobs == 0);
    CHECK_FALSE(gen.hash);
}

TEST_CASE("GEN names come in any order and unknown ones are passed over") {
    const GenCommand gen = gen_of("GEN 8 root=4 colour=blue seed=9 id=3 top_p=1 2,1");
    CHECK(gen.root == 4);
    CHECK(gen.seed == 9);
    CHECK(gen.id == 3);
    CHECK(gen.ids == std::vector<std::int32_t>{2, 1});
}

TEST_CASE("steering off is told apart from no steering word") {
    CHECK(gen_of("GEN 8 steer=off 1").steer == std::string());
    GenCommand gen = simple_gen();
    gen.steer = "";
    CHECK(format(gen) == "GEN 128 id=0 root=0 steer=off 1,2,3");
}

TEST_CASE("the sampling ranges hold at their edges") {
    CHECK(gen_of("GEN 8 temperature=0 1").temperature == 0);
    CHECK(gen_of("GEN 8 top_p=1 1").top_p == 1);
    CHECK(gen_of("GEN 8 top_p=0.0001 1").top_p == 0.0001);
    CHECK(gen_of("GEN 8 min_p=1 1").min_p == 1);
    CHECK(gen_of("GEN 8 logprobs=100 1").logprobs == 100);
    CHECK(gen_of("GEN 2147483647 1").max_new == 2147483647);
    CHECK(gen_of("GEN 1 temperature=1e-3 1").temperature == 0.001);
}

TEST_CASE("a label of 32 characters passes whatever its bytes are") {
    std::string label;
    for (int i = 0; i < 32; ++i) label += "\xC3\xB6";
    CHECK(gen_of("GEN 8 label=" + label + " 1").label == label);
    const Parsed<Command> read = parse_command("GEN 8 id=4 label=" + label + "x 1");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().code == ErrCode::bad_field);
    CHECK(read.error().id == 4);
}

}  // namespace strata::protocol
