# SPDX-License-Identifier: MIT
"""disk.py: a folder as a disk that loses its power: what is durable, and what is not yet.

The calls that changed the folder come from the record of the shim (record.c).
"""
import os
import struct

MODES = ["none", "all", "zero", "random", "torn"]  # what is durable of a file since its last fsync
BLOCK = 512
CREATE, TRUNCATE, EXCHANGE, APPEND = 0o100, 0o1000, 2, -1
OPENS, WRITES, SYNCS, RENAMES = (2, 85, 257), (1, 18, 20), (74, 75), (82, 264, 316)


class File:
    def __init__(self, data=b""):
        self.versions = [data]  # the durable one, and that after each call since

    def change(self, data): self.versions.append(data)

    def sync(self): self.versions = self.versions[-1:]

    def now(self): return self.versions[-1]

    def draw(self, rng, mode):
        if len(self.versions) == 1 or mode == "none": return self.versions[0]
        if mode == "all": return self.versions[-1]
        size = len(self.versions[-1 if mode in ("zero", "random") else rng.randrange(len(self.versions))])
        blocks = []
        for at in range(0, size, BLOCK):
            versions = [v[at:at + BLOCK] for v in self.versions if len(v) > at]
            if len(self.versions[0]) <= at:  # never durable: what the disk had there
                versions += [b"", rng.randbytes(BLOCK)]
                if mode != "torn": versions = versions[-2:][mode == "random":][:1]
            elif mode != "torn": versions = versions[:1]
            blocks.append(rng.choice(versions)[:BLOCK].ljust(min(BLOCK, size - at), b"\0")[:size - at])
        return b"".join(blocks)


class Link:
    def __init__(self, target): self.target = target


class Folder:
    def __init__(self):
        self.versions = [{}]

    def change(self, *edits):
        names = dict(self.versions[-1])
        for name, node in edits:
            if node is None: del names[name]
            else: names[name] = node
        self.versions.append(names)

    def sync(self): self.versions = self.versions[-1:]

    def now(self): return self.versions[-1]

    def draw(self, rng, mode):
        if mode == "none": return self.versions[0]
        return self.versions[-1] if mode == "all" else rng.choice(self.versions)


class Disk:
    """The folder of a writer, with what is durable and what is not."""

    def __init__(self, work, found):
        self.work, self.root = work, Folder()
        for path in sorted(found):
            folder, name = self.place(os.path.join(work, path))
            value = found[path]
            node = Folder() if value is None else Link(value[1]) if isinstance(value, tuple) else File(value)
            folder.change((name, node))
        self.sync_all(self.root)

    def sync_all(self, node):
        if isinstance(node, Link): return
        node.sync()
        if isinstance(node, Folder):
            for n in node.now().values(): self.sync_all(n)

    def place(self, path):
        """(folder, name in it) of a path, or (None, None) outside of the folder of the writer"""
        path = os.path.normpath(os.path.join(self.work, path))
        if path == self.work: return self.root, None
        if not path.startswith(self.work + "/"): return None, None
        folder, parts = self.root, path[len(self.work) + 1:].split("/")
        for part in parts[:-1]:
            folder = folder.now().get(part)
            if isinstance(folder, Link) and "/" not in folder.target: raise SystemExit(f"a change through a link: {path}")
            if not isinstance(folder, Folder): return None, None
        return folder, parts[-1]

    def node(self, path):
        folder, name = self.place(path)
        return folder if name is None else folder.now().get(name)

    def apply(self, call, flags, at, first, second):
        """Performs a recorded call."""
        path, data = first.decode(), second
        folder, name = self.place(path)
        if folder is None or path.endswith(" (deleted)"): return
        if call in SYNCS:
            node = self.node(path)
            if node: node.sync()
            return
        node = folder.now().get(name)
        if call in OPENS:
            if node is None: folder.change((name, File()))
            elif flags & TRUNCATE: node.change(b"")
        elif call in WRITES:
            old = node.now()
            at = len(old) if at == APPEND else at
            node.change(old[:at].ljust(at, b"\0") + data + old[at + len(data):])
        elif call in (76, 77): node.change(node.now()[:at].ljust(at, b"\0"))
        elif call in RENAMES:
            other, new = self.place(second.decode())
            if other is not folder: raise SystemExit(f"a rename from folder to folder: {path}")
            swap = call == 316 and flags & EXCHANGE
            if new != name: folder.change((name, folder.now()[new] if swap else None), (new, node))
        elif call in (86, 265):
            other, new = self.place(second.decode())
            other.change((new, node))
        elif call in (87, 84, 263): folder.change((name, None))
        elif call in (83, 258): folder.change((name, Folder()))
        elif call in (88, 266): folder.change((name, Link(data.decode())))
        else: raise SystemExit(f"the record has call {call}, which power.py does not know")

    def state(self, rng, folders, files):
        """Draws what is on the disk after the power fails now."""
        found, drawn = {}, {}

        def add(folder, prefix):
            for name, node in folder.draw(rng, folders).items():
                if isinstance(node, Folder):
                    found[prefix + name] = None
                    add(node, prefix + name + "/")
                elif isinstance(node, Link): found[prefix + name] = ("link", node.target)
                else:
                    if id(node) not in drawn:
                        drawn[id(node)] = node.draw(rng, rng.choice(MODES) if files == "any" else files)
                    found[prefix + name] = drawn[id(node)]
        add(self.root, "")
        return found


def parse(record):
    """Yields the calls of a record."""
    at, size = 0, struct.calcsize("<iiqii")
    while at < len(record):
        call, flags, offset, first, second = struct.unpack_from("<iiqii", record, at)
        at += size
        yield call, flags, offset, record[at:at + first], record[at + first:at + first + second]
        at += first + second
