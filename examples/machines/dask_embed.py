# SPDX-License-Identifier: MIT
"""dask_embed.py MODEL INPUT OUTPUT [SCHEDULER]: embeds the lines of a text file by Dask, to OUTPUT, a .npy file.  Without
the address of a scheduler, Dask starts two processes on this machine."""
import functools
import sys

import dask.bag
import numpy
import qkv
from dask.distributed import Client


@functools.lru_cache
def open_model(model):  # once per process
    qkv.set_threads(1)  # threads_per_worker
    return qkv.SentenceTransformer(model)


def embed(lines, model):
    lines = [line.rstrip("\n") for line in lines]
    return [open_model(model).encode(lines)] if lines else []


if __name__ == "__main__":
    model, source, output = sys.argv[1:4]
    local = dict(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with Client(sys.argv[4]) if len(sys.argv) > 4 else Client(**local):
        lines = dask.bag.read_text(source, blocksize=1 << 20)
        numpy.save(output, numpy.concatenate(lines.map_partitions(embed, model).compute()))
