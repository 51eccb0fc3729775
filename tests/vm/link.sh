#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: link.sh INTERFACE down|up|off|on|loss PERCENT|lose-every N|lost|delay MS|heal
#   down, up   pulls the cable at the switch and puts it back
#   off, on    the same by the host's administrator: `ip link set down`
#   loss       of what the interface sends, at random
#   lose-every N-th packet that it sends
#   lost       fails when lose-every has lost nothing
#   delay      of what it sends
#   heal       an end to loss and delay
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
interface=$1
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
lost) tc -s filter show dev "$interface" egress | grep -q 'dropped [1-9]' ;;
delay) tc qdisc replace dev "$interface" root netem delay "${3}ms" limit 100000 ;;
heal)
    tc qdisc del dev "$interface" root 2>/dev/null || true
    tc qdisc del dev "$interface" clsact 2>/dev/null || true
    ;;
*) echo "link.sh: $2?" >&2; exit 2 ;;
esac
