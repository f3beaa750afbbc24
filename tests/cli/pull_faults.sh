# SPDX-License-Identifier: MIT
# qkv pull: servers that fail, break off and lie.
. ./tests/cli/pull_lib.sh

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

title 'a server that sends a few bytes per second is asked again'
fresh
runs 0 pull org/verse
whole=$(requests 'GET /org/verse')
fresh '/resolve/ slow=5 2' # it would need minutes
HF_HUB_DOWNLOAD_TIMEOUT=3 runs 0 pull org/verse
complete
[ "$(requests 'GET /org/verse')" -gt "$whole" ] || failed 'not one more request'

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

title 'a storage with fewer bytes than the list is asked once, or twice after an earlier download'
fresh '/cdn/ short=3000000'
runs 3 pull org/verse
says_part "the server's file ends after 3000000 bytes, expected $(wc -c <"$weights")"
[ "$(requests 'GET /cdn/')" -eq 1 ] || failed 'not one request'
for fault in short=3000000 status=416; do
    fresh "/cdn/ $fault"
    mkdir -p "$folder/blobs"
    head -c 4000000 "$weights" >"$folder/blobs/$sha.incomplete"
    [ $fault = status=416 ] && runs 6 pull org/verse || runs 3 pull org/verse
    [ "$(requests 'GET /cdn/')" -eq 2 ] || failed "not two requests: $fault"
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

title 'a status that is no redirect leads nowhere'
for status in 300 304 305 306; do
    fresh "model.safetensors moved=$status,http://127.0.0.1:$cdn/cdn/$sha"
    runs 6 pull org/verse
    says_part "status $status"
    [ "$(requests 'GET /cdn/')" -eq 0 ] || failed "status $status was followed"
done

title 'messages show no password and no query of an address'
hides() { # runs the command, whose error must not contain the secret
    runs "$@"
    ! grep -q hidden "$err" || failed 'the secret is shown'
}
fresh '/revision/ status=400'
HF_ENDPOINT=http://user:hidden@127.0.0.1:$port hides 6 pull org/verse
says_part "http://127.0.0.1:$port/api/models/org/verse/revision/main answers with status 400"
for endpoint in http://user:hidden@127.0.0.1:x http://user:hid/hidden@127.0.0.1 "http://127.0.0.1:$port?x=hidden" user:hidden@x; do
    HF_ENDPOINT=$endpoint hides 2 pull org/verse
done
fresh
HF_ENDPOINT=http://user:hidden@127.0.0.1:$port hides 6 pull org/none
for code in GatedRepo RevisionNotFound; do
    fresh "/revision/ code=403,$code"
    HF_ENDPOINT=http://user:hidden@127.0.0.1:$port hides 6 pull org/verse
done
fresh '/revision/ body={}'
HF_ENDPOINT=http://user:hidden@127.0.0.1:$port hides 3 pull org/verse
fresh '/revision/ headers'
HF_ENDPOINT=http://user:hidden@127.0.0.1:$port hides 3 pull org/verse
fresh "/cdn/ redirect=http://127.0.0.1:$port/x?signature=hidden"
hides 6 pull org/verse
says_part "http://127.0.0.1:$port/x answers with status 404"
fresh '/cdn/ redirect=ftp://user:hidden@127.0.0.1/x?signature=hidden'
hides 3 pull org/verse
says_part 'leads to ftp://..., expected'
fresh '/cdn/ redirect=http://user:hidden@127.0.0.1/x?signature=hidden'
hides 3 pull org/verse
says_part 'leads to http://127.0.0.1/x, expected an address without user name'

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
title 'an error about a response names its address; a list of files that repeats ends at once'
commit=$(printf '%s' "$(python3 -S -E -c 'import json, sys, urllib.request; print(json.load(urllib.request.urlopen(sys.argv[1]))["sha"])' \
    "$HF_ENDPOINT/api/models/org/verse/revision/main")")
tree=$HF_ENDPOINT/api/models/org/verse/tree/$commit
fresh '/tree/ body=['
runs 3 pull org/verse
says_part "qkv: $tree: at "
fresh '/tree/ body={}'
runs 3 pull org/verse
says "qkv: $tree: list of files: expected an array, found an object"
fresh '/revision/ body={'
runs 3 pull org/verse
says_part "qkv: $HF_ENDPOINT/api/models/org/verse/revision/main: at "
fresh "/tree/ page=$tree?cursor=1,[]"
runs 3 pull org/verse
says "qkv: $tree: org/verse: the list of files leads to this page a second time"
[ "$(requests /tree/)" -eq 2 ] || failed "requests of a list that repeats: $(requests /tree/)"
fresh "/tree/ page=$tree?cursor=1,[$(row config.json)]"
runs 3 pull org/verse
says "qkv: $tree: list of files: 'config.json' occurs twice"
[ "$(requests /tree/)" -eq 2 ] || failed "requests of a list whose files repeat: $(requests /tree/)"
for list in '[]' "[$(row model.safetensors)]" "[$(row tokenizer.json),$(row 1_Pooling/config.json)]"; do
    fresh "/tree/ body=$list"
    runs 4 pull org/verse
    says 'qkv: org/verse has no config.json, expected config.json and model.safetensors'
    [ "$(requests /resolve/)" -eq 0 ] || failed 'a download of a repository without config.json'
done
for info in '{}' '{"sha":"../../x"}' '{"sha":1}' '[]'; do
    printf '/revision/ body=%s\n' "$info" >"$hub/faults"
    runs 3 pull org/verse
done
finish
