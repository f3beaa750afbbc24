# SPDX-License-Identifier: MIT
"""serve_client.py: starts `qkv serve`, and speaks to it in bytes and in requests, for the tests of the server."""
import http.client
import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import time

BIN = os.environ["QKV_BIN"]
failures = 0
cases = 0


def check(name, good, found=""):
    """Counts a case; prints it if it failed."""
    global failures, cases
    cases += 1
    if not good:
        failures += 1
        print(f"FAILED: {name}: {str(found)[:300]}", flush=True)


def finish():
    print(f"{cases} cases, {failures} failed")
    sys.exit(1 if failures else 0)


class Server:
    """A server on a free port of 127.0.0.1."""

    def __init__(self, *args, models=(), **more):
        words = [w for m in models for w in ("-m", m)]
        self.log = open(f"serve-{os.getpid()}-{time.monotonic_ns()}.log", "w+", encoding="utf-8")
        more.setdefault("stderr", self.log)
        self.process = subprocess.Popen([BIN, "serve", "--port", "0", *words, *args], stdout=subprocess.PIPE, text=True, **more)
        line = self.process.stdout.readline()
        found = re.match(r"listening on http://(.*):(\d+)", line)
        if not found:
            self.log.seek(0)
            raise SystemExit(f"the server did not start: {line}{self.log.read()}")
        self.port = int(found[2])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def stop(self, number=signal.SIGTERM):
        """Ends the server; returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            code = self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self.process.stdout.close()
        return code

    def logged(self):
        """Returns the log as objects."""
        self.log.flush()
        with open(self.log.name, encoding="utf-8") as f:
            return [json.loads(line) for line in f if line.endswith("\n")]

    def status_kb(self, key):
        """Returns a line of /proc/PID/status in kB."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as f:
            return int(re.search(rf"{key}:\s*(\d+)", f.read())[1])

    def cpu_seconds(self):
        """Returns the time on a processor of all threads: /proc/PID/stat has ticks of 10 ms, schedstat has nanoseconds."""
        threads = f"/proc/{self.process.pid}/task"
        total = 0
        for thread in os.listdir(threads):
            with open(f"{threads}/{thread}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
        return total / 1e9

    def connect(self, timeout=30):
        return socket.create_connection(("127.0.0.1", self.port), timeout)

    def raw(self, data, timeout=30):
        """Sends bytes; returns what the server sends until it closes the connection or is silent."""
        with self.connect(timeout) as s:
            try:
                s.sendall(data)
            except OSError:
                pass
            return read_all(s)

    def ask(self, method, path, body=None, headers=None):
        """Makes one request on a connection of its own; returns status, fields and body."""
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=280)  # a sanitizer on a busy machine is slow
        try:
            fields = {"Content-Type": "application/json"} if body is not None else {}
            fields.update(headers or {})
            c.request(method, path, body if body is None or isinstance(body, (bytes, str)) else json.dumps(body), fields)
            r = c.getresponse()
            return r.status, {k.lower(): v for k, v in r.getheaders()}, r.read()
        finally:
            c.close()

    def post(self, path, body, headers=None):
        status, _, data = self.ask("POST", path, body, headers)
        return status, json.loads(data)


def jobs(server):
    """Returns the number of jobs of all models."""
    data = server.ask("GET", "/metrics")[2].decode()
    return sum(int(x) for x in re.findall(r"qkv_queue_jobs\S* (\d+)", data))


def wait_jobs(server, want, seconds=15):
    """Waits until the models have so many jobs; returns their number."""
    end = time.monotonic() + seconds
    found = jobs(server)
    while found != want and time.monotonic() < end:
        time.sleep(0.02)
        found = jobs(server)
    return found


# Work that outlasts a test: 4096 outputs of 200 tokens.
ENDLESS = {"prompt": ["In the beginning"] * 32, "n": 128, "max_tokens": 200, "ignore_eos": True}


def leave(server, how, data, stream=False):
    """Sends a request that does not end, and leaves when it runs; checks that its job ends."""
    with server.connect() as s:
        s.sendall(data)
        check(f"H15 a request runs ({how})", wait_jobs(server, 1) == 1 and (not stream or statuses(s.recv(1000)) == [200]), jobs(server))
        if how == "half":
            s.shutdown(socket.SHUT_WR)
        else:
            if how == "reset":
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            s.close()
        check(f"H15 the job of a client that leaves ends ({how})", wait_jobs(server, 0, 10) == 0, jobs(server))


def read_all(s):
    data = b""
    try:
        while chunk := s.recv(65536):
            data += chunk
    except OSError:
        pass
    return data


def statuses(data):
    """Returns the status of each answer in the bytes."""
    return [int(x) for x in re.findall(rb"HTTP/1\.1 (\d{3}) ", data)]
