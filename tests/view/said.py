# SPDX-License-Identifier: MIT
# said.py: the failure of a case of the browser tests.
class Failed(Exception):
    pass


def check(ok, *said):
    if not ok:
        raise Failed(" ".join(str(s) for s in said))
