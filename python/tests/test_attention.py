# SPDX-License-Identifier: MIT
"""qkv.attention on buffers, numpy and torch arrays, against the formula in double, and its errors."""
import array
import ctypes
import sys
import threading
import unittest
import weakref

import reference as ref

import qkv
from qkv import _array, _library

try:
    import numpy as np
except ImportError:
    np = None
try:
    import torch
except ImportError:
    torch = None

# Scores of E = 8 products of numbers below 1, scaled by 8**-.5: below 3.  A relative error of a float sum of n terms is
# at most n EPS, of exp(s) at most |s| times that of s; sums over S <= 9 keys.  100 EPS is above the sum of these.
BOUND = 100 * ref.EPS
B, T, S, H, G, E, F = 2, 5, 9, 4, 2, 8, 6


def arrays(seed=1, kv_heads=G):
    return ref.uniform(seed, B, T, H, E), ref.uniform(seed + 1, B, S, kv_heads, E), ref.uniform(seed + 2, B, S, kv_heads, F)


def lists(x):
    return x.tolist()


class Formula(unittest.TestCase):
    def check(self, bound=BOUND, **options):
        q, k, v = arrays()
        plain = {n: lists(x) if isinstance(x, memoryview) else x for n, x in options.items()}
        wanted = ref.attention(lists(q), lists(k), lists(v), **plain)
        r = qkv.attention(q, k, v, lse=True, weights=options.get("softmax", True), **options)
        self.assertLess(ref.largest_difference(lists(r.out), wanted[0]), bound)
        if options.get("softmax", True):
            self.assertLess(ref.largest_difference(lists(r.lse), wanted[1]), bound)
            self.assertLess(ref.largest_difference(lists(r.weights), wanted[2]), bound)

    def test_no_mask(self):
        self.check()

    def test_causal_both_diagonals(self):
        self.check(causal=True)
        self.check(causal=True, diagonal="bottom-right")

    def test_window(self):
        self.check(window=(2, 1), diagonal="bottom-right")

    def test_lengths_of_zero_mask_every_key(self):
        self.check(lengths=[3, 0])

    def test_bias_and_mask(self):
        self.check(bias=ref.uniform(7, B, H, T, S))
        allowed = memoryview(bytes((i * 7) % 3 > 0 for i in range(B * H * T * S))).cast("B", [B, H, T, S])
        self.check(mask=allowed)

    def test_relative_alibi_sinks_softcap_scale(self):
        self.check(relative=ref.uniform(8, H, 7))
        self.check(alibi=ref.uniform(9, H), causal=True)
        self.check(sinks=ref.uniform(10, H))
        self.check(softcap=2.0, scale=0.7)

    def test_no_softmax(self):
        self.check(softmax=False)

    def test_a_bias_of_one_row_is_broadcast(self):
        q, k, v = arrays()
        row = ref.uniform(11, S)
        full = [[[row.tolist()] * T] * H] * B
        wanted = ref.attention(lists(q), lists(k), lists(v), bias=full)[0]
        self.assertLess(ref.largest_difference(lists(qkv.attention(q, k, v, bias=row)), wanted), BOUND)

    def test_packed_sequences_equal_single_ones(self):
        q, k, v = ref.uniform(1, 1, 7, H, E), ref.uniform(2, 1, 7, H, E), ref.uniform(3, 1, 7, H, F)
        packed = qkv.attention(q, k, v, q_offsets=[0, 3, 7], causal=True).tolist()[0]
        for begin, end in ((0, 3), (3, 7)):
            part = [[x.tolist()[0][begin:end]] for x in (q, k, v)]
            self.assertLess(ref.largest_difference(ref.attention(*part, causal=True)[0][0], packed[begin:end]), BOUND)

    def test_fewer_axes(self):
        q, k, v = (ref.uniform(i, 5, 8) for i in range(3))
        wanted = ref.attention(*[[[[row] for row in x.tolist()]] for x in (q, k, v)])[0]
        out = qkv.attention(q, k, v)
        self.assertEqual(out.shape, (5, 8))
        self.assertLess(ref.largest_difference(out.tolist(), [row[0] for row in wanted[0]]), BOUND)

    def test_probe(self):
        q, k, v = arrays()
        weights = ref.attention(lists(q), lists(k), lists(v), causal=True)[2]
        p = qkv.attention(q, k, v, causal=True, probe=qkv.Probe(top_k=2, rows=[0, 3], received=True, entropy=True)).probe
        sums = [[[sum(weights[b][h][t][s] for t in range(T)) for s in range(S)] for h in range(H)] for b in range(B)]
        self.assertLess(ref.largest_difference(lists(p.received), sums), T * BOUND)
        self.assertLess(ref.largest_difference(lists(p.row_weights), [[[w[0], w[3]] for w in item] for item in weights]), BOUND)
        top = [[[sorted(row, reverse=True)[:2] for row in w] for w in item] for item in weights]
        self.assertLess(ref.largest_difference(lists(p.top_weight), top), BOUND)
        self.assertEqual(p.top_key[0, 0, 0, 0], 0)
        self.assertEqual(p.top_key[0, 0, 0, 1], -1)  # the first row of causal attention has one key
        self.assertIsNone(p.offsets)

    def test_scratch_is_kept_for_the_next_call_and_freed_if_it_is_large(self):
        first = _library.scratch(1000)
        self.assertIs(_library.scratch(500), first)
        held, ended = _library.scratch(_library.SCRATCH_KEPT + 1), []
        weakref.finalize(held._memory, ended.append, True)
        self.assertIs(_library.scratch(500), first)
        self.assertEqual(ended, [])
        del held
        self.assertEqual(ended, [True])
        larger = _library.scratch(len(first._memory))  # a call that has `first` may still run
        self.assertIsNot(larger, first)
        self.assertIs(_library.scratch(1), larger)
        ctypes.memset(first._as_parameter_, 1, 1000)
        found = []
        thread = threading.Thread(target=lambda: found.append(_library.scratch(1)))
        thread.start()
        thread.join()
        self.assertIsNot(found[0], larger)

    def test_other_threads_of_python_run_during_a_call(self):
        """3,000 tokens of 8 heads are 18 GFLOP.  Before and after the call the thread may wake up once."""
        x, threads = memoryview(bytearray(4 * 3000 * 8 * 64)).cast("f", [3000, 8, 64]), qkv.threads()
        qkv.set_threads(1)
        try:
            self.assertGreaterEqual(ref.ticks(lambda: qkv.attention(x, x, x)), 3)
        finally:
            qkv.set_threads(threads)

    def test_plan(self):
        plan = qkv.attention(*arrays(), plan=True).plan
        self.assertEqual((plan.kernel, plan.isa), ("fused", plan.isa))
        self.assertEqual(plan.flops, 2 * (E + F) * B * H * T * S)


class Gradients(unittest.TestCase):
    def test_central_differences_of_the_formula(self):
        """The derivative of sum(dout * out) by central differences in double: their error is below 1e-6 (step 1e-4)."""
        q, k, v = (lists(x) for x in arrays())
        bias, dout = ref.uniform(7, B, H, T, S), ref.uniform(6, B, T, H, F)
        weight = list(ref.flat(lists(dout)))
        raw = arrays()
        r = qkv.attention(*raw, causal=True, bias=bias, lse=True)
        g = r.backward(dout, ["bias"])
        loss = lambda: sum(w * x for w, x in zip(weight, ref.flat(ref.attention(q, k, v, causal=True, bias=lists_bias)[0])))
        lists_bias = lists(bias)
        for name, x, at in (("q", q, (1, 3, 2, 5)), ("k", k, (0, 2, 1, 4)), ("v", v, (1, 0, 1, 3)), ("bias", lists_bias, (0, 3, 4, 2))):
            row = x[at[0]][at[1]][at[2]]
            old, h = row[at[3]], 1e-4
            row[at[3]] = old + h
            up = loss()
            row[at[3]] = old - h
            down = loss()
            row[at[3]] = old
            self.assertAlmostEqual(getattr(g, name)[at], (up - down) / (2 * h), delta=1e-5, msg=name)

    def test_backward_function_equals_the_method(self):
        q, k, v = arrays()
        r = qkv.attention(q, k, v, window=3, lse=True)
        dout = ref.uniform(6, B, T, H, F)
        a = r.backward(dout)
        b = qkv.attention_backward(dout, q, k, v, r.out, r.lse, window=3)
        self.assertEqual(lists(a.q), lists(b.q))
        self.assertEqual(lists(a.v), lists(b.v))


class Foreign:
    """An array of a library that has __dlpack__ only."""

    def __init__(self, x, device=(1, 0)):
        self.x, self.device = x, device

    def __dlpack__(self, **options):
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


class Copying(Foreign):
    """An array of a library whose from_dlpack copies, as one that aligns its memory may."""
    made = 0

    def __array_namespace__(self, **_):
        return Copying

    @classmethod
    def from_dlpack(cls, x, **_):
        cls.made += 1
        return cls(np.from_dlpack(x).copy())


@unittest.skipUnless(np, "numpy is not installed")
class Numpy(unittest.TestCase):
    def setUp(self):
        self.q, self.k, self.v = (np.array(x) for x in arrays())
        self.wanted = np.array(ref.attention(*[x.tolist() for x in (self.q, self.k, self.v)])[0])

    def test_no_input_is_copied(self):
        for x in (self.q, self.q[1:, :, 1:], self.q.swapaxes(0, 2), np.broadcast_to(self.q[:1], self.q.shape), self.q.astype("f2")):
            read = _array.Array(x, "q")
            self.assertEqual((read.at, [s * x.itemsize for s in read.strides]), (x.ctypes.data, list(x.strides)))
            if hasattr(x, "__dlpack__") and x.flags.writeable:
                self.assertEqual(_array.Array(Foreign(x), "q").at, x.ctypes.data)

    def test_strided_views_are_read_in_place(self):
        big = np.zeros((B, T, 3 * H, E), "f")
        big[:, :, H:2 * H] = self.q
        out = qkv.attention(big[:, :, H:2 * H], self.k, self.v)
        self.assertIsInstance(out, np.ndarray)
        self.assertLess(abs(out - self.wanted).max(), BOUND)

    def test_layout_BHTE(self):
        out = qkv.attention(*[x.swapaxes(1, 2) for x in (self.q, self.k, self.v)], layout="BHTE")
        self.assertEqual(out.shape, (B, H, T, F))
        self.assertLess(abs(out.swapaxes(1, 2) - self.wanted).max(), BOUND)

    def test_gradient_of_strided_views(self):
        part = [x.swapaxes(1, 2) for x in (self.q, self.k, self.v)]
        dout = np.ones((B, H, T, F), "f")
        a = qkv.attention(*part, layout="BHTE", lse=True).backward(dout)
        b = qkv.attention(self.q, self.k, self.v, lse=True).backward(np.ascontiguousarray(dout.swapaxes(1, 2)))
        for x, y in zip(a[:3], b[:3]):
            self.assertTrue((x.swapaxes(1, 2) == y).all())

    def test_an_output_of_the_caller(self):
        out = np.full((B, T, H, F), np.nan, "f")
        self.assertIs(qkv.attention(self.q, self.k, self.v, out=out), out)
        self.assertLess(abs(out - self.wanted).max(), BOUND)
        out.flags.writeable = False
        with self.assertRaisesRegex(qkv.ReadOnlyError, "out: this output is read-only"):
            qkv.attention(self.q, self.k, self.v, out=out)
        with self.assertRaises(qkv.UsageError):
            qkv.attention(self.q, self.k, self.v[..., :E], out=self.q)

    def test_read_only_inputs(self):
        for x in (self.q, self.k, self.v):
            x.flags.writeable = False
        self.assertLess(abs(qkv.attention(self.q, self.k, self.v) - self.wanted).max(), BOUND)

    def test_half(self):
        x = [a.astype("f2") for a in (self.q, self.k, self.v)]
        wanted = np.array(ref.attention(*[a.astype("f8").tolist() for a in x])[0])
        out = qkv.attention(*x)
        self.assertEqual(out.dtype, np.float16)
        self.assertLess(abs(out - wanted).max(), 2**-11 * 2)  # |out| < 1: half a unit of f16, twice for sums

    def test_dlpack(self):
        if not hasattr(self.q, "__dlpack__"):
            self.skipTest("this numpy has no DLPack")
        out = qkv.attention(Foreign(self.q), Foreign(self.k), Foreign(self.v))
        self.assertLess(abs(out - self.wanted).max(), BOUND)
        with self.assertRaisesRegex(qkv.DeviceError, "q: expected an array of the CPU"):
            qkv.attention(Foreign(self.q, (2, 0)), self.k, self.v)

        class Broken:
            def __dlpack__(self, **_):
                raise KeyError("lost")

            def __dlpack_device__(self):
                return 1, 0
        with self.assertRaisesRegex(qkv.DtypeError, "q: its __dlpack__ failed.*lost"):
            qkv.attention(Broken(), self.k, self.v)

    @unittest.skipUnless(hasattr(np, "from_dlpack"), "this numpy has no DLPack")
    def test_a_library_that_copies_the_answer(self):
        """Each answer is given to the library after its numbers are written."""
        x, bias = (self.q, self.k, self.v), np.array(ref.uniform(7, H, T, S))
        options = dict(bias=bias, lse=True, weights=True, probe=qkv.Probe(top_k=2, received=True))
        mine, other = qkv.attention(*x, **options), qkv.attention(*map(Copying, x), **options)
        dout = np.ones((B, T, H, F), "f")
        pairs = [(mine.out, other.out), (mine.lse, other.lse), (mine.weights, other.weights)]
        pairs += [(a, b) for a, b in zip(mine.probe, other.probe) if a is not None]
        pairs += [(a, b) for a, b in zip(mine.backward(dout, ["bias"]), other.backward(Copying(dout), ["bias"])) if a is not None]
        self.assertEqual(len(pairs), 10)
        self.assertEqual(Copying.made, 10)
        for i, (a, b) in enumerate(pairs):
            self.assertIsInstance(b, Copying)
            self.assertTrue((a == b.x).all(), i)

        class Refusing(Copying):
            def __array_namespace__(self, **_):
                return Refusing

            @classmethod
            def from_dlpack(cls, x, **_):
                raise KeyError("lost")
        with self.assertRaisesRegex(qkv.DtypeError, "q: its library cannot read the answer.*lost"):
            qkv.attention(Refusing(self.q), self.k, self.v)

    def test_bits_of_bfloat16_in_uint16(self):
        """Gradients of uint16 with precision bf16 are bits too: the gradients of float32 to 8 bits of the largest."""
        def bits(x):
            x = np.ascontiguousarray(x, "f").view("u4")
            return ((x + 0x7fff + (x >> 16 & 1)) >> 16).astype("u2")

        def back(x):
            return (np.asarray(x).view("u2").astype("u4") << 16).view("f")
        x = [bits(a) for a in (self.q, self.k, self.v)]
        dout = np.ones((B, T, H, F), "f")
        g = qkv.attention(*x, precision="bf16", lse=True).backward(bits(dout))
        exact = qkv.attention(*map(back, x), lse=True).backward(dout)
        for a, b in zip(g[:3], exact[:3]):
            self.assertEqual((a.dtype, a.shape), (np.uint16, b.shape))
            self.assertLess(abs(back(a) - b).max(), 2**-6 * abs(b).max())

    def test_subclasses_of_ndarray(self):
        class Other(np.ndarray):
            pass
        self.assertIs(type(qkv.attention(self.q.view(Other), self.k, self.v)), np.ndarray)

    def test_masked_arrays_are_refused(self):
        for i in range(3):
            x = [self.q, self.k, self.v]
            x[i] = np.ma.masked_array(x[i], mask=x[i] > 0)
            with self.assertRaisesRegex(qkv.DtypeError, "masked array"):
                qkv.attention(*x)

    def test_other_byte_order_and_gaps(self):
        with self.assertRaises(qkv.DtypeError):
            qkv.attention(self.q.astype(">f4"), self.k, self.v)
        with self.assertRaisesRegex(qkv.UsageError, "q: expected a contiguous last axis"):
            qkv.attention(np.repeat(self.q, 2, 3)[..., ::2], self.k, self.v)
        with self.assertRaisesRegex(qkv.DtypeError, "q: expected f32"):
            qkv.attention(np.empty((B, T, H, E), "V0"), self.k, self.v)  # elements of 0 bytes
        with self.assertRaisesRegex(qkv.UsageError, "q: expected strides"):
            qkv.attention(self.q[:, ::-1], self.k, self.v)

    def test_no_tokens(self):
        self.assertEqual(qkv.attention(self.q[:, :0], self.k, self.v).shape, (B, 0, H, F))
        self.assertFalse(qkv.attention(self.q, self.k[:, :0], self.v[:, :0]).any())
        swapped = self.q.swapaxes(1, 2).copy().swapaxes(1, 2)  # with other strides
        for x in ((self.q[:, :0], self.k, self.v), (self.q, self.k[:, :0], self.v[:, :0]), (self.q[:0], self.k[:0], self.v[:0]),
                  (swapped[:, :0], self.k, self.v)):
            r = qkv.attention(*x, lse=True)
            for a, gradient in zip(x, r.backward(np.ones(r.out.shape, "f"))):
                self.assertEqual(gradient.shape, a.shape)
                self.assertFalse(gradient.any())


@unittest.skipUnless(torch, "torch is not installed")
class Torch(unittest.TestCase):
    def test_types(self):
        for dtype, unit in ((torch.float32, BOUND), (torch.float16, 2**-10), (torch.bfloat16, 2**-7)):
            q, k, v = (torch.tensor(x.tolist()).to(dtype) for x in arrays())
            wanted = torch.tensor(ref.attention(*[x.double().tolist() for x in (q, k, v)], causal=True)[0])
            r = qkv.attention(q, k, v, causal=True, lse=True)
            self.assertEqual((type(r.out), r.out.dtype, r.lse.dtype), (torch.Tensor, dtype, torch.float32))
            self.assertLess((r.out - wanted).abs().max().item(), unit)
            g = r.backward(torch.ones_like(r.out))
            self.assertEqual([x.dtype for x in g[:3]], [dtype] * 3)
            exact = qkv.attention(q.float(), k.float(), v.float(), causal=True, lse=True).backward(torch.ones(B, T, H, F))
            for name, a, b in zip("qkv", g, exact):  # relative to the largest, as in test_torch.py; dS is a difference
                self.assertLess((a.float() - b).abs().max().item(), 8 * unit * b.abs().max().item(), f"{dtype} {name}")

    def test_a_default_device_of_torch(self):
        q, k, v = (torch.tensor(x.tolist()) for x in arrays())
        wanted = qkv.attention(q, k, v)
        with torch.device("meta"):
            self.assertTrue(torch.equal(qkv.attention(q, k, v), wanted))
            self.assertEqual(qkv.util.as_array([1.0], True).device.type, "cpu")

    def test_errors(self):
        q, k, v = (torch.tensor(x.tolist()) for x in arrays())
        for name in ("softcap", "probe", "seed", "scale"):
            with self.assertRaisesRegex(qkv.UsageError, name):
                qkv.attention(q, k, v, **{name: torch.empty((), device="meta")})
        with self.assertRaisesRegex(qkv.UsageError, "q: the tensor requires a gradient"):
            qkv.attention(q.requires_grad_(), k, v)
        with self.assertRaisesRegex(qkv.DeviceError, "k: expected an array of the CPU, found device meta"):
            qkv.attention(q.detach(), k.to("meta"), v)
        with self.assertRaisesRegex(qkv.DtypeError, "v: expected f32, found f64"):
            qkv.attention(q.detach(), k, v.double())
        q = q.detach()
        with self.assertRaisesRegex(qkv.DtypeError, "q: this tensor has no memory"):
            torch.vmap(lambda x: qkv.attention(x, k, v))(q[None])
        with self.assertRaisesRegex(qkv.UsageError, "lengths: its elements cannot be read"):
            qkv.attention(q, k, v, lengths=torch.ones(B, dtype=torch.int64, device="meta"))
        small = torch.quantize_per_tensor(torch.ones(1, 2, 3, 3), .1, 0, torch.qint8)
        with self.assertRaisesRegex(qkv.DtypeError, r"attentions\[0\]: expected floats"):
            qkv.view(attentions=[small], tokens=["a"] * 3)

    @unittest.skipUnless(np, "numpy is not installed")
    def test_similarities_of_other_tensors(self):
        x = torch.tensor([[3 + 4j, 1 - 1j]]).conj().imag
        self.assertTrue(x.is_neg())
        self.assertEqual(qkv.util.dot_score(x, x).item(), 17)
        for wrong in (torch.quantize_per_tensor(torch.ones(1, 2), .1, 0, torch.qint8), torch.ones(1, 2, device="meta")):
            with self.assertRaisesRegex(qkv.UsageError, "expected arrays of vectors"):
                qkv.util.dot_score(wrong, x)


class Errors(unittest.TestCase):
    def raises(self, cls, message, *arguments, **options):
        with self.assertRaisesRegex(cls, message) as found:
            qkv.attention(*(arguments or arrays()), **options)
        self.assertIsInstance(found.exception, qkv.Error)
        self.assertIsInstance(found.exception, ValueError)

    def test_shapes_and_types(self):
        q, k, v = arrays()
        self.raises(qkv.DtypeError, "q: expected an array", None, k, v)
        self.raises(qkv.DtypeError, "q: expected f32, found f64", array.array("d", [1, 2]), k, v)
        self.raises(qkv.UsageError, "k: expected 2 batch items and width 8", q, ref.uniform(1, B, S, G, 7), v)
        self.raises(qkv.UsageError, "v: expected batch items", q, k, ref.uniform(1, B, S + 1, G, F))
        self.raises(qkv.UsageError, "bias: expected a shape that broadcasts", bias=ref.uniform(1, 3, S))
        self.raises(qkv.UsageError, "lengths: expected 2 numbers, found 3", lengths=[1, 2, 3])
        self.raises(qkv.UsageError, r"lengths\[1\]: expected an integer, found 'a'", lengths=[1, "a"])
        self.raises(qkv.UsageError, "", lengths=[1, S + 1])
        self.raises(qkv.UsageError, "window", window="a")
        self.raises(qkv.UsageError, "precision: expected 'f32'", precision="f31")
        self.raises(qkv.UsageError, "causal: expected True or False", causal=2)
        self.raises(qkv.UsageError, "scale", scale=0.0)
        try:
            from _testbuffer import ND_PIL, ndarray
        except ImportError:  # an installation without the tests of Python
            return
        self.raises(qkv.DtypeError, "q: expected a buffer with strides", ndarray([1.0] * 4, shape=[2, 2], format="f", flags=ND_PIL), k, v)
        self.raises(qkv.UsageError, "probe.top_k", probe=S + 1)
        self.raises(qkv.UsageError, "q_offsets", q_offsets=[0, 5])

    def test_backward_needs_lse(self):
        r = qkv.attention(*arrays(), plan=True)
        with self.assertRaisesRegex(qkv.UsageError, "lse=True"):
            r.backward(r.out)
        with self.assertRaisesRegex(qkv.UsageError, "unexpected keyword"):
            qkv.attention_backward(r.out, *arrays(), r.out, r.out, colour=1)


class Library(unittest.TestCase):
    def test_structures_equal_those_of_a_compiler(self):
        import ctypes
        from qkv import _layout
        for name, (size, members, places) in _layout.STRUCTURES.items():
            cls = getattr(_layout, name)
            self.assertEqual(ctypes.sizeof(cls), size, name)
            for member, at in zip(members.split(), places.split()):
                self.assertEqual(getattr(cls, member.split(":")[0]).offset, int(at), f"{name}.{member}")

    def test_every_function_of_the_interface_is_in_the_library(self):
        from qkv import _layout
        from qkv._library import lib
        for name in _layout.FUNCTIONS:
            self.assertTrue(callable(getattr(lib, name[4:])), name)

    def test_import_loads_no_other_library(self):
        import subprocess
        code = "import sys, qkv; print(sorted({'numpy', 'torch', 'transformers'} & set(sys.modules)))"
        found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        self.assertEqual(found, "[]\n")

    def test_errors_survive_pickle(self):
        import pickle
        error = pickle.loads(pickle.dumps(qkv.FormatError("a: b", file="a", offset=3)))
        self.assertEqual((str(error), error.file, error.offset, error.status), ("a: b", "a", 3, "format"))

    def test_settings(self):
        before = qkv.threads()
        qkv.set_threads(2)
        self.assertEqual(qkv.threads(), 2)
        qkv.set_threads(before)
        with self.assertRaises(qkv.UsageError):
            qkv.set_threads(-1)
        with self.assertRaisesRegex(qkv.UsageError, "isa: expected one of scalar"):
            qkv.set_isa("none")


if __name__ == "__main__":
    unittest.main()
