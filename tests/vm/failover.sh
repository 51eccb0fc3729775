# SPDX-License-Identifier: Apache-2.0
# In the guest: a rail stops under running ranks and comes back, once by its cable and once by losing everything.
# Every byte is compared in every iteration; the pauses are reported.
set -u
. "$DETOUR_VM_SOURCE/tests/vm/net.sh"
. "$DETOUR_VM_SOURCE/tests/vm/check.sh"
set_up_network
describe
link="$DETOUR_VM_SOURCE/tests/vm/link.sh"

# WHAT INTERFACE FAULT DEVICE: the fault, the switch, its end, the return; and all data was right.
check_switch() {
    local what=$1 interface=$2 fault=$3 device=$4
    start_ranks sendrecv -b 64K -n $iterations -c 2 --timeout 60
    wait_for_traffic || return
    "$link" "$interface" $fault
    wait_for_line "path 0, $device to .* is settled"
    check "$what: settled" 0 $?
    check "$what: the ranks go on meanwhile" yes "$(is_running)"
    "$link" "$interface" restore
    wait_for_line "path 0, $device to .* is in use again"
    check "$what: the rail is used again" 0 $?
    wait_ranks
    check "$what: exit codes" "0 0" "$codes"
    cat /dev/shm/rank.a /dev/shm/rank.b >/dev/shm/ranks
    check "$what: wrong elements" 0 "$(awk '$1 == 65536 {print $9}' /dev/shm/ranks)"
    sed -n 's/.*\(path [0-9], .*\) epoch .* is settled.* \([0-9]*\) us in all.*/\1 \2/p' /dev/shm/ranks |
        while read -r line; do echo "vm: $what: pause in us: $line"; done
}

# 17 ms, six times; half a second without trouble before a rail is used again.
export DETOUR_TIMEOUT=12 DETOUR_RETRY_CNT=5 DETOUR_STABLE_MS=500 NCCL_DEBUG=INFO
calibrate 45
check_switch "a pulled cable" a0 down rxa0
check_switch "a rail that loses everything" a1 "loss 100" rxa1
finish
