# SPDX-License-Identifier: MIT
# serve_front.sh: `qkv serve` with sockets of systemd and after nginx (skipped without it): the files of examples/serve.
. tests/cli/lib.sh
small=$here/../golden/bert
export PYTHONPATH=$here

title 'a socket that systemd passes'
cat >pass.py <<'END'
import http.client, os, socket, subprocess, sys
s = socket.create_server(("127.0.0.1", 0))
port = s.getsockname()[1]
code = f'exec 3<&{s.fileno()}; LISTEN_PID=$$ LISTEN_FDS=1 exec "$QKV_BIN" serve -q -m "$1"'
p = subprocess.Popen(["sh", "-c", code, "sh", sys.argv[1]], pass_fds=[s.fileno()], stdout=subprocess.PIPE, text=True)
assert p.stdout.readline() == f"listening on http://127.0.0.1:{port}\n"
c = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
c.request("GET", "/health")
assert c.getresponse().status == 200
c.close()
p.terminate()
assert p.wait(30) == 0
END
check python3 -E pass.py "$small"

title 'several sockets, also of the file system; variables for another process; a socket for other machines'
cat >sockets.py <<'END'
import http.client, json, os, socket, subprocess, sys
model = sys.argv[1]

def start(sockets, pid="$$", count=None, **more):
    """Starts the server as systemd does: with the sockets as descriptors from 3 on."""
    moves = " ".join(f"{3 + i}<&{s.fileno()}" for i, s in enumerate(sockets))
    code = f'exec {moves}; LISTEN_PID={pid} LISTEN_FDS={count or len(sockets)} exec "$QKV_BIN" serve -q --port 0 -m "$1"'
    return subprocess.Popen(["bash", "-c", code, "bash", model], pass_fds=[s.fileno() for s in sockets], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)

def high(s):  # a descriptor that the moves do not overwrite
    import fcntl
    return socket.socket(fileno=fcntl.fcntl(s.detach(), fcntl.F_DUPFD, 20))

tcp, unix = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
unix.bind("named")
unix.listen()
tcp, unix = high(tcp), high(unix)
port = tcp.getsockname()[1]
p = start([tcp, unix])
assert p.stdout.readline() == f"listening on http://127.0.0.1:{port}\n"
assert p.stdout.readline() == "listening on a socket of this machine\n"
for family, address in (socket.AF_INET, ("127.0.0.1", port)), (socket.AF_UNIX, "named"):
    s = socket.socket(family)
    s.settimeout(30)
    s.connect(address)
    body = b'{"input":"hello"}'
    s.sendall(b"POST /v1/embeddings HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nConnection: close\r\n"
              b"Content-Length: %d\r\n\r\n" % len(body) + body)
    answer = b"".join(iter(lambda: s.recv(65536), b""))
    assert answer.startswith(b"HTTP/1.1 200 ") and b'"embedding"' in answer, answer
p.terminate()
assert p.wait(30) == 0

p = start([tcp], pid="1")  # the variables are for another process: the server opens a port of its own
line = p.stdout.readline()
assert line.startswith("listening on http://127.0.0.1:") and line != f"listening on http://127.0.0.1:{port}\n", line
p.terminate()
assert p.wait(30) == 0

wide = high(socket.create_server(("0.0.0.0", 0)))
p = start([wide])
out, err = p.communicate(timeout=60)
assert (p.returncode, out) == (2, "") and err == "qkv: a socket of systemd is reached from other machines, expected --token-file FILE\n", err
p = start([tcp], count=2)  # the second descriptor is no socket
out, err = p.communicate(timeout=60)
assert p.returncode == 6 and "descriptor 4 is no usable socket" in err, (p.returncode, err)
bound = socket.socket()
bound.bind(("127.0.0.1", 0))
connected, datagrams = socket.socketpair()[0], socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for s in bound, connected, datagrams:  # nothing can be accepted: the server would not sleep, or never answer
    p = start([high(s)])
    out, err = p.communicate(timeout=60)
    assert (p.returncode, out) == (2, "") and "descriptor 3 is no usable socket, expected a stream socket that listens" in err, (p.returncode, err)
p = start([tcp] * 9)
out, err = p.communicate(timeout=60)
assert p.returncode == 2 and "too many sockets, expected at most 8, found 9" in err, (p.returncode, err)
END
check python3 -E sockets.py "$small"

if command -v systemd-socket-activate >/dev/null; then
    title 'systemd-socket-activate starts the server at the first connection'
    cat >activate.py <<'END'
import http.client, os, socket, subprocess, sys, time
with socket.create_server(("127.0.0.1", 0)) as s:
    port = s.getsockname()[1]
p = subprocess.Popen(["systemd-socket-activate", "-l", f"127.0.0.1:{port}", os.environ["QKV_BIN"], "serve", "-q", "-m", sys.argv[1]],
                     stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
for _ in range(200):
    try:
        c = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        c.request("GET", "/health")
        assert c.getresponse().status == 200
        break
    except ConnectionRefusedError:  # it does not listen yet
        time.sleep(.05)
assert p.stdout.readline() == f"listening on http://127.0.0.1:{port}\n"
c.close()
p.terminate()
assert p.wait(30) == 0
END
    check python3 -E activate.py "$small"
fi

title 'the units: one port for systemd and nginx, and options that the command has'
units=$here/../../examples/serve
port=$(sed -n 's/^ListenStream=//p' "$units/qkv.socket")
[ -n "$port" ] && grep -qF "server $port;" "$units/nginx.conf" || failed 'nginx.conf has another port than qkv.socket'
if command -v systemd-analyze >/dev/null; then
    mkdir units
    sed "s|/usr/local/bin/qkv|$QKV_BIN|" "$units/qkv.service" >units/qkv.service
    cp "$units/qkv.socket" units
    check systemd-analyze verify --man=no units/qkv.socket units/qkv.service
fi

title 'the recipe of nginx: TLS, a stream, the token'
if command -v nginx >/dev/null && command -v openssl >/dev/null; then
    cat >front.py <<'END'
import json, os, re, signal, ssl, socket, subprocess, sys, time, http.client
sys.path.insert(0, os.environ["PYTHONPATH"])
from serve_client import Server, check, finish
folder, recipe, model = os.getcwd(), sys.argv[1], sys.argv[2]
with open("secret", "w") as f:
    f.write("0123456789abcdef\n")
subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", "key",
                "-out", "pem", "-days", "2", "-subj", "/CN=qkv.example"], check=True, capture_output=True)
# the options of the unit, with the token that systemd would pass
unit = re.search(r"ExecStart=\S+ serve -m \S+ (.*)", open(recipe.replace("nginx.conf", "qkv.service"), encoding="utf-8").read())[1]
options = unit.replace("${CREDENTIALS_DIRECTORY}/token", "secret").split()
with socket.create_server(("127.0.0.1", 0)) as s:
    port = s.getsockname()[1]
with Server("-q", *options, models=[model]) as server:
    text = open(recipe, encoding="utf-8").read()
    text = re.sub(r"server 127\.0\.0\.1:\d+", f"server 127.0.0.1:{server.port}", text)
    text = text.replace("listen 443", f"listen 127.0.0.1:{port}").replace("/etc/ssl/certs/qkv.pem", f"{folder}/pem")
    text = text.replace("/etc/ssl/private/qkv.key", f"{folder}/key")
    temp = "".join(f"{x}_temp_path {folder}/{x};" for x in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    with open("main.conf", "w", encoding="utf-8") as f:
        f.write(f"daemon off; master_process off; pid {folder}/pid; error_log {folder}/error;\n"
                f"events {{}}\nhttp {{ access_log off; {temp}\n{text}\n}}\n")
    nginx = subprocess.Popen(["nginx", "-p", folder, "-c", f"{folder}/main.conf"], stderr=subprocess.DEVNULL)
    try:
        context = ssl.create_default_context(cafile="pem")
        context.check_hostname = False
        for _ in range(100):
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                time.sleep(0.05)

        def ask(body, token, host="qkv.example", origin="https://qkv.example"):
            c = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
            c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json", "Origin": origin, "Host": host,
                                                                    "Authorization": f"Bearer {token}"})
            r = c.getresponse()
            data = r.read()
            c.close()
            return r.status, data
        body = {"prompt": "a", "max_tokens": 5, "temperature": 0}
        status, data = ask(body, "0123456789abcdef")
        check("an answer", status == 200, data)
        status, stream = ask({**body, "stream": True}, "0123456789abcdef")
        joined = "".join(json.loads(e[6:])["choices"][0]["text"] for e in stream.decode().split("\n\n") if e[:7] == "data: {")
        check("a stream", joined == json.loads(data)["choices"][0]["text"], stream)
        check("the token", ask(body, "wrong-wrong-wrong")[0] == 401)
        check("another Host", ask(body, "0123456789abcdef", "evil.example", "https://evil.example")[0] == 403)
        check("another Origin", ask(body, "0123456789abcdef", origin="https://evil.example")[0] == 403)
    finally:
        nginx.terminate()
        nginx.wait(10)
finish()
END
    check python3 -E front.py "$here/../../examples/serve/nginx.conf" "$here/../../models/verse"
else
    echo 'nginx or openssl is not installed: the recipe is not tested'
fi
finish
