# SPDX-License-Identifier: MIT
"""The attention of a model folder as a View: runs the model on a text and adds each layer."""
import ctypes

from . import _layout as c
from ._errors import UnsupportedError, UsageError
from ._hub import find_model
from ._library import Callbacks, Handle, call, integer, lib, text
from ._tokenizer import Tokenizer, utf8
from ._view import make_text, new_view
from ._view_output import add_output, try_output


class Model(Handle):
    """An opened model with its tokenizer."""
    _close = "model_close"

    def __init__(self, name):
        super().__init__()
        self.folder = find_model(name)
        call(lib.model_open, ctypes.byref(self._pointer), text(self.folder, "model"), None)
        self.info, self.tokenizer = lib.model_info(self._pointer), Tokenizer(self.folder)

    def read(self, value, pair=None):
        """Returns (Encoding, struct qkv_model_input, objects to keep) of a model with one stack."""
        e = self.tokenizer.encode(value, pair)
        return (e, *as_input(e.ids, e.type_ids))

    def read_pair(self, value, pair=None):
        """Returns (tokens, struct qkv_model_input, objects to keep); of an encoder-decoder with the tokens of its output."""
        if self.info.kind != c.KIND_ENCODER_DECODER:
            e, *run = self.read(value, pair)
            return (e.tokens, *run)
        encoder, keep = as_input(*self.tokenizer.encode(value)[:2])
        ids = output_ids(self, value, pair)
        run, own = as_input(ids, None, encoder)
        return [self.tokenizer.id_to_token(i) or f"#{i}" for i in ids], run, (own, keep)


class Decoder(Handle):
    """A decoder of one sequence; the Model stays open until it is closed."""
    _close = "decoder_free"

    def __init__(self, model):
        super().__init__()
        call(lib.decoder_new, ctypes.byref(self._pointer), model._at, ctypes.byref(c.DecoderOptions(items=1)))


def as_input(ids, types=None, source=None):
    """Returns (struct qkv_model_input, objects to keep) of one sequence."""
    if not ids:
        raise UsageError("text: no tokens")
    ids, types = ((ctypes.c_int32 * len(ids))(*x) if x else None for x in (ids, types))
    offsets = (ctypes.c_int64 * 2)(0, len(ids))
    at = lambda x: None if x is None else ctypes.addressof(x)
    return c.ModelInput(sequences=1, offsets=at(offsets), ids=at(ids), types=at(types), source=at(source)), (ids, types, offsets, source)


def view_of_folder(model, texts, stacks):
    return new_view(model.info.name.decode("utf-8", "replace"), texts, stacks)


def rows_of(e):
    """Returns the rows (raw, part, special, begin, end) of an Encoding."""
    return [(token.encode().replace(b"\0", b"?"), kind == 1 if part is None else part, part is None, *place)
            for token, place, part, kind in zip(e.tokens, e.byte_offsets, e.text_ids, e.type_ids)]


def rows_of_ids(tokenizer, ids):
    """Returns (rows, source) of tokens without a text: the source is what they decode to."""
    rows, source = [], b""
    for i, piece in zip(ids, tokenizer.decode_stream(ids)):
        raw = (tokenizer.id_to_token(i) or f"#{i}").encode().replace(b"\0", b"?")
        piece = piece.encode()
        begin = len(source) + (len(piece) > 1 and piece[:1] == b" ")  # the space before a word
        source += piece
        rows.append((raw, 0, tokenizer.is_special(i), begin, len(source)))
    return rows, source


def view_of_text(value, pair, name, budget, progress, view=None, token=None):
    """Shows a model folder on a text; view and token: what is shown first (qkv.view)."""
    with Model(name) as model:
        i = model.info
        if i.kind == c.KIND_ENCODER_DECODER:
            return view_of_pair(model, value, pair, budget, progress, view, token)
        if not i.can & c.CAN_RUN:
            raise UnsupportedError(f"{model.folder}: this model has no self-attention")
        e, run, _keep = model.read(value, pair)
        sources = (utf8(value, "text"), None if pair is None else utf8(pair, "pair"))
        stack = c.ViewStack(name=b"attention", layers=i.layers, heads=i.heads, kv_heads=i.kv_heads, head_width=i.head_width,
                            value_width=i.value_width, width=i.width, causal=i.causal)
        made = view_of_folder(model, [make_text(rows_of(e), sources)], [stack])
        run_view(made, model, run, budget, progress)
        try_output(made, view, lambda: add_output(made, model, run, e.ids, e.type_ids, token))
        return made


def written_ids(model, pair):
    """Returns the tokens of a text as the output of an encoder-decoder, from the start token to the end token."""
    i = model.info
    stops = list((ctypes.c_int32 * i.stop_count).from_address(i.stops)) if i.stop_count else []
    if i.start < 0:
        raise UsageError("pair: the decoder of this model has no start token, so that no second text can be given to it")
    ids = model.tokenizer.encode(pair).ids
    if ids and ids[-1] in stops:
        ids.pop()
    ids = [i.start, *ids][:i.positions]
    return ids + stops[:1] if len(ids) < i.positions else ids


def generated_ids(model, value):
    """Returns the tokens that an encoder-decoder generates, from the start token on."""
    from ._tasks import Translator
    i = model.info
    with Translator(model.folder) as translator:
        g = translator(value, details=True)
    g = g[0] if isinstance(g, list) else g
    ended = g.ending == "token" and i.stop_count and len(g.ids) + 1 < i.positions
    return [i.start, *g.ids] + ([ctypes.c_int32.from_address(i.stops).value] if ended else [])


def output_ids(model, value, pair):
    """Returns the tokens of the output of an encoder-decoder: `pair`, or what it generates."""
    ids = generated_ids(model, value) if pair is None else written_ids(model, pair)
    if len(ids) < 2:
        raise UsageError("the output of the model has no tokens: expected a second text with words")
    return ids


def view_of_pair(model, value, pair, budget, progress, view, token):
    """Shows an encoder-decoder on a source and its output: `pair`, or what the model generates."""
    i = model.info
    e = model.tokenizer.encode(value)
    ids = output_ids(model, value, pair)
    rows, source = rows_of_ids(model.tokenizer, ids)
    # A step of the decoder reads a token and writes the next one.
    texts = [make_text(rows_of(e), (utf8(value, "text"), None)), make_text(rows[:-1], (source, None)), make_text(rows[1:], (source, None))]
    encoder, keep_encoder = as_input(e.ids, e.type_ids)
    written, keep_written = as_input(ids, None, encoder)
    if i.family == b"qkv-gru-attention":
        made = view_of_recurrent(model, encoder, ids[:-1], [texts[0], texts[2]], budget, progress)
        try_output(made, view, lambda: add_output(made, model, written, ids, None, token))
        return made
    run, keep = as_input(ids[:-1], None, encoder)
    sizes = dict(heads=i.heads, kv_heads=i.kv_heads, head_width=i.head_width, value_width=i.value_width, width=i.width)
    stacks = [c.ViewStack(name=b"encoder", rows=0, keys=0, layers=i.layers, **sizes),
              c.ViewStack(name=b"decoder", rows=1, keys=1, layers=i.decoder_layers, causal=True, **sizes),
              c.ViewStack(name=b"cross", rows=2, keys=0, layers=i.decoder_layers, **{**sizes, "width": 0})]
    made = view_of_folder(model, texts, stacks)
    run_view(made, model, run, budget, progress)
    try_output(made, view, lambda: add_output(made, model, written, ids, None, token))
    del keep_encoder, keep, keep_written
    return made


def view_of_recurrent(model, source, ids, texts, budget, progress):
    """Shows the attention of a recurrent encoder-decoder, which has weights without queries and keys, and no other attention."""
    made = view_of_folder(model, texts, [c.ViewStack(name=b"cross", rows=1, keys=0, layers=1, heads=1)])
    made._missing.update(dict.fromkeys(("neuron", "steps"), "a Transformer is required; the scores of this model are additive, not products"),
                         residual="a Transformer is required; the state of this model is replaced at each step")
    calls, request, decoder = Callbacks(), c.ProbeRequest(), Decoder(model)
    probed = lib.view_probe_request(made._at, integer(budget, "budget", 1), ctypes.byref(request))

    def layer(at):
        if progress and progress("layers", 1, 1):
            return 1
        seen = at.contents
        data = c.ViewLayerData(probe=seen.probe if probed else None, weights=None if probed else seen.weights, left=-1, right=-1)
        call(lib.view_layer, made._at, 0, 0, ctypes.byref(data))
        return 0
    observer = c.Observer(layer=calls.wrap(layer, ctypes.POINTER(c.LayerOutput)), probe=request, weights=not probed)
    array, offsets = (ctypes.c_int32 * len(ids))(*ids), (ctypes.c_int64 * 2)(0, len(ids))
    tokens = c.DecoderTokens(n=1, offsets=ctypes.addressof(offsets), ids=ctypes.addressof(array))
    with decoder:
        call(lib.decoder_source, decoder._at, 0, ctypes.byref(source))
        call(lib.decoder_observe, decoder._at, ctypes.byref(observer), 0)
        calls.call(lib.decoder_feed, decoder._at, None, ctypes.byref(tokens))
    return made


def run_view(made, model, run, budget, progress):
    """Runs a model and adds each layer to its View."""
    i, request = model.info, c.ProbeRequest()
    probed = lib.view_probe_request(made._at, integer(budget, "budget", 1), ctypes.byref(request))
    calls, total, done = Callbacks(), i.layers + i.decoder_layers, [0]
    before = [ctypes.create_string_buffer(4 * s[1] * i.width) for s in made.stacks[:2]]  # input rows of each text

    def layer(at):
        seen = at.contents
        stack = 2 if seen.part == c.PART_CROSS else int(seen.part == c.PART_DECODER)
        own = before[min(stack, len(before) - 1)]
        done[0] += seen.layer >= 0 and stack < 2
        if progress and progress("layers", done[0], total):
            return 1
        if seen.layer >= 0:
            data = c.ViewLayerData(relative=seen.relative, reach=seen.reach, scale=seen.scale, softcap=seen.softcap,
                                   window=True, left=seen.left, right=seen.right)
            if probed:
                data.probe = seen.probe
            else:
                data.q, data.k, data.v, data.lse = seen.q, seen.k, seen.v, seen.lse
                data.x = ctypes.addressof(own) if stack < 2 else None
            call(lib.view_layer, made._at, stack, seen.layer, ctypes.byref(data))
            if stack < 2:
                streams = ctypes.addressof(seen) + c.LayerOutput.stream.offset
                call(lib.view_residual, made._at, stack, seen.layer, own, streams)
        if seen.hidden:
            ctypes.memmove(own, seen.hidden, len(own))
        return 0

    observer = c.Observer(layer=calls.wrap(layer, ctypes.POINTER(c.LayerOutput)), probe=request, skip_qkv=probed, sublayers=True)
    calls.call(lib.model_run, model._at, None, ctypes.byref(run), ctypes.byref(observer))
