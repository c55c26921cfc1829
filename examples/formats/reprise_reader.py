#!/usr/bin/env python3
"""Reads a SQLite store or an export of Reprise without Reprise. Python 3.9 or newer, standard library only.

Written from docs/formats alone. It verifies the digest chain of every timeline, then prints entries and checkpoints:

    python3 reprise_reader.py STORE.db                    every timeline: sequence, digest, checkpoints
    python3 reprise_reader.py STORE.db TIMELINE           its entries and its newest checkpoint, as JSON lines
    python3 reprise_reader.py EXPORT.rp [TIMELINE]        the same for an export file

Exit code 1: damage or an unknown format; the message names the place. Encrypted records are reported, not opened.
"""

import argparse
import ctypes
import ctypes.util
import hashlib
import json
import sqlite3
import struct
import sys
import zlib
from datetime import datetime, timedelta, timezone
from pathlib import Path


class Malformed(Exception):
    """Bytes that do not follow the documents."""


# --- docs/formats/README.md: integers, texts, sized bytes ---


class Bytes:
    def __init__(self, data, at=0, end=None):
        self.data = bytes(data)
        self.at = at
        self.end = len(self.data) if end is None else end

    @property
    def rest(self):
        return self.end - self.at

    def raw(self, count):
        if count > self.rest:
            raise Malformed("the data ends too early")
        self.at += count
        return self.data[self.at - count : self.at]

    def byte(self):
        return self.raw(1)[0]

    def integer(self):
        value = 0
        for shift in range(0, 56, 7):
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >= 2**53:
                    break
                return value
        raise Malformed("an integer is longer than 53 bits")

    def sized(self):
        return self.raw(self.integer())

    def text(self):
        try:
            return self.sized().decode("utf-8")
        except UnicodeDecodeError:
            raise Malformed("text is not valid UTF-8") from None

    def key(self):
        """A key of a keyed state: UTF-16 code units, one byte each or two."""
        units = self.integer()
        if units & 1:
            return self.raw(units // 2 * 2).decode("utf-16-le", "surrogatepass")
        return self.raw(units // 2).decode("ascii")


def sha256(*parts):
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.digest()


# --- docs/formats/values.md ---

VIEWS = "DataView Uint8Array Uint8ClampedArray Int8Array Uint16Array Int16Array Uint32Array Int32Array Float32Array Float64Array BigInt64Array BigUint64Array".split()
ERRORS = "Error EvalError RangeError ReferenceError SyntaxError TypeError URIError AggregateError".split()
UNDEFINED = {"$": "undefined"}


class Value:
    """Decodes one value. Types that JSON lacks become objects with the key "$", which names the type."""

    def __init__(self, data):
        self.bytes = Bytes(data)
        self.shapes = []
        self.containers = []
        version = self.bytes.byte()
        if version != 1:
            raise Malformed(f"value format {version} is not known")

    def decode(self):
        value = self.value()
        if self.bytes.rest:
            raise Malformed(f"{self.bytes.rest} bytes follow the value")
        return value

    def value(self):
        tag = self.bytes.byte()
        if tag < 0x40:
            return tag
        if tag < 0x60:
            return self.bytes.raw(tag - 0x40).decode("utf-8")
        if tag < 0x70:
            return self.items(tag - 0x60)
        if tag < 0x80:
            return self.object(self.shape(tag - 0x70))
        read = self.readers.get(tag)
        if read is None:
            raise Malformed(f"unknown tag {tag:#x}")
        return read(self)

    def keep(self, container):
        self.containers.append(container)
        return container

    def shape(self, index):
        if index >= len(self.shapes):
            raise Malformed(f"shape {index} was not written before")
        return self.shapes[index]

    def new_shape(self):
        block = self.bytes.sized()
        reader, keys = Value(b"\x01" + block), []
        while reader.bytes.rest:
            keys.append(reader.value())
        self.shapes.append(keys)
        return keys

    def object(self, keys):
        result = self.keep({})
        for key in keys:
            result[key] = self.value()
        return result

    def large_object(self):
        result = self.keep({})
        for _ in range(self.bytes.integer()):
            key = self.value()
            result[key] = self.value()
        return result

    def items(self, count):
        result = self.keep([])
        for _ in range(count):
            result.append(self.value())
        return result

    def sparse(self):
        length, count = self.bytes.integer(), self.bytes.integer()
        result, index = self.keep({"$": "sparse array", "length": length, "items": {}}), 0
        for _ in range(count):
            index += self.bytes.integer()
            result["items"][str(index)] = self.value()
            index += 1
        return result

    def pairs(self):
        count = self.bytes.integer()
        result = self.keep({"$": "Map", "entries": []})
        for _ in range(count):
            result["entries"].append([self.value(), self.value()])
        return result

    def members(self):
        count = self.bytes.integer()
        result = self.keep({"$": "Set", "members": []})
        for _ in range(count):
            result["members"].append(self.value())
        return result

    def date(self):
        ms = self.value()
        if not isinstance(ms, int):
            return self.keep({"$": "Date", "time": None})
        # Dates before the year 1 or after 9999 have no form in datetime.
        try:
            iso = (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=ms)).isoformat()
        except OverflowError:
            iso = None
        return self.keep({"$": "Date", "time": ms, "iso": iso})

    def error(self):
        kind = ERRORS[self.bytes.byte()]
        result = self.keep({"$": kind})
        # The fields of an error are written as an object, but are no container of their own.
        tag = self.bytes.byte()
        if tag == 0x94:
            keys = None
        elif 0x70 <= tag < 0x80:
            keys = self.shape(tag - 0x70)
        elif tag == 0x92:
            keys = self.new_shape()
        elif tag == 0x93:
            keys = self.shape(self.bytes.integer())
        else:
            raise Malformed("an error without its fields")
        for key in keys if keys is not None else [None] * self.bytes.integer():
            name = self.value() if key is None else key
            result[name] = self.value()
        return result

    def view(self):
        kind = VIEWS[self.bytes.byte()]
        return self.keep({"$": kind, "hex": self.bytes.sized().hex()})

    def instance(self):
        name = self.value()
        result = self.keep({"$": f"class {name}"})
        result["data"] = self.value()
        return result

    def reference(self):
        index = self.bytes.integer()
        if index >= len(self.containers):
            raise Malformed(f"a reference to container {index}, which did not appear before")
        return self.containers[index]

    readers = {
        0x80: lambda self: UNDEFINED,
        0x81: lambda self: None,
        0x82: lambda self: False,
        0x83: lambda self: True,
        0x84: lambda self: self.bytes.integer(),
        0x85: lambda self: -1 - self.bytes.integer(),
        0x86: lambda self: struct.unpack("<f", self.bytes.raw(4))[0],
        0x87: lambda self: struct.unpack("<d", self.bytes.raw(8))[0],
        0x88: lambda self: {"$": "number", "value": "NaN"},
        0x89: lambda self: -0.0,
        0x8A: lambda self: {"$": "number", "value": "Infinity"},
        0x8B: lambda self: {"$": "number", "value": "-Infinity"},
        0x8C: lambda self: {"$": "bigint", "value": str(int.from_bytes(self.bytes.sized(), "big"))},
        0x8D: lambda self: {"$": "bigint", "value": str(-int.from_bytes(self.bytes.sized(), "big"))},
        0x8E: lambda self: self.bytes.text(),
        0x8F: lambda self: self.bytes.raw(2 * self.bytes.integer()).decode("utf-16-le", "surrogatepass"),
        0x90: lambda self: self.items(self.bytes.integer()),
        0x91: sparse,
        0x92: lambda self: self.object(self.new_shape()),
        0x93: lambda self: self.object(self.shape(self.bytes.integer())),
        0x94: large_object,
        0x95: pairs,
        0x96: members,
        0x97: date,
        0x98: lambda self: self.keep({"$": "RegExp", "source": self.value(), "flags": self.value()}),
        0x99: error,
        0x9A: lambda self: self.keep({"$": "ArrayBuffer", "hex": self.bytes.sized().hex()}),
        0x9B: view,
        0x9C: instance,
        0x9D: reference,
    }


def decode(data):
    return Value(data).decode()


# --- docs/formats/envelopes.md ---

COMPRESSED, ENCRYPTED, CHECKED, CHUNK = 1, 2, 4, 8


class Sealed(Exception):
    """The record is encrypted; this reader has no keys."""


def open_envelope(envelope):
    reader = Bytes(envelope)
    if envelope[:4] == b"\xe1rw\x01":
        raise Sealed("a record is wrapped under a newer key")
    flags = reader.byte()
    if flags & ~15:
        raise Malformed(f"an envelope has unknown flags {flags}")
    if flags & CHECKED:
        reader.raw(4)
    algorithm = size = None
    if flags & COMPRESSED:
        algorithm, size = reader.byte(), reader.integer()
    if flags & ENCRYPTED:
        raise Sealed(f"a record is encrypted with the key {reader.text()}")
    body = reader.raw(reader.rest)
    return body if algorithm is None else decompress(algorithm, body, size)


def decompress(algorithm, body, size):
    if algorithm == 1:
        plain = zlib.decompress(body, wbits=-15, bufsize=max(1, size))
    elif algorithm == 2:
        plain = zstd(body, size)
    else:
        raise Malformed(f"unknown compression {algorithm}")
    if len(plain) != size:
        raise Malformed("a compressed record has another size than its envelope states")
    return plain


def zstd(body, size):
    try:
        from compression import zstd as module  # Python 3.14

        return module.decompress(body)
    except ImportError:
        pass
    name = ctypes.util.find_library("zstd")
    if name is None:
        raise Malformed("a record is compressed with zstd: install libzstd, or use Python 3.14")
    library = ctypes.CDLL(name)
    library.ZSTD_decompress.restype = ctypes.c_size_t
    library.ZSTD_decompress.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t]
    room = ctypes.create_string_buffer(max(1, size))
    written = library.ZSTD_decompress(room, size, body, len(body))
    if written > size:
        raise Malformed("a zstd stream is damaged")
    return room.raw[:written]


# --- docs/formats/runs.md ---


def origin_digest(timeline):
    name = timeline.encode("utf-8")
    return sha256(b"\x09reprise/1", leb128(len(name)), name)


def leb128(value):
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


class Run:
    """Entries of one timeline that were committed together. `digest` may be None: then the chain yields it."""

    def __init__(self, data, digest=None):
        self.data = bytes(data)
        self.digest = digest
        if self.data[:4] == b"\xe1rw\x01":
            raise Sealed("a run is wrapped under a newer key")
        reader = Bytes(self.data)
        self.version = reader.byte()
        if self.version not in (1, 2, 3):
            raise Malformed(f"run format {self.version} is not known")
        self.first, self.epoch, self.time = reader.integer(), reader.integer(), reader.integer()
        self.digests, self.check_at = [], None
        if self.version == 2:
            reader.raw(8)
        if self.version == 3:
            self.digests = [reader.raw(32) for _ in range(reader.integer() - 1)]
            self.check_at = reader.at
            reader.raw(32)
        self.entries = list(self.read_entries(reader))
        self.last = self.first + len(self.entries) - 1

    def read_entries(self, reader):
        seq = self.first
        while reader.rest:
            start = reader.integer()
            body = Bytes(reader.raw(start))
            kind, version, delay, flags = body.text(), body.integer(), body.integer(), body.byte()
            key = body.text() if flags & 1 else None
            yield {
                "seq": seq,
                "epoch": self.epoch,
                "time": self.time + delay,
                "type": kind,
                "version": version,
                **({"key": key} if key is not None else {}),
                **({"erased": True} if flags & 4 else {}),
                "sealed": body.raw(body.rest),
            }
            seq += 1

    def verify(self, before):
        """Returns the digest of history after this run; `before` is the digest of history up to it."""
        if self.version == 3:
            return self.verify_erased(before)
        digest = sha256(before, self.data)
        if self.digest is not None and digest != self.digest:
            raise Malformed(f"the run at {self.first} does not match its digest")
        return digest

    def verify_erased(self, before):
        if self.digest is None:
            raise Malformed(f"the run at {self.first} has erased entries, and no digest is stored with it")
        at = self.check_at
        zeroed = self.data[:at] + bytes(32) + self.data[at + 32 :]
        if sha256(before, self.digest, zeroed) != self.data[at : at + 32]:
            raise Malformed(f"the run at {self.first}, with erased entries, does not match its check")
        return self.digest


def shown(entry):
    """The entry with its data decoded."""
    sealed = entry["sealed"]
    rest = {name: value for name, value in entry.items() if name != "sealed"}
    try:
        return {**rest, "data": decode(open_envelope(sealed))}
    except Sealed as reason:
        return {**rest, "encrypted": str(reason)}


# --- docs/formats/checkpoints.md ---


class Checkpoint:
    """The manifest of a checkpoint, and the state that its chunks hold."""

    def __init__(self, body, chunk_of):
        self.chunk_of = chunk_of
        reader = Bytes(body)
        version = reader.byte()
        if version != 1:
            raise Malformed(f"manifest format {version} is not known")
        self.timeline = reader.text()
        self.seq, self.epoch, self.digest = reader.integer(), reader.integer(), reader.raw(32)
        self.fold = reader.text()
        self.parts = [self.part(reader) for _ in range(reader.integer())]
        if reader.rest:
            raise Malformed("bytes follow the manifest")

    def part(self, reader):
        name = reader.key() if reader.byte() else None
        kind = reader.byte()
        if kind == 1:
            return name, decode(self.content(reader))
        if kind == 2:
            return name, self.keyed(reader)
        if kind == 3:
            return name, {"$": "stream", "bytes": self.skip_content(reader)}
        raise Malformed(f"unknown kind {kind} of a part")

    def content(self, reader):
        size, kind = reader.integer(), reader.byte()
        if kind == 1:
            plain = open_envelope(reader.sized())
        else:
            level = reader.integer()
            digests = [self.ref(reader) for _ in range(reader.integer())]
            for _ in range(level):
                joined = Bytes(b"".join(map(self.chunk, digests)))
                digests = []
                while joined.rest:
                    digests.append(self.ref(joined))
            plain = b"".join(map(self.chunk, digests))
        if len(plain) != size:
            raise Malformed("a part has another size than its manifest states")
        return plain

    def skip_content(self, reader):
        size, kind = reader.integer(), reader.byte()
        if kind == 1:
            reader.sized()
        else:
            reader.integer()
            for _ in range(reader.integer()):
                self.ref(reader)
        return size

    def ref(self, reader):
        digest = reader.raw(32)
        reader.integer()
        return digest

    def chunk(self, digest):
        stored = self.chunk_of(digest)
        if stored is None:
            raise Malformed(f"chunk {digest.hex()} is missing")
        if sha256(stored) != digest:
            raise Malformed(f"chunk {digest.hex()} does not match its digest")
        return open_envelope(stored)

    def keyed(self, reader):
        """Layers from the oldest to the newest; a later value of a key replaces an earlier one."""
        state = {}
        for _ in range(reader.integer()):
            reader.integer(), reader.integer()
            if reader.byte() == 1:
                self.block(open_envelope(reader.sized()), state)
                continue
            directory = Bytes(self.content(reader))
            while directory.rest:
                directory.key(), directory.integer()
                digests = [self.ref(directory) for _ in range(directory.integer())]
                self.block(b"".join(map(self.chunk, digests)), state)
        return {"$": "Keyed", "entries": {key: state[key] for key in sorted(state, key=utf16)}}

    def block(self, data, state):
        reader = Bytes(data)
        if reader.byte() != 1:
            raise Malformed("the format of a block is not known")
        while reader.rest:
            key, size = reader.key(), reader.integer()
            if size == 0:
                state.pop(key, None)
            else:
                state[key] = decode(reader.raw(size - 1))

    @property
    def state(self):
        """The state as the program knows it: keyed parts are put back where the first part lacks them."""
        parts = dict(self.parts)
        captured = {**parts.pop(None, {}), **parts}
        if captured.get("shape") == "object":
            keyed = {name[6:]: value for name, value in parts.items() if name.startswith("value.")}
            return {**captured["value"], **keyed}
        return captured["value"] if "shape" in captured else captured


def utf16(key):
    return key.encode("utf-16-be", "surrogatepass")


class Timeline:
    """One timeline: its place in history, its runs in order, and its checkpoints."""

    def __init__(self, name, seq, digest, start):
        self.name, self.seq, self.digest = name, seq, digest
        self.start = start  # (sequence, digest) before the first run
        self.runs, self.checkpoints = [], []

    def verify(self):
        seq, digest = self.start
        reached = {seq: digest}
        for run in self.runs:
            if run.first != seq + 1:
                raise Malformed(f"{self.name}: history has a gap after {seq}")
            digest = run.verify(digest)
            seq = run.last
            reached[seq] = digest
        if reached.get(self.seq) != self.digest:
            raise Malformed(f"{self.name}: the digest of the head at {self.seq} does not match its history")


# --- docs/formats/sqlite.md ---


def crc32(data, seed):
    return zlib.crc32(data, seed & 0xFFFFFFFF)


def signed(value):
    return (value & 0xFFFFFFFF) - 2**32 if value & 0x80000000 else value & 0xFFFFFFFF


def row_mark(position, kind):
    return (((position % 2**32) ^ kind) * 0x9E3779B1 & 0xFFFFFFFF) ^ position // 2**32


def frames_of(position, body):
    """(tid, digest or None, bytes of the run) for every run of one row of the log."""
    reader = Bytes(body)
    kind = reader.byte()
    seed = position
    if kind == 12:
        time = reader.integer()
        seed = signed(position) ^ signed(time % 2**31) ^ signed(time // 2**31) ^ 12
    elif kind in (1, 2, 3):
        if struct.unpack("<I", reader.raw(4))[0] != row_mark(position, kind) & 0xFFFFFFFF:
            raise Malformed(f"log row {position} does not have its mark")
        if kind == 3:
            return
    else:
        raise Malformed(f"log row {position} is of an unknown kind {kind}")
    while reader.rest:
        frame = Bytes(reader.sized())
        if frame.raw(4) != struct.pack("<I", crc32(frame.data[4:], seed)):
            raise Malformed(f"log row {position} does not match its checksum")
        tid, _first, count_and_flags, _back = (frame.integer() for _ in range(4))
        digest = frame.raw(32) if count_and_flags & 1 else None
        if count_and_flags & 2:
            frame.text()
        yield tid, digest, frame.raw(frame.rest)


def head_of(tid, state):
    if struct.unpack("<I", state[:4])[0] != crc32(state[4:], tid):
        raise Malformed(f"the head of timeline {tid} does not match its checksum")
    reader = Bytes(state, 4)
    seq, _epoch, _position, _updated = (reader.integer() for _ in range(4))
    digest = reader.raw(32)
    reader.text()
    floor, floor_digest, flags = reader.integer(), reader.raw(32), reader.byte()
    base = None
    if flags & 1:
        base = (reader.text(), reader.integer(), reader.raw(32))
    return seq, digest, floor, floor_digest, base


def read_store(path, namespace):
    db = sqlite3.connect(f"{Path(path).resolve().as_uri()}?mode=ro", uri=True)
    version = db.execute("SELECT value FROM reprise_meta WHERE key = 'schema_version'").fetchone()[0]
    if not 1 <= version <= 9:
        raise Malformed(f"schema {version} is newer than this reader")
    found = db.execute("SELECT id FROM reprise_space WHERE name = ?", (namespace,)).fetchone()
    if found is None:
        raise Malformed(f"there is no namespace {namespace}")
    space = found[0]
    timelines = {}
    rows = db.execute(
        "SELECT t.tid, t.name, h.state FROM reprise_timeline t JOIN reprise_head h ON h.tid = t.tid"
        " WHERE t.space = ? AND t.is_stub = 0",
        (space,),
    )
    for tid, name, state in rows:
        seq, digest, floor, floor_digest, base = head_of(tid, state)
        # The history of a fork below its base belongs to its parent.
        start = base[1:] if base is not None and base[1] >= floor else (floor, floor_digest)
        timelines[tid] = Timeline(name, seq, digest, start)
    for position, body in db.execute("SELECT position, body FROM reprise_log ORDER BY position"):
        for tid, digest, data in frames_of(position, body):
            timeline = timelines.get(tid)
            if timeline is None:
                continue
            run = Run(data, digest)
            if run.last > timeline.start[0]:
                timeline.runs.append(run)
    chunks = store_chunks(db, space)
    for timeline, body, body_digest in db.execute(
        "SELECT tid, body, body_digest FROM reprise_manifest WHERE space = ? ORDER BY seq, number", (space,)
    ):
        if timeline in timelines:
            if sha256(body) != body_digest:
                raise Malformed(f"a checkpoint of {timelines[timeline].name} does not match its digest")
            timelines[timeline].checkpoints.append((body, chunks))
    return list(timelines.values())


def store_chunks(db, space):
    tables = [row[0] for row in db.execute("SELECT name FROM sqlite_schema WHERE name LIKE 'reprise_chunk_bytes%' AND type = 'table'")]

    def chunk_of(digest):
        row = db.execute("SELECT id FROM reprise_chunk WHERE space = ? AND digest = ?", (space, digest)).fetchone()
        for table in tables if row else []:
            found = db.execute(f"SELECT bytes FROM {table} WHERE id = ?", row).fetchone()
            if found:
                return found[0]
        return None

    return chunk_of


# --- docs/formats/exports.md ---


def read_export(data):
    if sha256(data[:-32]) != data[-32:]:
        raise Malformed("the digest of the export does not match: it is damaged or cut off")
    if data[14] not in (1, 2, 3):
        raise Malformed(f"export format {data[14]} is not known")
    reader, timelines, chunks = Bytes(data, 15), [], {}
    while (kind := reader.byte()) != 0:
        body = reader.sized()
        if kind == 1:
            header = decode(body)
            start = (header["floor"], bytes.fromhex(header["floorDigest"]["hex"]))
            timelines.append(Timeline(header["timeline"], header["seq"], bytes.fromhex(header["digest"]["hex"]), start))
        elif kind == 2:
            frame = Bytes(body)
            frame.integer(), frame.integer()
            digest = frame.raw(32)
            timelines[-1].runs.append(Run(frame.raw(frame.rest), digest))
        elif kind == 3:
            chunks[sha256(body)] = body
        elif kind == 4:
            record = decode(body)
            timelines[-1].checkpoints.append((bytes.fromhex(record["body"]["hex"]), chunks.get))
        elif kind not in (5, 6):
            raise Malformed(f"a frame of unknown kind {kind}")
    return timelines


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("file")
    arguments.add_argument("timeline", nargs="?")
    arguments.add_argument("--namespace", default="default", help="of a store; default: default")
    given = arguments.parse_args()
    try:
        show(given)
    except (Malformed, Sealed, OSError, sqlite3.Error) as error:
        print(f"{given.file}: {error}", file=sys.stderr)
        return 1
    return 0


def show(given):
    with open(given.file, "rb") as file:
        isExport = file.read(14) == b"REPRISE-EXPORT"
    timelines = read_export(Path(given.file).read_bytes()) if isExport else read_store(given.file, given.namespace)
    for timeline in timelines:
        timeline.verify()
    wanted = [each for each in timelines if given.timeline in (None, each.name)]
    if given.timeline is not None and not wanted:
        raise Malformed(f"there is no timeline {given.timeline}")
    for timeline in sorted(wanted, key=lambda each: utf16(each.name)):
        line = {"timeline": timeline.name, "seq": timeline.seq, "digest": timeline.digest.hex()}
        print(json.dumps({**line, "checkpoints": len(timeline.checkpoints)}))
        if given.timeline is None:
            continue
        for run in timeline.runs:
            for entry in run.entries:
                print(json.dumps(shown(entry)))
        if timeline.checkpoints:
            checkpoint = max((Checkpoint(*each) for each in timeline.checkpoints), key=lambda each: each.seq)
            print(json.dumps({"checkpoint": checkpoint.seq, "digest": checkpoint.digest.hex(), "state": checkpoint.state}))


if __name__ == "__main__":
    sys.exit(main())
