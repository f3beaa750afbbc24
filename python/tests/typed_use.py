# SPDX-License-Identifier: MIT
"""Uses of the public functions for a type checker: each comment `type: ignore` is an error that it has to find."""
from typing import Any, List, Tuple

import qkv

view: qkv.View = qkv.view("a text", model="models/verse", heads=[1], progress=lambda what, done, total: None)
page: Tuple[str, dict] = view.html()
view.save(3)  # type: ignore[arg-type]
qkv.view("a text", layer="1")  # type: ignore[arg-type]
qkv.view("a text", layers=1)  # type: ignore[call-arg]

model = qkv.SentenceTransformer("models/all-MiniLM-L6-v2", truncate_dim=64)
vectors: Any = model.encode(["a", "b"], show_progress_bar=True)
model.encode(["a"], batch_size="32")  # type: ignore[arg-type]
model.encode(inputs="a", output_value=None, pool=model.start_multi_process_pool())
model.nothing  # type: ignore[attr-defined]
model.max_seq_length = 12
qkv.SentenceTransformer("org/name", revision="v2", token=3)  # type: ignore[arg-type]
hits: List[List[dict]] = qkv.util.semantic_search(vectors, vectors, top_k=3)
ranks: List[dict] = qkv.CrossEncoder("folder").rank("a", ["b"])

encoding: qkv.Encoding = qkv.Tokenizer("models/verse").encode("a")
ids: List[int] = encoding.ids
wrong: str = encoding.ids  # type: ignore[assignment]

effects: qkv.Effects = qkv.ablate("a text", kind="mean")
attribution: qkv.Attribution = qkv.attribute("a text", "another", model="all-MiniLM-L6-v2")
loss: float = qkv.train("run", ["book.txt"], steps=3, step=lambda s: print(s.loss)).loss
qkv.generate("a", stop="b", max_tokens=3)
qkv.generate(3)  # type: ignore[arg-type]
n: int = qkv.threads()
qkv.set_threads("2")  # type: ignore[arg-type]
gradients: qkv.Gradients = qkv.attention_backward(1, 2, 3, 4, 5, 6)
qkv.attention(1, 2, 3, causal="yes")  # type: ignore[arg-type]
qkv.nothing  # type: ignore[attr-defined]
try:
    qkv.set_isa("no")
except qkv.UsageError as error:
    place: ValueError = error
