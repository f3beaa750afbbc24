# SPDX-License-Identifier: MIT
# long_text.sh: a text of 200 kB that is read from a file (-f): explain, ablate and trace compute it, or name the option
# that cuts it. A page of such a text is a case of tests/view/browser_maps.py.
root=$PWD
. tests/cli/lib.sh
export QKV_MODEL="$temp/book"
python3 "$root/tests/view/book_text.py" "$root" book book.txt
[ "$(wc -c <book.txt)" -eq 200000 ] || failed 'the size of the text'

title 'explain has a limit, and the option of its message cuts the text to it'
runs 5 explain -f book.txt
says_part 'the text is too long, expected at most 4096 tokens, found 20000 (--max-length 4096 cuts it'
runs 0 explain -f book.txt --max-length 4096 --layer 0 --head 1 --token 4000 --json
says_part 'the text was cut to 4096 tokens: 15904 tokens were dropped'
check python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); assert len(r["weights"]) == 4096 and abs(sum(r["weights"]) - 1) < 1e-4' "$out"
for topic in dense:64 diagonal:64 geometry:200 embedding:48; do
    runs 2 explain "--${topic%:*}" -f book.txt --max-length 300
    says_part "--${topic%:*}: text too long, expected at most ${topic#*:} tokens, found 300 (--max-length ${topic#*:} cuts it)"
done

title 'trace refuses weights that do not fit into memory, and names what to write instead'
# Each number of the list would be read with a strict check of the rest of the list: 5 minutes instead of a second.
export ASAN_OPTIONS="${ASAN_OPTIONS:-}:strict_string_checks=0"
seq 1 400000 | awk '{ printf "%s%d", (NR > 1 ? "," : ""), 3 + $1 % 36 }' >book.ids
runs 5 trace --ids book.ids --what attention -o a.safetensors
says_part '--what attention: the weights of a layer for 400000 tokens require 1.28e+03 GB, expected at most '
says_part '--what probe writes statistics of any number of tokens, and --max-length N cuts the text'
[ ! -e a.safetensors ] || failed 'a file without its tensors'
[ -n "${QKV_SLOW:-}" ] && finish # the rest takes minutes with a sanitizer

title 'trace and ablate compute the whole text, from a file as from standard input'
runs 0 trace -f book.txt --what hidden -o t.safetensors
silent
check python3 - t.safetensors <<'PY'
import json, struct, sys
b = open(sys.argv[1], 'rb').read()
head = json.loads(b[8:8 + struct.unpack('<Q', b[:8])[0]])
assert head['hidden_states.1']['shape'] == [1, 20000, 16] and head['input_ids']['shape'] == [1, 20000], head
PY
"$QKV_BIN" ablate -f - -n 2 --json <book.txt >"$out" 2>"$err" || failed 'ablate of standard input'
silent
check python3 - "$out" <<'PY'
import json, math, sys
effect = json.load(open(sys.argv[1]))['stacks'][0]['effect']
assert len(effect) == 1 and len(effect[0]) == 2 and all(math.isfinite(x) and x >= 0 for x in effect[0]), effect
PY
finish
