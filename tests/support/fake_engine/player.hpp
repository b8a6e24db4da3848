// Plays a script: every verb of fake_engine.cpp's head is one function of a table here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/fake_engine/engine_story.hpp"
#include "tests/support/fake_engine/script.hpp"
#include "tests/support/fake_engine/wire.hpp"

namespace strata::fake {

class Player {
  public:
    // `start_number` is 1 for the first start that this script's supervisor makes.
    Player(Wire& wire, Story& story, std::int64_t start_number)
        : wire_(wire), story_(story), start_number_(start_number) {}

    void play(const std::vector<Statement>& statements);

    // The verbs. `serve`, `await` and `get` take commands; $ID is the id of the last GEN taken.
    void serve(const Statement& statement);
    void await(const Statement& statement);
    void line(const Statement& statement);
    void raw(const Statement& statement);
    void err(const Statement& statement);
    void flood(const Statement& statement);
    void endless(const Statement& statement);
    void sleep(const Statement& statement);
    void hang(const Statement& statement);
    void spin(const Statement& statement);
    void grow(const Statement& statement);
    void die(const Statement& statement);
    void leave(const Statement& statement);
    void ignore(const Statement& statement);
    void grandchild(const Statement& statement);
    void close_stream(const Statement& statement);
    void fds(const Statement& statement);
    void status(const Statement& statement);
    void environment(const Statement& statement);
    void load(const Statement& statement);
    void ready(const Statement& statement);
    void tokens(const Statement& statement);
    void done(const Statement& statement);
    void pings(const Statement& statement);
    void parked(const Statement& statement);
    void repeat(const Statement& statement);
    void on(const Statement& statement);
    void from(const Statement& statement);

  private:
    std::string filled(std::string text) const;  // $ID and $START replaced
    std::int64_t number(const Statement& statement, std::size_t index,
                        std::int64_t otherwise) const;
    void take(const Command& command);
    std::uint64_t id_of(const Statement& statement, std::size_t index) const;

    Wire& wire_;
    Story& story_;
    std::int64_t start_number_;
    std::vector<std::vector<char>> grown_;
    std::uint64_t id_ = 0;
    std::vector<std::uint64_t> ids_;  // of every GEN taken, in order
};

}  // namespace strata::fake
