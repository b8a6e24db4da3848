// The documents of /metrics and /cache that the server's tests must produce.
import { readFileSync } from "node:fs";
import { join } from "node:path";

const FOLDER = join(import.meta.dirname, "../../fixtures/metrics");

/** @param {"golden"|"unloaded"|"older_engine"|"cache_list"} name */
export function fixture(name) {
  return JSON.parse(readFileSync(join(FOLDER, `${name}.json`), "utf8"));
}
