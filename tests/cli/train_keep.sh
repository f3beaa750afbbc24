# SPDX-License-Identifier: MIT
# train_keep.sh: tests which checkpoints of a run stay (qkv train --keep), and qkv view --training of a run.
. tests/cli/lib.sh
python3 - <<'PY'
import random
r = random.Random(4)
words = 'the cat sat on the mat and the dog ran to the red house by the old mill'.split()
with open('text.txt', 'w') as f:
    for _ in range(200): f.write(' '.join(r.choice(words) for _ in range(30)) + '\n\n')
with open('pairs.tsv', 'w') as f:
    for _ in range(60):
        w = [r.choice('abcdef') for _ in range(5)]
        f.write(''.join(w) + '\t' + ''.join(reversed(w)) + '\n')
PY
small='--layers 1 --heads 2 --width 16 --tokenizer characters --context 32 --batch-tokens 128 --seed 1'
left() { # left RUN: the steps whose checkpoints stayed
    ls "$1" | sed -n 's/^checkpoint-0*\([0-9][0-9]*\)$/\1/p' | tr '\n' ' '
}
stay() { # stay RUN "STEPS ": these and no others, and model is the last
    [ "$(left "$1")" = "$2" ] || failed "$1 has the checkpoints $(left "$1"), expected $2"
    [ "$(ls "$1" | grep -c 'tmp$\|old$')" -eq 0 ] || failed "$1 has remains"
    check [ -f "$1/model/model.safetensors" ]
}

title 'by default the last two checkpoints stay'
runs 0 train text.txt --out two $small --steps 6 --save-every 1
stay two '5 6 '

title 'the last N, and all'
runs 0 train text.txt --out three $small --steps 6 --save-every 1 --keep 3
stay three '4 5 6 '
runs 0 train text.txt --out one $small --steps 6 --save-every 1 --keep 1
stay one '6 '
runs 0 train text.txt --out all $small --steps 6 --save-every 1 --keep all
stay all '1 2 3 4 5 6 '

title 'one every K steps, which are saved for this, and the last two'
runs 0 train text.txt --out every $small --steps 8 --save-every 4 --eval-every 4 --keep every=3
stay every '3 6 8 '

title 'what stays changes no bit, and a resumed run keeps its choice or takes another'
for run in three one all every; do
    [ $run = every ] && { runs 0 train text.txt --out eight $small --steps 8 --save-every 4 --eval-every 4; other=eight; } || other=two
    check cmp "$other/model/model.safetensors" $run/model/model.safetensors
done
runs 0 train text.txt --out three $small --steps 8 --save-every 1
stay three '6 7 8 '
runs 0 train text.txt --out all $small --steps 8 --save-every 1 --keep every=4
stay all '4 7 8 '

title 'wrong values'
for value in 0 -1 every=0 every= some 2x ''; do
    runs 2 train text.txt --out wrong $small --keep "$value"
    check [ ! -e wrong ]
done
runs 2 train text.txt --out wrong --objective words --keep 3
says_part '--keep has no effect on word vectors'

title 'the view of a run without a text: its first validation text, every checkpoint a frame, the view of training'
runs 0 train text.txt --out frames $small --steps 6 --save-every 1 --keep all
runs 0 view --training frames -o frames.html --json
python3 - <<'PY' || failed 'frames'
import json, re
page = open('frames.html', encoding='utf-8').read()
steps = [int(s) for s in re.findall(r'"step":(\d+)', page)]
assert steps == [1, 2, 3, 4, 5, 6], steps
assert '"view":"training"' in page
source = json.loads('"' + re.search(r'"source":\["((?:[^"\\]|\\.)*)"', page).group(1) + '"')
text = open('text.txt').read()
assert len(source) > 8 and source.strip() in text, source
PY
runs 0 view --training frames --terminal
prints_part 'attends'

title 'the text of the probes, and the first validation pair'
runs 0 train text.txt --out probed $small --steps 2 --save-every 1 --probe every=1 --probe-text 'the red mill'
runs 0 view --training probed -o probed.html --json
check grep -q '"source":\["the red mill"' probed.html
runs 0 train pairs.tsv --out pairs --arch vaswani --layers 1 --heads 2 --width 16 --tokenizer characters \
    --context 16 --batch-tokens 128 --steps 3 --save-every 1 --keep all
runs 0 view --training pairs -o pairs.html --json
prints_part '"stack":"cross"'
python3 - <<'PY' || failed 'the pair'
import re
page = open('pairs.html', encoding='utf-8').read()
a, b = re.findall(r'"source":\["([a-f]*)"', page)[:2]
assert len(a) == 5 and b == a[::-1], (a, b)
PY
runs 2 view --training . --terminal
says_part "folder without run.json, expected the folder of a training run"
finish
