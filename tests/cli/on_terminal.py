# SPDX-License-Identifier: MIT
"""on_terminal.py COMMAND...: runs the command with a terminal as its standard output, and copies that output to stdout."""
import os
import pty
import sys

child, master = pty.fork()
if child == 0:
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try:
        data = os.read(master, 65536)
    except OSError:  # the end of the output
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) % 256)
