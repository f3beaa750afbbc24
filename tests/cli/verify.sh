# SPDX-License-Identifier: MIT
# verify.sh: tests that qkv verify passes on this machine, reports its comparisons, and detects a slightly wrong
# result.
. tests/cli/lib.sh

if [ -z "${QKV_SLOW:-}" ]; then # sanitized builds run the tests of the kernels instead
title 'every kernel of this machine is within its limits'
runs 0 verify --quick --json
silent
check python3 - "$out" <<'END'
import json, subprocess, sys, os
r = json.load(open(sys.argv[1]))
info = json.loads(subprocess.run([os.environ["QKV_BIN"], "info", "--json"], capture_output=True).stdout)
assert r["ok"] is True and r["cases"] == [], r["cases"][:3]
precisions = "f32 f32-strict f32-fast bf16 f16 int8".split()
for isa in info["isas"]:
    for p in precisions:
        row, = [x for x in r["rows"] if (x["kernel"], x["isa"], x["precision"]) == ("attention", isa, p)]
        assert row["failed"] == 0
        if row["cases"]:
            assert row["refused"] == 0 and row["cases"] > 100 and 0 < row["of_bound"] <= 1, row
            if p in ("f32", "f32-strict", "bf16", "f16"):
                assert row["ratio_worst"] <= row["ratio_limit"] == (1.5 if p[:3] == "f32" else 2), row
        elif "as" in row: # the kernel of another instruction set, measured there
            there, = [x for x in r["rows"] if (x["kernel"], x["isa"], x["precision"]) == ("attention", row["as"], p)]
            assert there["cases"] > 100, row
        else:
            assert row["refused"] > 0 and row["reason"], row
    for kernel in "linear", "layer norm", "softmax":
        assert [x for x in r["rows"] if x["kernel"] == kernel and x["isa"] == isa and x["cases"]], kernel
# Gradients: dq, dk and dv are a case each; a row without gradients gives the reason.
for isa in info["isas"]:
    for p in precisions:
        row, = [x for x in r["rows"] if (x["kernel"], x["isa"], x["precision"]) == ("backward", isa, p)]
        if row["cases"]:
            assert row["refused"] == 0 and row["failed"] == 0 and row["cases"] >= 60, row
            assert row["cases"] % 3 == 0 and 0 < row["of_bound"] <= 1, row
            if p in ("f32", "f32-strict", "bf16", "f16"):
                assert row["ratio_worst"] <= row["ratio_limit"] == (1.5 if p[:3] == "f32" else 2), row
        elif "as" in row:
            there, = [x for x in r["rows"] if (x["kernel"], x["isa"], x["precision"]) == ("backward", row["as"], p)]
            assert there["cases"] >= 60, row
        else:
            assert p == "int8" and row["refused"] > 0 and row["reason"], row
for p in "bf16", "f16":
    for way in "to f32", "from f32":
        row, = [x for x in r["rows"] if (x["precision"], x["arithmetic"]) == (p, way)]
        assert row["cases"] == 1 and row["max"] == 0, row
END
fi

title 'one instruction set, one precision, all cases'
runs 0 verify --quick --isa scalar --precision f16 --cases
prints_part 'ok   attention scalar f16, T 97, S 97, E 64, F 64: plain, scores x1000: max '
prints_part '0 failed, seed 1'
grep -q 'avx\|neon' "$out" && failed 'another instruction set ran'

title 'the table fits 80 columns; only --cases prints the worst case'
grep -q 'nearest to a limit' "$out" || failed 'the column of the worst case'
runs 0 verify --quick --isa scalar --precision int8
check test "$(wc -L <"$out")" -le 80
grep -q 'nearest to a limit' "$out" && failed 'the column of the worst case'
grep -q '^attention  scalar     int8       as float  *[0-9]*     -     -        -  *[0-9.]*%$' "$out" ||
    failed 'a row of int8: no units in the last place'

title 'unknown options are refused'
runs 2 verify --isa avx9
says_part "qkv: --isa: unknown instruction set, expected one of scalar"
if [ "$(uname -m)" = aarch64 ]; then other=avx2; else other=neon; fi
runs 4 verify --isa $other
says_part "qkv: --isa: instruction set not supported by this machine, expected one of scalar"
runs 2 verify --precision half
says "qkv: --precision: unknown value, expected one of f32, f32-strict, f32-fast, bf16, f16, int8, found 'half'"
runs 2 verify now
runs 2 verify --seed -1

# A preloaded library changes results slightly; a sanitizer's runtime does not allow it.
if [ -z "${QKV_SLOW:-}" ] && [ -f "${QKV_SKEWED:-}" ]; then
    title 'an error of 2^-12 in one number is detected'
    LD_PRELOAD=$QKV_SKEWED QKV_SKEW=attention runs 1 verify --quick --isa scalar --precision f32
    prints_part 'FAIL attention scalar f32, T 1, S 1,'
    says_part 'qkv: a check failed: an error exceeds its limit'
    LD_PRELOAD=$QKV_SKEWED QKV_SKEW=backward,norm runs 1 verify --quick --isa scalar --precision f32
    grep -q '^FAIL backward scalar f32, T .*, dk:' "$out" || failed 'an error in dk'
    prints_part 'FAIL layer norm scalar f32, '
    grep -q '^FAIL attention' "$out" && failed 'an error that no library made'
    LD_PRELOAD=$QKV_SKEWED QKV_SKEW=half runs 1 verify --quick --isa scalar --precision bf16 --json
    prints_part '"cases":[{"kernel":"convert","isa":"any","precision":"bf16","case":"every bit pattern"'
    prints_part '"ok":false'
fi
finish
