# SPDX-License-Identifier: MIT
"""serve_answers.py: answers of `qkv serve`: the bits of the command under mixed load, streams, chats, rankings,
clients that leave, the end of the server.

    serve_answers.py BERT VERSE LABELS RANKS [--seconds S]

BERT: an encoder; VERSE: a decoder; LABELS, RANKS: folders with several labels and with one.  Without --seconds, 64
clients make a few requests each; with it, they make requests for so long.
"""
import base64
import json
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import threading
import time

from serve_client import BIN, ENDLESS, Server, check, finish, leave, wait_jobs

BERT, VERSE, LABELS, RANKS = sys.argv[1:5]
SECONDS = float(sys.argv[6]) if len(sys.argv) > 6 else 0
CLIENTS = 64
WORDS = "the a king said unto him light and water of day night came house son people great".split()


def command(*args):
    return subprocess.run([BIN, *args], capture_output=True, check=True).stdout


def bits(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def texts_of(seed, count):
    r = random.Random(seed)
    return [" ".join(r.choice(WORDS) for _ in range(r.randint(1, 24))) for _ in range(count)]


def expected():
    """Answers of the command: vectors of texts, and continuations of prompts with their seeds."""
    texts = texts_of(7, 48)
    with open("texts.txt", "w", encoding="utf-8") as f:
        f.write("\n".join(texts) + "\n")
    lines = command("embed", "-m", BERT, "-f", "texts.txt", "--json", "--truncate").decode().splitlines()
    vectors = {t: bits(json.loads(line)["vector"]) for t, line in zip(texts, lines)}
    outputs = {}
    for i, prompt in enumerate(("In the beginning", "And the king said", "a", "Blessed are")):
        how = ["-n", str(8 + 6 * i), "--temperature", "0.9", "--seed", str(i)] if i % 2 else ["-n", str(8 + 6 * i)]
        out = json.loads(command("generate", prompt, "-m", VERSE, "--json", *how).decode().splitlines()[-1])
        read = json.loads(command("generate", prompt, "-m", VERSE, "-n", "0", "--echo", "--logprobs", "1", "--json"))
        outputs[prompt] = (8 + 6 * i, 0.9 if i % 2 else 0, i, out["text"], [t["logprob"] for t in read["prompt_logprobs"]])
    return vectors, outputs


def client(server, number, vectors, outputs, wrong, counts):
    """Makes mixed requests and compares each answer with the command's."""
    r = random.Random(number)
    end = time.monotonic() + SECONDS
    rounds = 0
    while rounds < 6 if not SECONDS else time.monotonic() < end:
        rounds += 1
        began = time.monotonic()
        kind = r.choice(("embed", "embed", "batch", "base64", "complete", "stream", "echo"))
        if kind == "echo":
            prompt = r.choice(list(outputs))
            status, answer = server.post("/v1/completions", {"prompt": prompt, "max_tokens": 0, "echo": True, "logprobs": 0, "model": "verse"})
            good = status == 200 and answer["choices"][0]["logprobs"]["token_logprobs"] == outputs[prompt][4]
        elif kind in ("complete", "stream"):
            prompt = r.choice(list(outputs))
            tokens, temperature, seed, want, _ = outputs[prompt]
            body = {"prompt": prompt, "max_tokens": tokens, "temperature": temperature, "seed": seed, "model": "verse",
                    "stream": kind == "stream"}
            status, _, data = server.ask("POST", "/v1/completions", body)
            if kind == "stream":
                events = [e[6:] for e in data.decode().split("\n\n") if e]
                text = "".join(json.loads(e)["choices"][0]["text"] for e in events[:-1]) if events else ""
                good = status == 200 and events[-1] == "[DONE]" and text == want
            else:
                good = status == 200 and json.loads(data)["choices"][0]["text"] == want
        else:
            chosen = r.sample(list(vectors), 1 if kind == "embed" else r.randint(2, 12))
            body = {"input": chosen[0] if kind == "embed" else chosen, "model": "bert", "truncate": True}
            if kind == "base64":
                body["encoding_format"] = "base64"
            status, answer = server.post("/v1/embeddings", body)
            found = [x["embedding"] for x in answer.get("data", [])]
            found = [base64.b64decode(x) if kind == "base64" else bits(x) for x in found]
            good = status == 200 and found == [vectors[t] for t in chosen]
        counts.append(time.monotonic() - began)
        if not good:
            wrong.append((kind, status))


def load(server, vectors, outputs):
    """The bits of every answer, whatever else is computed."""
    wrong, counts = [], []
    threads = [threading.Thread(target=client, args=(server, i, vectors, outputs, wrong, counts)) for i in range(CLIENTS)]
    began = time.monotonic()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    counts.sort()
    check(f"{CLIENTS} clients: every answer has the bits of the command", not wrong, wrong[:5])
    if SECONDS:
        print(f"{len(counts)} requests in {time.monotonic() - began:.1f} s, p50 {counts[len(counts) // 2]:.3f} s, "
              f"p99 {counts[len(counts) * 99 // 100]:.3f} s, resident {server.status_kb('VmRSS')} kB")


def members(server):
    """Each member of docs/serve.md has its effect: predicates of the status and the answer of a request."""
    beginning = {"prompt": "In the beginning", "max_tokens": 20, "temperature": 0, "model": "verse"}
    ends = {**beginning, "logit_bias": {"0": 100}}  # <|endoftext|>, the end of a text, is the most probable token
    short = {"inputs": "hello a b", "model": "prompted"}
    ranking = {"query": "w a t", "model": "ranks"}
    texts = ["a b", "king", "the a"]

    def generated(*options):
        """Is the text equal to the output of the command with these options, and different without them?"""
        text = lambda *how: json.loads(command("generate", "In the beginning", "-m", VERSE, "-n", "20", "--json", "-t", "0", *how)
                                       .decode().splitlines()[-1])["text"]
        return lambda status, answer: status == 200 and answer["choices"][0]["text"] == text(*options) != text()

    def ended(text, reason, tokens):
        return lambda status, answer: status == 200 and (answer["choices"][0]["text"], answer["choices"][0]["finish_reason"],
                                                         answer["usage"]["completion_tokens"]) == (text, reason, tokens)

    def vectors(*args):
        """Are these the vectors of the command, and others without the options that follow the text?"""
        vector = lambda *how: bits(json.loads(command("embed", "-m", "prompted", "--json", *how))["vector"])
        want, other = vector(*args), vector(args[0])
        return lambda status, answer: status == 200 and bits(answer["data"][0]["embedding"] if "data" in answer else answer[0]) == want != other

    for path, body, good in (
            ("/embed", {**short, "normalize": False}, vectors("hello a b", "--no-normalize")),
            ("/embed", {**short, "prompt_name": "query"}, vectors("hello a b", "--prompt", "query")),
            ("/v1/embeddings", {"input": "hello a b", "prompt_name": "query", "model": "prompted"}, vectors("hello a b", "--prompt", "query")),
            ("/embed", {**short, "prompt_name": "other"}, lambda status, a: status == 400 and "other" in a["error"]["message"] and a["error"]["param"] == "$.prompt_name"),
            ("/embed", {"inputs": "a b c d e f g h i j k l m n o p", "model": "bert", "truncate": True, "truncation_direction": "Right"},
             lambda status, a: status == 200 and a == server.post("/embed", {"inputs": "a b c d e f g h i j k", "model": "bert"})[1]),
            ("/predict", {"inputs": "good", "model": "labels", "raw_scores": True},
             lambda status, a: status == 200 and {x["label"]: x["score"] for x in a} == {
                 x["label"]: x["score"] for x in json.loads(command("classify", "-m", LABELS, "good", "--json"))["labels"]}),
            ("/rerank", {**ranking, "texts": texts, "return_text": True},
             lambda status, a: status == 200 and [x.get("text") for x in a] == [texts[x["index"]] for x in a]),
            ("/rerank", {**ranking, "texts": texts}, lambda status, a: status == 200 and not any("text" in x for x in a)),
            ("/v2/rerank", {**ranking, "documents": texts, "return_documents": True},
             lambda status, a: status == 200 and [x.get("document") for x in a["results"]] == [{"text": texts[x["index"]]} for x in a["results"]]),
            ("/v1/completions", {**beginning, "presence_penalty": -1}, generated("--presence", "-1")),
            ("/v1/completions", {**beginning, "frequency_penalty": -1}, generated("--frequency", "-1")),
            ("/v1/completions", {**beginning, "repetition_penalty": 2}, generated("--repetition", "2")),
            ("/v1/completions", ends, ended("", "stop", 1)),
            ("/v1/completions", {**ends, "min_tokens": 5}, ended(" of the LORD, that", "stop", 6)),
            ("/v1/completions", {**beginning, "stop": ["covenant", "LORD, and"]}, ended(" of the LORD, that is the ", "stop", 10))):
        status, answer = server.post(path, body)
        check(f"{path} {body}", good(status, answer), (status, answer))
    for options, want in (({}, []), ({"stream_options": {"include_usage": True}}, [(5, 20, 25)])):
        _, _, data = server.ask("POST", "/v1/completions", {**beginning, "stream": True, **options})
        events = [json.loads(e[6:]) for e in data.decode().split("\n\n") if e.startswith("data: {")]
        usage = [e["usage"] for e in events if e.get("usage")]
        check(f"a stream with {options}", [(u["prompt_tokens"], u["completion_tokens"], u["total_tokens"]) for u in usage] == want and
              (not want or (events[-1]["choices"] == [] and events[-1]["usage"] == usage[0])), (usage, events[-1]))


def safetensors(path):
    """Returns the numbers of the float and int32 tensors of a file, flat."""
    with open(path, "rb") as f:
        data = f.read()
    n = struct.unpack("<Q", data[:8])[0]
    found = {}
    for name, t in json.loads(data[8:8 + n]).items():
        if t.get("dtype") in ("F32", "I32"):
            begin, end = (8 + n + x for x in t["data_offsets"])
            found[name] = struct.unpack(f"<{(end - begin) // 4}{'f' if t['dtype'] == 'F32' else 'i'}", data[begin:end])
    return found


def flat(x):
    return [v for y in x for v in flat(y)] if isinstance(x, list) else [x]


def equal_command(server):
    """Rankings and statistics of attention equal the output of the command."""
    texts = ["a b", "king", "the a"]
    with open("pairs.txt", "w", encoding="utf-8") as f:
        f.writelines(f"w a t\t{t}\n" for t in texts)
    lines = command("classify", "-m", RANKS, "--pairs", "-f", "pairs.txt", "--json").decode().splitlines()
    want = [json.loads(line)["labels"][0] for line in lines]
    for raw, key in ((True, "score"), (False, "probability")):
        status, answer = server.post("/rerank", {"query": "w a t", "texts": texts, "raw_scores": raw, "model": "ranks"})
        found = {x["index"]: x["score"] for x in answer}
        check(f"/rerank has the {key} of qkv classify", status == 200 and found == {i: w[key] for i, w in enumerate(want)} and
              len(set(found.values())) == len(texts), (answer, want))
        order = sorted(found, key=found.get, reverse=True)
        check("/rerank sorts by it", [x["index"] for x in answer] == order != list(range(len(texts))), answer)
    command("trace", "hello a b", "-m", BERT, "--what", "probe", "--probe", "top=3,rows=1+4,entropy,received,distance,offsets=2,tiles=2",
            "-o", "probes.safetensors")
    status, answer = server.post("/v1/attention", {"input": "hello a b", "model": "bert", "top_k": 3, "rows": [1, 4], "entropy": True,
                                                   "received": True, "distance": True, "reach": 2, "tiles": 2})
    found = {f"probes.{x['layer']}.{name}": v for x in answer["layers"] for name, v in x.items() if name != "layer"}
    want = {name: v for name, v in safetensors("probes.safetensors").items() if name.startswith("probes.")}
    wrong = [name for name in want if name not in found or bits(flat(found[name])) != bits(want[name])]
    check("/v1/attention has the statistics of qkv trace", status == 200 and len(want) == 2 * 9 and set(found) == set(want) and not wrong, wrong)


def forms(server):
    status, answer = server.post("/embed", {"inputs": ["hello", "a b"], "model": "bert"})
    _, same = server.post("/v1/embeddings", {"input": ["hello", "a b"], "model": "bert"})
    check("/embed has the vectors of /v1/embeddings", status == 200 and answer == [x["embedding"] for x in same["data"]])
    for path, body in (("/v1/completions", {"prompt": "In the beginning", "max_tokens": 4}), ("/predict", {"inputs": "good"}),
                       ("/rerank", {"query": "water", "texts": ["king", "water"]})):
        status, answer = server.post(path, body)
        check(f"{path} without a name: the first model that can answer does", status == 200, answer)
    _, tokens = server.post("/tokenize", {"inputs": "hello", "model": "bert"})
    ids = [t["id"] for t in tokens[0]]
    _, by_ids = server.post("/v1/embeddings", {"input": ids, "model": "bert"})
    check("token ids have the vector of their text", by_ids["data"][0]["embedding"] == same["data"][0]["embedding"])
    _, short = server.post("/v1/embeddings", {"input": "hello", "dimensions": 4, "model": "bert"})
    x = short["data"][0]["embedding"]
    check("dimensions scales to length 1", len(x) == 4 and abs(sum(v * v for v in x) - 1) < 1e-5, x)
    status, answer = server.post("/v1/embeddings", {"input": "word " * 5000, "model": "bert"})
    check("a text that is too long is refused", status == 400 and "text 1 is too long" in answer["error"]["message"] and
          answer["error"]["param"] == "$.input", answer)
    status, _ = server.post("/v1/embeddings", {"input": "word " * 5000, "truncate": True, "model": "bert"})
    check("or truncated", status == 200, status)
    listed = json.loads(server.ask("GET", "/v1/models")[2])["data"]
    for path, want in (("bert", "bert"), ("%62er%74", "bert"), ("prompted", "prompted")):
        status, _, data = server.ask("GET", "/v1/models/" + path)
        check(f"/v1/models/{path}", status == 200 and [json.loads(data)] == [x for x in listed if x["id"] == want], data)
    for path in ("none", "bert/", "bert%00", "%", "ber%7", "%zz", "a%2Fb"):
        status, _, data = server.ask("GET", "/v1/models/" + path)
        check(f"/v1/models/{path} is none", status == 404 and json.loads(data)["error"]["param"] == "$.model", (status, data))
    check("/v1/models/ has no name", server.ask("GET", "/v1/models/")[0] == 404)
    check("/v1/models/bert accepts GET only", server.ask("POST", "/v1/models/bert", {})[0] == 405)
    status, answer = server.post("/v1/embeddings", {"input": "a", "model": "none"})
    check("an unknown model is named", status == 404 and "none" in answer["error"]["message"], answer)
    status, answer = server.post("/predict", {"inputs": [["good"], ["bad"]], "model": "labels"})
    want = [json.loads(line) for line in command("classify", "-m", LABELS, "-f", "two.txt", "--json").decode().splitlines()]
    check("/predict is qkv classify", [{x["label"]: x["score"] for x in a} for a in answer] ==
          [{x["label"]: x["probability"] for x in w["labels"]} for w in want], (answer, want))
    status, tei = server.post("/rerank", {"query": "water", "texts": ["king", "the a", "a b"], "model": "ranks"})
    status2, cohere = server.post("/v2/rerank", {"query": "water", "documents": ["king", "the a", "a b"], "top_n": 2, "model": "ranks"})
    scores = [x["score"] for x in tei] if status == 200 else []
    check("/rerank is sorted", status == 200 and scores == sorted(scores, reverse=True) and len(scores) == 3, tei)
    check("/rerank of Cohere has the same scores", status2 == 200 and
          [(x["index"], x["relevance_score"]) for x in cohere["results"]] == [(x["index"], x["score"]) for x in tei[:2]], cohere)
    _, back = server.post("/detokenize", {"ids": [t["id"] for t in server.post("/tokenize", {"inputs": "the king", "model": "verse"})[1][0]],
                                          "model": "verse"})
    check("/detokenize returns the text", back == ["the king"], back)
    status, page = server.post("/v1/attention", {"input": "hello world", "model": "bert", "rows": [1], "received": True})
    rows = page["layers"][0]["rows"]
    check("/v1/attention has rows that sum to 1", status == 200 and all(abs(sum(h[0]) - 1) < 1e-5 for h in rows), rows)
    status, fields, page = server.ask("POST", "/v1/attention", {"input": "hello world", "model": "bert"}, {"Accept": "text/html"})
    check("/v1/attention as a page", status == 200 and fields["content-type"].startswith("text/html") and
          page.startswith(b"<!doctype html>") and page.rstrip().endswith(b"</html>"), page[:100])
    parameters(server)


def parameters(server):
    """Parameters of the servers whose forms these are: each one is honoured, or refused by its name."""
    for path, body, refused in (
            ("/v1/completions", {"prompt": "a", "model": "verse"},
             {"suffix": "b", "best_of": 5, "stream_options": {"include_usage": True}, "logprobs": True, "other": 1}),
            ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a"}], "model": "verse"},
             {"tools": [], "tool_choice": "auto", "functions": [], "function_call": "auto", "response_format": {"type": "json_object"},
              "modalities": ["text", "audio"], "reasoning_effort": "low", "verbosity": "low", "audio": {}, "web_search_options": {},
              "top_logprobs": 2, "stream_options": {}, "other": 1}),
            ("/embed", {"inputs": "a", "model": "bert"}, {"truncation_direction": "Middle", "dimensions": 0, "other": 1}),
            ("/predict", {"inputs": "a", "model": "labels"}, {"truncation_direction": "Left", "other": 1}),
            ("/rerank", {"query": "a", "texts": ["b"], "model": "ranks"},
             {"truncation_direction": "Left", "documents": ["c"], "rank_fields": ["a"], "max_chunks_per_doc": 2, "max_tokens_per_doc": 0, "other": 1}),
            ("/tokenize", {"inputs": "a", "model": "bert"}, {"prompt_name": "query", "other": 1})):
        for name, value in refused.items():
            status, answer = server.post(path, {**body, name: value})
            check(f"{path}: {name} is refused by name", status == 400 and name in answer["error"]["message"] and
                  answer["error"]["param"] == f"$.{name}", answer)
    how = {"prompt": ["In the", "And"], "max_tokens": 4, "temperature": 0, "n": 2, "model": "verse"}
    plain = server.post("/v1/completions", how)[1]["choices"]
    status, answer = server.post("/v1/completions", {**how, "echo": True})
    want = [how["prompt"][i // 2] + x["text"] for i, x in enumerate(plain)]
    check("echo", status == 200 and [x["text"] for x in answer["choices"]] == want, (answer, want))
    _, _, data = server.ask("POST", "/v1/completions", {**how, "echo": True, "stream": True})
    found = [""] * 4
    for event in data.decode().split("\n\n")[:-2]:
        choice = json.loads(event[6:])["choices"][0]
        found[choice["index"]] += choice["text"]
    check("echo in a stream", found == want, (found, want))
    logprobs(server)
    prompt_logprobs(server)
    vector = lambda text, **more: server.post("/embed", {"inputs": text, "truncate": True, "model": "bert", **more})[1][0]
    long, most = "a b " * 3000 + "hello", server.ask("GET", "/info")
    most = next(m["max_input_length"] for m in json.loads(most[2])["models"] if m["id"] == "bert")
    ids = [t["id"] for t in server.post("/tokenize", {"inputs": long, "model": "bert"})[1][0]]
    for direction, want in (("Right", ids[:most - 1] + ids[-1:]), ("left", ids[:1] + ids[1 - most:])):
        check(f"truncation_direction {direction}", vector(long, truncation_direction=direction) == vector(want), direction)
    status, answer = server.post("/embed", {"inputs": long, "truncate": True, "truncation_direction": "Left", "prompt_name": "query",
                                            "model": "prompted"})
    check("a prompt is not cut off", status == 400 and answer["error"]["param"] == "$.truncation_direction", answer)
    one, other = (server.post("/predict", {"inputs": x, "model": "labels"})[1] for x in ("good", "bad"))
    pair = [{"label": x["label"], "score": x["probability"]} for x in json.loads(command("classify", "-m", LABELS, "good", "bad", "--json"))["labels"]]
    for inputs, want in ((["good"], one), (["good", "bad"], pair), ([["good", "bad"], ["bad"], ["good"]], [pair, other, one])):
        status, answer = server.post("/predict", {"inputs": inputs, "model": "labels"})
        check(f"/predict {inputs}", status == 200 and answer == want, (answer, want))
    for inputs in ([], ["a", "b", "c"], [["a"], "b"], [["a", 5]], [[]], 5, [["a"], ["a", "b", "c"]]):
        status, answer = server.post("/predict", {"inputs": inputs, "model": "labels"})
        check(f"/predict {inputs}", status == 400 and answer["error"]["param"].startswith("$.inputs"), answer)
    query = {"query": "w a t", "model": "ranks"}
    score = lambda documents, **more: {x["index"]: x["relevance_score"] for x in server.post("/v2/rerank", {**query, "documents": documents, **more})[1]["results"]}
    check("max_tokens_per_doc", score(["a b a b", "a b"], max_tokens_per_doc=2) == score(["a b", "a b"]) != score(["a b a b", "a b"]))
    status, answer = server.post("/v2/rerank", {**query, "documents": ["a b a b"], "max_tokens_per_doc": 2, "return_documents": True})
    check("the document is returned whole", status == 200 and answer["results"][0]["document"] == {"text": "a b a b"}, answer)
    check("/decode", server.post("/decode", {"ids": ids[1:4], "model": "bert"}) == server.post("/detokenize", {"ids": ids[1:4], "model": "bert"}))


def same_logprobs(chat, completion):
    """Whether a chat, whose tokens are valid UTF-8, and a completion have the same log-probabilities."""
    names, values, tops = ([f(t) for t in chat] for f in (
        lambda t: t["token"], lambda t: t["logprob"], lambda t: {x["token"]: x["logprob"] for x in (t, *t["top_logprobs"])}))
    return (names, values, tops) == (completion["tokens"], completion["token_logprobs"], completion["top_logprobs"])


def logprobs(server):
    """Completions have the log-probabilities of the command in the arrays of OpenAI."""
    shown = [*range(33, 127), *range(161, 173), *range(174, 256)]  # bytes that a byte-level vocabulary writes as themselves
    of = {chr(b): b for b in shown} | {chr(256 + i): b for i, b in enumerate(b for b in range(256) if b not in shown)}
    word = lambda token: bytes(of[c] for c in token).decode()
    for prompt, sampling, options in (("Caf\u00e9 in the", {"temperature": 0}, ["-t", "0"]),
                                      ("And", {"temperature": 1.5, "seed": 8}, ["-t", "1.5", "--seed", "8"])):
        want = json.loads(command("generate", prompt, "-m", VERSE, "-n", "24", "--logprobs", "3", "--json", *options))
        body = {"prompt": prompt, "model": "verse", "max_tokens": 24, "logprobs": 3, **sampling}
        status, answer = server.post("/v1/completions", body)
        found = answer["choices"][0]["logprobs"]
        check("the members of logprobs", list(found) == ["tokens", "token_logprobs", "top_logprobs", "text_offset"], found)
        check("logprobs of the command", found["token_logprobs"] == [t["logprob"] for t in want["logprobs"]] and
              found["tokens"] == [word(t["token"]) for t in want["logprobs"]], (found, want))
        tops = [{word(x["token"]): x["logprob"] for x in (*t["top"], t)} for t in want["logprobs"]]
        check("the most likely tokens, and the token", found["top_logprobs"] == tops and
              (sampling["temperature"] == 0 or any(len(t) == 4 for t in tops)), (found["top_logprobs"], tops))
        whole, at = prompt + answer["choices"][0]["text"], [*found["text_offset"], None]
        check("text_offset counts the characters of prompt and text", len(found["tokens"]) == 24 and
              [whole[a:b] for a, b in zip(at, at[1:])] == found["tokens"], found)
        _, _, data = server.ask("POST", "/v1/completions", {**body, "stream": True})
        parts = [json.loads(e[6:])["choices"][0]["logprobs"] for e in data.decode().split("\n\n")[:-2]]
        check("logprobs in a stream", {name: [x for p in parts if p for x in p[name]] for name in found} == found, parts)
    both = {"prompt": "In the", "model": "verse", "max_tokens": 6, "temperature": 0, "logprobs": 2, "n": 2}
    status, answer = server.post("/v1/completions", {**both, "prompt": ["In the", "\u00e9"]})
    check("each prompt counts its own characters", [x["logprobs"]["text_offset"][0] for x in answer["choices"]] == [6, 6, 1, 1], answer)


def prompt_logprobs(server):
    """With echo, completions have the log-probabilities of the command for the tokens of their prompts."""
    prompts = ["In the beginning", "And the king said unto him,", "Blessed", "a " * 70]
    with open("prompts.txt", "w", encoding="utf-8") as f:
        f.writelines(p + "\n" for p in prompts)
    outputs = [json.loads(line) for line in command("generate", "-f", "prompts.txt", "-m", VERSE, "-n", "3", "-t", "0", "--echo",
                                                    "--logprobs", "2", "--json").decode().splitlines()]
    name = lambda token: token.replace("\u0120", " ")
    tops = lambda t: {name(x["token"]): x["logprob"] for x in (*t["top"], t)} if "top" in t else None
    want = [([name(t["token"]) for t in all], [t["logprob"] for t in all], [tops(t) for t in all])
            for all in (o["prompt_logprobs"] + o["logprobs"] for o in outputs)]
    check("the first token of a prompt has no log-probability", all(w[1][0] is None and None not in w[1][1:] for w in want), want)
    how = {"model": "verse", "echo": True, "logprobs": 2, "temperature": 0}
    parts = lambda x: (x["tokens"], x["token_logprobs"], x["top_logprobs"])
    for body in ({"prompt": prompts, "n": 2}, {"prompt": prompts[2]}, {"prompt": prompts[3]}):
        mine = want if isinstance(body["prompt"], list) else [want[prompts.index(body["prompt"])]]
        status, answer = server.post("/v1/completions", {**how, **body, "max_tokens": 3})
        found = answer["choices"]
        check("echo with logprobs", status == 200 and [parts(x["logprobs"]) for x in found] == [w for w in mine for _ in range(body.get("n", 1))],
              (found, mine))
        for x in found:
            at = x["logprobs"]["text_offset"]
            check("the text of an echo has its tokens at text_offset",
                  [x["text"][a:b] for a, b in zip(at, [*at[1:], None])] == ["", *x["logprobs"]["tokens"][1:]], x)
        status, only = server.post("/v1/completions", {**how, **body, "max_tokens": 0})
        check("max_tokens 0 reads only the prompt", status == 200 and only["usage"]["completion_tokens"] == 0 and
              [(x["text"], *parts(x["logprobs"]), x["finish_reason"]) for x in only["choices"]] ==
              [(p, *(m[:-3] for m in w), "length") for p, w in zip(body["prompt"] if isinstance(body["prompt"], list) else [body["prompt"]], mine)
               for _ in range(body.get("n", 1))], only)
        _, _, data = server.ask("POST", "/v1/completions", {**how, **body, "max_tokens": 3, "stream": True})
        joined = [{"text": "", "tokens": [], "token_logprobs": [], "top_logprobs": [], "text_offset": []} for _ in found]
        for event in data.decode().split("\n\n")[:-2]:
            choice = json.loads(event[6:])["choices"][0]
            joined[choice["index"]]["text"] += choice["text"]
            for key, values in (choice["logprobs"] or {}).items():
                joined[choice["index"]][key] += values
        check("echo with logprobs in a stream", joined == [{"text": x["text"], **x["logprobs"]} for x in found], (joined, found))
    ids = [[t["id"] for t in server.post("/tokenize", {"inputs": p, "model": "verse"})[1][0]] for p in prompts]
    for echo in (False, True):
        body = {**how, "echo": echo, "max_tokens": 3, "n": 2}
        same = lambda prompt: [{k: v for k, v in x.items()} for x in server.post("/v1/completions", {**body, "prompt": prompt})[1]["choices"]]
        check(f"token ids as prompts, echo {echo}", same(ids) == same(prompts) and same(ids[1]) == same(prompts[1]), same(ids))
    other = [*ids[0][1:], 5]  # without the start token
    status, answer = server.post("/v1/completions", {**how, "prompt": other, "max_tokens": 0})
    check("a prompt of token ids has no others", status == 200 and len(answer["choices"][0]["logprobs"]["tokens"]) == len(other) ==
          answer["usage"]["prompt_tokens"], answer)
    for wrong, message in (([5, 2048], "invalid token id in the prompt, expected 0 to 2047, found 2048"), ([5, -1], "element 1 is no token id"),
                           ([5, "a"], "element 1 is no token id"), ([[5], "a"], "element 1 has another type"),
                           ([5] * 256, "prompt too long, expected at most 255 tokens, found 256")):
        status, answer = server.post("/v1/completions", {"model": "verse", "prompt": wrong, "max_tokens": 1})
        check(f"{message}", status == 400 and message in answer["error"]["message"] and answer["error"]["param"] == "$.prompt", answer)
    status, answer = server.post("/v1/completions", {"model": "verse", "prompt": "a", "max_tokens": 0})
    check("max_tokens 0 without echo", status == 200 and answer["choices"][0]["text"] == "" and
          answer["choices"][0]["finish_reason"] == "length", answer)
    status, answer = server.post("/v1/completions", {**how, "prompt": "", "max_tokens": 0})
    check("an empty prompt has its start token", status == 200 and answer["choices"][0]["logprobs"]["token_logprobs"] == [None], answer)
    status, answer = server.post("/v1/chat/completions", {"model": "verse", "messages": [{"role": "user", "content": "a"}], "max_tokens": 0})
    check("a chat has one token or more", status == 400 and answer["error"]["param"] == "$.max_tokens", answer)


TEMPLATES = (
    ("{{ bos_token }}{% for message in messages %}{{ '<' + message['role'] + '> ' + message.content | trim + '\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}", "<|endoftext|><system> be kind\n<user> hello\n<assistant>"),
    ("{{ bos_token }}{%- if messages[0].role == 'system' %}\n  {%- set rest = messages[1:] %}\n[{{ messages[0].content.strip() }}]\n"
     "{%- else %}{% set rest = messages %}{% endif %}\n{%- for m in rest -%}\n {{ loop.index0 }}:{{ m.content.upper() }}{{ '' if loop.last else ',' }}"
     "{% endfor %} {# a comment #}\n{%- set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}{% endfor %} n={{ ns.n }}",
     "<|endoftext|>[be kind]0:HELLO  n=2"),
    ("{{- bos_token }}{% if tools is defined and tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}\n    {% if m.role not in ['user', 'system'] %}"
     "{{ raise_exception('role') }}{% endif %}\n{{ m['role'] ~ ':' ~ m['content'].split('l')[-1] }}{% endfor %}",
     "<|endoftext|>system:be kind user:o"))


def chats():
    """A chat has the answer of a completion of the prompt that its template makes."""
    shutil.copytree(VERSE, "sampled")
    with open("sampled/generation_config.json", "w", encoding="utf-8") as f:
        json.dump({"do_sample": True, "temperature": .9, "top_k": 2, "top_p": 1, "min_p": .3}, f)
    with Server("-q", models=["sampled", VERSE]) as server:  # do_sample of the folder, and requests without its limits
        text = lambda model, **how: server.post("/v1/completions", {"model": model, "prompt": "And", "max_tokens": 20, "seed": 3,
                                                                    **how})[1]["choices"][0]["text"]
        name = os.path.basename(VERSE)
        check("do_sample is the default", text("sampled") == text(name, temperature=.9, top_k=2, min_p=.3), text("sampled"))
        for none in (-1, 0):
            check("no limit", text("sampled", top_k=none, min_p=none) == text(name, temperature=.9) != text("sampled"), none)
        check("temperature 0", text("sampled", temperature=0) == text(name, temperature=0), text("sampled", temperature=0))
        status, answer = server.post("/v1/completions", {"model": name, "prompt": "And", "temperature": 1, "min_p": -.5})
        check("a min_p between -1 and 0", status == 400 and "min_p" in answer["error"]["message"], answer)
    commit = "0123456789abcdef0123456789abcdef01234567"  # a model that `qkv pull` stored
    shutil.copytree(VERSE, f"hub/models--org--verse/snapshots/{commit}")
    os.mkdir("hub/models--org--verse/refs")
    with open("hub/models--org--verse/refs/main", "w", encoding="utf-8") as f:
        f.write(commit)
    os.environ["HF_HUB_CACHE"] = os.path.abspath("hub")
    with Server("-q", models=["org/verse@main"]) as server:
        ids = [t["id"] for t in server.post("/tokenize", {"inputs": "\u00e9", "add_special_tokens": False})[1][0]]
        how = {"model": "org/verse", "prompt": "And", "max_tokens": 1, "temperature": 0, "logprobs": 1, "logit_bias": {ids[0]: 100}}
        status, answer = server.post("/v1/completions", how)
        check("the name of a pulled model", status == 200, answer)
        first = answer["choices"][0]["logprobs"]["tokens"]
        check("a token that is part of a character", len(ids) == 2 and first == ["bytes:\\xc3"], (ids, first))
    messages = [{"role": "system", "content": "be kind "}, {"role": "user", "content": "hello"}]
    for i, (template, prompt) in enumerate(TEMPLATES):
        folder = f"chat{i}"
        shutil.copytree(VERSE, folder)
        with open(f"{folder}/tokenizer_config.json", "w", encoding="utf-8") as f:
            json.dump({"chat_template": template, "bos_token": "<|endoftext|>", "model_max_length": 10 ** 30}, f)
    with open("chat2/chat_template.jinja", "w", encoding="utf-8") as f:
        f.write(TEMPLATES[2][0])
    shutil.copytree("chat0", "chat3")
    with open("chat3/chat_template.jinja", "w", encoding="utf-8") as f:
        f.write("{% macro f(x) %}{{ x }}{% endmacro %}")
    shutil.copytree("chat0", "chat4")
    with open("chat4/chat_template.jinja", "w", encoding="utf-8") as f:
        f.write("[{{ messages[0].content }}]")
    with Server("-q", models=["chat0", "chat1", "chat2", "chat3", "chat4"]) as server:
        for i, (_, prompt) in enumerate(TEMPLATES):
            how = {"model": f"chat{i}", "temperature": 0, "max_tokens": 8}
            # the tokenizer of verse puts <|endoftext|> before the text of a completion itself
            status, want = server.post("/v1/completions", {"prompt": prompt.removeprefix("<|endoftext|>"), "logprobs": 1, **how})
            status, found = server.post("/v1/chat/completions", {"messages": messages, "logprobs": True, "top_logprobs": 1, **how})
            check(f"chat template {i}", status == 200 and found["usage"] == want["usage"] and
                  same_logprobs(found["choices"][0]["logprobs"]["content"], want["choices"][0]["logprobs"]) and
                  found["choices"][0]["message"]["content"] == want["choices"][0]["text"], (found, want))
        # a prompt without bos_token gets none, as with add_special_tokens=False of transformers
        chat = {"messages": [{"role": "user", "content": "hello"}], "model": "chat4", "max_tokens": 1}
        count = len(server.post("/tokenize", {"inputs": "[hello]", "add_special_tokens": False})[1][0])
        status, answer = server.post("/v1/chat/completions", chat)
        check("a chat has the special tokens of its template only", status == 200 and answer["usage"]["prompt_tokens"] == count, answer)
        status, answer = server.post("/v1/chat/completions", {"messages": [{"role": "tool", "content": "x"}], "model": "chat2"})
        check("a template refuses messages", status == 400 and "refuses the messages: role" in answer["error"]["message"], answer)
        status, answer = server.post("/v1/chat/completions", {"messages": messages, "model": "chat3"})
        check("an unsupported statement is named", status == 422 and "'macro' is not supported" in answer["error"]["message"], answer)
        status, answer = server.post("/v1/chat/completions", {"messages": [{"role": "user"}], "model": "chat0"})
        check("a message without content", status == 400 and answer["error"]["param"] == "$.messages", answer)
        text = lambda content: server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": content}], "max_tokens": 4,
                                                                    "temperature": 0, "logprobs": True, "model": "chat1"})
        part = lambda t: {"type": "text", "text": t}
        same = lambda a, b: (a[0], a[1]["choices"], a[1]["usage"]) == (200, b[1]["choices"], b[1]["usage"])
        for parts, want in (([part("hello king")], "hello king"), ([part("hello"), part("king")], "hello\nking"), ([part("")], "")):
            check(f"parts of a message {parts}", same(text(parts), text(want)), text(parts))
        check("parts are not lost", not same(text([part("hello"), part("king")]), text("hello")))
        for content in ([], [{}], [5], ["a"], [part("a"), {"type": "image_url", "image_url": {"url": "x"}}], [part(5)], {"text": "a"}, None):
            status, answer = text(content)
            want = f"message 1: part {len(content)} is no text" if isinstance(content, list) and content else "message 1: expected content"
            check(f"the content {content}", status == 400 and want in answer["error"]["message"], answer)
        status, answer = server.post("/v1/chat/completions", {"messages": [], "model": "chat0"})
        check("no messages", status == 400 and "found none" in answer["error"]["message"], answer)
        status, answer = server.post("/v1/chat/completions", {"messages": messages, "tools": [], "model": "chat0"})
        check("tools are refused by name", status == 400 and "$.tools" in answer["error"]["message"], answer)


def leaves(server):
    """H15: a generation ends when the client of its stream leaves."""
    body = json.dumps({**ENDLESS, "stream": True, "model": "verse"}).encode()
    data = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
    for how in ("close", "reset", "half"):
        leave(server, how, data + body, True)


def ends():
    """SIGTERM lets the running requests end, and refuses others."""
    server = Server("-q", models=[f"verse={VERSE}"])
    result = {}
    tokens = 250 if os.environ.get("QKV_SLOW", "OFF") in ("", "OFF") else 40  # the server waits at most 30 seconds

    def ask():
        result["answer"] = server.ask("POST", "/v1/completions", {"prompt": "a", "max_tokens": tokens, "n": 8, "ignore_eos": True})
    t = threading.Thread(target=ask)
    t.start()
    wait_jobs(server, 1)
    code = server.stop()
    t.join()
    check("a running request is finished after SIGTERM", code == 0 and result["answer"][0] == 200 and
          json.loads(result["answer"][2])["usage"]["completion_tokens"] == 8 * tokens, result)


def secret():
    """A token, and its place."""
    with open("token", "w", encoding="utf-8") as f:
        f.write("0123456789abcdef\n")
    with Server("-q", "--token-file", "token", models=[BERT]) as server:
        for value, want in ((None, 401), ("Bearer 0123456789abcdeg", 401), ("Bearer 0123456789abcdef0", 401), ("Bearer ", 401),
                            ("Basic 0123456789abcdef", 401), ("Bearer 0123456789abcdef", 200)):
            status, fields, _ = server.ask("GET", "/info", None, {"Authorization": value} if value else {})
            check(f"H18 Authorization: {value}", status == want and ("www-authenticate" in fields) == (want == 401), status)
        check("H18 /health needs no token", server.ask("GET", "/health")[0] == 200)


def metrics():
    """The counters are Prometheus text: families with a type, each before its samples, and labels with its three escapes."""
    names = ["plain", "tab\tquote\"back\\slash", "two\nlines", "uml\u00e4ut \x01"]
    with Server("-q", models=[f"{n}={BERT}" for n in names]) as server:
        server.post("/embed", {"inputs": "hello"})
        _, fields, data = server.ask("GET", "/metrics")
        check("the type of /metrics", fields["content-type"] == "text/plain; version=0.0.4; charset=utf-8", fields)
        kinds, models, seen = {}, [], set()
        label = re.compile(r'\{(\w+)="((?:[^"\\\n]|\\[\\"n])*)"\}')
        text = data.decode()
        for line in text[:-1].split("\n"):
            name, _, value = line.rpartition(" ")
            if line.startswith("# "):
                _, what, family, rest = line.split(" ", 3)
                kinds[family] = rest if what == "TYPE" else None
                continue
            family = re.match(r"[a-z_]+", name)[0]
            found = label.fullmatch(name[len(family):])
            check(f"a sample: {line}", kinds.get(family) in ("counter", "gauge") and float(value) >= 0 and name not in seen and
                  (found or name == family) and (kinds[family] == "counter") == family.endswith("_total"), kinds)
            seen.add(name)
            if found and found[1] == "model":
                models.append(re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], found[2]))
        check("names of models", models == names and text.endswith("\n"), models)
        check("a request is counted", 'qkv_requests_total{path="/embed"} 1\n' in text, text)


def main():
    with open("two.txt", "w", encoding="utf-8") as f:
        f.write("good\nbad\n")
    shutil.copytree(BERT, "prompted")
    with open("prompted/config_sentence_transformers.json", "w", encoding="utf-8") as f:
        json.dump({"prompts": {"query": "a c "}}, f)
    vectors, outputs = expected()
    with Server("-q", models=[f"bert={BERT}", f"verse={VERSE}", f"labels={LABELS}", f"ranks={RANKS}", "prompted"]) as server:
        forms(server)
        members(server)
        equal_command(server)
        load(server, vectors, outputs)
        leaves(server)
        used, most = [], 0.01 if os.environ.get("QKV_SLOW") == "thread" else 0.001  # ThreadSanitizer has a thread of its own
        while len(used) < 5 and min(used, default=1) >= most:  # a job that has just ended may still count in the first
            before = server.cpu_seconds()
            time.sleep(2)
            used.append(server.cpu_seconds() - before)
        check("an idle server uses no CPU", min(used) < most, used)
    if not SECONDS:
        chats()
        ends()
        secret()
        metrics()
    finish()


main()
