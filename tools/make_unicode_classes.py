#!/usr/bin/env python3
"""Writes src/data/unicode_classes.def: which characters are letters, numbers and spaces.

The table follows the Unicode version of the Python that runs this.
"""
import pathlib
import unicodedata

# Unicode's White_Space property, which is what \\s means; unicodedata does not have it.
SPACES = {*range(0x09, 0x0E), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029,
          0x202F, 0x205F, 0x3000}


def kind(c):
    if c in SPACES:
        return "Space"
    return {"L": "Letter", "N": "Number"}.get(unicodedata.category(chr(c))[0])


def ranges():
    first = 0
    for c in range(1, 0x110001):
        if c == 0x110000 or kind(c) != kind(first):
            if kind(first):
                yield first, c - 1, kind(first)
            first = c


def main():
    out = pathlib.Path(__file__).parent.parent / "src/data/unicode_classes.def"
    lines = [f"// Unicode {unicodedata.unidata_version}, made by tools/make_unicode_classes.py. "
             "RANGE(first, last, class)", "// clang-format off"]
    line = ""
    for first, last, name in ranges():
        row = f"RANGE(0x{first:x}, 0x{last:x}, {name})"
        if len(line) + len(row) + 1 > 100:
            lines.append(line)
            line = ""
        line = f"{line} {row}".strip()
    lines += [line, "// clang-format on"]
    out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
