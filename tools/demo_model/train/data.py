"""Tokenizer training and packed training rows."""
import json
import multiprocessing as mp
import os
import random
import time

import numpy as np

import gen
from chat_format import render
from units import definition_text

ROW = 4096
ROWS_PER_SHARD = 64
ASSISTANT_WEIGHT, OTHER_WEIGHT = 20, 1  # in 1/20
VOCAB = 6144
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
MARKUP = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<tool_response>",
    "</tool_response>",
]
PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def load_lexicon(path="lexicon.json"):
    return json.load(open(path, encoding="utf-8"))


def train_tokenizer(lexicon, path, seed=7, conversations=20000):
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(PATTERN), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tok.decoder = decoders.ByteLevel()
    r = random.Random(seed)

    def texts():
        for entry in lexicon["words"]:
            yield definition_text(entry)
            yield f" {entry[0]} " * 2
        for _ in range(conversations):
            messages, options, _ = gen.conversation(r, lexicon)
            for m in messages:
                yield m["content"][:3000]
                if m.get("reasoning_content"):
                    yield m["reasoning_content"]
        for _ in range(30000):
            yield from ("assistant", "user", "system")

    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB - len(CONTROL) - len(MARKUP),
        show_progress=False,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
    )
    tok.train_from_iterator(texts(), trainer)
    tok.add_special_tokens([AddedToken(t, special=True) for t in CONTROL])
    tok.add_tokens([AddedToken(t, special=False, normalized=False) for t in MARKUP])
    tok.save(path)
    return tok


class Encoder:
    def __init__(self, path="tokenizer.json"):
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        from tokenizers import Tokenizer

        self.tok = Tokenizer.from_file(path)
        self.im_start, self.im_end = (
            self.tok.token_to_id(t) for t in ("<|im_start|>", "<|im_end|>")
        )
        self.think_end = self.tok.token_to_id("</think>")
        self.eot = self.tok.token_to_id("<|endoftext|>")
        header = self.tok.encode("assistant\n").ids
        assert len(header) == 2, header
        self.assistant = header[0]

    def answers(self, ids):
        """(first, last+1) token index of every assistant turn, the header left out, <|im_end|> included."""
        starts = np.flatnonzero((ids[:-1] == self.im_start) & (ids[1:] == self.assistant)) + 3
        ends = np.flatnonzero(ids == self.im_end)
        j = np.searchsorted(ends, starts)
        return [
            (int(s), int(ends[k]) + 1 if k < len(ends) else len(ids)) for s, k in zip(starts, j)
        ]

    def encode(self, text):
        ids = np.array(self.tok.encode(text, add_special_tokens=False).ids, dtype=np.uint16)
        weight = np.full(len(ids), OTHER_WEIGHT, dtype=np.uint8)
        for a, b in self.answers(ids):
            weight[a:b] = ASSISTANT_WEIGHT
        return ids, weight


def make_shard(encoder, lexicon, seed, rows=ROWS_PER_SHARD):
    r = random.Random(seed)
    tokens = np.full((rows, ROW), encoder.eot, dtype=np.uint16)
    weights = np.zeros((rows, ROW), dtype=np.uint8)
    docs = np.zeros((rows, ROW), dtype=np.int16)
    pool = []
    for i in range(rows):
        at, number = 0, 0
        while True:
            while len(pool) < 48:
                messages, options, _ = gen.conversation(r, lexicon)
                pool.append(encoder.encode(render(messages, **options)))
            j = next((j for j, (ids, _) in enumerate(pool) if min(len(ids), ROW) <= ROW - at), None)
            if j is None:
                break
            ids, weight = pool.pop(j)
            n = min(len(ids), ROW)
            tokens[i, at : at + n], weights[i, at : at + n], docs[i, at : at + n] = (
                ids[:n],
                weight[:n],
                number,
            )
            at, number = at + n, number + 1
            if ROW - at < 40:
                break
        docs[i, at:] = number
    return tokens, weights, docs


def _worker(index, count, folder, seed, stop, consumed, ahead):
    os.nice(10)  # compilation and training come first
    encoder, lexicon = Encoder(), load_lexicon()
    k = index
    while not stop.value:
        if k > consumed.value + ahead:
            time.sleep(0.05)
            continue
        tokens, weights, docs = make_shard(encoder, lexicon, f"{seed}-{k}")
        tmp = f"{folder}/tmp{k}.npz"
        np.savez(tmp, tokens=tokens, weights=weights, docs=docs)
        os.rename(tmp, f"{folder}/shard{k}.npz")
        k += count


class Stream:
    """Shards 0, 1, 2, ... of a seed, made by worker processes ahead of time; start it before CUDA is used."""

    def __init__(self, seed, workers, folder, ahead=60):
        os.makedirs(folder, exist_ok=True)
        self.folder, self.k = folder, 0
        self.stop, self.consumed = mp.Value("b", 0), mp.Value("q", 0)
        self.processes = [
            mp.Process(
                target=_worker,
                args=(i, workers, folder, seed, self.stop, self.consumed, ahead),
                daemon=True,
            )
            for i in range(workers)
        ]
        for p in self.processes:
            p.start()

    def next(self):
        path = f"{self.folder}/shard{self.k}.npz"
        while not os.path.exists(path):
            time.sleep(0.01)
        z = np.load(path)
        out = z["tokens"], z["weights"], z["docs"]
        os.remove(path)
        self.k += 1
        self.consumed.value = self.k
        return out

    def close(self):
        self.stop.value = 1
        for p in self.processes:
            p.join(timeout=3)
            if p.is_alive():
                p.terminate()
