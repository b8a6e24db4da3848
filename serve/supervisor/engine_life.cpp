// The table itself: a row for each state, a column for each event.
#include "serve/supervisor/engine_life.hpp"

#include <array>

namespace strata::serve {

namespace {

using S = LifeState;
using A = LifeAct;
using Row = std::array<LifeStep, kLifeEvents>;

// What a state does with an event that is not named: it stays.
constexpr Row staying(S state) {
    Row row{};
    row.fill({state, A::none});
    return row;
}

constexpr std::size_t at(LifeEvent event) {
    return static_cast<std::size_t>(event);
}

constexpr Row unloaded() {
    Row row = staying(S::unloaded);
    row[at(LifeEvent::load)] = {S::preparing, A::prepare};
    row[at(LifeEvent::leave)] = {S::stopped, A::none};
    return row;
}

constexpr Row preparing() {
    Row row = staying(S::preparing);
    row[at(LifeEvent::unload)] = {S::unloaded, A::abandon};
    row[at(LifeEvent::leave)] = {S::stopped, A::abandon};
    row[at(LifeEvent::prepared)] = {S::loading, A::launch};
    row[at(LifeEvent::refused)] = {S::unloaded, A::give_up};
    return row;
}

// Of a process that works as it should.
constexpr Row alive(S state) {
    Row row = staying(state);
    row[at(LifeEvent::unload)] = {S::unloading, A::quit};
    row[at(LifeEvent::leave)] = {S::leaving, A::quit};
    row[at(LifeEvent::dying)] = {S::ending, A::none};
    row[at(LifeEvent::gone)] = {S::waiting, A::wait};
    row[at(LifeEvent::gone_for_good)] = {S::failed, A::give_up};
    return row;
}

constexpr Row loading() {
    Row row = alive(S::loading);
    row[at(LifeEvent::ready)] = {S::ready, A::admit};
    return row;
}

constexpr Row ending() {
    Row row = staying(S::ending);
    row[at(LifeEvent::unload)] = {S::unloading, A::none};
    row[at(LifeEvent::leave)] = {S::leaving, A::kill};
    row[at(LifeEvent::gone)] = {S::waiting, A::wait};
    row[at(LifeEvent::gone_for_good)] = {S::failed, A::give_up};
    return row;
}

constexpr Row waiting() {
    Row row = staying(S::waiting);
    row[at(LifeEvent::load)] = {S::preparing, A::prepare};
    row[at(LifeEvent::unload)] = {S::unloaded, A::abandon};
    row[at(LifeEvent::leave)] = {S::stopped, A::abandon};
    row[at(LifeEvent::due)] = {S::preparing, A::prepare};
    return row;
}

constexpr Row unloading() {
    Row row = staying(S::unloading);
    row[at(LifeEvent::load)] = {S::reloading, A::none};
    row[at(LifeEvent::leave)] = {S::leaving, A::none};
    row[at(LifeEvent::gone)] = {S::unloaded, A::none};
    row[at(LifeEvent::gone_for_good)] = {S::unloaded, A::none};
    return row;
}

constexpr Row reloading() {
    Row row = staying(S::reloading);
    row[at(LifeEvent::unload)] = {S::unloading, A::none};
    row[at(LifeEvent::leave)] = {S::leaving, A::none};
    row[at(LifeEvent::gone)] = {S::preparing, A::prepare};
    row[at(LifeEvent::gone_for_good)] = {S::preparing, A::prepare};
    return row;
}

constexpr Row failed() {
    Row row = staying(S::failed);
    row[at(LifeEvent::load)] = {S::preparing, A::prepare};
    row[at(LifeEvent::unload)] = {S::unloaded, A::none};
    row[at(LifeEvent::leave)] = {S::stopped, A::none};
    return row;
}

constexpr Row leaving() {
    Row row = staying(S::leaving);
    row[at(LifeEvent::leave)] = {S::leaving, A::kill};
    row[at(LifeEvent::gone)] = {S::stopped, A::none};
    row[at(LifeEvent::gone_for_good)] = {S::stopped, A::none};
    return row;
}

// In the order of LifeState.
constexpr std::array<Row, kLifeStates> kTable = {
    unloaded(),  preparing(), loading(), alive(S::ready),     ending(), waiting(), unloading(),
    reloading(), failed(),    leaving(), staying(S::stopped),
};

}  // namespace

LifeStep life_step(LifeState state, LifeEvent event) {
    return kTable[static_cast<std::size_t>(state)][at(event)];
}

}  // namespace strata::serve
