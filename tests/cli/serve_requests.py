# SPDX-License-Identifier: MIT
"""serve_requests.py LIBRARY COUNT: reads random requests, most of them malformed, with the parser of `qkv serve` and with h11.

The parser may refuse what h11 accepts.  What it accepts has the same method and body for h11, and ends at the same byte, so
that bytes after it are the same next request: nothing can be smuggled past one of them.  Of HTTP/1.0, whose connections h11
does not keep, only the first request is compared.
"""
import ctypes
import random
import sys

import h11

parse = ctypes.CDLL(sys.argv[1]).http_requests_parse
parse.restype = ctypes.c_size_t
DONE, REFUSED = 2, 3
METHODS = [b"GET", b"POST", b"HEAD"] * 10 + [b"PUT", b"G T", b"get", b"", b"OPTIONS", b"M-SEARCH"]
TARGETS = [b"/", b"/a", b"/a?b=c"] * 10 + [b"*", b"http://h/a", b"http://h", b"/a#b", b"a", b"/\xff", b"/%00", b"//", b""]
VERSIONS = [b"HTTP/1.1"] * 40 + [b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0", b"http/1.1", b"HTTP/1.11", b""]
FRAMES = [(b"Content-Length", b"5"), (b"Content-Length", b"0"), (b"Transfer-Encoding", b"chunked"), (b"Connection", b"close")]
NAMES = [b"Host", b"Content-Length", b"Transfer-Encoding", b"Connection", b"Expect", b"X", b"X ", b" X", b"", b"Content-length",
         b"TRANSFER-ENCODING", b"X\0", b"X:Y"]
VALUES = [b"h", b"0", b"5", b"05", b"+5", b"5, 5", b"5 5", b"-1", b"chunked", b"Chunked", b"gzip, chunked", b"chunked, chunked",
          b"chunked;q=1", b"identity", b"close", b"keep-alive", b"close, x", b"100-continue", b"", b" ", b"a\0b", b"\xe4", b"a\tb",
          b"\x0b5", b"5\x0c", b"\x7f", b"chunked\x0b"]
ENDS = [b"\r\n"] * 120 + [b"\n", b"\r", b"\r\r\n", b"\n\r\n", b" \r\n", b"\r\n ", b"\r\n\t"]
BODIES = [b"", b"hello", b"5\r\nhello\r\n0\r\n\r\n", b"0\r\n\r\n", b"5;a=b\r\nhello\r\n0\r\n\r\n", b"5 \r\nhello\r\n0\r\n\r\n",
          b"5\nhello\n0\n\n", b"0x5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello0\r\n\r\n", b"5\r\nhello\r\n0\r\nX: y\r\n\r\n",
          b"00005\r\nhello\r\n000\r\n\r\n", b"5;a=\"\r\n\"\r\nhello\r\n0\r\n\r\n", b"5\r\nhel", b"F" * 20 + b"\r\n", b"5;a\nhello\r\n0\r\n\r\n",
          b"+5\r\nhello\r\n0\r\n\r\n", b"5\r\nhello\r\n0\r\n\r", b" 5\r\nhello\r\n0\r\n\r\n", b"5\t;a\r\nhello\r\n0\r\n\r\n"]


def request(r):
    line = b" ".join((r.choice(METHODS), r.choice(TARGETS), r.choice(VERSIONS))) + r.choice(ENDS)
    fields = [(b"Host", b"h")] * (r.random() < .85)
    for _ in range(r.choice((0, 1, 1, 2, 2, 3))):
        fields.append(r.choice(FRAMES) if r.random() < .5 else (r.choice(NAMES), r.choice(VALUES)))
    body = r.choice(BODIES)
    if r.random() < .6:  # a length with its body
        length, body = r.choice([(FRAMES[0], b"hello"), (FRAMES[1], b""), (FRAMES[2], BODIES[2]), ((b"X", b"y"), b"")])
        fields = fields[:1] + [length]
    colon = lambda: r.choice((b":", b":\t", b" : ")) if r.random() < .1 else b": "
    return line + b"".join(n + colon() + v + r.choice(ENDS) for n, v in fields) + r.choice(ENDS) + body


def draw(r):
    data = request(r) + (request(r) if r.random() < .4 else b"")
    if r.random() < .2:  # a byte is replaced or inserted
        k = r.randrange(len(data))
        data = data[:k] + bytes([r.choice((0, 9, 10, 13, 32, 58, 59, 255, r.randrange(256)))]) + data[k + r.choice((0, 1)):]
    return data


def ours(data):
    """Returns (method, body) of each complete request."""
    found = []
    while data:
        state, method, body = (ctypes.c_int64 * 4)(), ctypes.create_string_buffer(len(data) + 1), ctypes.create_string_buffer(len(data) + 1)
        used = parse(data, ctypes.c_size_t(len(data)), state, method, body)
        if state[0] != DONE:
            return found
        found.append((method.value, body.raw[:state[3]]))
        if not state[2] or b"HTTP/1.0" in data[:used]:
            return found
        data = data[used:]
    return found


def theirs(data):
    found, c, body = [], h11.Connection(h11.SERVER), b""
    c.receive_data(data)
    try:
        while (event := c.next_event()) not in (h11.NEED_DATA, h11.PAUSED) and not isinstance(event, h11.ConnectionClosed):
            if isinstance(event, h11.Request):
                method, body = event.method, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                found.append((method, body))
                c.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                c.send(h11.EndOfMessage())
                if c.our_state is not h11.DONE:
                    break
                c.start_next_cycle()
    except h11.RemoteProtocolError:
        pass
    return found


def main():
    r, accepted, several, wrong = random.Random(19), 0, 0, []
    for _ in range(int(sys.argv[2])):
        data = draw(r)
        mine, other = ours(data), theirs(data)
        accepted += len(mine) > 0
        several += len(mine) > 1
        if mine != other[:len(mine)]:
            wrong.append((data, mine, other))
    count = int(sys.argv[2])
    print(f"{count} inputs, {accepted} begin with a valid request, {several} with several, {len(wrong)} wrong", *wrong[:5], sep="\n")
    sys.exit(1 if wrong or accepted < count // 10 or several < count // 200 else 0)


main()
