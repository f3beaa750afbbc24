# SPDX-License-Identifier: MIT
"""writers.py: the table of all commands that write files, and what may be on the disk after one of them has ended.

endings.py ends each writer by signals, limits and broken pipes; power.py lets the power fail.  The gate `writers` of
tools/gates.py refuses an output option that no row names.
"""
import atexit
import concurrent.futures
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

import disk
import walk

# name of a temporary file or folder, which the next run removes
TEMPORARY = re.compile(r"(^|.*/)[^/]+[.](tmp|old)[.]\d+[.]\d+(/.*)?$")


class Writer(walk.Flow):
    """A command that writes.  again: the arguments of the next run (default: the same with --force); run: the first
    output is the folder of a training run, which the next run continues; cut: an input that may be truncated meanwhile;
    parent: the output is written by a child process of the command."""

    def __init__(self, name, args, inputs, out=(), old=(), free=False, again=None, run=False, cut="", parent=False):
        super().__init__(name, args, inputs, out, old, free, cut=cut)
        self.run, self.parent = run, parent
        self.again = again or (args if "--force" in args or run or not out else [*args, "--force"])


def of_walk(name, cut="", **more):
    f = next(f for f in walk.FLOWS if f.name == name)
    return Writer(name, f.args, f.inputs, f.out, f.old, cut=cut, **more)


MODEL = "bert/model.safetensors"
EXPORT = walk.training("NEW", "--export", "EX")
WORDS = ["train", "text.txt", "--objective", "words", "--out", "W", "--width", "4", "--epochs", "1"]
RENEW = ["train", "labels.tsv", *walk.training("run", "--allow-data-change", steps="6")[2:]]
BEST = walk.training("NEW", "--save-every", "1", "--patience", "9", "--rate", ".5")
KEPT = walk.training("NEW", "--save-every", "1", "--keep", "every=2")
PLAIN = [
    of_walk("attn", "in.safetensors"),
    Writer("attn-all", ["attn", "-i", "in.safetensors", "-o", "o.npy", "--lse", "l.npy", "--weights", "w.npy",
                        "--probes", "p.safetensors", "--probe", "entropy"], ["in.safetensors"], ["o.npy", "l.npy", "w.npy", "p.safetensors"],
           cut="in.safetensors"),
    of_walk("embed-npy", MODEL),
    of_walk("embed-shard", MODEL, again=walk.SHARD),
    of_walk("embed-join"),
    of_walk("index", MODEL),
    of_walk("index-hnsw", MODEL),
    Writer("index-int8", ["index", "-m", "bert", "lines.txt", "labels.tsv", "-o", "i.qkvi", "--vectors", "int8", "--truncate"],
           ["bert", "lines.txt", "labels.tsv"], ["i.qkvi"], cut=MODEL),
    of_walk("view-html", MODEL),
    of_walk("view-svg", MODEL),
    of_walk("view-png", parent=True),
    Writer("view-csv", ["view", "-m", "bert", walk.TEXT, "-o", "p.csv"], ["bert"], ["p.csv"], cut=MODEL),
    Writer("view-npy", ["view", "-m", "bert", walk.TEXT, "-o", "p.npy"], ["bert"], ["p.npy"], cut=MODEL),
    of_walk("trace", MODEL),
    of_walk("ablate", MODEL),
    Writer("analogy", ["analogy", "-m", "bert", "a", "-o", "a.svg"], ["bert"], ["a.svg"], cut=MODEL),
    of_walk("train-tokenizer"),
    of_walk("plot-svg"),
    of_walk("plot-html"),
    of_walk("why", MODEL),
    Writer("info-svg", ["info", "bert", "--diagram", "model", "-o", "d.svg"], ["bert"], ["d.svg"]),
    Writer("explain-svg", ["explain", "--norm", "-o", "e.svg"], [], ["e.svg"]),
    Writer("compare-svg", ["compare", "--kinds", "attention", "-n", "32", "-d", "16", "-o", "c.svg"], [], ["c.svg"], free=True),
    Writer("bench-probe", ["bench", "probe", "--shape", "L1,H1,N16,E8,stream", "-o", "b.safetensors"], [],
           ["b.safetensors"], parent=True),
    of_walk("convert", "gpt/model.safetensors"),
    Writer("convert-int8", ["convert", "gpt", "OUT", "--precision", "int8", "--shard-size", "20KB"], ["gpt"], ["OUT"],
           cut="gpt/model.safetensors"),
    Writer("convert-file", ["convert", "llama2c.bin", "OUT", "--precision", "f32"], ["llama2c.bin"], ["OUT"],
           cut="llama2c.bin"),
    Writer("eval-file", ["eval", "run", "text.txt"], ["run", "text.txt"], cut="run/model/model.safetensors"),
    Writer("train", walk.training("NEW"), ["text.txt"], ["NEW"], run=True),
    Writer("train-best", BEST, ["text.txt"], ["NEW"], run=True),
    Writer("train-keep", KEPT, ["text.txt"], ["NEW"], run=True),
    Writer("train-pairs", next(f for f in walk.FLOWS if f.name == "train-pairs").args, ["pairs.tsv"], ["NEW"], run=True),
    Writer("train-resume", [*walk.training("run", steps="6")], ["text.txt"], ["run"], ["run"], run=True),
    Writer("train-renew", RENEW, ["labels.tsv"], ["run"], ["run"], run=True),
    Writer("train-export", EXPORT, ["text.txt"], ["NEW", "EX"], run=True, again=[*EXPORT, "--force"]),
    Writer("train-export-force", [*EXPORT, "--force"], ["text.txt"], ["NEW", "EX"], ["EX"], run=True),
    Writer("train-words", WORDS, ["text.txt"], ["W"]),
]


def forced(w):
    """The same command where its outputs exist already."""
    return Writer(w.name + "-force", [*w.args, "--force"], w.inputs, w.out, w.out, w.free, cut=w.cut, parent=w.parent)


UPDATE = ["index", "-m", "bert", "pairs.tsv", "lines.txt", "-o", "i.qkvi", "--update", "--truncate"]
WRITERS = PLAIN + [forced(w) for w in PLAIN if w.out and not w.run]


class Pull(Writer):
    """qkv pull from the hub of prepare(), whose cache is the folder "hub": files arrive one by one, and a name, a file in
    refs/, leads to a whole model at any time."""

    def __init__(self, name, *more, old=()):
        super().__init__(name, ["pull", "org/tiny", *more], [], ["hub"], old, again=["pull", "org/tiny", *more])
        self.env["HF_HUB_CACHE"] = "hub"


WRITERS += [Pull("pull"), Pull("pull-update", "--update", old=["hub"])]
WRITERS.append(Writer("index-update", UPDATE, ["bert", "pairs.tsv", "lines.txt"], ["i.qkvi"], ["i.qkvi"], again=UPDATE))


def old_folder(writer, inputs, work):
    """Makes the outputs that exist before the command: files, runs, and model folders."""
    for name in writer.old:
        path = os.path.join(work, name)
        if name == "hub": shutil.copytree(os.path.join(inputs, "old-hub"), path, symlinks=True)
        elif "--update" in writer.args and name == "i.qkvi": shutil.copy2(os.path.join(inputs, "old.qkvi"), path)
        elif name in ("OUT", "EX", "W"): shutil.copytree(os.path.join(inputs, "old-words" if name == "W" else "labels"), path)
        elif writer.run: shutil.copytree(os.path.join(inputs, name), path, symlinks=True)
        else:
            with open(path, "w") as f: f.write("old\n")


def prepare(qkv, folder):
    """Adds the inputs of the writers to the inputs of walk.py."""
    walk.prepare(qkv, folder)
    golden = os.path.join(os.path.dirname(__file__), "..", "golden", "llama2c-v0")
    shutil.copy2(os.path.join(golden, "model.bin"), os.path.join(folder, "llama2c.bin"))
    other = [{"W": "old-words", "4": "3"}.get(word, word) for word in WORDS]
    subprocess.run([qkv, *other], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    if walk.engine(qkv, "curl"): start_hub(qkv, folder)


def start_hub(qkv, folder):
    """Starts a hub on loopback (tests/cli/hub_server.py), which ends with this process, and pulls the first commit of
    org/tiny to old-hub; the flows pull the second.  Files are so small that each arrives in one piece, in every run."""
    model, port = os.path.join(folder, "hub/org/tiny/main"), os.path.join(folder, "port")
    os.makedirs(os.path.join(model, "1_Pooling"))
    for name, size in ("model.safetensors", 5000), ("tokenizer.json", 700), ("config.json", 300), ("1_Pooling/config.json", 90):
        with open(os.path.join(model, name), "wb") as f: f.write(hashlib.shake_128(name.encode()).digest(size))
    server = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../cli/hub_server.py")
    process = subprocess.Popen([sys.executable, "-S", "-E", server, os.path.join(folder, "hub"), port], stderr=subprocess.DEVNULL)
    atexit.register(process.kill)
    while not (os.path.exists(port) and os.path.getsize(port)):
        if process.poll() is not None: raise SystemExit("the hub does not start")
        time.sleep(.02)
    with open(port) as f: address = f"http://127.0.0.1:{f.read().split()[0]}"
    for w in WRITERS:
        if isinstance(w, Pull): w.env |= {"HF_ENDPOINT": address, "HF_HUB_OFFLINE": "0"}
    env = {**os.environ, "HF_ENDPOINT": address, "HF_HUB_CACHE": "old-hub", "HF_HUB_OFFLINE": "0", "no_proxy": "127.0.0.1"}
    subprocess.run([qkv, "pull", "org/tiny"], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    with open(os.path.join(model, "config.json"), "wb") as f: f.write(b"{}" * 200)


def tree(folder):
    """{relative path: bytes of a file, ("link", target), None of a folder}"""
    found = {}

    def add(path, name):
        with os.scandir(path) as entries:
            for e in entries:
                below = name + e.name
                if e.is_symlink(): found[below] = ("link", os.readlink(e.path))
                elif e.is_dir():
                    found[below] = None
                    add(e.path, below + "/")
                else:
                    with open(e.path, "rb") as f: found[below] = f.read()
    add(folder, "")
    return found


def below(found, out):
    """The part of a tree that is an output."""
    return {p: v for p, v in found.items() if p == out or p.startswith(out + "/")}


class Bench:
    """A folder in which a writer runs again and again, from any state of the folder."""

    def __init__(self, writer, qkv, shim, inputs):
        self.writer = writer
        self.first = walk.Server(writer, qkv, shim, inputs, writer.args, lambda work: old_folder(writer, inputs, work))
        self.work = self.first.work
        self.next = self.first
        if writer.again != writer.args: self.next = walk.Server(writer, qkv, shim, inputs, writer.again, None, self.work)
        self.disk = self.before = tree(self.work)
        # an index depends on the times of its model's files, so a file that is put back has its time again
        self.times = {p: os.stat(os.path.join(self.work, p)).st_mtime_ns for p, v in self.before.items()
                      if isinstance(v, bytes)}
        result = self.run(record=1)
        if result.status: raise SystemExit(f"{writer.name}: status {result.status} without a fault: {result.err}")
        self.changes, self.calls = result.counts[3], result.counts[2]
        self.whole, self.stdout = self.disk, result.out
        with open(os.path.join(self.first.base, "record"), "rb") as f: self.record = f.read()
        self.replay()

    def replay(self):
        """Checks that the record gives the files that the command wrote."""
        now = disk.Disk(self.work, self.before)
        for call in disk.parse(self.record): now.apply(*call)
        if now.state(None, "all", "all") != self.whole:
            raise SystemExit(f"{self.writer.name}: the record does not give the files that the command wrote")

    def place(self, wanted):
        """Brings the folder to a state."""
        for p in sorted(self.disk, reverse=True):
            if p in wanted and (wanted[p] is None) == (self.disk[p] is None): continue
            full = os.path.join(self.work, p)
            os.rmdir(full) if self.disk[p] is None else os.remove(full)
        for p in sorted(wanted):
            if p in self.disk and self.disk[p] == wanted[p]: continue
            full, value = os.path.join(self.work, p), wanted[p]
            if value is None: os.mkdir(full)
            elif isinstance(value, tuple):
                if os.path.lexists(full): os.remove(full)
                os.symlink(value[1], full)
            else:
                with open(full, "wb") as f: f.write(value)
                if self.before.get(p) == value: os.utime(full, ns=(self.times[p], self.times[p]))
        self.disk = dict(wanted)

    def run(self, again=False, **how):
        status, failed, counts, out, err, _ = (self.next if again else self.first).run(read=False, **how)
        self.disk = tree(self.work)
        return Result(status, failed, counts, out, err)

    def close(self):
        if self.next is not self.first: self.next.close()
        self.first.close()


class Result:
    def __init__(self, status, failed, counts, out, err):
        self.status, self.failed, self.counts, self.out, self.err = status, failed, counts, out, err
        self.signal = os.WTERMSIG(status) if status is not None and os.WIFSIGNALED(status) else 0
        self.code = None if status is None or self.signal else os.WEXITSTATUS(status)

    def __str__(self):
        what = "hangs" if self.status is None else f"signal {self.signal}" if self.signal else f"exit {self.code}"
        return f"{what}: {self.err.strip().split(chr(10))[-1][:200]}"


def is_output(writer, path):
    return any(path == o or path.startswith(o + "/") for o in writer.out)


def same(writer, a, b):
    """Whether two outputs are equal; of a chart of measured times, only its end can be compared."""
    return a == b or writer.free and a.keys() == b.keys() and all(a[p][-7:] == b[p][-7:] for p in a)


def judge_checkpoints(found, out):
    """Yields what is wrong with the folder of a run after an ending: its links must lead to a whole checkpoint."""
    for name in "model", "best":
        link = found.get(f"{out}/{name}")
        if link is None: continue
        folder = f"{out}/{link[1]}/"
        files = {p[len(folder):]: v for p, v in found.items() if p.startswith(folder)}
        try: listed = json.loads(files.pop("manifest.json"))["files"]
        except (KeyError, ValueError): listed = {}
        sums = {p: hashlib.sha256(v).hexdigest() for p, v in files.items()}
        if not listed or {p: row["sha256"] for p, row in listed.items()} != sums:
            yield f"{out}/{name} leads to no whole checkpoint"


def judge_cache(bench, found, out, temporaries):
    """Yields what is wrong with the cache of pulled models after an ending: each file is one of before or of a whole
    run, a name of a commit leads to all its files, and only downloads that did not end are left."""
    good = lambda p: [x[p] for x in (bench.before, bench.whole) if p in x]
    for p, v in below(found, out).items():
        if v is None or p.endswith(".incomplete"): continue
        if not good(p):
            if not (temporaries and TEMPORARY.match(p)): yield "leaves " + re.sub(r"[0-9a-f]{40,}|[.]\d+[.]\d+$", "*", p)
        elif v not in good(p): yield f"{p} is neither the old one nor the new one"
        elif "/refs/" in p:
            files = f"/snapshots/{v.decode()}/"
            listed = {q for x in (bench.before, bench.whole) for q in x if files in q and x[q] is not None}
            for q in sorted(listed):
                link = found.get(q)
                if link is None or os.path.normpath(os.path.join(os.path.dirname(q), link[1])) not in found:
                    yield f"{p} leads to a commit without {q.split(files)[1]}"


def judge_state(bench, found, temporaries, finished=False, interrupted=False):
    """Yields what is wrong with the folder after an ending.  temporaries: temporary files may be left; finished: the
    command ended with 0; interrupted: it did, after a run that was interrupted."""
    w, before, whole = bench.writer, bench.before, bench.whole
    for o in w.out:
        state = below(found, o)
        if w.run and o != "EX":
            yield from judge_checkpoints(found, o)
            differing = differences(state, below(whole, o), interrupted) if finished else []
            if temporaries: differing = [p for p in differing if p in whole]  # the next run removes the others
            if differing: yield f"differs from a run that was never stopped: {' '.join(differing)}"
        elif isinstance(w, Pull):
            yield from judge_cache(bench, found, o, temporaries)
            differing = [p for p in differences(state, below(whole, o), False) if "/.locks" not in p] if finished else []
            if differing: yield f"{o} is not the new one after exit 0: {' '.join(differing)}"
        elif finished:
            if not same(w, state, below(whole, o)): yield f"{o} is not the new one after exit 0"
        elif state not in (below(before, o), below(whole, o)) and not (
                found is bench.disk and same(w, state, below(whole, o))):  # a run, which measured other times
            yield f"{o} is neither the old one nor the new one"
    for p, v in found.items():
        if is_output(w, p): continue
        if p not in before:
            if not (temporaries and TEMPORARY.match(p)): yield "leaves " + re.sub(r"[.](tmp|old)[.].*", r".\1.*", p)
        elif v != before[p]: yield f"changes {p}"
    for p in before:
        if p not in found and not is_output(w, p): yield f"removes {p}"


def differences(a, b, interrupted):
    """The files of two runs that differ, except for the number of the process in the lock.  A run that was interrupted
    saved a checkpoint at that step, so that it keeps others before the last one."""
    linked = {v[1] for v in b.values() if isinstance(v, tuple)}
    older = lambda p: any(part.startswith("checkpoint-") and part not in linked for part in p.split("/"))
    kept = lambda p: not p.endswith("/lock") and not (interrupted and older(p))
    return sorted(p for p in a.keys() | b.keys() if a.get(p, ...) != b.get(p, ...) and kept(p))


def judge_next(bench, interrupted=False):
    """Runs the command again; yields what is wrong then."""
    result = bench.run(again=True)
    if result.status != 0:
        yield f"the next run: {result}"
        return
    for what in judge_state(bench, bench.disk, False, True, interrupted): yield f"the next run: {what}"


def main(p, task, unit):
    """Runs task(writer, arguments, inputs), which returns (name, count, violations), for all writers."""
    p.add_argument("qkv", type=os.path.abspath)
    p.add_argument("shim", type=os.path.abspath)
    p.add_argument("--share", type=float, default=1)
    p.add_argument("--seed", default="")
    p.add_argument("--flow")
    a = p.parse_args()
    begin, total, bad = time.monotonic(), 0, 0
    with tempfile.TemporaryDirectory(prefix="qkv-faults-") as inputs:
        prepare(a.qkv, inputs)
        with concurrent.futures.ProcessPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
            for done in concurrent.futures.as_completed(
                    pool.submit(task, w, a, inputs) for w in walk.possible(a.qkv, WRITERS)
                    if not a.flow or w.name == a.flow):
                name, count, found = done.result()
                violations = sum(map(len, found.values()))
                total, bad = total + count, bad + violations
                print(f"{name:24} {count:6} {unit}, {violations} violations", flush=True)
                for what, at in found.items(): print(f"  {at[0]} and {len(at) - 1} more: {what}", flush=True)
    print(f"{total} {unit}, {bad} violations ({time.monotonic() - begin:.0f} s)")
    return 1 if bad or not total else 0
