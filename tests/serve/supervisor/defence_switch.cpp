// Answers the questions of serve/supervisor/defences.hpp in the test build.
#include "tests/serve/supervisor/defence_switch.hpp"

#include <array>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

#include <unistd.h>

#include "serve/supervisor/defences.hpp"
#include "tests/serve/supervisor/patience.hpp"

namespace strata::serve {

namespace {

constexpr std::array<std::pair<std::string_view, Defence>, 24> kNames{{
    {"whole_lines", Defence::whole_lines},
    {"foreign_text", Defence::foreign_text},
    {"line_limit", Defence::line_limit},
    {"joint_pipes", Defence::joint_pipes},
    {"sigpipe", Defence::sigpipe},
    {"reap_at_once", Defence::reap_at_once},
    {"watchdog", Defence::watchdog},
    {"death_is_failure", Defence::death_is_failure},
    {"restart_limits", Defence::restart_limits},
    {"cause_latch", Defence::cause_latch},
    {"ticket_match", Defence::ticket_match},
    {"closed_fds", Defence::closed_fds},
    {"death_signal", Defence::death_signal},
    {"stream_end", Defence::stream_end},
    {"escalation", Defence::escalation},
    {"own_stall", Defence::own_stall},
    {"cancel_holds", Defence::cancel_holds},
    {"steady_clock", Defence::steady_clock},
    {"device_retry", Defence::device_retry},
    {"fork_safety", Defence::fork_safety},
    {"clean_setting", Defence::clean_setting},
    {"protocol_match", Defence::protocol_match},
    {"log_never_blocks", Defence::log_never_blocks},
    {"oom_score", Defence::oom_score},
}};

std::optional<Defence> defence_taken_away() {
    const char* const wanted = std::getenv("STRATA_TEST_WITHOUT");
    if (wanted == nullptr) return std::nullopt;
    for (const auto& [name, defence] : kNames) {
        if (name == wanted) return defence;
    }
    std::abort();
}

std::int64_t& wall_clock_step_ms() {
    static std::int64_t step = 0;
    return step;
}

unsigned number_from_environment(const char* name, unsigned otherwise) {
    const char* const text = std::getenv(name);
    return text == nullptr ? otherwise : static_cast<unsigned>(std::atoi(text));
}

}  // namespace

bool defended(Defence defence) {
    static const std::optional<Defence> without = defence_taken_away();
    return defence != without;
}

unsigned pause_before_death_signal_ms() {
    static const unsigned pause = number_from_environment("STRATA_TEST_PAUSE_MS", 0);
    return pause;
}

std::chrono::steady_clock::time_point wall_clock() {
    return std::chrono::steady_clock::now() + std::chrono::milliseconds(wall_clock_step_ms());
}

void take_a_lock_of_the_parent() {
    constexpr unsigned kPatienceS = 1;  // nobody unlocks a lock that was copied by a fork
    ::alarm(kPatienceS);
    tests::lock_of_the_parent().lock();
    ::alarm(0);
}

namespace tests {

void step_wall_clock(std::chrono::milliseconds step) {
    wall_clock_step_ms() += step.count();
}

std::mutex& lock_of_the_parent() {
    static std::mutex lock;
    return lock;
}

std::chrono::seconds late() {
    constexpr std::chrono::seconds kLate{kPatience == 1 ? 20 : 40};
    constexpr std::chrono::seconds kLateWithout{kPatience == 1 ? 5 : 15};
    return defence_taken_away() ? kLateWithout : kLate;
}

int long_factor() {
    constexpr int kLong = 100;
    return number_from_environment("STRATA_TEST_LONG", 0) == 0 ? 1 : kLong;
}

}  // namespace tests

}  // namespace strata::serve
