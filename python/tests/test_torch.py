# SPDX-License-Identifier: MIT
"""qkv.torch against torch's own attention in double: forward, backward, compile, training."""
import ctypes
import gc
import sys
import unittest
import weakref

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(77)

import reference as ref

import qkv
import qkv.torch

# Relative to the largest number of a result.  Float sums of S = 33 terms and exponentials: below 64 half units.
BOUND = 64 * 2.0**-24
sdpa = qkv.torch.scaled_dot_product_attention
torch.set_num_threads(1)  # several threads of OpenMP poll for each other, which takes minutes on a busy machine


def relative(a, b):
    return ((a.double() - b).abs().max() / b.abs().max()).item()


def arrays(B=2, H=4, T=33, S=33, E=16, G=None, seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    q = torch.randn(B, T, H, E).transpose(1, 2).to(dtype).requires_grad_()
    return q, *(torch.randn(B, G or H, S, E).to(dtype).requires_grad_() for _ in "kv")


class Parity(unittest.TestCase):
    def check(self, q, k, v, mask=None, bound=BOUND, **options):
        leaf = lambda x: x is not None and x.requires_grad
        ours = sdpa(q, k, v, mask, **options)
        twins = [x if x is None or not x.dtype.is_floating_point else x.detach().double().requires_grad_(x.requires_grad)
                 for x in (q, k, v, mask)]
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            theirs = F.scaled_dot_product_attention(*twins, **options)
        self.assertEqual((ours.shape, ours.dtype), (theirs.shape, q.dtype))
        self.assertLess(relative(ours, theirs), bound)
        weight = torch.linspace(-1, 2, ours.shape[-1])
        a = torch.autograd.grad((ours * weight.to(ours.dtype)).sum(), [x for x in (q, k, v, mask) if leaf(x)])
        b = torch.autograd.grad((theirs * weight.double()).sum(), [x for x in twins if leaf(x)])
        for x, y in zip(a, b):
            self.assertEqual(x.shape, y.shape)
            self.assertLess(relative(x, y), 4 * bound)  # dS = P (dP - dP.P) is a difference

    def test_no_mask_and_causal(self):
        self.check(*arrays())
        self.check(*arrays(), is_causal=True)
        self.check(*arrays(T=9, S=33), is_causal=True)
        self.check(*arrays(), scale=.5)

    def test_grouped_heads(self):
        self.check(*arrays(G=2), enable_gqa=True)
        with self.assertRaisesRegex(qkv.UsageError, "enable_gqa"):
            sdpa(*arrays(G=2))

    def test_masks(self):
        T = S = 33
        allowed = (torch.rand(2, 1, T, S) > .3) | torch.eye(T, dtype=torch.bool)
        self.check(*arrays(), allowed)
        self.check(*arrays(), allowed[:1].expand(2, 4, T, S))
        self.check(*arrays(), torch.ones(S, dtype=torch.bool))
        for shape in ((1, 4, T, S), (T, S), (2, 1, 1, S)):
            self.check(*arrays(), torch.randn(shape, requires_grad=True))
        self.check(*arrays(), torch.randn(2, 4, T, 1))  # the same for all keys: its gradient is 0

    def test_expanded_masks_are_not_copied(self):
        q, k, v = arrays()
        for mask in (torch.rand(33, 33) > .3, torch.randn(33, 33), torch.randn(2, 1, 1, 33)):
            whole = mask.expand(2, 4, 33, 33)
            found = [x for x in qkv.torch._broadcast(whole, whole.shape) if x is not None]
            self.assertEqual([(tuple(x.shape), x.data_ptr()) for x in found], [((1,) * (4 - mask.dim()) + tuple(mask.shape), mask.data_ptr())])
            self.check(q, k, v, whole)
        self.check(q, k, v, torch.randn(33, 33).expand(2, 4, 33, 33).requires_grad_())
        with self.assertRaisesRegex(qkv.UsageError, "attn_mask: expected a shape"):
            sdpa(q, k, v, torch.randn(33, 33).expand(3, 4, 33, 33))

    def test_other_axes_and_layouts(self):
        q, k, v = arrays()
        self.check(*(x.detach()[0].requires_grad_() for x in (q, k, v)))
        self.check(*(x.detach()[0, 0].requires_grad_() for x in (q, k, v)))
        self.check(*(x.detach().reshape(1, 2, 4, 33, 16).requires_grad_() for x in (q, k, v)))
        for mask in (torch.randn(33), torch.randn(4, 33, 33)):
            self.check(*(x.detach().reshape(1, 2, 4, 33, 16).requires_grad_() for x in (q, k, v)), mask)
        self.check(*(x.detach()[..., ::2].requires_grad_() for x in (q, k, v)))
        self.check(q, k.detach()[:, :1].expand(2, 4, 33, 16).requires_grad_(), v)

    def test_leading_axes_are_broadcast(self):
        """As torch does, gradients included: they are summed over the broadcast axes."""
        cut = lambda x, *at: x.detach()[at].requires_grad_()
        first, head = slice(0, 1), (slice(None), slice(0, 1))
        q, k, v = arrays()
        for x in ((cut(q, first), k, v), (q, cut(k, first), cut(v, first)), (q, k, cut(v, first)), (q, cut(k, *head), cut(v, *head)),
                  (q, cut(k, *head), v), (cut(q, *head), k, v)):
            self.check(*x)
            self.check(*x, torch.randn(4, 33, 33))
        self.check(*(cut(x, 0) for x in (q, k, v)))
        self.check(cut(q, 0), *(cut(x, 0, first) for x in (k, v)))
        five = [x.detach().reshape(2, 1, 4, 33, 16) for x in (q, k, v)]
        self.check(five[0].requires_grad_(), *(x[:1].requires_grad_() for x in five[1:]))

    def test_half_precisions(self):
        # Results are stored in 11 or 8 bits; so are dq, dk, dv, and the products that backward reads.
        self.check(*arrays(dtype=torch.float16), bound=2**-9)
        self.check(*arrays(dtype=torch.bfloat16), bound=2**-6)

    def test_no_tokens(self):
        q, k, v = arrays()
        self.assertEqual(sdpa(q[:, :, :0], k, v).shape, (2, 4, 0, 16))
        self.assertFalse(sdpa(q, k[:, :, :0], v[:, :, :0]).any())
        for x in ((q[:, :, :0], k, v), (q, k[:, :, :0], v[:, :, :0]), (q[:0], k[:0], v[:0])):
            leaves = [y.detach().requires_grad_() for y in x]
            for y, gradient in zip(leaves, torch.autograd.grad(sdpa(*leaves).sum(), leaves)):
                self.assertEqual(gradient.shape, y.shape)
                self.assertFalse(gradient.any())

    def test_sinks_softcap_and_window(self):
        q, k, v = (x.detach().requires_grad_() for x in arrays())
        sinks = torch.randn(4, requires_grad=True)
        out, lse = qkv.torch.attention(q, k, v, sinks=sinks, softcap=2.0, window=(5, 0))
        d = [x.detach().double().requires_grad_() for x in (q, k, v, sinks)]
        s = 2 * torch.tanh(d[0] @ d[1].transpose(2, 3) / 4 / 2)
        at = torch.arange(33)
        s = s.masked_fill((at[None] > at[:, None]) | (at[None] < at[:, None] - 5), -torch.inf)
        p = torch.softmax(torch.cat([s, d[3].reshape(1, 4, 1, 1).expand(2, 4, 33, 1)], 3), 3)[..., :-1]
        self.assertLess(relative(out, p @ d[2]), BOUND)
        a = torch.autograd.grad(out.sum(), (q, k, v, sinks))
        b = torch.autograd.grad((p @ d[2]).sum(), d)
        for x, y in zip(a, b):
            self.assertLess(relative(x, y), 4 * BOUND)
        self.assertFalse(lse.requires_grad)


class Behaviour(unittest.TestCase):
    def test_autocast(self):
        """Output and gradients have the types that torch gives them, and the same bits as the call with cast tensors."""
        float_mask, flags = torch.randn(33, 33), torch.rand(33, 33) > .3
        for dtype in (torch.bfloat16, torch.float16):
            for kinds in ((torch.float32,) * 3, (torch.float32, torch.float32, dtype)):
                q, k, v = (x.detach().to(kind).requires_grad_() for x, kind in zip(arrays(), kinds))
                for mask in (None, flags, float_mask, float_mask.to(dtype)):
                    with torch.autocast("cpu", dtype):
                        ours, theirs = (f(q, k, v, mask) for f in (sdpa, F.scaled_dot_product_attention))
                    self.assertEqual((ours.dtype, theirs.dtype), (dtype, dtype))
                    cast = lambda x: x.detach().to(dtype) if x is not None and x.dtype != torch.bool else x
                    self.assertTrue(torch.equal(ours, sdpa(*map(cast, (q, k, v, mask)))))
                    for x, gradient in zip((q, k, v), torch.autograd.grad(ours.float().sum(), (q, k, v))):
                        self.assertEqual(gradient.dtype, x.dtype)
        with torch.autocast("cpu", torch.bfloat16), self.assertRaises(qkv.DtypeError):
            sdpa(*(x.double() for x in arrays()))  # torch does not cast float64 either
        compiled = torch.compile(sdpa, backend="aot_eager", fullgraph=True)
        x = [y.detach() for y in arrays()]
        with torch.autocast("cpu", torch.bfloat16):
            self.assertTrue(torch.equal(compiled(*x), sdpa(*x)))

    def test_opcheck(self):
        q, k, v = arrays()
        torch.library.opcheck(torch.ops.qkv.attention.default,
                              (q, k, v, torch.randn(1, 4, 33, 33, requires_grad=True), None, None, None, True, -1, -1, None, 0.0, 0.0))

    def test_compile_with_other_sizes(self):
        """The size of a mask and that of the tokens are different symbols of equal value."""
        def f(q):
            return sdpa(q, q, q, torch.zeros(1, 4, q.shape[2], q.shape[2])) + sdpa(q, q, q, q.new_ones(q.shape[2], q.shape[2]).tril() > 0)
        torch._dynamo.reset()
        compiled = torch.compile(f, backend="aot_eager", dynamic=True, fullgraph=True)
        for n in (5, 9):
            q = torch.randn(2, 4, n, 8)
            self.assertTrue(torch.equal(f(q), compiled(q)))
        g = lambda q: sdpa(q, q[:1], q[:1], scale=1 / q.shape[2], is_causal=True)
        compiled = torch.compile(g, backend="aot_eager", dynamic=True, fullgraph=True)
        for n in (5, 9):
            q = torch.randn(2, 4, n, 8)
            self.assertTrue(torch.equal(g(q), compiled(q)))

    def test_compile(self):
        f = lambda q, k, v: sdpa(q * 2, k, v, is_causal=True).sin()
        compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
        q, k, v = arrays()
        a, b = f(q, k, v), compiled(q, k, v)
        self.assertTrue(torch.equal(a, b))
        for x, y in zip(*(torch.autograd.grad(o.sum(), (q, k, v)) for o in (a, b))):
            self.assertLess(relative(x, y.double()), BOUND)

    def test_backward_reads_the_memory_of_forward(self):
        def owned(x):
            """Returns a copy of a tensor in memory of an object, and a weak reference to the object."""  # detach(): a view keeps its base
            memory = (ctypes.c_float * x.numel())(*x.flatten().tolist())
            return torch.frombuffer(memory, dtype=torch.float32).view(x.shape).detach(), weakref.ref(memory)

        def gradients(name, change):
            tensors = {n: x.detach() for n, x in zip("qkv", arrays(1, 3, 5, 3, 4))}
            tensors["sinks"] = torch.zeros(3)
            tensors[name], alive = owned(tensors[name])
            r = qkv.attention(**tensors, layout="BHTE", lse=True)
            change(tensors[name])
            del tensors
            gc.collect()
            self.assertIsNotNone(alive(), "the memory was freed")
            g = r.backward(torch.ones_like(r.out))
            return torch.cat([x.flatten() for x in g[:3]])
        for name in ("q", "k", "v", "sinks"):
            wanted = gradients(name, lambda x: None)
            for change in (lambda x: setattr(x, "data", torch.zeros(1)), lambda x: x.set_(torch.zeros(3)),
                           lambda x: x.set_(torch.zeros(9).untyped_storage())):
                self.assertTrue(torch.equal(gradients(name, change), wanted), name)

    def test_backward_refuses_memory_that_was_resized(self):
        for name in ("q", "k", "v", "sinks"):
            for change in (lambda x: x.resize_(10**6), lambda x: x.untyped_storage().resize_(0)):
                tensors = {n: x.detach() for n, x in zip("qkv", arrays(1, 3, 5, 3, 4))}
                tensors["sinks"] = torch.zeros(3)
                r = qkv.attention(**tensors, layout="BHTE", lse=True)
                change(tensors[name])
                with self.assertRaisesRegex(qkv.UsageError, name + ": the memory of the tensor was resized"):
                    r.backward(torch.ones_like(r.out))

    def test_dropout(self):
        """E out = out without dropout; with p = .5 over S = 33 keys of 4000 draws the mean is within 6 deviations."""
        q, k, v = (x.detach() for x in arrays(B=1, H=1, T=1, E=4))
        torch.manual_seed(1)
        draws = torch.stack([sdpa(q, k, v, dropout_p=.5) for _ in range(4000)])
        exact = sdpa(q, k, v)
        deviation = draws.std(0) / 4000**.5
        self.assertTrue(((draws.mean(0) - exact).abs() < 6 * deviation).all())
        torch.manual_seed(5)
        one = sdpa(q, k, v, dropout_p=.5)
        torch.manual_seed(5)
        self.assertTrue(torch.equal(one, sdpa(q, k, v, dropout_p=.5)))

    def test_errors(self):
        q, k, v = arrays()
        for wrong, cls in (((q.double(), k.double(), v.double()), qkv.DtypeError), ((q, k.half(), v), qkv.DtypeError),
                           ((q, k, v, torch.zeros(5)), qkv.UsageError), ((q, k, v, torch.zeros(33, dtype=torch.int32)), qkv.DtypeError),
                           ((q, torch.cat([k, k[:1]]), v), qkv.UsageError), ((q, k, 3), qkv.UsageError), ((q, k[..., :5], v), qkv.UsageError),
                           ((q, k, v, None, 1.5), qkv.UsageError), ((q, k, v, None, 1.0), qkv.UsageError),
                           ((q, k, v, None, None), qkv.UsageError), ((q, k, v, None, 0.0, "no"), qkv.UsageError),
                           ((q, k, v, None, 0.0, False, [1]), qkv.UsageError), ((q, k, v, None, 0.0, False, None, "no"), qkv.UsageError),
                           ((q, k, v, None, 0.0, False, torch.ones((), requires_grad=True)), qkv.UnsupportedError)):
            with self.assertRaises(cls):
                sdpa(*wrong)
        five = [x.detach().reshape(1, 2, 4, 33, 16) for x in (q, k, v)]
        with self.assertRaisesRegex(qkv.UsageError, "attn_mask: expected leading axes"):
            sdpa(*five, torch.zeros(3, 33, 33))
        for wrong in (dict(softcap=None), dict(softcap=[1]), dict(dropout_p=None), dict(is_causal="no")):
            with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                qkv.torch.attention(q, k, v, **wrong)
        with self.assertRaisesRegex(qkv.UsageError, "key: expected 4 axes"):
            qkv.torch.attention(q, k[0], v)

    def test_tensors_for_which_torch_would_choose_another_kernel(self):
        q, k, v = (x.detach() for x in arrays())
        meta, nested = torch.ones(33, 33, device="meta"), torch.nested.nested_tensor([q[0], q[1]])
        for wrong, cls in (((q, k, v, meta), qkv.DeviceError), ((q, k.to("meta"), v), qkv.DeviceError),
                           ((q.to_sparse(), k, v), qkv.DtypeError), ((nested, nested, nested), qkv.DtypeError),
                           ((torch.quantize_per_tensor(q, .1, 0, torch.qint8), k, v), qkv.DtypeError)):
            with self.assertRaises(cls):
                sdpa(*wrong)
        self.assertEqual(sdpa(*(x.to("meta") for x in (q, k, v))).device.type, "meta")
        with self.assertRaisesRegex(qkv.DeviceError, "key: expected a tensor of the device of query, meta, found device cpu"):
            sdpa(q.to("meta"), k, v)
        for wrong in (dict(window=(1,)), dict(window="ab"), dict(window=(1.5, 0)), dict(sinks=[1]), dict(scale="1")):
            with self.assertRaises(qkv.UsageError, msg=str(wrong)):
                qkv.torch.attention(q, k, v, **wrong)

    def test_a_derivative_in_forward_mode_is_refused(self):
        """torch would return zeros for it."""
        q, k, v = (x.detach() for x in arrays())
        with self.assertRaisesRegex(qkv.UnsupportedError, "value: forward-mode"):
            torch.func.jvp(lambda x: sdpa(q, k, x), (v,), (v,))

    def test_two_threads_of_python(self):
        import threading
        q, k, v = (x.detach() for x in arrays())
        wanted, found = sdpa(q, k, v), [None] * 4

        def work(i):
            for _ in range(50):
                found[i] = sdpa(q, k, v)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        self.assertTrue(all(torch.equal(x, wanted) for x in found))

    def test_other_threads_of_python_run_during_a_call(self):
        x, threads = torch.zeros(1, 8, 3000, 64), qkv.threads()
        qkv.set_threads(1)
        try:
            self.assertGreaterEqual(ref.ticks(lambda: sdpa(x, x, x)), 3)  # as in test_attention.py
        finally:
            qkv.set_threads(threads)


ORDER = """
import faulthandler, os, threading
faulthandler.dump_traceback_later(120, exit=True)
q = torch.arange(4. * 300 * 32).sin().view(1, 4, 300, 32)
exact = qkv.attention(q, q, q, layout="BHTE")
def work():
    for _ in range(5):
        assert torch.equal(qkv.torch.scaled_dot_product_attention(q, q, q), exact)
        (q @ q.transpose(2, 3)).sum()
threads = [threading.Thread(target=work) for _ in range(4)]
[t.start() for t in threads]
[t.join() for t in threads]
wanted, pid = exact.numpy().tobytes(), os.fork()
if pid == 0:  # torch's own threads do not survive a fork: only qkv computes here
    os._exit(qkv.attention(q, q, q, layout="BHTE").numpy().tobytes() != wanted)
assert os.waitpid(pid, 0)[1] == 0
"""


class Process(unittest.TestCase):
    def test_both_orders_of_import_with_threads_and_fork(self):
        import subprocess
        for first in ("import torch, qkv, qkv.torch", "import qkv; qkv.attention; import torch, qkv.torch"):
            found = subprocess.run([sys.executable, "-c", first + ORDER], capture_output=True, text=True)
            self.assertEqual(found.returncode, 0, found.stderr)


class Block(torch.nn.Module):
    def __init__(self, width, heads, attend):
        super().__init__()
        self.heads, self.attend = heads, attend
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (y.view(B, T, self.heads, -1).transpose(1, 2) for y in self.qkv(self.norms[0](x)).split(D, 2))
        x = x + self.out(self.attend(q, k, v, is_causal=True).transpose(1, 2).reshape(B, T, D))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


def losses(attend, dtype, make_optimizer, seed, steps=40):
    """Trains a GPT of two layers on a text of 32 letters, and returns the loss of each step."""
    torch.manual_seed(seed)
    embed, head = torch.nn.Embedding(32, 32), torch.nn.Linear(32, 32)
    model = torch.nn.Sequential(embed, Block(32, 4, attend), Block(32, 4, attend), head).to(dtype)
    optimizer, found = make_optimizer(model.parameters()), []
    text = (torch.arange(4 * 25)**2 % 31).view(4, 25)
    for _ in range(steps):
        loss = F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return torch.tensor(found, dtype=torch.float64)


MEMORY = """
import resource, torch, qkv.torch
def step(n):
    q, k, v = (torch.randn(1, 2, n, 16, requires_grad=True) for _ in "qkv")
    bias = torch.zeros(1, 1, 1, n, requires_grad=True)
    qkv.torch.scaled_dot_product_attention(q, k, v, bias, is_causal=True).sum().backward()
    assert all(torch.isfinite(x.grad).all() for x in (q, k, v, bias))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(-step(256) + step(4096))
"""


class Training(unittest.TestCase):
    def test_memory_does_not_grow_with_the_square_of_the_tokens(self):
        """Forward and backward of 4,096 tokens: the 2 x 4,096^2 weights alone would be 128 MiB."""
        import subprocess
        found = subprocess.run([sys.executable, "-c", MEMORY], capture_output=True, text=True, check=True)
        self.assertLess(int(found.stdout), 64 * 1024, "KiB")

    def test_the_loss_curve_of_a_gpt(self):
        """The curves of float32 leave the curve in double by rounding, ours as far as torch's.

        Both runs share every operator but attention, one of about ten of a layer, and ours has an error of .92 to .98 of
        the plain formula's (docs/testing.md).  So the mean squares of both distances estimate about the same number;
        240 losses, which are not independent, leave a factor of 2 of the root.  Step by step, two sums of rounding
        errors of that root mean square differ by less than 8 of them, and by a unit of the float loss itself.
        """
        ours, theirs, between = [], [], []
        for make in (lambda p: torch.optim.SGD(p, lr=.3, momentum=.5), lambda p: torch.optim.AdamW(p, lr=.003)):
            for seed in range(3):
                exact = losses(F.scaled_dot_product_attention, torch.float64, make, seed)
                self.assertLess(exact[-1], .1 * exact[0])
                ours.append(losses(sdpa, torch.float32, make, seed) - exact)
                theirs.append(losses(F.scaled_dot_product_attention, torch.float32, make, seed) - exact)
                between.append((ours[-1] - theirs[-1]).abs().max().item())
        rms = lambda curves: torch.stack(curves).square().mean().sqrt().item()
        self.assertLess(rms(ours), 2 * rms(theirs))
        self.assertLess(max(between), 8 * rms(theirs) + 4 * 2.0**-23)


if __name__ == "__main__":
    unittest.main()
