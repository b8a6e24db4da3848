"""Text to token ids and back, for the byte-level BPE vocabularies of GGUF files ("gpt2").

Own code, checked against recorded ids (tests/parity). Prompts here are ASCII: other text is refused,
so that no Unicode table is needed. Control tokens are named, never found inside text.
"""
import re

from . import gguf

CONTROL = 3  # tokenizer.ggml.token_type
TURN_OPENS = ("<|im_start|>", "<|start_header_id|>", "<start_of_turn>", "<|turn>")

# What qwen35 and qwen2 match, restricted to ASCII.
WORD = re.compile(r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\nA-Za-z0-9]?[A-Za-z]+|[0-9]"
                  r"| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def byte_letters():
    """{byte: the letter that stands for it in token texts}, GPT-2's table."""
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in plain]
    return {byte: chr(byte) for byte in plain} | {b: chr(256 + n) for n, b in enumerate(others)}


class Vocabulary:
    def __init__(self, metadata):
        if metadata.get("tokenizer.ggml.model") != "gpt2":
            raise gguf.BadFile(f"tokenizer.ggml.model is {metadata.get('tokenizer.ggml.model')!r}; "
                               "these scripts read gpt2 (byte-level BPE)")
        if metadata.get("tokenizer.ggml.pre") not in ("qwen2", "qwen35"):
            raise gguf.BadFile(f"tokenizer.ggml.pre is {metadata.get('tokenizer.ggml.pre')!r}; "
                               "these scripts split words as qwen2 and qwen35 do")
        self.texts = metadata["tokenizer.ggml.tokens"]
        self.ids = {text: n for n, text in reversed(list(enumerate(self.texts)))}
        kinds = metadata["tokenizer.ggml.token_type"]
        self.control = {text: n for n, text in enumerate(self.texts) if kinds[n] == CONTROL}
        self.ranks = {tuple(merge.split(" ")): n
                      for n, merge in enumerate(metadata["tokenizer.ggml.merges"])}
        self.letters = byte_letters()
        self.bytes = {letter: byte for byte, letter in self.letters.items()}
        self.turn_open = next((self.ids[t] for t in TURN_OPENS if t in self.texts), None)
        self.system_word = self.ids.get("system")

    def __len__(self):
        return len(self.texts)

    def encode(self, text):
        """Ids of text that holds no control token."""
        if not text.isascii():
            raise ValueError(f"prompts are ASCII: {text!r}")
        return [n for word in WORD.findall(text) for n in self.encode_word(word)]

    def encode_word(self, word):
        parts = [self.letters[byte] for byte in word.encode()]
        while len(parts) > 1:
            pairs = [(self.ranks.get(pair), n) for n, pair in enumerate(zip(parts, parts[1:]))]
            known = [pair for pair in pairs if pair[0] is not None]
            if not known:
                break
            at = min(known)[1]
            parts[at:at + 2] = [parts[at] + parts[at + 1]]
        return [self.ids[part] for part in parts]

    def encode_marked(self, text):
        """Ids of text in which control tokens are written by their texts."""
        named = "|".join(re.escape(t) for t in sorted(self.texts[-64:], key=len, reverse=True)
                         if t.startswith("<") and t.endswith(">"))
        out = []
        for piece in re.split(f"({named})", text) if named else [text]:
            out += [self.ids[piece]] if piece in self.ids and piece.startswith("<") and len(piece) > 1 \
                else self.encode(piece)
        return out

    def decode(self, ids):
        raw = bytearray()
        for each in ids:
            text = self.texts[each]
            raw += bytes(self.bytes[c] for c in text) if all(c in self.bytes for c in text) \
                else text.encode()
        return raw.decode("utf-8", "replace")


def load(path):
    return Vocabulary(gguf.read_metadata(path))
