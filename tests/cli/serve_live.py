# SPDX-License-Identifier: MIT
"""serve_live.py MODEL DECODER LONG: the page at / of `qkv serve`, its requests, and the secret of `qkv view --live`."""
import http.client
import json
import math
import os
import re
import signal
import subprocess
import sys

from serve_client import BIN, Server, check, finish

MODEL, DECODER, LONG = sys.argv[1:4]
TEXT = "the cat sat on the mat"


def about_of(page):
    """Returns the description in a page, and its policy."""
    text = page.decode()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', text)[1]
    return json.loads(re.search(r'<script type="application/json" id="about">(.*?)</script>', text, re.S)[1]), policy


def ask(s, body, **more):
    return s.ask("POST", "/v1/attention", {"live": True, **body}, {"Accept": "text/html", **more})


def cosine(a, b):
    dot = lambda x, y: sum(p * q for p, q in zip(x, y))
    return dot(a, b) / math.sqrt(dot(a, a) * dot(b, b))


def vector(model, *options):
    """The vector of TEXT as `qkv embed` prints it."""
    out = subprocess.run([BIN, "embed", "-m", model, "--json", *options, TEXT], check=True, capture_output=True, text=True)
    found = json.loads(out.stdout.splitlines()[0])
    return found["vector"] if "vector" in found else found["vectors"][0]


def pages(s):
    status, fields, page = s.ask("GET", "/")
    about, policy = about_of(page)
    check("GET / is a page", status == 200 and fields["content-type"].startswith("text/html"), (status, fields))
    check("it may ask its server and no other", "connect-src 'self'" in policy and "default-src 'none'" in policy, policy)
    check("it has a text", about["server"]["text"].startswith("The animal") and about["server"]["ablate"] == [], about["server"])
    status, _, page = s.ask("POST", "/v1/attention", {"input": TEXT}, {"Accept": "text/html"})
    about, policy = about_of(page)
    check("a page that is not live is offline", status == 200 and "connect-src" not in policy and "server" not in about, policy)
    status, _, page = ask(s, {"input": "</script>"})
    about, _ = about_of(page)
    check("a text does not end an element", status == 200 and about["server"]["text"] == "</script>", status)
    for body, want, part in [({"ablate": ["L99.H0"]}, 400, "no such layer"), ({"ablate": ["H5"]}, 400, "$.ablate[0]"),
                             ({"ablate": "L0.H0"}, 400, "expected an array"), ({"ablate": [5]}, 400, "$.ablate[0]"),
                             ({"ablate": ["L0.H0", "L0.H0"]}, 400, "named twice"),
                             ({"score_scale": 0}, 400, "$.score_scale"), ({"score_scale": "x"}, 400, "$.score_scale"),
                             ({"temperature": 0}, 400, "$.temperature"), ({"top_p": 2}, 400, "$.top_p"),
                             ({"against": 5}, 400, "$.against"), ({"input": [1, 2]}, 400, "a page needs a text")]:
        status, _, data = ask(s, {"input": TEXT, **body})
        error = json.loads(data)["error"]
        check(f"refused: {body}", status == want and part in error["message"], data[:200])
        check(f"the member that is wrong: {body}", error["param"] == "$." + next(iter(body)), error)
    for heads in ["L99.H0"], ["L0.H99"], ["enc.L0.H0"], ["L0.H0", "L0.H*"]:
        status, data = s.post("/v1/attention", {"input": TEXT, "ablate": heads})
        check(f"heads that the model lacks: {heads}", status == 400 and data["error"]["param"] == "$.ablate", data)
    status, data = s.post("/v1/attention", {"input": TEXT, "against": "a"})
    check("a second text needs a page", status == 400 and "Accept: text/html" in data["error"]["message"], data)


def changes(s):
    """The cosine is that of the vectors of `qkv embed` without and with the heads."""
    status, _, page = ask(s, {"input": TEXT, "ablate": ["L0.H1", "L1.H*"]})
    server = about_of(page)[0]["server"]
    check("heads are listed", status == 200 and server["ablate"] == ["L0.H1=zero", "L1.H*=zero"], server)
    want = cosine(vector(MODEL), vector(MODEL, "--ablate", "L0.H1", "--ablate", "L1.H*"))
    # vectors are printed with 9 digits; the cosine is a float
    check("the cosine is that of the vectors", abs(server["vector"] - want) < 4e-7 and want < .9999, (server, want))
    status, _, page = ask(s, {"input": TEXT})
    check("without a change there is no cosine", "vector" not in about_of(page)[0]["server"], "")
    plain = s.post("/v1/attention", {"input": TEXT, "layers": [0]})[1]["layers"][0]
    twice = s.post("/v1/attention", {"input": TEXT, "layers": [0], "score_scale": 2})[1]["layers"][0]
    # twice the scores, so the square of the weights: the log-ratio of the two largest weights doubles
    ratio = lambda x: math.log(x["top_weight"][0][1][0] / x["top_weight"][0][1][1])
    check("the weights follow the scaled scores", abs(ratio(twice) / ratio(plain) - 2) < 1e-3, (ratio(plain), ratio(twice)))
    off = s.post("/v1/attention", {"input": TEXT, "ablate": ["L0.H*"]})[1]["layers"]
    on = s.post("/v1/attention", {"input": TEXT})[1]["layers"]
    check("the statistics belong to the run", off[0] == on[0] and off[1] != on[1], "")
    status, _, page = ask(s, {"input": TEXT, "against": "a cat"})
    about = about_of(page)[0]
    check("a second text is compared", status == 200 and about["against"]["moved"], list(about))


def decoders(s):
    body = {"input": "ACT I", "temperature": .5, "top_p": .9}
    status, _, page = ask(s, body)
    found = about_of(page)[0]["server"]["next"]
    status, data = s.post("/v1/completions", {"prompt": "ACT I", "max_tokens": 1, "temperature": 0, "logprobs": 5})
    top = sorted(data["choices"][0]["logprobs"]["top_logprobs"][0].values(), reverse=True)
    check("the next tokens have the probabilities of a completion", status == 200 and
          all(abs(a[1] - math.exp(b)) < 1e-6 for a, b in zip(found, top)), (found, top))
    output = about_of(page)[0]["output"]
    last = (output["rows"] - 1) * output["top"]
    check("the view output is about the last token", output["kind"] == "next" and
          output["at"] == [len(about_of(page)[0]["texts"][0]["tokens"]) - 1], output["at"])
    check("its last row has the same tokens", all(
        output["names"][output["entries"][last + k]] == found[k][0] and
        abs(output["values"][last + k] * 1e-5 - found[k][1]) <= .6e-5 for k in range(output["top"])), output)
    check("nothing is changed", all(row[1] == row[2] for row in found), found)
    # a temperature of 1/2 squares the ratio of two probabilities
    check("temperature", abs(math.log(found[0][3] / found[1][3]) - 2 * math.log(found[0][1] / found[1][1])) < 1e-4, found)
    _, _, page = ask(s, {**body, "ablate": ["L1.H*"]})
    off = about_of(page)[0]["server"]["next"]
    check("an ablated layer changes them", all(row[1] != row[2] for row in off), off)


def limits():
    with Server(models=[LONG]) as s:
        status, _, data = ask(s, {"input": "a b " * 12000})
        check("too many rows are refused", status == 413 and "288000 rows of weights" in json.loads(data)["error"]["message"], data)
        check("the server lives", ask(s, {"input": "a b"})[0] == 200)


class Live:
    """`qkv view --live`."""

    def __init__(self, *words):
        self.process = subprocess.Popen([BIN, "view", "--live", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                        text=True)
        line = self.process.stdout.readline()
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)/\?token=([0-9a-f]{32})\n", line)
        if not found:
            raise SystemExit(f"not started: {line}{self.process.stderr.read()}")
        self.port, self.token = int(found[1]), found[2]

    def ask(self, method, path, body=None, **fields):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        if body is not None:
            fields["Content-Type"] = "application/json"
        c.request(method, path, body, {k.replace("_", "-"): v for k, v in fields.items()})
        r = c.getresponse()
        got = r.status, {k.lower(): v for k, v in r.getheaders()}, r.read()
        c.close()
        return got


def secret():
    s = Live("-m", MODEL, "a text of ours")
    ticket = "/?token=" + s.token
    body = json.dumps({"input": TEXT, "live": True})
    for method, path in [("GET", "/"), ("GET", "/health"), ("GET", "/info"), ("GET", "/nothing"), ("HEAD", ticket),
                         ("GET", "/?token=" + "0" * 32), ("GET", "/?token="), ("GET", ticket + "0"), ("GET", ticket[:-1]),
                         ("GET", "/info" + ticket[1:]), ("POST", "/v1/attention"), ("POST", "/v1/attention" + ticket[1:])]:
        status = s.ask(method, path, body if method == "POST" else None)[0]
        check(f"{method} {path} without the secret", status == 401, status)
    check("a page of another site has no ticket", s.ask("GET", ticket, Origin="http://evil.example")[0] == 403)
    check("another name of the host has no ticket", s.ask("GET", ticket, Host="evil.example")[0] == 403)
    status, fields, _ = s.ask("GET", ticket)
    cookie = fields.get("set-cookie", "")
    found = re.fullmatch(rf"(qkv-{s.port}=[0-9a-f]{{32}}); Path=/; HttpOnly; SameSite=Lax", cookie)
    check("the ticket becomes a cookie", status == 303 and fields["location"] == "/" and found, (status, fields))
    check("the cookie is not the ticket", s.token not in cookie)
    check("the ticket works once", s.ask("GET", ticket)[0] == 401)
    own = found[1]
    status, _, page = s.ask("GET", "/", Cookie=own)
    check("the page has the text", status == 200 and about_of(page)[0]["server"]["text"] == "a text of ours", status)
    check("the page holds no secret", own.split("=")[1].encode() not in page and s.token.encode() not in page)
    check("among other cookies", s.ask("GET", "/", Cookie=f"a=b; {own}; c=d")[0] == 200)
    check("the address may be opened again", s.ask("GET", ticket, Cookie=own)[0] == 303)
    check("it answers", s.ask("POST", "/v1/attention", body, Cookie=own, Accept="text/html")[0] == 200)
    check("not to a page of another site", s.ask("POST", "/v1/attention", body, Cookie=own, Origin="http://127.0.0.1:1")[0] == 403)
    for wrong in [own[:-1], own + "0", own.replace("qkv-", "qkv"), "x" + own, own.split("=")[0] + "=", own.split("=")[1]]:
        check(f"the cookie {wrong}", s.ask("GET", "/", Cookie=wrong)[0] == 401)
    s.process.send_signal(signal.SIGINT)
    check("Ctrl-C ends it", s.process.wait(60) == 0)
    check("it says nothing else", s.process.stderr.read() == "")
    again = Live("-m", MODEL)
    check("another start has another secret", again.token != s.token and again.ask("GET", "/", Cookie=own)[0] == 401)
    again.process.terminate()
    check("SIGTERM ends it", again.process.wait(60) == 0)


os.environ.pop("QKV_MODEL", None)
with Server(models=[MODEL]) as s:
    pages(s)
    changes(s)
with Server(models=[DECODER]) as s:
    decoders(s)
limits()
secret()
finish()
