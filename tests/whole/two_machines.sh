#!/bin/sh
# SPDX-License-Identifier: MIT
# two_machines.sh QKV BUILD: runs the commands of "Two machines" in docs/machines.md on two hosts of this machine
# (bench/hosts.sh), with programs in place of ssh and scp, and compares the results with one process.
set -u
qkv=$(realpath "$1") build=$(realpath "$2")
here=$PWD
temp=$(mktemp -d)
. "$here/bench/hosts.sh"
trap 'hosts_close; rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
for kind in openmpi mpich; do
    ls "$build/libqkv_mpi-$kind.so"* >/dev/null 2>&1 && command -v mpirun.$kind >/dev/null ||
        { echo "two_machines: $kind is not here"; [ -z "${QKV_NEED_MPI:-}" ] || exit 1; exit 77; }
done
hosts_open || { echo 'two_machines: no network namespaces can be made here'; exit 77; }
fails() { echo "FAILED: $1"; cat "$temp/log"; exit 1; }
# The second host has another home folder; scp copies to it and from it.
mkdir "$temp/work" "$temp/home"
mv "$hosts_bin/ssh" "$hosts_bin/connect"
cat >"$hosts_bin/ssh" <<SH
#!/bin/sh
case "\$*" in
"$host_b qkv "*) cd "$temp/home" ;;
esac
echo "\$1 \$2 \$3" >>"$temp/connections"
exec "$hosts_bin/connect" "\$@"
SH
cat >"$hosts_bin/scp" <<SH
#!/bin/sh
place() { case \$1 in $host_b:*) echo "$temp/home/\${1#*:}" ;; *) echo "\$1" ;; esac; }
exec cp \$(place "\$1") "\$(place "\$2")"
SH
chmod +x "$hosts_bin/ssh" "$hosts_bin/scp"
ln -s "$qkv" "$hosts_bin/qkv"
ln -s "$(command -v mpirun.openmpi)" "$hosts_bin/mpirun"
cp -r tests/golden/bert "$temp/model"
export PATH="$hosts_bin:$PATH" QKV_MODEL="$temp/model" QKV_THREADS=1 OMPI_ALLOW_RUN_AS_ROOT=1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1
export MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self # or MPICH finds that both hosts are one machine
cd "$temp/work" || exit 1
for name in q k v; do python3 -S -E "$here/tests/cli/arrays.py" random $name.npy f4 1x300x2x16 1; done
cat "$here"/docs/notes/0*.md >book.txt
for n in $(seq 25); do echo "owl $((n * n % 17))"; done >lines.txt

# small models train in the place of the one that the page trains
sed -n '/^## Two machines/,/^## One training/s/^    //p' "$here/docs/machines.md" |
    sed 's/ --steps 20/ --width 16 --layers 1 --context 32 --batch-tokens 64 --steps 4/' >commands
[ "$(grep -c . commands)" -ge 14 ] || fails 'the commands of the page'
sent=$(cable_bytes)
on_host $host_a timeout 200 sh -e commands >"$temp/log" 2>&1 || fails 'the commands of the page'
sent=$(($(cable_bytes) - sent))

export QKV_ISA=scalar
qkv attn -q q.npy -k k.npy -v v.npy --causal -o one.npy
qkv train book.txt --width 16 --layers 1 --context 32 --batch-tokens 64 --accumulate 2 --steps 4 --out alone >"$temp/log" 2>&1
qkv embed -f lines.txt -o all.npy
for pair in out.npy:one.npy out2.npy:one.npy vectors.npy:all.npy run/model/model.safetensors:alone/model/model.safetensors \
    run/model/optimizer.safetensors:alone/model/optimizer.safetensors run/log.jsonl:alone/log.jsonl; do
    cmp "${pair%:*}" "${pair#*:}" || fails "$pair differ"
done
[ $sent -gt 100000 ] || fails "only $sent bytes went over the cable"
[ "$(grep -c "$host_b" "$temp/connections")" -ge 6 ] || fails 'connections to the second host'
echo "two hosts: the files of one process; $sent bytes from the first over the cable"

# A rank of the second host is killed: of the first host rank 0, which works with it.
cat >rank.sh <<'SH'
"$1/qkv" attn -q big.npy -k big.npy -v big.npy -o killed.npy --force &
pid=$!
rank=${OMPI_COMM_WORLD_RANK:-$PMI_RANK}
trap : TERM USR1
if [ "$rank" -eq 3 ]; then
    until grep -q big.npy "/proc/$pid/maps"; do sleep 0.05; done
    sleep 1
    date +%s >"$2/killed"
    kill -9 $pid
fi
while kill -0 $pid 2>/dev/null; do
    wait $pid
    code=$?
done
echo $code >"$2/code.$rank"
exit $code
SH
python3 -S -E "$here/tests/cli/arrays.py" random big.npy f4 1x20000x2x64 1
printf '%s slots=2\n' $host_a $host_b >hosts
printf '%s:2\n' $host_a $host_b >hosts.mpich
# killed EXPECTED COMMAND...: runs the ranks; the codes of ranks 0, 1 and 2 are expected
export OMPI_MCA_odls_base_sigkill_timeout=5 # seconds between SIGTERM and SIGKILL, which are 1: cores may be busy
killed() {
    expected=$1
    shift
    rm -f code.* killed
    on_host $host_a timeout 120 "$@" sh rank.sh "$hosts_bin" "$temp/work" >"$temp/log" 2>&1 </dev/null && fails "exit code 0: $1"
    [ $(($(date +%s) - $(cat killed))) -le 30 ] || fails "the others continued for more than 30 s: $*"
    codes=$(cat code.0 code.1 code.2 2>&1 | tr '\n' ' ')
    [ "$codes" = "$expected" ] || fails "codes $codes: $*"
    [ "$(grep -c '^qkv: rank 3 has ended before the others' "$temp/log")" -eq 1 ] || fails "one line with the rank: $*"
    [ ! -e killed.npy ] || fails "an output: $*"
}
killed '6 6 6 ' mpirun --hostfile hosts --mca btl_tcp_if_include "${host_a%.*}.0/24" --map-by node:OVERSUBSCRIBE -n 4
killed '6 6 6 ' mpirun.mpich -disable-auto-cleanup -f hosts.mpich -n 4
echo 'two hosts: the others end with 6 and one line after a rank was killed'
