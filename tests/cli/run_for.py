# SPDX-License-Identifier: MIT
"""run_for.py ACTION SECONDS COMMAND...: starts the command, acts after SECONDS, exits with its code.

  ACTION: a signal's name (INT, TERM), one behind the other (INT,INT), or cut=FILE: the file is made empty under the running command.
A death by signal N is exit code 128 + N.  The command's end before the action: 99, it was too fast.
"""
import signal
import subprocess
import sys
import time

action, seconds, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell hands down "ignored"
child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
time.sleep(seconds)
if child.poll() is not None:
    sys.exit(99)
if action.startswith("cut="):
    open(action[4:], "wb").close()
else:
    for name in action.split(","):
        child.send_signal(getattr(signal, "SIG" + name))
        time.sleep(0.3)
try:
    code = child.wait(120)
except subprocess.TimeoutExpired:
    child.kill()
    sys.exit(98)
sys.exit(code if code >= 0 else 128 - code)
