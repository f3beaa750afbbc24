# SPDX-License-Identifier: MIT
# plain_pages.py: the pages without views: the course as one page, and pages of charts.
#   plain_pages.py QKV FOLDER    makes them in FOLDER
import json, math, os, subprocess, sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
VERSE = os.path.join(TOP, "models/verse")
KINDS = "attention,convolution,elman,window,block-sparse,linear,performer,linformer,nystrom"
TEXT = "In the beginning God created the heaven and the earth"
CHARTS = {
    "scaling": ["explain", "--scaling"],
    "norm": ["explain", "--norm"],
    "shapes": ["explain", "--shapes"],
    "mask": ["explain", "--mask"],
    "paths": ["explain", "--paths"],
    "scores": ["explain", "--scores"],
    "independence": ["explain", "--independence"],
    "positions": ["explain", "--positions", "-m", VERSE],
    "embedding": ["explain", "--embedding", TEXT, "-m", VERSE],
    "reads": ["explain", "--reads", TEXT, "God", "heaven", "--token", "earth", "-m", VERSE],
    "geometry": ["explain", "--geometry", TEXT, "-m", VERSE],
    "context": ["explain", "--context", "God", TEXT, "God said", "for God", "-m", VERSE],
    "diagonal": ["explain", "--diagonal", TEXT, "-m", VERSE],
    "dense": ["explain", "--dense", TEXT, "-m", VERSE],
    "lookup": ["explain", "--lookup", "-m", VERSE],
    "cost": ["compare", "--count", "--kinds", KINDS, "-n", "64,256,1024,4096", "-d", "64,512"],
    "curves": ["plot", "short", "long"],
    "entropy": ["plot", "long", "--probes"],
}


def make_runs(folder):
    """Makes two runs: what qkv plot reads of them."""
    for name, steps in ("short", 40), ("long", 200):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
        with open(os.path.join(folder, name, "log.jsonl"), "w", encoding="utf-8") as f:
            for i in range(1, steps + 1):
                line = {"step": i, "loss": 5 + 2 * math.exp(-i / 30) + .1 * math.sin(7 * i), "rate": 1e-3 * min(1, i / 9),
                        "norm": 1 + .5 * math.cos(i)}
                if i % 10 == 0:
                    line["valid_loss"] = line["loss"] + .3
                f.write(json.dumps(line) + "\n")
        with open(os.path.join(folder, name, "probes.jsonl"), "w", encoding="utf-8") as f:
            for i in range(10, steps + 1, 10):
                heads = [[{"entropy": (4.5 - (layer + h) * i / 100) % 4.6, "top": 0} for h in range(4)] for layer in range(3)]
                f.write(json.dumps({"step": i, "tokens": ["a"] * 24, "heads": heads}) + "\n")


def make(command, folder):
    """Makes the pages, and returns their names."""
    os.makedirs(folder, exist_ok=True)
    command = os.path.abspath(command)
    make_runs(folder)
    names = list(CHARTS)
    for name, arguments in CHARTS.items():
        subprocess.run([command, *arguments, "-o", name + ".html", "--force"], check=True, cwd=folder,
                       stdout=subprocess.DEVNULL)
    book = os.path.join(TOP, "tools/book.py")
    done = subprocess.run([sys.executable, book, os.path.join(folder, "course.html")], stdout=subprocess.DEVNULL)
    if done.returncode not in (0, 77):  # 77: pandoc is missing
        raise RuntimeError("tools/book.py: exit code %d" % done.returncode)
    return [*names, *["course"][done.returncode == 77:]]


if __name__ == "__main__":
    make(*sys.argv[1:3])
