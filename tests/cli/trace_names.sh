# SPDX-License-Identifier: MIT
# trace_names.sh: tests the names of q, k and v in the files of qkv trace, for every family of one stack and a model of
# two, against the names that tools/golden_modules.py found in transformers.
. tests/cli/lib.sh
golden=$here/../golden

# named FILE FOLDER: the names in a .safetensors file that begin with FOLDER, without it, the inputs left out
cat >named.py <<'PY'
import json, struct, sys
b = open(sys.argv[1], 'rb').read()
head = json.loads(b[8:8 + struct.unpack('<Q', b[:8])[0]])
for name in sorted(head):
    if name.startswith(sys.argv[2]) and not name.endswith(('input_ids', 'token_type_ids', '_mask', '__metadata__')):
        print(name[len(sys.argv[2]):])
PY
named() { python3 -S -E named.py "$1" "$2"; }

title 'q, k and v have the names that transformers has, in every family'
named "$golden/modules.safetensors" '' | cut -d: -f1 | sort -u >folders.txt
compared=0
while read -r folder; do
    named "$golden/modules.safetensors" "$folder:" >want.txt
    grep -q '^decoder\.' want.txt && grep -q '^encoder\.' want.txt && continue # two stacks read texts
    runs 0 trace -m "$golden/$folder" --ids 5,6,7 --what q,k,v -o t.safetensors --force
    named t.safetensors '' >found.txt
    check cmp found.txt want.txt
    compared=$((compared + 1))
done <folders.txt
[ "$compared" -ge 25 ] || failed "$compared folders, expected 25 or more"

title 'two stacks have the names of each, and of the cross-attention'
runs 0 trace -m "$here/../../models/dates" '3 may 1999' '1999-05-03' --what q,k,v -o two.safetensors
for part in decoder.layers.X.encoder_attn decoder.layers.X.self_attn encoder.layers.X.self_attn; do
    for layer in 0 1; do
        for which in k q v; do echo "$part.${which}_proj" | sed "s/X/$layer/"; done
    done
done | LC_ALL=C sort >want.txt
named two.safetensors '' >found.txt
check cmp found.txt want.txt

finish
