# SPDX-License-Identifier: MIT
"""serve_official.py: the clients of OpenAI and Cohere read from `qkv serve` what the command prints, bit for bit.

    serve_official.py BERT VERSE CHAT RANKS     CHAT: VERSE with a chat template; RANKS: a model with one label
"""
import base64
import json
import struct
import subprocess
import sys

import cohere
import openai

from serve_client import BIN, Server, check, finish

BERT, VERSE, CHAT, RANKS = sys.argv[1:]
TEXTS = ["hello", "a b", "the king said unto him"]
PROMPT = "In the beginning"
MESSAGES = [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hello"}]
# what the template of CHAT makes of them, without the first token, which the tokenizer of VERSE adds
CHAT_PROMPT = "<system> be kind\n<user> hello\n<assistant>"


def command(*args):
    """The JSON lines that the command prints."""
    lines = subprocess.run([BIN, *args, "--json"], capture_output=True, check=True).stdout.decode().splitlines()
    return [json.loads(line) for line in lines]


def bits(numbers):
    return struct.pack(f"<{len(numbers)}f", *numbers)


def embeddings(c):
    with open("texts", "w", encoding="utf-8") as f:
        f.write("\n".join(TEXTS) + "\n")
    want = [x["vector"] for x in command("embed", "-m", BERT, "-f", "texts")]
    for how in ({}, {"encoding_format": "float"}):  # without a format the client asks for base64 and decodes it
        got = c.embeddings.create(input=TEXTS, model="bert", **how)
        check(f"openai: embeddings {how}", [bits(x.embedding) for x in got.data] == [bits(v) for v in want] and
              [x.index for x in got.data] == [0, 1, 2] and got.usage.prompt_tokens > 3, got)
    got = c.embeddings.create(input=TEXTS[0], model="bert", encoding_format="base64")
    text = got.data[0].embedding
    check("openai: base64", isinstance(text, str) and base64.b64decode(text) == bits(want[0]), text)
    got = c.embeddings.create(input=TEXTS, model="bert", dimensions=8)
    for found, whole in zip(got.data, want):
        length = sum(x * x for x in whole[:8]) ** .5
        check("openai: dimensions", len(found.embedding) == 8 and
              all(abs(x - y / length) < 1e-6 for x, y in zip(found.embedding, whole)), found)
    ids = command("tokenize", "-m", BERT, TEXTS[0])[0]["ids"]
    got = c.embeddings.create(input=ids, model="bert")
    check("openai: token ids", bits(got.data[0].embedding) == bits(want[0]), got)


def streamed(events, text):
    """The text of a stream, and why it ended."""
    parts, reasons, usage = [], [], None
    for e in events:
        usage = e.usage or usage
        for x in e.choices:
            parts.append(text(x) or "")
            reasons += [x.finish_reason] if x.finish_reason else []
    return "".join(parts), reasons, usage


def completions(c):
    for tokens, how, options in ((12, {"temperature": 0}, ["-t", "0"]),
                                 (20, {"temperature": .9, "seed": 3}, ["-t", "0.9", "--seed", "3"])):
        want = command("generate", PROMPT, "-m", VERSE, "-n", str(tokens), *options)[-1]["text"]
        body = {"model": "verse", "prompt": PROMPT, "max_tokens": tokens, **how}
        got = c.completions.create(**body)
        check(f"openai: completions {how}", got.choices[0].text == want and len(want) > 8 and
              got.choices[0].finish_reason == "length" and got.usage.completion_tokens == tokens, (got, want))
        logged = c.completions.create(**body, logprobs=2).choices[0].logprobs
        check("openai: logprobs of completions", "".join(logged.tokens) == want and len(logged.token_logprobs) == tokens and
              logged.text_offset[0] == len(PROMPT) and all(t in top for t, top in zip(logged.tokens, logged.top_logprobs)), logged)
        read = c.completions.create(model="verse", prompt=PROMPT, max_tokens=0, echo=True, logprobs=1).choices[0]
        values = [t["logprob"] for t in command("generate", PROMPT, "-m", VERSE, "-n", "0", "--echo", "--logprobs", "1")[0]["prompt_logprobs"]]
        check("openai: logprobs of the prompt", read.text == PROMPT and read.logprobs.token_logprobs == values and
              read.logprobs.top_logprobs[0] is values[0] is None and read.finish_reason == "length", read)
        text, reasons, usage = streamed(c.completions.create(**body, stream=True, stream_options={"include_usage": True}), lambda x: x.text)
        check(f"openai: completions as a stream {how}", (text, reasons) == (want, ["length"]) and
              usage.completion_tokens == tokens, (text, reasons, usage))


def chats(c):
    for how, options in (({"temperature": 0}, ["-t", "0"]), ({"temperature": .9, "seed": 5}, ["-t", "0.9", "--seed", "5"])):
        want = command("generate", CHAT_PROMPT, "-m", VERSE, "-n", "16", *options)[-1]["text"]
        body = {"model": "chat", "messages": MESSAGES, "max_completion_tokens": 16, **how}
        got = c.chat.completions.create(**body)
        check(f"openai: chat {how}", got.choices[0].message.content == want and len(want) > 8 and
              got.choices[0].message.role == "assistant", (got, want))
        text, reasons, _ = streamed(c.chat.completions.create(**body, stream=True), lambda x: x.delta.content)
        check(f"openai: chat as a stream {how}", text == want and len(reasons) == 1, (text, want))


def openai_errors(c):
    check("openai: the list of models", [m.id for m in c.models.list().data] == ["bert", "verse", "chat", "ranks"])
    check("openai: one model", c.models.retrieve("verse").id == "verse")
    for kind, act in ((openai.NotFoundError, lambda: c.embeddings.create(input="a", model="none")),
                      (openai.BadRequestError, lambda: c.embeddings.create(input=[], model="bert")),
                      (openai.BadRequestError, lambda: c.completions.create(model="verse", prompt="a", max_tokens=-1))):
        try:
            act()
            check(f"openai: {kind.__name__}", False)
        except openai.APIStatusError as e:
            check(f"openai: {kind.__name__}", isinstance(e, kind) and e.body["message"], e)


def rankings(server):
    c = cohere.ClientV2(api_key="none", base_url=f"http://127.0.0.1:{server.port}")
    documents = ["king", "the a", "a b"]
    with open("pairs", "w", encoding="utf-8") as f:
        f.writelines(f"water\t{d}\n" for d in documents)
    scores = [x["labels"][0]["probability"] for x in command("classify", "-m", RANKS, "--pairs", "-f", "pairs")]
    want = sorted(enumerate(scores), key=lambda x: -x[1])
    for top in (1, 3):
        got = c.rerank(model="ranks", query="water", documents=documents, top_n=top)
        check(f"cohere: rerank, top {top}", [(x.index, x.relevance_score) for x in got.results] == want[:top], (got, want))
    try:  # the server has no vectors in the form of Cohere
        c.embed(model="bert", texts=["a"], input_type="search_query", embedding_types=["float"])
        check("cohere: embed", False)
    except cohere.NotFoundError as e:
        check("cohere: embed is refused", "/v1/embeddings" in str(e.body), e.body)


with Server("-q", models=[f"bert={BERT}", f"verse={VERSE}", f"chat={CHAT}", f"ranks={RANKS}"]) as served:
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{served.port}/v1", api_key="none", max_retries=0)
    for part in (embeddings, completions, chats, openai_errors):
        part(client)
    rankings(served)
    check("the server ends", served.stop() == 0)
finish()
