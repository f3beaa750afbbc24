# SPDX-License-Identifier: MIT
"""Attention as a picture: in a notebook, in the terminal, as an HTML page, SVG or PNG (include/qkv/view.h)."""
import ctypes
import html
import os
import tempfile
from typing import Any, List, Optional, Sequence, Tuple, Union

from . import _layout as c
from ._array import Array, _numpy, make
from ._errors import DtypeError, LimitError, UnsupportedError, UsageError
from ._library import Handle, call, choice, function_or_none, integer, lib, list_of, shown, text
from ._tokenizer import utf8
from ._types import ArrayLike, Path, Progress

BUDGET = 2_000_000  # bytes of a page in a notebook, which stores what it shows
THEMES = {"auto": c.THEME_AUTO, "light": c.THEME_LIGHT, "dark": c.THEME_DARK}
PICTURES = (".svg", ".png")


class View(Handle):
    """The attention of a text.  A notebook shows it as a page, a terminal as text; save() writes a file."""
    _close = "view_free"

    def __init__(self):
        super().__init__()
        self._keep, self.options, self.budget, self.height = [], {}, BUDGET, 640
        self._missing = {}  # {view: why it cannot be shown}
        self.stacks = []  #: of each stack (name, rows, keys, layers, heads)

    def __repr__(self):
        return self.terminal() if self._pointer else "View(closed)"

    def _options(self, **more):
        """Returns struct qkv_view_options with what is shown first."""
        o, given = c.ViewOptions(), {**self.options, **more}
        o.kept = []  # the numbers that o points to live as long as o
        for name in ("layer", "token"):
            if given.get(name) is not None:
                number = ctypes.c_int64(integer(given[name], name))
                o.kept.append(number)
                setattr(o, name, ctypes.addressof(number))
        if given.get("heads") is not None:
            heads = given["heads"]
            if isinstance(heads, str) or not hasattr(heads, "__iter__"):
                raise UsageError(f"heads: expected a list of integers, found {shown(heads)}")
            heads = [integer(h, "heads") for h in heads]
            array = (ctypes.c_int64 * len(heads))(*heads)
            o.kept.append(array)
            o.heads, o.head_count = ctypes.addressof(array), len(heads)
        if given.get("view") is not None:
            missing = self._missing.get(given["view"]) if isinstance(given["view"], str) else None
            if missing:
                raise UnsupportedError(f"view {given['view']!r}: {missing}")
            o.view = text(given["view"], "view")  # ctypes keeps the bytes
        o.theme = choice(given.get("theme", "auto"), "theme", THEMES)
        o.special, o.utf8 = bool(given.get("special")), True
        o.stack = self._first_stack(given.get("view")) if given.get("stack") is None else integer(given["stack"], "stack")
        o.columns = integer(given.get("columns", 0), "columns", 0, 10000)
        o.budget = integer(given.get("budget", 0), "budget", 0)
        return o

    def _first_stack(self, view):
        """Returns the stack shown first: of an encoder-decoder cross-attention or, of the residual stream, the decoder."""
        name = "decoder" if view == "residual" else "cross"
        return next((i for i, s in enumerate(self.stacks) if s[0] == name), 0)

    def terminal(self, columns: int = 0, view: Optional[str] = None) -> str:
        """Returns the picture for a terminal; columns 0: 80."""
        out = ctypes.c_void_p()
        more = {"columns": columns} if view is None else {"columns": columns, "view": view}
        call(lib.view_terminal, self._at, ctypes.byref(out), ctypes.byref(self._options(**more)))
        try:
            return ctypes.string_at(out).decode("utf-8", "replace")
        finally:
            lib.view_text_free(out)

    def save(self, path: Path, *, force: bool = False, view: Optional[str] = None, budget: int = 0) -> None:
        """Writes the view as .html, .svg or .png, completely or not at all; force replaces an existing file.

        budget: maximum bytes of an HTML file; 0: 16,000,000.
        """
        raw, more = text(path, "path"), {} if view is None else {"view": view}
        ending = os.path.splitext(os.fsdecode(raw))[1].lower()
        if ending not in (".html", *PICTURES):
            raise UsageError(f"path: expected a name that ends with .html, .svg or .png, found {shown(path)}")
        if not force and os.path.lexists(raw):
            raise UsageError(f"{shown(path)}: file exists already, expected force=True to replace it, or a new name")
        if ending == ".html":
            o = self._options(budget=budget, **more)
            call(lib.view_html, self._at, raw, bool(force), ctypes.byref(o), None)
        else:
            call(lib.view_picture, self._at, raw, bool(force), ctypes.byref(self._options(**more)), None)

    def html(self, budget: int = 0) -> Tuple[str, dict]:
        """Returns (page, report): the HTML page as a str, and what it stores (struct qkv_view_report)."""
        report = c.ViewReport()
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "view.html")
            o = self._options(budget=budget)
            call(lib.view_html, self._at, os.fsencode(path), False, ctypes.byref(o), ctypes.byref(report))
            with open(path, encoding="utf-8") as f:
                return f.read(), {name: getattr(report, name) if name != "kind" else report.kind.decode()
                                  for name, _ in report._fields_}

    def head(self, layer: int, head: int, stack: int = 0) -> dict:
        """Returns the statistics of a head: kind, strength, word, effective_keys, distance, focus, special."""
        h = lib.view_head(self._at, *self._place(stack, layer, head))
        return {name: getattr(h, name) if name != "kind" else (h.kind or b"").decode() for name, _ in h._fields_}

    def _place(self, stack, layer, head):
        stack = integer(stack, "stack", 0, len(self.stacks) - 1)
        _, _, _, layers, heads = self.stacks[stack]
        return stack, integer(layer, "layer", 0, layers - 1), integer(head, "head", 0, heads - 1)

    def weights(self, layer: int, head: int, stack: int = 0) -> Any:
        """Returns the weights [rows][keys] of a head; of a long text only the largest of each row, the others as 0."""
        stack, layer, head = self._place(stack, layer, head)
        _, rows, keys, _, _ = self.stacks[stack]
        found, array = make(None, (rows, keys), "f32")
        for row in range(rows):
            lib.view_row(self._at, array.at + 4 * keys * row, stack, layer, head, row)
        return found

    def _repr_mimebundle_(self, include=None, exclude=None):
        """Returns text/plain and text/html for Jupyter, Colab and VS Code."""
        return {"text/plain": self.terminal(), "text/html": self._repr_html_()}

    def _repr_html_(self):
        try:
            page, report = self.html(self.budget)
        except LimitError as error:
            return (f"<pre>{html.escape(self.terminal())}</pre><p>The page is over the budget of {self.budget:,} bytes "
                    f"({html.escape(str(error))}): set budget=, or call save().</p>")
        note = f"{report['bytes']:,} bytes of at most {self.budget:,} (budget=)"
        if report["kind"] == "top":
            note += f"; the {report['top']} largest weights of each row, {report['kept']:.0%} of its weight"
        return (f'<iframe srcdoc="{html.escape(page)}" style="width:100%;height:{self.height}px;border:1px solid #8884" '
                f'title="attention"></iframe><p style="font:11px sans-serif;opacity:.7">qkv: {note}</p>')


def make_text(tokens, sources):
    """Returns (struct qkv_view_text, objects to keep) of tokens (raw, part, special, begin, end)."""
    array, keep = (c.ViewToken * len(tokens))(), []
    texts = [ctypes.create_string_buffer(s) if s is not None else None for s in sources]
    for to, (raw, part, special, begin, end) in zip(array, tokens):
        to.raw, to.part, to.special, to.begin, to.end = raw, part, special, begin, end
        keep.append(raw)
        if texts[part] is not None and end > begin:
            at = ctypes.addressof(texts[part]) + begin
            ctypes.memmove(ctypes.addressof(to) + c.ViewToken.text.offset, ctypes.byref(ctypes.c_void_p(at)), 8)
            to.text_bytes = end - begin
    shown_text = c.ViewText(token=ctypes.addressof(array), tokens=len(tokens))
    for i, buffer in enumerate(texts):
        if buffer is not None:
            place = ctypes.addressof(shown_text) + c.ViewText.source.offset + 8 * i
            ctypes.memmove(place, ctypes.byref(ctypes.c_void_p(ctypes.addressof(buffer))), 8)
            shown_text.source_bytes[i] = len(sources[i])
    return shown_text, [array, keep, texts]


def new_view(model, texts, stacks):
    """Makes a View of stacks (struct qkv_view_stack) on texts (struct, keep)."""
    made = View()
    array, of = (c.ViewText * len(texts))(*[t for t, _ in texts]), (c.ViewStack * len(stacks))(*stacks)
    name = utf8(model, "model").replace(b"\0", b"?")
    shape = c.ViewShape(model=name, text=ctypes.addressof(array), texts=len(texts), stack=ctypes.addressof(of), stacks=len(stacks))
    made._keep += [array, texts, stacks, of, name, shape]
    call(lib.view_new, ctypes.byref(made._pointer), ctypes.byref(shape))
    made.stacks = [(s.name.decode(), texts[s.rows][0].tokens, texts[s.keys][0].tokens, s.layers, s.heads) for s in stacks]
    return made


def view(text: Union[str, Sequence[ArrayLike], None] = None, pair: Union[str, Sequence[str], None] = None, sentence_b_start: Optional[int] = None,
         prettify_tokens: bool = True, layer: Optional[int] = None, heads: Optional[Sequence[int]] = None,
         encoder_attention: Optional[Sequence[ArrayLike]] = None, decoder_attention: Optional[Sequence[ArrayLike]] = None,
         cross_attention: Optional[Sequence[ArrayLike]] = None, encoder_tokens: Optional[Sequence[str]] = None,
         decoder_tokens: Optional[Sequence[str]] = None, include_layers: Optional[Sequence[int]] = None, html_action: str = "view", *,
         model: Any = None, tokenizer: Any = None, attentions: Optional[Sequence[ArrayLike]] = None, tokens: Optional[Sequence[str]] = None,
         key_tokens: Optional[Sequence[str]] = None, encoder_attentions: Optional[Sequence[ArrayLike]] = None,
         decoder_attentions: Optional[Sequence[ArrayLike]] = None, cross_attentions: Optional[Sequence[ArrayLike]] = None,
         stack: Optional[int] = None, token: Optional[int] = None, view: Optional[str] = None, special: bool = False, theme: str = "auto",
         budget: int = BUDGET, height: int = 640, progress: Progress = None, attention: Optional[Sequence[ArrayLike]] = None) -> View:
    """Shows attention as a picture: of a model on a text, or of weights from any source.

        qkv.view("time flies like an arrow", "fruit flies like a banana", model="models/all-MiniLM-L6-v2")
        qkv.view("time flies like an arrow", model=model, tokenizer=tokenizer)      # a model of transformers
        qkv.view(attentions=outputs.attentions, tokens=tokens)      # as bertviz.head_view(attentions, tokens)

    model        folder, or name in Hugging Face's cache or $QKV_MODELS; None: the first model that is installed; or a
                 model of transformers, which runs with the attention "qkv", also of a family that qkv does not know
    tokenizer    of a model of transformers: its tokenizer, or a qkv.Tokenizer
    pair         the second text; of an encoder-decoder its output, None: what it generates
    attentions   a list of one array [1][heads][rows][keys] (or [heads][rows][keys]) per layer
    tokens       names of the rows; key_tokens: names of the keys, if they are other tokens (cross-attention)
    encoder_attentions, decoder_attentions, cross_attentions, encoder_tokens, decoder_tokens
                 the same of an encoder-decoder, as transformers and bertviz.head_view name them; any of the three
    sentence_b_start   index of the first token of the second text
    prettify_tokens    True: the marks of spaces and word ends in tokens (Ġ, ▁, </w>) are not shown
    stack, layer, heads, token, view, special, theme   what is shown first; stacks are "encoder", "decoder", "cross"
    budget       maximum bytes of the page in a notebook
    progress     function(what, done, total); True as its result stops the run
    attention, encoder_attention, decoder_attention, cross_attention
                 as BertViz names the arrays; a list of arrays as `text`, tokens as `pair`, and the arguments after them have
                 the order of bertviz.head_view
    include_layers   the first of them is shown first; the page has every layer
    html_action  no effect: "view" and "return" return the View
    """
    if text is not None and not isinstance(text, str):
        if isinstance(text, bytes) or not hasattr(text, "__iter__"):
            raise UsageError(f"text: expected a str, or a list of arrays, found {shown(text)}")
        attentions, text = one_of("attentions", attentions, text), None
        tokens, pair = one_of("tokens", tokens, pair), None
    attentions = one_of("attentions", attentions, attention)
    encoder_attentions = one_of("encoder_attentions", encoder_attentions, encoder_attention)
    decoder_attentions = one_of("decoder_attentions", decoder_attentions, decoder_attention)
    cross_attentions = one_of("cross_attentions", cross_attentions, cross_attention)
    choice(html_action, "html_action", dict.fromkeys(("view", "return")))
    if include_layers is not None:
        included = [integer(n, "include_layers") for n in list_of(include_layers, "include_layers")]
        layer = included[0] if layer is None and included else layer
    several = [x for x in (encoder_attentions, decoder_attentions, cross_attentions) if x is not None]
    if (text is not None) + (attentions is not None) + bool(several) != 1:
        raise UsageError("view: expected a text, or attentions with tokens")
    check_used("a text", text is not None, pair=pair, model=model, tokenizer=tokenizer, progress=progress)
    check_used("attentions", attentions is not None, tokens=tokens, key_tokens=key_tokens, sentence_b_start=sentence_b_start)
    check_used("the attentions of an encoder-decoder", bool(several), encoder_tokens=encoder_tokens, decoder_tokens=decoder_tokens)
    function_or_none(progress, "progress")
    token = None if token is None else integer(token, "token")
    if attentions is not None:
        made = view_of_weights(attentions, tokens, key_tokens, sentence_b_start, prettify_tokens)
    elif several:
        made = view_of_stacks((encoder_attentions, decoder_attentions, cross_attentions), encoder_tokens, decoder_tokens,
                              prettify_tokens)
    elif tokenizer is not None or hasattr(model, "set_attn_implementation"):
        from ._view_model import view_of_model  # imports torch and transformers
        made = view_of_model(text, pair, model, tokenizer, budget, progress, view, token)
    else:
        from ._view_folder import view_of_text
        made = view_of_text(text, pair, model, budget, progress, view, token)
    made.options = dict(stack=stack, layer=layer, heads=heads, token=token, view=view, special=special, theme=theme)
    made.budget, made.height = integer(budget, "budget", 1), integer(height, "height", 50, 10000)
    call(lib.view_choose, made._at, ctypes.byref(made._options()), ctypes.byref(c.ViewChosen()))
    return made


def one_of(name, value, other):
    """Returns the value of an argument that has two names."""
    if value is not None and other is not None:
        raise UsageError(f"{name}: expected once, found two values")
    return other if value is None else value


def check_used(source, there, **arguments):
    """Refuses arguments that are for another source of weights."""
    for name, value in arguments.items():
        if value is not None and not there:
            raise UsageError(f"{name}: only with {source}, found {shown(value)}")


def read_weights(attentions, name):
    """Returns one contiguous float32 Array [heads][rows][keys] per layer, all of one shape."""
    if isinstance(attentions, (str, bytes)) or not hasattr(attentions, "__iter__"):
        raise UsageError(f"{name}: expected one array per layer, found {shown(attentions)}")
    layers: List[Array] = []
    for i, x in enumerate(attentions):
        at = f"{name}[{i}]"
        if x is None:
            raise UsageError(f'{at}: None; a model of transformers has weights after set_attn_implementation("eager"), '
                             "and without them qkv.view(text, model=model, tokenizer=tokenizer)")
        try:
            x = x.detach().float() if hasattr(x, "detach") else x
        except RuntimeError as error:  # of torch: a quantized tensor
            raise DtypeError(f"{at}: expected floats: {error}") from None
        array = Array(x, at).require(("f32", "f64", "f16", "bf16"), (3, 4))
        if array.dtype != "f32":
            numpy = _numpy()
            x = numpy.asarray(x) if numpy is not None and array.kind == "buffer" else x
            if not hasattr(x, "astype"):
                raise DtypeError(f"{at}: expected f32 without numpy, found {array.dtype}")
            array = Array(x.astype("float32"), at)
        array = array.plain()
        shape = array.shape[len(array.shape) - 3:]
        if len(array.shape) == 4 and array.shape[0] != 1:
            raise UsageError(f"{at}: expected one text, found {array.shape[0]}")
        if layers and shape != layers[0].shape[len(layers[0].shape) - 3:]:
            raise UsageError(f"{at}: shape {array.shape} differs from {layers[0].shape}")
        layers.append(array)
    if not layers:
        raise UsageError(f"{name}: expected at least one layer")
    return layers


def read_tokens(values, count, name, b_start, pretty):
    """Returns (struct qkv_view_text, objects to keep) of a list of tokens."""
    if values is None or isinstance(values, str) or not hasattr(values, "__iter__"):
        raise UsageError(f"{name}: expected a list of {count} tokens, found {shown(values)}")
    values = [utf8(v, f"{name}[{i}]").replace(b"\0", b"?") for i, v in enumerate(values)]
    if len(values) != count:
        raise UsageError(f"{name}: expected {count} tokens, found {len(values)}")
    return make_text([(prettify(v) if pretty else v, i >= b_start, v in SPECIAL, 0, 0) for i, v in enumerate(values)], (None, None))


def prettify(token):
    """Returns a token without the marks of spaces and word ends that vocabularies have."""
    for mark in MARKS:
        token = token.replace(mark, b"") if token != mark else token
    return token


MARKS = ("\u0120".encode(), "\u2581".encode(), b"</w>")
SPECIAL = {b"[CLS]", b"[SEP]", b"[PAD]", b"[MASK]", b"<s>", b"</s>", b"<pad>", b"<mask>", b"<|endoftext|>", b"<bos>", b"<eos>"}


def view_of_weights(attentions, tokens, key_tokens, b_start, pretty):
    layers = read_weights(attentions, "attentions")
    heads, rows, keys = layers[0].shape[-3:]
    b_start = rows if b_start is None else integer(b_start, "sentence_b_start", 0, rows)
    texts = [read_tokens(tokens, rows, "tokens", b_start, pretty)]
    if key_tokens is not None:
        texts.append(read_tokens(key_tokens, keys, "key_tokens", keys, pretty))
    elif keys != rows:
        raise UsageError(f"key_tokens: needed for {rows} rows and {keys} keys")
    stack = c.ViewStack(name=b"attention" if len(texts) == 1 else b"cross", keys=len(texts) - 1, layers=len(layers), heads=heads)
    return add_weights(new_view("attention weights", texts, [stack]), [layers])


def add_weights(made, stacks):
    made._missing.update(dict.fromkeys(("output", "residual"), "weights without a model have none"))
    for i, layers in enumerate(stacks):
        for layer, array in enumerate(layers):
            data = c.ViewLayerData(weights=array.at, left=-1, right=-1)
            call(lib.view_layer, made._at, i, layer, ctypes.byref(data))
    return made


def view_of_stacks(attentions, encoder_tokens, decoder_tokens, pretty):
    """Shows the attention of an encoder, of a decoder and between them, of which some may be None."""
    sizes, found = [None, None], []  # tokens of both texts
    for name, x, (rows, keys) in zip((b"encoder", b"decoder", b"cross"), attentions, ((0, 0), (1, 1), (1, 0))):
        if x is None:
            continue
        layers = read_weights(x, name.decode() + "_attentions")
        heads, *shape = layers[0].shape[-3:]
        for text, n in zip((rows, keys), shape):
            if sizes[text] is None:
                sizes[text] = n
            if sizes[text] != n:
                raise UsageError(f"{name.decode()}_attentions: expected {sizes[text]} tokens of the "
                                 f"{'decoder' if text else 'encoder'}, found {n}")
        found.append((name, rows, keys, heads, layers))
    used = [text for text in (0, 1) if sizes[text] is not None]
    named = (("encoder_tokens", encoder_tokens), ("decoder_tokens", decoder_tokens))
    texts = [read_tokens(named[text][1], sizes[text], named[text][0], sizes[text], pretty)
             for text in used]
    stacks = [c.ViewStack(name=name, rows=used.index(rows), keys=used.index(keys), layers=len(layers), heads=heads)
              for name, rows, keys, heads, layers in found]
    return add_weights(new_view("attention weights", texts, stacks), [layers for *_, layers in found])
