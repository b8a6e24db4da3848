// Lines that are refused: with which code, for which request, and naming what.
#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include "protocol/command.hpp"
#include "protocol/event.hpp"

namespace strata::protocol {
namespace {

struct Bad {
    std::string line;
    ErrCode code;
    std::uint64_t id;
    std::string_view names;  // a piece of the error's text
};

void check_command(const Bad& bad) {
    INFO(bad.line.substr(0, 200));
    const Parsed<Command> read = parse_command(bad.line);
    REQUIRE_FALSE(read.ok());
    INFO(read.error().text);
    CHECK(read.error().code == bad.code);
    CHECK(read.error().id == bad.id);
    CHECK(read.error().text.find(bad.names) != std::string::npos);
}

}  // namespace

TEST_CASE("GEN refuses a value out of its range and names it") {
    const std::string_view fields[] = {
        "temperature=-0.1",
        "temperature=nan",
        "temperature=inf",
        "temperature=warm",
        "temperature=",
        "top_p=0",
        "top_p=1.01",
        "top_p=-0.5",
        "top_p=NaN",
        "top_k=-1",
        "top_k=2147483648",
        "top_k=1.5",
        "min_p=-0.1",
        "min_p=1.1",
        "repeat_penalty=0",
        "repeat_penalty=-1",
        "seed=-1",
        "penalty_last_n=-1",
        "seed=18446744073709551616",
        "frequency_penalty=nan",
        "presence_penalty=-inf",
        "ignore_eos=2",
        "ckpt=yes",
        "hash=",
        "root=-1",
        "root=2147483648",
        "pin=x",
        "logprobs=101",
        "logprobs=-1",
        "steer=",
        "seed=0x10",
        "temperature=0,5",
    };
    for (const std::string_view field : fields) {
        const std::string_view name = field.substr(0, field.find('='));
        check_command({"GEN 8 id=77 " + std::string(field) + " 1,2", ErrCode::bad_field, 77, name});
    }
}

TEST_CASE("GEN refuses every name that comes twice") {
    for (const std::string_view name : {"temperature", "seed", "root", "unheard_of", "ids"}) {
        const std::string twice = std::string(name) + "=1 " + std::string(name) + "=1";
        check_command({"GEN 8 id=77 " + twice + " 1", ErrCode::bad_field, 77, name});
    }
    check_command({"GEN 8 id=77 id=78 1", ErrCode::bad_field, 0, "id"});
}

TEST_CASE("GEN refuses a broken shape") {
    const ErrCode line = ErrCode::bad_line;
    check_command({"GEN", line, 0, "max_new"});
    check_command({"GEN id=5", line, 5, "max_new"});
    check_command({"GEN 8", line, 0, "ids"});
    check_command({"GEN 8 id=5", line, 5, "ids"});
    check_command({"GEN 8 id=5 1,2 3,4", line, 5, "1,2"});
    check_command({"GEN 8 1,2 3,4 id=5", line, 5, "more than one"});
    check_command({"GEN 8 ids=1 id=5 2", line, 5, "more than one"});
    check_command({"GEN 8 id=5 1,2 seed=4", line, 5, "1,2"});
    check_command({"GEN -1 id=5 1,2", ErrCode::bad_field, 5, "max_new"});
    check_command({"GEN x id=5 1,2", ErrCode::bad_field, 5, "max_new"});
    check_command({"GEN 2147483648 id=5 1,2", ErrCode::bad_field, 5, "max_new"});
}

TEST_CASE("GEN refuses an entry that is no token id and says which") {
    const ErrCode token = ErrCode::bad_token;
    check_command({"GEN 8 id=5 1,-2", token, 5, "ids[1]"});
    check_command({"GEN 8 id=5 1,2,", token, 5, "ids[2]"});
    check_command({"GEN 8 id=5 ,1", token, 5, "ids[0]"});
    check_command({"GEN 8 id=5 1,,2", token, 5, "ids[1]"});
    check_command({"GEN 8 id=5 1,2147483648", token, 5, "ids[1]"});
    check_command({"GEN 8 id=5 1;2", token, 5, "ids[0]"});
    check_command({"GEN 8 id=5 ids=", token, 5, "ids[0]"});
    check_command({"GEN 8 id=5 stop=3,x 1", token, 5, "stop[1]"});
    std::string many = "GEN 8 id=5 stop=1";
    for (int i = 0; i < 1024; ++i) many += ",1";
    check_command({many + " 1", ErrCode::bad_field, 5, "stop"});
}

TEST_CASE("an id that cannot be read is 0") {
    check_command({"GEN 8 id=abc 1", ErrCode::bad_field, 0, "id"});
    check_command({"GEN 8 id=-1 1", ErrCode::bad_field, 0, "id"});
    check_command({"STOP id=18446744073709551616", ErrCode::bad_field, 0, "id"});
    check_command({"STOP id=", ErrCode::bad_field, 0, "id"});
}

TEST_CASE("the other commands refuse what they cannot use") {
    check_command({"CACHE", ErrCode::bad_line, 0, "action"});
    check_command({"CACHE burn", ErrCode::bad_field, 0, "list drop pin unpin clear"});
    check_command({"CACHE drop", ErrCode::bad_field, 0, "entry"});
    check_command({"CACHE drop entry=x", ErrCode::bad_field, 0, "entry"});
    check_command({"CACHE clear entry=3", ErrCode::bad_field, 0, "entry"});
    check_command({"PING", ErrCode::bad_line, 0, "n"});
    check_command({"PING -1", ErrCode::bad_field, 0, "n"});
    check_command({"PING 18446744073709551616", ErrCode::bad_field, 0, "n"});
    check_command({"SAVE", ErrCode::bad_field, 0, "path"});
    check_command({"RESTORE path=", ErrCode::bad_field, 0, "path"});
    check_command({"RESTORE text=/x", ErrCode::bad_field, 0, "path"});
    check_command({"HELLO id=4", ErrCode::bad_line, 4, "HELLO"});
    check_command({"gen 8 1", ErrCode::bad_line, 0, "gen"});
    check_command({"", ErrCode::bad_line, 0, ""});
}

TEST_CASE("a control character makes any line a bad one") {
    const std::string nul(1, '\0');
    check_command({"GEN 8 id=5 1" + nul + ",2", ErrCode::bad_line, 5, "control"});
    check_command({"PING 1" + nul, ErrCode::bad_line, 0, "control"});
    check_command({"PING\t1", ErrCode::bad_line, 0, ""});
    check_command({"GEN 8 id=5 1\r2", ErrCode::bad_line, 5, "control"});
    check_command({"SAVE path=/a\x1B[0m", ErrCode::bad_line, 0, "control"});
    CHECK_FALSE(parse_event("DONE" + nul + " 1").ok());
    CHECK_FALSE(parse_event("T 5 id=1" + nul).ok());
}

TEST_CASE("a line of very many fields is refused") {
    std::string line = "STOP id=5";
    for (int i = 0; i < 255; ++i) line += " n" + std::to_string(i) + "=1";
    CHECK(parse_command(line).ok());
    check_command({line + " one_more=1", ErrCode::bad_line, 5, "256"});
}

TEST_CASE("an error text shows a short and printable piece of the line") {
    const Parsed<Command> read =
        parse_command("GEN 8 id=5 seed=\xFF\xFE" + std::string(100000, 'z') + " 1");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().text.size() < 200);
    CHECK(read.error().text.find("'??zzz") != std::string::npos);
    const ErrLine answer = refusal_of(read.error());
    CHECK(answer.id == 5);
    CHECK_FALSE(answer.fatal);
    CHECK(answer.code == ErrCode::bad_field);
}

TEST_CASE("foreign text on the engine's stdout is no event") {
    for (const std::string_view line : {"loading model...",
                                        "DONEness 1 2 3",
                                        "done 1 2 3 4 stop 0 0 0 0 0 0 0 0 0",
                                        "DONE",
                                        "DONE ",
                                        "T",
                                        "T x id=1",
                                        "T -5 id=1",
                                        "T 5 id=1 lp=nan",
                                        "T 5 id=1 top=4",
                                        "T 5 id=1 top=4:x",
                                        "T 5 id=1 top=",
                                        "PP 1 2 3",
                                        "RESUME",
                                        "CONV",
                                        "CONV fly id=1",
                                        "ERR",
                                        "LOAD 5",
                                        "LOAD -1 5",
                                        "READY",
                                        "READY many",
                                        "CACHE",
                                        "CACHE list",
                                        "CACHE conv=3",
                                        "PONG",
                                        "PONG x",
                                        "SAVED 1 2",
                                        "RESTORED 1 x 3",
                                        "SERR",
                                        "INFO protocol=one",
                                        "INFO protocol=1 protocol=1",
                                        "PRESSURE ms=-1",
                                        "PRESSURE exhausted=maybe",
                                        "INFO vocab=-1",
                                        "WARN 5",
                                        "T 5 id=1 bare"}) {
        INFO(line);
        CHECK_FALSE(parse_event(line).ok());
    }
}

TEST_CASE("a refused event carries the id of its request") {
    const Parsed<Event> read = parse_event("T 5 id=31 lp=x");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().id == 31);
    CHECK(read.error().code == ErrCode::bad_field);
}

TEST_CASE("a T line may have 4096 bytes and not one more") {
    const std::string line = "T 5 id=1 pad=";
    const std::string full = line + std::string(kTokenLineBytesMax - line.size(), 'p');
    CHECK(parse_event(full.substr(1).insert(0, "T")).ok());
    CHECK(parse_event(full.substr(0, full.size() - 1)).ok());
    const Parsed<Event> longer = parse_event(full + "p");
    REQUIRE_FALSE(longer.ok());
    CHECK(longer.error().code == ErrCode::bad_line);
}

TEST_CASE("the id inside free text is not the line's id") {
    const Parsed<Event> read = parse_event("ERR bad_line id=x text=said id=5");
    REQUIRE_FALSE(read.ok());
    CHECK(read.error().id == 0);
    const Parsed<Command> unknown = parse_command("NOTE text=about id=5");
    REQUIRE_FALSE(unknown.ok());
    CHECK(unknown.error().id == 0);
}

}  // namespace strata::protocol
