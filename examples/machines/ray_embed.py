# SPDX-License-Identifier: MIT
"""ray_embed.py MODEL INPUT OUTPUT: embeds the lines of text files by Ray Data, to a folder of Parquet files."""
import sys

import qkv
import ray


class Embed:
    """An actor of Ray: it opens the model once."""

    def __init__(self, model):
        qkv.set_threads(1)  # num_cpus
        self.model = qkv.SentenceTransformer(model)

    def __call__(self, batch):
        batch["vector"] = self.model.encode(list(batch["text"]))
        return batch


if __name__ == "__main__":
    model, source, output = sys.argv[1:]
    lines = ray.data.read_text(source, drop_empty_lines=False)
    lines.map_batches(Embed, fn_constructor_args=[model], batch_size=1024, num_cpus=1,
                      compute=ray.data.ActorPoolStrategy(min_size=1, max_size=2)).write_parquet(output)
