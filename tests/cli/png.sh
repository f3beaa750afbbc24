# SPDX-License-Identifier: MIT
# png.sh: PNG files are painted in a child process: a library that ends it is an error of the command, and the child
# ends with the command.
. tests/cli/lib.sh
[ -z "${QKV_SLOW:-}" ] || { echo 'skipped: a sanitizer must be the first library'; exit 77; }
small=$here/../golden/bert
"$QKV_BIN" explain --norm -o t.png >"$out" 2>"$err"
code=$?
[ $code -ne 4 ] || { echo "skipped: $(cat "$err")"; exit 77; }

title 'a PNG file is written'
[ $code -eq 0 ] || failed "exit code $code"
check sh -c 'head -c 4 t.png | grep -q PNG'

# ended EXPECTED ARGS...: the command ends with 5 and names the file and the end of its child; nothing is written
ended() {
    wanted=$1
    shift
    mkdir folder
    echo old >folder/old.png
    for name in new old; do
        LD_PRELOAD=$QKV_END_PAINTER runs 5 "$@" -o folder/$name.png --force
        says_part "folder/$name.png"
        says_part "the process that paints the PNG file was ended by $wanted, as cairo and fontconfig do without memory; \
SVG needs neither"
    done
    [ "$(ls folder)" = old.png ] || failed "left: $(ls folder)"
    [ "$(cat folder/old.png)" = old ] || failed 'the old file has changed'
    rm -r folder
}
for number in 6 9 11; do
    title "a library that ends by signal $number is an error, and nothing is written"
    export QKV_PAINTER_END=$number
    ended "signal $number" explain --norm
done
title 'a library that calls exit is an error'
QKV_PAINTER_END=0 ended 'exit code 3' explain --norm
for code in 0 5; do
    title "also with the exit code $code, which a command has of its own"
    LD_PRELOAD=$QKV_END_PAINTER QKV_PAINTER_END=exit$code runs 5 explain --norm -o x.png
    says_part 'qkv: x.png: the process that paints the PNG file'
    [ ! -e x.png ] || failed 'a file is left'
done
if command -v bash >/dev/null; then # dash cannot ignore this signal
    title 'a caller that ignores SIGCHLD gets the error too'
    LD_PRELOAD=$QKV_END_PAINTER bash -c "trap '' CHLD; exec \"\$0\" explain --norm -o x.png" "$QKV_BIN" >"$out" 2>"$err"
    [ $? -eq 5 ] || failed 'expected exit code 5'
    says_part 'qkv: x.png: the process that paints the PNG file'
    [ ! -e x.png ] || failed 'a file is left'
fi
title 'every command that writes pictures'
ended 'signal 11' view -m "$small" abc --view matrix
ended 'signal 11' similar -m "$small" abc bcd --why
ended 'signal 11' similar -m "$small" abc bcd --why --json
ended 'signal 11' analogy -m "$small" a
ended 'signal 11' analogy -m "$small" a --json
ended 'signal 11' info "$small" --diagram model
ended 'signal 11' explain -m "$small" abc
ended 'signal 11' compare --kinds attention -n 32 -d 16
mkdir run
for i in 1 2 3; do echo "{\"step\":$i,\"loss\":$i,\"rate\":0.001,\"norm\":1.5}"; done >run/log.jsonl
ended 'signal 11' plot run

title 'a library that never ends is ended by a limit of processor time'
export QKV_PAINTER_END=loop
(ulimit -S -t 1 && LD_PRELOAD=$QKV_END_PAINTER runs 5 explain --norm -o x.png && exit $failures) || failed 'no end'
says_part 'needs more processor time than its limit'
[ ! -e x.png ] || failed 'a file is left'
export QKV_PAINTER_END=11

title 'the error is JSON with --json'
LD_PRELOAD=$QKV_END_PAINTER runs 5 explain --norm -o x.png --json
says_part '"file":"x.png"'
says_part '"code":5'

title 'the command reports the other errors of the child'
runs 2 explain --norm -o t.png
says_part 'qkv: t.png: the output file exists already'
mkdir closed
chmod a-w closed
if [ "$(id -u)" -ne 0 ]; then
    runs 6 explain --norm -o closed/x.png
    says_part 'closed/x.png'
fi

if [ "$(uname)" = Linux ]; then
    for name in KILL TERM HUP ignored; do
        title "the child ends with the command, after $name"
        rm -f painter.pid
        [ $name != ignored ] || trap '' TERM INT # the command and its child inherit that
        LD_PRELOAD=$QKV_END_PAINTER QKV_PAINTER_END=wait "$QKV_BIN" explain --norm -o w.png >"$out" 2>"$err" &
        command=$!
        [ $name != ignored ] || { trap - TERM INT && name=KILL; }
        for i in $(seq 200); do [ ! -e painter.pid ] || break; sleep 0.05; done
        [ -e painter.pid ] || failed 'nothing is painted'
        grep -Eq '^Max cpu time +120 ' "/proc/$(cat painter.pid)/limits" || failed 'no limit of processor time'
        kill -$name $command
        wait $command
        [ $? -ne 0 ] || failed 'exit code 0'
        painter=$(cat painter.pid)
        for i in $(seq 200); do # a zombie has ended too
            grep -q '^State:.[^Z]' "/proc/$painter/status" 2>/dev/null || break
            sleep 0.05
        done
        ! grep -q '^State:.[^Z]' "/proc/$painter/status" 2>/dev/null || failed 'the child runs on'
        [ ! -e w.png ] || failed 'a file is left'
    done
fi
finish
