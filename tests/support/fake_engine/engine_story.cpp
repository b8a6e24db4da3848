// The generic mode of the fake engine.
#include "tests/support/fake_engine/engine_story.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <sstream>
#include <thread>

namespace strata::fake {

namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kLoadSteps = 20;
constexpr std::int64_t kCanaryStride = 1000;

std::string one_decimal(double value) {
    char text[64];
    std::snprintf(text, sizeof text, "%.1f", value);
    return text;
}

double ms_since(Clock::time_point start) {
    return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::string id_field(std::uint64_t id) {
    return " id=" + std::to_string(id);
}

}  // namespace

std::int64_t canary(std::uint64_t id, std::int64_t k, std::int64_t vocab) {
    const auto base = static_cast<std::int64_t>(id % kCanaryStride) * kCanaryStride;
    return (base + k % kCanaryStride) % vocab;
}

void Story::print_load(std::int64_t span_ms) {
    const std::int64_t total = options_.load_mib * kMiB;
    for (std::int64_t step = 0; step <= kLoadSteps; ++step) {
        wire_.print("LOAD " + std::to_string(total * step / kLoadSteps) + " " +
                    std::to_string(total));
        if (span_ms > 0) wire_.listen(milliseconds(span_ms / kLoadSteps));
    }
}

void Story::print_info_and_ready() {
    wire_.print("INFO protocol=1 context=" + std::to_string(options_.context) +
                " vocab=" + std::to_string(options_.vocab) +
                " kv=f16 page_tokens=256 spec=off batch=1 device=fake weights_mib=" +
                std::to_string(options_.load_mib) +
                " arch=fake quant=none steer=0 prompt_cache=32 prompt_cache_every=4096"
                " prompt_cache_root=0 conversation_cache_mib=0 conversation_cache_slots=0"
                " conversation_cache_min_free_mib=0 memory_limit_mib=0 device_pool_mib=0"
                " kv_bytes_per_token=1024 state_bytes=0 model_id=fake engine=fake");
    wire_.print("READY " + std::to_string(options_.context) + " stop id ping batch=1");
}

void Story::serve(const Command& command) {
    if (command.verb == "GEN") {
        generate(command);
    } else {
        wire_.print("ERR unsupported" + id_field(command.id()) + " text=" + command.verb);
    }
}

bool Story::refused(const Command& command, std::uint64_t id) {
    const auto prompt = static_cast<std::int64_t>(command.ids.size());
    if (command.ids.empty() || command.positional.empty()) {
        wire_.print("ERR bad_field" + id_field(id) + " text=GEN without ids");
        return true;
    }
    if (prompt + command.number(0) > options_.context) {
        wire_.print("ERR too_long" + id_field(id) + " text=" + std::to_string(prompt) + " + " +
                    std::to_string(command.number(0)) + " over " +
                    std::to_string(options_.context));
        return true;
    }
    const auto foreign = std::find_if(command.ids.begin(), command.ids.end(), [this](auto token) {
        return token < 0 || token >= options_.vocab;
    });
    if (foreign == command.ids.end()) return false;
    wire_.print("ERR bad_token" + id_field(id) + " text=" + std::to_string(*foreign));
    return true;
}

void Story::generate(const Command& command) {
    Run run;
    run.id = command.id();
    if (refused(command, run.id)) return;
    run.max_new = command.number(0);
    run.prompt = static_cast<std::int64_t>(command.ids.size());
    if (const auto label = command.names.find("label"); label != command.names.end()) {
        run.label = label->second;
    }
    const auto parted =
        std::mismatch(command.ids.begin(), command.ids.end(), live_.begin(), live_.end());
    const bool continues = parted.second == live_.end() && !live_.empty();
    run.reused =
        continues ? std::min<std::int64_t>(parted.first - command.ids.begin(), run.prompt - 1) : 0;
    if (!continues) ++conversations_;

    wire_.request_begins(run.id);
    wire_.print("RESUME " + std::to_string(run.reused) + id_field(run.id) +
                " source=" + (run.reused > 0 ? "live" : "cold"));
    live_ = command.ids;
    read_prompt(run);
    if (run.finish != "cancel") write_answer(run, command.ids);
    print_done(run);
    wire_.request_ended();
}

void Story::read_prompt(Run& run) {
    const auto start = Clock::now();
    while (run.reused + run.read < run.prompt) {
        const std::int64_t rows =
            std::min(options_.prompt_chunk, run.prompt - run.reused - run.read);
        const double ms = options_.prompt_per_s > 0
                              ? 1000.0 * static_cast<double>(rows) / options_.prompt_per_s
                              : 0.0;
        wire_.listen(milliseconds(static_cast<std::int64_t>(ms)));
        if (wire_.stopped()) {
            run.finish = "cancel";
            break;
        }
        run.read += rows;
        run.prompt_ms = ms_since(start);
        const double rate = 1000.0 * static_cast<double>(run.read) / std::max(run.prompt_ms, 0.1);
        wire_.print("PP " + std::to_string(run.reused + run.read) + " " +
                    std::to_string(run.prompt) + " " + one_decimal(run.prompt_ms) + " " +
                    one_decimal(rate) + id_field(run.id));
    }
    run.prompt_ms = ms_since(start);
}

std::int64_t Story::token_at(const Run& run, const std::vector<std::int64_t>& prompt_ids) const {
    const auto k = static_cast<std::size_t>(run.generated);
    if (options_.answer == "echo") return prompt_ids[k % prompt_ids.size()];
    if (options_.answer.rfind("ids:", 0) != 0) return canary(run.id, run.generated, options_.vocab);
    std::vector<std::int64_t> ids;
    std::istringstream in(options_.answer.substr(4));
    for (std::string item; std::getline(in, item, ',');) ids.push_back(std::stoll(item));
    return ids.empty() ? 0 : ids[k % ids.size()];
}

void Story::write_answer(Run& run, const std::vector<std::int64_t>& prompt_ids) {
    const auto start = Clock::now();
    while (run.generated < run.max_new) {
        if (run.generated == options_.answer_tokens) {
            run.finish = "stop";
            break;
        }
        const double ms =
            options_.tokens_per_s > 0
                ? 1000.0 * static_cast<double>(run.generated + 1) / options_.tokens_per_s
                : 0.0;
        const double wait_ms = std::max(0.0, ms - ms_since(start));
        wire_.listen(milliseconds(static_cast<std::int64_t>(wait_ms)));
        if (wire_.stopped()) {
            run.finish = "cancel";
            break;
        }
        const std::int64_t token = token_at(run, prompt_ids);
        wire_.print("T " + std::to_string(token) + id_field(run.id));
        live_.push_back(token);
        ++run.generated;
    }
    run.decode_ms = ms_since(start);
}

void Story::print_done(const Run& run) {
    const std::string switched = run.reused > 0 ? "0" : "1";
    std::string line = "DONE " + std::to_string(run.generated) + " " + std::to_string(run.prompt) +
                       " " + one_decimal(run.prompt_ms) + " " + one_decimal(run.decode_ms) + " " +
                       run.finish + " 0 0 " + std::to_string(run.reused) + " 0 0 0 0 0 " +
                       std::to_string(run.read) + " " + switched + " 0 0 " +
                       std::to_string(live_.size() * 1024) + " 0" + id_field(run.id) +
                       " conv=" + std::to_string(conversations_);
    if (!run.label.empty()) line += " label=" + run.label;
    if (run.finish == "stop") line += " stop_id=" + std::to_string(options_.eos);
    line += run.reused > 0 ? " source=live miss=none" : " source=cold miss=new";
    wire_.print(line);
}

void Story::print_tokens(std::uint64_t id, std::int64_t count) {
    if (id != written_id_) written_of_script_ = 0;
    written_id_ = id;
    for (std::int64_t i = 0; i < count; ++i) {
        wire_.print("T " + std::to_string(canary(id, written_of_script_++, options_.vocab)) +
                    id_field(id));
    }
}

void Story::print_done(std::uint64_t id, const std::string& finish) {
    Run run;
    run.id = id;
    run.prompt = 1;
    run.read = 1;
    run.generated = id == written_id_ ? written_of_script_ : 0;
    run.finish = finish;
    print_done(run);
}

}  // namespace strata::fake
