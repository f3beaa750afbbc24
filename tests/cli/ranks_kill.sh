# SPDX-License-Identifier: MIT
# ranks_kill.sh: kills one rank of a training run at a drawn moment, QKV_KILLS times (default 3); after each kill the run
# continues with another number of ranks, under another MPI if there are two. Runs end with the files of one process.
. tests/cli/lib.sh
. "$here/ranks_lib.sh"

cat "$here"/../../docs/notes/0*.md >text.txt
options='--arch gpt --tokenizer bytes --width 48 --layers 2 --heads 2 --context 32 --batch-tokens 256 --accumulate 4
    --dropout 0.1 --eval-every 40 --save-every 20 --steps 400'
runs 0 train text.txt $options --out alive

# Rank $VICTIM ends by SIGKILL after $DELAY seconds, as a process and as a child of its launcher.
cat >die.sh <<'SH'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
[ "$rank" -eq "$VICTIM" ] && { sleep "$DELAY"; kill -9 $$; } &
exec "$QKV_BIN" "$@"
SH
export QKV_BIN

title 'a run that is killed many times ends with the bits of one that was not'
kills=${QKV_KILLS:-3} seed=$(git -C "$here" rev-parse HEAD 2>/dev/null | cut -c 1-6)
python3 - "$kills" "$seed" >draws <<'PY'
import random, sys
r = random.Random(sys.argv[2])
for _ in range(int(sys.argv[1])):
    size = r.randint(2, 4)
    print(size, r.randrange(size), round(r.uniform(0.1, 1.5), 2))
PY
number=0 ended=0
while read -r ranks victim delay; do
    number=$((number + 1))
    set -- $launchers
    [ $((number % 2)) -eq 0 ] && [ $# -gt 1 ] && shift
    launcher=$1
    begin=$(date +%s)
    VICTIM=$victim DELAY=$delay timeout 120 "$launcher" -n "$ranks" sh die.sh train text.txt $options --out dead \
        >"$out" 2>"$err" </dev/null
    code=$?
    took=$(($(date +%s) - begin))
    what="kill $number: $launcher -n $ranks, rank $victim after $delay s, exit $code"
    [ $took -lt 35 ] || failed "the others continued for $took s: $what"
    if [ $code -eq 0 ]; then # it was faster than the kill
        for file in model/model.safetensors model/optimizer.safetensors model/state.json log.jsonl; do
            check cmp "alive/$file" "dead/$file"
        done
        rm -rf dead
    else
        ended=$((ended + 1))
        [ "$(grep '^qkv: ' "$err" | grep -vc '^qkv: note: ')" -le 1 ] || failed "one message at most: $what"
    fi
done <draws
[ $ended -gt 0 ] || failed 'every run ended before its kill'
[ ! -d dead ] || runs 0 train text.txt $options --out dead
[ -d dead ] || cp -r alive dead
for file in model/model.safetensors model/optimizer.safetensors model/state.json log.jsonl; do
    check cmp "alive/$file" "dead/$file"
done
echo "$number kills, $ended runs ended by them"

finish
