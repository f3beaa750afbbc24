# SPDX-License-Identifier: MIT
# view_padding.sh: tests that qkv view shows padding tokens as masked rows and columns, and that every other number has
# the same bits as without padding.
. tests/cli/lib.sh
models=$here/../../models
[ -f "$models/dates/model.safetensors" ] && [ -f "$models/verse/model.safetensors" ] || {
    echo 'skipped: models/dates and models/verse are not here'
    exit 77
}
date='the third of may 1998'

# same_bits MODEL STACK KEYS: the padded page has KEYS keys and the arrays of the page without padding
same_bits() {
    python3 - "$1" "$2" "$3" <<'PY' || failed "padding: $1"
import json, re, sys
name, stack, keys = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
pages = [open(f"{name}-{how}.html", encoding="utf-8").read() for how in ("alone", "padded")]
about, packed = zip(*((json.loads(re.search(r'id="about">(.*?)</script>', p, re.S)[1]),
                       re.search(r'id="packed">(.*?)</script>', p, re.S)[1]) for p in pages))
assert packed[0] == packed[1] and len(packed[0]) > 1000, "the numbers of the page"
for key in "stacks", "rows":
    assert about[0][key] == about[1][key] or key == "stacks", key
drop = lambda s: {k: v for k, v in s.items() if k != "start"}
assert [drop(s) for s in about[0]["stacks"]] == [drop(s) for s in about[1]["stacks"]], "statistics of the heads"
short, long = (a["texts"][a["stacks"][stack]["keys"]] for a in about)
n = len(short["tokens"])
assert "padding" not in short and long["padding"] == keys - n > 0, (short.get("padding"), long.get("padding"))
assert long["tokens"][:n] == short["tokens"] and all(t[2] == 1 for t in long["tokens"][n:]), long["tokens"]
PY
}

title 'the numbers of a page have the same bits with padding'
runs 0 view "$date" -m "$models/dates" --stack encoder --special -o dates-alone.html --terminal
runs 0 view "$date" -m "$models/dates" --stack encoder --special --pad --max-length 26 -o dates-padded.html --terminal
prints_part '22 tokens, 4 padding'
same_bits dates 0 26
runs 0 view --ids 5,8,9,12 -m "$models/verse" -o ids-alone.html --special --terminal
runs 0 view --ids 5,8,9,12 -m "$models/verse" --pad --max-length 7 -o ids-padded.html --special --terminal
same_bits ids 0 7

title 'the terminal, JSON and pictures show the padding, and nothing else changes'
runs 0 view --ids 5,8,9,12 -m "$models/verse" --layer 1 --heads 0 --terminal
cp "$out" alone.txt
runs 0 view --ids 5,8,9,12 -m "$models/verse" --layer 1 --heads 0 --pad --max-length 7 --special --terminal
cp "$out" padded.txt
python3 - <<'PY' || failed 'the matrix'
import re
row = re.compile(r"^ +(\d+) (\S+) (.*)$")
rows = [[m.groups() for m in map(row.match, open(f, encoding="utf-8")) if m and m[2] != "0"]
        for f in ("alone.txt", "padded.txt")]
matrix = [{int(i): cells for i, name, cells in r if i.isdigit()} for r in rows]
masked = [i for i, cells in matrix[1].items() if set(cells.split()) == {"×"}]
assert masked == [4, 5, 6], matrix
for i in range(4):
    cells = matrix[1][i].replace("◂", "").rstrip()
    assert cells.split()[-3:] == ["×"] * 3, cells
    assert cells[:cells.index("×")].rstrip() == matrix[0][i].replace("◂", "").rstrip(), (cells, matrix[0][i])
PY
runs 0 view --ids 5,8,9,12 -m "$models/verse" --pad --max-length 7 --special --json
prints_part '"tokens":4,'
prints_part '"padding":3,"attention_mask":[1,1,1,1,0,0,0]'
for view in matrix heads; do
    runs 0 view "$date" -m "$models/dates" --stack encoder --view $view --special --pad --max-length 26 -o padded.svg --force
    runs 0 view "$date" -m "$models/dates" --stack encoder --view $view --special -o alone.svg --force
    python3 - $view <<'PY' || failed "the picture $view"
import re, sys
texts = [re.findall(r"<text[^>]*>([^<]*)<", open(f + ".svg", encoding="utf-8").read()) for f in ("alone", "padded")]
pads = sum(t == "&#60;pad&#62;" for t in texts[1])
assert pads == 8, (pads, texts[1])
numbers = [[t for t in x if re.fullmatch(r"\.?\d+(\.\d+)?", t)] for x in texts]
left = list(numbers[1])
for t in numbers[0]:
    left.remove(t)  # every number is also in the padded picture
assert set(left) <= {".00"}, left
assert any("padding tokens" in t for t in texts[1]) and not any("padding" in t for t in texts[0])
PY
done

title 'the pictures of one row or of all heads say how many padding tokens they leave out'
for view in model residual neuron steps; do
    runs 0 view "$date" -m "$models/dates" --stack encoder --view $view --special --pad --max-length 26 -o padded.svg --force
    runs 0 view "$date" -m "$models/dates" --stack encoder --view $view --special -o alone.svg --force
    python3 - $view <<'PY' || failed "the picture $view"
import re, sys
texts = [re.findall(r"<text[^>]*>([^<]*)<", open(f + ".svg", encoding="utf-8").read()) for f in ("alone", "padded")]
line = "4 padding tokens are masked and not drawn: the other numbers are the same without padding."
assert [t for t in texts[1] if "padding" in t] == [line], [t for t in texts[1] if "padding" in t]
texts[1].remove(line)
assert texts[0] == texts[1] and len(texts[0]) > 10, set(texts[0]) ^ set(texts[1])
PY
done

title 'a model whose padding token is [PAD]: its rows and columns are masked'
for how in alone padded; do
    runs 0 view 'a b c' -m "$here/../golden/bert" --layer 0 --heads 0 --special --terminal $([ $how = alone ] || echo --pad --max-length 9)
    cp "$out" bert-$how.txt
done
python3 - <<'PY' || failed 'the rows of [PAD]'
alone, padded = (open(f"bert-{f}.txt", encoding="utf-8").read() for f in ("alone", "padded"))
assert "[PAD]" not in alone and "padding" not in alone and "4 padding" in padded
rows = [line.split() for line in padded.split("\n") if "[PAD]" in line.split()[:2]]
assert [r[0] for r in rows] == ["5", "6", "7", "8"], rows
assert all(set(r[2:]) == {"×"} and len(r) == 2 + 9 for r in rows), rows
PY

title 'without --special the padding is left out'
runs 0 view --ids 5,8,9,12 -m "$models/verse" --layer 1 --heads 0 --pad --max-length 7 --terminal
cmp -s "$out" alone.txt || failed 'rows of padding'
finish
