# SPDX-License-Identifier: MIT
# book_text.py: a text of 200 kB and a model that reads it whole.
#   book_text.py TOP FOLDER TEXT    makes the folder of a model, from tests/golden of TOP, and the file of the text
import json, os, shutil, sys

WORDS, BYTES = 36, 200000


def make(top, folder, text):
    """Makes 20,000 words of ten bytes, each one of 36, and an encoder: its relative positions have no last one."""
    os.makedirs(folder, exist_ok=True)
    for part in "config.json", "model.safetensors":
        shutil.copy(os.path.join(top, "tests/golden/t5-encoder", part), folder)
    words = {"word%05d" % i: 3 + i for i in range(WORDS)}
    vocab = {"<pad>": 0, "</s>": 1, "<unk>": 2, **words, "more": 39, "most": 40}
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump({"version": "1.0", "pre_tokenizer": {"type": "WhitespaceSplit"},
                   "model": {"type": "WordLevel", "unk_token": "<unk>", "vocab": vocab}}, f)
    with open(text, "w", encoding="utf-8") as f:
        f.write("".join("word%05d " % (i * i // 7 % WORDS) for i in range(BYTES // 10)))


if __name__ == "__main__":
    make(*sys.argv[1:4])
