"""The picture cases of tools/make_training_goldens.py: PNG files of every colour type and depth, with
every filter, interlaced and not, written here with zlib. Input: the file's bytes; output: the pixels
(channels, height, width), 16 bits cut to 8."""
import struct
import zlib

import numpy as np
import torch

from make_optim_goldens import add

KINDS = {0: (1, (1, 2, 4, 8, 16)), 2: (3, (8, 16)), 3: (1, (1, 2, 4, 8)), 4: (2, (8, 16)),
         6: (4, (8, 16))}
ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2),
         (0, 1, 1, 2)]


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def pack_row(samples, depth):
    if depth == 16:
        return samples.astype(">u2").tobytes()
    if depth == 8:
        return samples.astype(np.uint8).tobytes()
    bits = np.unpackbits(samples.astype(np.uint8)[:, None], axis=1)[:, 8 - depth:]
    return np.packbits(bits.reshape(-1)).tobytes()


def paeth(a, b, c):
    p = a + b - c
    pa, pb, pc = abs(p - a), abs(p - b), abs(p - c)
    return a if pa <= pb and pa <= pc else b if pb <= pc else c


def filtered(row, above, kind, each):
    out = bytearray([kind])
    for i, x in enumerate(row):
        a = row[i - each] if i >= each else 0
        b = above[i]
        c = above[i - each] if i >= each else 0
        out.append((x - [0, a, b, (a + b) // 2, paeth(a, b, c)][kind]) & 255)
    return bytes(out)


def png(samples, color, depth, interlaced, extra=b""):
    height, width, count = samples.shape
    raw = b""
    for x, y, dx, dy in ADAM7 if interlaced else [(0, 0, 1, 1)]:
        part = samples[y::dy, x::dx]
        if part.size == 0:
            continue
        rows = [pack_row(r.reshape(-1), depth) for r in part]
        above = bytes(len(rows[0]))
        for i, row in enumerate(rows):
            raw += filtered(row, above, i % 5, max(1, count * depth // 8))
            above = row
    packed = zlib.compress(raw)
    header = struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, interlaced)
    half = len(packed) // 2
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + extra + chunk(b"IDAT", packed[:half]) +
            chunk(b"IDAT", packed[half:]) + chunk(b"IEND", b""))


def u8(data):
    return torch.from_numpy(np.frombuffer(data, dtype=np.uint8).copy())


def pictures():
    rng = np.random.RandomState(5)
    for color, (count, depths) in KINDS.items():
        for depth in depths:
            for interlaced in (0, 1):
                samples = rng.randint(0, 2 ** depth, (11, 13, count))
                extra = b""
                if color == 3:
                    colors = rng.randint(0, 256, (2 ** depth, 3)).astype(np.uint8)
                    alphas = rng.randint(0, 256, 2 ** depth - 1).astype(np.uint8)
                    with_alpha = depth == 4
                    extra = chunk(b"PLTE", colors.tobytes())
                    if with_alpha:
                        extra += chunk(b"tRNS", alphas.tobytes())
                        colors = np.concatenate(
                            [colors, np.append(alphas, 255).astype(np.uint8)[:, None]], 1)
                    want = colors[samples[:, :, 0]]
                else:
                    want = samples >> 8 if depth == 16 else samples * 255 // (2 ** depth - 1)
                file = png(samples, color, depth, interlaced, extra)
                add(f"png/{color}_{depth}_{interlaced}", "png", {}, [("file", u8(file))],
                    [(torch.from_numpy(want.astype(np.uint8).transpose(2, 0, 1).copy()), None)])
