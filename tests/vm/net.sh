# SPDX-License-Identifier: Apache-2.0
# Sourced by the guest's scripts: the cables, and the soft-RoCE devices on them.
#
#   rank A   rxa0 (a0, 10.9.0.1)   rxa1 (a1, 10.9.0.3)
#   rank B   rxb0 (b0, 10.9.0.2)   rxb1 (b1, 10.9.0.4)
#
# Each is one end of a veth pair whose other end, its name with a p in front, is a port of the switch "sw". So a
# port that goes down is a pulled cable, and any device reaches any other.
#
# Linux' soft-RoCE knows the first network namespace only. Where all addresses are local the kernel would send
# everything through lo and none of it over the cables: rules in the place of the first one make an address
# local for what arrives on its own device, and remote for what is sent. What arrives on another device, as
# broadcasts do, is not answered. A device's connections to itself (iflush) stay local.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL=C

sysctl_net() { # WHICH NAME VALUE
    echo "$3" >"/proc/sys/net/ipv4/conf/$1/$2"
}

accept_local_peers() { # INTERFACE
    sysctl_net "$1" rp_filter 0
    sysctl_net "$1" accept_local 1
    sysctl_net "$1" arp_ignore 1
    sysctl_net "$1" arp_announce 2
}

# NAME ADDRESS TABLE: a network interface on the switch, and its soft-RoCE device.
add_device() {
    ip link add "$1" mtu 9000 type veth peer name "p$1" mtu 9000
    ip link set "p$1" master sw up
    accept_local_peers "$1"
    ip addr add "$2/24" dev "$1"
    ip link set "$1" up
    ip route add local "$2" dev "$1" table "$3"
    ip rule add pref "$3" iif "$1" lookup "$3"
    ip rule add pref 400 iif lo from "$2" to "$2" lookup local
    rdma link add "rx$1" type rxe netdev "$1"
}

set_up_network() {
    ip link set lo up
    accept_local_peers all
    ip link add sw mtu 9000 type bridge mcast_snooping 0
    ip link set sw up
    ip rule del pref 0
    ip rule add pref 500 iif lo to 10.9.0.0/24 lookup main
    ip rule add pref 600 lookup local
    add_device a0 10.9.0.1 100
    add_device b0 10.9.0.2 101
    add_device a1 10.9.0.3 102
    add_device b1 10.9.0.4 103
}
