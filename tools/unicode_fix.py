# SPDX-License-Identifier: MIT
"""Writes src/text/unicode/unicode_fix.h: all code points for which libutf8proc and the Unicode tables of the Python
package `tokenizers` differ.  Needs: pip install tokenizers, libutf8proc.

    python3 tools/unicode_fix.py > src/text/unicode/unicode_fix.h
"""
import ctypes
import sys
import unicodedata

from tokenizers import normalizers as N
from tokenizers import Regex
from tokenizers import pre_tokenizers as P

lib = ctypes.CDLL("libutf8proc.so.2")
lib.utf8proc_version.restype = ctypes.c_char_p
CODES = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
CATEGORY = [lib.utf8proc_category(c) for c in range(0x110000)]


class Property(ctypes.Structure):
    _fields_ = [("category", ctypes.c_int16), ("ccc", ctypes.c_int16)]


lib.utf8proc_get_property.restype = ctypes.POINTER(Property)
CCC = [lib.utf8proc_get_property(c).contents.ccc for c in range(0x110000)]


def runs(codes):
    out = []
    for c in sorted(codes):
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def lines(items, per_line):
    for i in range(0, len(items), per_line):
        print("    " + " ".join(items[i:i + per_line]))


def table(name, what, theirs, ours):
    rows = [(r, True) for r in runs(theirs - ours)] + [(r, False) for r in runs(ours - theirs)]
    rows.sort()
    print(f"// Ranges where the libraries differ in this property: {what}\nstatic const struct fix {name}[] = {{")
    lines([f"{{ 0x{a:X}, 0x{b:X}, {'true' if has else 'false'} }}," for (a, b), has in rows], 3)
    print("};")


def categories(first, last):
    return {c for c in CODES if first <= CATEGORY[c] <= last}


def where(test):
    return {c for c in CODES if test(chr(c))}


def pieces(pre, text):
    return len(pre.pre_tokenize_str(text))


clean = N.BertNormalizer(True, False, False, False)
strip = N.BertNormalizer(False, False, True, False)
digits, punctuation, word = P.Digits(), P.Punctuation(), P.Whitespace()
ascii_punct = {ord(c) for c in "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"}

print("// SPDX-License-Identifier: MIT")
print("// unicode_fix.h: lists the code points whose properties differ between "
      f"libutf8proc {lib.utf8proc_version().decode()} and")
print(f"// Hugging Face tokenizers {__import__('tokenizers').__version__}.  "
      "tools/unicode_fix.py writes this file: do not edit it.  Only")
print("// unicode.c includes it.")
print("// clang-format off\n")
table("fix_other", "general category Cc, Cf or Co",
      where(lambda c: clean.normalize_str("a" + c + "b") == "ab") - {0xFFFD},
      (categories(26, 27) | categories(29, 29)) - {9, 10, 13})
table("fix_punct", "general category P*, or ASCII punctuation",
      where(lambda c: pieces(punctuation, "a" + c + "b") == 3), categories(12, 18) | ascii_punct)
table("fix_number", "general category N*", where(lambda c: pieces(digits, "a" + c + "b") == 3), categories(9, 11))


def matched(pattern):
    """Returns the code points that a regular expression of the reference's engine matches."""
    split, out = P.Split(Regex(pattern), "removed"), set()
    for i in range(0, len(CODES), 4096):
        part = CODES[i:i + 4096]
        left = split.pre_tokenize_str("".join(map(chr, part)))
        out |= set(part) - {ord(c) for word, _ in left for c in word}
    return out


# PCRE2 and utf8proc may support only Unicode 14: the additional code points of the engine, with their category.
assert unicodedata.unidata_version == "14.0.0", "Python 3.11 has the Unicode to compare with"
NAMES = ["", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po",
         "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"]
rows = []
for number, name in enumerate(NAMES):
    if name and name != "Cs":
        theirs, old = matched(r"\p{%s}" % name), {c for c in CODES if unicodedata.category(chr(c)) == name}
        rows += [(a, b, number) for a, b in runs(theirs - old)]
print("// Code points that are newer than Unicode 14, with the category that the regular expressions of")
print("// tokenizers give them: an index into qkv_category_names.")
print("static const struct qkv_later fix_later[] = {")
lines([f"{{ 0x{a:X}, 0x{b:X}, {k} }}," for a, b, k in sorted(rows)], 3)
print("};")
table("fix_word", "\\w of regular expressions", where(lambda c: pieces(word, "a" + c) == 1 and pieces(word, "(" + c) == 2),
      categories(1, 10) | categories(12, 12))
table("fix_nonspacing", "general category Mn", where(lambda c: strip.normalize_str("a" + c) == "a"), categories(6, 6))
table("fix_mark", "general category M*", where(lambda c: N.StripAccents().normalize_str("a" + c) == "a"), categories(6, 8))


def decomposed(code, options):
    text, out = chr(code).encode(), ctypes.c_void_p()
    n = lib.utf8proc_map(text, ctypes.c_ssize_t(len(text)), ctypes.byref(out), options)
    return ctypes.string_at(out, n).decode()


lib.utf8proc_map.restype = ctypes.c_ssize_t
STABLE, COMPAT, DECOMPOSE = 1 << 1, 1 << 2, 1 << 4
for name, what, n, options in (("fix_no_canonical", "has no canonical decomposition", N.NFD(), STABLE | DECOMPOSE),
                               ("fix_no_compatible", "has no compatibility decomposition", N.NFKD(),
                                STABLE | DECOMPOSE | COMPAT)):
    differ = {c for c in CODES if c and n.normalize_str(chr(c)) != decomposed(c, options)}
    for c in differ:
        assert n.normalize_str(chr(c)) == chr(c), hex(c)
    table(name, what, differ, set())

# A starter prevents the reordering of a mark of class 230 before it and a mark of class 1 after it.
nfd = N.NFD()
single = {c for c in CODES if nfd.normalize_str(chr(c)) == chr(c)}
starters = {c for c in single if nfd.normalize_str("\u0301" + chr(c) + "\u0334") == "\u0301" + chr(c) + "\u0334"}
ours = {c for c in single if CCC[c] == 0}
assert ours <= starters
table("fix_starter", "canonical combining class 0", starters, ours)

lower = N.Lowercase()
rows = []
for c in CODES:
    t = lower.normalize_str(chr(c))
    if c == 0x130 or t == chr(lib.utf8proc_tolower(c)):
        continue
    assert len(t) == 1, hex(c)
    if rows and rows[-1][1] == c - 1 and rows[-1][2] == ord(t) - c:
        rows[-1][1] = c
    else:
        rows.append([c, c, ord(t) - c])
print("// Code points whose lower case in tokenizers differs from libutf8proc.\nstatic const struct fix_lower fix_lower[] = {")
lines([f"{{ 0x{a:X}, 0x{b:X}, {d} }}," for a, b, d in rows], 3)
print("};")
sys.exit(0)
