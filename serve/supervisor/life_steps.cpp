// Loading and unloading: what each step of the engine's life does, and what brings it about.
#include <algorithm>
#include <string>
#include <utility>

#include "serve/supervisor/engine_supervisor.hpp"

namespace strata::serve {

namespace {

// What was too little may be enough soon: another program ends.
constexpr std::chrono::seconds kRefusedRetry{10};

}  // namespace

void EngineSupervisor::start() {
    if (std::exchange(begun_, true)) return;
    step(LifeEvent::load);
}

void EngineSupervisor::start_lazily() {
    begun_ = true;
    log_.event("no engine is started before the first request");
}

bool EngineSupervisor::retry() {
    if (life_ != LifeState::failed) return false;
    step(LifeEvent::load);
    return true;
}

void EngineSupervisor::load(std::function<void()> when_settled) {
    when_settled_.push_back(std::move(when_settled));
    begun_ = true;
    if (life_ != LifeState::ready) on_demand_ = true;
    if (life_ == LifeState::ending) restart_at_once_ = true;
    step(LifeEvent::load);
    if (settled(life_)) enter(life_);
}

bool EngineSupervisor::unload(std::function<void()> when_settled) {
    if (!desk_.idle()) return false;
    when_settled_.push_back(std::move(when_settled));
    begun_ = true;
    if (!settled(life_) || life_ == LifeState::ready) {
        log_.event("the model is unloaded, as asked for");
    }
    step(LifeEvent::unload);
    if (settled(life_)) enter(life_);
    return true;
}

void EngineSupervisor::want_engine() {
    if (begun_ && (life_ == LifeState::unloaded || life_ == LifeState::unloading)) {
        on_demand_ = true;
        step(LifeEvent::load);
    }
    set_desk_deadline();
    note_idle();
}

void EngineSupervisor::step(LifeEvent event) {
    const LifeState before = life_;
    const LifeStep next = life_step(before, event);
    life_ = next.state;
    if (event == LifeEvent::load && next.act == LifeAct::prepare) {
        record_ = {};  // somebody asked: what failed before counts no more
        desk_.expect_engine();
    }
    if (event == LifeEvent::unload) {
        failure_.clear();
        restart_at_once_ = false;
        giving_up_ = {};
        if (before == LifeState::failed) desk_.expect_engine();
    }
    act(next.act);
    // An act may have gone on to another state, which was entered there.
    if (before != next.state && life_ == next.state) enter(life_);
}

void EngineSupervisor::act(LifeAct what) {
    switch (what) {
        case LifeAct::none:
            return;
        case LifeAct::prepare:
            restart_alarm_->clear();
            next_start_.reset();
            giving_up_ = {};
            preparation_.begin();
            return;
        case LifeAct::abandon:
            abandon();
            return;
        case LifeAct::launch:
            spawn();
            return;
        case LifeAct::admit:
            admit();
            return;
        case LifeAct::quit:
            quit();
            return;
        case LifeAct::kill:
            if (running()) kill_now();
            return;
        case LifeAct::wait:
            next_start_ = time_.now() + restart_wait_;
            restart_alarm_->set(*next_start_, [this] { step(LifeEvent::due); });
            return;
        case LifeAct::give_up:
            give_up();
            return;
    }
}

void EngineSupervisor::abandon() {
    preparation_.abandon();
    restart_alarm_->clear();
    next_start_.reset();
}

void EngineSupervisor::give_up() {
    desk_.refuse_all(giving_up_);
    // The next request may find the machine in another state.
    if (giving_up_.kind == FailureKind::load_refused) desk_.expect_engine();
}

void EngineSupervisor::admit() {
    on_demand_ = false;
    failure_.clear();
    log_.event("engine " + std::to_string(epoch_) + " is ready, context " +
               std::to_string(now_.max_context) + " tokens");
    desk_.open(epoch_);
    set_look();
}

void EngineSupervisor::enter(LifeState state) {
    set_desk_deadline();
    note_idle();
    if (!settled(state)) return;
    if (state == LifeState::stopped) tell_stopped();
    for (std::function<void()>& each : std::exchange(when_settled_, {})) {
        time_.post(std::move(each));
    }
}

void EngineSupervisor::take_preparation(const std::optional<LoadRefusal>& refusal) {
    if (!refusal) {
        step(LifeEvent::prepared);
        return;
    }
    note_failure(refusal->text);
    log_.event("no load: " + refusal->text);
    giving_up_ = {FailureKind::load_refused, refusal->code, refusal->text, kRefusedRetry};
    step(LifeEvent::refused);
}

void EngineSupervisor::note_failure(const std::string& text) {
    failure_ = text;
    last_failure_ = text;
    last_failure_at_ = time_.now();
}

void EngineSupervisor::note_idle() {
    if (life_ != LifeState::ready || !desk_.idle()) {
        if (!idle_since_) return;
        idle_since_.reset();
        idle_alarm_->clear();
        return;
    }
    if (idle_since_) return;
    idle_since_ = time_.now();
    if (config_.idle_unload == Milliseconds(0)) return;
    idle_alarm_->set(*idle_since_ + config_.idle_unload, [this] { go_idle(); });
}

void EngineSupervisor::go_idle() {
    log_.event("no request for " + std::to_string(config_.idle_unload.count() / 1000) +
               " s: the model is unloaded until the next one");
    step(LifeEvent::unload);
}

EngineState EngineSupervisor::shown_state() const {
    switch (life_) {
        case LifeState::unloaded:
            return begun_ ? EngineState::unloaded : EngineState::starting;
        case LifeState::preparing:
            return EngineState::preparing;
        case LifeState::loading:
            return EngineState::loading;
        case LifeState::ready:
            return EngineState::ready;
        case LifeState::ending:
        case LifeState::waiting:
            return EngineState::restarting;
        case LifeState::unloading:
            return EngineState::unloading;
        case LifeState::reloading:
            return EngineState::starting;
        case LifeState::failed:
            return EngineState::failed;
        case LifeState::leaving:
        case LifeState::stopped:
            return EngineState::stopped;
    }
    return EngineState::stopped;
}

}  // namespace strata::serve
