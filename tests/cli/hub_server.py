#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""hub_server.py FOLDER PORT_FILE: serves folders as a Hugging Face Hub on loopback, for the tests of `qkv pull`.

FOLDER/org/name/REVISION/... has the files of a branch or tag.  Files that end with .safetensors are stored as the hub
stores large files: /resolve/ redirects to /cdn/SHA256 of a second port, which refuses requests with a token.  PORT_FILE
gets "HUB CDN", the ports.  FOLDER/log gets one line per request: method, path, "token" or "-", the range, the status.
FOLDER/faults has lines "PATTERN FAULT [COUNT]": a request whose path contains PATTERN meets FAULT, COUNT times.
"""
import functools
import hashlib
import http.server
import json
import os
import re
import sys
import threading
import time
import urllib.parse

ROOT, PORT_FILE = sys.argv[1:3]
CDN_PORT = 0
LOCK = threading.Lock()


@functools.lru_cache(None)
def contents_of(path, changed, size):
    with open(path, "rb") as f:
        return f.read()


@functools.lru_cache(None)
def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@functools.lru_cache(None)
def sha256_of(data):
    return hashlib.sha256(data).hexdigest()


def files_of(repo, revision):
    """{path: bytes} and the commit of a revision; a commit is a function of the files."""
    base = os.path.join(ROOT, repo)
    if re.fullmatch("[0-9a-f]{40}", revision):
        for name in sorted(os.listdir(base)):
            if commit_of(repo, name) == revision:
                revision = name
                break
    top = os.path.join(base, revision)
    if not os.path.isdir(top):
        return None, None
    found = {}
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            at = os.stat(path)
            found[os.path.relpath(path, top)] = contents_of(path, at.st_mtime_ns, at.st_size)
    digest = hashlib.sha1()
    for path in sorted(found):
        digest.update(path.encode() + b"\0" + git_sha1(found[path]).encode())
    return found, digest.hexdigest()


def commit_of(repo, revision):
    return files_of(repo, revision)[1] if os.path.isdir(os.path.join(ROOT, repo, revision)) else None


@functools.lru_cache(None)
def entry(path, data):
    """The entry of a file in the list of files."""
    if path.endswith(".safetensors"):
        sha256 = sha256_of(data)
        pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (sha256.encode(), len(data))
        return {"type": "file", "oid": git_sha1(pointer), "size": len(data), "path": path,
                "lfs": {"oid": sha256, "size": len(data), "pointerSize": len(pointer)}}
    return {"type": "file", "oid": git_sha1(data), "size": len(data), "path": path}


def fault_of(path):
    """The fault that this request meets, None: no fault."""
    with LOCK:
        try:
            with open(os.path.join(ROOT, "faults")) as f:
                rows = [line.split() for line in f if line.strip()]
        except FileNotFoundError:
            return None
        for row in rows:
            left = int(row[2]) if len(row) > 2 else -1
            if row[0] in path and left != 0:
                if left > 0:
                    row[2] = str(left - 1)
                    with open(os.path.join(ROOT, "faults"), "w") as f:
                        f.writelines(" ".join(r) + "\n" for r in rows)
                return row[1]
    return None


class Hub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body follows its headers at once

    def log_message(self, *_):
        pass

    def note(self, status):
        token = "token" if self.headers.get("Authorization") == "Bearer secret" else "other" if self.headers.get("Authorization") else "-"
        with LOCK, open(os.path.join(ROOT, "log"), "a") as f:
            f.write(f"{self.command} {self.path} {token} {self.headers.get('Range', '-')} {status}\n")

    def answer(self, status, body=b"", headers=()):
        self.note(status)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        if not any(name == "Content-Length" for name, _ in headers):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def redirect(self, location, headers=()):
        self.answer(302, b"", [("Location", location), *headers])

    def meet(self, fault, data, headers):
        """Answers a request for data[] with a fault."""
        kind, _, value = fault.partition("=")
        if kind == "status":
            code = {"401": "", "403": "GatedRepo", "404": "EntryNotFound"}.get(value, "")
            more = [("X-Error-Code", code)] if code else []
            self.answer(int(value), b"no", more + ([("Retry-After", "1")] if value == "429" else []))
        elif kind == "code":
            status, code = value.split(",")
            self.answer(int(status), b"no", [("X-Error-Code", code), *headers])
        elif kind == "redirect":
            self.redirect(value.replace("PORT", str(self.server.server_address[1])), headers)
        elif kind == "moved":  # STATUS,LOCATION
            status, location = value.split(",")
            self.answer(int(status), b"", [("Location", location), *headers])
        elif kind == "loop":
            self.redirect(self.path, headers)
        elif kind == "wrong":  # the right size, other bytes
            self.contents(bytes(len(data)), headers)
        elif kind in ("cut", "norange"):  # the connection ends early
            self.contents(data, headers, cut=int(value), ranges=kind == "cut")
        elif kind == "short":  # a file of VALUE bytes only
            self.contents(data[:int(value)], headers)
        elif kind == "endless":
            self.note(200)
            self.send_response(200)
            for name, v in headers:
                self.send_header(name, v)
            self.end_headers()
            self.close_connection = True
            try:
                while self.command != "HEAD":
                    self.wfile.write(b"x" * 65536)
            except OSError:
                pass
        elif kind == "headers":  # without end
            self.note(200)
            self.close_connection = True
            self.wfile.write(b"HTTP/1.1 200 OK\r\n")
            try:
                for i in range(100000):
                    self.wfile.write(b"X-%d: %s\r\n" % (i, b"y" * 1000))
            except OSError:
                pass
        elif kind == "slow":  # 16 pieces, each after a pause of VALUE seconds
            self.contents(data, headers, pause=float(value))
        elif kind == "badrange":
            self.answer(206, data, [*headers, ("Content-Range", f"bytes 0-{len(data) - 1}/{len(data)}")])
        elif kind == "page":  # LINK,BODY: a page of the list of files that leads to the next one
            link, body = value.split(",", 1)
            self.answer(200, body.encode(), [*headers, ("Link", f'<{link}>; rel="next"')])
        elif kind == "body":  # another body, in JSON
            self.answer(200, value.encode(), headers)
        else:
            raise ValueError(fault)

    def contents(self, data, headers, cut=None, ranges=True, pause=0):
        begin, status = 0, 200
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked and ranges:
            begin, status = int(asked[1]), 206
            if begin >= len(data):
                return self.answer(416, b"")
            headers = [*headers, ("Content-Range", f"bytes {begin}-{len(data) - 1}/{len(data)}")]
        rest = data[begin:]
        self.note(status)
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(rest)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if cut is not None:
            self.wfile.write(rest[:cut])
            self.close_connection = True
            return
        step = max(1, len(rest) // 16) if pause else len(rest) or 1
        for at in range(0, len(rest), step):
            self.wfile.write(rest[at:at + step])
            self.wfile.flush()
            time.sleep(pause)

    def do_GET(self):
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path)
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        fault = fault_of(path)
        host = "http://" + self.headers["Host"]
        if path.startswith("/cdn/"):
            if self.headers.get("Authorization"):
                return self.answer(400, b"a token")
            data = self.server.blobs.get(path[5:])
            if data is None:
                return self.answer(404)
            return self.meet(fault, data, []) if fault else self.contents(data, [("ETag", '"cdn"')])
        m = re.fullmatch(r"/api/models/([^/]+(?:/[^/]+)?)(?:/(revision|tree)/(.+?))?/?", path)
        if m:
            repo, what, revision = m[1], m[2] or "revision", m[3] or "main"
            files, commit = files_of(repo, revision) if os.path.isdir(os.path.join(ROOT, repo)) else (None, None)
            if fault:
                return self.meet(fault, b"", [])
            if files is None:
                missing = "RevisionNotFound" if os.path.isdir(os.path.join(ROOT, repo)) else "RepoNotFound"
                return self.answer(404 if missing[1] == "e" and missing[2] == "v" else 401, b"{}", [("X-Error-Code", missing)])
            private = os.path.exists(os.path.join(ROOT, repo, "private"))
            if private and self.headers.get("Authorization") != "Bearer secret":
                return self.answer(401, b"{}", [("X-Error-Code", "RepoNotFound")])
            if what == "revision":
                return self.answer(200, json.dumps({"id": repo, "modelId": repo, "sha": commit, "private": private, "siblings":
                                                    [{"rfilename": p} for p in sorted(files)]}).encode(), [("Content-Type", "application/json")])
            rows = [entry(p, files[p]) for p in sorted(files)]
            folders = sorted({os.path.dirname(p) for p in files} - {""})
            rows += [{"type": "directory", "oid": "0" * 40, "size": 0, "path": f} for f in folders]
            page, step = int(query.get("cursor", ["0"])[0]), 5
            more = [("Content-Type", "application/json")]
            if page + step < len(rows):
                more.append(("Link", f'<{host}{urllib.parse.urlsplit(self.path).path}?recursive=true&cursor={page + step}>; rel="next"'))
            return self.answer(200, json.dumps(rows[page:page + step]).encode(), more)
        m = re.fullmatch(r"/([^/]+(?:/[^/]+)?)/resolve/([^/]+)/(.+)", path)
        if m:
            files, commit = files_of(m[1], m[2]) if os.path.isdir(os.path.join(ROOT, m[1])) else (None, None)
            if files is None:
                return self.answer(404, b"", [("X-Error-Code", "RepoNotFound")])
            headers = [("X-Repo-Commit", commit)]
            data = files.get(m[3])
            if data is None:
                return self.answer(404, b"", [("X-Error-Code", "EntryNotFound"), *headers])
            if m[3].endswith(".safetensors"):
                sha256 = sha256_of(data)
                CDN.blobs[sha256] = data
                headers += [("X-Linked-Etag", f'"{sha256}"'), ("X-Linked-Size", str(len(data))), ("ETag", '"other"')]
                if fault:
                    return self.meet(fault, data, headers)
                return self.redirect(f"http://127.0.0.2:{CDN.server_address[1]}/cdn/{sha256}", headers)
            headers.append(("ETag", f'"{git_sha1(data)}"'))
            return self.meet(fault, data, headers) if fault else self.contents(data, headers)
        if fault:
            return self.meet(fault, b"", [])
        self.answer(404)

    do_HEAD = do_GET


class Server(http.server.ThreadingHTTPServer):
    def handle_error(self, request, client_address):
        """Prints a traceback, but not of a client that has ended."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


HUB = Server(("127.0.0.1", 0), Hub)
# another host: huggingface_hub takes the data of a file from the first answer that leads to one
CDN = Server(("127.0.0.2", 0), Hub)
HUB.blobs, CDN.blobs = {}, {}
threading.Thread(target=CDN.serve_forever, daemon=True).start()
with open(PORT_FILE + ".tmp", "w") as f:
    f.write(f"{HUB.server_address[1]} {CDN.server_address[1]}\n")
os.rename(PORT_FILE + ".tmp", PORT_FILE)
HUB.serve_forever()
