# SPDX-License-Identifier: MIT
# alignment.sh: compares the cross-attention of qkv view with the alignments of qkv translate and qkv eval: the same rows,
# named by the token that is written.
. tests/cli/lib.sh
top=$here/../..
for name in dates dates-gru spell; do
    [ -f "$top/models/$name/model.safetensors" ] || { echo "skipped: models/$name is not here"; exit 77; }
done

# aligned MODEL TEXT LAYER LAST HEADS: the commands on one text; LAST is the last layer, which eval shows
aligned() {
    title "view and translate align the same tokens of models/$1"
    model=$top/models/$1
    runs 0 translate "$2" -m "$model" --beam 1 --alignment --layer "$3" --json
    cp "$out" "$1.translate"
    written=$(python3 -c "import json; print(json.load(open('$1.translate'))['text'])")
    runs 0 translate "$2" -m "$model" --beam 1 --alignment --layer "$3"
    cp "$out" "$1.table"
    runs 0 view "$2" "$written" -m "$model" --layer "$3" --heads "$5" -o "$1.csv" --force --terminal
    cp "$out" "$1.lines"
    printf '%s\t%s\n' "$2" "$written" >"$1.tsv"
    runs 0 eval "$model" "$1.tsv" --beam 1 --show 1 --alignment --json
    cp "$out" "$1.eval"
    python3 - "$1" "$3" "$4" <<'PY' || failed "the alignments of $1"
import csv, json, sys
name, last = sys.argv[1], sys.argv[2] == sys.argv[3]
told = json.load(open(name + '.translate'))
want = told['alignment']
rows, names, heads = {}, {}, set()
for r in csv.DictReader(open(name + '.csv', encoding='utf-8')):
    at = int(r['query']), int(r['key'])
    rows[at] = rows.get(at, 0) + float(r['weight'])
    names[at[0]] = r['query_token'].lstrip("'")
    heads.add(r['head'])
T, S = len(want), len(want[0])
assert max(rows) == (T - 1, S - 1), (max(rows), T, S)
# exp(score - lse) of floats: 2^-24 times the rounding of a dot product of 32 products and of the
# sums over heads, far below 1e-5
worst = max(abs(rows[t, s] / len(heads) - want[t][s]) for t in range(T) for s in range(S))
assert worst < 1e-5, worst
# the rows are named by the tokens of the output, of which the first is written from the start token
table = [line[:12].strip() for line in open(name + '.table', encoding='utf-8')][4:4 + T]
assert [names[t].strip() or '\u00b7' for t in range(T)] == table, (names, table)
if last:
    shown = json.loads([l for l in open(name + '.eval') if '"alignment"' in l][0])
    assert len(shown['alignment']) == T, shown
    worst = max(abs(a - b) for x, y in zip(shown['alignment'], want) for a, b in zip(x, y))
    assert worst < 1e-6, worst
    assert [t.lstrip('\u2581\u0120').strip() or '\u00b7' for t in shown['output_tokens']] == table, (shown['output_tokens'], table)
PY
}
aligned dates 'the 3rd of March 1987' 1 1 0,1,2,3
tr '\n' ' ' <dates.lines | grep -q 'Alignment by heads 0, 1, 2, 3: .*, 9 [^ ]* 9 .*, 8 [^ ]* 8 .*, 7 [^ ]* 7 ' ||
    failed 'the digits of the year'
# view also says the mean that the table of translate prints: the digits of the year
runs 0 view 'the 3rd of March 1987' -m "$top/models/dates" --layer 1 --terminal
tr '\n' ' ' <"$out" | grep -q 'Alignment, layer 1, mean of 4 heads: .*9 [^ ]* 9 1.00, 8 [^ ]* 8 .99, 7 [^ ]* 7 .98' ||
    failed 'the mean of the heads'
for digit in '9 .* 100<' '8 .* 99<' '7 .* 98<'; do grep -q "^$digit" dates.table || failed "$digit"; done
aligned dates '12 Jan 2031' 0 1 0,1,2,3
aligned spell 'phone' 2 2 0,1,2,3
aligned dates-gru 'the 3rd of March 1987' 0 0 0

title 'the decoder reads the start token first, cross-attention writes the first token first'
runs 0 view 'the 3rd of March 1987' 1987-03-03 -m "$top/models/dates" --stack decoder --layer 0 --heads 0 -o read.csv --terminal
runs 0 view 'the 3rd of March 1987' 1987-03-03 -m "$top/models/dates" --layer 0 --heads 0 -o written.csv --terminal
python3 - <<'PY' || failed 'tokens read and written'
import csv
def names(path):
    rows = {int(r['query']): r['query_token'].lstrip("'") for r in csv.DictReader(open(path))}
    return [rows[i] for i in range(len(rows))]
read, written = names('read.csv'), names('written.csv')
assert written == list('1987-03-03') + ['</s>'], written
assert read[1:] == written[:-1] and len(read) == len(written), read
PY
gru=$top/models/dates-gru
title 'the recurrent encoder-decoder: trace writes the weights that view shows'
runs 0 trace 'the 3rd of March 1987' 1987-03-03 -m "$gru" -o gru.safetensors
runs 0 trace 'the 3rd of March 1987' 1987-03-03 -m "$gru" --what probe --probe top=1,entropy -o probes.safetensors
runs 0 view 'the 3rd of March 1987' 1987-03-03 -m "$gru" --layer 0 --heads 0 -o gru.npy --special --terminal
python3 - <<'PY' || failed 'the weights of trace'
import json, struct
def tensors(path):
    b = open(path, 'rb').read()
    n = struct.unpack('<Q', b[:8])[0]
    head = json.loads(b[8:8 + n])
    head.pop('__metadata__')
    return {k: (v['shape'], b[8 + n:][slice(*v['data_offsets'])]) for k, v in head.items()}
traced, probes = tensors('gru.safetensors'), tensors('probes.safetensors')
shape, data = traced['cross_attentions.0']
T, S = shape[2:]
weights = struct.unpack(f'<{T * S}f', data)
assert shape[:2] == [1, 1] and set(traced) == {'input_ids', 'token_type_ids', 'attention_mask', 'decoder_input_ids', 'cross_attentions.0'}, traced.keys()
assert traced['decoder_input_ids'][0] == [1, T] and traced['input_ids'][0] == [1, S]
b = open('gru.npy', 'rb').read()
n = struct.unpack('<H', b[8:10])[0]
shown = struct.unpack(f'<{T * S}f', b[10 + n:])
assert shown == weights
top = struct.unpack(f'<{T}i', probes['cross_probes.0.top_key'][1])
assert [max(range(S), key=lambda j: weights[t * S + j]) for t in range(T)] == list(top), top
PY

title 'views and commands that need a Transformer say so, and why'
for view in neuron steps residual; do
    runs 4 view '1 May 1987' -m "$gru" --view $view --terminal
    says_part "--view $view requires a Transformer; this model is qkv-gru-attention, which has no"
done
says_part 'which has no residual stream: its state is replaced at each step'
runs 4 view '1 May 1987' -m "$gru" --ablate-map --terminal
says_part 'effects of heads require a Transformer'
runs 4 ablate '1 May 1987' -m "$gru"
says_part 'effects of heads require a Transformer; this model is qkv-gru-attention'
runs 4 trace '1 May 1987' 1987-05-01 -m "$gru" --what hidden -o hidden.safetensors
says_part 'expected attention or probe for a qkv-gru-attention'
for kind in html svg png; do
    runs 0 view '1 May 1987' -m "$gru" -o gru.$kind --json
    prints_part '"stack":"cross"'
done
runs 0 view '1 May 1987' -m "$gru" --against '2 May 1987' --terminal
prints_part 'Heads that changed most'
finish
