# SPDX-License-Identifier: MIT
# qkv pull: the cache that huggingface_hub makes, refusals, kills, and two processes at once.
. ./tests/cli/pull_lib.sh

title 'the files that qkv reads, and no others'
fresh
runs 0 pull org/verse
silent
complete
[ "$(head -n 1 "$out")" = "$snapshot" ] || failed 'the first line is not the folder'
[ "$(find "$snapshot" -type l | wc -l)" -eq 5 ] || failed 'other files'
[ "$(readlink "$snapshot/1_Pooling/config.json")" = "../../../blobs/$(basename "$(readlink "$snapshot/1_Pooling/config.json")")" ] ||
    failed 'the link is not relative'
[ -f "$folder/blobs/$sha" ] || failed 'the weights have another name than their SHA-256'
runs 0 generate -m org/verse 'In the beginning' -n 3
runs 0 pull org/verse --json
prints_part "\"folder\":\"$snapshot\""
prints_part '"received":0,"network":false'

title 'the cache equals that of huggingface_hub, file by file'
peer=${QKV_PEERS_VENV:-}/bin/python
if [ -x "$peer" ] && "$peer" -c 'import huggingface_hub' 2>/dev/null; then
    HF_HUB_CACHE=$temp/theirs HF_HUB_DISABLE_XET=1 HF_HUB_DISABLE_PROGRESS_BARS=1 "$peer" - 2>peer <<'EOF' || failed "$(tail -n 1 peer)"
from huggingface_hub import snapshot_download
names = ["config.json", "*.safetensors", "tokenizer*.json", "1_Pooling/config.json"]
snapshot_download("org/verse", allow_patterns=names)
snapshot_download("org/verse", revision="v2", allow_patterns=names)
EOF
    runs 0 pull org/verse@v2
    check diff -r --no-dereference "$HF_HUB_CACHE" theirs
    # each continues with the files of the other, without downloading again
    rm -f "$hub/log"
    HF_HUB_CACHE=$temp/theirs runs 0 pull org/verse
    [ ! -e "$hub/log" ] || failed 'requests for a complete model of huggingface_hub'
    HF_HUB_OFFLINE=1 HF_HUB_CACHE=$HF_HUB_CACHE "$peer" -c 'import huggingface_hub
print(huggingface_hub.snapshot_download("org/verse", allow_patterns=["*.json", "*.safetensors"]))' >theirs.txt 2>peer || failed "$(tail -n 1 peer)"
fi

title 'tokenizers in any format that qkv reads, and no others'
fresh
mkdir -p "$hub/org/pieces/main/0_Transformer"
cp "$hub/org/verse/main/config.json" "$hub/org/verse/main/model.safetensors" "$hub/org/pieces/main/"
for name in spm.model spiece.model vocab.txt merges.txt tokenizer.bin source.spm target.spm sentencepiece.model other.txt other.bin; do
    echo "$name" >"$hub/org/pieces/main/$name"
    echo "$name" >"$hub/org/pieces/main/0_Transformer/$name"
done
runs 0 pull org/pieces
found=$(cd "$HF_HUB_CACHE"/models--org--pieces/snapshots/* && find . -type l | sort | tr '\n' ' ')
wanted=
for name in merges.txt source.spm spiece.model spm.model target.spm tokenizer.bin vocab.txt; do wanted="$wanted./0_Transformer/$name "; done
wanted="$wanted./config.json ./merges.txt ./model.safetensors ./source.spm ./spiece.model ./spm.model ./target.spm ./tokenizer.bin ./vocab.txt "
[ "$found" = "$wanted" ] || failed "files: $found"

title 'a complete model needs no network; --update asks for a newer commit'
fresh
runs 0 pull org/verse
rm "$hub/log"
runs 0 pull org/verse
prints_part 'complete already, no network was used'
[ ! -e "$hub/log" ] || failed 'a request was sent'
HF_ENDPOINT=http://127.0.0.1:1 HF_HUB_OFFLINE=1 runs 0 pull org/verse
runs 0 pull org/verse --update
[ "$(requests /tree/)" -gt 0 ] || failed 'no request'
[ "$(requests GET.*resolve)" -eq 0 ] || failed 'files were downloaded again'
rm "$hub/log"
runs 0 pull org/verse@v2 # only config.json differs
complete v2
[ "$(requests /cdn/)" -eq 0 ] || failed 'the weights were downloaded again'
runs 0 pull org/verse@$(cat "$folder/refs/v2")
[ ! -e "$folder/refs/$(cat "$folder/refs/v2")" ] || failed 'a commit has a reference'

title 'a broken list of files of the cache is written again'
fresh
runs 0 pull org/verse
tree=$folder/trees/$(cat "$folder/refs/main").json
cp "$tree" tree.json
for broken in empty cut other large; do
    case $broken in
    empty) : >"$tree" ;;
    cut) head -c 100 tree.json >"$tree" ;;
    other) echo '{"format_version": 1, "files": {}}' >"$tree" ;;
    large) truncate -s 67108865 "$tree" ;;
    esac
    HF_HUB_OFFLINE=1 runs 6 pull org/verse
    says_part 'without the list of its files'
    runs 0 pull org/verse
    cmp tree.json "$tree" || failed "the list is another one: $broken"
    HF_HUB_OFFLINE=1 runs 0 pull org/verse
done
ln -sf "${tree##*/}" "$tree" # a link to itself
HF_HUB_OFFLINE=1 runs 6 pull org/verse
says_part "$tree: cannot read: "
runs 0 pull org/verse
cmp tree.json "$tree" || failed 'the list is another one than that which could not be read'
[ "$(requests 'GET /cdn/')" -eq 1 ] || failed 'the weights were downloaded again'

title 'a file of the cache gets no second name unchecked'
fresh
runs 0 pull org/verse
head -c "$(wc -c <"$weights")" /dev/zero >"$folder/blobs/$sha"
runs 0 pull org/verse@v2
says_part 'model.safetensors: the file of an earlier download has other contents; downloading it again'
complete v2
complete

title 'offline, what is missing is named'
fresh
HF_HUB_OFFLINE=1 runs 6 pull org/verse
says "qkv: org/verse is not in the cache $HF_HUB_CACHE, and HF_HUB_OFFLINE forbids the network"
fresh
runs 0 pull org/verse
rm "$folder/snapshots/$(cat "$folder/refs/main")/tokenizer.json"
HF_HUB_OFFLINE=yes runs 6 pull org/verse
says_part '1 file of the commit'
HF_HUB_OFFLINE=0 runs 0 pull org/verse
complete

title 'the token reaches the hub and no other host'
fresh
runs 6 pull org/secret
says_part 'org/secret is not a model of'
says_part 'set HF_TOKEN'
HF_TOKEN=wrong runs 6 pull org/secret
says_part 'does not accept the token'
HF_TOKEN=secret runs 0 pull org/secret
[ "$(requests ' token ')" -gt 3 ] || failed 'no token'
[ "$(grep -F /cdn/ "$hub/log" | grep -cF ' token ')" -eq 0 ] || failed 'the second host got the token'
[ "$(requests '/cdn/')" -eq 1 ] || failed 'not one download'
mkdir -p "$HOME/.cache/huggingface"
echo secret >"$HOME/.cache/huggingface/token"
fresh
runs 0 pull org/secret
rm "$HOME/.cache/huggingface/token"
fresh
HF_TOKEN='a b' runs 2 pull org/secret
HF_TOKEN="$(printf 'a\nX: y')" runs 2 pull org/secret

title 'refusals are plain'
fresh
runs 6 pull org/none
says "qkv: org/none is not a model of $HF_ENDPOINT, or it is private: set HF_TOKEN to a token with access (status 401)"
runs 6 pull org/verse@v9
says "qkv: org/verse exists on $HF_ENDPOINT, but has no revision v9"
fresh '/revision/ code=403,GatedRepo'
runs 6 pull org/verse
says "qkv: org/verse is gated: accept its terms at $HF_ENDPOINT/org/verse, then set HF_TOKEN to a token of that account"
fresh 'model.safetensors code=403,GatedRepo'
runs 6 pull org/verse
says_part 'is gated'
[ ! -e "$folder/refs/main" ] || failed 'an incomplete model has a name'
fresh 'tokenizer.json code=404,EntryNotFound'
runs 6 pull org/verse
says_part 'the hub lists tokenizer.json but has no such file'
[ -f "$(find "$folder/.no_exist" -name tokenizer.json)" ] || failed 'no .no_exist'
runs 4 pull org/bare
says "qkv: org/bare has weights in other formats only, expected model.safetensors or its shards"
for name in /etc ../x a/b/c a/../b 'a b' a/b@ org/x@../y; do
    runs 2 pull "$name"
    says_part 'expected a name such as org/name'
done
runs 2 pull
for endpoint in ftp://x file:///etc https:// http://x:99999/ 'http://a b/' nonsense; do
    HF_ENDPOINT=$endpoint runs 2 pull org/verse
done
HF_ENDPOINT=http://127.0.0.1:1 runs 6 pull org/verse
says_part 'did not arrive'

title 'killed at any moment, the same command completes the download'
for pause in 0.05 0.1 0.2 0.3 0.5 0.8; do
    fresh '/cdn/ slow=0.03' 'config.json slow=0.01'
    "$QKV_BIN" pull org/verse >/dev/null 2>&1 &
    sleep $pause
    kill -9 $! 2>/dev/null
    wait $! 2>/dev/null
    runs 0 pull org/verse
    complete
done

title 'Ctrl-C keeps what has arrived'
fresh '/cdn/ slow=0.1'
python3 -S -E - "$QKV_BIN" <<'EOF' || failed 'exit code of Ctrl-C'
import signal, subprocess, sys, time, os, glob
p = subprocess.Popen([sys.argv[1], "pull", "org/verse"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
pattern = os.environ["HF_HUB_CACHE"] + "/*/blobs/*.incomplete"
def arrived(file):
    try: return os.path.getsize(file)
    except FileNotFoundError: return 0 # it has its name now
while p.poll() is None and not any(arrived(f) > 500000 for f in glob.glob(pattern)): time.sleep(.02)
p.send_signal(signal.SIGINT)
said = p.communicate(timeout=60)[1].decode()
sys.exit(p.returncode != 130 or "the same command continues" not in said)
EOF
rm "$hub/faults"
runs 0 pull org/verse
grep -q 'bytes=[1-9]' "$hub/log" || failed 'the download began again'
complete

title 'two processes download each file once'
fresh '/cdn/ slow=0.02'
"$QKV_BIN" pull org/verse >first 2>&1 &
"$QKV_BIN" pull org/verse >second 2>&1 &
wait %2 %3 2>/dev/null || wait
complete
[ "$(requests "GET /cdn/")" -eq 1 ] || failed 'the weights were downloaded twice'
cmp -s first second || grep -q snapshots second || failed "$(cat second)"

title 'a limit on file sizes, as a full disk, names the file'
fresh
(ulimit -f 1000 && trap '' XFSZ && "$QKV_BIN" pull org/verse >"$out" 2>"$err")
[ $? -eq 6 ] || failed 'no error of files'
says_part 'cannot write'
runs 0 pull org/verse
complete

title 'the hub of these tests prints its own errors, and none of clients that have ended'
[ ! -s server ] || failed "$(head -n 5 server)"
fresh '/api/ nonsense'
python3 -S -E - "$port" <<'EOF'
import http.client, sys
hub = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
hub.request("GET", "/api/models/org/verse")
try: hub.getresponse()
except http.client.RemoteDisconnected: pass
EOF
grep -q 'ValueError: nonsense' server || failed 'no error of the hub'
finish
