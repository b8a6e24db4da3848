"""GGUF files, as far as the parity scripts need them: metadata is read, tiny files are written.

Owns the container (version 3, little-endian). Knows nothing of what a key means. Tensors are never read.
"""
import array
import mmap
import struct

MAGIC = b"GGUF"
VERSION = 3
ALIGNMENT = 32
U32, I32, F32, STRING, ARRAY = 4, 5, 6, 8, 9
TENSOR_F32 = 0
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class BadFile(ValueError):
    """The file is not one that can be used here; the text says why."""


class Cursor:
    def __init__(self, raw):
        self.raw, self.at = raw, 0

    def take(self, count):
        if self.at + count > len(self.raw):
            raise BadFile("the metadata ends in the middle of a value")
        self.at += count
        return self.raw[self.at - count:self.at]

    def number(self, code):
        return struct.unpack("<" + code, self.take(struct.calcsize("<" + code)))[0]

    def string(self):
        return self.take(self.number("Q")).decode("utf-8", "surrogateescape")

    def value(self, kind):
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, count = self.number("I"), self.number("Q")
            if element in NUMBERS:
                size = struct.calcsize("<" + NUMBERS[element])
                return list(struct.unpack(f"<{count}{NUMBERS[element]}", self.take(size * count)))
            return [self.value(element) for _ in range(count)]
        if kind not in NUMBERS:
            raise BadFile(f"unknown value type {kind}")
        return self.number(NUMBERS[kind])


def read_metadata(path):
    """-> {key: value} of the file's head."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as raw:
        return metadata_of(path, Cursor(raw))


def metadata_of(path, cursor):
    if cursor.take(4) != MAGIC or cursor.number("I") not in (2, VERSION):
        raise BadFile(f"{path} is no GGUF file of version 2 or 3")
    cursor.number("Q")  # tensors
    metadata = {}
    for _ in range(cursor.number("Q")):
        key = cursor.string()
        metadata[key] = cursor.value(cursor.number("I"))
    return metadata


def packed_string(text):
    raw = text.encode("utf-8")
    return struct.pack("<Q", len(raw)) + raw


def packed_value(kind, value):
    return packed_string(value) if kind == STRING else struct.pack("<" + NUMBERS[kind], value)


def packed_entry(key, kind, value):
    """`kind` is a type, or (ARRAY, element type)."""
    head = packed_string(key)
    if isinstance(kind, tuple):
        head += struct.pack("<IIQ", ARRAY, kind[1], len(value))
        return head + b"".join(packed_value(kind[1], each) for each in value)
    return head + struct.pack("<I", kind) + packed_value(kind, value)


def padded(raw):
    return raw + b"\0" * (-len(raw) % ALIGNMENT)


def write(path, metadata, tensors):
    """metadata: [(key, kind, value)]; tensors: [(name, dims, array("f"))], dims innermost first."""
    head = [MAGIC, struct.pack("<IQQ", VERSION, len(tensors), len(metadata))]
    head += [packed_entry(*entry) for entry in metadata]
    offset = 0
    for name, dims, values in tensors:
        head.append(packed_string(name) + struct.pack(f"<I{len(dims)}Q", len(dims), *dims))
        head.append(struct.pack("<IQ", TENSOR_F32, offset))
        offset += len(padded(bytes(4 * len(values))))
    with open(path, "wb") as file:
        file.write(padded(b"".join(head)))
        for _, _, values in tensors:
            file.write(padded(little_endian(values)))


def little_endian(values):
    if array.array("H", [1]).tobytes()[0] == 1:
        return values.tobytes()
    swapped = array.array("f", values)
    swapped.byteswap()
    return swapped.tobytes()
