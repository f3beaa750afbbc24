# SPDX-License-Identifier: MIT
# said.py: how a case of the browser tests fails.
class Failed(Exception):
    pass


def check(ok, *said):
    if not ok:
        raise Failed(" ".join(str(s) for s in said))
