# SPDX-License-Identifier: MIT
"""serve_load.py BERT VERSE LABELS [SECONDS]: clients of every kind at once on `qkv serve`, until SIGTERM.

Embeddings, completions with and without a stream, attention as JSON and as a page, labels, tokens, errors, and clients
that leave while their request waits or runs.  Each answer has the bits that the command prints.  Then SIGTERM comes while
all of them ask: the server ends with 0 and has written no line that is not of its log, such as the report of a sanitizer.
"""
import http.client
import json
import random
import socket
import struct
import subprocess
import sys
import threading
import time

from serve_client import BIN, Server, check, finish, read_all, wait_jobs

BERT, VERSE, LABELS = sys.argv[1:4]
SECONDS = float(sys.argv[4]) if len(sys.argv) > 4 else 0
CLIENTS, ROUNDS = 9, 8
TEXTS = ["hello", "a b", "the king said unto him", "light and water", "a a a a b"]
PROMPTS = {"In the beginning": (6, 0), "And the king said": (9, 7)}  # tokens, seed (0: greedy)


def command(*args):
    lines = subprocess.run([BIN, *args, "--json"], capture_output=True, check=True).stdout.decode().splitlines()
    return [json.loads(line) for line in lines]


def bits(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


class Load:
    """The answers that are expected, and what the clients found."""

    def __init__(self, server):
        with open("texts", "w", encoding="utf-8") as f:
            f.write("\n".join(TEXTS) + "\n")
        self.server = server
        self.vectors = {t: bits(x["vector"]) for t, x in zip(TEXTS, command("embed", "-m", BERT, "-f", "texts"))}
        self.labels = {t: {x["label"]: x["probability"] for x in found["labels"]}
                       for t, found in zip(TEXTS, command("classify", "-m", LABELS, "-f", "texts"))}
        self.ids = {t: x["ids"] for t, x in zip(TEXTS, command("tokenize", "-m", BERT, "-f", "texts"))}
        self.outputs = {}
        self.read = {p: [t["logprob"] for t in command("generate", p, "-m", VERSE, "-n", "0", "--echo", "--logprobs", "1")[0]["prompt_logprobs"]]
                     for p in PROMPTS}  # log-probabilities of their tokens
        for prompt, (tokens, seed) in PROMPTS.items():
            how = ["--temperature", "0.9", "--seed", str(seed)] if seed else ["-t", "0"]
            self.outputs[prompt] = command("generate", prompt, "-m", VERSE, "-n", str(tokens), *how)[-1]["text"]
        self.probes = {t: self.attention(t) for t in TEXTS}  # without load
        self.wrong, self.done, self.stopping = [], {}, False

    def attention(self, text):
        return self.server.post("/v1/attention", {"input": text, "model": "bert", "received": True})[1]["layers"]

    # each of the following makes a request and returns whether the answer is right
    def embed(self, r):
        chosen = r.sample(TEXTS, r.randint(1, 4))
        status, answer = self.server.post("/v1/embeddings", {"input": chosen, "model": "bert"})
        return status == 200 and [bits(x["embedding"]) for x in answer["data"]] == [self.vectors[t] for t in chosen]

    def completion(self, r, stream=False):
        prompt = r.choice(list(PROMPTS))
        tokens, seed = PROMPTS[prompt]
        status, _, data = self.server.ask("POST", "/v1/completions", {
            "prompt": prompt, "max_tokens": tokens, "temperature": .9 if seed else 0, "seed": seed, "model": "verse", "stream": stream})
        if not stream:
            return status == 200 and json.loads(data)["choices"][0]["text"] == self.outputs[prompt]
        events = [e[6:] for e in data.decode().split("\n\n") if e]
        return (status == 200 and events[-1] == "[DONE]" and
                "".join(json.loads(e)["choices"][0]["text"] for e in events[:-1]) == self.outputs[prompt])

    def stream(self, r):
        return self.completion(r, True)

    def echo(self, r):
        prompt = r.choice(list(PROMPTS))
        status, answer = self.server.post("/v1/completions", {"prompt": prompt, "max_tokens": r.randint(0, 2), "echo": True, "logprobs": 1, "model": "verse"})
        want = self.read[prompt]
        return status == 200 and answer["choices"][0]["logprobs"]["token_logprobs"][:len(want)] == want

    def probe(self, r):
        text = r.choice(TEXTS)
        return self.attention(text) == self.probes[text]

    def page(self, r):
        status, _, data = self.server.ask("POST", "/v1/attention", {"input": r.choice(TEXTS), "model": "bert", "live": True,
                                                                    "ablate": ["L0.H0"]}, {"Accept": "text/html"})
        return status == 200 and data.startswith(b"<!doctype html>")

    def predict(self, r):
        chosen = r.sample(TEXTS, 2)
        status, answer = self.server.post("/predict", {"inputs": [[t] for t in chosen], "model": "labels"})
        return status == 200 and [{x["label"]: x["score"] for x in a} for a in answer] == [self.labels[t] for t in chosen]

    def tokens(self, r):
        text = r.choice(TEXTS)
        status, answer = self.server.post("/tokenize", {"inputs": text, "model": "bert"})
        return status == 200 and [x["id"] for x in answer[0]] == self.ids[text]

    def look(self, r):
        path = r.choice(["/health", "/metrics", "/info", "/v1/models", "/"])
        status = self.server.ask("GET", path)[0]
        return status == 200 and self.server.post("/v1/embeddings", {"input": 5})[0] == 400

    def leave(self, r):
        body = json.dumps(r.choice(({"prompt": "a", "max_tokens": 200, "n": 4, "ignore_eos": True, "stream": True, "model": "verse"},
                                    {"prompt": "a", "max_tokens": 200, "ignore_eos": True, "model": "verse"}))).encode()
        with self.server.connect() as s:
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                      b"%d\r\n\r\n" % len(body) + body[:r.randint(1, len(body))] + (body if r.random() < .1 else b""))
            if r.random() < .5:
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            time.sleep(r.random() * .05)
        with self.server.connect() as s:
            s.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
                      b"%d\r\n\r\n" % len(body) + body)
            time.sleep(r.random() * .2)
            if r.random() < .5:
                s.shutdown(socket.SHUT_WR)
                read_all(s)
        return True

    def client(self, number):
        kinds = (self.embed, self.completion, self.stream, self.echo, self.probe, self.page, self.predict, self.tokens, self.look, self.leave)
        r, end, rounds = random.Random(number), time.monotonic() + SECONDS, 0
        while not self.stopping and (time.monotonic() < end if SECONDS else rounds < ROUNDS):
            kind = kinds[(number + rounds) % len(kinds)]
            rounds += 1
            self.ask(kind, r)
        while not self.stopping:  # until SIGTERM
            self.ask(r.choice(kinds), r)

    def ask(self, kind, r):
        try:
            good = kind(r)
        except (OSError, http.client.HTTPException, ValueError):
            good = self.stopping  # the server has ended
        self.done[kind.__name__] = self.done.get(kind.__name__, 0) + 1
        if not good and not self.stopping:
            self.wrong.append(kind.__name__)


def main():
    server = Server("--max-sequences", "3", models=[f"bert={BERT}", f"verse={VERSE}", f"labels={LABELS}"])
    load = Load(server)
    threads = [threading.Thread(target=load.client, args=(i,), daemon=True) for i in range(CLIENTS)]
    for t in threads:
        t.start()
    began = time.monotonic()
    while sum(load.done.values()) < CLIENTS * ROUNDS or time.monotonic() - began < SECONDS:
        time.sleep(.05)
        if server.process.poll() is not None:
            break
    check("the server runs", server.process.poll() is None)
    if server.process.poll() is not None:  # its log has the report of a sanitizer
        load.stopping = True
        server.stop()
        with open(server.log.name, encoding="utf-8", errors="replace") as f:
            print("".join(line for line in f if not line.startswith('{"'))[:8000], flush=True)
        finish()
    check("all kinds of requests", len(load.done) == 10, load.done)
    held = server.connect()  # a request that runs when SIGTERM comes
    body = json.dumps({"prompt": "a", "max_tokens": 20, "ignore_eos": True, "model": "verse"}).encode()
    held.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
                 % len(body) + body)
    wait_jobs(server, -1, .3)
    load.stopping = True
    code = server.stop()
    answer = read_all(held)
    held.close()
    for t in threads:
        t.join()
    check("every answer is right", not load.wrong, load.wrong[:9])
    check("SIGTERM finishes the request that runs", code == 0 and b'"completion_tokens":20' in answer, (code, answer[-200:]))
    with open(server.log.name, encoding="utf-8") as f:
        strange = [line for line in f if not line.startswith('{"')]
    check("the log has no other line", not strange, "".join(strange[:40]))
    print(f"{sum(load.done.values())} requests in {time.monotonic() - began:.1f} s")
    finish()


main()
