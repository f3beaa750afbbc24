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
