# SPDX-License-Identifier: MIT
# train_kill.sh: kills a run with kill -9 at random moments: each resume continues it, and the result is bit-identical
# to a run that never stopped.  QKV_KILLS: number of kills (default 5; make long: 200).
. tests/cli/lib.sh
export QKV_THREADS=1 # other tests may run at the same time; cases that need more threads set them
cat >killer.py <<'PY'
import os, random, shutil, signal, subprocess, sys, time
qkv, kills = os.environ["QKV_BIN"], int(os.environ.get("QKV_KILLS", "5"))
random.seed(7)
words = "in the beginning was a word and they write that all of them came later".split()
with open("text.txt", "w") as f:
    for _ in range(400):
        f.write(" ".join(random.choice(words) for _ in range(14)) + ".\n\n")
args = ["text.txt", "--tokenizer", "bytes", "--layers", "2", "--heads", "2", "--width", "16",
        "--context", "32", "--batch-tokens", "128", "--accumulate", "2", "--dropout", "0.1",
        "--save-every", "3", "--eval-every", "10", "--probe", "every=5", "--patience", "1000"]
files = ["model/model.safetensors", "model/optimizer.safetensors", "model/state.json",
         "log.jsonl", "probes.jsonl"]


def train(folder, steps, threads):
    return subprocess.Popen([qkv, "train", *args, "--steps", str(steps), "--out", folder,
                             "--threads", str(threads)], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE)


def content(folder):
    return {name: open(os.path.join(folder, name), "rb").read() for name in files}


# Measures how many steps this machine runs in a third of a second, so that kills occur at every stage.
steps = 30
while True:
    shutil.rmtree("whole", ignore_errors=True)
    begun = time.time()
    p = train("whole", steps, 1)
    if p.wait() != 0:
        sys.exit("the run that is not stopped: " + p.stderr.read().decode())
    took = time.time() - begun
    if took > 0.3 or steps > 3000:
        break
    steps *= 2
whole, done, runs = content("whole"), 0, 0
while done < kills:
    shutil.rmtree("killed", ignore_errors=True)
    runs += 1
    for turn in range(100):
        p = train("killed", steps, 2 if turn % 5 == 4 else 1)
        try:
            # some kills occur before the first step, some late
            p.wait(random.uniform(0.002, took * 0.7))
        except subprocess.TimeoutExpired:
            p.send_signal(signal.SIGKILL)
            p.wait()
            done += 1
            if os.path.islink("killed/model") and not os.path.exists("killed/model/manifest.json"):
                sys.exit(f"kill {done}: the link shows no complete checkpoint")
            continue
        if p.returncode != 0:
            sys.exit(f"after kill {done}: exit code {p.returncode}: {p.stderr.read().decode()}")
        break
    else:
        p = train("killed", steps, 1)
        if p.wait() != 0:
            sys.exit(f"after kill {done}: {p.stderr.read().decode()}")
    now = content("killed")
    for name in files:
        if now[name] != whole[name]:
            sys.exit(f"after kill {done} of run {runs}: {name} differs from the run that never stopped")
print(f"{done} kills in {runs} runs of {steps} steps: the same bits")
PY
title 'a run killed anywhere ends as if it had never stopped'
python3 killer.py >"$out" 2>"$err" || failed 'see stderr'
cat "$out"
finish
