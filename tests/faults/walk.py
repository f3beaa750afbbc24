#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""walk.py: runs whole commands again and again, and lets another call of each run fail.

    walk.py QKV SHIM [--share S] [--seed WORD] [--kinds memory,threads,files] [--flow NAME] [--point KIND:N[:ever]]

Each flow is one command on small inputs.  A run without faults counts its allocations, its threads and its system calls
on files; then each of them fails once, and again together with every later call of its name (shim.c).  S is the share
of these points that is drawn, by the seed.  After each run:

- the exit code is that of the fault: 5 for memory, 6 for files, 0 for threads; 0 also for a fault that changes nothing
- the message begins with "qkv: " and, for files, names one
- an output is absent, or as it was before, or whole; no temporary file is left; the inputs are as before
- qkv has freed all its memory (held.c), unless the command ended at once because one of its own small allocations failed

Prints a line for each violation and a table; exit 1 if there was a violation.
"""
import argparse
import collections
import concurrent.futures
import contextlib
import glob
import http.client
import json
import os
import random
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

KINDS = ["memory", "threads", "files", "changes"]  # the order of shim.c
WALKED = KINDS[:3]
SECONDS = 30  # a run takes less than a tenth of a second on a quiet machine
NAMES = {0: "read", 1: "write", 2: "open", 4: "stat", 5: "fstat", 6: "lstat", 8: "lseek", 9: "mmap", 17: "pread",
         18: "pwrite", 19: "readv", 20: "writev", 40: "sendfile", 74: "fsync", 75: "fdatasync", 77: "ftruncate",
         82: "rename", 83: "mkdir", 85: "creat", 86: "link", 88: "symlink", 89: "readlink", 217: "getdents",
         257: "openat", 258: "mkdirat", 262: "fstatat", 264: "renameat", 265: "linkat", 285: "fallocate",
         316: "renameat2", 326: "copy_file_range", 332: "statx"}
# Violations that are known, as (flow, text of the violation): they are counted and do not fail the walk.
KNOWN = [# the loader ends the process if it has no memory for the variables of the runtime of C++
         ("hnsw|pull$", "exit 127|(out of memory|thread-local data: ABORT).n'$")]
TEXT = "the owl"
BERT, ROWS = "bert", ["-f", "lines.txt"]


class Flow:
    """args: the command; inputs: names in the folder of inputs; out: outputs; old: outputs that exist before;
    free: outputs and standard output depend on the time or the fonts, so that their bytes are not compared;
    program: the program that runs, in the folder of qkv; env: more variables; request: the path and the body that
    visit() sends to the command, a server."""

    def __init__(self, name, args, inputs, out=(), old=(), free=False, kinds=WALKED, cut="", program="", env=None,
                 request=None, most=0):
        self.most, self.cut, self.program, self.env, self.request = most, cut, program, env or {}, request
        self.name, self.args, self.inputs, self.out = name, args, inputs, list(out)
        self.old, self.free, self.kinds = list(old), free, kinds


# A command that paints PNG: fontconfig reads one folder of fonts (prepare), so that a run takes less time, and a run in
# which it does not end is ended.
FONTS = {"FONTCONFIG_FILE": "fonts.conf", "QKV_FAULTS_SECONDS": "2"}


def png(name, args, inputs, **more):
    return Flow(name, [*args, "-o", "p.png"], inputs, ["p.png"], free=True, env=dict(FONTS), most=400, **more)


def small(*more):
    return ["--width", "16", "--layers", "1", "--heads", "2", "--batch-tokens", "128", *more]


def training(out, *more, steps="4"):
    return ["train", "text.txt", "--out", out, "--tokenizer", "bytes", "--context", "32", "--steps", steps,
            "--eval-every", "2", *small(*more)]


def part(output, shard):
    """The files of a shard of 2."""
    name = output.replace(".", f".part-{shard:05}-of-00002.")
    return [name, name + ".manifest.json"]


SHARD = ["embed", "-m", BERT, "-o", "s.npy", "--shard", "1/2", *ROWS]
PARTS = [*part("v.npy", 0), *part("v.npy", 1)]
FLOWS = [
    Flow("attn", ["attn", "-i", "in.safetensors", "-o", "o.npy"], ["in.safetensors"], ["o.npy"]),
    Flow("attn-force", ["attn", "-i", "in.safetensors", "-o", "o.npy", "--force"], ["in.safetensors"], ["o.npy"],
         ["o.npy"]),
    Flow("embed-json", ["embed", "-m", BERT, "--json", *ROWS], [BERT, "lines.txt"]),
    Flow("embed-npy", ["embed", "-m", BERT, "-o", "v.npy", *ROWS], [BERT, "lines.txt"], ["v.npy"]),
    Flow("embed-force", ["embed", "-m", BERT, "-o", "v.npy", "--force", *ROWS], [BERT, "lines.txt"], ["v.npy"],
         ["v.npy"]),
    Flow("embed-shard", SHARD, [BERT, "lines.txt"], part("s.npy", 1)),
    Flow("embed-skip", ["embed", "-m", BERT, "-o", "v.npy", "--shard", "1/2", *ROWS], [BERT, "lines.txt", *PARTS]),
    Flow("embed-join", ["embed", "--join", "v.npy"], PARTS, ["v.npy"]),
    Flow("similar", ["similar", "-m", BERT, "abc", "bcd"], [BERT]),
    Flow("index", ["index", "-m", BERT, "lines.txt", "-o", "i.qkvi"], [BERT, "lines.txt"], ["i.qkvi"]),
    Flow("index-json", ["index", "-m", BERT, "owls.jsonl", "-o", "i.qkvi"], [BERT, "owls.jsonl"], ["i.qkvi"]),
    Flow("index-folder", ["index", "-m", BERT, "owls", "-o", "i.qkvi"], [BERT, "owls"], ["i.qkvi"]),
    Flow("search", ["search", "old.qkvi", "owl", "--why", "--json"], [BERT, "old.qkvi"]),
    Flow("index-hnsw", ["index", "-m", BERT, "lines.txt", "-o", "i.qkvi", "--hnsw"], [BERT, "lines.txt"],
         ["i.qkvi", "i.qkvi.hnsw"]),
    Flow("search-hnsw", ["search", "old.qkvi", "owl", "--hnsw", "--json"], [BERT, "old.qkvi", "old.qkvi.hnsw"]),
    Flow("view-html", ["view", "-m", BERT, TEXT, "-o", "p.html"], [BERT], ["p.html"]),
    Flow("view-terminal", ["view", "-m", BERT, TEXT, "--terminal"], [BERT]),
    Flow("view-output", ["view", "-m", "gpt", "the owl", "--view", "output", "--terminal"], ["gpt"]),
    Flow("view-svg", ["view", "-m", BERT, TEXT, "--view", "matrix", "-o", "p.svg"], [BERT], ["p.svg"]),
    png("view-png", ["view", "-m", BERT, TEXT + " \u05d0\u05d1 \u0628", "--view", "matrix"], [BERT]),
    png("explain-png", ["explain", "--norm", "--force"], [], old=["p.png"]),
    Flow("trace", ["trace", "-m", BERT, TEXT, "-o", "t.safetensors"], [BERT], ["t.safetensors"]),
    Flow("ablate", ["ablate", "-m", BERT, TEXT, "-o", "m.html"], [BERT], ["m.html"]),
    Flow("explain", ["explain", "-m", BERT, TEXT], [BERT]),
    Flow("check", ["check", BERT], [BERT]),
    Flow("info-model", ["info", BERT], [BERT], free=True),  # it says what it cannot read
    Flow("info-file", ["info", "in.safetensors"], ["in.safetensors"]),
    Flow("tokenize", ["tokenize", "-m", BERT, *ROWS], [BERT, "lines.txt"]),
    Flow("decode", ["tokenize", "-m", BERT, "--decode", "5,6,7,8"], [BERT]),
    Flow("train-tokenizer", ["train-tokenizer", "text.txt", "--vocab", "300", "-o", "tok.json"], ["text.txt"],
         ["tok.json"]),
    Flow("generate", ["generate", "-m", "gpt", "the owl", "-n", "6"], ["gpt"]),
    Flow("generate-lines", ["generate", "-m", "gpt", *ROWS, "-n", "4", "--json"], ["gpt", "lines.txt"]),
    Flow("translate", ["translate", "-m", "pairs", "the owl", "-n", "4"], ["pairs"]),
    Flow("classify", ["classify", "-m", "labels", "the owl"], ["labels"]),
    Flow("convert", ["convert", "gpt", "OUT", "--precision", "bf16"], ["gpt"], ["OUT"]),
    Flow("eval", ["eval", "run"], ["run"]),
    Flow("perplexity", ["eval", "gpt", "--perplexity", "lines.txt"], ["gpt", "lines.txt"]),
    Flow("plot", ["plot", "run"], ["run"], free=True),
    Flow("plot-svg", ["plot", "run", "-o", "c.svg"], ["run"], ["c.svg"], free=True),
    Flow("plot-html", ["plot", "run", "-o", "c.html"], ["run"], ["c.html"], free=True),
    Flow("compare", ["compare", "--kinds", "attention", "-n", "32", "-d", "16", "--json"], [], free=True),
    Flow("train", training("NEW"), ["text.txt"], ["NEW"], free=True),
    Flow("train-pairs", ["train", "pairs.tsv", "--out", "NEW", "--arch", "vaswani", "--tokenizer", "bytes", "--steps", "4",
                         *small()], ["pairs.tsv"], ["NEW"], free=True, kinds=["files"]),
    Flow("train-labels", ["train", "labels.tsv", "--out", "NEW", "--objective", "classify", "--steps", "4", *small()],
         ["labels.tsv"], ["NEW"], free=True, kinds=["files"]),
    Flow("why", ["similar", "-m", BERT, "abc", "bcd", "--why", "-o", "why.svg"], [BERT], ["why.svg"]),
    Flow("eval-file", ["eval", "run", "text.txt"], ["run", "text.txt"]),
    Flow("fill", ["fill", "-m", "masked", "the [MASK]"], ["masked"]),
    Flow("analogy", ["analogy", "-m", BERT, "a", "+", "b"], [BERT]),
    Flow("bench", ["bench", "attention", "-s", "N16,H1,E8", "--seconds", ".001", "--json"], [], free=True),
    Flow("verify", ["verify", "--quick", "--isa", "scalar", "--precision", "f32"], [], free=True, most=10),
    Flow("gradcheck", ["--quick", "--only", "layer/linear"], [], program="qkv-gradcheck"),
    Flow("pull", ["pull", "org/small"], [], ["cache"], env={"HF_HUB_CACHE": "cache"}, most=1000),
    Flow("pull-offline", ["pull", "org/small", "--json"], ["cache"], env={"HF_HUB_CACHE": "cache", "HF_HUB_OFFLINE": "1"}),
    Flow("serve", ["serve", "-m", BERT, "--port", "0", "--quiet"], [BERT], request=("/v1/embeddings", {"input": TEXT})),
    Flow("help", ["help", "attn"], []),
    Flow("help-all", ["help"], []),
    Flow("threads", ["embed", "-m", BERT, "--json", "--threads", "4", *ROWS], [BERT, "lines.txt"], kinds=["threads"]),
    Flow("threads-train", training("NEW", "--threads", "4"), ["text.txt"], ["NEW"], free=True, kinds=["threads"]),
]


def engine(qkv, name="sqlite"):
    """The files of an optional library of qkv."""
    return glob.glob(os.path.join(os.path.dirname(qkv), "..", f"libqkv_{name}.so.*"))


def possible(qkv, flows):
    """The flows whose optional libraries and programs are there."""
    here = os.path.dirname(qkv)
    return [f for f in flows if (f.args[0] not in ("index", "search") or engine(qkv))
            and ("--hnsw" not in f.args or engine(qkv, "hnsw"))
            and (f.args[0] != "pull" or engine(qkv, "curl"))
            and (not any(o.endswith(".png") for o in f.out) or engine(qkv, "png"))
            and (not f.program or os.access(os.path.join(here, f.program), os.X_OK))]


def prepare(qkv, folder):
    """Makes the inputs of all flows: texts, arrays and the models that qkv trains."""
    draw = random.Random(1)
    words = "the owl said to cat that sea was deep and blue but boat green they sailed away for a year".split()
    path = lambda name: os.path.join(folder, name)
    line = lambda n: " ".join(draw.choice(words) for _ in range(n))
    with open(path("text.txt"), "w") as f: f.writelines(line(9) + "\n" for _ in range(40))
    with open(path("pairs.tsv"), "w") as f: f.writelines(f"{line(3)}\t{line(3)}\n" for _ in range(30))
    with open(path("labels.tsv"), "w") as f: f.writelines(f"{line(4)}\t{draw.choice(['yes', 'no'])}\n" for _ in range(30))
    with open(path("lines.txt"), "w") as f: f.write("abc\nthe owl\n")
    with open(path("owls.jsonl"), "w") as f:
        f.write('{"id": 7, "text": "the owl", "year": 1871}\n{"text": "\\u0061 cat"}\n')
    os.mkdir(path("owls"))
    with open(path("owls/owl.txt"), "w") as f: f.write("The owl said. The cat slept.\n")
    numbers = struct.pack("<64f", *(draw.uniform(-1, 1) for _ in range(64)))
    names = ",".join(f'"{n}":{{"dtype":"F32","shape":[1,8,2,4],"data_offsets":[{256 * i},{256 * i + 256}]}}'
                     for i, n in enumerate("qkv"))
    header = f"{{{names}}}".encode()
    header += b" " * (-len(header) % 8)
    with open(path("in.safetensors"), "wb") as f: f.write(struct.pack("<Q", len(header)) + header + numbers * 3)
    shutil.copytree(os.path.join(os.path.dirname(__file__), "..", "golden", "bert"), path("bert"))
    run = lambda *args: subprocess.run([qkv, *args], cwd=folder, check=True, stdout=subprocess.DEVNULL)
    fonts = sorted({os.path.dirname(p) for p in glob.glob("/usr/share/fonts/**/*.[to]tf", recursive=True)}) or ["/none"]
    with open(path("fonts.conf"), "w") as f:
        f.write(f"<fontconfig><dir>{fonts[0]}</dir><cachedir>{path('fonts')}</cachedir></fontconfig>\n")
    run(*training("run"))
    run("train", "pairs.tsv", "--out", "runp", "--arch", "vaswani", "--tokenizer", "bytes", "--steps", "2", *small())
    run("train", "text.txt", "--out", "runm", "--arch", "bert", "--tokenizer", "characters", "--context", "32", "--steps", "2",
        *small())
    run("train", "labels.tsv", "--out", "runl", "--objective", "classify", "--steps", "2", *small())
    for shard in "0/2", "1/2": run("embed", "-m", BERT, "-o", "v.npy", "--shard", shard, *ROWS)
    graph = ["--hnsw"] if engine(qkv, "hnsw") else []
    if engine(qkv): run("index", "-m", BERT, "pairs.tsv", "-o", "old.qkvi", "--truncate", "--quiet", *graph)
    if engine(qkv, "png"):  # makes the cache of the fonts
        subprocess.run([qkv, "explain", "--norm", "-o", "fonts.png"], cwd=folder, check=True, stdout=subprocess.DEVNULL,
                       env={"FONTCONFIG_FILE": path("fonts.conf")})
    for run_, model in ("run", "gpt"), ("runp", "pairs"), ("runl", "labels"), ("runm", "masked"):
        shutil.copytree(os.path.join(path(run_), "model"), path(model))


def files_below(folder):
    """Returns {relative path: None of a folder, (bytes, time of change) of a file}."""
    found = {}
    for base, folders, files in os.walk(folder):
        for name in folders: found[os.path.relpath(os.path.join(base, name), folder)] = None
        for name in files:
            p = os.path.join(base, name)
            if os.path.islink(p):
                found[os.path.relpath(p, folder)] = (os.readlink(p).encode(), 0)
                continue
            with open(p, "rb") as f: found[os.path.relpath(p, folder)] = (f.read(), os.stat(p).st_mtime_ns)
    return found


def contents(found, out):
    return {p: v and v[0] for p, v in found.items() if p == out or p.startswith(out + os.sep)}


def copy_inputs(flow, inputs, work):
    for name in flow.inputs:
        p = os.path.join(inputs, name)
        to = os.path.join(work, name)
        if os.path.isdir(p): shutil.copytree(p, to, symlinks=name == "cache")
        else: shutil.copy2(p, to)


def write_old(flow, work):
    for name in flow.old:
        with open(os.path.join(work, name), "w") as f: f.write("old\n")


def start_hub(qkv, folder, flows):
    """Starts a model hub on loopback, which has org/small, and downloads it to the input `cache`; returns the process."""
    here = os.path.dirname(os.path.abspath(__file__))
    shutil.copytree(os.path.join(folder, "bert"), os.path.join(folder, "hub", "org", "small", "main"))
    port = os.path.join(folder, "port")
    hub = subprocess.Popen([sys.executable, "-S", "-E", os.path.join(here, "..", "cli", "hub_server.py"),
                            os.path.join(folder, "hub"), port])
    while not os.path.exists(port) and hub.poll() is None: time.sleep(.01)
    with open(port) as f: address = "http://127.0.0.1:" + f.read().split()[0]
    env = {"HF_ENDPOINT": address, "HF_HUB_CACHE": "cache", "HOME": folder}
    subprocess.run([qkv, "pull", "org/small", "--quiet"], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
    for flow in flows:
        if flow.args[0] == "pull": flow.env["HF_ENDPOINT"] = address
    return hub


def visit(process, out, request):
    """Sends a request to a server as soon as it prints its address, then ends it; returns the status and the answer."""
    path, body = request
    port, said = None, b""
    while not port:
        try: os.kill(process, 0)
        except ProcessLookupError: return b"no server"
        with open(out, "rb") as f: port = re.match(rb"listening on http://.*:(\d+)\n", f.read())
        time.sleep(.001)
    try:
        client = http.client.HTTPConnection("127.0.0.1", int(port[1]), timeout=5)
        client.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        answer = client.getresponse()
        said = b"%d %s" % (answer.status, answer.read())
        client.close()
    except (OSError, http.client.HTTPException) as e: said = f"no answer: {type(e).__name__}".encode()
    try: os.kill(process, signal.SIGTERM)
    except ProcessLookupError: pass
    return said


class Server:
    """The command of a flow, stopped before main: a run is a fork of it.  work: a folder of another server."""

    def __init__(self, flow, qkv, shim, inputs, args=None, old=None, work=None):
        self.flow, self.old = flow, old or (lambda work: write_old(flow, work))
        self.base = tempfile.mkdtemp(prefix="qkv-faults-")
        self.work = work or os.path.join(self.base, "work")
        self.inputs = inputs
        if not work:
            os.mkdir(self.work)
            self.fill()
        self.out, self.err = (os.path.join(self.base, n) for n in ("stdout", "stderr"))
        to_child, self.requests = os.pipe()
        self.answers, from_child = os.pipe()

        def place():
            os.dup2(to_child, 198), os.dup2(from_child, 199)

        threads = "4" if "--threads" in flow.args else "1"
        env = {"LD_PRELOAD": shim, "QKV_FAULTS_OUT": self.out, "QKV_FAULTS_ERR": self.err, "LC_ALL": "C",
               "HOME": self.base, "TMPDIR": os.path.join(self.work, "tmp"), "QKV_THREADS": threads, "PATH": "",
               **{k: v for k, v in os.environ.items() if k == "QKV_FAULTS_TRACE"},
               "QKV_FAULTS_RECORD": os.path.join(self.base, "record"), "QKV_FAULTS_CUT": flow.cut}
        env.update(flow.env)
        if "FONTCONFIG_FILE" in env: env["FONTCONFIG_FILE"] = os.path.join(inputs, "fonts.conf")
        program = os.path.join(os.path.dirname(qkv), flow.program) if flow.program else qkv
        self.process = subprocess.Popen([program, *(args or flow.args)], cwd=self.work, env=env, stdin=subprocess.DEVNULL,
                                        preexec_fn=place, close_fds=False)
        os.close(to_child), os.close(from_child)

    def fill(self):
        for name in os.listdir(self.work):
            p = os.path.join(self.work, name)
            shutil.rmtree(p) if os.path.isdir(p) else os.remove(p)
        os.mkdir(os.path.join(self.work, "tmp"))
        copy_inputs(self.flow, self.inputs, self.work)
        self.old(self.work)
        self.before = files_below(self.work)

    def take(self, size):
        data = b""
        while len(data) < size:
            part = os.read(self.answers, size - len(data))
            if not part: raise RuntimeError(f"{self.flow.name}: the server has ended")
            data += part
        return data

    def run(self, kind=None, n=0, ever=0, action=0, sent=0, record=0, output=0, file_size=0, read=True):
        """Returns (wait status or None after a hang, failed system call, counts and the number of blocks of memory that
        are held, stdout, stderr, files)."""
        number = KINDS.index(kind) if kind else len(KINDS)
        if self.flow.request: open(self.out, "w").close()  # visit() must not read the address of the run before
        os.write(self.requests, struct.pack("<iiqiiiiq", number, ever, n, action, sent, record, output, file_size))
        child = struct.unpack("<i", self.take(4))[0]
        hung = []

        def stop():
            hung.append(True)
            with contextlib.suppress(ProcessLookupError):  # it has just ended
                os.kill(child, signal.SIGKILL)

        timer = threading.Timer(10 * SECONDS if self.flow.name == "verify" else SECONDS, stop)
        timer.start()
        told = []
        visitor = threading.Thread(target=lambda: told.append(visit(child, self.out, self.flow.request)))
        if self.flow.request: visitor.start()
        status, failed, *counts = struct.unpack("<ii5q", self.take(48))
        timer.cancel()
        if self.flow.request: visitor.join()
        with open(self.out, "rb") as f: out = f.read() if not self.flow.request else told[0]
        with open(self.err, "rb") as f: err = f.read().decode(errors="replace")
        return None if hung else status, failed, counts, out, err, files_below(self.work) if read else None

    def close(self):
        os.close(self.requests)
        self.process.wait()
        os.close(self.answers)
        shutil.rmtree(self.base)


class Judge:
    def __init__(self, server):
        self.flow, self.server, self.holding = server.flow, server, 0
        status, _, self.counts, self.stdout, err, files = server.run()
        if status != 0: raise SystemExit(f"{self.flow.name}: status {status} without a fault: {err}")
        if self.counts[-1]: raise SystemExit(f"{self.flow.name}: holds {self.counts[-1]} blocks of memory without a fault")
        self.whole = {out: contents(files, out) for out in self.flow.out}
        self.names = {os.path.basename(p) for p in files} | set(self.flow.out) | {"standard output", "stdout", "tmp", "child process", "/dev/null", "qkv: .:", "libqkv_", "all-MiniLM-L6-v2"}
        server.fill()

    def same(self, found, out):
        """Whether an output is whole.  A run that could not save a checkpoint, which it says, has the last one."""
        whole = self.whole[out]
        if self.flow.args[0] == "train": return {p for p in whole if "checkpoint-00000004" in p} <= found.keys()
        if not self.flow.free: return found == whole
        # fonts and times differ from run to run, the end of a whole file does not
        return found.keys() == whole.keys() and all((found[p] or b"")[-7:] == (whole[p] or b"")[-7:] for p in whole)

    def partial(self, found, out):
        """Whether a download may have left this: files under their names are whole, and the next one continues."""
        if self.flow.args[0] == "train": return True
        return self.flow.args[0] == "pull" and all(p.endswith(".incomplete") or v == self.whole[out].get(p, 0)
                                                   for p, v in found.items())

    def agrees(self, out):
        """Whether a command that ended with 0 printed what it should; a server may refuse a request."""
        if self.flow.request: return out == self.stdout or not out.startswith(b"200 ")
        return self.flow.free or out == self.stdout

    def judge(self, kind, ever, result):
        """Yields the violations of a run."""
        status, failed, counts, out, err, files = result
        before = self.server.before
        if status is None:
            yield "hangs"
            return
        if os.WIFSIGNALED(status):
            yield f"ends by signal {os.WTERMSIG(status)}"
            return
        code = os.WEXITSTATUS(status)
        want = {"memory": 5, "threads": 0, "files": 6}[kind]
        if kind == "threads" and self.flow.request: want = 5  # a server cannot work without its threads
        codes = {0, want} | ({5} if NAMES.get(failed) == "mmap" else set())
        if kind == "files" and "cairo cannot paint the picture" in err: codes.add(5)  # it cannot read a font
        line = err.strip().split("\n")[-1]
        if code not in codes: yield f"exit {code}, expected {' or '.join(map(str, sorted(codes)))}: {line[:300]}"
        # The command ends at once if its own small allocations fail (cmd_alloc), qkv-gradcheck if any fails, and the loader
        # ends the process (KNOWN). The constructor of hnswlib's graph keeps its first block if its second cannot be allocated.
        at_once = r"out of memory, expected \d+ x \d+ bytes|^qkv-gradcheck: out of memory|not enough memory for a graph"
        if counts[-1] and (code == 127 or re.search(at_once, err, re.M)): self.holding += 1
        elif counts[-1]: yield f"holds {counts[-1]} blocks of memory at its end: {line[:100]}"
        if code == 0 and not self.agrees(out): yield "exit 0 with another standard output"
        if code and not (re.search(r"^qkv(-\w+)?: ", err, re.M) or '"status"' in err or b'"status"' in out):
            # a broken standard error cannot be told on standard error
            if not (kind == "files" and NAMES.get(failed) in ("write", "writev")): yield f"no message: {err[:200]!r}"
        elif code in (5, 6) and kind == "files" and not any(n in err or n.encode() in out for n in self.names):
            yield f"the message names no file: {line[:300]}"
        for o in self.flow.out:
            found = contents(files, o)
            if self.same(found, o): continue
            if code == 0: yield f"exit 0, but {o} is not whole"
            elif found and found != contents(before, o) and not self.partial(found, o):
                yield f"{o} is neither absent, old nor whole"
        inside = lambda p: any(p == o or p.startswith(o + os.sep) for o in self.flow.out)
        for p, v in files.items():
            # a run that cannot remove a file leaves it to the next one, as it does when it is killed
            if inside(p) and (self.flow.args[0] != "train" or ever or ".tmp" not in p): continue
            # a folder that no call can list or look at any more cannot be emptied
            if ever and kind == "files" and ".tmp." in p and NAMES[failed] in ("openat", "fstatat", "getdents"): continue
            general = re.sub("([.]tmp[.]|qkv-eval-).*", lambda m: m[1] + "*", p)
            if p not in before: yield f"leaves {general}"
            elif v != before[p]: yield f"changes {p}"
        for p in before:
            if p not in files and not inside(p): yield f"removes {p}"


def walk(flow, kind, a, inputs):
    """Returns (flow, kind, points, violations, known violations, runs that ended at once and held memory)."""
    server = Server(flow, a.qkv, a.shim, inputs)
    judge = Judge(server)
    count = judge.counts[KINDS.index(kind)]
    points = [(n, ever) for n in range(1, count + 1) for ever in (0, 1)]
    if a.point:
        wanted = a.point.split(":")
        points = [(int(wanted[1]), int(len(wanted) > 2))] if wanted[0] == kind else []
    elif kind != "threads":
        limited = flow.most and (kind == "memory" or flow.name == "verify")
        most = min(len(points), flow.most if limited else len(points))
        points = sorted(random.Random(f"{a.seed} {flow.name} {kind}").sample(points, round(a.share * most)))
    found = collections.defaultdict(list)
    for n, ever in points:
        result = server.run(kind, n, ever)
        for what in judge.judge(kind, ever, result):
            call = f"{NAMES.get(result[1], result[1])}: " if kind == "files" else ""
            found[call + what].append(f"{kind}:{n}{':ever' if ever else ''}")
        if a.point: print(result[3].decode(errors="replace"), result[4], result[0], result[1])
        if result[5] != server.before: server.fill()
    server.close()
    known = {w for w in found if any(re.search(f, flow.name) and re.search(text, w) for f, text in KNOWN)}
    return flow.name, kind, len(points), {w: at for w, at in found.items() if w not in known}, known, judge.holding


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("qkv", type=os.path.abspath)
    p.add_argument("shim", type=os.path.abspath)
    p.add_argument("--share", type=float, default=1)
    p.add_argument("--seed", default="")
    p.add_argument("--kinds", default=",".join(WALKED))
    p.add_argument("--flow", help="a regular expression of names of flows")
    p.add_argument("--point")
    a = p.parse_args()
    begin = time.monotonic()
    points, bad, holding = dict.fromkeys(WALKED, 0), 0, 0
    with tempfile.TemporaryDirectory(prefix="qkv-faults-") as inputs:
        prepare(a.qkv, inputs)
        flows = [f for f in possible(a.qkv, FLOWS) if not a.flow or re.fullmatch(a.flow, f.name)]
        tasks = [(f, k) for f in flows for k in f.kinds if k in a.kinds.split(",")]
        hub = start_hub(a.qkv, inputs, flows) if any(f.args[0] == "pull" for f in flows) else None
        with concurrent.futures.ThreadPoolExecutor(int(os.environ.get("JOBS", os.cpu_count()))) as pool:
            for done in concurrent.futures.as_completed(pool.submit(walk, f, k, a, inputs) for f, k in tasks):
                flow, kind, n, found, known, held = done.result()
                holding += held
                points[kind] += n
                count = sum(map(len, found.values()))
                bad += count
                print(f"{flow:16} {kind:8} {n:6} points, {count} violations, {len(known)} known", flush=True)
                for what, at in found.items(): print(f"  {at[0]} and {len(at) - 1} more: {what}", flush=True)
        if hub: hub.kill()
    print(", ".join(f"{points[k]} points of {k}" for k in WALKED),
          f"; {bad} violations ({time.monotonic() - begin:.0f} s)", sep="")
    idle = not a.flow and not all(points[k] for k in a.kinds.split(","))
    idle |= not a.flow and "memory" in a.kinds and not holding
    if idle: print("a kind without points, or no blocks of memory: the preloaded library does not work")
    return 1 if bad or idle else 0


if __name__ == "__main__":
    sys.exit(main())
