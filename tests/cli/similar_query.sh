# SPDX-License-Identifier: MIT
# similar_query.sh: tests qkv similar --query on texts and on vectors of a .npy file.
. tests/cli/lib.sh
need_model
printf 'A happy dog runs.\nThe tax law changed.\nA joyful puppy plays.\nInterest rates rose.\n' >lines.txt

title 'the nearest lines, with the cosines of the table of all texts'
runs 0 similar --query 'young dogs' -f lines.txt -k 3 --json
cp "$out" query.json
runs 0 similar 'young dogs' -f lines.txt --json
python3 -S -E - query.json "$out" <<'PY' || failed 'cosines'
import json, sys
near = json.load(open(sys.argv[1]))["nearest"]
table = json.load(open(sys.argv[2]))
want = sorted(((c, -i) for i, c in enumerate(table["cosine"][0][1:])), reverse=True)[:3]
assert [(n["number"] - 1, n["text"]) for n in near] == [(-i, table["texts"][1 - i]) for _, i in want], near
assert all(abs(n["cosine"] - c) < 1e-6 for n, (c, _) in zip(near, want)), (near, want)
PY
runs 0 similar --query 'young dogs' -f lines.txt -k 1
check grep -qE '^ 0\.[0-9]{3}       [13]  A ' "$out"
runs 0 similar --query 'young dogs' 'only one'
check test "$(wc -l <"$out")" -eq 1

title 'the rows of a .npy file: vectors of qkv embed, and others that have another length'
runs 0 embed -f lines.txt -o v.npy
runs 0 similar --query 'young dogs' -f v.npy -k 3 --json
python3 -S -E - query.json "$out" <<'PY' || failed 'rows of vectors'
import json, sys
a, b = (json.load(open(p))["nearest"] for p in sys.argv[1:])
assert len(a) == len(b) == 3, (a, b)
# lines are counted from 1, rows of an array from 0
assert all(x["number"] - 1 == y["row"] and abs(x["cosine"] - y["cosine"]) < 1e-6 for x, y in zip(a, b)), (a, b)
PY
cp "$out" unit.json
runs 0 similar --query 'young dogs' -f v.npy -k 1
check grep -qE '^ 0\.[0-9]{3}       [02]$' "$out"
python3 -S -E - <<'PY'
import array
data = open("v.npy", "rb").read()
x = array.array("f", data[128:])
for i in range(len(x)): x[i] *= 3 + i // 384
open("long.npy", "wb").write(data[:128] + x.tobytes())
PY
runs 0 similar --query 'young dogs' -f long.npy -k 3 --json
python3 -S -E - unit.json "$out" <<'PY' || failed 'vectors of another length'
import json, sys
a, b = (json.load(open(p))["nearest"] for p in sys.argv[1:])
assert all(x["row"] == y["row"] and abs(x["cosine"] - y["cosine"]) < 1e-6 for x, y in zip(a, b)), (a, b)
PY

title 'a row that is not finite is an error that names it'
for number in nan inf -inf; do
    python3 -S -E - $number <<'PY'
import array, sys
data = open("v.npy", "rb").read()
x = array.array("f", data[128:])
x[3 * 384 - 1] = float(sys.argv[1])
open("damaged.npy", "wb").write(data[:128] + x.tobytes())
PY
    runs 3 similar --query 'young dogs' -f damaged.npy -k 3
    [ $number = nan ] && found=NaN || found=infinity
    says "qkv: damaged.npy: row 2 is not finite, expected finite numbers, found $found"
    prints ''
done

title 'refusals'
runs 2 similar a b -k 3
says_part '--count requires --query'
runs 2 similar --query x a b --why
says_part '--query cannot be combined with --why'
runs 2 similar --query x -f v.npy text
says_part 'texts cannot be combined with vectors'
python3 -S -E -c 'open("narrow.npy", "wb").write(open("v.npy", "rb").read(128).replace(b"(4, 384)", b"(2, 768)") + open("v.npy", "rb").read()[128:])'
runs 2 similar --query x -f narrow.npy
says 'qkv: narrow.npy: expected an array of vectors, n x 384 as the model makes, found (2, 768)'
# the shape is checked before 3.2 GB of big-endian numbers, which take no room on the disk, are copied
python3 -S -E - <<'PY'
import struct
head = repr({"descr": ">f4", "fortran_order": False, "shape": (800000000,)})
head += " " * (-(len(head) + 11) % 64) + "\n"
with open("flat.npy", "wb") as f:
    f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode())
    f.truncate(f.tell() + 3200000000)
PY
([ -n "${QKV_SLOW:-}" ] || ulimit -v 4000000; runs 2 similar --query x -f flat.npy; exit $failures) || failed 'the array was copied'
says 'qkv: flat.npy: expected an array of vectors, n x 384 as the model makes, found (800000000,)'
rm flat.npy
runs 2 similar --query x
says_part 'too few texts'
finish
