#!/usr/bin/env bash
# Are the tests of the Monitor's figures worth anything? Each mutation below is one small change of
# tickets, window or passes that a person could make by mistake. It is made in a copy of one source;
# the tests are linked against it, and one of them must fail. A mutation that nothing notices, that
# no longer applies, or that does not compile, ends this with 1.
#
#   tools/mutate_monitor.sh [BUILD]     a build folder with monitor_test and monitor_ledger_test
set -euo pipefail
cd "$(dirname "$0")/.."

BUILD="${1:-build}"
COMPILER="${CXX:-c++}"
FLAGS=(-std=c++20 -O1 -w -I. -Iinclude -DBOOST_CONTAINER_NO_LIB -DBOOST_JSON_NO_LIB)
LIMIT_S=60 # a mutant may wait for what never comes

# file under serve/ | sed expression | what a person broke
MUTATIONS=(
    'supervisor/request_desk|s/if (!defended(Defence::ticket_match)) return true;/return true;/|any DONE ends the running request'
    'supervisor/request_desk|/observer_->on_ticket_done/d|the present hears no DONE'
    'supervisor/request_desk|0,/observer_->on_ticket_lost/{/observer_->on_ticket_lost/d}|a row waits for ever for a dead engine'
    'supervisor/engine_lines|s/if (!taken \&\& std::is_same_v<Line, protocol::DoneLine>) ++foreign_dones_;//|foreign DONEs are not counted'
    'monitor/monitor|s/open_.extract({ticket.epoch, ticket.id})/open_.extract(open_.begin() == open_.end() ? TicketKey{} : open_.begin()->first)/|a waiting row takes the next DONE'
    'monitor/monitor|s/row.done = row.done ? merge_passes(\*row.done, line) : line;/row.done = line;/|the last pass is the whole request'
    'monitor/monitor|s/if (open) {/if (false) {/|a client that left has no figures'
    'monitor/cache_window|s/window.rows == rows_max/window.rows > rows_max/|one row too many'
    'monitor/cache_window|s/if (!row.done || !row.done->cache_fields) continue;/if (!row.done) { ++window.rows; continue; } if (!row.done->cache_fields) { ++window.rows; continue; }/|rows without fields take places'
    'monitor/cache_window|s/if (!row.done->cache_fields->switched) continue;//|every request is a switch'
    'monitor/cache_window|s/if (row.done->cache_fields->restored) ++window.hits;/++window.hits;/|every switch is a hit'
    'monitor/merge_passes|s/row.prompt_tokens = first.prompt_tokens;//|the prompt is that of the last pass'
    'monitor/merge_passes|s/row.reused = first.reused;//|the last pass says what was reused'
    'monitor/merge_passes|s/row.generated += first.generated;//|the thinking is not counted'
    'monitor/merge_passes|s/row.cache_fields->switched = first.cache_fields->switched;//|a second pass never switches'
    'monitor/merge_passes|s/protocol::DoneLine row = last;/protocol::DoneLine row = last; row.cache_fields = first.cache_fields;/|the cache is as the first pass left it'
    'monitor/cache_watch|s/if (epoch > epoch_) present_ = {};//|the figures of a dead engine stay'
    'monitor/cache_watch|s/return epoch == epoch_ ? present_ : CachePresent{};/return present_;/|any epoch has the present'
    'monitor/cache_present|s/if (held.parked) present.parked = held.parked;//|what was released is still parked'
    'monitor/cache_present|s/if (held.held) present.bytes = held.held;//|what was dropped is still held'
    'monitor/cache_present|s/if (held.retained) present.retained = held.retained;//|what is kept is what DONE said'
    'monitor/cache_present|0,/take(present, line.now);/s///|a step says nothing of what is held'
    'monitor/cache_present|s/after(before, line.now, time_s)/before/|PRESSURE says nothing'
    'monitor/cache_present|/const protocol::ResumeLine/,$s/take(present, line.now);//|what was brought back is parked until DONE'
    'monitor/cache_present|s/++present.skipped;//|nobody counts what was not parked'
    'monitor/cache_present|s/present.live_conv.reset();/(void)0;/|a parked chat is live'
    'monitor/request_history|s/if (rows_.size() <= kRowsMax) return;/return;/|the ring has no end'
    'monitor/request_history|s/return {row.done->reused + row.done->prompt_read, row.done->reused};/return {row.done->prompt_tokens, row.done->reused};/|a prompt counts whole'
    'monitor/request_counts|s/if (!row.refusal.empty()) {/if (false) {/|a refused request is a fast one'
    'supervisor/request_desk|s/    ended_ = active_->figures;//|the second pass counts from 0'
    'supervisor/engine_lines|/observer_->on_parked_list/d|the list is for its asker alone'
    'api/chat_run|s/    record_.open.reset();//|an answered request waits for its DONE again'
)

WORK="$(mktemp -d)"
trap 'rm -rf "$WORK"' EXIT

archives() {
    local room
    for room in serve/api/libstrata_api serve/text/libstrata_text serve/supervisor/libstrata_supervisor \
        serve/monitor/libstrata_monitor protocol/libstrata_protocol; do
        echo "$BUILD/$room.a"
    done
}

mapfile -t LEDGER < <(find "$BUILD/tests/serve/monitor/CMakeFiles/monitor_ledger_test.dir" -name '*.o')
mapfile -t FIGURES < <(find "$BUILD/tests/serve/monitor/CMakeFiles/monitor_test.dir" \
    \( -name 'cache_*.o' -o -name 'golden_*.o' -o -name 'monitor_*.o' \))
mapfile -t MAIN < <(find "$BUILD" -name 'libstrata_catch_main.a')
mapfile -t ROOMS < <(archives)
REST=("${MAIN[@]}" -Wl,--start-group "${ROOMS[@]}" -Wl,--end-group -lboost_json -lpthread -ldl)
if ((${#LEDGER[@]} == 0 || ${#FIGURES[@]} == 0)); then
    echo "mutate_monitor.sh: $BUILD has no tests of the Monitor; build monitor_test and monitor_ledger_test" >&2
    exit 2
fi

# Links the tests with the objects of folder $1 before the rooms and runs them: 0 = all pass.
tests_pass() {
    local folder=$1 object
    local -a changed=()
    for object in "$folder"/*.o; do
        [[ -e $object ]] && changed+=("$object")
    done
    "$COMPILER" -o "$folder/figures" "${FIGURES[@]}" "${changed[@]}" "${REST[@]}" || return 2
    "$COMPILER" -o "$folder/ledger" "${LEDGER[@]}" "${changed[@]}" "${REST[@]}" || return 2
    timeout "$LIMIT_S" "$folder/figures" >"$folder/log" 2>&1 || return 1
    timeout "$LIMIT_S" "$folder/ledger" >>"$folder/log" 2>&1 || return 1
}

mutant_is_caught() { # file, expression, number
    local folder=$WORK/mutant-$3 status=0
    local copy=$folder/${1##*/}
    mkdir -p "$folder"
    sed "$2" "serve/$1.cpp" >"$copy.cpp"
    if cmp -s "$copy.cpp" "serve/$1.cpp"; then
        echo "does not apply"
        return 1
    fi
    "$COMPILER" "${FLAGS[@]}" -c "$copy.cpp" -o "$copy.o" || { echo "does not compile"; return 1; }
    tests_pass "$folder" || status=$?
    case $status in
        0) echo "NOT CAUGHT"; return 1 ;;
        2) echo "does not link"; return 1 ;;
    esac
    echo "caught"
    rm -rf "$folder"
}

mkdir "$WORK/none"
tests_pass "$WORK/none" || { echo "the tests fail without any mutation:"; tail -20 "$WORK/none/log"; exit 1; }

failed=0 number=0
for mutation in "${MUTATIONS[@]}"; do
    IFS='|' read -r file expression words <<<"${mutation//||/@@}"
    expression=${expression//@@/||}
    number=$((number + 1))
    verdict=$(mutant_is_caught "$file" "$expression" "$number") || failed=$((failed + 1))
    echo "$number. $file: $words: $verdict"
done
echo "$((number - failed)) of $number mutations are caught"
((failed == 0))
