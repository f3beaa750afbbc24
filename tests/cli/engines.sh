# SPDX-License-Identifier: MIT
# engines.sh: the exit code and the message of a command whose engine (cli/engines) cannot be opened: 4 if it or a library
# that it needs is not there, with the package to install; 6 with its path if it is there.
. tests/cli/lib.sh
build=$(dirname "$QKV_BIN")/..
set -- "$build"/libqkv_curl.so.*
if [ ! -e "$1" ]; then
    echo 'engines: no libqkv_curl is built'
    exit 77
fi
mkdir bin
cp "$QKV_BIN" bin/qkv
cp "$build"/libqkv.so.* .
whole=$1 engine=$temp/$(basename "$1") QKV_BIN=$temp/bin/qkv
unset HF_HUB_OFFLINE TRANSFORMERS_OFFLINE
export LD_LIBRARY_PATH=$temp QKV_MODELS=$temp/none HF_HUB_CACHE=$temp/cache HF_ENDPOINT=http://127.0.0.1:9

title 'an engine that is not there'
runs 4 pull org/none
says_part "pull needs the library $(basename "$whole"), which cannot be opened ("
says_part 'apt-get install'

title 'an engine whose library is not there'
sed 's/libcurl\.so/libnone.so/' "$whole" >"$engine"
runs 4 pull org/none
says_part 'libnone.so'
says_part 'apt-get install'

title 'an engine that is damaged, or cannot be reached'
head -c 10 "$whole" >"$engine"
runs 6 pull org/none
says_part "qkv: $engine: cannot open the library: $engine: file too short"
rm "$engine"
ln -s "$(basename "$engine")" "$engine"
runs 6 pull org/none
says_part "qkv: $engine: cannot open the library: "

title 'an engine that opens'
cp --remove-destination "$whole" "$engine"
runs 6 pull org/none
says_part '127.0.0.1'

finish
