"""Writes xxh64-keys.csv with the Python package `xxhash`. See README.md."""

import random

import xxhash

rng = random.Random(23)


def xxh64(data):
    return xxhash.xxh64_intdigest(data, seed=0)


def integer(signed, bits, value):
    hashed_bytes = 8 if bits <= 64 else 16
    encoded = value + (1 << (bits - 1)) if signed else value
    return xxh64(value.to_bytes(hashed_bytes, "little", signed=signed)), encoded.to_bytes(bits // 8, "big")


def byte_string(value):
    return xxh64(value), value.replace(b"\0", b"\0\xff") + b"\0\x01"


def pair(a, b):
    hashed = xxh64(a[0].to_bytes(8, "little") + b[0].to_bytes(8, "little"))
    return hashed, a[1] + b[1]


def text():
    return "".join(chr(rng.choice([rng.randrange(0x80), rng.randrange(0xD800), rng.randrange(0xE000, 0x110000)]))
                   for _ in range(rng.randrange(40)))


def keys():
    for bits in (8, 16, 32, 64, 128):
        top = 1 << (bits - 1)
        for value in [0, 1, 2 * top - 1, top] + [rng.randrange(2 * top) for _ in range(12)]:
            yield f"u{bits}", str(value), integer(False, bits, value)
        for value in [0, 1, -1, top - 1, -top] + [rng.randrange(-top, top) for _ in range(12)]:
            yield f"i{bits}", str(value), integer(True, bits, value)
    for value in (0, 1):
        yield "bool", ("false", "true")[value], (xxh64(value.to_bytes(8, "little")), bytes([value]))
    for value in "a\0ß東🛫":
        yield "char", str(ord(value)), (xxh64(ord(value).to_bytes(8, "little")), ord(value).to_bytes(4, "big"))
    for value in ["", "a", "\0", "a\0b", "N14228", "NA", "東京", "🛫" * 9] + [text() for _ in range(40)]:
        data = value.encode()
        yield "string", data.hex(), byte_string(data)
    for length in list(range(40)) + [63, 64, 65, 255, 1000]:
        data = bytes(rng.choice([0, 255, rng.randrange(256)]) for _ in range(length))
        yield "bytes", data.hex(), byte_string(data)
    for _ in range(12):
        a, b, c, d = rng.randrange(1 << 64), text().encode(), rng.randrange(-(1 << 31), 1 << 31), rng.random() < 0.5
        parts = [integer(False, 64, a), byte_string(b), integer(True, 32, c), (xxh64(int(d).to_bytes(8, "little")), bytes([d]))]
        two = pair(parts[0], parts[1])
        three = pair(two, parts[2])
        four = pair(three, parts[3])
        yield "tuple2", f"{a}:{b.hex()}", two
        yield "tuple3", f"{a}:{b.hex()}:{c}", three
        yield "tuple4", f"{a}:{b.hex()}:{c}:{str(d).lower()}", four


with open("xxh64-keys.csv", "w", newline="\n") as out:
    out.write("type,value,hash,encoded,group_of_128,group_of_32768\n")
    for kind, value, (hashed, encoded) in keys():
        groups = [(hashed >> 32) * m >> 32 for m in (128, 32768)]
        out.write(f"{kind},{value},{hashed:016x},{encoded.hex()},{groups[0]},{groups[1]}\n")
