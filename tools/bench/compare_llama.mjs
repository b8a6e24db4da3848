// Runs strata-bench and llama.cpp (llama_probe.mjs) in turn on the same model file and compares them.
// Every run is one process that measures each test several times and reports its median; a ratio is
// taken between two runs that follow each other, and the median of the ratios is the result.
//
//   node compare_llama.mjs --bench FILE --package DIR --model FILE --threads N --runs N --out DIR
//
// Writes to DIR: run-N-strata.txt, run-N-llama.txt (what the programs printed) and comparison.json.
// Exit status 1 when a median ratio is below kRatioLeast.
import {execFileSync} from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";
import {parseArgs} from "node:util";

const kRatioLeast = 0.8;
const kPrefillTokens = 512;
const kDecodeTokens = 128;
const kRepeat = 5;            // measurements of each test in one run
const kRunTimeoutMs = 180000; // a run takes seconds; on a busy machine llama.cpp's threads wait for each other

const options = {};
for (const name of ["bench", "package", "model", "threads", "runs", "out"]) options[name] = {type: "string"};
const {values} = parseArgs({options});
const here = import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname);

function run(program, args) {
    return execFileSync(program, args, {encoding: "utf8", timeout: kRunTimeoutMs});
}

function runStrata(number) {
    const json = path.join(values.out, "strata.json");
    const text = run(values.bench, [
        "--model", values.model, "--threads", values.threads, "--prefill", String(kPrefillTokens),
        "--decode", String(kDecodeTokens), "--repeat", String(kRepeat), "--json", json
    ]);
    const result = fs.readFileSync(json, "utf8");
    fs.rmSync(json);
    fs.writeFileSync(path.join(values.out, `run-${number}-strata.txt`), text + result);
    return JSON.parse(result);
}

function runLlama(number) {
    const text = run(process.execPath, [
        path.join(here, "llama_probe.mjs"), "--package", values.package, "--model", values.model,
        "--threads", values.threads, "--prefill", String(kPrefillTokens),
        "--decode", String(kDecodeTokens), "--repeat", String(kRepeat)
    ]);
    fs.writeFileSync(path.join(values.out, `run-${number}-llama.txt`), text);
    return JSON.parse(text);
}

function rate(result, test) {
    return result.tests.find((one) => one.test === test).tokens_per_second;
}

function median(numbers) {
    const sorted = numbers.slice().sort((a, b) => a - b);
    return sorted[Math.floor(sorted.length / 2)];
}

function row(cells) {
    return cells.map((cell) => String(cell).padStart(14)).join("");
}

fs.mkdirSync(values.out, {recursive: true});
const ratios = {prefill: [], decode: []};
const rates = {prefill: [], decode: []};
console.log(row(["run", "test", "strata tok/s", "llama.cpp", "ratio"]));
for (let number = 1; number <= Number(values.runs); number++) {
    const strata = runStrata(number);
    const llama = runLlama(number);
    for (const test of ["prefill", "decode"]) {
        const pair = [rate(strata, test), rate(llama, test)];
        rates[test].push(pair);
        ratios[test].push(pair[0] / pair[1]);
        console.log(row([number, test, pair[0].toFixed(0), pair[1].toFixed(0), (pair[0] / pair[1]).toFixed(2)]));
    }
}
const result = {
    machine: {processor: os.cpus()[0].model, cores: os.cpus().length},
    threads: Number(values.threads),
    model: path.basename(values.model),
    llama_package: JSON.parse(fs.readFileSync(path.join(values.package, "package.json"), "utf8")).version,
    tests: ["prefill", "decode"].map((test) => ({
        test,
        strata_tokens_per_second: median(rates[test].map((pair) => pair[0])),
        llama_tokens_per_second: median(rates[test].map((pair) => pair[1])),
        ratios: ratios[test],
        median_ratio: median(ratios[test])
    }))
};
fs.writeFileSync(path.join(values.out, "comparison.json"), JSON.stringify(result, null, 1) + "\n");
for (const test of result.tests) console.log(`median ratio, ${test.test}: ${test.median_ratio.toFixed(2)}`);
process.exit(result.tests.every((test) => test.median_ratio >= kRatioLeast) ? 0 : 1);
