// The generic mode of the fake engine: plausible INFO, LOAD, READY, and for every GEN a RESUME, PP,
// T..., DONE with a pace. Owns what a request answers; the wire is wire.hpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/fake_engine/wire.hpp"

namespace strata::fake {

// Set by --name value on the command line.
struct StoryOptions {
    std::int64_t context = 32768;
    std::int64_t vocab = 1000000;
    std::int64_t load_ms = 0;
    std::int64_t load_mib = 64;
    double tokens_per_s = 0;  // writing; 0 = as fast as the pipe takes it
    double prompt_per_s = 0;  // reading; 0 = at once
    std::int64_t prompt_chunk = 512;
    std::int64_t answer_tokens = -1;  // then the answer ends with finish stop; -1 = at max_new
    std::int64_t eos = 2;             // printed as stop_id
    std::string answer = "canary";    // canary, echo, or ids:1,2,3 (written in turn, then again)
};

// Token k of request `id` in the canary mode: tells the request from every other one that is less
// than a thousand away.
std::int64_t canary(std::uint64_t id, std::int64_t k, std::int64_t vocab);

class Story {
  public:
    Story(Wire& wire, const StoryOptions& options) : wire_(wire), options_(options) {}

    void print_load(std::int64_t span_ms);
    void print_info_and_ready();
    // One command of any kind, answered as a real engine would.
    void serve(const Command& command);

    // Parts of an answer, for scripts.
    void print_tokens(std::uint64_t id, std::int64_t count);
    void print_done(std::uint64_t id, const std::string& finish);

  private:
    struct Run {
        std::uint64_t id = 0;
        std::int64_t max_new = 0;
        std::int64_t prompt = 0;
        std::int64_t reused = 0;
        std::int64_t read = 0;
        std::int64_t generated = 0;
        double prompt_ms = 0;
        double decode_ms = 0;
        std::string finish = "length";
        std::string label;
    };
    void generate(const Command& command);
    bool refused(const Command& command, std::uint64_t id);
    void read_prompt(Run& run);
    void write_answer(Run& run, const std::vector<std::int64_t>& prompt_ids);
    std::int64_t token_at(const Run& run, const std::vector<std::int64_t>& prompt_ids) const;
    void print_done(const Run& run);

    Wire& wire_;
    StoryOptions options_;
    std::vector<std::int64_t> live_;  // ids of the live conversation, prompt and answer
    std::int64_t conversations_ = 0;
    std::int64_t written_of_script_ = 0;  // tokens by print_tokens of the request written_id_
    std::uint64_t written_id_ = 0;
};

}  // namespace strata::fake
