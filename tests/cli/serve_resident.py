# SPDX-License-Identifier: MIT
"""serve_resident.py: the resident memory of `qkv serve` does not grow with the number of requests.

    serve_resident.py MODEL VERSE

QKV_SERVE_REQUESTS is the number of requests (4,000); prints the resident memory after each twentieth of them.
"""
import http.client
import json
import os
import statistics
import sys
import threading

from serve_client import Server, check, finish

MODEL, VERSE = sys.argv[1:]
REQUESTS = int(os.environ.get("QKV_SERVE_REQUESTS") or 4000)
CLIENTS = 8
PARTS = 20
KEPT_OPEN = 10  # requests of a connection
MOST_GROWTH = 16 << 10  # kB after the first tenth: a few buffers of 4 MiB
MIXED = [
    ("/v1/embeddings", {"input": "hello", "model": "bert"}, 200),
    ("/v1/embeddings", {"input": ["a b", "hello", "b"], "encoding_format": "base64", "model": "bert"}, 200),
    ("/tokenize", {"inputs": "the king", "model": "bert"}, 200),
    ("/v1/attention", {"input": "hello", "model": "bert", "rows": [0]}, 200),
    ("/v1/completions", {"prompt": "In the", "max_tokens": 2, "temperature": 0, "logprobs": 1, "model": "verse"}, 200),
    ("/v1/completions", {"prompt": "In the", "max_tokens": 2, "n": 2, "stream": True, "model": "verse"}, 200),
    ("/v1/embeddings", {"input": 5}, 400),
]


def client(server, number, count, wrong):
    """Makes some mixed requests on connections that it keeps open for a while."""
    c = None
    for i in range(count):
        path, body, want = MIXED[(number + i) % len(MIXED)]
        if i % KEPT_OPEN == 0:
            if c:
                c.close()
            c = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
        c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        r.read()
        if r.status != want:
            wrong.append((path, r.status))
    c.close()


def main():
    wrong, resident = [], []
    each = max(1, REQUESTS // PARTS // CLIENTS)
    with Server("-q", models=[f"bert={MODEL}", f"verse={VERSE}"]) as server:
        for _ in range(PARTS):
            threads = [threading.Thread(target=client, args=(server, i, each, wrong)) for i in range(CLIENTS)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            resident.append(server.status_kb("VmRSS"))
    check("every request is answered", not wrong, wrong[:5])
    for i, kb in enumerate(resident):
        print(f"{(i + 1) * each * CLIENTS} requests: {kb} kB resident")
    # A buffer that a worker needs for the first time is 4 MiB at once, whenever it comes; a leak is in every part, or in some by
    # much. So the median of the last nine tenths counts, in which 80 bytes per request are four pages of a part of 200, and the sum.
    grown = statistics.median(b - a for a, b in zip(resident[1:], resident[2:])) * 1024 / (each * CLIENTS)
    slow = os.environ.get("QKV_SLOW", "OFF") not in ("", "OFF")
    check("the resident memory stays", slow or grown < 80, f"{grown:.0f} bytes more per request in half of the parts: {resident}")
    check("few buffers are new", slow or resident[-1] - resident[1] < MOST_GROWTH, resident)
    finish()


main()
