#!/bin/sh
# SPDX-License-Identifier: MIT
# links.sh MBIT [OPTIONS OF qkv bench machines...]: measures two ranks on a link of MBIT Mbit/s, and the model of their time.
#
# Makes two network namespaces with one cable between them (veth), each end with a rate limit (tbf), and runs MPICH in
# them over TCP; removes them at the end. Needs root, iproute2 and MPICH. One core a rank and 156 Mbit/s have the ratio of
# 64 cores and 10 Gbit/s. QKV_BUILD: the build (default build/release).
set -eu
[ $# -ge 1 ] || { sed -n 's/^# \(links.sh.*\)/usage: \1/p' "$0" >&2; exit 2; }
rate=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
build=$(cd "${QKV_BUILD:-$here/../build/release}" && pwd)
. "$here/hosts.sh"
trap hosts_close EXIT
trap 'exit 1' HUP INT TERM
hosts_open "$rate" || { echo 'links.sh: needs root, iproute2 and the right to make network namespaces' >&2; exit 1; }
mpich_hosts "$build/bin/qkv" bench machines --threads 1 "$@"
