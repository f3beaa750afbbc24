# SPDX-License-Identifier: MIT
"""serve_times.py MODEL: the time limits of `qkv serve`, set short: a client that sends slowly or nothing is answered with 408
or disconnected, however often it sends a byte; one that is in time is answered.

A limit is a lower bound of the time that is measured; the upper bound only says that the connection ended.
"""
import sys
import threading
import time

from serve_client import Server, check, finish, read_all, statuses

MODEL = sys.argv[1]
HEAD, BODY, IDLE = 1, 4, 3  # seconds
MOST = 60
START = b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
SHORT = b'{"input":"a"}'


def drip(s, parts, pause):
    """Sends the parts with pauses until the server answers; returns all that it sends."""
    s.settimeout(pause)
    answer = b""
    for part in parts:
        try:
            s.sendall(part)
            answer = s.recv(65536)
            break
        except TimeoutError:
            continue
        except OSError:
            break
    s.settimeout(MOST)
    return answer + read_all(s)


def asked(s):
    """Makes a short request; returns whether the whole answer came."""
    s.sendall(GET)
    answer = b""
    while not answer.endswith(b'"ok"}\n') and (part := s.recv(65536)):
        answer += part
    return statuses(answer) == [200]


def each(data):
    return [bytes([b]) for b in data]


def late(server, name, first, parts, limit, what, second=False):
    """A request that takes too long gets 408 after `limit` seconds.  second: after another one of its connection."""
    with server.connect(MOST) as s:
        if second:
            check(f"{name}: the first request", asked(s))
        began = time.monotonic()
        s.sendall(first)
        answer = drip(s, parts, .2)
        seconds = time.monotonic() - began
    unit = "second" if limit == 1 else "seconds"
    check(f"{name}: 408 after {limit} s", statuses(answer)[-1:] == [408] and limit - .1 < seconds < MOST and
          f"the {what} of the request took longer than {limit} {unit}".encode() in answer and
          b"\r\nConnection: close\r\n" in answer, (seconds, answer))


def closed(server, name, data, limit, want):
    """The connection ends without another answer."""
    with server.connect(MOST) as s:
        began = time.monotonic()
        s.sendall(data)
        answer = read_all(s)
        seconds = time.monotonic() - began
    check(f"{name}: ends after {limit} s", statuses(answer) == want and limit - .1 < seconds < MOST, (seconds, answer))


def in_time(server):
    """Neither a body in pieces nor requests with pauses below the limit end a connection."""
    with server.connect(MOST) as s:
        for n in range(5):  # 5 seconds in all: the time begins again after each answer
            check(f"request {n} of a connection", asked(s))
            time.sleep(1)
        s.sendall(START + b"Connection: close\r\nContent-Length: %d\r\n\r\n" % len(SHORT))
        answer = drip(s, each(SHORT), .05)
    check("a body in pieces", statuses(answer) == [200] and b'"embedding"' in answer, answer)


def main():
    length = START + b"Content-Length: 1000\r\n\r\n"
    slow_head = START + b"X: "
    options = ("--head-timeout", str(HEAD), "--body-timeout", str(BODY), "--idle-timeout", str(IDLE))
    with Server("-q", *options, models=[MODEL]) as server:
        cases = [
            (late, "a head, byte by byte", b"", each(slow_head) * 100, HEAD, "head"),
            (late, "a head, header by header", START, [b"X: y\r\n"] * 90, HEAD, "head"),
            (late, "a head that stops", slow_head, [], HEAD, "head"),
            (late, "the head of a second request", b"", each(slow_head) * 100, HEAD, "head", True),
            (late, "a body, byte by byte", length, [b" "] * 900, BODY, "body"),
            (late, "a body, chunk by chunk", START + b"Transfer-Encoding: chunked\r\n\r\n", [b"1\r\n \r\n"] * 900, BODY, "body"),
            (late, "a body that stops", length + b"{", [], BODY, "body"),
            (late, "no body", length, [], BODY, "body"),
            (late, "no body after 100-continue", START + b"Expect: 100-continue\r\nContent-Length: 9\r\n\r\n", [], BODY, "body"),
            (late, "the body of a second request", length, [b" "] * 900, BODY, "body", True),
            (closed, "no request", b"", HEAD, []),
            (closed, "an idle connection", GET, IDLE, [200]),
            (closed, "an idle connection after two requests", GET + GET, IDLE, [200, 200]),
        ]
        threads = [threading.Thread(target=f, args=(server, *args)) for f, *args in cases]
        threads.append(threading.Thread(target=in_time, args=(server,)))
        for t in threads:
            t.start()
        for _ in range(20):  # meanwhile others are answered
            check("others are answered", server.ask("GET", "/health")[0] == 200)
            time.sleep(.1)
        for t in threads:
            t.join()
        check("the server ends", server.stop() == 0)
    finish()


main()
