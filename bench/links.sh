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
build=$(cd "${QKV_BUILD:-$(dirname "$0")/../build/release}" && pwd)
a=qkv-a-$$ b=qkv-b-$$
work=$(mktemp -d)
trap 'ip netns del $a 2>/dev/null || :; ip netns del $b 2>/dev/null || :; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
ip netns add $a && ip netns add $b
ip link add name link-a netns $a type veth peer name link-b netns $b
side() { # NAMESPACE DEVICE ADDRESS
    ip netns exec "$1" ip addr add "$3/24" dev "$2"
    ip netns exec "$1" ip link set "$2" up
    ip netns exec "$1" ip link set lo up
    ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "${rate}mbit" burst 256kb latency 400ms
}
side $a link-a 10.77.0.1
side $b link-b 10.77.0.2
until ip -n $a link show link-a | grep -q 'state UP' && ip -n $b link show link-b | grep -q 'state UP'; do sleep 0.1; done
# MPICH starts a process on another host by ssh [-x] HOST COMMAND...; here a host is a namespace.
cat >"$work/start" <<SH
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
[ "\$1" = 10.77.0.1 ] && space=$a || space=$b
shift
exec ip netns exec \$space sh -c "\$*"
SH
chmod +x "$work/start"
# without these the ranks would find that they share a machine, and use its memory
ip netns exec $a env MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self mpirun.mpich -genvlist MPIR_CVAR_NOLOCAL,UCX_TLS \
    -launcher ssh -launcher-exec "$work/start" -hosts 10.77.0.1,10.77.0.2 -n 2 \
    "$build/bin/qkv" bench machines --threads 1 "$@"
