#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""sublayers.py MODEL TRACE TOKEN: what attention and feed-forward network of each layer of a BERT model compute for a
token, before the residual connection and the layer norm.

TRACE is the output of `qkv trace TEXT --what all`, TOKEN the index of a token.  Prints the norm of each output and its
cosine with the stream that it is added to.  Recomputes each layer from the weights of MODEL, and fails unless the
result is the hidden state of the trace.
"""
import array
import json
import math
import os
import sys

WITHIN = 1e-3  # largest difference of a recomputed hidden state


class Tensors:
    """The tensors of a safetensors file, found by the end of their names."""

    def __init__(self, path):
        with open(path, "rb") as f:
            size = int.from_bytes(f.read(8), "little")
            self.head, self.data = json.loads(f.read(size)), f.read()

    def __call__(self, end):
        name = next((n for n in self.head if n.endswith(end)), None)
        if name is None or self.head[name]["dtype"] != "F32":
            sys.exit(f"expected a tensor {end} of type F32, found {name}")
        first, last = self.head[name]["data_offsets"]
        numbers = array.array("f")
        numbers.frombytes(self.data[first:last])
        return numbers


def dot(x, y):
    return sum(a * b for a, b in zip(x, y))


def norm(x):
    return math.sqrt(dot(x, x))


def linear(x, weights, name):
    """Returns x W^T + b; the file stores W^T, a row per output."""
    w, b = weights(name + ".weight"), weights(name + ".bias")
    return [dot(x, w[i * len(x):(i + 1) * len(x)]) + b[i] for i in range(len(b))]


def layer_norm(x, weights, name):
    mean = sum(x) / len(x)
    scale = 1 / math.sqrt(sum((a - mean) ** 2 for a in x) / len(x) + 1e-12)
    return [(a - mean) * scale * g + b for a, g, b in zip(x, weights(name + ".weight"), weights(name + ".bias"))]


def gelu(x):
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


def heads(trace, layer, token, tokens, width):
    """Returns the outputs of all heads of a layer for one token, concatenated: the sums of weight times value."""
    a, v = trace(f"attentions.{layer}"), trace(f"layer.{layer}.attention.self.value")
    count = len(a) // tokens ** 2
    each, out = width // count, []
    for h in range(count):
        row = a[(h * tokens + token) * tokens:][:tokens]
        out += [dot(row, v[h * each + e::width]) for e in range(each)]
    return out


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    weights, trace, token = Tensors(os.path.join(sys.argv[1], "model.safetensors")), Tensors(sys.argv[2]), int(sys.argv[3])
    tokens, width = trace.head["hidden_states.0"]["shape"][-2:]
    state = lambda n: trace(f"hidden_states.{n}")[token * width:][:width]
    print("       attention       feed-forward\nlayer   norm  cosine    norm  cosine")
    for layer in range(sum(n.startswith("attentions.") for n in trace.head)):
        name, x = f"layer.{layer}.", state(layer)
        attention = linear(heads(trace, layer, token, tokens, width), weights, name + "attention.output.dense")
        z = layer_norm([a + b for a, b in zip(x, attention)], weights, name + "attention.output.LayerNorm")
        inner = [gelu(a) for a in linear(z, weights, name + "intermediate.dense")]
        forward = linear(inner, weights, name + "output.dense")
        y = layer_norm([a + b for a, b in zip(z, forward)], weights, name + "output.LayerNorm")
        off = max(abs(a - b) for a, b in zip(y, state(layer + 1)))
        if not off < WITHIN:
            sys.exit(f"layer {layer}: the recomputed hidden state differs from that of the trace by {off:.1e}")
        pairs = ((attention, x), (forward, z))
        print(f"{layer:5}" + "".join(f"{norm(f):7.2f}{dot(f, s) / norm(f) / norm(s):8.2f} " for f, s in pairs).rstrip())


if __name__ == "__main__":
    main()
