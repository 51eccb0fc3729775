#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: link.sh INTERFACE down|up|off|on|loss PERCENT|lose-every N|lost|deaf|delay MS|heal|restore
#   down, up   pulls the cable at the switch and puts it back
#   off, on    the same by the host's administrator: `ip link set down`
#   loss       of what the interface sends, at random
#   deaf       all that the switch sends to it is lost
#   lose-every N-th packet that it sends
#   lost       fails when lose-every has lost nothing
#   delay      of what it sends
#   heal       an end to loss and delay
#   restore    all of it
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
interface=$1

heal() {
    tc -force -batch - 2>/dev/null <<<"qdisc del dev $interface root
        qdisc del dev $interface clsact
        qdisc del dev p$interface root" || true
}

case $2 in
down) ip link set "p$interface" down ;;
up) ip link set "p$interface" up ;;
off) ip link set "$interface" down ;;
on) ip link set "$interface" up ;;
loss) tc qdisc replace dev "$interface" root netem loss "$3%" limit 100000 ;;
lose-every)
    tc qdisc replace dev "$interface" clsact
    tc filter replace dev "$interface" egress pref 1 matchall action gact ok random determ drop "$3"
    ;;
deaf) tc qdisc replace dev "p$interface" root netem loss 100% limit 100000 ;;
lost) tc -s filter show dev "$interface" egress | grep -q 'dropped [1-9]' ;;
delay) tc qdisc replace dev "$interface" root netem delay "${3}ms" limit 100000 ;;
heal) heal ;;
restore)
    heal
    ip -batch - <<<"link set $interface up
        link set p$interface up"
    ;;
*) echo "link.sh: $2?" >&2; exit 2 ;;
esac
