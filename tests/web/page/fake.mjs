// The fake engine for tests of the page: texts become token ids of the demo model, one token for each byte, and a
// script that writes them.
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";

const MODEL = resolve(import.meta.dirname, "../../../tools/demo_model/strata-demo-q8_0.gguf");
const SCALAR_BYTES = { 0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8 };
const STRING = 8;
const ARRAY = 9;
const CONTEXT = 32768;

/** The vocabulary of a GGUF file. */
function readTokens(path) {
  const bytes = readFileSync(path);
  let at = 24; // magic, version, number of tensors and of pairs
  const size = () => Number(bytes.readBigUInt64LE((at += 8) - 8));
  const word = () => bytes.readUInt32LE((at += 4) - 4);
  const string = () => {
    const length = size();
    return bytes.toString("utf8", at, (at += length));
  };
  const skip = (type) => {
    if (type === STRING) string();
    else if (type !== ARRAY) at += SCALAR_BYTES[type];
    else for (let [inner, count] = [word(), size()]; count > 0; --count) skip(inner);
  };
  for (;;) {
    const key = string();
    const type = word();
    if (key === "tokenizer.ggml.tokens") {
      word();
      return Array.from({ length: size() }, string);
    }
    skip(type);
  }
}

/** The character by which byte-level vocabularies write a byte. */
function characterOf(byte) {
  const plain = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
  if (plain(byte)) return String.fromCharCode(byte);
  let others = 0;
  for (let b = 0; b < byte; ++b) others += plain(b) ? 0 : 1;
  return String.fromCharCode(256 + others);
}

const tokens = readTokens(MODEL);
const idOfByte = Array.from({ length: 256 }, (_, byte) => tokens.indexOf(characterOf(byte)));
if (idOfByte.includes(-1)) throw new Error("the demo vocabulary lacks a byte");

/** @param {string} text @returns {number[]} */
export function idsOf(text) {
  return [...Buffer.from(text, "utf8")].map((byte) => idOfByte[byte]);
}

/** Ids of a text of about so many characters: long words in paragraphs, one token a word. @param {number} characters */
export function longText(characters) {
  const words = tokens.flatMap((token, id) => (/^\u0120[a-z]{8,12}$/.test(token) ? [[id, token.length]] : [])).slice(0, 20);
  const ids = [];
  for (let length = 0; length < characters; ) {
    for (const [id, size] of words) {
      ids.push(id);
      length += size;
    }
    ids.push(...idsOf("\n\n"));
  }
  return ids;
}

/**
 * The lines of a script that answers one request with this text.
 * @param {string} text @param {{reused?: number, read?: number, msBetween?: number}} how
 */
export function answering(text, { reused = 8, read = 2, msBetween = 0 } = {}) {
  const ids = idsOf(text);
  const prompt = reused + read;
  const written = ids.flatMap((id) => [`line T ${id} id=$ID`, ...(msBetween > 0 ? [`sleep ${msBetween}`] : [])]);
  return [
    "await", `line RESUME ${reused} id=$ID source=${reused > 0 ? "turn" : "cold"}`, `line PP ${prompt} ${prompt} 5.0 400.0 id=$ID`,
    ...written,
    `line DONE ${ids.length} ${prompt} 5.0 ${Math.max(1, ids.length) * 2}.0 stop 0 0 ${reused} 0 0 0 0 0 ${read} 0 0 0 0 0 id=$ID source=turn miss=none`,
  ];
}

/**
 * A program that starts the fake engine with a script and the server's own options.
 * @param {string[]} script lines; none = the plausible engine with `args`
 * @param {string[]} args
 */
export function fakeEngine(script, args) {
  const folder = mkdtempSync(join(tmpdir(), "strata-web-"));
  const path = join(folder, "engine");
  const fake = join(process.env.STRATA_BIN_DIR, "../tests/strata-fake-engine");
  const own = [`--max-context ${CONTEXT}`, `--vocab ${tokens.length}`, `--starts ${folder}/starts`, ...args];
  if (script.length > 0) {
    writeFileSync(join(folder, "script"), script.join("\n"));
    own.push(`--script ${folder}/script`);
  }
  writeFileSync(path, `#!/bin/sh\nexec '${fake}' "$@" ${own.join(" ")}\n`);
  chmodSync(path, 0o755);
  return { path, remove: () => rmSync(folder, { recursive: true, force: true }) };
}
