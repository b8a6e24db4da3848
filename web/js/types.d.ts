// Shapes of the server's JSON and of the page's own values, for the type checker; not served.
// A key that an older server does not have is undefined; what the server does not know is null.

type Maybe<T> = T | null | undefined;

export interface Live {
  state: "idle" | "reading" | "generating" | "loading" | "unloaded" | "failed" | string;
  queued: number;
  phase: string;
  prompt_tokens: number;
  prompt_read: number;
  generated: number;
  max_tokens: number;
  elapsed_s: number;
  load_progress: Maybe<number>;
  eta_s: Maybe<number>;
  failure: string;
  tok_s?: Maybe<number>;
  context_tokens?: Maybe<number>;
  unload_in_s?: Maybe<number>; // absent: the server cannot load and unload
}

export interface EngineFacts {
  epoch: number;
  context: Maybe<number>;
  vocab: Maybe<number>;
  kv: Maybe<string>;
  device: Maybe<string>;
  weights_mib: Maybe<number>;
  arch: Maybe<string>;
  quant: Maybe<string>;
  prompt_cache: Maybe<number>;
  kv_bytes_per_token: Maybe<number>;
  state_bytes: Maybe<number>;
  model_id: Maybe<string>;
  engine: Maybe<string>;
  starts: number;
  foreign_lines: number;
  failure: string;
  failure_time?: Maybe<number>;
  unexpected_ends?: Maybe<number>;
  last_lines?: Maybe<string[]>;
}

export interface RequestRow {
  time: number;
  id: string;
  duration_s: number;
  queue_ms: number;
  ttft_ms: Maybe<number>;
  finish: string;
  failure?: string;
  prompt_tokens?: number;
  prompt_read?: number;
  reused?: number;
  output_tokens?: number;
  prompt_ms?: number;
  decode_ms?: number;
  park_ms?: Maybe<number>;
  restore_ms?: Maybe<number>;
  source?: Maybe<string>;
  miss?: Maybe<string>;
  common?: Maybe<number>;
  switched?: Maybe<boolean>;
  restored?: Maybe<boolean>;
  conv?: Maybe<number>;
  epoch?: Maybe<number>;
  ticket?: Maybe<number>;
  began?: Maybe<number>;
  admitted?: Maybe<number>;
  passes?: Maybe<number>;
  group?: Maybe<"cold" | "root" | "warm" | "restored" | string>;
  parked_now?: Maybe<boolean>;
  park_skip?: Maybe<string>;
  parked?: Maybe<number>;
  bytes?: Maybe<number>;
  retained_bytes?: Maybe<number>;
  evictions?: Maybe<number>;
  first_words?: Maybe<string>;
}

export interface PressureFacts {
  where: string;
  released_dialogs: number;
  released_mib: number;
  retained_mib: number;
  lane_checkpoints_mib: number;
  available_before_mib: number;
  available_after_mib: number;
  floor_mib: number;
  target_mib: number;
  parked: number;
  exhausted: boolean;
}

export interface CacheEvent {
  kind: string;
  time: number;
  epoch: number;
  ticket: Maybe<number>;
  conv: Maybe<number>;
  entry: Maybe<number>;
  tokens: Maybe<number>;
  bytes: Maybe<number>;
  ms: Maybe<number>;
  reason: Maybe<string>;
  label: Maybe<string>;
  pressure: Maybe<PressureFacts>;
}

// The present's keys are absent while no engine is loaded and null when the engine does not say.
export interface ConversationCache {
  enabled: boolean;
  window: number;
  rows: number;
  prompt_tokens: number;
  reused_tokens: number;
  switches: number;
  hits: number;
  as_of?: Maybe<number>;
  parked?: Maybe<number>;
  slots?: Maybe<number>;
  bytes?: Maybe<number>;
  retained_bytes?: Maybe<number>;
  budget_bytes?: Maybe<number>;
  evictions?: Maybe<number>;
  evicted_budget?: Maybe<number>;
  evicted_slots?: Maybe<number>;
  released?: Maybe<number>;
  superseded?: Maybe<number>;
  lost?: Maybe<number>;
  skipped?: number;
  live_conv?: Maybe<number>;
  checkpoints?: Maybe<number>;
  available_bytes?: Maybe<number>;
  floor_bytes?: Maybe<number>;
  floor_hysteresis_bytes?: Maybe<number>;
  events?: CacheEvent[];
}

export interface CacheEntry {
  entry: number;
  conv: Maybe<number>;
  tokens: Maybe<number>;
  bytes: Maybe<number>;
  unique_bytes: Maybe<number>;
  checkpoints: Maybe<number>;
  last_used_s: Maybe<number>;
  hits: Maybe<number>;
  pinned: boolean;
  where?: Maybe<string>;
  label?: Maybe<string>;
  first_words?: Maybe<string>;
}

export interface CacheList {
  enabled: boolean;
  entries: CacheEntry[];
}

export interface RamSplit {
  weights_bytes: Maybe<number>;
  active_kv_bytes: Maybe<number>;
  checkpoints_bytes: Maybe<number>;
  parked_bytes: Maybe<number>;
  retained_bytes: Maybe<number>;
  engine_other_bytes: Maybe<number>;
  server_bytes: Maybe<number>;
  other_bytes: Maybe<number>;
  free_bytes: Maybe<number>;
}

export interface Ram {
  total_bytes: number;
  available_bytes: number;
  engine_bytes: Maybe<number>;
  server_bytes?: Maybe<number>;
  split?: Maybe<RamSplit>;
  lines?: Maybe<{ floor_bytes: Maybe<number>; floor_hysteresis_bytes: Maybe<number>; budget_bytes: Maybe<number> }>;
}

export interface Gpu {
  name: string;
  memory_total_bytes: Maybe<number>;
  memory_used_bytes: Maybe<number>;
  load_share: Maybe<number>;
  power_watts: Maybe<number>;
  temperature_c: Maybe<number>;
}

export interface Hardware {
  cpu: Maybe<{ share: number; threads?: Maybe<number> }>;
  ram: Maybe<Ram>;
  gpu: Maybe<Gpu>;
  gpus?: Gpu[];
}

export interface SpeedHistory {
  last_second: number;
  read: number[];
  written: number[];
}

export interface Totals {
  requests: number;
  prompt_tokens: number;
  reused_tokens: number;
  output_tokens: number;
  since: number;
}

export interface Metrics {
  time: number;
  engine: EngineFacts;
  live: Live;
  requests: RequestRow[];
  totals: Totals;
  conversation_cache?: Maybe<ConversationCache>;
  hardware: Hardware;
  history: { read_tokens: number; written_tokens: number }[];
  speed?: SpeedHistory;
}

export interface ModelFacts {
  id: string;
  meta?: { n_ctx?: number; n_ctx_train?: number; n_params?: number; size?: number; n_vocab?: number };
  architecture?: { name?: string };
}

// One element of a drawing or a rendered text, before it becomes a DOM node.
export interface Shape {
  tag: string;
  attributes: Record<string, string>;
  children: (Shape | string)[];
}

export interface AnswerFacts {
  output_tokens: number;
  prompt_tokens: number;
  reused: number;
  decode_ms: Maybe<number>;
  ttft_ms: Maybe<number>;
  finish: string;
}

export interface Message {
  role: "user" | "assistant";
  content: string;
  reasoning?: string;
  facts?: AnswerFacts;
  error?: string;
  stopped?: boolean;
  unfinished?: boolean; // it is being written; kept so, its page was left meanwhile
}

export interface Conversation {
  id: string;
  title: string;
  created: number; // ms since 1970
  updated: number;
  revision: number; // counts saves; two tabs notice each other by it
  messages: Message[];
}

export interface Inline {
  kind: "text" | "code" | "strong" | "em" | "strike" | "link" | "break";
  text?: string;
  href?: string;
  children?: Inline[];
}

export interface Block {
  kind: "paragraph" | "heading" | "code" | "list" | "quote" | "table" | "rule" | "plain";
  source: string;
  text?: string; // of code, plain and, before its inline parse, of paragraph and heading
  level?: number;
  language?: string;
  ordered?: boolean;
  start?: number;
  children?: Block[]; // of quote
  items?: Block[][]; // of list
  rows?: string[][]; // of table; the first is the head
}
