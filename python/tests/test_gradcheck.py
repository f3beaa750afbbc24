# SPDX-License-Identifier: MIT
"""qkv.torch in double against differences: torch.autograd.gradcheck of the operator with every mask.

libqkv computes in float, whose rounding hides an error of a gradient below 1e-3.  This test loads a library of the same
sources with real as double (double_library.c).  bias and sinks are floats there too: their values and the steps of the
differences are exact as floats.
"""
import os
import sys
import unittest

try:
    import torch
    from torch.autograd.gradcheck import GradcheckError
except ImportError:
    print("skipped: torch is not installed")
    sys.exit(77)
if "QKV_LIBRARY" not in os.environ:
    print("skipped: needs QKV_LIBRARY, a library with attention in double (libqkv_double.so of the build)")
    sys.exit(77)

import qkv
import qkv._attention
import qkv.torch

qkv._attention.REAL = "f64"
sdpa, attention = qkv.torch.scaled_dot_product_attention, qkv.torch.attention


def arrays(B=2, H=4, T=5, S=7, E=3, G=None, F=2, seed=0):
    torch.manual_seed(seed)
    draw = lambda *shape: torch.randn(*shape, dtype=torch.float64, requires_grad=True)
    return draw(B, H, T, E), draw(B, G or H, S, E), draw(B, G or H, S, F)


def exact_floats(*shape):
    """Returns multiples of 2^-6 in -1 .. 1: a step of 2^-12 from them is exact as float."""
    return (torch.randint(-64, 65, shape).double() / 64).requires_grad_()


class Gradcheck(unittest.TestCase):
    def check(self, f, inputs, **options):
        # Central differences with a step h differ by h^2 f''' / 6: 1e-12 and 2^-24 here, and by rounding of 1e-16 / h.
        self.assertTrue(torch.autograd.gradcheck(f, inputs, **{"eps": 1e-6, "atol": 1e-7, "rtol": 1e-6, **options}))

    def test_no_mask_causal_and_scale(self):
        self.check(sdpa, arrays())
        self.check(lambda *x: sdpa(*x, is_causal=True), arrays())
        self.check(lambda *x: sdpa(*x, is_causal=True, scale=.3), arrays(T=7, S=5))

    def test_grouped_heads(self):
        self.check(lambda *x: sdpa(*x, enable_gqa=True), arrays(G=2))

    def test_bool_mask_with_an_empty_row(self):
        torch.manual_seed(1)
        mask = torch.rand(2, 1, 5, 7) > .4
        mask[1, 0, 2] = False
        self.check(lambda *x: sdpa(*x, mask), arrays())

    def test_window_and_softcap(self):
        self.check(lambda *x: attention(*x, window=(2, 1), softcap=1.5)[0], arrays())

    def test_dropout(self):
        def f(*x):
            torch.manual_seed(4)
            return sdpa(*x, dropout_p=.4)
        self.check(f, arrays())

    def test_bias_and_sinks(self):
        torch.manual_seed(2)
        floats = dict(eps=2**-12, atol=1e-6, rtol=1e-5)
        for shape in ((1, 4, 5, 7), (2, 1, 5, 7), (1, 1, 1, 7)):
            self.check(lambda bias: sdpa(*(x.detach() for x in arrays()), bias), (exact_floats(*shape),), **floats)
        self.check(lambda sinks: attention(*(x.detach() for x in arrays()), sinks=sinks)[0], (exact_floats(4),), **floats)

    def test_more_tiles_than_one(self):
        """Two tiles of keys and of rows; a random projection of all gradients (fast_mode)."""
        self.check(lambda *x: sdpa(*x, is_causal=True), arrays(1, 2, 300, 300, 4, F=4), fast_mode=True)

    def test_a_wrong_gradient_is_found(self):
        class Wrong(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, g):
                return g * (1 + 1e-4)
        with self.assertRaises(GradcheckError):
            self.check(lambda q, k, v: sdpa(Wrong.apply(q), k, v), arrays())


if __name__ == "__main__":
    unittest.main()
