# SPDX-License-Identifier: MIT
# search_graph.sh: tests qkv index --hnsw, qkv search --hnsw and --check against the exact search, updates of the graph,
# and malformed graphs.
. tests/cli/lib.sh
export QKV_MODEL="$here/../golden/bert" # small and fast
python3 -S -E -c '
import random
random.seed(3)
for i in range(1500): print(" ".join(random.choice("abcdefghijklmnopqrstuvwxyz") for _ in range(6)))' >lines.txt
head -n 20 lines.txt >few.txt
"$QKV_BIN" index few.txt -o i.qkvi --hnsw >"$out" 2>"$err"
if [ $? -eq 4 ]; then
    cat "$err"
    grep -q 'apt-get install' "$err" || { echo 'the message names no package'; exit 1; }
    echo 'skipped: qkv was built without libsqlite3 or hnswlib'
    exit 77
fi

title 'a graph that reaches every vector gives the bytes of the exact search, in each type'
for type in f32 bf16 int8; do
    runs 0 index lines.txt -o $type.qkvi --vectors $type --hnsw
    runs 0 search $type.qkvi -f few.txt --json -k 12
    cp "$out" exact.json
    runs 0 search $type.qkvi -f few.txt --json -k 12 --hnsw --ef 1500
    silent
    check cmp exact.json "$out"
    runs 0 search $type.qkvi --check --ef 1500 --json
    prints_part '{"passages":1500,"queries":100,"k":10,"ef":1500,"recall":1,'
done

title '--check measures what --hnsw misses: with fewer candidates less is found'
python3 -S -E - "$QKV_BIN" <<'PY' || failed 'recall'
# recall of the command against a count of the matches of both searches
import json, subprocess, sys
run = lambda *a: subprocess.run([sys.argv[1], "search", "f32.qkvi", *a], capture_output=True, text=True, check=True).stdout
check = lambda k, ef: json.loads(run("--check", "--sample", "1500", "-k", str(k), "--ef", str(ef), "--json"))
few, many = check(10, 1), check(10, 200)
assert few["queries"] == 1500 and .2 < few["recall"] < many["recall"] <= 1, (few, many)
assert many["recall"] > .9, many
# the lines themselves as questions, without the nearest match, which is the line
with open("lines.txt") as f: questions = f.read()
def search(*a):
    p = subprocess.run([sys.argv[1], "search", "f32.qkvi", "-f", "lines.txt", "-k", "11", "--json", *a],
                       capture_output=True, text=True, check=True)
    return [[(h["passage"], h["score"]) for h in json.loads(line)["hits"]] for line in p.stdout.splitlines()]
found = wanted = 0
for i, (exact, near) in enumerate(zip(search(), search("--hnsw", "--ef", "1"))):
    exact, near = ([h for h in hits if h[0] != i][:10] for hits in (exact, near))
    wanted += len(exact)
    found += sum(score >= exact[-1][1] for _, score in near)
assert abs(found / wanted - few["recall"]) < 1e-5, (found / wanted, few)
PY

title 'an update keeps the graph right: it has the bytes of a new one, and stays if nothing changed'
mkdir u
split -l 100 lines.txt u/
runs 0 index u -o u.qkvi --split lines --hnsw
runs 0 index u -o u.qkvi --split lines --update --json
prints_part '"kept":true}}'
printf 'z y x\n' >>u/aa
runs 0 index u -o u.qkvi --split lines --update --json
prints_part '"kept":false}}'
runs 0 index u -o new.qkvi --split lines --hnsw
check cmp u.qkvi.hnsw new.qkvi.hnsw
check test "$(ls)" = "$(ls | grep -v tmp)"
runs 0 search u.qkvi 'z y x' -k 1 --hnsw --json
prints_part '"text":"z y x"'

title 'a graph of another state of the index is refused, and made again; without --hnsw it is removed'
cp f32.qkvi.hnsw u.qkvi.hnsw
runs 3 search u.qkvi a --hnsw
says_part 'u.qkvi.hnsw: the graph belongs to another state of the index'
runs 0 search u.qkvi a
runs 0 index u -o u.qkvi --split lines --update
check cmp u.qkvi.hnsw new.qkvi.hnsw
runs 0 index u -o u.qkvi --split lines --force
check test ! -e u.qkvi.hnsw
runs 6 search u.qkvi a --hnsw
says_part "the index has no graph; 'qkv index FILE... -o NAME --update --hnsw' builds it"

title 'options that do not belong together'
runs 2 search f32.qkvi a --ef 5
says_part '--ef requires --hnsw or --check'
runs 2 search f32.qkvi a --sample 5
runs 2 search f32.qkvi a --check
says_part 'expected no question'
printf x >new2.qkvi.hnsw
runs 2 index few.txt -o new2.qkvi --hnsw
says_part 'new2.qkvi.hnsw'
check test ! -e new2.qkvi

title 'an index of no or one passage'
: >empty.txt
runs 0 index empty.txt -o e.qkvi --hnsw
runs 0 search e.qkvi a --hnsw --json
prints '{"question":"a","hits":[]}'
runs 0 search e.qkvi --check
echo a >one.txt
runs 0 index one.txt -o one.qkvi --hnsw
runs 0 search one.qkvi a --hnsw
runs 0 search one.qkvi --check --json
prints_part '"recall":1,'

title 'malformed graphs are errors: other bytes, and other numbers with the right SHA-256'
python3 -S -E - "$QKV_BIN" <<'PY' || failed 'malformed graphs'
import hashlib, random, struct, subprocess, sys
good = open("i.qkvi.hnsw", "rb").read()
def search(data):
    with open("i.qkvi.hnsw", "wb") as f: f.write(data)
    p = subprocess.run([sys.argv[1], "search", "i.qkvi", "a", "--hnsw"], capture_output=True, text=True)
    assert p.returncode == 0 or "qkv: i.qkvi.hnsw: " in p.stderr, p
    return p.returncode
assert search(good) == 0
for cut in (0, 7, 8, 143, 144, 160, len(good) - 4, len(good) - 1):
    assert search(good[:cut]) == 3, cut
assert search(good + b"\0") == 3
random.seed(7)
for i in range(60):
    data = bytearray(good)
    data[random.randrange(len(good))] ^= 1 << random.randrange(8)
    assert search(data) == 3, i
sealed = lambda body: good[:8] + struct.pack("<Q", len(body)) + good[16:80] + hashlib.sha256(body).hexdigest().encode() + body
body = good[144:]
assert search(sealed(body)) == 0
n = len(body) // 4
links, count, entry, top = struct.unpack("<4I", body[:16])
assert count == 20
for place, value in ((0, 0), (0, 1), (0, 65), (0, 2**32 - 1), (1, 19), (1, 21), (1, 2**32 - 1), (2, 20), (2, 2**32 - 1),
                     (3, top + 1), (3, 31), (3, 2**32 - 1), (4, 32), (4, 2**32 - 1), (5, 33), (5, 2**32 - 1), (6, 0), (6, 20),
                     (6, 2**32 - 1)):
    numbers = list(struct.unpack(f"<{n}I", body))
    assert numbers[place] != value, (place, value)
    numbers[place] = value
    assert search(sealed(struct.pack(f"<{n}I", *numbers))) == 3, (place, value)
for cut in range(0, len(body), 52): assert search(sealed(body[:cut])) == 3, cut
assert search(sealed(body + bytes(4))) == 3
for i in range(150): # any numbers: an answer or an error
    numbers = list(struct.unpack(f"<{n}I", body))
    for _ in range(1 + i % 4): numbers[random.randrange(n)] = random.choice((0, 1, 2, 19, 20, 2**31, 2**32 - 1, random.randrange(40)))
    assert search(sealed(struct.pack(f"<{n}I", *numbers))) in (0, 3), i
PY
finish
