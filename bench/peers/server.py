# SPDX-License-Identifier: MIT
"""server.py: measures servers of vectors: 32 clients that each send one sentence, wait for its vector and send the next.

`qkv serve` is compared with minimal servers around other programs.  These collect the requests that wait, at most 32, and
compute them as one batch, as the servers that people install do.  Servers have the cores of the comparison; the clients
have another core if there is one.  Two programs need Python environments of their own:

    QKV_FASTEMBED_VENV=DIR            with fastembed, in the minimal server, on the model of ONNX Runtime
    QKV_INFINITY_VENV=DIR             with infinity-emb[torch,server], in its own server

    server.py                         the comparison
    server.py --serve PROGRAM         a minimal server on a free port, which it prints
"""
import http.client
import json
import os
import queue
import shutil
import socket
import socketserver
import statistics
import subprocess
import sys
import threading
import time

import numpy as np

from common import COMMAND, MODEL, QUICK, THREADS, WORK, note, result, sentences

CLIENTS = 32
MOST = 32  # texts of a batch
PROGRAMS = ("sentence-transformers", "ONNX Runtime f32 optimised")


def onnx_model():
    import embed
    path = os.path.join(WORK, "minilm.onnx")
    if not os.path.exists(path):
        embed.export(path)
    return embed.optimised(path)


def fastembed_folder():
    """Makes the folder that fastembed reads: the optimised model of ONNX Runtime, with its names of the inputs, and the tokenizer."""
    import onnx
    folder, model = os.path.join(WORK, "fastembed"), onnx.load(onnx_model())
    names = {"ids": "input_ids", "mask": "attention_mask"}
    for x in model.graph.input:
        x.name = names[x.name]
    for node in model.graph.node:
        node.input[:] = [names.get(x, x) for x in node.input]
    os.makedirs(folder, exist_ok=True)
    onnx.save(model, os.path.join(folder, "model.onnx"))
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"):
        shutil.copy(os.path.join(MODEL, name), folder)
    return os.path.abspath(folder)


def with_fastembed(folder):
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType
    TextEmbedding.add_custom_model("minilm", pooling=PoolingType.MEAN, normalization=True, sources=ModelSource(hf="local/minilm"),
                                   dim=384, model_file="model.onnx")
    model = TextEmbedding("minilm", specific_model_path=folder, threads=THREADS)
    return lambda texts: list(model.embed(texts, batch_size=MOST))


def encoder(program):
    """Returns a function from texts to vectors."""
    if program.startswith("fastembed "):
        return with_fastembed(program.split(" ", 1)[1])
    import torch
    torch.set_num_threads(THREADS)
    if program == "sentence-transformers":
        from sentence_transformers import SentenceTransformer
        model = SentenceTransformer(MODEL, device="cpu")
        return lambda texts: model.encode(texts, batch_size=MOST, show_progress_bar=False)
    from tokenizers import Tokenizer

    import embed
    tokenizer, run = Tokenizer.from_file(os.path.join(MODEL, "tokenizer.json")), embed.with_onnxruntime(onnx_model())
    tokenizer.enable_padding()
    tokenizer.enable_truncation(256)

    def encode(texts):
        found = tokenizer.encode_batch(texts)
        return run(np.array([e.ids for e in found]), np.array([e.attention_mask for e in found]))
    return encode


class Answer(socketserver.StreamRequestHandler):
    """Reads requests of one connection, and answers each with one write."""

    def setup(self):
        super().setup()
        self.vector = queue.SimpleQueue()

    def handle(self):
        while self.rfile.readline().startswith(b"POST"):
            size = 0
            while (line := self.rfile.readline()) not in (b"\r\n", b""):
                if line.lower().startswith(b"content-length:"):
                    size = int(line[15:])
            self.server.waiting.put((json.loads(self.rfile.read(size))["input"], self.vector))
            body = json.dumps({"data": [{"index": 0, "embedding": self.vector.get().tolist()}]}).encode()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


class Minimal(socketserver.ThreadingTCPServer):
    daemon_threads, request_queue_size = True, 128

    def __init__(self, encode):
        super().__init__(("127.0.0.1", 0), Answer)
        self.waiting, self.encode = queue.SimpleQueue(), encode
        threading.Thread(target=self.compute, daemon=True).start()

    def compute(self):
        while True:
            batch = [self.waiting.get()]
            while len(batch) < MOST and not self.waiting.empty():
                batch.append(self.waiting.get())
            for (_, answer), vector in zip(batch, self.encode([text for text, _ in batch])):
                answer.put(vector)


def serve(program):
    encode = encoder(program)
    encode(["one", "two words"])
    server = Minimal(encode)
    print(f"listening on http://127.0.0.1:{server.server_address[1]}", flush=True)
    server.serve_forever()


class Started:
    """A server as a process of its own.  It prints its address, or has the given port when it answers."""

    def __init__(self, command, port=None):
        self.port, self.latency = port, []  # latency: per round the median and the 99th of 100
        out = subprocess.DEVNULL if port else subprocess.PIPE
        self.process = subprocess.Popen(command, stdout=out, stderr=out if port else None, text=True, cwd=os.path.dirname(__file__) or ".")
        if port:
            self.wait()
            return
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise RuntimeError(f"it did not start: {line}")
        self.port = int(line.rsplit(":", 1)[1])

    def wait(self):
        """Waits until the server accepts connections."""
        end = time.monotonic() + 300
        while self.process.poll() is None and time.monotonic() < end:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(.2)
        self.process.kill()
        raise RuntimeError(f"it did not start (exit {self.process.wait()})")

    def one(self, texts, vectors, took):
        """A client: sends its texts one after another."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        for i in texts:
            begin = time.perf_counter()
            connection.request("POST", "/v1/embeddings", json.dumps({"input": self.texts[i], "model": "minilm"}),
                               {"Content-Type": "application/json"})
            answer = connection.getresponse()
            data = answer.read()
            took.append(time.perf_counter() - begin)
            if answer.status != 200:
                raise RuntimeError(data[:200])
            vectors[i] = data
        connection.close()

    def load(self, texts):
        """Runs all clients; returns the seconds of the whole and the vectors."""
        self.texts, vectors, took = texts, [None] * len(texts), []
        clients = [threading.Thread(target=self.one, args=(range(n, len(texts), CLIENTS), vectors, took)) for n in range(CLIENTS)]
        begin = time.perf_counter()
        for c in clients:
            c.start()
        for c in clients:
            c.join()
        seconds = time.perf_counter() - begin
        if None in vectors:
            raise RuntimeError("a client failed")
        took.sort()
        self.latency.append((statistics.median(took), took[len(took) * 99 // 100]))
        return seconds, np.array([json.loads(v)["data"][0]["embedding"] for v in vectors], np.float32)


def main():
    texts = sentences(96 if QUICK else 256)
    commands = {"qkv": [COMMAND, "serve", "-q", "--port", "0", "--threads", str(THREADS), "-m", "minilm=" + os.path.abspath(MODEL)]}
    commands |= {p: [sys.executable, os.path.abspath(__file__), "--serve", p] for p in PROGRAMS}
    ports = {}
    if venv := os.environ.get("QKV_FASTEMBED_VENV"):
        commands["fastembed"] = [os.path.join(venv, "bin/python"), os.path.abspath(__file__), "--serve", "fastembed " + fastembed_folder()]
    if venv := os.environ.get("QKV_INFINITY_VENV"):
        with socket.create_server(("127.0.0.1", 0)) as s:
            ports["infinity"] = s.getsockname()[1]
        commands["infinity"] = [os.path.join(venv, "bin/infinity_emb"), "v2", "--model-id", os.path.abspath(MODEL), "--served-model-name",
                                "minilm", "--device", "cpu", "--engine", "torch", "--no-bettertransformer", "--dtype", "float32",
                                "--no-model-warmup", "--batch-size", str(MOST), "--host", "127.0.0.1", "--url-prefix", "/v1",
                                "--port", str(ports["infinity"])]
    servers = {}
    for name, command in commands.items():
        try:
            servers[name] = Started(command, ports.get(name))
        except RuntimeError as e:
            note(f"  {name} is not measured: {e}")
    mine = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, set(range(os.cpu_count())) - mine or mine)
    except OSError as e:
        note(f"  clients share the core of the servers: {e}")
    seconds, error, bulk = {name: [] for name in servers}, {}, []
    try:
        first = {name: s.load(texts)[1] for name, s in servers.items()}
        for name, v in first.items():
            error[name] = 1 - float((v * first["qkv"]).sum(1).min())
            if error[name] > 1e-4:
                raise SystemExit(f"vectors of {name} and qkv differ: 1 - cosine is {error[name]}")
        for s in servers.values():
            s.latency.clear()
        path = os.path.join(WORK, "sentences.txt")
        with open(path, "w", encoding="utf-8") as f:
            f.write("".join(t + "\n" for t in texts))
        for _ in range(3 if QUICK else 5):
            for name, s in servers.items():
                seconds[name].append(s.load(texts)[0])
            bulk.append(in_bulk(path, mine))
    finally:
        for s in servers.values():
            s.process.terminate()
    section, what = "server, MiniLM f32", f"{CLIENTS} clients, one sentence a request"
    result(section, what, "requests/s", {name: [len(texts) / x for x in s] for name, s in seconds.items()} |
           {"qkv embed -f": [len(texts) / x for x in bulk]}, "qkv embed -f", error=error)
    for i, which in enumerate(("median", "99th of 100")):
        result(section, f"{what}: latency, {which}", "ms", {name: [1e3 * x[i] for x in s.latency] for name, s in servers.items()}, None)


def in_bulk(path, cores):
    """Returns the seconds of `qkv embed -f`, without the seconds of its start."""
    took = []
    for given in (["-f", path], ["one"]):
        begin = time.perf_counter()
        subprocess.run([COMMAND, "embed", "-q", "--threads", str(THREADS), "-m", MODEL, "--force", "-o", os.path.join(WORK, "v.npy"), *given],
                       check=True, preexec_fn=lambda: os.sched_setaffinity(0, cores))
        took.append(time.perf_counter() - begin)
    return took[0] - took[1]


if __name__ == "__main__":
    serve(sys.argv[2]) if sys.argv[1:2] == ["--serve"] else main()
