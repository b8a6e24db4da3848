#!/usr/bin/env bash
# Are the tests of the conversation cache's policy worth anything? Each mutation below is one small
# change of the rules that a person could make by mistake. It is made in a copy of the sources; the
# room's tests are linked against it, and one of them must fail. A mutation that nothing notices, that
# no longer applies, or that does not compile, ends this with 1.
#
#   tools/mutate_policy.sh [WORD]     only mutations whose description has WORD
set -euo pipefail
cd "$(dirname "$0")/.."

WALK_STEPS=150000
COMPILER="${CXX:-c++}"
FLAGS=(-std=c++20 -O1 -w -I. -Iinclude)

# file of engine/conversation | sed expression | what a person broke
MUTATIONS=(
    'conversation_cache|s/!books.entries\[i\].pinned \&\& //|a pinned entry may go'
    'conversation_cache|s/ \&\& books.entries\[i\].entry != guarded/ \&\& true/|the guard does not hold'
    'conversation_cache|s/while (books.ledger.bytes() > limits.budget_bytes)/while (books.ledger.bytes() > limits.budget_bytes + 1)/|one byte above the budget'
    'conversation_cache|s/>= limits.slots/> limits.slots/|one entry too many'
    'conversation_cache|s/if (image_bytes > limits_.budget_bytes)/if (false)/|too large is tried all the same'
    'conversation_cache|s/back < floor + more/back <= floor + more/|the floor is one byte higher'
    'conversation_cache|s/return ParkSkip::unknown_reading;/return std::nullopt;/|an unknown reading admits'
    'conversation_cache|s/if (why == ParkSkip::budget \&\& books_.incoming)/if (why == ParkSkip::budget)/|lost without an exchange'
    'conversation_cache|/std::rotate(donor/d|a borrowed entry stays the oldest'
    'conversation_cache|s/entries.insert(entries.end() - static_cast<std::ptrdiff_t>(newer)/entries.insert(entries.end()/|an undone take changes the order'
    'conversation_cache|/work.supersede(outline_of(\*entry.image), entry.entry, guarded);/d|an older copy stays beside the newer'
    'conversation_cache|s/if (each.entry == guarded) {/if (false) {/|the donor of a request loses its pages'
    'conversation_cache|/^    work.end_incoming();/d|what was taken is counted for ever'
    'conversation_cache|s/if (work.books.ledger.count(id) == 1) capture.only_ids/if (!names(id)) capture.only_ids/|an aborted capture leaks what an evicted entry shared'
    'conversation_cache|s/if (may_evict \&\& books.ledger.bytes() > limits.budget_bytes) drop_retained();//|retained pages outlive entries'
    'conversation_cache|s/const bool may_evict = !request.only_free_room;/const bool may_evict = true;/|a left branch evicts'
    'conversation_cache|s/(books.ledger.count(id) > 1 ? kept : gone)/(books.ledger.count(id) > 2 ? kept : gone)/|shared pages are released as retained'
    'conversation_image|s/ || deepest < old.first_turn//|copies that share only the root supersede'
    'conversation_image|s/ || old.steering != by.steering//|another steering supersedes'
    'conversation_image|s/return std::ranges::equal(old.ids.first(count), by.ids.first(count));/return true;/|a branch supersedes'
    'host_ledger|s/if (--row->count == 0) bytes_/--row->count; bytes_/|shared bytes are given back twice'
    'host_ledger|s/row->count + 1}/row->count}/|a second holder does not count'
    'prompt_plan|s/ || reused < prompt.marks.first_turn) return/) return/|the root of another conversation is taken'
    'prompt_plan|s/const Position most = std::min(candidate.common, std::ssize(prompt.ids) - 1);/const Position most = candidate.common;/|no token is left to read'
    'prompt_plan|s/a.entry->entry > b.entry->entry/a.entry->entry < b.entry->entry/|the least recently parked wins'
    'prompt_plan|s/common <= live.marks.last_question/common < live.marks.last_question/|a prompt cut short overwrites'
    'prompt_plan|s/plan.restored = resume.entry \&\& beyond_root;/plan.restored = resume.entry;/|a borrowed root is a hit'
    'prompt_plan|s/if (each.identity->steering != prompt.identity.steering) continue;//|steering does not matter'
    'tombstones|s/list_.size() == kTombstonesMax/list_.size() == 2 * kTombstonesMax/|tombstones without their bound'
    'conversation_pressure|s/\*reading.available_bytes >= limits_.floor_bytes)/*reading.available_bytes > limits_.floor_bytes)/|at the floor something is released'
    'conversation_pressure|s/limits_.floor_bytes + limits_.hysteresis_bytes/limits_.floor_bytes/|releasing stops at the floor'
    'conversation_pressure|s/kUnitsBesideSlots = 2/kUnitsBesideSlots = 3/|the bound is one higher'
    'conversation_pressure|s/said_exhausted_ == held/false/|an exhausted event is said for ever'
    'host_memory|s/if (!each.usage_bytes) return {};/if (!each.usage_bytes) continue;/|an unreadable usage is ignored'
    'host_memory|s/less(each.reclaimable_bytes, figures.held_file_bytes)/each.reclaimable_bytes/|weights count as reclaimable'
)

WORK="$(mktemp -d)"
trap 'rm -rf "$WORK"' EXIT
ROOM=engine/conversation
TESTS=tests/engine/conversation

compile() { # source object
    "$COMPILER" "${FLAGS[@]}" -c "$1" -o "$2"
}

build_once() {
    local source
    mkdir -p "$WORK/room" "$WORK/tests"
    for source in "$ROOM"/*.cpp engine/invariant.cpp; do
        echo "$source $WORK/room/$(basename "$source" .cpp).o"
    done > "$WORK/list"
    for source in "$TESTS"/{cache_invariants,cache_scenarios,parked_plan,conversation_pressure,host_memory}_test.cpp \
        "$TESTS"/{policy_stage,sim_session,cache_walk,cache_walk_check,reference_cache,cache_walk_run}.cpp \
        tests/support/catch_main.cpp; do
        echo "$source $WORK/tests/$(basename "$source" .cpp).o"
    done >> "$WORK/list"
    xargs -P "$(nproc)" -L 1 bash -c '"$0" -std=c++20 -O1 -w -I. -Iinclude -c "$1" -o "$2"' "$COMPILER" < "$WORK/list"
}

# Links the room's tests against the objects of folder $1 and runs them: 0 = all pass.
tests_pass() {
    local room=$1 t=$WORK/tests
    "$COMPILER" -o "$room/policy" "$t"/*_test.o "$t"/{catch_main,policy_stage,sim_session}.o "$room"/*.o
    "$COMPILER" -o "$room/walk" "$t"/{cache_walk_run,cache_walk,cache_walk_check,reference_cache,sim_session}.o "$room"/*.o
    timeout 60 "$room/policy" > "$room/log" 2>&1 || return 1
    timeout 120 "$room/walk" "$WALK_STEPS" > "$room/log" 2>&1 || return 1
}

mutant_is_caught() { # file, expression, number
    local room=$WORK/mutant-$3
    mkdir -p "$room"
    sed "$2" "$ROOM/$1.cpp" > "$room/$1.cpp"
    if cmp -s "$room/$1.cpp" "$ROOM/$1.cpp"; then
        echo "does not apply"
        return 1
    fi
    cp "$WORK"/room/*.o "$room/"
    compile "$room/$1.cpp" "$room/$1.o" || { echo "does not compile"; return 1; }
    if tests_pass "$room"; then
        echo "NOT CAUGHT"
        return 1
    fi
    echo "caught"
    rm -rf "$room"
}

build_once
tests_pass "$WORK/room" || { echo "the tests fail without any mutation:"; tail -20 "$WORK/room/log"; exit 1; }

failed=0 number=0
for mutation in "${MUTATIONS[@]}"; do
    IFS='|' read -r file expression words <<< "${mutation//||/@@}"
    expression=${expression//@@/||}
    [[ $words == *"${1:-}"* ]] || continue
    number=$((number + 1))
    verdict=$(mutant_is_caught "$file" "$expression" "$number") || failed=$((failed + 1))
    printf '%-14s %s: %s\n' "$verdict" "$file" "$words"
done
echo "$((number - failed)) of $number mutations caught"
exit $((failed > 0))
