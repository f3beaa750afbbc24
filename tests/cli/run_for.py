# SPDX-License-Identifier: MIT
"""run_for.py ACTION WHEN COMMAND...: starts the command, acts at WHEN, exits with the command's code.

  WHEN: a number of seconds, or a pattern such as 'out.tmp.*': as soon as a path matches it
  ACTION: the name of a signal (INT, TERM), several in order (INT,INT) with pauses of seconds (STOP,20,CONT), or
  cut=FILE: truncates the file to 0 bytes while the command runs.
Death by signal N is exit code 128 + N.  If the command ends before the action, the exit code is 99.
"""
import glob
import signal
import subprocess
import sys
import time

action, when, command = sys.argv[1], sys.argv[2], sys.argv[3:]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background shell passes on ignored signals
child = subprocess.Popen(command, stdin=subprocess.DEVNULL)
if when.replace(".", "", 1).isdigit():
    time.sleep(float(when))
else:
    while child.poll() is None and not glob.glob(when):
        time.sleep(0.001)
if child.poll() is not None:
    sys.exit(99)
if action.startswith("cut="):
    open(action[4:], "wb").close()
else:
    for name in action.split(","):
        if name.isdigit():
            time.sleep(int(name))
            continue
        child.send_signal(getattr(signal, "SIG" + name))
        time.sleep(0.3)
try:
    code = child.wait(120)
except subprocess.TimeoutExpired:
    child.kill()
    sys.exit(98)
sys.exit(code if code >= 0 else 128 - code)
