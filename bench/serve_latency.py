# SPDX-License-Identifier: MIT
"""serve_latency.py: how long a short request to `qkv serve` waits while others generate long texts or embed many.

    serve_latency.py COMMAND EMBEDDER DECODER     folders of models; DECODER has 2,048 positions or more

Prints, for each load, the median and the largest time of three kinds of short requests, each on a new connection.
"""
import http.client
import json
import re
import subprocess
import sys
import threading
import time

COMMAND, EMBEDDER, DECODER = sys.argv[1:]
REQUESTS = 25
LONG = {"prompt": "The server", "max_tokens": 2000, "ignore_eos": True, "temperature": 0, "model": "decoder", "stream": True}
MANY = ["a short request waits for at most sixteen steps of the model " * 3] * 32
SHORT = {"embedding, embedder": ("/v1/embeddings", {"input": "how is the cache cleared?", "model": "embedder"}),
         "embedding, decoder": ("/v1/embeddings", {"input": "how is the cache cleared?", "model": "decoder"}),
         "completion of 1 token": ("/v1/completions", {"prompt": "The server runs until", "max_tokens": 1, "model": "decoder"})}


def ask(port, path, body, connection=None):
    c = connection or http.client.HTTPConnection("127.0.0.1", port, timeout=600)
    c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    data = r.read()
    if r.status != 200:
        sys.exit(f"{path}: {r.status} {data.decode()[:200]}")


class Load:
    """Clients that ask without end until the block ends."""

    def __init__(self, port, generations, embeds, model):
        self.port, self.model, self.ends, self.streams = port, model, False, []
        for _ in range(generations):
            c = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
            c.request("POST", "/v1/completions", json.dumps(LONG), {"Content-Type": "application/json"})
            r = c.getresponse()
            r.read(10)
            self.streams.append((c, r))
        self.threads = [threading.Thread(target=self.embed) for _ in range(embeds)]

    def embed(self):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        while not self.ends:
            ask(self.port, "/v1/embeddings", {"input": MANY, "model": self.model}, c)

    def __enter__(self):
        for t in self.threads:
            t.start()
        time.sleep(.5)

    def __exit__(self, *_):
        self.ends = True
        for t in self.threads:
            t.join()
        for c, r in self.streams:
            r.close()
            c.close()
        time.sleep(.5)


def main():
    server = subprocess.Popen([COMMAND, "serve", "-q", "--port", "0", "-m", f"embedder={EMBEDDER}", "-m", f"decoder={DECODER}"],
                              stdout=subprocess.PIPE, text=True)
    port = int(re.search(r":(\d+)\n", server.stdout.readline())[1])
    try:
        for name, load in (("nothing else", (0, 0, "")), ("a generation of 2,000 tokens", (1, 0, "")),
                           ("16 of these", (16, 0, "")),
                           ("a generation; 4 clients embed 32 texts each, embedder", (1, 4, "embedder")),
                           ("a generation; 4 clients embed 32 texts each, decoder", (1, 4, "decoder"))):
            with Load(port, *load):
                for kind, (path, body) in SHORT.items():
                    if load[0] > 15 and kind.startswith("completion"):
                        continue  # all slots are taken: it waits for the end of a generation
                    times = []
                    for _ in range(REQUESTS):
                        began = time.monotonic()
                        ask(port, path, body)
                        times.append((time.monotonic() - began) * 1e3)
                        time.sleep(.01)
                    times.sort()
                    print(f"{name:54} {kind:24} {times[len(times) // 2]:7.1f} ms, at most {times[-1]:7.1f} ms", flush=True)
    finally:
        server.terminate()
        server.wait()


main()
