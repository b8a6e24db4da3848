// The facts of the server as pairs of words. Pure.
import { UNKNOWN, counted, byteSize, known, magnitude, number } from "./format.js";

/** @typedef {import("./types").Metrics} Metrics */
/** @typedef {import("./types").ModelFacts} ModelFacts */

const MIB = 2 ** 20;

/**
 * @param {ModelFacts|null} model of /v1/models
 * @param {Metrics|null} metrics
 * @param {string} origin
 * @returns {[string, string][]}
 */
export function aboutFacts(model, metrics, origin) {
  const engine = metrics?.engine;
  const trained = model?.meta?.n_ctx_train;
  const context = `${number(engine?.context)} tokens${known(trained) ? ` (trained for ${number(trained)})` : ""}`;
  const weights = known(engine?.weights_mib) ? byteSize(engine.weights_mib * MIB) : UNKNOWN;
  return [
    ["Address", origin],
    ["API base for OpenAI clients", `${origin}/v1`],
    ["Model", model?.id ?? UNKNOWN],
    ["Architecture", engine?.arch ?? model?.architecture?.name ?? UNKNOWN],
    ["Parameters", magnitude(model?.meta?.n_params)],
    ["Weights", `${weights}, ${engine?.quant ?? UNKNOWN}`],
    ["Model file", byteSize(model?.meta?.size)],
    ["Vocabulary", counted(model?.meta?.n_vocab ?? engine?.vocab, "token")],
    ["Context", context],
    ["Keys and values", `${engine?.kv ?? UNKNOWN}, ${known(engine?.kv_bytes_per_token) ? `${number(engine.kv_bytes_per_token)} bytes a token` : UNKNOWN}`],
    ["State of one conversation", known(engine?.state_bytes) ? byteSize(engine.state_bytes) : UNKNOWN],
    ["Checkpoints kept", number(engine?.prompt_cache)],
    ["Computes on", engine?.device ?? UNKNOWN],
    ["Engine", engine?.engine ?? UNKNOWN],
  ];
}
