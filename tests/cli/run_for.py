# SPDX-License-Identifier: MIT
"""run_for.py ACTION SECONDS COMMAND...: starts the command, acts after SECONDS, exits with the command's code.

  ACTION: the name of a signal (INT, TERM), several in order (INT,INT), or cut=FILE: truncates the file to 0 bytes
  while the command runs.
Death by signal N is exit code 128 + N.  If the command ends before the action, the exit code is 99.
"""
import signal
import subprocess
import sys
import time

action, seconds, command = sys.argv[1], float(sys.argv[2]), sys.argv[3:]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell passes on ignored signals
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
