# SPDX-License-Identifier: MIT
# trace.sh: tests writing the activations of a run to a file (MiniLM).
. tests/cli/lib.sh
need_model
text='The animal didn'"'"'t cross the street because it was too tired'

title 'all activations of a run, with the names and shapes of transformers'
runs 0 trace "$text" --what all -o all.safetensors
silent
prints ''
python3 - <<'PY' || failed 'names and shapes'
import json, struct
b = open('all.safetensors', 'rb').read()
n = struct.unpack('<Q', b[:8])[0]
head = json.loads(b[8:8 + n])
assert head.pop('__metadata__')['text'].startswith('The animal')
want = {name: [1, 15] for name in ('input_ids', 'token_type_ids', 'attention_mask')}
for layer in range(7):
    want[f'hidden_states.{layer}'] = [1, 15, 384]
for layer in range(6):
    want[f'attentions.{layer}'] = [1, 12, 15, 15]
    for part in ('query', 'key', 'value'):
        want[f'encoder.layer.{layer}.attention.self.{part}'] = [1, 15, 384]
assert {k: v['shape'] for k, v in head.items()} == want
PY

title 'in layer 5, head 11, "it" attends to "animal" with .647, as in transformers'
python entry all.safetensors attentions.5 a5.npy
python entry all.safetensors attentions.3 a3.npy
python entry all.safetensors input_ids ids.npy
[ "$(python show ids.npy)" = '101 1996 4111 2134 1005 1056 2892 1996 2395 2138 2009 2001 2205 5458 102' ] || failed 'the ids'
python3 - "$(python show a5.npy)" "$(python show a3.npy)" <<'PY' || failed 'the weights of the notes'
import sys
def at(text, head, row, key):
    return float(text.split()[(head * 15 + row) * 15 + key])
assert abs(at(sys.argv[1], 11, 10, 2) - .647) <= .0005, at(sys.argv[1], 11, 10, 2)
assert abs(at(sys.argv[2], 1, 10, 2) - .64) <= .005, at(sys.argv[2], 1, 10, 2)
PY

title 'the attention equals the operator on q and k of the file'
for part in query key value; do python entry all.safetensors encoder.layer.2.attention.self.$part $part.npy; done
python entry all.safetensors attentions.2 a2.npy
python3 - <<'PY'
import struct
for name in ('query', 'key', 'value'): # (1, 15, 384) is (1, 15, 12, 32)
    b = open(name + '.npy', 'rb').read()
    n = struct.unpack('<H', b[8:10])[0] + 10
    h = repr({'descr': '<f4', 'fortran_order': False, 'shape': (1, 15, 12, 32)})
    h += ' ' * (-(len(h) + 11) % 64) + '\n'
    open(name + '.npy', 'wb').write(b[:8] + struct.pack('<H', len(h)) + h.encode() + b[n:])
PY
runs 0 attn -q query.npy -k key.npy -v value.npy --weights w.npy -o o.npy
bound=$(python attend want.npy q=query.npy k=key.npy v=value.npy weights=want_w.npy | cut -d' ' -f2)
check python close w.npy want_w.npy "$bound"
check python close a2.npy want_w.npy "$bound"

title '--what selects tensors without changing a bit'
runs 0 trace "$text" --what hidden -o hidden.safetensors
for n in 0 3 6; do
    python entry all.safetensors hidden_states.$n one.npy
    python entry hidden.safetensors hidden_states.$n two.npy
    check cmp -s one.npy two.npy
done
runs 0 info hidden.safetensors
prints_part '10 tensors'
runs 0 trace "$text" --what embeddings,q -o q.safetensors
runs 0 info q.safetensors
prints_part '10 tensors'
runs 2 trace "$text" --what hidden,keys -o no.safetensors
says "qkv: --what: unknown word, expected some of embeddings,hidden,q,k,v,attention,probe, or all, found 'keys'"
runs 2 trace "$text" --what q,k,q -o no.safetensors
says "qkv: --what: word 'q' is given twice, expected each word once"
runs 2 trace "$text" --what all,q -o no.safetensors

title 'without --what everything except the attention, which is optional'
runs 0 trace "$text" -o linear.safetensors
runs 0 info linear.safetensors
prints_part '28 tensors'
! grep -q attentions "$out" || failed 'a T x T array, expected none'
python entry linear.safetensors hidden_states.6 one.npy
python entry all.safetensors hidden_states.6 two.npy
check cmp -s one.npy two.npy
runs 0 trace "$text" --what embeddings,hidden,q,k,v,attention -o listed.safetensors
check cmp -s listed.safetensors all.safetensors

title 'the file may go to standard output'
runs 0 trace "$text" -o -
check cmp -s "$out" linear.safetensors

title 'ids instead of the text give the same'
runs 0 trace --ids "$(python show ids.npy | tr ' ' ,)" --what hidden -o ids.safetensors
python show ids.npy >ids.txt
runs 0 trace --ids ids.txt --what hidden -o ids2.safetensors
check cmp -s ids.safetensors ids2.safetensors
python entry ids.safetensors hidden_states.6 two.npy
python entry hidden.safetensors hidden_states.6 one.npy
check cmp -s one.npy two.npy
runs 2 trace --ids 101,30522,102 -o no.safetensors
runs 2 trace --ids 101,-5 -o no.safetensors
runs 2 trace --ids 1,2 "$text" -o no.safetensors
says 'qkv: a text cannot be combined with --ids'

title 'padding is masked: the rows of the text keep their bits'
runs 0 trace "$text" --what hidden --max-length 40 --pad -o padded.safetensors
silent
python3 - <<'PY' || failed 'padded and plain'
import json, struct
def tensor(path, name):
    b = open(path, 'rb').read()
    n = struct.unpack('<Q', b[:8])[0]
    t = json.loads(b[8:8 + n])[name]
    a, z = t['data_offsets']
    return t['shape'], b[8 + n + a:8 + n + z]
for layer in range(7):
    shape, plain = tensor('hidden.safetensors', f'hidden_states.{layer}')
    wide, padded = tensor('padded.safetensors', f'hidden_states.{layer}')
    assert shape == [1, 15, 384] and wide == [1, 40, 384]
    assert padded[:len(plain)] == plain, layer
shape, mask = tensor('padded.safetensors', 'attention_mask')
assert struct.unpack('<40q', mask) == (1,) * 15 + (0,) * 25
PY

title '--max-length truncates and reports the count; otherwise a long text is refused'
runs 0 trace "$text" --max-length 6 --what embeddings -o six.safetensors
says 'qkv: note: the text was cut to 6 tokens: 9 tokens were dropped'
runs 2 trace "$(python3 -c "print('word ' * 600)")" -o no.safetensors
says_part 512
says_part 602
runs 2 trace "$text" --max-length 513 -o no.safetensors
says "qkv: --max-length: number exceeds the model's positions, expected 1 to 512, found 513"

title 'invalid UTF-8 is reported with its byte, or refused'
bad=$(printf 'ab\377c')
runs 0 trace "$bad" --what embeddings -o bad.safetensors
says 'qkv: note: invalid UTF-8 was replaced by U+FFFD in 1 place, the first at byte 2'
runs 3 trace "$bad" --strict -o no.safetensors
says_part 'at byte 2'
printf 'x\nab\377c' >bad.txt
printf 'plain' >plain.txt
runs 3 trace -f bad.txt --strict -o no.safetensors
says_part 'qkv: bad.txt: at byte 4: text is not valid UTF-8'
runs 3 trace -f plain.txt -f bad.txt --strict -o no.safetensors
says_part 'qkv: bad.txt: at byte 4: text B is not valid UTF-8'
runs 3 trace -f bad.txt -f plain.txt --strict -o no.safetensors
says_part 'qkv: bad.txt: at byte 4: text is not valid UTF-8'
runs 3 trace -f plain.txt "$bad" --strict -o no.safetensors
says_part 'qkv: at byte 2: text B is not valid UTF-8'
"$QKV_BIN" trace -f - --strict -o no.safetensors <bad.txt >"$out" 2>"$err"
[ $? -eq 3 ] || failed 'exit code'
says_part 'qkv: standard input: at byte 4: text is not valid UTF-8'
python3 -c "print('word ' * 600)" >long.txt
runs 2 trace -f long.txt -o no.safetensors
says_part 'qkv: long.txt: text too long, expected at most 512 tokens, found 602'
runs 0 trace '[CLS]' --no-special --what embeddings -o plain.safetensors
python entry plain.safetensors input_ids ids.npy
[ "$(python show ids.npy)" = '1031 18856 2015 1033' ] || failed "ids: $(python show ids.npy)"

title 'a pair has two token types'
runs 0 trace 'who?' 'the cat' --what embeddings -o pair.safetensors
python entry pair.safetensors token_type_ids types.npy
[ "$(python show types.npy)" = '0 0 0 0 1 1 1' ] || failed "types: $(python show types.npy)"

title 'no output, no text, no place to write'
runs 2 trace "$text"
says 'qkv: no output file is given, expected -o FILE.safetensors'
runs 2 trace -o no.safetensors
says 'qkv: input is missing, expected a text or --ids'
runs 6 trace "$text" -o nowhere/no.safetensors
says 'qkv: nowhere/no.safetensors: cannot create: No such file or directory'
runs 2 trace "$text" -o all.safetensors
says 'qkv: all.safetensors: the output file exists already, expected a new name, or --force to replace it'
[ ! -e no.safetensors ] || failed 'an output of a failed run'

title 'full disk: the error names it, and no file is left'
if [ "$(id -u)" -eq 0 ] && mkdir tiny && mount -t tmpfs -o size=64k none tiny 2>/dev/null; then
    runs 6 trace "$text" -o tiny/t.safetensors
    says_part 'No space left on device'
    [ -z "$(ls tiny)" ] || failed 'something was left'
    umount tiny
fi


title 'probes instead of the weights: statistics of them'
runs 0 trace "$text" --what probe --probe top=2,rows=10,received,entropy -o probe.safetensors
python entry probe.safetensors probes.5.rows row.npy
python entry probe.safetensors probes.5.top_key key.npy
python entry probe.safetensors probes.5.received given.npy
python3 - "$(python show row.npy)" "$(python show key.npy)" "$(python show given.npy)" "$(python show a5.npy)" <<'PY' || failed 'probes of layer 5'
import sys
row, key, given, w = ([float(x) for x in a.split()] for a in sys.argv[1:])
assert len(row) == 180 and len(key) == 360 and len(given) == 180
for h in range(12):
    at = [w[(h * 15 + t) * 15:(h * 15 + t) * 15 + 15] for t in range(15)]
    assert all(abs(row[h * 15 + j] - at[10][j]) < 1e-5 for j in range(15))
    assert all(abs(given[h * 15 + j] - sum(r[j] for r in at)) < 1e-5 for j in range(15))
    assert all(at[t][int(key[(h * 15 + t) * 2])] == max(at[t]) for t in range(15))
PY
runs 2 trace "$text" --probe top=2 -o no.safetensors
says_part '--probe requires the word probe in --what'

dates=$here/../../models/dates
title 'two stacks: the attention of each, and the cross-attention'
runs 0 trace --model "$dates" '3 may 1999' '1999-05-03' --what hidden,attention -o two.safetensors
silent
python3 - <<'PY' || failed 'names and shapes of two stacks'
import json, struct
b = open('two.safetensors', 'rb').read()
n = struct.unpack('<Q', b[:8])[0]
head = json.loads(b[8:8 + n])
head.pop('__metadata__')
shape = {k: v['shape'] for k, v in head.items()}
S, T = shape['input_ids'][1], shape['decoder_input_ids'][1]
for layer in range(2):
    assert shape[f'encoder_attentions.{layer}'] == [1, 4, S, S]
    assert shape[f'decoder_attentions.{layer}'] == [1, 4, T, T]
    assert shape[f'cross_attentions.{layer}'] == [1, 4, T, S]
for layer in range(3):
    assert shape[f'encoder_hidden_states.{layer}'] == [1, S, 128]
    assert shape[f'decoder_hidden_states.{layer}'] == [1, T, 128]
rows = struct.unpack(f'<{4 * T * S}f', b[8 + n:][slice(*head['cross_attentions.1']['data_offsets'])])
assert all(abs(sum(rows[r * S:(r + 1) * S]) - 1) < 1e-5 for r in range(4 * T))
PY

title 'without a second text the decoder has the text that translate generates'
tensors_of() { # FILE: prints the text_pair of the metadata, and writes FILE.bare without metadata
    python3 - "$1" <<'PY'
import json, struct, sys
b = open(sys.argv[1], 'rb').read()
n = struct.unpack('<Q', b[:8])[0]
head = json.loads(b[8:8 + n])
meta = head.pop('__metadata__')
open(sys.argv[1] + '.bare', 'wb').write(json.dumps(head, sort_keys=True).encode() + b[8 + n:])
print(meta.get('text_pair'), meta.get('text_pair_from'))
PY
}
for name in dates dates-gru; do
    folder=$here/../../models/$name
    [ -d "$folder" ] || continue
    target=$("$QKV_BIN" translate --model "$folder" '3 may 1999')
    runs 0 trace --model "$folder" '3 may 1999' "$target" --what all -o given.safetensors --force
    silent
    runs 0 trace --model "$folder" '3 may 1999' --what all -o own.safetensors --force
    says "qkv: note: the model generated the text of the decoder: $target"
    [ "$(tensors_of given.safetensors)" = "$target None" ] || failed 'metadata of a given text'
    [ "$(tensors_of own.safetensors)" = "$target model" ] || failed 'metadata of a generated text'
    cmp given.safetensors.bare own.safetensors.bare || failed 'the generated text gives other arrays'
done
# a source that --max-length cuts is cut for the translation too (of the whole source: 1999-03-03)
runs 0 trace --model "$dates" '3 may 1999 and more words' --max-length 11 -o cut.safetensors
says_part 'the model generated the text of the decoder: 1999-05-03'
runs 2 trace --model "$dates" --ids 5,6,7 -o no.safetensors
says 'qkv: --ids is not supported for an encoder-decoder, expected texts'

# all that a recurrent encoder-decoder has is its one attention
gru=$here/../../models/dates-gru
if [ -d "$gru" ]; then
    runs 0 trace --model "$gru" '3 may 1999' '1999-05-03' -o gru.safetensors
    runs 0 trace --model "$gru" '3 may 1999' '1999-05-03' --what all -o gru-all.safetensors
    cmp gru.safetensors gru-all.safetensors || failed '--what all of a recurrent model differs from the default'
    runs 0 trace --model "$gru" '3 may 1999' '1999-05-03' --what all,probe -o gru-probe.safetensors
    runs 4 trace --model "$gru" '3 may 1999' '1999-05-03' --what hidden -o no.safetensors
    says_part 'expected attention or probe'
fi

finish
