# SPDX-License-Identifier: MIT
# index.sh: tests qkv index: its passages, updates, refusals, and malformed indexes.
. tests/cli/lib.sh
export QKV_MODEL="$here/../golden/bert" # small and fast: 35 numbers, 11 tokens; each word of these texts is a token
printf 'one line\n' >probe.txt
"$QKV_BIN" index probe.txt -o probe.qkvi >"$out" 2>"$err"
[ $? -ne 4 ] || { cat "$err"; echo 'skipped: qkv was built without libsqlite3'; exit 77; }

# select SQL: prints rows of i.qkvi, values separated by |
select() { python3 -S -E - "${2:-i.qkvi}" "$1" <<'PY'
import sqlite3, sys
for row in sqlite3.connect(f"file:{sys.argv[1]}?mode=ro&immutable=1", uri=True).execute(sys.argv[2]):
    print("|".join("" if v is None else str(v) for v in row))
PY
}
# has SQL TEXT: the rows are this text
has() { [ "$(select "$1")" = "$2" ] || failed "rows of '$1' are: $(select "$1" | head -n 20)"; }

title 'lines: each line is a passage with its number; blank lines are left out'
printf '\357\273\277a happy dog\r\n\n  \t\ntax law\nthe last line' >lines.txt
runs 0 index lines.txt -o i.qkvi
silent
prints_part 'i.qkvi: 3 passages of 1 file, 35 x f32'
has 'SELECT id, line, text FROM passage' '1|1|a happy dog
2|4|tax law
3|5|the last line'
has 'SELECT name, bytes, passages FROM file' 'lines.txt|42|3'
[ "$(select 'SELECT sha256 FROM file')" = "$(sha256sum <lines.txt | cut -d' ' -f1)" ] || failed 'SHA-256'

title 'qkv info says what an index is'
runs 0 info i.qkvi
prints_part 'index of 3 passages of 1 file, 35 x f32'
prints_part 'graph      none'
runs 0 info i.qkvi --json
python3 -S -E - "$out" "$QKV_MODEL" <<'PY' || failed 'JSON of qkv info'
import json, os, sys
with open(sys.argv[1]) as f: found = json.load(f)
assert found["index"] == "i.qkvi" and found["passages"] == 3 and found["files"] == 1, found
assert found["vectors"] == "f32" and found["width"] == 35 and found["bytes"] == os.path.getsize("i.qkvi"), found
assert os.path.realpath(found["model"]) == os.path.realpath(sys.argv[2]) and found["graph"] is None, found
PY
runs 6 info none.qkvi
printf 'no index' >no.qkvi
runs 3 info no.qkvi
says_part 'no.qkvi: no index, or a malformed one'

title 'the vectors are the ones of qkv embed, in each type'
printf 'a happy dog\ntax law\nthe last line\n' >plain.txt
runs 0 embed -f plain.txt -o v.npy
for type in f32 bf16 int8; do
    runs 0 index lines.txt -o $type.qkvi --vectors $type
    python3 -S -E - $type <<'PY' || failed "vectors of $type"
import array, struct, sys
kind = sys.argv[1]
data = open(kind + ".qkvi", "rb").read()
at = struct.unpack(">I", data[28:32])[0] * 4096
want = array.array("f", open("v.npy", "rb").read()[128:])
n, width = 3, 35
rows = data[at:]
for i in range(n):
    x = want[i * width:(i + 1) * width]
    if kind == "f32":
        assert len(rows) == n * width * 4 and array.array("f", rows[i * width * 4:(i + 1) * width * 4]) == x
    elif kind == "bf16":
        assert len(rows) == n * width * 2
        got = struct.unpack(f"<{width}H", rows[i * width * 2:(i + 1) * width * 2])
        for g, w in zip(got, x):
            assert abs(struct.unpack("<f", struct.pack("<I", g << 16))[0] - w) <= abs(w) * 2**-8
    else:
        scales = (n * width + 63) // 64 * 64
        assert len(rows) == scales + 4 * n
        scale = struct.unpack("<f", rows[scales + 4 * i:scales + 4 * i + 4])[0]
        assert abs(scale * 127 - max(map(abs, x))) < 1e-6
        for g, w in zip(struct.unpack(f"{width}b", rows[i * width:(i + 1) * width]), x):
            assert abs(g * scale - w) <= scale * .5001
PY
done

title 'JSON lines: the text, the id and the metadata'
cat >d.jsonl <<'JSON'
{"id": "a-1", "text": "a \"joyful\" puppy\nand more", "year": 1999, "tags": ["x", {"y": null}]}
{"id": 7, "text": "tax law"}

{"text": "no id"}
JSON
runs 0 index d.jsonl -o i.qkvi --force
has "SELECT line, replace(text, char(10), '~'), key, metadata FROM passage" '1|a "joyful" puppy~and more|"a-1"|{"year":1999,"tags":["x",{"y":null}]}
2|tax law|7|
4|no id||'
printf '{"body": "one", "text": "other"}\n' >b.jsonl
runs 0 index b.jsonl -o i.qkvi --force --field body
has 'SELECT text, metadata FROM passage' 'one|{"text":"other"}'
printf '{"text": "fine"}\n{"text": 3}\n' >b.jsonl
runs 3 index b.jsonl -o bad.qkvi
says 'qkv: b.jsonl: at line 2: expected a text in the member "text", found integer'
printf '{"text": "fine"}\n{"text": \n' >b.jsonl
runs 3 index b.jsonl -o bad.qkvi
says 'qkv: b.jsonl: at line 2, column 10: malformed JSON, expected a value, found the end'
printf '{"text": "fine"}\n{"text": "a", "x": 1, "text": "b"}\n' >b.jsonl
runs 3 index b.jsonl -o bad.qkvi
says 'qkv: b.jsonl: at line 2, column 23: duplicate key in a JSON object, expected each key once, found "text"'
# SQLite accepts these
while IFS='|' read -r column line; do
    printf '\n{"text": "fine"}\n%s\n' "$line" >b.jsonl
    runs 3 index b.jsonl -o bad.qkvi
    says_part "qkv: b.jsonl: at line 3, column $column: "
done <<'LINES'
29|{"text": "a", "x": {"y": 1, "y": 2}}
20|{"text": "a", "x": 1e999}
27|{"text": "a", "x": "\ud800"}
LINES
printf '\n{"text": "fine"}\n{"text": "a", "x": "a\ttab"}\n' >b.jsonl
runs 3 index b.jsonl -o bad.qkvi
says_part 'qkv: b.jsonl: at line 3, column 22: '
printf '["fine"]\n' >b.jsonl
runs 3 index b.jsonl -o bad.qkvi
says_part 'expected a JSON object'
runs 3 index d.jsonl -o bad.qkvi --field nothing
says_part 'found no such member'
check test ! -e bad.qkvi

title 'a folder: passages are sentences of its texts, with the line where they begin'
mkdir -p f/below f/.hidden
printf 'First sentence. Second one is here!\nThird "sentence?" Fourth\n\nA new paragraph' >f/a.txt
printf 'Hidden.' >f/.hidden/x.txt
printf 'binary\0file' >f/below/b.bin
printf '\xe7\xac\xac\xe4\xb8\x80\xe3\x80\x82\xe7\xac\xac\xe4\xba\x8c\xe3\x80\x82' >f/below/c.md
ln -s a.txt f/link.txt
runs 0 index f -o i.qkvi --force --chunk 6
says 'qkv: note: files without text (they contain a byte 0) were skipped: 1, the first is f/below/b.bin'
has 'SELECT name FROM file' 'f/a.txt
f/below/b.bin
f/below/c.md'
has "SELECT line, text FROM passage WHERE file = 1" '1|First sentence.
1|Second one is here!
2|Third "sentence?" Fourth
4|A new paragraph'
runs 0 index f/a.txt --split sentences --chunk 10 --overlap 6 -o i.qkvi --force
has "SELECT line, replace(text, char(10), '~') FROM passage" '1|First sentence. Second one is here!
1|Second one is here!~Third "sentence?"
2|Third "sentence?" Fourth~~A new paragraph'

title 'the number of a section ends no passage, and a heading stays with the text below it'
printf '## 1. Cats\n\nA cat. In 99.\n\n## 2.1. Dogs\nA dog.\n1. one\n2. two\n' >f/list.md
runs 0 index f/list.md --split sentences -o i.qkvi --force
has "SELECT line, replace(text, char(10), '~') FROM passage" '1|## 1. Cats~~A cat. In 99.
5|## 2.1. Dogs~A dog.
7|1. one~2. two'
printf '# 1. A\nB.\n\n# 2. C\nD.\n' >f/list.md # the second heading fits into the first passage
runs 0 index f/list.md --split sentences -o i.qkvi --force
has "SELECT line FROM passage" '1
4'
rm f/list.md

title 'a sentence with more tokens than a passage is split between words'
printf 'alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi omicron pi rho' >long.txt
runs 0 index long.txt --split sentences --chunk 3 -o i.qkvi --force
[ "$(select 'SELECT text FROM passage' | tr '\n' ' ')" = "$(cat long.txt) " ] || failed 'the words of the pieces'
[ "$(select 'SELECT count(*) > 4 FROM passage')" = 1 ] || failed 'number of pieces'
# also where the spaces are tokens of their own, or the beginning of a token
runs 0 index long.txt --model "$here/../golden/qwen3_forms/embedding" --split sentences --chunk 8 -o i.qkvi --force
[ "$(select 'SELECT text FROM passage' | tr '\n' ' ')" = "$(cat long.txt) " ] || failed 'the words of the pieces of bytes'

title 'an update has the bytes of an index that is made from all files, and embeds only what changed'
mkdir u
for n in 1 2 3 4 5; do printf 'text %s\nsecond line of %s\n' $n $n >u/$n.txt; done
runs 0 index u -o u.qkvi
cp u.qkvi first.qkvi
runs 0 index u -o u.qkvi --update --json
prints_part '"embedded":0,"added":0,"changed":0,"unchanged":5,"removed":0'
check cmp u.qkvi first.qkvi
printf 'another text\n' >u/2.txt
rm u/4.txt
printf 'new\n' >u/6.txt
runs 0 index u -o u.qkvi --update --json
prints_part '"embedded":2,"added":1,"changed":1,"unchanged":3,"removed":1'
runs 0 index u -o scratch.qkvi
check cmp u.qkvi scratch.qkvi
runs 0 index u -o fresh.qkvi --update
check cmp fresh.qkvi scratch.qkvi
for type in f32 bf16 int8; do
    runs 0 index u -o $type.qkvi --vectors $type --force
    for number in nan inf; do
        cp $type.qkvi damaged.qkvi
        damage damaged.qkvi $type $number 3
        runs 0 index u -o damaged.qkvi --update --vectors $type --json
        prints_part '"embedded":1,"added":0,"changed":0,"unchanged":5,"removed":0'
        check cmp damaged.qkvi $type.qkvi
    done
done
runs 2 index u -o u.qkvi
says_part 'the index exists already, expected a new name, --update to embed what changed, or --force to replace it'
runs 2 index u -o u.qkvi --update --chunk 64
says_part "--chunk differs from that of the index, expected '128', found '64'"
runs 2 index u -o u.qkvi --update --vectors int8
says_part '--vectors differs'
check cmp u.qkvi scratch.qkvi

title 'a file that was given by its name and is then found in its folder is read again, and the reverse'
mkdir kind
printf 'one line. a second one.\nthe third\n' >kind/a.txt
runs 0 index kind -o kind.qkvi
runs 0 index kind/a.txt -o line.qkvi
cp line.qkvi k.qkvi
runs 0 index kind -o k.qkvi --update --json
prints_part '"changed":1,"unchanged":0'
check cmp k.qkvi kind.qkvi
runs 0 index kind/a.txt -o k.qkvi --update
check cmp k.qkvi line.qkvi
printf 'a\0b' >kind/b.bin # skipped in a folder, an error by its name
runs 0 index kind -o b.qkvi --split sentences
runs 3 index kind/a.txt kind/b.bin -o b.qkvi --split sentences --update
says_part 'found a byte 0'

title 'each file is indexed once, however its folder is spelled; a hard link is another file'
mkdir once
printf 'text\n' >once/1.txt
for again in ./once once/ "$PWD/once" once/../once once/1.txt ./once/1.txt; do
    runs 0 index once "$again" -o i.qkvi --force
    has 'SELECT count(*) FROM file' 1
done
has 'SELECT name, folder FROM file' './once/1.txt|0'
ln once/1.txt once/2.txt
runs 0 index once -o i.qkvi --force
has 'SELECT name FROM file' 'once/1.txt
once/2.txt'

# A preloaded library makes a file grow when it is opened a second time; a sanitizer's runtime does not allow it.
if [ -z "${QKV_SLOW:-}" ] && [ -f "${QKV_GROW:-}" ]; then
    title 'a file that grows while it is read is stored with the digest of the bytes that were read'
    for split in lines sentences; do
        printf 'first\n' >log.txt
        LD_PRELOAD=$QKV_GROW QKV_GROWS=log.txt runs 0 index log.txt -o log.qkvi --split $split --force
        runs 0 index log.txt -o i.qkvi --split $split --force
        check cmp log.qkvi i.qkvi
        printf 'other\n' >log.txt
        LD_PRELOAD=$QKV_GROW QKV_GROWS=log.txt runs 0 index log.txt -o log.qkvi --split $split --update
        [ "$(wc -l <log.txt)" = 2 ] || failed 'the file did not grow'
        printf 'other\n' >log.txt
        runs 0 index log.txt -o log.qkvi --split $split --update
        runs 0 index log.txt -o i.qkvi --split $split --force
        check cmp log.qkvi i.qkvi
    done
fi

title 'two commands do not write one index at the same time'
python3 -S -E - u.qkvi "$QKV_BIN" <<'PY' || failed 'lock'
import fcntl, subprocess, sys
with open(sys.argv[1]) as f:
    fcntl.flock(f, fcntl.LOCK_EX)
    p = subprocess.run([sys.argv[2], "index", "u", "-o", sys.argv[1], "--update"], capture_output=True, text=True)
    assert p.returncode == 6 and "another qkv index writes this index" in p.stderr, p
PY
check cmp u.qkvi scratch.qkvi
python3 -S -E - "$QKV_BIN" <<'PY' || failed 'lock after the commit'
# a command that waits for its standard output has written the index and has not ended
import os, subprocess, sys, time
def blocked(*args):
    r, w = os.pipe()
    os.set_blocking(w, False)
    try:
        while True: os.write(w, bytes(4096))
    except BlockingIOError: pass
    os.set_blocking(w, True)
    return r, subprocess.Popen([sys.argv[1], "index", "u", "-o", "held.qkvi", *args], stdout=w)
def inode():
    try: return os.stat("held.qkvi").st_ino
    except FileNotFoundError: return 0
for args in [], ["--update"]:
    before = inode()
    r, p = blocked(*args)
    while inode() == before and p.poll() is None: time.sleep(.01)
    assert p.poll() is None
    second = subprocess.run([sys.argv[1], "index", "u", "-o", "held.qkvi", "--update"], capture_output=True, text=True)
    p.kill()
    p.wait()
    os.close(r)
    assert second.returncode == 6 and "another qkv index writes this index" in second.stderr, (args, second)
PY
runs 0 index u -o held.qkvi --update
check cmp held.qkvi scratch.qkvi
python3 -S -E - "$QKV_BIN" <<'PY' || failed 'lock of the first run'
# the temporary file of another command that writes this index for the first time
import fcntl, hashlib, os, subprocess, sys
def run(name):
    return subprocess.run([sys.argv[1], "index", "u", "-o", name], capture_output=True, text=True)
with open("begins.qkvi.tmp.1.1", "w") as f, open("begins.qkvi.tmp.x", "w") as other:
    fcntl.flock(f, fcntl.LOCK_EX)
    p = run("./begins.qkvi")
    assert p.returncode == 6 and "another qkv index writes this index" in p.stderr, p
    assert not os.path.exists("begins.qkvi") and run("another.qkvi").returncode == 0
# of a long name, the temporary name has the first 80 bytes, 16 digits of its SHA-256 and the last 16 bytes
for long in "l" * 250 + ".qkvi", "l" * 240 + ".tmp.x.qkvi":
    digits = hashlib.sha256(long.encode()).hexdigest()[:16]
    left = f"{long[:80]}~{digits}{long[-16:]}.tmp.1.1"
    with open(left, "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        p = run(long)
        assert p.returncode == 6 and "another qkv index writes this index" in p.stderr, p
    # the temporary file of another long name stays, that of a command that was killed is removed
    with open(f"{long[:80]}~0123456789abcdef{long[-16:]}.tmp.1.1", "w") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        assert run(long).returncode == 0 and not os.path.exists(left)
    os.unlink(long)
    os.unlink(f.name)
p = run("begins.qkvi")
assert p.returncode == 0 and not os.path.exists("begins.qkvi.tmp.1.1"), p
os.unlink("begins.qkvi.tmp.x")
# of many commands that begin together, one writes the index
all = [subprocess.Popen([sys.argv[1], "index", "u", "-o", "once.qkvi"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
       for _ in range(8)]
ends = [(p.communicate()[1], p.returncode) for p in all]
assert sum(code == 0 for _, code in ends) == 1, ends
assert min(code == 0 or "writes this index" in said or "exists already" in said for said, code in ends), ends
PY
check cmp once.qkvi scratch.qkvi
check cmp begins.qkvi scratch.qkvi

title 'invalid UTF-8 is replaced with a note, or refused; a byte 0 in a line is an error'
printf 'good\nbad \377 byte\n' >bad.txt
runs 0 index bad.txt -o i.qkvi --force
says 'qkv: note: passages with invalid UTF-8, which was replaced by U+FFFD: 1, the first in bad.txt, line 2'
runs 3 index bad.txt -o i.qkvi --force --strict
says 'qkv: bad.txt: at line 2: invalid UTF-8, which --strict refuses'
printf '{"text": "fine", "x": "\377"}\n' >bad.jsonl
runs 0 index bad.jsonl -o i.qkvi --force
runs 3 index bad.jsonl -o i.qkvi --force --strict
printf 'good\nbad \0 byte\n' >zero.txt
runs 3 index zero.txt -o i.qkvi --force
says 'qkv: zero.txt: at line 2: expected a text, found a byte 0'

title 'a passage that is too long is an error with file and line, or truncated'
{ echo short; seq 1000 | tr '\n' ' '; echo; } >toolong.txt
runs 2 index toolong.txt -o i.qkvi --force
says_part 'toolong.txt: at line 2: '
runs 0 index toolong.txt -o i.qkvi --force --truncate
says_part 'passages that were truncated to 13 tokens: 1'

title 'refusals before any work'
echo a >./-
runs 2 index - -o dash.qkvi
says 'qkv: standard input cannot be indexed, expected a file or a folder'
runs 0 index ./- -o dash.qkvi
rm ./-
runs 2 index lines.txt
says_part 'expected an output file, -o FILE.qkvi, found none'
runs 2 index lines.txt -o i.db
says_part 'found -o i.db'
runs 6 index nothing.txt -o n.qkvi
says_part 'nothing.txt: cannot open'
runs 2 index u.qkvi -o u.qkvi --force
says_part 'an input and an output at once'
runs 2 index u -o n.qkvi --chunk 4 --overlap 4
says_part '--overlap'
runs 2 index -o n.qkvi
check test ! -e n.qkvi

title 'a malformed index is an error with the file and the reason'
runs 0 index u -o good.qkvi --vectors int8 --force
bytes=$(wc -c <good.qkvi)
head -c $((bytes - 1)) good.qkvi >m.qkvi
runs 3 search m.qkvi text
says_part 'qkv: m.qkvi: vectors have another size, expected '
{ cat good.qkvi; echo; } >m.qkvi
runs 3 search m.qkvi text
says_part 'vectors have another size'
for cut in 0 1 99 100 4096 9000; do
    head -c $cut good.qkvi >m.qkvi
    runs 3 search m.qkvi text
    says_part 'qkv: m.qkvi: '
done
head -c 20000 /dev/urandom >m.qkvi
runs 3 search m.qkvi text
says_part 'm.qkvi: no index, or a malformed one: '
python3 -S -E - <<'PY'
# each change of the database makes one file
import os, shutil, sqlite3
changes = {
    "version": "PRAGMA user_version = 9",
    "earlier": "PRAGMA user_version = 1",
    "other": "PRAGMA application_id = 5",
    "width": "UPDATE setting SET value = '99999999999' WHERE name = 'width'",
    "negative": "UPDATE setting SET value = '-384' WHERE name = 'width'",
    "kind": "UPDATE setting SET value = 'f64' WHERE name = 'vectors'",
    "missing": "DELETE FROM setting WHERE name = 'model'",
    "rows": "DELETE FROM passage WHERE id = 1",
    "files": "DELETE FROM file",
    "ids": "UPDATE passage SET id = id + 1000",
    "view": "CREATE VIEW v AS SELECT * FROM passage",
    "trigger": "CREATE TRIGGER t AFTER INSERT ON passage BEGIN DELETE FROM file; END",
    "names": "UPDATE file SET name = '../../../etc/passwd' WHERE id = 1",
    "json": "UPDATE passage SET key = '{', metadata = 'x'",
    "blob": "UPDATE passage SET text = x'ff00ff', line = 'abc'",
    "empty": "UPDATE passage SET text = x'', key = x''",
}
data = open("good.qkvi", "rb").read()
pages = int.from_bytes(data[28:32], "big") * 4096
for name, sql in changes.items():
    with open("db", "wb") as f: f.write(data[:pages])
    c = sqlite3.connect("db")
    c.execute(sql)
    c.commit()
    c.close()
    with open("db", "rb") as f: changed = f.read()
    with open(f"m-{name}.qkvi", "wb") as f: f.write(changed + data[pages:])
PY
runs 4 search m-version.qkvi text
says 'qkv: m-version.qkvi: a later version of qkv wrote the index, expected version 2, found 9'
for name in earlier other width negative kind missing rows ids files view trigger; do
    runs 3 search m-$name.qkvi text
    says_part "qkv: m-$name.qkvi: "
done
# names are printed and compared, never opened; what is no JSON is left out
runs 0 search m-names.qkvi text
prints_part '../../../etc/passwd:1'
runs 0 index u -o m-names.qkvi --update --vectors int8
check cmp m-names.qkvi good.qkvi
for name in json blob empty; do
    "$QKV_BIN" search m-$name.qkvi text --json >"$out" 2>"$err"
    check test $? -lt 4
done
python3 -S -E - "$QKV_BIN" <<'PY' || failed 'flipped bytes'
# a flipped byte of the database may change a text, but never crashes
import os, random, subprocess, sys
random.seed(5)
data = open("good.qkvi", "rb").read()
pages = int.from_bytes(data[28:32], "big") * 4096
for i in range(10 if os.environ.get("QKV_SLOW") else 40):
    broken = bytearray(data)
    for _ in range(1 + i % 3): broken[random.randrange(100 if i % 2 else pages)] ^= 1 << random.randrange(8)
    with open("flip.qkvi", "wb") as f: f.write(broken)
    code = subprocess.run([sys.argv[1], "search", "flip.qkvi", "text"], capture_output=True).returncode
    assert 0 <= code <= 6, (i, code)
PY

title 'a folder with 10,000 files'
python3 -S -E -c '
import os
os.mkdir("many")
for i in range(10000):
    with open(f"many/{i:05}.txt", "w") as f: f.write("" if i % 100 else "some text")
'
if [ "${QKV_SLOW:-}" ]; then rm -r many/0[1-9]*; fi
runs 0 index many/00001.txt many -o many.qkvi --vectors int8 --json
silent
prints_part '"skipped":0'
runs 0 index many -o many.qkvi --vectors int8 --update --json
prints_part '"embedded":0,"added":0,"changed":1,' # 00001.txt was given by its name
finish
