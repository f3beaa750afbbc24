# SPDX-License-Identifier: MIT
"""serve_limits.py: `qkv serve` bounds the memory of answers and of values, shares a model between connections, answers
errors as errors, and never waits for a reader of its log.

    serve_limits.py MODEL VERSE CHAT RANKS ODD     CHAT: VERSE with a template that joins the messages; RANKS: a model with one
                                                   label; ODD: a copy of a model with labels, whose weights are changed here
"""
import http.client
import json
import os
import re
import select
import struct
import sys
import threading
import time

from serve_client import ENDLESS, Server, check, finish, wait_jobs

MODEL, VERSE, CHAT, RANKS, ODD = sys.argv[1:]
MIB = 1 << 20
SLOW = os.environ.get("QKV_SLOW", "OFF") not in ("", "OFF")  # a sanitizer: fewer requests that compute


def request(path, body):
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return (b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" %
            (path.encode(), len(data)) + data)


def metric(server, name):
    return int(re.search(rf"^qkv_{name} (\d+)$", server.ask("GET", "/metrics")[2].decode(), re.M)[1])


def bounded(server, most):
    """Checks the peak of the memory in MiB; a sanitizer keeps what was freed."""
    peak = server.status_kb("VmHWM")
    check("the memory is bounded", peak < most << 10 or SLOW, peak)


def other(server, path, body):
    """Makes a request from another address; returns the status."""
    c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60, source_address=("127.0.0.2", 0))
    c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    status = c.getresponse().status
    c.close()
    return status


def refused(server, path, body, want, param):
    status, answer = server.post(path, body)
    check(f"{want} for {param}", status == want and answer["error"]["param"] == param, (status, answer))


# An answer of 200,000 tokens, about 11 MB; the buffers of a socket take a few of them.
LARGE = {"inputs": "a b " * 100000}


def unread():
    """Answers that are not read take at most 64 MiB of one address: the slowest connections end."""
    with Server("-q", models=[VERSE]) as server:
        bytes_of_one = len(server.ask("POST", "/tokenize", LARGE)[2])
        held = []
        worst = 0
        for _ in range(160 * MIB // bytes_of_one):
            s = server.connect()
            s.sendall(request("/tokenize", LARGE))
            wait_jobs(server, 0, 60)
            held.append(s)
            worst = max(worst, metric(server, "unread_bytes"))
        check("unread answers are counted", worst > bytes_of_one / 2, worst)
        check("unread answers are bounded", worst <= 64 * MIB, worst)
        check("slow connections end", metric(server, "connections_slow_total") > 0)
        bounded(server, 500)
        check("another address is served", other(server, "/v1/completions", {"prompt": "a", "max_tokens": 2}) == 200)
        status, _, data = server.ask("POST", "/tokenize", LARGE)
        check("an answer that is read is complete", status == 200 and len(data) == bytes_of_one, (status, len(data)))
        for s in held:
            s.close()
        end = time.monotonic() + 20
        while metric(server, "unread_bytes") > 100000 and time.monotonic() < end:
            time.sleep(0.02)
        check("unread answers of clients that left are freed", metric(server, "unread_bytes") <= 100000)


def long_answers():
    """Answers that would become too long are refused before they take the memory."""
    with Server("-q", models=[VERSE]) as server:
        if not SLOW:  # 16 MiB of logprobs take more than 46 s of CPU time with a sanitizer
            status, answer = server.post("/v1/completions", {**ENDLESS, "logprobs": 20})
            check("an answer with too many logprobs", status == 413 and "at most 16 MiB" in answer["error"]["message"], answer)
        refused(server, "/tokenize", {"inputs": "a b " * 200000}, 413, "$.inputs")
        bounded(server, 400)


def values():
    """The values of a body count: an object of two bytes takes hundreds."""
    with Server("-q", models=[VERSE]) as server:
        for body in (b'{"prompt":"a","user":[' + b"{}," * 1300000 + b"{}]}", b'{"messages":[' + b"[]," * 1300000 + b"[]]}"):
            refused(server, "/v1/completions", body, 413, "$")
        bounded(server, 200)
        first = server.connect()
        first.sendall(request("/v1/completions", {**ENDLESS, "user": [{}] * 120000}))
        check("a request with many values runs", wait_jobs(server, 1) == 1)
        check("its values count", metric(server, "body_bytes") > 120000 * 200, metric(server, "body_bytes"))
        status, answer = server.post("/v1/completions", {"prompt": "a", "user": [{}] * 120000})
        check("a second one is refused", status == 503, answer)
        check("one of another address is not", other(server, "/v1/completions", {"prompt": "a", "max_tokens": 2, "user": [{}] * 120000}) == 200)
        first.close()
        check("the place is free", wait_jobs(server, 0) == 0)
        check("the values are freed", metric(server, "body_bytes") == 0, metric(server, "body_bytes"))
        check("quotes in texts", server.post("/v1/completions", {"prompt": '"{[,\\" \\', "max_tokens": 2, "user": "{" * 300000})[0] == 200)


def ranking():
    """A long ranking gives way to other connections, and its query is not encoded if it is too long."""
    with Server("-q", models=[RANKS]) as server:
        info = json.loads(server.ask("GET", "/info")[2])["models"][0]
        query = "the king " * (info["positions"] // 16)
        held = [server.connect() for _ in range(60)]  # 1,920 parts, which take longer than a request
        for s in held:
            s.sendall(request("/rerank", {"query": query, "texts": ["water"] * 1000, "truncate": True}))
        status, answer = server.post("/rerank", {"query": "water", "texts": ["king", "water"]})
        waiting = [s for s in held if not select.select([s], [], [], 0)[0]]
        check("a short ranking is answered before the last of the long ones", status == 200 and len(answer) == 2 and waiting, answer)
        for s in held:
            s.close()
        check("rankings of clients that left end", wait_jobs(server, 0) == 0)
        refused(server, "/rerank", {"query": "a" * (64 * info["positions"] + 64), "texts": ["b"] * 1000}, 413, "$.query")
        texts = [f"the king said {i}" for i in range(70)]
        _, many = server.post("/rerank", {"query": "water", "texts": texts})
        alone = {i: server.post("/rerank", {"query": "water", "texts": [texts[i]]})[1][0]["score"] for i in (0, 31, 32, 69)}
        scores = {x["index"]: x["score"] for x in many}
        check("a ranking in parts has the scores of single texts", len(scores) == 70 and
              all(scores[i] == alone[i] for i in alone), alone)


def loop(server, body, stop, count):
    """Posts requests to /v1/attention, each on a connection of its own, at most 4000 with other loops."""
    while not stop.is_set() and len(count) < 4000:
        if server.ask("POST", "/v1/attention", body)[0] == 200:
            count.append(1)


def started(server, body, threads):
    """Starts loops; returns how to stop them, and the list of their answers."""
    stop, count = threading.Event(), []
    all_threads = [threading.Thread(target=loop, args=(server, body, stop, count)) for _ in range(threads)]
    for t in all_threads:
        t.start()

    def end():
        stop.set()
        for t in all_threads:
            t.join()
    return end, count


def shares():
    """New connections without end do not keep an old connection waiting, and requests do not stop a stream."""
    short = {"input": [5] * 10}
    with Server("-q", models=[VERSE]) as server:
        end, count = started(server, short, 16)
        old = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        for i in range(1 if SLOW else 3):
            before = len(count)
            old.request("POST", "/v1/attention", json.dumps({"input": [5] * 200}), {"Content-Type": "application/json"})
            good = old.getresponse().read().startswith(b"{")
            # it costs as much as 20 to 30 of the others, and each of their 16 loops gets as much
            check(f"request {i + 1} of an old connection is answered", good and len(count) - before < 1000, len(count) - before)
        old.close()
        end()
        end, count = started(server, {"input": [5] * 200}, 3)
        while len(count) < 6:
            time.sleep(0.01)
        before = len(count)
        tokens = 40 if SLOW else 200
        status, _, data = server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": tokens, "ignore_eos": True, "stream": True})
        found = len(count) - before
        end()
        # 64 tokens per step of the stream, whose requests have 200 and more; and requests before and after it
        check("a stream makes its steps", status == 200 and data.endswith(b"data: [DONE]\n\n") and found <= tokens * 64 // 200 + 16, found)


def joins():
    """A short request does not wait for a generation that runs, whatever other clients have used."""
    long = {"prompt": "a", "max_tokens": 250, "ignore_eos": True, "n": 128}
    with Server("--max-sequences", "2", "-q", models=[VERSE]) as server:
        held = server.connect()
        held.sendall(request("/v1/completions", long))
        check("a generation runs", wait_jobs(server, 1) == 1)
        for _ in range(8):  # another client uses many tokens
            check("a request of many tokens", server.post("/v1/attention", {"input": [5] * 256})[0] == 200)
        for path, body in ("/v1/attention", {"input": [5] * 4}), ("/v1/completions", {"prompt": "a", "max_tokens": 2}):
            check(f"{path} is answered while the generation runs", other(server, path, body) == 200 and wait_jobs(server, 1) == 1)
        held.close()


def texts():
    """Errors of generations are errors, with and without a stream; forms of OpenAI."""
    with Server("-q", models=[CHAT]) as server:
        for stream in (False, True):
            refused(server, "/v1/chat/completions", {"stream": stream}, 400, "$.messages")
            refused(server, "/v1/chat/completions", {"stream": stream, "messages": None}, 400, "$.messages")
            status, answer = server.post("/v1/completions", {"prompt": "water " * 5000, "stream": stream})
            check("a prompt that is too long", status == 400 and "error" in answer, (status, answer))
        refused(server, "/v1/completions", {"prompt": "a", "stop": ["x"] * 65}, 400, "$.stop")
        refused(server, "/v1/completions", {"prompt": "a", "stop": ["x", ""]}, 400, "$.stop")
        messages = [{"role": "user", "content": "And the"}]
        refused(server, "/v1/chat/completions", {"messages": messages, "top_logprobs": 2}, 400, "$.top_logprobs")
        _, answer = server.post("/v1/completions", {"prompt": "a", "max_tokens": 3, "logprobs": 0, "ignore_eos": True})
        found = answer["choices"][0]["logprobs"]
        check("logprobs 0 has no alternatives", len(found["tokens"]) == 3 and
              found["top_logprobs"] == [{t: x} for t, x in zip(found["tokens"], found["token_logprobs"])], found)
        _, answer = server.post("/v1/chat/completions", {"messages": messages, "max_tokens": 2, "logprobs": True, "top_logprobs": 2})
        tokens = answer["choices"][0]["logprobs"]["content"]
        check("top_logprobs 2", all(len(t["top_logprobs"]) == 2 for t in tokens), tokens)
        _, _, data = server.ask("POST", "/v1/chat/completions", {"messages": messages, "max_tokens": 5, "n": 2, "stream": True,
                                                                 "ignore_eos": True})
        events = [json.loads(e[6:]) for e in data.decode().split("\n\n") if e.startswith("data: {")]
        for index in (0, 1):
            deltas = [x["delta"] for e in events for x in e["choices"] if x["index"] == index]
            check("the first event of a choice has the role", [("role" in d) for d in deltas] == [True] + [False] * (len(deltas) - 1)
                  and deltas[0]["role"] == "assistant", deltas)


def sequences():
    """The outputs that run at once do not change their text."""
    body = {"prompt": "In the", "max_tokens": 8, "n": 3, "seed": 5, "ignore_eos": True}
    found = []
    for args in ([], ["--max-sequences", "1"]):
        with Server("-q", *args, models=[VERSE]) as server:
            found.append([x["text"] for x in server.post("/v1/completions", body)[1]["choices"]])
            found.append(json.loads(server.ask("GET", "/info")[2])["max_sequences"])
    check("--max-sequences", found[0] == found[2] and len(set(found[0])) > 1 and found[1::2] == [16, 1], found)


def not_finite():
    """Scores that are not finite are an error."""
    path = f"{ODD}/model.safetensors"
    with open(path, "rb") as f:
        data = bytearray(f.read())
    n = struct.unpack("<Q", data[:8])[0]
    tensors = json.loads(data[8:8 + n])
    name = next(x for x in tensors if x.endswith("classifier.bias"))
    begin, end = tensors[name]["data_offsets"]
    data[8 + n + begin:8 + n + end] = b"\xff" * (end - begin)  # NaN in any type
    with open(path, "wb") as f:
        f.write(data)
    with Server("-q", models=[ODD]) as server:
        status, answer = server.post("/predict", {"inputs": "good"})
        check("labels without finite scores", status == 500 and "not finite" in answer["error"]["message"], answer)
        check("finite attention", server.post("/v1/attention", {"input": "good"})[0] == 200)
    name = next(x for x in tensors if x.endswith("query.bias"))
    begin, end = tensors[name]["data_offsets"]
    data[8 + n + begin:8 + n + end] = b"\xff" * (end - begin)
    with open(path, "wb") as f:
        f.write(data)
    with Server("-q", models=[ODD]) as server:
        status, answer = server.post("/v1/attention", {"input": "good"})
        check("attention that is not finite", status == 500 and "not finite" in answer["error"]["message"], answer)


def members():
    """An error that the thread of a model finds names the member of the request, unless the server itself failed."""
    with Server("-q", models=[MODEL, VERSE, RANKS]) as server:
        bert, verse, ranks = ({"model": os.path.basename(m)} for m in (MODEL, VERSE, RANKS))
        for path, member in (("/decode", "ids"), ("/detokenize", "ids"), ("/v1/embeddings", "input"), ("/embed", "inputs")):
            refused(server, path, {**bert, member: [5, 1 << 20]}, 400, f"$.{member}")
            _, answer = server.post(path, {**bert, member: [5, 1 << 20]})
            check("the ids that exist", re.search("invalid token id, expected an id below [0-9]+, found 1048576", answer["error"]["message"]), answer)
        refused(server, "/embed", {**bert, "inputs": "a " * 5000}, 400, "$.inputs")
        refused(server, "/rerank", {**ranks, "query": "a", "texts": ["b " * 5000]}, 400, "$.texts[0]")
        refused(server, "/v1/attention", {**bert, "input": "a " * 5000}, 400, "$.input")
        refused(server, "/v1/completions", {**verse, "prompt": "a " * 5000}, 400, "$.prompt")
        refused(server, "/v1/completions", {**verse, "prompt": "a", "logit_bias": {str(1 << 30): 1}}, 400, "$.logit_bias")
        for body, most in (({"max_tokens": 3, "min_tokens": 4}, 3), ({"min_tokens": 17}, 16)):
            status, answer = server.post("/v1/completions", {**verse, "prompt": "a", **body})
            check("min_tokens above max_tokens", status == 400 and answer["error"]["param"] == "$.min_tokens" and answer["error"]["message"] ==
                  f"$.min_tokens: expected at most max_tokens, which is {most}, found {body['min_tokens']}", answer)
        status, answer = server.post("/v1/completions", {**verse, "prompt": "a", "max_tokens": 4, "min_tokens": 4})
        check("as many as max_tokens", status == 200 and answer["usage"]["completion_tokens"] == 4, answer)


def log():
    """A log without a reader does not stop the server."""
    read, write = os.pipe()
    with Server(models=[MODEL], stderr=write) as server:
        os.close(write)
        c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        for _ in range(1000):
            c.request("GET", "/health")
            c.getresponse().read()
        dropped = metric(server, "log_dropped_total")
        check("lines are dropped", dropped > 0, dropped)
        lines = os.read(read, 1 << 20).split(b"\n")
        check("the others are whole", len(lines) > 100 and all(json.loads(x)["event"] for x in lines[:-1]), len(lines))
        c.request("GET", "/health")
        c.getresponse().read()
        c.close()
        lines = [json.loads(x) for x in os.read(read, 1 << 20).splitlines()]
        check("a line reports them", lines[0]["event"] == "dropped" and lines[0]["lines"] >= dropped, lines)
    os.close(read)


for part in (unread, long_answers, values, ranking, shares, joins, texts, sequences, not_finite, members, log):
    part()
finish()
