# SPDX-License-Identifier: MIT
"""serve_faults.py: texts that are too long for the model, and requests with a member that is at fault: each answer names
the member.

    serve_faults.py BERT RANKS

BERT: an encoder; RANKS: a folder with one label.
"""
import json
import shutil
import sys

from serve_client import Server, check, finish

LONG = "a b " * 3000


def rankings(server):
    """A ranking of documents cuts long ones, as Cohere; one of texts refuses them, as text-embeddings-inference."""
    def scores(member, texts, **more):
        status, answer = server.post("/rerank", {"query": "w a t", "model": "ranks", member: texts, **more})
        if status != 200:
            return status, answer["error"]["param"]
        found = answer["results"] if member == "documents" else answer
        return sorted((x["index"], x.get("score", x.get("relevance_score"))) for x in found)

    cut = scores("documents", ["a b", LONG])
    check("documents are cut", len(cut) == 2 and cut[1] == scores("documents", ["a b", LONG, "a"])[1] and cut[1][1] != cut[0][1], cut)
    for member, more, want in (
            ("documents", {"truncate": True}, cut), ("documents", {"truncate": None}, cut), ("texts", {"truncate": True}, cut),
            ("documents", {"truncate": False}, (400, "$.documents[1]")), ("texts", {}, (400, "$.texts[1]")),
            ("texts", {"truncate": False}, (400, "$.texts[1]")), ("texts", {"truncate": None}, (400, "$.texts[1]")),
            ("documents", {"truncate": 1}, (400, "$.truncate"))):
        found = scores(member, ["a b", LONG], **more)
        check(f"{member} that are too long, {more}", found == want, found)
    short = scores("documents", ["a b", "a b a"])
    for more in ({}, {"truncate": False}):
        found = scores("documents", ["a b", LONG], max_tokens_per_doc=3, **more)
        check(f"max_tokens_per_doc cuts first, {more}", found == short != cut, (found, short))
    found = scores("texts", ["a"] * 70 + [LONG] + ["a"] * 3)
    check("the text is counted in all of a ranking, not in a batch", found == (400, "$.texts[70]"), found)
    found = scores("texts", LONG)
    check("a text without an array", found == (400, "$.texts"), found)


def faults(server):
    long, ids, query = "\u00e4\u65e5" * 3000, [5] * 300, {"query": "w", "model": "ranks"}
    for path, body, param, says in (
            ("/embed", {"inputs": LONG, "truncate": True, "truncation_direction": "Left", "prompt_name": "query", "model": "prompted"},
             "truncation_direction", "a prompt"),
            ("/embed", {"inputs": LONG, "truncation_direction": "Left", "prompt_name": "query", "model": "prompted"}, "inputs", "truncate"),
            ("/embed", {"inputs": "a", "truncation_direction": "", "model": "bert"}, "truncation_direction", "found \"\""),
            ("/embed", {"inputs": "a", "truncation_direction": long, "model": "bert"}, "truncation_direction", "expected"),
            ("/embed", {"inputs": "a", "truncation_direction": 5, "model": "bert"}, "truncation_direction", "an integer"),
            ("/embed", {"inputs": "a", "prompt_name": long, "model": "prompted"}, "prompt_name", "unknown prompt"),
            ("/embed", {"inputs": "a", "prompt_name": ["query"], "model": "prompted"}, "prompt_name", "an array"),
            ("/embed", {"inputs": ["a", None], "model": "bert"}, "inputs", "element 1 has another type"),
            ("/embed", {"inputs": [[5], ids], "truncate": True, "model": "bert"}, "inputs", "list of token ids 2 is too long"),
            ("/v1/embeddings", {"input": ids, "model": "bert"}, "input", "list of token ids 1 is too long"),
            ("/v1/embeddings", {"input": [[5], []], "model": "bert"}, "input", "list of token ids 2 is empty"),
            ("/rerank", query, "texts", "expected texts or documents"),
            ("/v2/rerank", {**query, "documents": None}, "texts", "expected texts or documents"),
            ("/v2/rerank", {**query, "documents": []}, "documents", "the array is empty"),
            ("/v2/rerank", {**query, "documents": {}}, "documents", "an object"),
            ("/v2/rerank", {**query, "documents": ["a", 5]}, "documents", "expected only texts"),
            ("/v2/rerank", {**query, "documents": ["a"], "query": None}, "query", "missing"),
            ("/rerank", {**query, "query": "a b " * 100, "texts": ["a", "b"]}, "query", "too long"),
            ("/v1/attention", {"input": "a b", "layers": [0, 9], "model": "bert"}, "layers", "below 2, found 9"),
            ("/v1/attention", {"input": "a b", "rows": [99], "model": "bert"}, "rows", "found 99"),
            ("/v2/rerank", {**query, "documents": ["a"], "max_tokens_per_doc": "3"}, "max_tokens_per_doc", "a text"),
            ("/v2/rerank", {**query, "documents": ["a"], long: 5}, "", "no member of this request has this name")):
        status, answer = server.post(path, body)
        error = answer["error"] if status == 400 else {"param": "", "message": ""}
        check(f"{path} {str(body)[:100]}", (error["param"] == f"$.{param}" if param else error["param"].startswith("$.")) and
              says in error["message"], (status, str(answer)[:300]))
    for path, body, without in (("/v2/rerank", {**query, "documents": ["a", 5]}, "ids"),
                                ("/embed", {"inputs": ids, "model": "bert"}, "truncate")):
        status, answer = server.post(path, body)
        check(f"{path} does not offer {without}", status == 400 and without not in answer["error"]["message"], answer)


def main():
    shutil.copytree(sys.argv[1], "prompts")
    with open("prompts/config_sentence_transformers.json", "w", encoding="utf-8") as f:
        json.dump({"prompts": {"query": "a c "}}, f)
    with Server("-q", models=[f"bert={sys.argv[1]}", f"ranks={sys.argv[2]}", "prompted=prompts"]) as server:
        rankings(server)
        faults(server)
    finish()


main()
