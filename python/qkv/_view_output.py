# SPDX-License-Identifier: MIT
"""The output of a model on the text of a View: the most likely tokens after each layer (logit lens), labels, or shares of tokens.

The choice of positions is that of the command `qkv view` (cli/view/view_output.c), so that pages have the same numbers.
"""
import ctypes
import os

from . import _layout as c
from ._errors import UnsupportedError, UsageError
from ._library import call, lib

TOP, TOP_LABELS, ENTRIES_MOST, OPERATIONS_MOST = 5, 10, 8192, 1e11
POOLS = {c.POOL_MEAN: b"mean", c.POOL_CLS: b"cls", c.POOL_MAX: b"max", c.POOL_LAST: b"last", c.POOL_MEAN_SQRT: b"mean-sqrt",
         c.POOL_WEIGHTED: b"weighted"}


def token_name(raw, special, decoded, spaced):
    """Returns a predicted token for people; raw: its spelling in the vocabulary, None: none; decoded(): its text alone; spaced(): whether
    it adds a space before itself to a text."""
    if raw is None or special:
        return raw
    text = decoded()
    skip = text.startswith(" ")
    # a token that is spelled as its text marks no space, even if the decoder puts one before it
    space = skip or text != raw and spaced()
    # bytes that are no character on their own keep the spelling of the vocabulary
    shown = text and (text[skip:] or space) and "\ufffd" not in text
    return ("\u2423" if space else "") + text[skip:] if shown else raw


def name_of(tokenizer, i):
    """Returns the name of a token of a qkv.Tokenizer."""
    return token_name(tokenizer.id_to_token(i), tokenizer.is_special(i), lambda: "".join(tokenizer.decode_stream([i])),
                      lambda: tokenizer.token_bytes(i).startswith(b" ")) or f"#{i}"


def choose(masks, rows, last, most, token):
    """Returns (positions, how many the text has): the masks if there are any, otherwise the last or the first, and `token`."""
    found = masks[:most] if masks else range(max(rows - most, 0), rows) if last else range(min(most, rows))
    return sorted({*found, *([token] if token is not None and 0 <= token < rows else [])}), len(masks) or rows


def positions_most(rows, top, width, vocab):
    """Returns how many positions are computed at most, which bounds the page and the time."""
    return max(1, min(ENTRIES_MOST // (rows * top), int(OPERATIONS_MOST / (2.0 * rows * width * vocab))))


def add(made, stack, kind, names, entry, value, at=None, rows=1, all_positions=0, targets=None, detail=None):
    """Adds a struct qkv_view_output: entry, value [positions][rows][top] flat; targets: (name, probability, rank) lists."""
    array = lambda kind, values: (kind * len(values))(*values)
    positions = 1 if at is None else len(at)
    keep = [array(ctypes.c_char_p, [n.encode("utf-8", "replace").replace(b"\0", b"?") for n in names]), array(ctypes.c_int32, entry),
            array(ctypes.c_float, value)]
    o = c.ViewOutput(kind=kind, positions=positions, all=all_positions, rows=rows, top=len(entry) // (positions * rows), names=len(names),
                     detail=detail)
    o.name, o.entry, o.value = map(ctypes.addressof, keep)
    if at is not None:
        keep.append(array(ctypes.c_int64, at))
        o.at = ctypes.addressof(keep[-1])
    if targets is not None:
        kept = [array(k, x) for k, x in zip((ctypes.c_int32, ctypes.c_float, ctypes.c_int64), targets)]
        o.target, o.target_value, o.target_rank = map(ctypes.addressof, kept)
        keep += kept
    call(lib.view_output_add, made._at, stack, ctypes.byref(o))


def add_tokens(made, stack, kind, at, all_positions, rows, ids, value, targets, name):
    """Adds tokens: ids, value [positions][rows][top] flat; targets: (id or -1 [positions], probability and rank [positions][rows])."""
    target, probability, rank = targets
    known = sorted({*ids, *(i for i in target if i >= 0)})
    index = {i: n for n, i in enumerate(known)}
    add(made, stack, kind, [name(i) for i in known], [index[i] for i in ids], value, at, rows, all_positions,
        ([index.get(i, -1) for i in target], probability, rank))


def add_labels(made, probabilities, names, each):
    """Adds labels: probabilities [positions][labels], of each token or of the text."""
    top = min(len(names), TOP if each else TOP_LABELS)
    best = [sorted(range(len(names)), key=lambda i: -p[i])[:top] for p in probabilities]
    add(made, 0, c.VIEW_OUTPUT_TOKEN_LABELS if each else c.VIEW_OUTPUT_LABELS, names, [i for row in best for i in row],
        [p[i] for p, row in zip(probabilities, best) for i in row], list(range(len(best))) if each else None)


def try_output(made, view, compute):
    """Runs compute(), which adds the output; a model without one has the reason in the View, and raises if it is asked for."""
    try:
        compute()
    except (UnsupportedError, UsageError) as error:
        made._missing["output"] = str(error)
        if view == "output":
            raise


# ---- of a model folder -------------------------------------------------------------------------
def add_output(made, model, run, ids, types, token):
    """Adds the output of an opened model on one text; run: struct qkv_model_input of all ids; token: a position to include."""
    i, two = model.info, model.info.kind == c.KIND_ENCODER_DECODER
    folder = model.folder
    if not two and i.can & (c.CAN_LABELS | c.CAN_TOKEN_LABELS):
        return labels_of(made, model, run, len(ids))
    masks = []
    if i.kind == c.KIND_ENCODER:
        with_mask = lib.mask_id(model._at, model.tokenizer._at)
        masks = [at for at, x in enumerate(ids) if x == with_mask >= 0]
    if i.can & c.CAN_TOKENS and (two or masks or not os.path.exists(os.path.join(os.fsdecode(folder), "modules.json"))):
        return lens_of(made, model, run, ids, masks, token)
    if not two:
        return shares_of(made, model, ids, types)
    raise UnsupportedError(f"{folder}: expected a model with an output head for tokens, found {i.family.decode()}")


def lens_of(made, model, run, ids, masks, token):
    i, stack = model.info, len(made.stacks) - 1  # of an encoder-decoder cross-attention, whose rows are written
    two = i.kind == c.KIND_ENCODER_DECODER
    layers = 0 if i.family == b"qkv-gru-attention" else i.decoder_layers if two else i.layers
    T, top = made.stacks[stack][1], min(TOP, i.vocab)
    at, n = choose(masks, T, i.kind == c.KIND_DECODER, positions_most(layers + 1, top, i.width, i.vocab), token)
    x = c.Lens()
    array = (ctypes.c_int64 * len(at))(*at)
    call(lib.lens, ctypes.byref(x), model._at, ctypes.byref(run), array, len(at), top)
    try:
        cells, rows = x.positions * x.rows * x.top, x.positions * x.rows
        found = (c.TokenValue * cells).from_address(x.tokens)
        target = list((ctypes.c_int32 * x.positions).from_address(x.target))
        target = [-1 if masks and ids[p] == ids[masks[0]] else t for p, t in zip(at, target)]
        add_tokens(made, stack, c.VIEW_OUTPUT_WRITTEN if two else c.VIEW_OUTPUT_MASKED if i.kind == c.KIND_ENCODER else c.VIEW_OUTPUT_NEXT,
                   at, n, x.rows, [v.id for v in found], [v.value for v in found],
                   (target, list((ctypes.c_float * rows).from_address(x.target_probability)),
                    list((ctypes.c_int64 * rows).from_address(x.target_rank))), lambda i: name_of(model.tokenizer, i))
    finally:
        lib.lens_free(ctypes.byref(x))


def labels_of(made, model, run, tokens):
    labels, each = model.info.labels, bool(model.info.can & c.CAN_TOKEN_LABELS)
    n = tokens if each else 1
    p = (ctypes.c_float * (n * labels))()
    call(lib.model_classify_tokens if each else lib.model_classify, model._at, p, ctypes.byref(run))
    call(lib.label_probabilities, p, p, n, model._at)
    names = [lib.model_label(model._at, label).decode("utf-8", "replace") for label in range(labels)]
    add_labels(made, [p[row * labels:(row + 1) * labels] for row in range(n)], names, each)


def shares_of(made, model, ids, types):
    n = len(ids)
    embedder, share, used = ctypes.c_void_p(), (ctypes.c_double * n)(), model._at
    o = c.EmbedderOptions(no_tokenizer=True, opened=used._as_parameter_)
    call(lib.embedder_open, ctypes.byref(embedder), os.fsencode(model.folder), ctypes.byref(o))
    try:
        call(lib.shares, share, None, embedder, (ctypes.c_int32 * n)(*ids), (ctypes.c_int32 * n)(*types) if types else None, n)
        pool = lib.embedder_pool(embedder)
    finally:
        lib.embedder_close(embedder)
        used.end()
    add(made, 0, c.VIEW_OUTPUT_SHARES, ["share"], [0] * n, list(share), list(range(n)), detail=POOLS.get(pool))
