# SPDX-License-Identifier: MIT
# attn.sh: compares the operator on files with the formula in f64 (arrays.py), within the error bound of f32.
. tests/cli/lib.sh

# Runs qkv with $1 and the reference with $2, compares out, lse, weights within the derived bounds.
agrees() {
    rm -f got.npy lse.npy w.npy
    runs 0 attn $1 -o got.npy --lse lse.npy --weights w.npy
    bounds=$(python attend want.npy $2 lse=want_lse.npy weights=want_w.npy) || failed "reference of $2"
    set -- $bounds
    python close got.npy want.npy "$1" 2>"$err" || failed 'out'
    python close w.npy want_w.npy "$2" 2>"$err" || failed 'weights'
    python close lse.npy want_lse.npy "$3" 2>"$err" || failed 'lse'
}

# ---- the arrays of docs/notes: x(5,10), wq and wk (20,10), wv (25,10)
python random x.npy f4 5x10 1
python random wq.npy f4 20x10 2
python random wk.npy f4 20x10 3
python random wv.npy f4 25x10 4
python random wo.npy f4 7x25 5

title 'without projections Q = K = V = X'
agrees '-x x.npy' 'q=x.npy k=x.npy v=x.npy'
silent

title 'without softmax and scale it is X X^T X, and --sum adds its rows'
runs 0 attn -x x.npy --no-softmax --scale none -o bare.npy
bound=$(python attend want.npy q=x.npy k=x.npy v=x.npy no_softmax scale=1 | cut -d' ' -f1)
check python close bare.npy want.npy "$bound"
runs 0 attn -x x.npy --no-softmax --scale none --sum -o sum.npy
[ "$(python shape sum.npy)" = '10 f4' ] || failed "shape of the sum: $(python shape sum.npy)"
python values ones.npy f4 1x5 1,1,1,1,1
python3 - <<'PY' || failed 'the sum of the rows'
import sys
sys.argv = ['', 'shape', 'sum.npy']
import struct
def data(path):
    b = open(path, 'rb').read()
    n = struct.unpack('<H', b[8:10])[0]
    return struct.unpack('<%df' % ((len(b) - 10 - n) // 4), b[10 + n:])
bare, total = data('bare.npy'), data('sum.npy')
for e in range(10):
    exact = sum(bare[t * 10 + e] for t in range(5))
    assert abs(total[e] - exact) <= abs(exact) * 2.0 ** -24, (e, total[e], exact)
PY

title 'one head with its projections: widths 20 and 25'
for n in q k v; do python project $n.npy x.npy w$n.npy; done
agrees '-x x.npy --wq wq.npy --wk wk.npy --wv wv.npy' \
    'q=q.npy k=k.npy v=v.npy qabs=q.npy.abs kabs=k.npy.abs vabs=v.npy.abs inner=10'
[ "$(python shape got.npy)" = '5x25 f4' ] || failed 'shape of the output'

title 'W_O brings the heads to the output width'
runs 0 attn -x x.npy --wq wq.npy --wk wk.npy --wv wv.npy --wo wo.npy -o wide.npy
[ "$(python shape wide.npy)" = '5x7 f4' ] || failed 'shape of the output'
python project want.npy got.npy wo.npy
python3 - "$(python show want.npy.abs)" <<'PY' >bound
import sys
print(max(map(float, sys.argv[1].split())) * 26 * 2.0 ** -24)
PY
check python close wide.npy want.npy "$(cat bound)"

title 'projections as (inputs, outputs) give the same bits'
python3 - <<'PY'
import subprocess, struct
def load(path):
    b = open(path, 'rb').read()
    n = struct.unpack('<H', b[8:10])[0]
    return struct.unpack('<%df' % ((len(b) - 10 - n) // 4), b[10 + n:])
def save(path, rows, cols, x):
    h = repr({'descr': '<f4', 'fortran_order': False, 'shape': (rows, cols)})
    h += ' ' * (-(len(h) + 11) % 64) + '\n'
    open(path, 'wb').write(b'\x93NUMPY\1\0' + struct.pack('<H', len(h)) + h.encode() + struct.pack('<%df' % len(x), *x))
for name, out in (('wq', 20), ('wk', 20), ('wv', 25)):
    w = load(name + '.npy')
    save(name + '_t.npy', 10, out, [w[o * 10 + i] for i in range(10) for o in range(out)])
PY
runs 0 attn -x x.npy --wq wq_t.npy --wk wk_t.npy --wv wv_t.npy --w-layout in,out -o turned.npy
check cmp -s turned.npy got.npy

title 'float64 is converted, with a note'
python random x64.npy f8 5x10 1
runs 0 attn -x x64.npy -o from64.npy
says 'qkv: note: the numbers of x64.npy were converted from float64 to float32'
runs 0 attn -x x.npy -o from32.npy
check cmp -s from64.npy from32.npy

# ---- masks, on heads without projections
python random q2.npy f4 5x20 11
python random k2.npy f4 7x20 12
python random v2.npy f4 7x25 13
given='-q q2.npy -k k2.npy -v v2.npy'
same='q=q2.npy k=k2.npy v=v2.npy'
python random bias.npy f4 5x7 14
python random keybias.npy f4 7 15
python values mask.npy b1 5x7 1,0,1,1,0,1,1,0,0,0,0,0,0,0,1,1,1,1,1,1,1,0,1,0,0,0,0,1,1,0,0,0,0,0,0
python values sink.npy f4 1 0.5

title 'every mask by itself'
agrees "$given" "$same"
agrees "$given --causal" "$same causal"
agrees "$given --causal-br" "$same causal diagonal=bottom-right"
agrees "$given --window 1,2" "$same window=1,2"
agrees "$given --window -1,0" "$same window=-1,0"
agrees "$given --window 2,-1 --diagonal bottom-right" "$same window=2,-1 diagonal=bottom-right"
agrees "$given --lengths 4" "$same lengths=4"
agrees "$given --lengths 0" "$same lengths=0"
agrees "$given --bias bias.npy" "$same bias=bias.npy"
agrees "$given --bias keybias.npy" "$same bias=keybias.npy"
agrees "$given --mask mask.npy" "$same mask=mask.npy"
agrees "$given --alibi" "$same alibi"
agrees "$given --softcap 1.5" "$same softcap=1.5"
agrees "$given --scale -0.25" "$same scale=-0.25"
agrees "$given --scale none" "$same scale=1"
agrees "$given --sinks sink.npy" "$same sinks=sink.npy"

title 'all masks together'
agrees "$given --causal-br --window 3,1 --lengths 6 --bias bias.npy --mask mask.npy --alibi --softcap 2 --scale 0.3 --sinks sink.npy" \
    "$same causal diagonal=bottom-right window=3,1 lengths=6 bias=bias.npy mask=mask.npy alibi softcap=2 scale=0.3 sinks=sink.npy"

title 'a bias of -inf masks, and a masked NaN has no effect'
python values bias_inf.npy f4 5x7 0,-inf,0,0,-inf,0,0,-inf,-inf,-inf,-inf,-inf,-inf,-inf,0,0,0,0,0,0,0,-inf,0,-inf,-inf,-inf,-inf,0,0,-inf,-inf,-inf,-inf,-inf,-inf
runs 0 attn $given --bias bias_inf.npy --scale 0.3 -o by_bias.npy
runs 0 attn $given --mask mask.npy --scale 0.3 -o by_mask.npy
bound=$(python attend want.npy $same mask=mask.npy scale=0.3 | cut -d' ' -f1)
check python close by_bias.npy want.npy "$bound"
check python close by_mask.npy want.npy "$bound"
python3 - <<'PY'
import struct
b = bytearray(open('v2.npy', 'rb').read())
n = struct.unpack('<H', b[8:10])[0] + 10
b[n + 5 * 100:n + 7 * 100] = struct.pack('<50f', *([float('nan')] * 50))
open('v_nan.npy', 'wb').write(b)
PY
runs 0 attn -q q2.npy -k k2.npy -v v2.npy --lengths 5 -o clean.npy
runs 0 attn -q q2.npy -k k2.npy -v v_nan.npy --lengths 5 -o poisoned.npy
check cmp -s clean.npy poisoned.npy

title 'batches and grouped heads in both layouts'
python random q4.npy f4 2x5x4x6 21
python random k4.npy f4 2x7x2x6 22
python random v4.npy f4 2x7x2x3 23
four='q=q4.npy k=k4.npy v=v4.npy'
agrees '-q q4.npy -k k4.npy -v v4.npy --lengths 7,3 --causal-br --alibi' "$four lengths=7,3 causal diagonal=bottom-right alibi"
[ "$(python shape got.npy) $(python shape lse.npy) $(python shape w.npy)" = '2x5x4x3 f4 2x4x5 f4 2x4x5x7 f4' ] || failed 'shapes'
python random q5.npy f4 2x4x5x6 24
python random k5.npy f4 2x2x7x6 25
python random v5.npy f4 2x2x7x3 26
python random headbias.npy f4 4x1x7 27
agrees '-q q5.npy -k k5.npy -v v5.npy --layout bhte --bias headbias.npy' 'q=q5.npy k=k5.npy v=v5.npy layout=bhte bias=headbias.npy'
[ "$(python shape got.npy)" = '2x4x5x3 f4' ] || failed 'shape in bhte'
python random q3.npy f4 3x5x6 28
python random k3.npy f4 3x7x6 29
python random v3.npy f4 3x7x2 30
python values lengths.npy i8 3 7,0,2
agrees '-q q3.npy -k k3.npy -v v3.npy --lengths lengths.npy' 'q=q3.npy k=k3.npy v=v3.npy lengths=7,0,2'
[ "$(python shape lse.npy) $(python shape w.npy)" = '3x5 f4 3x5x7 f4' ] || failed 'shapes of a batch'

title 'packed sequences equal the sequences one by one, bit for bit'
python random all.npy f4 8x6 31
python3 - <<'PY'
import struct
b = open('all.npy', 'rb').read()
n = struct.unpack('<H', b[8:10])[0] + 10
for name, rows in (('one', (0, 3)), ('two', (3, 8))):
    h = repr({'descr': '<f4', 'fortran_order': False, 'shape': (rows[1] - rows[0], 6)})
    h += ' ' * (-(len(h) + 11) % 64) + '\n'
    open(name + '.npy', 'wb').write(b[:8] + struct.pack('<H', len(h)) + h.encode() + b[n + rows[0] * 24:n + rows[1] * 24])
PY
python3 - <<'PY' # zeros, which take no room on the disk, and a file of which each number would take 8 bytes
import struct
head = repr({'descr': '|u1', 'fortran_order': False, 'shape': (1 << 31,)})
head += ' ' * (-(len(head) + 11) % 64) + '\n'
with open('zeros.npy', 'wb') as f:
    f.write(b'\x93NUMPY\1\0' + struct.pack('<H', len(head)) + head.encode())
    f.truncate(f.tell() + (1 << 31))
PY
runs 5 attn -x all.npy --offsets zeros.npy
says 'qkv: zeros.npy: offsets: expected at most 16777216 sequences, found 2147483647'
rm zeros.npy
runs 0 attn -x all.npy --offsets 0,3,8 --causal -o packed.npy
runs 0 attn -x one.npy --causal -o first.npy
runs 0 attn -x two.npy --causal -o second.npy
python3 - <<'PY' || failed 'packed and one by one'
import struct
def body(path):
    b = open(path, 'rb').read()
    return b[struct.unpack('<H', b[8:10])[0] + 10:]
assert body('packed.npy') == body('first.npy') + body('second.npy')
PY

# ---- several heads, other scores
title 'heads split the projections: as 2-D with --heads, as 3-D, and as attention of its parts'
python random w6.npy f4 12x10 41
python random w7.npy f4 12x10 42
python random w8.npy f4 8x10 43
runs 0 attn -x x.npy --wq w6.npy --wk w7.npy --wv w8.npy --heads 4 -o heads.npy --weights hw.npy
[ "$(python shape heads.npy) $(python shape hw.npy)" = '5x8 f4 4x5x5 f4' ] || failed "shapes $(python shape heads.npy)"
for n in 6:3 7:3 8:2; do # reshaped: the head becomes the first axis
    python3 - w${n%:*} ${n#*:} <<'PY'
import struct, sys
b = open(sys.argv[1] + '.npy', 'rb').read()
n = struct.unpack('<H', b[8:10])[0] + 10
h = repr({'descr': '<f4', 'fortran_order': False, 'shape': (4, int(sys.argv[2]), 10)})
h += ' ' * (-(len(h) + 11) % 64) + '\n'
open(sys.argv[1] + 'h.npy', 'wb').write(b[:8] + struct.pack('<H', len(h)) + h.encode() + b[n:])
PY
done
runs 0 attn -x x.npy --wq w6h.npy --wk w7h.npy --wv w8h.npy -o heads3.npy
check cmp -s heads.npy heads3.npy

title 'keys and values come from the context'
python random c.npy f4 6x10 44
runs 0 attn -x x.npy -c c.npy --wq wq.npy --wk wk.npy --wv wv.npy -o cross.npy --weights cw.npy
[ "$(python shape cross.npy) $(python shape cw.npy)" = '5x25 f4 5x6 f4' ] || failed 'shapes of cross-attention'
runs 0 attn -x x.npy -c x.npy --wq wq.npy --wk wk.npy --wv wv.npy -o self.npy
runs 0 attn -x x.npy --wq wq.npy --wk wk.npy --wv wv.npy -o plain.npy
check cmp -s self.npy plain.npy

title 'bilinear scores: q W_s k, the identity gives the dot product'
python random ws.npy f4 10x10 51
python3 - <<'PY' >unit
print(','.join('1' if i == j else '0' for i in range(10) for j in range(10)))
PY
python values unit.npy f4 10x10 "$(cat unit)"
python project xw.npy x.npy ws.npy # x W^T are the keys of a dot product with x
runs 0 attn -x x.npy --score bilinear --ws ws.npy -o bilinear.npy
bound=$(python attend want.npy q=x.npy k=xw.npy v=x.npy kabs=xw.npy.abs inner=10 scale=1 | cut -d' ' -f1)
check python close bilinear.npy want.npy "$bound"
runs 0 attn -x x.npy --score bilinear --ws unit.npy -o unit_out.npy
bound=$(python attend want.npy q=x.npy k=x.npy v=x.npy inner=10 scale=1 | cut -d' ' -f1)
check python close unit_out.npy want.npy "$bound"

title 'additive scores: w . tanh(W_q q + W_k k)'
python random waq.npy f4 8x10 61
python random wak.npy f4 8x10 62
python random wa.npy f4 8 63
runs 0 attn -x x.npy --score additive --waq waq.npy --wak wak.npy --wa wa.npy --causal -o additive.npy
python3 - "$(python show additive.npy)" "$(python show x.npy)" "$(python show waq.npy)" "$(python show wak.npy)" "$(python show wa.npy)" <<'PY' || failed 'the formula'
import math, sys
got, x, wq, wk, wa = (list(map(float, a.split())) for a in sys.argv[1:])
X = [x[i * 10:i * 10 + 10] for i in range(5)]
def dot(a, b): return sum(p * q for p, q in zip(a, b))
A = [[dot(wq[n * 10:n * 10 + 10], r) for n in range(8)] for r in X]
B = [[dot(wk[n * 10:n * 10 + 10], r) for n in range(8)] for r in X]
for t in range(5):
    s = [sum(w * math.tanh(a + b) for w, a, b in zip(wa, A[t], B[j])) for j in range(t + 1)]
    z = [math.exp(v - max(s)) for v in s]
    for e in range(10):
        want = sum(p * X[j][e] for j, p in enumerate(z)) / sum(z)
        # six printed digits of every input: the error of a score is up to 8 * 20 half-units of the sixth digit
        assert abs(got[t * 10 + e] - want) <= 2e-3 * max(1, abs(want)), (t, e, got[t * 10 + e], want)
PY

title 'one file of named tensors; options go before it'
python safetensors all.safetensors q=q2.npy k=k2.npy v=v2.npy bias=bias.npy mask=mask.npy
runs 0 attn -i all.safetensors -o from_one.npy
runs 0 attn $given --bias bias.npy --mask mask.npy -o from_many.npy
check cmp -s from_one.npy from_many.npy
runs 0 attn -i all.safetensors --bias keybias.npy -o other.npy
runs 0 attn $given --bias keybias.npy --mask mask.npy -o other2.npy
check cmp -s other.npy other2.npy
python safetensors inputs.safetensors x=x.npy wq=wq.npy wk=wk.npy wv=wv.npy
runs 0 attn -i inputs.safetensors -o from_x.npy
check cmp -s from_x.npy plain.npy

# ---- shapes that do not match
title 'shapes that do not match are refused with both shapes'
runs 2 attn -q q2.npy -k x.npy -v x.npy
says 'qkv: x.npy: k does not fit q (5, 20): expected the same head width, found (5, 10)'
runs 2 attn -q q2.npy -k k2.npy -v q2.npy
says 'qkv: q2.npy: v does not fit k (7, 20): expected the same number of tokens, found (5, 20)'
runs 2 attn -q q4.npy -k k2.npy -v v2.npy
says 'qkv: k2.npy: k does not fit q (2, 5, 4, 6): expected the same number of axes, found (7, 20)'
runs 2 attn -q k4.npy -k q4.npy -v q4.npy
says 'qkv: q4.npy: k does not fit q (2, 7, 2, 6): expected a number of heads that divides the number of query heads, found (2, 5, 4, 6)'
runs 2 attn $given --bias x.npy
says 'qkv: x.npy: bias: expected a shape that NumPy broadcasts to (5, 7), with 7 numbers in the last axis (keys), found (5, 10)'
runs 2 attn $given --mask bias.npy
says 'qkv: bias.npy: mask contains numbers of type F32, expected BOOL or integers (--bias accepts numbers to add to the scores)'
runs 2 attn $given --lengths 3,4
says 'qkv: 3,4: lengths: expected (1,), one length per sequence, found (2,)'
runs 2 attn $given --lengths 8
says 'qkv: 8: length 8 of item 0 is out of range, expected 0 to 7'
runs 2 attn $given --sinks keybias.npy
says 'qkv: keybias.npy: sinks: expected (1,), one logit per head, found (7,)'
runs 2 attn -x x.npy --wq wq.npy --wk wv.npy
says 'qkv: wv.npy: wk does not fit wq (20, 10): expected keys with the same head width, 20, found (25, 10)'
runs 2 attn -x x.npy --wq wq_t.npy
says 'qkv: wq_t.npy: wq does not fit x (5, 10): expected a matrix with 10 inputs (--w-layout out,in), found (10, 20)'
runs 2 attn -x x.npy --heads 3
says 'qkv: x.npy: x: expected a width that can be divided by the 3 heads (or wq), found (5, 10)'
runs 2 attn -x x.npy -q q2.npy
says 'qkv: -x cannot be combined with -q, -k and -v, which it computes'
runs 2 attn -q q2.npy -k k2.npy
says 'qkv: v is missing, expected -q, -k and -v (or -i with all three, or -x)'
runs 2 attn -x x.npy --score bilinear
says 'qkv: --score: ws is missing, expected --ws FILE'
runs 2 attn -x x.npy --score bilinear --ws wq.npy
says 'qkv: wq.npy: ws: expected (10, 10) or (1, 10, 10), found (20, 10)'
runs 2 attn $given --causal --causal-br
runs 2 attn $given --window 3
says "qkv: --window: expected two numbers L,R, found '3'"
runs 2 attn $given --window 3,x
runs 2 attn $given --window -2,1
runs 2 attn $given --scale 0
says "qkv: --scale: expected a number other than 0, or none, found '0'"
runs 2 attn $given --softcap -1
runs 2 attn $given --no-softmax --lse -

title 'options that would change nothing are refused'
for words in '--ws ws.npy' '--wa wa.npy' '--waq waq.npy' '--wak wak.npy' '--w-layout in,out' '--w-layout out,in'; do
    runs 2 attn $given $words
    says "qkv: ${words%% *} requires -x FILE, the inputs to project"
done
for order in bhte bthe; do
    runs 2 attn -x x.npy --layout $order
    says 'qkv: --layout cannot be combined with -x: it describes -q, -k and -v with 4 axes'
    runs 2 attn $given --layout $order
    says 'qkv: q2.npy: q: expected 4 axes, whose order --layout describes, found (5, 20)'
done
runs 0 attn -q q4.npy -k k4.npy -v v4.npy --layout bthe
runs 2 attn -x x.npy --w-layout in,out
says 'qkv: --w-layout requires a projection: --wq, --wk, --wv or --wo'
runs 2 attn $given --causal-br --diagonal top-left
says 'qkv: --causal-br cannot be combined with --diagonal top-left'
runs 0 attn $given --causal-br --diagonal bottom-right
runs 2 attn $given --diagonal bottom-right
says_part '--diagonal requires --causal, --window or --alibi'

title 'factors outside float32 are refused'
runs 2 attn $given --softcap 1e-50
says 'qkv: --softcap: expected a number above 0 that a float32 can represent, found 1e-50'
for x in 1e-50 1e50; do
    runs 2 attn $given --scale $x
    says_part '--scale: expected a number other than 0, or none'
done
runs 2 attn $given --softcap 1e50

title 'files that are not arrays are refused with their exit code'
printf 'not an array' >bad.npy
runs 3 attn -x bad.npy
says_part 'qkv: bad.npy: '
runs 6 attn -x missing.npy
says 'qkv: missing.npy: cannot open: No such file or directory'
runs 6 attn -x /dev/zero
says_part 'is a device, expected a regular file'
python values badmask.npy b1 5x7 1,0,1,1,0,1,1,0,0,0,0,0,0,0,1,1,1,1,1,1,1,0,1,0,0,0,0,1,1,0,0,0,0,0,0
python3 -c "b = bytearray(open('badmask.npy', 'rb').read()); b[-1] = 2; open('badmask.npy', 'wb').write(b)"
runs 3 attn $given --mask badmask.npy
says 'qkv: badmask.npy: element 34 of mask is not a Boolean, expected 0 or 1, found 2'

title 'the requested precision runs, or is refused with the reason'
for p in f32 f32-strict f32-fast bf16 f16 int8; do runs 0 attn -x x.npy --precision $p; done
runs 0 attn $given -o full.npy
# About 10 roundings of the type, of values up to 3.
for p in f32-strict=1e-5 f32-fast=1e-3 bf16=0.1 f16=0.015 int8=0.2; do
    runs 0 attn $given --precision ${p%=*} -o half.npy --force
    check python close full.npy half.npy ${p#*=}
    case $p in
    bf16* | f16* | int8*) cmp -s full.npy half.npy && failed "$p: nothing was rounded" ;;
    esac
    runs 0 attn $given --precision ${p%=*} --plan --json
    prints_part '"arithmetic":"'
done
QKV_ISA=scalar runs 4 attn $given --precision bf16 --native
says_part 'qkv: products in bf16 are not available in the scalar kernels, which have f32'
[ ! -s "$out" ] || failed 'something was computed'
QKV_ISA=scalar runs 0 attn $given --precision f32 --native

# ---- messages
title 'the plan prints sizes, tiles and memory, and writes no file'
runs 0 attn $given --plan --json -o unused.npy
prints_part '"B":1,"T":5,"S":7,"H":1,"G":1,"E":20,"F":25'
prints_part '"weights_bytes":140'
[ ! -e unused.npy ] || failed '--plan wrote a file'
runs 0 attn $given --causal --plan
prints_part 'skipped'

title 'the plan of a layer includes its score and its projections'
plan='attn -x x.npy --threads 1 --plan'
scratch() { sed 's/.*"scratch":\([0-9]*\).*/\1/' "$out"; }
flops() { sed 's/.*"flops":\([0-9]*\).*/\1/' "$out"; }
runs 0 $plan --json
prints_part '"kernel":"fused","isa"'
prints_part '"score":"dot","hidden":0,"inputs":10,"context":10,"outputs":10'
bare=$(scratch)
[ "$(flops)" -eq $((2 * 20 * 25)) ] || failed "$(flops) operations"
runs 0 $plan --json --wq wq.npy --wk wk.npy --wv wv.npy --wo wo.npy
prints_part '"outputs":7'
[ "$(flops)" -eq $((2 * (45 * 25 + 5 * 10 * 65 + 5 * 25 * 7))) ] || failed "$(flops) operations with projections"
[ "$(scratch)" -ge $((bare + 4 * 5 * 65)) ] || failed 'room for what the projections leave'
runs 0 $plan --json --score additive --waq waq.npy --wak wak.npy --wa wa.npy
prints_part '"kernel":"fused additive"'
prints_part '"score":"additive","hidden":8'
runs 0 $plan --score bilinear --ws ws.npy
prints_part 'layer    score bilinear, hidden width 0, inputs 10 and 10, outputs 10'
prints_part ' bytes for the whole layer, '

title 'results are printed as text and as JSON'
python values p.npy f4 2x1 -0.25,-0.25
runs 0 attn -x p.npy --json --weights -
prints '{"out":{"shape":[2,1],"data":[[-0.25],[-0.25]]},"weights":{"shape":[2,2],"data":[[0.5,0.5],[0.5,0.5]]}}'
runs 0 attn -x p.npy --lengths 0 --lse - --json
prints '{"out":{"shape":[2,1],"data":[[0],[0]]},"lse":{"shape":[2],"data":[null,null]}}'
runs 0 attn -x p.npy
prints 'out (2, 1)
      0      -0.25
      1      -0.25'

title 'no tokens give no rows'
python values empty.npy f4 0x4 ''
runs 0 attn -x empty.npy -o nothing.npy
[ "$(python shape nothing.npy)" = '0x4 f4' ] || failed 'shape of nothing'
python values no_keys.npy f4 0x1 ''
runs 0 attn -q p.npy -k no_keys.npy -v no_keys.npy --json
prints '{"out":{"shape":[2,1],"data":[[0],[0]]}}'

title '--probe: statistics of the weights, as safetensors and as JSON'
python random pq.npy f4 2x9x4x6 61
python random pk.npy f4 2x11x2x6 62
list=top=3,rows=0+2-3,received,entropy,distance,offsets=2,tiles=2
runs 0 attn -q pq.npy -k pk.npy -v pk.npy --causal-br --weights pw.npy -o po.npy --probe $list --probes p.safetensors
runs 0 attn -q pq.npy -k pk.npy -v pk.npy --causal-br -o po2.npy --probe $list --json
check cmp po.npy po2.npy
python3 - "$out" <<'PY' || failed 'the probes'
import json, math, struct, sys
b = open('p.safetensors', 'rb').read()
n = struct.unpack('<Q', b[:8])[0]
head, found = json.loads(b[8:8 + n]), {}
for name, t in head.items():
    if name == '__metadata__': continue
    at, end = t['data_offsets']
    found[name] = struct.unpack('<%d%s' % ((end - at) // 4, 'i' if t['dtype'] == 'I32' else 'f'), b[8 + n + at:8 + n + end])
shapes = {k: t['shape'] for k, t in head.items() if k != '__metadata__'}
H = [2, 4]
assert shapes == {'top_weight': H + [9, 3], 'top_key': H + [9, 3], 'rows': H + [3, 11], 'received': H + [11], 'entropy': H + [9],
                  'distance': H + [9], 'offsets': H + [5], 'tile_max': H + [2, 2], 'tile_mean': H + [2, 2]}, shapes
w = open('pw.npy', 'rb').read()
w = struct.unpack('<792f', w[10 + struct.unpack('<H', w[8:10])[0]:])
def near(name, at, want):
    assert abs(found[name][at] - want) <= 1e-5 * (1 + abs(want)), (name, at, found[name][at], want)
for h in range(8):
    rows = [w[(h * 9 + t) * 11:(h * 9 + t) * 11 + 11] for t in range(9)]
    offsets = [0] * 5
    for t, row in enumerate(rows):
        near('entropy', h * 9 + t, -sum(x * math.log(x) for x in row if x > 0))
        near('distance', h * 9 + t, sum(x * abs(t + 2 - j) for j, x in enumerate(row)))
        order = sorted(range(11), key=lambda j: (-row[j], j))[:3]
        for i, j in enumerate(order):
            near('top_weight', (h * 9 + t) * 3 + i, row[j])
            assert found['top_key'][(h * 9 + t) * 3 + i] == j
        for j, x in enumerate(row): offsets[max(-2, min(2, j - t - 2)) + 2] += x
    for j in range(11): near('received', h * 11 + j, sum(row[j] for row in rows))
    for i, t in enumerate((0, 2, 3)):
        for j in range(11): near('rows', (h * 3 + i) * 11 + j, rows[t][j])
    for i in range(5): near('offsets', h * 5 + i, offsets[i])
    for y in range(2):
        for x in range(2):
            tile = [row[j] for t, row in enumerate(rows) for j in range(11) if t * 2 // 9 == y and j * 2 // 11 == x]
            near('tile_max', h * 4 + y * 2 + x, max(tile))
            near('tile_mean', h * 4 + y * 2 + x, sum(tile) / len(tile))
d = json.load(open(sys.argv[1]))
def flat(x): return [z for y in x for z in flat(y)] if isinstance(x, list) else [x]
for name, numbers in found.items():
    assert d[name]['shape'] == shapes[name], name
    assert all(abs(a - b) <= 1e-6 * (1 + abs(b)) for a, b in zip(flat(d[name]['data']), numbers)), name
PY
runs 2 attn -x x.npy --probe top=2,top=3
says_part "--probe: unknown, invalid or repeated statistic"
runs 2 attn -x x.npy --probe rows=5
says_part 'row 5 is out of range, expected a row below 5'
runs 2 attn -x x.npy --probes p.safetensors
says_part '--probes requires --probe'
runs 2 attn -x x.npy --no-softmax --probe entropy
says_part 'attention statistics are not supported without softmax'

title 'numbers on the command line are an array: X X^T X of three tokens, by hand'
for wrong in '[1-2; 3 4]' '[1,,2; 3 4]' '[1 2,; 3 4]' '[1.2.3 4; 1 2]' '[1e40 0; 0 1]' '[1 2; 3]' '[1 2' '[;]'; do
    runs 2 attn -x "$wrong" --weights -
    says_part 'x: expected rows of '
done
runs 0 attn -x '[1 0; 0 1; 1 1]' --no-softmax --scale none --weights - --json
prints '{"out":{"shape":[3,2],"data":[[2,1],[1,2],[3,3]]},"scores":{"shape":[3,3],"data":[[1,0,1],[0,1,1],[1,1,2]]}}'
runs 0 attn -x '[1,0;0,1;1,1]' --no-softmax --scale none
prints_part '      2          3          3'
runs 0 attn -x '[1 0; 0 1]' --bias '[0 -inf; 0 0]' --weights - --json
prints_part '"weights":{"shape":[2,2],"data":[[1,0],'
runs 0 attn -q '[0]' -k '[1]' -v '[8]' --sinks '[0]' --weights - --json # e^0 / (e^0 + e^0)
prints '{"out":{"shape":[1,1],"data":[[4]]},"weights":{"shape":[1,1],"data":[[0.5]]}}'
for bad in '[' '[]' '[1;]' '[;]' '[1 2; 3]' '[1 a]' '[1]x' '[1 2'; do
    runs 2 attn -x "$bad"
    says_part 'x: expected rows of'
done

title '--projections prints q, k and v: x W_Q by hand'
runs 0 attn -x '[1 0; 0 1; 1 1]' --wq '[1 0; 0 2]' --wk '[0 1; 1 0]' --wv '[1 1]' --projections --json
prints_part '{"q":{"shape":[3,2],"data":[[1,0],[0,2],[1,2]]},"k":{"shape":[3,2],"data":[[0,1],[1,0],[1,1]]},'
prints_part '"v":{"shape":[3,1],"data":[[1],[1],[2]]},"out":'
runs 0 attn -x '[1 0; 0 1]' --heads 2 --projections --json
prints_part '"k":{"shape":[2,2,1],"data":[[[1],[0]],[[0],[1]]]}'
runs 2 attn -q x.npy -k x.npy -v x.npy --projections
says_part '--projections requires -x'
runs 2 attn -x '[1 0; 0 1]' --projections --plan
says 'qkv: --projections cannot be combined with --plan'

title 'a sink of infinity takes all of the softmax'
python3 - <<'PY'
import struct
head = "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }".ljust(117) + "\n"
open("sink.npy", "wb").write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode() + struct.pack("<f", float("inf")))
PY
runs 0 attn -x '[1 0; 0 1]' --mask '[1 1; 0 0]' --sinks sink.npy --lse sink_lse.npy --weights sink_w.npy -o sink_out.npy
python3 - <<'PY' || failed 'the output, the log-sum or the weights'
import struct
read = lambda name, n: struct.unpack("<%df" % n, open(name, "rb").read()[-4 * n:])
assert read("sink_lse.npy", 2) == (float("inf"),) * 2
assert read("sink_out.npy", 4) == read("sink_w.npy", 4) == (0,) * 4
PY

title 'NaN is printed without a sign'
runs 0 attn -x '[1e20 0; 1e20 1]' --scale 1e10
prints_part '      0        nan        nan'

title 'results that overflow are counted in a note, unless an input is not finite'
over='results are not finite, although all inputs are: numbers exceeded the range of'
runs 0 attn -x '[1e30; 1]' --bias '[0 0]' --sinks '[1]'
says "qkv: note: 1 of 2 $over f32"
runs 0 attn -x '[1e5; 1]' --precision f16
says "qkv: note: 2 of 2 $over f16"
runs 0 attn -x '[1e30; 1]' --bias '[-inf 0]' # a mask
silent
runs 0 attn -x '[1e30; 1]' --bias '[0 -inf]'
says "qkv: note: 1 of 2 $over f32"
for input in '[nan; 1]' '[inf; 1]' '[-inf; 1]'; do
    runs 0 attn -x "$input" -o /dev/null
    silent
    runs 0 attn -q '[1; 1]' -k "$input" -v '[1; 1]' --mask '[0 1]' -o /dev/null
    silent
done
runs 0 attn -x '[1e30; 1]' --bias '[nan 0]' -o /dev/null
silent
runs 0 attn -x '[1e30; 1]' --plan
silent

title 'the shape is checked before the numbers are read'
if [ -z "${QKV_SLOW:-}" ]; then # a sanitizer needs more address space
    python3 - <<'PY'
import struct
head = repr({"descr": "|u1", "fortran_order": False, "shape": (1 << 31,)}).ljust(117) + "\n"
with open("bytes.npy", "wb") as f:
    f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(head)) + head.encode())
    f.truncate(10 + len(head) + (1 << 31))
PY
    ( # 2 GiB for each file that is mapped, 8 GiB for its numbers as floats
        ulimit -v $((9 << 20))
        runs 2 attn -x bytes.npy
        says_part 'bytes.npy: x: expected 2 axes (tokens, width)'
        runs 2 attn -q bytes.npy -k bytes.npy -v bytes.npy
        says_part 'bytes.npy: q: expected 2, 3 or 4 axes'
        runs 2 attn -x '[1 0; 0 1]' --lengths bytes.npy
        says_part 'bytes.npy: lengths: expected (1,), one length per sequence, found (2147483648,)'
        runs 2 attn -x '[1 0; 0 1]' --offsets 0,2 --k-offsets bytes.npy
        says_part 'bytes.npy: k-offsets does not fit offsets (2,): expected as many numbers, found (2147483648,)'
        exit $failures
    ) || failed 'numbers were read first'
fi

title 'a typed mask and typed lengths give the result of files'
runs 0 attn -x '[1 0; 0 1; 1 1]' --causal --json
cp "$out" causal.json
runs 0 attn -x '[1 0; 0 1; 1 1]' --mask '[1 0 0; 1 1 0; 1 1 1]' --json
check cmp "$out" causal.json
runs 0 attn -x '[1 0; 0 1; 1 1]' --lengths 2 --json
cp "$out" two.json
runs 0 attn -x '[1 0; 0 1; 1 1]' --lengths '[2]' --json
check cmp "$out" two.json
runs 2 attn -x '[1 0; 0 1]' --mask '[1 .5; 1 1]'
says_part 'mask: expected 0 and 1, found 0.5'
runs 2 attn -x '[1 0; 0 1]' --lengths '[1.5]'
says_part 'lengths: expected integers of at most 16777216, found 1.5'
runs 2 attn -x '[1 0; 0 1]' --lengths '[1; 1]'
says_part 'lengths'
finish
