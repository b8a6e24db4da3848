// A day of the conversation cache as a list of requests, and the script by which the fake engine lives it. The list is
// the truth that the monitor's figures are compared with.
import { idsOf } from "./fake.mjs";

const MIB = 2 ** 20;
export const BUDGET_MIB = 512;
export const SLOTS = 3;
const CONTEXT = 32768;
const SWITCH_MIB = 40; // of a parked conversation

/** The engine's own start: its facts, then an empty list of parked conversations. */
function start(vocab) {
  return [
    "load",
    `line INFO protocol=1 context=${CONTEXT} vocab=${vocab} kv=f16 page_tokens=256 spec=off batch=1 device=fake weights_mib=16 arch=fake ` +
      `quant=none steer=0 prompt_cache=6 prompt_cache_every=16384 prompt_cache_root=2048 conversation_cache_mib=${BUDGET_MIB} ` +
      `conversation_cache_slots=${SLOTS} conversation_cache_min_free_mib=64 memory_limit_mib=0 device_pool_mib=0 ` +
      "kv_bytes_per_token=1024 state_bytes=0 model_id=fake engine=fake",
    `line READY ${CONTEXT} stop id cache ping batch=1`, "parked",
  ];
}

/**
 * One request: who, how long, what of it was there, what else happened.
 * @typedef {{start: number, conv: number, prompt: number, reused: number, source: string, miss: string, common: number, written: number,
 *   switched: number, restored: number, parked: number, bytes: number, evictions: number, released: number, superseded: number,
 *   lost: number, events: string[]}} Step
 */

/** @param {Partial<Step> & {conv: number, prompt: number}} more @returns {Step} */
function step(more) {
  return {
    start: 1, reused: 0, source: "cold", miss: "none", common: 0, written: 3, switched: 0, restored: 0, parked: 0, bytes: 0,
    evictions: 0, released: 0, superseded: 0, lost: 0, events: [], ...more,
  };
}

const park = (entry, conv, tokens) => `CONV park entry=${entry} conv=${conv} tokens=${tokens} bytes=${SWITCH_MIB * MIB} ms=12.5 id=$ID`;

/** Five chats with hits, an eviction and one lost at an exchange; then another start with a pressure event. @type {Step[]} */
export const DAY = [
  step({ conv: 1, prompt: 1000, miss: "new", switched: 1 }),
  step({ conv: 1, prompt: 1100, reused: 1000, source: "turn", common: 1000 }),
  step({ conv: 2, prompt: 800, reused: 300, source: "root", miss: "new", common: 300, switched: 1, parked: 1, bytes: 40 * MIB, events: [park(1, 1, 1100)] }),
  step({
    conv: 1, prompt: 1200, reused: 1100, source: "parked", common: 1100, switched: 1, restored: 1, parked: 1, bytes: 48 * MIB,
    events: [park(2, 2, 800), `CONV restore entry=1 conv=1 tokens=1100 bytes=${40 * MIB} ms=8.5 id=$ID`],
  }),
  step({ conv: 3, prompt: 900, miss: "new", switched: 1, parked: 2, bytes: 80 * MIB, events: [park(3, 1, 1200)] }),
  step({ conv: 4, prompt: 700, miss: "new", switched: 1, parked: 3, bytes: 120 * MIB, events: [park(4, 3, 900)] }),
  step({
    conv: 5, prompt: 600, miss: "new", switched: 1, parked: 3, bytes: 120 * MIB, evictions: 1,
    events: [park(5, 4, 700), `CONV evict entry=2 conv=2 tokens=800 bytes=${40 * MIB} reason=slots id=$ID`],
  }),
  step({
    conv: 2, prompt: 850, miss: "evicted", common: 800, switched: 1, parked: 3, bytes: 120 * MIB, evictions: 1, lost: 1,
    events: ["CONV lost conv=5 tokens=600 bytes=0 reason=budget id=$ID"],
  }),
  step({
    conv: 3, prompt: 950, reused: 900, source: "parked", common: 900, switched: 1, restored: 1, parked: 3, bytes: 128 * MIB, evictions: 1, lost: 1,
    events: [park(6, 2, 850), `CONV restore entry=4 conv=3 tokens=900 bytes=${40 * MIB} ms=6.0 id=$ID`],
  }),
  step({ start: 2, conv: 1, prompt: 1300, miss: "new", switched: 1 }),
  step({ start: 2, conv: 2, prompt: 400, miss: "new", switched: 1, parked: 1, bytes: 40 * MIB, events: [park(1, 1, 1300)] }),
  step({ start: 2, conv: 3, prompt: 500, miss: "new", switched: 1, parked: 2, bytes: 80 * MIB, events: [park(2, 2, 400)] }),
  step({
    start: 2, conv: 2, prompt: 450, reused: 400, source: "parked", common: 400, switched: 1, restored: 1, parked: 1, bytes: 56 * MIB, released: 1,
    events: [park(3, 3, 500), `CONV restore entry=2 conv=2 tokens=400 bytes=${40 * MIB} ms=9.0 id=$ID`],
  }),
  step({
    start: 2, conv: 1, prompt: 1400, miss: "released", common: 1300, switched: 1, parked: 2, bytes: 88 * MIB, released: 1, superseded: 2,
    events: [park(4, 2, 450)],
  }),
];

/** What the engine gave back while idle, and what is said of it. */
export const PRESSURE = {
  after: 11, // the index in DAY
  words: "Released 1 conversation, 40 MiB in 21 ms, while idle: 50 → 90 MiB available, floor 64 MiB, gives back until 80 MiB; 1 still parked.",
  lines: [
    `CONV release entry=1 conv=1 tokens=1300 bytes=${40 * MIB} parked=1 held=${40 * MIB} retained=0`,
    "PRESSURE available_before_mib=50 available_after_mib=90 floor_mib=64 target_mib=80 released_dialogs=1 released_mib=40 retained_mib=0 " +
      `lane_checkpoints_mib=0 ms=21.0 parked=1 held=${40 * MIB} retained=0 where=idle exhausted=0`,
  ],
};

/** The parked conversations as the engine lists them at the end of the day. */
export const PARKED = [
  { entry: 3, conv: 3, tokens: 500, bytes: 40 * MIB, unique_bytes: 24 * MIB, checkpoints: 1, last_used: 30, hits: 0, pinned: 0 },
  { entry: 4, conv: 2, tokens: 450, bytes: 40 * MIB, unique_bytes: 32 * MIB, checkpoints: 2, last_used: 3, hits: 1, pinned: 0 },
];

/** @param {Step} each @param {number} index @returns {string[]} */
function playing(each, index) {
  const read = each.prompt - each.reused;
  const now = `retained=${each.bytes % (40 * MIB)} superseded=${each.superseded} released=${each.released} lost=${each.lost} ` +
    `evicted_budget=0 evicted_slots=${each.evictions} checkpoints=1 available_mib=90`;
  return [
    "await", ...each.events.map((event) => `line ${event}`), `line RESUME ${each.reused} id=$ID source=${each.source} conv=${each.conv}`,
    `line PP ${each.prompt} ${each.prompt} ${read / 10}.0 100.0 id=$ID`,
    ...Array(each.written).fill(`line T ${idsOf("x")[0]} id=$ID`),
    `line DONE ${each.written} ${each.prompt} ${read / 10}.0 30.0 stop 0 0 ${each.reused} 0 0 0 0 0 ${read} ${each.switched} ${each.restored} ` +
      `${each.parked} ${each.bytes} ${each.evictions} id=$ID conv=${each.conv} source=${each.source} miss=${each.miss} common=${each.common} ` +
      `park_ms=${each.events.some((event) => event.startsWith("CONV park")) ? "12.5" : "0.0"} restore_ms=${each.restored ? "8.5" : "0.0"} ${now}`,
    ...(index === PRESSURE.after ? PRESSURE.lines.map((line) => `line ${line}`) : []),
  ];
}

/** The script of the whole day. @param {number} vocab */
export function dayScript(vocab) {
  const of = (number) => DAY.flatMap((each, i) => (each.start === number ? playing(each, i) : []));
  const rows = PARKED.map((row) => `parked ${Object.entries(row).map(([name, value]) => `${name}=${value}`).join(" ")} steer=off where=ram`);
  return [
    "on 1", ...start(vocab), ...of(1), "sleep 400", "die KILL", "end",
    "from 2", ...start(vocab), ...of(2), ...rows, "sleep 600000", "end",
  ];
}
