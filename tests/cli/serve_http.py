# SPDX-License-Identifier: MIT
"""serve_http.py: malformed and hostile requests to `qkv serve`, H1 to H18: each is answered or disconnected as the
protocol says, and other clients are served meanwhile.

    serve_http.py MODEL VERSE     VERSE: a decoder
"""
import json
import socket
import sys
import threading
import time

from serve_client import ENDLESS, Server, check, finish, leave, read_all, statuses

MODEL, VERSE = sys.argv[1:]
HOST = b"Host: localhost\r\n"
JSON = b"Content-Type: application/json\r\n"
BODY = b'{"input":"hello"}'


def head(line=b"POST /v1/embeddings HTTP/1.1", fields=JSON):
    return line + b"\r\n" + HOST + fields


def post(body=BODY, fields=b""):
    return head(fields=JSON + fields) + b"Content-Length: %d\r\n\r\n" % len(body) + body


def slow(server, data, step, result, key):
    """Sends a byte per `step` seconds until the server answers; stores the answer and the time it took."""
    began = time.monotonic()
    with server.connect() as s:
        s.settimeout(step)
        answer = b""
        for byte in data:
            try:
                s.sendall(bytes([byte]))
                answer = s.recv(65536)
                break
            except TimeoutError:
                continue
            except OSError:
                break
        s.settimeout(5)
        result[key] = (answer + read_all(s), time.monotonic() - began)


def silent(server, data, result, key):
    """Sends bytes and then none; stores the answer and the time until the server closes the connection."""
    began = time.monotonic()
    with server.connect(60) as s:
        s.sendall(data)
        result[key] = (read_all(s), time.monotonic() - began)


def healthy(server, stop, found):
    """Asks for /health until `stop` is set; stores the status of each answer and the time it took."""
    while not stop.is_set():
        began, status = time.monotonic(), 0
        try:
            status = server.ask("GET", "/health")[0]
        finally:
            found.append((status, time.monotonic() - began))
        stop.wait(0.05)


def one(server, name, data, want, closes=True):
    """Sends bytes; the only answer must have the status, and then the server closes the connection."""
    answer = server.raw(data, 5)
    found = statuses(answer)
    check(name, found == [want] if want else not found, answer or found)
    if want and closes:
        check(f"{name}: closes", b"\r\nConnection: close\r\n" in answer, answer)


def lengths(server):
    one(server, "H6 Content-Length and Transfer-Encoding",
        head() + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET /info HTTP/1.1\r\n" + HOST + b"\r\n", 400)
    one(server, "H6 the other order",
        head() + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400)
    one(server, "H7 two lengths", head() + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello!", 400)
    one(server, "H7 the same length twice", head() + b"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 400)
    for text, want in ((b"-1", 400), (b"+2", 400), (b"2x", 400), (b"", 400), (b"2, 2", 400), (b"0x2", 400),
                       (b"18446744073709551616", 413), (b"9" * 30, 413), (b"4194305", 413)):
        one(server, f"H8 length {text}", head() + b"Content-Length: " + text + b"\r\n\r\n{}", want)
    one(server, "H2 a large body by chunks", head() + b"Transfer-Encoding: chunked\r\n\r\n" +
        (b"100000\r\n" + b" " * 0x100000 + b"\r\n") * 5, 413)


def chunks(server):
    start = head() + b"Transfer-Encoding: chunked\r\n\r\n"
    for name, body, want in (
            ("no size", b"\r\n{}\r\n0\r\n\r\n", 400), ("a size that is no number", b"2g\r\n{}\r\n0\r\n\r\n", 400),
            ("a negative size", b"-2\r\n{}\r\n0\r\n\r\n", 400), ("a size of 2^64", b"10000000000000000\r\n", 413),
            ("a bare LF", b"2\n{}\r\n0\r\n\r\n", 400), ("data that is longer", b"2\r\n{}}\r\n0\r\n\r\n", 400),
            ("many extensions", b"2;" + b"a=b;" * 2000 + b"\r\n", 413), ("a trailer", b"2\r\n{}\r\n0\r\nX: y\r\n\r\n", 400),
            ("NUL in an extension", b"2;\0\r\n{}\r\n0\r\n\r\n", 400)):
        one(server, f"H9 chunks: {name}", start + body, want)
    for fields, want in ((b"Transfer-Encoding: gzip\r\n", 501), (b"Transfer-Encoding: gzip, chunked\r\n", 501),
                         (b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 400),
                         (b"Transfer-Encoding: \x0bchunked\r\n", 400)):
        one(server, f"H10 {fields}", head() + fields + b"\r\n0\r\n\r\n", want)
    good = start + b"7;x=1\r\n{\"input\r\nA\r\n\":\"hello\"}\r\n0\r\n\r\n"
    answer = server.raw(good, 3)
    check("H9 a valid chunked body", statuses(answer) == [200], answer)


def heads(server):
    for name, data, want in (
            ("NUL in a field", head(fields=b"X: a\0b\r\n") + b"\r\n", 400),
            ("a space before the colon", head(fields=b"X : a\r\n") + b"\r\n", 400),
            ("a continued line", head(fields=b"X: a\r\n b\r\n") + b"\r\n", 400),
            ("a bare LF", b"GET /health HTTP/1.1\nHost: localhost\n\n", 400),
            ("a bare CR", b"GET /health HTTP/1.1\r\nHost: localhost\rX: y\r\n\r\n", 400),
            ("a field without a name", head(fields=b": a\r\n") + b"\r\n", 400),
            ("a control character", head(fields=b"X: a\x01b\r\n") + b"\r\n", 400)):
        one(server, f"H11 {name}", data, want)
    one(server, "H12 a head of 40 KB", head(b"GET /health HTTP/1.1", b"X: " + b"a" * 40000 + b"\r\n") + b"\r\n", 431)
    one(server, "H12 a long URL", b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414)
    one(server, "H12 101 fields", head(b"GET /health HTTP/1.1", b"X: a\r\n" * 101) + b"\r\n", 431)
    one(server, "H13 no Host", b"GET /health HTTP/1.1\r\n\r\n", 400)
    one(server, "H13 two Hosts", b"GET /health HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400)
    for host in (b"a b", b"a/b", b"me@localhost", b"[::1", b"[localhost]", b"localhost:%dx" % 80, b"localhost\xff"):
        one(server, f"H13 the Host {host}", b"GET /health HTTP/1.1\r\nHost: " + host + b"\r\n\r\n", 400)
    one(server, "H13 HTTP/9.9", b"GET /health HTTP/9.9\r\n" + HOST + b"\r\n", 505)
    one(server, "H13 HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505)
    one(server, "H13 TLS", bytes.fromhex("160301007a010000760303") + b"a" * 60, None)
    one(server, "H13 no version", b"GET /health\r\n\r\n", 400)
    for target in (b"http:///health", b"http://me@localhost/health", b"http://localhost#/health", b"http://[::1/health", b"https://localhost/health",
                   b"localhost:%d" % 80, b"*", b"health", b"/health#a", b"/he\xc3\xa9"):
        one(server, f"H5 the target {target}", b"GET " + target + b" HTTP/1.1\r\n" + HOST + b"\r\n", 400)
    one(server, "H5 an unknown method", head(b"get /health HTTP/1.1", b"") + b"\r\n", 501)
    one(server, "H17 another expectation", head(fields=JSON + b"Expect: 200-ok\r\n") + b"Content-Length: 2\r\n\r\n{}", 417)


def meaning(server):
    deep = b'{"input":' + b"[" * 70 + b"]" * 70 + b"}"
    for name, body, path in (
            ("no JSON", b"hello", "$"), ("truncated", b'{"input":', "$"), ("70 levels", deep, "$"),
            ("a key twice", b'{"input":"a","input":"b"}', "$"), ("NaN", b'{"input":NaN}', "$"),
            ("a wrong type", b'{"input":5}', "$.input"), ("an unknown member", b'{"input":"a","inputt":1}', "$.inputt"),
            ("a negative number", b'{"input":"a","dimensions":-1}', "$.dimensions"),
            ("a huge number", b'{"input":"a","dimensions":99999999999}', "$.dimensions"),
            ("more numbers than a vector has", b'{"input":"a","dimensions":999999}', "$.dimensions"),
            ("a number of 10^30", b'{"input":"a","dimensions":1e30}', "$.dimensions"),
            ("a NUL", b'{"input":"a\\u0000b"}', "$"), ("an empty array", b'{"input":[]}', "$.input"),
            ("a mixed array", b'{"input":["a",5]}', "$.input"), ("no input", b"{}", "$.input"),
            ("an id that is negative", b'{"input":[-5]}', "$.input")):
        status, answer = server.post("/v1/embeddings", body)
        check(f"H3 {name}", status == 400 and answer["error"]["param"] == path, (status, answer))
    for path, name in (("/v1/embeddings", "input"), ("/embed", "inputs"), ("/v1/completions", "prompt"), ("/tokenize", "inputs")):
        for body in (b"{}", b'{"%s":null}' % name.encode()):
            status, answer = server.post(path, body)
            check(f"H3 {path} {body}", status == 400 and f"$.{name}: required member is missing" in answer["error"]["message"], answer)
    for body in (b'{"input":"\xff"}', b'{"input":"\xc0\x80"}', b'{"input":"\xed\xa0\x80"}', b'{"input":"\xf4\x90\x80\x80"}'):
        status, answer = server.post("/v1/embeddings", body)
        check(f"H4 {body}", status == 400 and "UTF-8" in answer["error"]["message"], (status, answer))
    status, _, _ = server.ask("POST", "/v1/embeddings", BODY, {"Content-Type": "text/plain"})
    check("H5 another type of the body", status == 415, status)
    for coding, want in (("gzip", 415), ("identity, br", 415), ("identity", 200)):
        status, _, _ = server.ask("POST", "/v1/embeddings", BODY, {"Content-Encoding": coding})
        check(f"H5 Content-Encoding: {coding}", status == want, status)
    for method, path, allow in (("PUT", "/health", "GET, HEAD"), ("OPTIONS", "*", "GET, HEAD, POST"), ("HEAD", "/embed", "POST")):
        status, fields, _ = server.ask(method, path)
        check(f"H5 {method} {path}", status == 405 and fields.get("allow") == allow, (status, fields))
    status, fields, data = server.ask("GET", "/v1/embeddings")
    check("H5 another method", status == 405 and fields.get("allow") == "POST" and b"expected POST" in data, (status, fields, data))
    status, _, _ = server.ask("OPTIONS", "/v1/embeddings", None, {"Host": "localhost", "Origin": "http://localhost"})
    check("H18 no CORS", status == 405, status)
    for path in ("/nothing", "/../etc/passwd", "/v1/../health", "/health%00", "/%68ealth", "//health", "/health/"):
        status, _, data = server.ask("GET", path)
        check(f"H5 {path}", status == 404 and b"/v1/embeddings" in data and b"/detokenize" in data, (status, data))
    status, fields, data = server.ask("POST", "/v1/embeddings", b'{"input":"a","model":"x\\r\\nSet-Cookie: a=b"}')
    check("H14 a line end in the name of a model", status == 404 and "set-cookie" not in fields and b"\r" not in data, data)
    status, _, data = server.ask("GET", "/info?a=%0d%0aX:y")
    check("H14 a line end in a query", status == 200, data)
    status, fields, data = server.ask("HEAD", "/health")
    check("HEAD has no body", status == 200 and data == b"" and int(fields["content-length"]) > 0, fields)


def origins(server):
    for name, fields, want in (
            ("another Host", {"Host": "evil.example"}, 403), ("a Host that begins like ours", {"Host": "localhost.evil.example"}, 403),
            ("our Host with a port", {"Host": "localhost:%d" % server.port}, 200), ("an empty port", {"Host": "localhost:"}, 200), ("IPv6", {"Host": "[::1]:80"}, 200),
            ("another Origin", {"Origin": "http://evil.example"}, 403), ("Origin null", {"Origin": "null"}, 403),
            ("our Origin", {"Host": f"localhost:{7}", "Origin": f"http://localhost:{7}"}, 200),
            ("the Origin of another port", {"Host": f"localhost:{7}", "Origin": f"http://localhost:{8}"}, 403)):
        status, got, _ = server.ask("GET", "/info", None, fields)
        check(f"H18 {name}", status == want and "access-control-allow-origin" not in got, status)


def protocol(server):
    get = head(b"GET /health HTTP/1.1", b"") + b"\r\n"
    last = head(b"GET /health HTTP/1.1", b"Connection: close\r\n") + b"\r\n"
    answer = server.raw(post() + get + post() + last)
    check("H17 pipelined requests are answered in order", statuses(answer) == [200] * 4 and
          answer.count(b'"embedding"') == 4 and answer.rindex(b'"ok"') > answer.rindex(b'"embedding"'), statuses(answer))
    answer = server.raw(get * 100 + last)
    check("H17 a hundred requests of one connection", statuses(answer) == [200] * 101, len(statuses(answer)))
    answer = server.raw(b"GET /health HTTP/1.0\r\n\r\n")
    check("H17 HTTP/1.0 closes", statuses(answer) == [200] and b"Connection: close" in answer, answer)
    answer = server.raw(b"\r\n" + last)
    check("H17 one empty line before a request", statuses(answer) == [200], answer)
    for line, words, count in ((b"HTTP/1.0", b"keep-alive", 2), (b"HTTP/1.0", b"keep-alive, close", 1), (b"HTTP/1.0", b"x", 1),
                               (b"HTTP/1.1", b"x, Close", 1), (b"HTTP/1.1", b"closed", 2), (b"HTTP/1.2", b"x", 2)):
        answer = server.raw(head(b"GET /health " + line, b"Connection: " + words + b"\r\n") + b"\r\n" + last)
        check(f"H17 {line}, Connection: {words}", statuses(answer) == [200] * count, answer)
    for target, health in ((b"http://localhost/health", True), (b"HTTP://LOCALHOST:80/health?a", True),
                           (b"http://localhost", False), (b"http://localhost?/health", False)):
        answer = server.raw(b"GET " + target + b" HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n")
        check(f"H17 the absolute form {target}", statuses(answer) == [200] and (b'{"status":"ok"}' in answer) == health, answer)
    with server.connect() as s:
        s.settimeout(5)
        s.sendall(head() + b"Expect: 100-continue\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(BODY))
        first = s.recv(100)
        s.sendall(BODY)
        answer = read_all(s)
        check("H17 100-continue", first == b"HTTP/1.1 100 Continue\r\n\r\n" and statuses(answer) == [200], first)
    with server.connect() as s:
        s.settimeout(5)
        s.sendall(head() + b"Expect: 100-continue\r\nContent-Length: 5000000\r\n\r\n")
        check("H2 a large body is refused before it is sent", statuses(read_all(s)) == [413])
    for part in (1, 7, 64):
        with server.connect() as s:
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            data = post(fields=b"Connection: close\r\n")
            for i in range(0, len(data), part):
                s.sendall(data[i:i + part])
            check(f"a request in pieces of {part} bytes", statuses(read_all(s)) == [200])


def leaves(server):
    """H15: clients that leave do not keep a job in the queue."""
    body = json.dumps(ENDLESS).encode()
    for how in ("close", "reset", "half"):
        leave(server, how, head(b"POST /v1/completions HTTP/1.1") + b"Content-Length: %d\r\n\r\n" % len(body) + body)


def crowd():
    """H16: connections above the limit are refused, one address cannot have all of them."""
    with Server("--max-concurrent-requests", "4", "-q", models=[MODEL]) as server:  # 8 connections
        held = [server.connect() for _ in range(6)]
        for s in held:
            s.sendall(b"GET /health HTTP/1.1\r\n")
        time.sleep(0.1)
        answer = server.raw(head(b"GET /health HTTP/1.1", b"") + b"\r\n", 5)
        check("H16 above the share of one address", statuses(answer) == [503] and b"Retry-After: 1\r\n" in answer, answer)
        s = socket.create_connection(("127.0.0.1", server.port), 5, ("127.0.0.2", 0))
        s.sendall(head(b"GET /health HTTP/1.1", b"Connection: close\r\n") + b"\r\n")
        check("H16 another address is served", statuses(read_all(s)) == [200])
        s.close()
        for s in held:
            s.close()
        idle = [server.connect() for _ in range(6)]
        for s in idle:
            s.sendall(head(b"GET /health HTTP/1.1", b"") + b"\r\n")
            s.recv(1000)
        answer = server.raw(head(b"GET /health HTTP/1.1", b"Connection: close\r\n") + b"\r\n", 5)
        check("H16 an idle connection makes room", statuses(answer) == [200], answer)
        for s in idle:
            s.close()


def main():
    with Server(models=[MODEL, VERSE]) as server:
        late, found, stop = {}, [], threading.Event()
        data = head(b"GET /health HTTP/1.1", b"X: " + b"a" * 300 + b"\r\n")
        late_clients = (threading.Thread(target=slow, args=(server, data + b"\r\n", 0.3, late, "slow")),
                        threading.Thread(target=silent, args=(server, data, late, "silent")),
                        threading.Thread(target=silent, args=(server, b"", late, "empty")))
        health = threading.Thread(target=healthy, args=(server, stop, found))
        for t in (*late_clients, health):
            t.start()
        for part in (lengths, chunks, heads, meaning, origins, protocol, leaves):
            part(server)
        for t in late_clients:
            t.join()
        stop.set()
        health.join()
        for key, want in (("slow", [408]), ("silent", [408]), ("empty", [])):
            answer, seconds = late.get(key, (b"", 0))
            check(f"H1 a head: {key}", statuses(answer) == want and 9.5 < seconds < 25, (answer, seconds))
        # less than the 10 seconds that a head may take: no client waits for a slow one
        check("/health is answered meanwhile", len(found) > 7 and all(s == 200 and t < 8 for s, t in found), max(found, key=lambda x: (x[0] != 200, x[1]), default=None))
        check("the log has no other line", all("event" in x for x in server.logged()))
        check("the server ends", server.stop() == 0)
    crowd()
    finish()


main()
