# SPDX-License-Identifier: MIT
"""engines.py NAME LINES ONE OUTPUT: compares OUTPUT, a .npy file or a folder of Parquet files, with ONE, the vectors that
qkv embed wrote: the same lines, in their order, and the same bits."""
import sys

import numpy

name, lines, one, output = sys.argv[1:]
wanted = numpy.load(one)
if output.endswith(".npy"):
    found = numpy.load(output)
else:
    import pyarrow.parquet
    table = pyarrow.parquet.read_table(output)
    with open(lines) as f: texts = f.read().splitlines()
    if table.column(0).to_pylist() != texts: sys.exit(f"{name}: other lines, or in another order")
    found = numpy.array(table["vector"].to_pylist(), "float32")
if found.dtype != wanted.dtype or found.shape != wanted.shape or found.tobytes() != wanted.tobytes():
    sys.exit(f"{name}: other vectors, {found.dtype} {found.shape}, expected {wanted.dtype} {wanted.shape}")
print(f"{name}: the vectors of qkv embed, {found.shape[0]} x {found.shape[1]}")
