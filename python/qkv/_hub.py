# SPDX-License-Identifier: MIT
"""Folders of models by their names: in Hugging Face's cache, in the folders of $QKV_MODELS, or downloaded (include/qkv/hub.h)."""
import ctypes
import json
import os

from . import _layout as c
from ._errors import FormatError, MissingFileError, UsageError
from ._library import call, lib, shown, text

# The files that `qkv pull` downloads (cli/pull/listing.c), as patterns for huggingface_hub; tokenizer_files() names the others.
FILES = ["config*.json", "generation_config.json", "modules.json", "sentence_*_config.json", "tokenizer_config.json",
         "special_tokens_map.json", "added_tokens.json", "target.spm", "chat_template.*", "model*.safetensors", "model*.json",
         "[0-9]*_*/*.json", "[0-9]*_*/*.safetensors"]


def find_model(name, *, org="sentence-transformers", cache=None, revision=None, download=False, token=None):
    """Returns the folder of a model: a path; a name, "org/name@revision", in Hugging Face's cache; or a name in the
    folders of models, as qkv_model_find looks for it.

    org       of names without one
    cache     the folder of the cache; None: the one that all programs share
    revision  a branch, a tag or a commit: only the cache is searched
    download  True: a model that is not found is downloaded into the cache, with a token as huggingface_hub describes it
    """
    if name is None:
        folder, reason = ctypes.create_string_buffer(4096), ctypes.create_string_buffer(512)
        call(lib.model_find, folder, len(folder), reason, len(reason), None)
        return os.fsdecode(folder.value)
    path = os.fsdecode(text(name, "model"))
    if os.path.isdir(path):
        return path
    raw = None if cache is None else os.path.abspath(text(cache, "cache_folder"))
    at = "" if revision is None else "@" + os.fsdecode(text(revision, "revision"))
    if at and "@" in path:
        raise UsageError(f"revision: expected one revision, found {shown(path)} and {shown(revision)}")
    names = [n + at for n in ([path] if "/" in path else [path, f"{org}/{path}"])]
    named = [n for n in names if lib.hub_name_parse(ctypes.byref(c.HubName()), os.fsencode(n))]
    if at and not named:
        raise UsageError(f"revision: expected a name such as org/name and a branch, a tag or a commit, found {shown(path)} and {shown(revision)}")
    cached = [f for f in (in_cache(n, raw) for n in named) if f]
    for path_in_cache in cached:
        if not download or is_complete(path_in_cache):
            return path_in_cache
    if os.path.lexists(path):
        return path  # the library reports what is wrong with it
    if named and not at and "@" not in path:
        found = installed(path)
        if found:
            return found
    why = "qkv downloads nothing here (the command `qkv pull NAME` does)"
    if download and named:
        for n in reversed(named):
            pulled, failure = pull(n, raw, token)
            if pulled:
                return pulled
            why = failure if n == named[-1] else why
    if cached:
        return cached[0]  # the library reports what is missing in it
    where = "Hugging Face's cache" if raw is None else os.fsdecode(raw)
    places = f"there is no folder of this name, neither in {where} nor in the folders of models" if not at else f"{where} has no revision {at[1:]}"
    raise MissingFileError(f"{path}: no such model: {places}; {why}", file=path)


def tokenizer_files():
    """Returns the names of the files that the readers of tokenizers open in a folder."""
    names, second, n = [], ctypes.c_char_p(), 0
    while file := lib.tokenizer_file(n, ctypes.byref(second)):
        names += [name.decode() for name in (file, second.value) if name and name.decode() not in names]
        n += 1
    return names


def installed(name):
    """Returns the folder of a model by the last part of its name in the folders of models, or None."""
    place, n = ctypes.create_string_buffer(4096), 0
    while lib.model_search_directory(place, len(place), n):
        folder = os.path.join(os.fsdecode(place.value), name.rsplit("/", 1)[-1])
        if place.value and os.path.isfile(os.path.join(folder, "config.json")):
            return folder
        n += 1
    return None


def in_cache(name, cache):
    """Returns the folder of a name in the cache, or None."""
    found = ctypes.create_string_buffer(4096)
    return os.fsdecode(found.value) if lib.hub_find_in(found, len(found), cache, os.fsencode(name), None) == 0 else None


def is_complete(folder):
    """Returns whether a folder has all files of weights; another program may have downloaded only its configuration."""
    # sentence-transformers may have the weights in the folder of the first module: 0_Transformer, 0_StaticEmbedding
    for part in ("", *sorted(x for x in os.listdir(folder) if x.startswith("0_"))):
        index = read_json(folder, part, "model.safetensors.index.json")
        shards = member(index, "weight_map", dict, folder, part, "model.safetensors.index.json")
        files = {"model.safetensors"} if shards is None else \
            {member(shards, tensor, str, folder, part, "model.safetensors.index.json") or "" for tensor in shards}
        if all(os.path.exists(os.path.join(folder, part, f)) for f in files):
            return True
    return False


def pull(name, cache, token):
    """Downloads a model by the command qkv or by huggingface_hub; returns (folder, None) or (None, reason)."""
    for variable in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        if os.environ.get(variable, "").upper() in ("1", "ON", "YES", "TRUE"):
            return None, f"{variable} forbids the network"
    if not (token is None or isinstance(token, (bool, str))):
        raise UsageError(f"token: expected a str, True, False or None, found {shown(token)}")
    for way in (by_command, by_library):
        found, reason = way(name, cache, token)
        if found or reason:
            return found, reason
    return None, "to download it, install huggingface_hub (pip install huggingface_hub) or the command qkv"


def by_command(name, cache, token):
    """Runs `qkv pull`; (None, None): there is no such command, or it cannot download."""
    import shutil
    import subprocess
    program = shutil.which("qkv")
    if program is None:
        return None, None
    environment = dict(os.environ)
    if cache is not None:
        environment["HF_HUB_CACHE"] = os.fsdecode(cache)
    if token is False:  # also not the one of `hf auth login`
        environment.pop("HF_TOKEN", None)
        environment.pop("HUGGING_FACE_HUB_TOKEN", None)
        environment["HF_TOKEN_PATH"] = os.devnull
    elif isinstance(token, str):
        environment["HF_TOKEN"] = token
    ran = subprocess.run([program, "pull", name, "--json"], env=environment, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8",
                         errors="replace")
    if ran.returncode in (c.ERR_USAGE, c.ERR_UNSUPPORTED):  # an older command, or one without libcurl
        return None, None
    if ran.returncode:
        return None, told(ran.stderr) or "qkv pull failed"
    try:
        return json.loads(ran.stdout)["folder"], None
    except (ValueError, KeyError, TypeError):
        return None, None  # another program of this name


def told(errors):
    """Returns the text of the JSON error that a command wrote last, or all that it wrote if that is no such line."""
    line = errors.strip().rpartition("\n")[2]
    try:
        error = json.loads(line)
        return ": ".join(x for x in (error.get("file"), error.get("path"), error["text"]) if x)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return errors.strip()


def by_library(name, cache, token):
    """Calls huggingface_hub; (None, None): it is not installed."""
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        return None, None
    repo, _, revision = name.partition("@")
    names = tokenizer_files()
    try:
        return snapshot_download(repo, revision=revision or None, cache_dir=None if cache is None else os.fsdecode(cache), token=token,
                                 allow_patterns=FILES + names + ["[0-9]*_*/" + n for n in names]), None
    except Exception as error:  # errors of it, of its HTTP library and of files
        return None, "huggingface_hub: " + (" ".join(str(error).split()) or type(error).__name__)


def read_json(folder, *names):
    """Returns the object in a JSON file of a model folder; {} if it is missing or no object."""
    try:
        with open(os.path.join(folder, *names), encoding="utf-8") as f:
            found = json.load(f)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def member(found, name, kind, folder, *names):
    """Returns a member of the object in a JSON file of a model folder, None if it is missing or null."""
    value, file = found.get(name), os.path.join(folder, *names)
    if value is None or isinstance(value, kind):
        return value
    why = f"{name}: expected {'an object' if kind is dict else 'a text'}, found {shown(value)}"
    raise FormatError(f"{file}: {why}", file=file, text=why)
