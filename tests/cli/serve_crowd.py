# SPDX-License-Identifier: MIT
"""serve_crowd.py: one address cannot keep others out of `qkv serve`: queue, places of the scheduler, memory, connections.

    serve_crowd.py MODEL VERSE CHAT RANKS   CHAT: a copy of VERSE with a template that joins all messages; RANKS: a model with one label
"""
import http.client
import json
import resource
import socket
import sys
import time

from serve_client import ENDLESS, Server, check, finish, jobs, read_all, statuses, wait_jobs

MODEL, VERSE, CHAT, RANKS = sys.argv[1:]
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def head(path, length):
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (path, length)


def request(path, body):
    data = json.dumps(body).encode()
    return head(path, len(data)) + data


def other(server, method, path, body=None):
    """Makes a request from another address; returns the status and the body."""
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60, source_address=("127.0.0.2", 0))
    c.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    data = r.read()
    c.close()
    return r.status, data


def full():
    """Above the share of one address, three quarters of the limit, its requests get the status 429."""
    with Server("--max-concurrent-requests", "4", "-q", models=[VERSE]) as server:
        held = [server.connect() for _ in range(3)]
        for s in held:
            s.sendall(request(b"/v1/completions", ENDLESS))
        check("three requests hold the places of one address", wait_jobs(server, 3) == 3)
        status, fields, _ = server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": 2})
        check("429 with Retry-After", status == 429 and fields.get("retry-after") == "1", status)
        for s in held:
            s.close()


def queue():
    """Clients that leave free their places in the queue at once; one large request does not delay the others."""
    small = {"prompt": "a", "max_tokens": 2}
    with Server("--max-concurrent-requests", "8", "-q", models=[VERSE]) as server:
        first = server.connect()
        first.sendall(request(b"/v1/completions", ENDLESS))
        check("a large request runs", wait_jobs(server, 1) == 1)
        left = [server.connect() for _ in range(5)]
        for s in left:
            s.sendall(request(b"/v1/completions", {**small, "max_tokens": 1000}))
        wait_jobs(server, 6)
        for s in left:
            s.close()
        check("the jobs of clients that left are removed", wait_jobs(server, 1, 8) == 1, jobs(server))
        status, data = other(server, "POST", "/v1/completions", small)
        check("another address is answered while the large request runs", status == 200 and wait_jobs(server, 1) == 1, (status, data))
        first.sendall(b"G")  # a byte of a further request hides the end of the connection from recv()
        time.sleep(0.2)
        first.close()
        check("a client that left with unread bytes is noticed", wait_jobs(server, 0) == 0, jobs(server))


def batches():
    """A short request is answered before a large one that runs: it waits for a batch, not for the whole."""
    with Server("--threads", "1", "--max-client-batch-size", "4096", "-q", models=[f"bert={MODEL}", f"ranks={RANKS}"]) as server:
        found = json.loads(server.ask("GET", "/info")[2])["max_batch_tokens"]
        check("a batch has 512 tokens per thread", found == 512, found)
        for path, large, small in (("/embed", {"inputs": ["a b c d e f g h"] * 1600}, {"inputs": "a b"}),
                                   ("/rerank", {"query": "w a t", "texts": ["a b c d e f g h"] * 1000, "model": "ranks"},
                                    {"query": "w a t", "texts": ["a b"], "model": "ranks"})):
            before = 0
            for _ in range(8):
                with server.connect(120) as s:
                    s.sendall(request(path.encode(), large))
                    wait_jobs(server, 1)
                    status, _ = server.post(path, small)
                    s.setblocking(False)
                    try:
                        before += status == 200 and not s.recv(1, socket.MSG_PEEK)
                    except BlockingIOError:  # no byte of the large answer has come
                        before += status == 200
                    s.setblocking(True)
                    s.settimeout(120)
                    data = b""
                    while b"\r\n\r\n" not in data:
                        data += s.recv(65536)
                    check(f"{path}: the large request is answered", statuses(data) == [200], data[:100])
                if before:
                    break
            check(f"{path}: a short request does not wait for a large one", before)


def outputs():
    """Outputs that begin one by one have the text of those that begin together."""
    body = {"prompt": "In the beginning", "max_tokens": 6, "seed": 7, "ignore_eos": True}
    with Server("-q", models=[VERSE]) as server:
        _, many = server.post("/v1/completions", {**body, "n": 24})
        _, few = server.post("/v1/completions", {**body, "n": 3})
        texts = [x["text"] for x in many["choices"]]
        check("n outputs", [x["index"] for x in many["choices"]] == list(range(24)) and len(set(texts)) > 1, texts)
        check("the first outputs are the same", texts[:3] == [x["text"] for x in few["choices"]], texts)
        check("the usage", many["usage"]["completion_tokens"] == 24 * 6 and
              many["usage"]["prompt_tokens"] == few["usage"]["prompt_tokens"], many["usage"])
        status, answer = server.post("/v1/completions", {**body, "logit_bias": [5]})
        check("logit_bias is an object", status == 400 and answer["error"]["param"] == "$.logit_bias", answer)
        status, answer = server.post("/v1/attention", {"input": [5] * 256, "rows": list(range(256)), "received": True, "top_k": 256, "distance": True,
                                                       "reach": 4096, "tiles": 256})
        check("an answer of too many values", status == 413 and "values, expected at most" in answer["error"]["message"], answer)


def chat():
    """Templates are rendered outside of the thread of the sockets, with bounded memory."""
    with Server("-q", models=[CHAT]) as server:
        s = server.connect()
        s.sendall(request(b"/v1/chat/completions", {"messages": [{"role": "system", "content": ""}] * 100000}))
        began = time.monotonic()
        status, _ = other(server, "GET", "/health")
        check("health is answered", status == 200 and time.monotonic() - began < 15, time.monotonic() - began)
        s.close()
        status, answer = server.post("/v1/chat/completions", {"messages": [{"role": "system", "content": ""}] * 5000})
        check("too many messages", status == 400 and answer["error"]["param"] == "$.messages" and
              "at most 4096 messages, found 5000" in answer["error"]["message"], answer)
        status, answer = server.post("/v1/chat/completions", {"messages": [{"role": "system", "content": "x" * 800}] * 4000})
        check("too much memory", status == 422 and "more than 64 MB" in answer["error"]["message"], answer)
        check("the memory is bounded", server.status_kb("VmHWM") < 400 << 10, server.status_kb("VmHWM"))


def bodies():
    """Unfinished bodies of one address do not block the bodies of others."""
    with Server("-q", models=[MODEL]) as server:
        held = [server.connect() for _ in range(17)]
        for s in held:
            s.sendall(head(b"/embed", 4 << 20) + b" " * (3 << 20))
        held[-1].settimeout(60)  # the answer is immediate, on a busy machine after the other 48 MB
        check("the 17th large body of an address is refused", statuses(held[-1].recv(1000)) == [503])
        status, data = other(server, "POST", "/embed", {"inputs": "hello"})
        check("another address is served", status == 200, data)
        for s in held:
            s.close()


def connections():
    """An address above its share closes only connections of its own; refused connections hold nothing."""
    with Server("--max-concurrent-requests", "4", "-q", models=[MODEL]) as server:  # 8 connections, 6 of one address
        idle = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30, source_address=("127.0.0.2", 0))
        idle.request("GET", "/health")
        idle.getresponse().read()
        own = idle.sock
        held = [server.connect() for _ in range(6)]
        for s in held:
            s.sendall(GET[:-2])
        time.sleep(0.2)
        refused = [server.connect() for _ in range(80)]
        check("connections above the share are refused", all(statuses(read_all(s)) == [503] for s in refused[:5]))
        idle.request("GET", "/health")
        check("an idle connection of another address stays", idle.getresponse().read() and idle.sock is own)
        check("another address is accepted", other(server, "GET", "/health")[0] == 200)
        for s in held + refused:
            s.close()
        began = time.monotonic()
        check("an idle connection does not delay the end", server.stop() == 0 and time.monotonic() - began < 10)


def descriptors():
    """Without a free descriptor the server waits and does not spin."""
    with Server("-q", models=[MODEL], preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))) as server:
        held = [server.connect() for _ in range(40)]
        for s in held:
            s.sendall(GET[:-2])
        time.sleep(0.3)
        before = server.cpu_seconds()
        time.sleep(1)
        check("no spinning", server.cpu_seconds() - before < 0.2, server.cpu_seconds() - before)
        for s in held:
            s.close()
        check("the server continues", other(server, "GET", "/health")[0] == 200)


for part in (full, queue, batches, outputs, chat, bodies, connections, descriptors):
    part()
finish()
