// What strata-bench measures, done by llama.cpp's CPU backend: prefill of N tokens into an empty
// context, and decode of N tokens from an empty context, one JSON object on standard output.
// It drives the addon of node-llama-cpp's prebuilt package directly, so that only the hop to its worker
// thread (some 20 us per call) comes on top of llama_decode.
//
//   node llama_probe.mjs --package DIR --model FILE --threads N --prefill N --decode N --repeat N
import {createRequire} from "node:module";
import path from "node:path";
import {parseArgs} from "node:util";

const options = {};
for (const name of ["package", "model", "threads", "prefill", "decode", "repeat"]) {
    options[name] = {type: "string"};
}
const {values} = parseArgs({options});
const threads = Number(values.threads);
const prefillTokens = Number(values.prefill);
const decodeTokens = Number(values.decode);
const repeat = Number(values.repeat);
const vocabularyUsed = 6000;  // ids below this are plain tokens of the demo model
const batchTokens = 512;      // llama.cpp's default micro-batch

function someIds(count) {
    return Uint32Array.from({length: count}, (_, i) => (i * 7919 + 13) % vocabularyUsed);
}

async function openContext() {
    const folder = path.join(values.package, "bins", "linux-x64");
    const addon = createRequire(import.meta.url)(path.join(folder, "llama-addon.node"));
    addon.markLoaded();
    addon.setLogger(() => {});
    addon.loadBackends(folder);
    await addon.init();
    const model = new addon.AddonModel(values.model, {addonExports: addon, gpuLayers: 0, useMmap: true});
    if (!(await model.init())) throw new Error(`cannot load ${values.model}`);
    const context = new addon.AddonContext(model, {
        contextSize: Math.max(prefillTokens, decodeTokens) + batchTokens,
        batchSize: batchTokens,
        sequences: 1,
        flashAttention: "auto",
        threads
    });
    if (!(await context.init())) throw new Error("cannot make a context");
    return {addon, context};
}

async function forward(context, first, ids) {
    context.initBatch(ids.length);
    context.addToBatch(0, first, ids, Uint32Array.from([ids.length - 1]));
    await context.decodeBatch();
}

async function prefill(context, ids) {
    for (let first = 0; first < ids.length; first += batchTokens) {
        await forward(context, first, ids.subarray(first, first + batchTokens));
    }
}

async function decode(context, ids) {
    for (let row = 0; row < ids.length; row++) await forward(context, row, ids.subarray(row, row + 1));
}

async function timed(context, work, ids) {
    context.disposeSequence(0);
    const start = performance.now();
    await work(context, ids);
    return performance.now() - start;
}

function summary(test, tokens, ms) {
    const median = ms.slice().sort((a, b) => a - b)[Math.floor(ms.length / 2)];
    return {test, tokens, ms_median: median, ms_min: Math.min(...ms), tokens_per_second: tokens * 1000 / median, ms};
}

const {addon, context} = await openContext();
const prefillMs = [];
const decodeMs = [];
for (let run = -1; run < repeat; run++) {  // run -1 warms up
    const prefillTook = await timed(context, prefill, someIds(prefillTokens));
    const decodeTook = await timed(context, decode, someIds(decodeTokens));
    if (run >= 0) {
        prefillMs.push(prefillTook);
        decodeMs.push(decodeTook);
    }
}
console.log(JSON.stringify({
    program: "llama.cpp",
    system: addon.systemInfo(),
    threads: context.getThreads(),
    tests: [summary("prefill", prefillTokens, prefillMs), summary("decode", decodeTokens, decodeMs)]
}));
process.exit(0);
