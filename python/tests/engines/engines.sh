#!/bin/sh
# SPDX-License-Identifier: MIT
# engines.sh PYTHON VENV QKV: runs the programs of examples/machines on one machine, with Ray, Dask and Spark from PyPI in a
# venv, and compares every vector with qkv embed.  An engine that cannot be installed is skipped; without any, the test is.
set -u
python=$1 venv=$2 qkv=$3
examples=$PWD/examples/machines model=$PWD/tests/golden/bert compare=$PWD/python/tests/engines/engines.py
log=$venv.log
[ -x "$venv/bin/python" ] || "$python" -m venv "$venv" || { echo "skipped: no venv"; exit 77; }
py=$venv/bin/python
temp=$(mktemp -d)
trap 'rm -rf "$temp"' EXIT
trap 'exit 1' HUP INT TERM
export RAY_DISABLE_DASHBOARD=1 RAY_USAGE_STATS_ENABLED=0 PYSPARK_PYTHON="$py" SPARK_LOCAL_IP=127.0.0.1
for n in $(seq 40); do echo "owl $n"; done >"$temp/lines.txt"
# the model has no modules.json: without one, the command scales vectors to length 1, sentence-transformers does not
"$qkv" embed -m "$model" -f "$temp/lines.txt" --no-normalize -o "$temp/one.npy" || exit 1

ran=0
# engine NAME COMMAND OUTPUT MODULES PACKAGES...: installs what is missing, runs NAME_embed.py by a command of the venv and
# compares its output
engine() {
    name=$1 command=$venv/bin/$2 output=$temp/$3 modules=$4
    shift 4
    "$py" -c "import $modules" 2>/dev/null || timeout 900 "$py" -m pip install --quiet --disable-pip-version-check "$@" >"$log" 2>&1
    "$py" -c "import $modules" 2>/dev/null || { echo "$name: skipped, pip cannot install $*"; return; }
    if ! timeout 300 "$command" "$examples/${name}_embed.py" "$model" "$temp/lines.txt" "$output" >"$log" 2>&1; then
        tail -n 20 "$log"
        echo "$name: ${name}_embed.py failed"
        exit 1
    fi
    "$py" "$compare" "$name" "$temp/lines.txt" "$temp/one.npy" "$output" || exit 1
    ran=$((ran + 1))
}
engine dask python dask.npy dask.bag,distributed,numpy dask distributed numpy
engine ray python ray.parquet ray.data,numpy,pandas 'ray[data]' numpy pandas
if command -v java >/dev/null; then
    engine spark spark-submit spark.parquet pyspark,pandas,pyarrow pyspark pandas pyarrow
else
    echo "spark: skipped, java is not installed"
fi
[ $ran -gt 0 ] || { echo "skipped: no engine"; exit 77; }
