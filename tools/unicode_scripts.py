# SPDX-License-Identifier: MIT
"""Writes the scripts of characters as in the pre-tokenizer UnicodeScripts of the Python package `tokenizers`.

    python3 tools/unicode_scripts.py > src/text/unicode/unicode_scripts.h

The reference splits a text of all characters; comparing the resulting ranges then finds ranges of the same script.
"""
import tokenizers
from tokenizers import pre_tokenizers

split = pre_tokenizers.UnicodeScripts().pre_tokenize_str
alike = lambda a, b: len(split(a + b)) == 1
codes = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
text = "".join(map(chr, codes))
free = lambda c: alike("a" + chr(c), "a") and alike("\u3042" + chr(c), "\u3042")  # belongs to the script of its neighbours

runs, kinds = [], []  # (first, kind); kinds: one character of each kind
starts = [p[1][0] for p in split(text)]
bounds = sorted({0, *starts})
cuts = []
for i, at in enumerate(bounds):  # a range may contain free characters
    last = None
    for k in range(at, bounds[i + 1] if i + 1 < len(bounds) else len(codes)):
        now = not split(text[k]) or (codes[k] > 0x2FF and free(codes[k])) or codes[k] == 32
        if now != last:
            cuts.append((codes[k], now))
        last = now
for code, is_free in cuts:
    kind = 0
    if not is_free:
        kind = next((i for i, k in enumerate(kinds) if alike(k, chr(code))), None)
        if kind is None:
            kind = len(kinds)
            kinds.append(chr(code))
        kind += 1
    if not runs or runs[-1][1] != kind:
        runs.append((code, kind))
print(f"""// SPDX-License-Identifier: MIT
// unicode_scripts.h: lists runs of code points that have one script, as in Hugging Face tokenizers
// {tokenizers.__version__}.  tools/unicode_scripts.py writes this file: do not edit it.  Only
// pretokenize_fixed.c includes it.
// clang-format off
// An entry is first code point << 8 | script; a run with script 0 belongs to the script before it.
static const uint32_t script_runs[] = {{""")
for i in range(0, len(runs), 8):
    print("    " + " ".join("0x%06X%02X," % r for r in runs[i:i + 8]))
print("};")
