# SPDX-License-Identifier: MIT
"""Tokenizers: text to token ids with offsets, and back (include/qkv/text.h)."""
import ctypes
import os
from typing import Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _layout as c
from ._errors import UsageError
from ._hub import find_model
from ._library import Handle, call, integer, lib, listed, shown, text
from ._types import Path


class Encoding(NamedTuple):
    """The tokens of a text or of a pair of texts; all lists have one entry per token."""
    ids: List[int]
    type_ids: List[int]
    tokens: List[str]                     #: as spelled in the vocabulary
    offsets: List[Tuple[int, int]]        #: characters [begin, end) of the token in its text; (0, 0) for special tokens
    byte_offsets: List[Tuple[int, int]]   #: the same in bytes of UTF-8
    text_ids: List[Optional[int]]         #: 0: first text, 1: second text, None: special token or padding
    special_tokens_mask: List[int]
    attention_mask: List[int]
    cut: int                              #: number of tokens that truncation removed


def utf8(value, name):
    """Returns a str as UTF-8."""
    if not isinstance(value, str):
        raise UsageError(f"{name}: expected a str, found {shown(value)}")
    try:
        return value.encode()
    except UnicodeEncodeError as error:
        raise UsageError(f"{name}: character {error.start} is half of a surrogate pair") from None


def string_array(values, name):
    """Returns (char **, size_t *, objects to keep) for a list of str."""
    raw = [utf8(v, f"{name}[{i}]") for i, v in enumerate(values)]
    return (ctypes.c_char_p * len(raw))(*raw), (ctypes.c_size_t * len(raw))(*map(len, raw)), raw


class Tokenizer(Handle):
    """A tokenizer.json of Hugging Face, or a folder or model name with one.  Any number of threads may use it."""
    _close = "tokenizer_close"

    def __init__(self, path: Optional[Path]):
        super().__init__()
        self._owner = None
        if path is None or not os.path.isfile(text(path, "path")):
            path = find_model(path)
        call(lib.tokenizer_open, ctypes.byref(self._pointer), text(path, "path"))

    @classmethod
    def _of(cls, pointer, owner):
        """Returns the tokenizer that another object owns."""
        made = cls.__new__(cls)
        Handle.__init__(made)
        made._pointer, made._owner = ctypes.c_void_p(pointer), owner
        return made

    @property
    def _at(self):
        if self._owner is None:
            return self._use()
        with self._owner._lock:  # the owner may exchange the pointer
            return self._owner._use(self._pointer)

    def close(self) -> None:
        if getattr(self, "_owner", None) is None:
            super().close()

    def __len__(self):
        return lib.tokenizer_size(self._at)

    def __repr__(self):
        try:
            return f"Tokenizer({self.kind}, {len(self)} tokens)"
        except UsageError:
            return "Tokenizer(closed)"

    @property
    def kind(self) -> str:
        """The type of the tokenizer model: "BPE", "Unigram", "WordPiece", ..."""
        return lib.tokenizer_kind(self._at).decode()

    def encode(self, text: str, pair: Optional[str] = None, *, add_special_tokens: bool = True,
               max_length: Optional[int] = None, truncation: Union[bool, str] = False, padding: bool = False, strict: bool = False) -> Encoding:
        """Encodes a text, or a pair of texts.

        max_length   the most tokens; a longer text is an error unless truncation is True ("longest_first"),
                     "only_first" or "only_second"
        padding      pad to max_length; over 2^24 tokens of padding are a LimitError
        strict       characters without a token are an error
        """
        names = {False: 0, True: c.CUT_LONGEST, "longest_first": c.CUT_LONGEST, "only_first": c.CUT_FIRST, "only_second": c.CUT_SECOND}
        if not isinstance(truncation, (bool, str)) or truncation not in names:
            raise UsageError(f"truncation: expected False, True or a strategy, found {shown(truncation)}")
        raw, second = utf8(text, "text"), None if pair is None else utf8(pair, "pair")
        o = c.EncodeOptions(max_length=0 if max_length is None else integer(max_length, "max_length", 1),
                            truncate=truncation is not False, pad=bool(padding), cut=names[truncation],
                            no_special=not add_special_tokens, strict=bool(strict))
        if (o.pad or o.truncate) and max_length is None:
            raise UsageError("max_length: needed for truncation and padding")
        e = c.Encoding()
        try:
            call(lib.tokenizer_encode, self._at, ctypes.byref(e), raw, len(raw), second, len(second or b""), ctypes.byref(o))
            return self._read(e, raw, second)
        finally:
            lib.encoding_free(ctypes.byref(e))

    def _read(self, e, raw, second):
        n = e.count
        part = lambda at, kind: list((kind * n).from_address(at)) if n else []
        ids, origin = part(e.ids, ctypes.c_int32), part(e.text, ctypes.c_uint8)
        tokens = {i: self.id_to_token(i) or "" for i in set(ids)}
        places = list(zip(part(e.begin, ctypes.c_int64), part(e.end, ctypes.c_int64)))
        maps = [characters(raw), characters(second or b"")]
        return Encoding(
            ids=ids, type_ids=part(e.types, ctypes.c_int32), tokens=[tokens[i] for i in ids],
            offsets=[(maps[t](b), maps[t](s)) if t < 2 else (0, 0) for t, (b, s) in zip(origin, places)],
            byte_offsets=places, text_ids=[t if t < 2 else None for t in origin],
            special_tokens_mask=[int(t >= 2) for t in origin], attention_mask=part(e.attend, ctypes.c_uint8), cut=e.cut)

    def __call__(self, text: str, pair: Optional[str] = None, **options) -> Encoding:
        return self.encode(text, pair, **options)

    def decode(self, ids: Sequence[int], skip_special_tokens: bool = True) -> str:
        """Decodes token ids; ids without a token are omitted."""
        values = self._ids(ids)
        size = ctypes.c_size_t()
        call(lib.tokenizer_decode, self._at, None, 0, ctypes.byref(size), values, len(values), bool(skip_special_tokens))
        out = ctypes.create_string_buffer(size.value + 1)
        call(lib.tokenizer_decode, self._at, out, len(out), None, values, len(values), bool(skip_special_tokens))
        return out.raw[:size.value].decode("utf-8", "replace")

    def decode_stream(self, ids: Iterable[int], skip_special_tokens: bool = True) -> Iterator[str]:
        """Decodes an iterable of ids one at a time: yields the new text of each, and at the end what was withheld."""
        if isinstance(ids, (str, bytes)) or not hasattr(ids, "__iter__"):
            raise UsageError(f"ids: expected integers, found {shown(ids)}")
        try:
            ids = iter(ids)
        except TypeError:  # an array without axes
            raise UsageError(f"ids: expected integers, found {shown(ids)}") from None
        stream, out, size = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_size_t()
        used = self._at  # the stream points to the tokenizer
        call(lib.decode_stream_new, ctypes.byref(stream), self._at, bool(skip_special_tokens))
        read = lambda: ctypes.string_at(out, size.value).decode("utf-8", "replace")
        try:
            for i in ids:
                call(lib.decode_stream_put, stream, integer(i, "id", 0, 2**31 - 1), ctypes.byref(out), ctypes.byref(size))
                yield read()
            call(lib.decode_stream_end, stream, ctypes.byref(out), ctypes.byref(size))
            yield read()
        finally:
            lib.decode_stream_free(stream)
            used.end()

    @staticmethod
    def _ids(ids):
        ids = listed(ids, "ids")
        if isinstance(ids, (str, bytes)) or not hasattr(ids, "__iter__"):
            raise UsageError(f"ids: expected a list of integers, found {shown(ids)}")
        values = [integer(i, "id", -2**31, 2**31 - 1) for i in ids]
        return (ctypes.c_int32 * len(values))(*values)

    def id_to_token(self, id: int) -> Optional[str]:
        """Returns a token as spelled in the vocabulary; None: there is no such id."""
        found = lib.tokenizer_token(self._at, integer(id, "id", -2**31, 2**31 - 1))
        return None if found is None else found.decode("utf-8", "replace")

    def token_bytes(self, id: int) -> bytes:
        """Returns the bytes that a token adds to a text that it continues: b" Hello", a part of a character; b"": there is no such id."""
        size, i = ctypes.c_size_t(), integer(id, "id", -2**31, 2**31 - 1)
        call(lib.tokenizer_token_bytes, self._at, None, 0, ctypes.byref(size), i)
        out = ctypes.create_string_buffer(size.value + 1)
        call(lib.tokenizer_token_bytes, self._at, out, len(out), None, i)
        return out.raw[:size.value]

    def token_to_id(self, token: str) -> Optional[int]:
        """Returns the id of a token; None: there is no such token."""
        raw = utf8(token, "token")
        found = -1 if b"\0" in raw else lib.tokenizer_id(self._at, raw)
        return None if found < 0 else found

    def is_special(self, id: int) -> bool:
        """Returns True for [CLS], [SEP] and other special tokens."""
        return lib.tokenizer_special(self._at, integer(id, "id", -2**31, 2**31 - 1))


def characters(raw):
    """Returns the function from a byte offset in UTF-8 to the offset in characters."""
    if raw.isascii():
        return lambda at: at
    places, count = [], -1
    for byte in raw:
        count += byte & 0xc0 != 0x80
        places.append(count)
    places.append(count + 1)
    return lambda at: places[min(at, len(raw))]
