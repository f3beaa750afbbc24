# SPDX-License-Identifier: MIT
"""serve_memory.py: an allocation of `qkv serve` fails: each answer is as without the fault, or an error, or the connection ends;
later answers are whole, and the server ends as it should.

    serve_memory.py MODEL CHAT LABELS
"""
import http.client
import json
import os
import re
import signal
import subprocess
import sys

from serve_client import BIN, check, finish

MODEL, CHAT, LABELS = sys.argv[1:]
POINTS = 120  # allocations that fail, spread over those after the start
MESSAGES = [{"role": "user", "content": "In the"}]
REQUESTS = [
    ("/v1/embeddings", {"input": ["hello", "a b"], "model": "bert"}),
    ("/v1/completions", {"prompt": "In the", "max_tokens": 4, "n": 2, "temperature": 0, "stop": "zz", "model": "chat"}),
    ("/v1/completions", {"prompt": "In the", "max_tokens": 2, "echo": True, "logprobs": 2, "temperature": 0, "model": "chat"}),
    ("/v1/chat/completions", {"messages": MESSAGES, "max_tokens": 4, "temperature": 0,
                              "stream": True, "stream_options": {"include_usage": True}, "model": "chat"}),
    ("/predict", {"inputs": [["good"], ["good", "bad"]], "model": "labels"}),
    ("/tokenize", {"inputs": "the king", "model": "bert"}),
    ("/v1/attention", {"input": "hello", "model": "bert", "rows": [0]}),
]


def start(fault):
    """Starts a server whose N-th allocation fails; returns the process and its port, None if it ended."""
    env = {**os.environ, "LD_PRELOAD": os.environ["QKV_NO_MEMORY_LIBRARY"], "QKV_NO_MEMORY": f"0:{fault}-" if fault else "",
           "QKV_NO_MEMORY_COUNT": "count", "QKV_THREADS": "1"}
    models = [w for m in (f"bert={MODEL}", f"chat={CHAT}", f"labels={LABELS}") for w in ("-m", m)]
    process = subprocess.Popen([BIN, "serve", "-q", "--port", "0", *models], env=env, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    found = re.search(r":(\d+)$", process.stdout.readline())
    return process, int(found[1]) if found else None


def ask(port, path, body):
    """Returns the status and the parts of an answer that do not depend on the time; (0, None): the connection ended."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        return r.status, re.sub(rb'"(created":\d+|id":"(chat)?cmpl-\d+")', b"", r.read())
    except (OSError, http.client.HTTPException):
        return 0, None
    finally:
        c.close()


def end(process):
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


def allocations():
    with open("count", encoding="ascii") as f:
        return int(f.read())


def judge(fault, port, request, whole):
    """Makes a request; returns whether it failed, as it may."""
    status, data = ask(port, *request)
    if status == 200 and data == whole:
        return False
    if status == 200:  # only a stream may begin, and then has an error as its last event
        check(f"allocation {fault}: {request[0]}", request[1].get("stream") and b'"error"' in data.split(b"\n\n")[-2], data[-300:])
    else:
        check(f"allocation {fault}: {request[0]} has status {status}", status in (0, 503), data)
    return True


def main():
    process, _ = start(0)
    end(process)
    first = allocations()
    process, port = start(0)
    want = [ask(port, *r) for r in REQUESTS]
    check("without a fault", end(process)[0] == 0 and all(status == 200 for status, _ in want), want)
    last = allocations()
    check("requests allocate", last - first > POINTS, (first, last))
    errors = 0
    for i in range(POINTS):
        fault = first + 1 + (last - first) * i // POINTS
        process, port = start(fault)
        if port is None:  # the memory of threads and caches varies, so that the fault was before the first request
            check(f"allocation {fault}: the start", process.wait(60) == 5)
            process.stdout.close()
            process.stderr.close()
            continue
        seen = sum(judge(fault, port, request, whole) for request, (_, whole) in zip(REQUESTS, want))
        if not seen:  # a fault after these requests, or one without a consequence
            seen = sum(judge(fault, port, request, whole) for request, (_, whole) in zip(REQUESTS, want))
        errors += seen
        check(f"allocation {fault}: one error at most", seen <= 1, seen)
        again = [ask(port, *r) for r in REQUESTS]
        check(f"allocation {fault}: later answers", again == want, [a for a, w in zip(again, want) if a != w])
        code, err = end(process)
        check(f"allocation {fault}: the end", code == 0 and all('"event":' in line for line in err.splitlines()), (code, err))
    check("faults are seen", errors > POINTS // 4, errors)
    finish()


main()
