# SPDX-License-Identifier: MIT
# view_more.sh: tests qkv view on models of two stacks, generated text, comparisons with another model or text, and
# weights from files.
. tests/cli/lib.sh
dates=$here/../../models/dates
verse=$here/../../models/verse
[ -f "$dates/model.safetensors" ] && [ -f "$verse/model.safetensors" ] || {
    echo 'skipped: models/dates and models/verse are not here'
    exit 77
}

title 'a model of two stacks: encoder, decoder and cross-attention'
runs 0 view 'the third of may 1998' -m "$dates" --stack cross --terminal
silent
runs 0 view 'the third of may 1998' '1998-05-03' -m "$dates" -o dates.html --json
prints_part '"stack":"cross"'
check grep -q '"name":"decoder","rows":1,"keys":1' dates.html
check grep -q '"name":"cross","rows":2,"keys":0' dates.html
runs 0 view 'the third of may 1998' -m "$dates" --stack encoder --terminal --json
prints_part '"stack":"encoder"'
runs 0 view 'the third of may 1998' -m "$dates" --view residual --terminal --json
prints_part '"stack":"decoder"'
runs 0 view 'the third of may 1998' -m "$dates" --stack decoder --view residual --terminal
prints_part '   cross    cos'
runs 4 view 'the third of may 1998' -m "$dates" --stack cross --view residual --terminal
says_part 'residual stream of layer 0 of "cross"'
runs 2 view 'the third of may 1998' -m "$dates" --stack middle --terminal
says 'qkv: --stack: unknown attention of this model, expected one of encoder, decoder, cross, found '"'middle'"

title 'generated text is shown with its prompt'
runs 0 view 'ACT I' -m "$verse" --generate 12 -o verse.html --json
prints_part '"kind":"dense"'
check grep -q '"source":\["ACT I' verse.html
runs 4 view 'the third of may' -m "$dates" --generate 5 --terminal
says_part '--generate requires a decoder'

title 'a text compared with itself has divergence 0, with another text more'
runs 0 view 'to be or not' -m "$verse" --against 'to be or not' -o same.html --json
prints_part '"bits":0}'
[ "$(grep -o '"bits":0}' "$out" | wc -l)" = "$(grep -o '"bits":' "$out" | wc -l)" ] || failed 'a head moved'
check grep -q '"against":{"model"' same.html
runs 0 view 'to be or not' -m "$verse" --against 'to be and not' --terminal
prints_part 'Heads that changed most, Jensen-Shannon divergence in bits'
prints_part 'mean of 4 rows: those whose token is the same in both texts'
check grep -qE '^key +A +B +change$' "$out"
check grep -qE '^to +\.35 +\.26 +−\.09$' "$out"
sentence='“not” in L3.H0: “to” .35 → .26, “not” .17 → .13.'
prints_part "$sentence"
runs 0 view 'to be or not' -m "$verse" --against 'to be and not' --terminal --json
prints_part "\"sentence\":\"$sentence\""
runs 0 view 'to be or not' -m "$verse" --against 'to be and not' --view compare -o changed.svg
check grep -qF "$sentence" changed.svg
runs 0 view 'to be or not' -m "$verse" --against 'to be and not' --token or --terminal
prints_part '“or” has no counterpart in B.'
runs 0 view 'to be or not' -m "$verse" --against "$verse" -o models.html --json
prints_part '"bits":0}'

title 'a picture of two models names them, one of two texts shows the texts'
cp -r "$verse" twin
runs 0 view 'to be or not' -m "$verse" --against twin --view compare -o models.svg
check grep -q '>verse</text>' models.svg
check grep -q '>twin</text>' models.svg
runs 0 view 'to be or not' -m "$verse" --against 'to be and not' --view compare -o texts.svg
! grep -q '>verse</text>' texts.svg || failed 'the name of a model between texts'
[ "$(grep -cE '>to be (or|and) not</text>' texts.svg)" -eq 2 ] || failed 'the texts'
end='the question is whether it is nobler in the mind to suffer the slings and arrows'
runs 0 view "to be or not $end" -m "$verse" --against "to be and not $end" --view compare -o long.svg
check grep -q '>or not the question is .*…</text>' long.svg
check grep -q '>and not the question is .*…</text>' long.svg

title 'the axes of a picture name repeated words with their places'
for view in matrix heads; do
    runs 0 view 'to be or not to be' -m "$verse" --view $view -o axes.svg --force
    check grep -q '>be₂</text>' axes.svg
    check grep -q '>or</text>' axes.svg
done

title 'the displayed numbers as files'
runs 0 view 'to be or not' -m "$verse" --layer 1 --heads 0,2 -o shown.npy --terminal
runs 0 view 'to be or not' -m "$verse" --layer 1 -o opened.npy --terminal
runs 0 view 'to be or not' -m "$verse" --layer 1 --heads 0,2 --token be -o shown.csv --terminal
python3 - <<'PY' || failed 'the numbers'
import csv, struct
opened = open('opened.npy', 'rb').read()  # all rows, although the view opens on one
shape = eval(opened[10:10 + struct.unpack('<H', opened[8:10])[0]])['shape']
assert shape[1] == shape[2] > 1, shape
b = open('shown.npy', 'rb').read()
shape = eval(b[10:10 + struct.unpack('<H', b[8:10])[0]])['shape']
w = struct.unpack('<%df' % (shape[0] * shape[1] * shape[2]), b[10 + struct.unpack('<H', b[8:10])[0]:])
assert shape[0] == 2 and shape[1] == shape[2], shape
rows = list(csv.DictReader(open('shown.csv', encoding='utf-8')))
assert len(rows) == 2 * shape[2] and {r['head'] for r in rows} == {'0', '2'}, len(rows)
for r in rows:
    h, i, j = (0 if r['head'] == '0' else 1), int(r['query']), int(r['key'])
    assert abs(w[(h * shape[1] + i) * shape[2] + j] - float(r['weight'])) < 1e-6, r
PY

title 'weights from other programs, and their errors'
python3 - <<'PY'
import struct
def npy(name, shape, values):
    head = "{'descr': '<f4', 'fortran_order': False, 'shape': %r, }" % (shape,)
    head += ' ' * (-(len(head) + 11) % 64) + '\n'
    open(name, 'wb').write(b'\x93NUMPY\x01\x00' + struct.pack('<H', len(head)) + head.encode() + struct.pack('<%df' % len(values), *values))
even = [.25] * (2 * 1 * 3 * 4 * 4)
npy('w.npy', (2, 1, 3, 4, 4), even)
npy('one.npy', (3, 4, 4), [.5] * 4 + even[:44])
npy('nan.npy', (3, 4, 4), [float('nan')] * 4 + even[:44])
npy('sure.npy', (1, 4, 4), even[:4] + [0, .996, .004, 0] + even[:8])
npy('flat.npy', (12, 4), even[:48])
npy('batch.npy', (1, 2, 3, 4, 4), even)
npy('scores.npy', (3, 4, 4), [-1.] + even[:47])
npy('across.npy', (3, 2, 4), even[:24])
npy('single.npy', (3, 1, 4), even[:12])
open('t.txt', 'w').write('[CLS]\nthe\ncat\nsat\n')
open('two.txt', 'w').write('le\nchat\n')
PY
runs 0 view --attention w.npy --tokens t.txt -o w.html --json
prints_part '{"file":"w.html","model":"w.npy","tokens":4,"layers":2,"heads":3'
runs 0 view --attention one.npy --tokens t.txt -o one.html --terminal
prints_part '1 row does not sum to 1'
runs 0 view --attention nan.npy --tokens t.txt -o nan.html --terminal
prints_part '1 row contains NaN or Inf'
# A bar has the print of its weight in the sentence, also near 1.
runs 0 view --attention sure.npy --tokens t.txt --token the --terminal
prints_part 'the      1.00 █'
prints_part 'cat       .00'
prints_part '“the” attends to itself 1.00'
runs 0 view --attention nan.npy --tokens t.txt --layer 0 --heads 0 --token 0 -o nan.svg
check grep -q 'The weights of .CLS. are not numbers' nan.svg
runs 4 view --attention w.npy --tokens t.txt --view residual --terminal
runs 2 view --attention w.npy --tokens t.txt -m "$verse" --terminal
says_part 'cannot be combined with a text or a model'
runs 2 view 'to be or not' -m "$verse" --layers 9 --terminal
says 'qkv: --layers: layer out of range, found 9, expected 0 to 3'
runs 0 view --attention across.npy --tokens two.txt --key-tokens t.txt --terminal
prints_part '2 tokens that attend to 3' # [CLS] is hidden
echo le >single.txt
runs 0 view --attention single.npy --tokens single.txt --key-tokens t.txt --terminal --special
prints_part '1 token that attends to 4'
runs 3 view --attention flat.npy --tokens t.txt --terminal
says_part 'attention weights have the shape (12, 4), expected (layer, batch, head, row, key)'
runs 3 view --attention batch.npy --tokens t.txt --terminal
says_part 'expected the size 1 for the axis batch'
runs 3 view --attention scores.npy --tokens t.txt --terminal
says_part 'attention weight of layer 0, head 0, row 0, key 0: expected a finite number of at least 0, found -1'
runs 2 view --attention w.npy --tokens two.txt --terminal
says_part 'wrong number of tokens: found 2, expected one for each of the 4 rows'
runs 2 view --attention across.npy --tokens two.txt --terminal
says_part '--key-tokens is missing, expected a file with the 4 keys'
runs 2 view --attention w.npy --terminal
runs 2 view 'a text' --attention w.npy --tokens t.txt
runs 2 view 'a text' -m "$verse" --tokens t.txt

title 'weights that qkv trace wrote are the same picture'
runs 0 trace 'to be or not' -m "$verse" --what attention -o trace.safetensors
n=$(python3 -c "
import json, struct
f = open('trace.safetensors', 'rb')
h = json.loads(f.read(struct.unpack('<Q', f.read(8))[0]))
print(h['attentions.0']['shape'][-1])")
seq "$n" >numbers.txt
runs 0 view --attention trace.safetensors --tokens numbers.txt --json --terminal
prints_part "\"tokens\":$n,"

title 'checkpoints of a run, one by one'
seq 400 | sed 's/$/ be or not to be that is the question/' >corpus.txt
runs 0 train corpus.txt -o run --layers 1 --width 32 --heads 2 --vocab 280 --context 32 --batch-tokens 128 --steps 4 --save-every 2
runs 0 view 'to be or not' --training run -o run.html --json
check grep -q '"training":{"frames":\[{"step":2' run.html
cp -r run/checkpoint-00000004 whole
printf x | dd of=run/checkpoint-00000004/model.safetensors bs=1 seek=3000 conv=notrunc 2>/dev/null
runs 0 view 'to be or not' --training run -o left.html
says_part 'qkv: note: the checkpoint of step 4 is left out: run/checkpoint-00000004/model.safetensors: at byte '
runs 0 view 'to be or not' --training run -o left.html --force --json
prints_part '"model":"checkpoint-00000002"'
rm run/checkpoint-00000002/model.safetensors
runs 3 view 'to be or not' --training run -o none.html
[ ! -e none.html ] || failed 'a page without checkpoints'
cp whole/model.safetensors run/checkpoint-00000004
runs 0 view 'to be or not' --training run -o last.html
says_part 'qkv: note: the checkpoint of step 2 is left out: run/checkpoint-00000002: folder without weights'
mkdir run/checkpoint-00000003
rm run/log.jsonl
mkfifo run/checkpoint-00000003/manifest.json run/log.jsonl # a FIFO is no manifest and no log
timeout 60 "$QKV_BIN" view 'to be or not' --training run -o fifo.html >"$out" 2>"$err" || failed 'a FIFO in a run'
runs 3 view 'to be or not' --training . --terminal
says_part 'folder without checkpoints, expected the folder of a training run, with folders checkpoint-N'
title 'weights in Fortran order: the same numbers, and no copy before the shapes are checked'
python3 - <<'PY'
import struct
def write(name, order, shape, numbers):
    head = ("{'descr': '<f4', 'fortran_order': %s, 'shape': %r, }" % (order, shape)).ljust(117) + "\n"
    with open(name, "wb") as f:
        f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack(f"<{len(numbers)}f", *numbers))
        return f.tell()
rows = [1, 0, 0, .5, .5, 0, .25, .25, .5]
write("c.npy", False, (1, 1, 3, 3), rows)
write("turned.npy", True, (1, 1, 3, 3), [rows[3 * i + j] for j in range(3) for i in range(3)])
n = 1 << 15
at = write("large.npy", True, (1, 1, n, n), [])
open("large.npy", "r+b").truncate(at + 4 * n * n)
PY
printf 'a\nb\nc\n' >three.txt
for name in c turned; do
    runs 0 view --attention $name.npy --tokens three.txt --view matrix -o $name.csv
done
check cmp c.csv turned.csv
if [ -z "${QKV_SLOW:-}" ]; then # a sanitizer needs more address space
    (ulimit -v $((6 << 20)) && exec "$QKV_BIN" view --attention large.npy --tokens three.txt) >"$out" 2>"$err" </dev/null
    code=$?
    [ $code -eq 2 ] || failed "exit code $code, expected 2: it takes memory for the array"
    says_part 'expected one for each of the 32768 rows of large.npy'
fi

title 'noncharacters of tokens are replaced in pictures, and cells of CSV are no formulas'
python3 - <<'PY'
import struct
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1, 1, 1, 8, 8), }".ljust(117) + "\n"
rows = [1 / (i + 1) if j <= i else 0 for i in range(8) for j in range(8)]
open("eight.npy", "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<64f", *rows))
tokens = "a\ufffeb", "\uffff", "\ufdd0", "\U0001fffe", "=1+1", "@x", "-2", "\tx"
open("tokens.txt", "w", encoding="utf-8").write("".join(t + "\n" for t in tokens))
PY
for end in svg png html csv; do
    runs 0 view --attention eight.npy --tokens tokens.txt --view matrix -o "odd.$end"
    [ -s "odd.$end" ] || failed "no odd.$end"
done
python3 - <<'PY' || failed 'the noncharacters or the cells'
import csv, re, xml.dom.minidom
text = open("odd.svg", encoding="utf-8").read()
xml.dom.minidom.parseString(text)
assert not re.search("[\ufdd0-\ufdef\ufffe\uffff\U0001fffe]", text) and "a\ufffdb" in text
assert b"a\xef\xbf\xbeb" not in open("odd.html", "rb").read().split(b"<script")[0]
cells = {row["key_token"] for row in csv.DictReader(open("odd.csv", encoding="utf-8"))}
assert {"'=1+1", "'@x", "'-2", "'\tx"} <= cells, cells
PY

title 'impossible requests are refused'
runs 2 view hello -m "$verse" -o page.pdf
says_part "expected a name that ends with .html, .svg, .png, .csv or .npy, found 'page.pdf'"
runs 2 view hello -m "$verse" --view compare
says_part '--view compare requires --against DIR|TEXT'
runs 2 view hello -m "$verse" --view training
says_part '--view training requires --training RUN'

title 'the model view states the mean distance of the heads, as trace has the weights'
text="In the beginning God created the heaven and the earth"
runs 0 trace -m "$here/../../models/verse" -o far.safetensors --what attention --force "$text"
runs 0 view -m "$here/../../models/verse" --json --terminal "$text"
cp "$out" distances.json
runs 0 view -m "$here/../../models/verse" --view model "$text"
python3 - "$out" far.safetensors distances.json <<'PY' || failed 'mean distance'
import json, re, struct, sys
b = open(sys.argv[2], "rb").read()
n = struct.unpack("<Q", b[:8])[0]
want = {}
for name, t in json.loads(b[8:8 + n]).items():
    layer = re.search(r"attentions\.(\d+)", name)
    if not layer:
        continue
    H, T = t["shape"][-3], t["shape"][-1]
    w = struct.unpack(f"<{H * T * T}f", b[8 + n + t["data_offsets"][0]:][:4 * H * T * T])
    for h in range(H):
        rows = [sum(w[(h * T + i) * T + j] * abs(i - j) for j in range(T)) for i in range(T)]
        want[int(layer[1]), h] = sum(rows[1:]) / (T - 1)  # the first token is special
said = " ".join(open(sys.argv[1], encoding="utf-8").read().split())
m = re.search(r"in tokens: shortest L(\d+)\.H(\d+) ([\d.]+), longest L(\d+)\.H(\d+) ([\d.]+); layers ([\d., ]+)\.", said)
assert m, said[-400:]
for side, found in (min, m.groups()[:3]), (max, m.groups()[3:6]):
    assert abs(want[int(found[0]), int(found[1])] - side(want.values())) < 1e-4, (m[0], want)
    assert abs(float(found[2]) - side(want.values())) < .051, (m[0], want)
for l, row in enumerate(json.load(open(sys.argv[3]))["mean_distance"]):
    assert all(abs(want[l, h] - x) < 1e-4 for h, x in enumerate(row)) and len(row) > 1, (l, row)
layers = [float(x) for x in m[7].split(", ")]
H = 1 + max(h for _, h in want)
for l, x in enumerate(layers):
    assert abs(x - sum(want[l, h] for h in range(H)) / H) < .051, (l, m[0])
PY
finish
