# SPDX-License-Identifier: MIT
# ranks.sh: tests commands on several ranks, under each MPI that is installed and built: the bits of one process, one
# message and one exit code for an error, the end of a rank. A build with small tiles (QKV_TILES=1) runs the comparisons of
# bits alone, each under one MPI in turn: what follows them does not depend on tiles.
. tests/cli/lib.sh
. "$here/ranks_lib.sh"
i=0
# in_turn: sets some to the launchers of the next comparison
in_turn() {
    some=$launchers turn=$((${turn:-0} + 1))
    [ -z "${QKV_TILES:-}" ] || some=$(echo $launchers | cut -d ' ' -f $((turn % $(echo $launchers | wc -w) + 1)))
}

title 'attention has the bits of one process, with any masks, on 1 to 4 ranks'
python random q.npy f4 2x133x4x24 1
python random k.npy f4 2x133x2x24 2
python random v.npy f4 2x133x2x17 3
python random bias.npy f4 4x133x133 4
python random long.npy f4 1x300x2x8 5
while read -r files options; do
    case $files in
    all) files='-q q.npy -k k.npy -v v.npy' ;;
    long) files='-q long.npy -k long.npy -v long.npy' ;;
    esac
    runs 0 attn $files $options -o one.npy --lse one_lse.npy --force
    in_turn
    for launcher in $some; do
        i=$((i + 1)) size=$((i % 3 + 2))
        ranked "$launcher" $size 0 attn $files $options -o many.npy --lse many_lse.npy --force
        silent
        check cmp one.npy many.npy
        check cmp one_lse.npy many_lse.npy
    done
done <<'ROWS'
all
all --causal --precision bf16
all --causal-br --window 20,3 --precision f16
all --bias bias.npy --alibi --softcap 3
all --bias bias.npy --causal --lengths 100,20
long --offsets 0,7,150,151,290 --causal
long --offsets 3,90,300 --precision int8 --window 5,5
ROWS

title 'weights have the bits of one process, and rank 0 prints them in the order of the rows'
while read -r files options; do
    case $files in
    all) files='-q q.npy -k k.npy -v v.npy' ;;
    long) files='-q long.npy -k long.npy -v long.npy' ;;
    esac
    runs 0 attn $files $options -o one.npy --weights one_weights.npy --force
    runs 0 attn $files $options --weights -
    mv "$out" text
    in_turn
    for launcher in $some; do
        i=$((i + 1)) size=$((i % 3 + 2))
        ranked "$launcher" $size 0 attn $files $options -o many.npy --weights many_weights.npy --force
        check cmp one.npy many.npy
        check cmp one_weights.npy many_weights.npy
        ranked "$launcher" $size 0 attn $files $options --weights -
        check cmp "$out" text
    done
done <<'ROWS'
all --bias bias.npy --causal --lengths 100,20 --precision bf16
all --no-softmax
long --offsets 3,90,300 --window 5,5 --sum
ROWS

title 'statistics have the bits of one process'
while read -r files options; do
    case $files in
    all) files='-q q.npy -k k.npy -v v.npy' ;;
    long) files='-q long.npy -k long.npy -v long.npy' ;;
    esac
    probes='--probe top=3,rows=0+5-7+90,received,entropy,distance,offsets=9,tiles=4'
    runs 0 attn $files $options $probes --probes one.safetensors -o one.npy --force
    in_turn
    for launcher in $some; do
        i=$((i + 1)) size=$((i % 3 + 2))
        ranked "$launcher" $size 0 attn $files $options $probes --probes many.safetensors -o many.npy --force
        check cmp one.npy many.npy
        check cmp one.safetensors many.safetensors
    done
done <<'ROWS'
all --causal
all --bias bias.npy --alibi --precision bf16
long --offsets 0,7,150,151,290 --causal --window 20,0
ROWS

[ -z "${QKV_TILES:-}" ] || finish

title 'rank 0 alone prints'
runs 0 attn -q q.npy -k k.npy -v v.npy --sum
cp "$out" sum
for launcher in $launchers; do
    ranked "$launcher" 3 0 attn -q q.npy -k k.npy -v v.npy --sum
    check cmp "$out" sum
done

title 'bench machines compares ranks with one rank and with the model, and separates messages from arithmetic'
for launcher in $launchers; do
    for limit in '' 20000; do
        ranked "$launcher" 3 0 bench machines --json --seconds 0.01 -s 'N600,H2,E16;B2,N300,H4,G2,E8,causal' \
            ${limit:+--collect-limit $limit}
        python3 - "$out" $limit <<'PY' || failed "figures: $launcher $limit"
import json, sys
d = json.load(open(sys.argv[1]))
assert d["ranks"] == 3 and d["bandwidth"] > 0 and d["latency"] > 0 and d["memory"] > 0, d
assert 0 <= d["moving"] < .05, d  # ranks of one machine have no thread that moves messages
assert [r["pass"] for r in d["results"]] == ["forward", "backward"] * 2, d
for r in d["results"]:
    assert 0 < r["efficiency"] and 0 <= r["messages"] <= r["many"] and r["sent"] > 0, r
    assert r["compute"] > 0 and r["transfer"] > 0 and 0 <= r["overlap"] <= 1, r
    hidden = (r["compute"] + r["transfer"] - r["many"]) / r["transfer"]
    assert abs(r["overlap"] - min(max(hidden, 0), 1)) < 1e-3, (hidden, r)
    if len(sys.argv) > 2:  # the model is of collected keys
        assert r["mode"] == "pipeline" and r["model"] is None, r
    else:
        assert r["mode"] == "collect", r
        assert 0 < r["model"]["efficiency"] <= 1.01 and r["model"]["steps"] >= 0, r
# forward: 2/3 of the keys and values, 4 bytes, to 2 others
sent = [r["sent"] for r in d["results"] if r["pass"] == "forward"]
assert abs(sent[0] - 2 * 600 * 2 * 32 * 4 / 3) <= 64 * 2 * 32 * 4 * 2, sent
PY
    done
    ranked "$launcher" 2 4 bench linear -s 1x2x3
    [ "$(grep -c 'bench linear is not supported over ranks' "$err")" -eq 1 ] || failed 'one message'
done

title 'an error is printed once, and has its code'
for launcher in $launchers; do
    ranked "$launcher" 3 2 attn -q q.npy -k k.npy
    [ "$(grep -c 'qkv: v is missing' "$err")" -eq 1 ] || failed 'one message'
    ranked "$launcher" 2 4 attn -x '[1 0; 0 1]'
    [ "$(grep -c 'qkv: projection of inputs (-x) is not supported over ranks' "$err")" -eq 1 ] || failed 'one message'
    ranked "$launcher" 2 3 attn -q "$here/ranks.sh" -k k.npy -v v.npy
    [ "$(grep -c '^qkv: ' "$err")" -eq 1 ] || failed 'one message'
    ranked "$launcher" 2 2 attn -q q.npy -k k.npy -v v.npy --no-such-option
    [ "$(grep -c '^qkv: unknown option' "$err")" -eq 1 ] || failed 'one message'
done

title 'a rank that is killed ends all; the old output stays'
python random huge.npy f4 1x20000x2x64 9
cat >die.sh <<'SH'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
[ "$rank" -eq 1 ] && { sleep 1; kill -9 $$; } &
exec "$QKV_BIN" "$@"
SH
export QKV_BIN
for launcher in $launchers; do
    echo old >kept.npy
    begin=$(date +%s)
    timeout 120 "$launcher" -n 3 sh die.sh attn -q huge.npy -k huge.npy -v huge.npy -o kept.npy --force >"$out" 2>"$err"
    [ $? -ne 0 ] || failed "exit code: $launcher"
    [ $(($(date +%s) - begin)) -lt 30 ] || failed "the others went on: $launcher"
    [ "$(cat kept.npy)" = old ] || failed 'the old output'
    [ "$(find . -name '*kept*' | wc -l)" -eq 1 ] || failed 'a temporary file'
    # MPICH ends the others by a signal that no process can handle
    [ "$launcher" = mpirun.mpich ] || [ "$(grep -c '^qkv: rank 1 has ended before the others' "$err")" -eq 1 ] ||
        failed 'one message with the rank'
done

title 'ranks that differ are refused before they begin'
cat >differ.sh <<'SH'
rank=${OMPI_COMM_WORLD_RANK:-${PMI_RANK:-0}}
[ "$rank" -eq 1 ] && [ -n "${1:-}" ] && export QKV_ISA=scalar
shift
[ "$rank" -eq 1 ] && [ -n "${OTHER:-}" ] && set -- "$@" --causal
exec "$QKV_BIN" "$@"
SH
for launcher in $launchers; do
    timeout 60 "$launcher" -n 2 sh differ.sh isa attn -q q.npy -k k.npy -v v.npy >"$out" 2>"$err"
    [ $? -eq 4 ] || failed "exit code of other instruction sets: $launcher"
    says_part 'rank 1 has another instruction set than rank 0'
    OTHER=1 timeout 60 "$launcher" -n 2 sh differ.sh '' attn -q q.npy -k k.npy -v v.npy >"$out" 2>"$err"
    [ $? -eq 2 ] || failed "exit code of other command lines: $launcher"
    says_part 'rank 1 has another command line than rank 0'
done

title 'a test of ranks is skipped where no MPI is, and fails with QKV_NEED_MPI=1'
for need in '' 1; do
    (
        QKV_NEED_MPI=$need QKV_BIN=$temp/none/bin/qkv
        . "$here/ranks_lib.sh"
    ) >"$out"
    code=$?
    [ $code -eq "${need:-77}" ] || failed "exit code $code with QKV_NEED_MPI=$need"
done

finish
