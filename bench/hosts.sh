# SPDX-License-Identifier: MIT
# hosts.sh: two hosts on this machine, for tests and measurements of ranks over a network: network namespaces, each with its
# own host name, and one cable between them (veth). A script sources it, and sets build to the folder of the build.
#
#   hosts_open [MBIT]      makes the hosts $host_a and $host_b; each end of the cable sends at most MBIT Mbit/s (tbf); returns
#                          1 if this machine cannot: it needs root, iproute2 and the right to make namespaces
#   on_host HOST COMMAND.. runs a command on a host
#   mpich_hosts PROGRAM..  runs a program on two ranks, one on each host, by MPICH over TCP; $preload: a library to load
#   cable_bytes            prints the bytes that $host_a has sent over the cable
#   hosts_close            removes the hosts
# $hosts_bin has a program `ssh` that runs a command on one of the two hosts, for launchers.
host_a=192.168.1.10 host_b=192.168.1.11
space_a=qkv-a-$$ space_b=qkv-b-$$

hosts_close() {
    ip netns del $space_a 2>/dev/null || :
    ip netns del $space_b 2>/dev/null || :
    rm -rf "${hosts_bin:-}"
}

host_side() { # NAMESPACE DEVICE ADDRESS
    ip netns exec "$1" ip addr add "$3/24" dev "$2" && ip netns exec "$1" ip link set "$2" up &&
        ip netns exec "$1" ip link set lo up &&
        { [ -z "$rate" ] || ip netns exec "$1" tc qdisc add dev "$2" root tbf rate "${rate}mbit" burst 256kb latency 400ms; }
}

hosts_open() {
    rate=${1:-}
    hosts_bin=$(mktemp -d)
    # ssh [OPTION...] HOST COMMAND...; options without a value only
    cat >"$hosts_bin/ssh" <<SH
#!/bin/sh
while [ "\${1#-}" != "\$1" ]; do shift; done
case \$1 in
$host_a) space=$space_a ;;
$host_b) space=$space_b ;;
*) echo "ssh: no host \$1" >&2; exit 255 ;;
esac
shift
exec ip netns exec \$space unshare --uts sh -c "hostname \$space; \$*"
SH
    chmod +x "$hosts_bin/ssh"
    { [ "$(id -u)" -eq 0 ] && command -v ip && command -v tc && command -v unshare; } >/dev/null 2>&1 || return 1
    { ip netns add $space_a && ip netns add $space_b; } 2>/dev/null || return 1
    ip link add name link-a netns $space_a type veth peer name link-b netns $space_b 2>/dev/null || return 1
    host_side $space_a link-a $host_a && host_side $space_b link-b $host_b || return 1
    until ip -n $space_a link show link-a | grep -q 'state UP' && ip -n $space_b link show link-b | grep -q 'state UP'; do
        sleep 0.1
    done
}

on_host() {
    where=$1
    shift
    [ "$where" = $host_a ] && where=$space_a || where=$space_b
    ip netns exec $where unshare --uts sh -c 'hostname "$0" && exec "$@"' $where "$@"
}

mpich_hosts() {
    # without these the ranks would find that they share a machine, and use its memory
    on_host $host_a env MPIR_CVAR_NOLOCAL=1 UCX_TLS=tcp,self mpirun.mpich -genvlist MPIR_CVAR_NOLOCAL,UCX_TLS,QKV_THREADS,TMPDIR \
        -launcher ssh -launcher-exec "$hosts_bin/ssh" -hosts $host_a,$host_b -n 2 \
        ${preload:+env "LD_PRELOAD=$preload"} "$@"
}

cable_bytes() {
    ip netns exec $space_a cat /sys/class/net/link-a/statistics/tx_bytes
}
