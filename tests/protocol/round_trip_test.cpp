// What is written is what is read, for every command and event, and every enum value has its own
// word.
#include <set>
#include <string>
#include <variant>

#include <catch2/catch.hpp>

#include "tests/protocol/random_lines.hpp"

namespace strata::protocol {
namespace {

constexpr int kRounds = 2000;

bool is_one_line(const std::string& line) {
    for (const char c : line) {
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return false;
    }
    return !line.empty();
}

template <class E, class Of>
void every_word_reads_back(int values, Of of) {
    std::set<std::string> words;
    for (int i = 0; i < values; ++i) {
        const auto value = static_cast<E>(i);
        const std::string spelled(word(value));
        INFO("value " << i << " word " << spelled);
        CHECK_FALSE(spelled.empty());
        CHECK(of(spelled) == value);
        words.insert(spelled);
    }
    CHECK(words.size() == static_cast<std::size_t>(values));
    CHECK(word(static_cast<E>(values)).empty());
    CHECK_FALSE(of("").has_value());
    CHECK_FALSE(of("Nobody").has_value());
}

}  // namespace

TEST_CASE("every random command reads back as it was written") {
    RandomLines random(0x5EED01);
    for (int round = 0; round < kRounds; ++round) {
        for (std::size_t kind = 0; kind < std::variant_size_v<Command>; ++kind) {
            const Command written = random.command(kind);
            REQUIRE(written.index() == kind);
            const std::string line = format(written);
            INFO(line);
            REQUIRE(is_one_line(line));
            const Parsed<Command> read = parse_command(line);
            if (!read) FAIL(read.error().text);
            REQUIRE(*read == written);
        }
    }
}

TEST_CASE("every random event reads back as it was written") {
    RandomLines random(0x5EED02);
    for (int round = 0; round < kRounds; ++round) {
        for (std::size_t kind = 0; kind < std::variant_size_v<Event>; ++kind) {
            const Event written = random.event(kind);
            REQUIRE(written.index() == kind);
            const std::string line = format(written);
            INFO(line);
            REQUIRE(is_one_line(line));
            const Parsed<Event> read = parse_event(line);
            if (!read) FAIL(read.error().text);
            REQUIRE(*read == written);
        }
    }
}

TEST_CASE("every enum value of the protocol has one word of its own") {
    every_word_reads_back<ErrCode>(10, err_code_of);
    every_word_reads_back<PromptSource>(13, prompt_source_of);
    every_word_reads_back<Finish>(4, finish_of);
    every_word_reads_back<MissReason>(11, miss_reason_of);
    every_word_reads_back<ParkSkip>(8, park_skip_of);
    every_word_reads_back<ConvKind>(9, conv_kind_of);
    every_word_reads_back<ConvReason>(10, conv_reason_of);
    every_word_reads_back<EntryPlace>(3, entry_place_of);
    every_word_reads_back<PressureWhere>(4, pressure_where_of);
    every_word_reads_back<SessionFault>(7, session_fault_of);
    every_word_reads_back<CacheAction>(5, cache_action_of);
}

}  // namespace strata::protocol
