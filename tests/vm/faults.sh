# SPDX-License-Identifier: Apache-2.0
# In the guest: what happens to running ranks when their rails stop carrying traffic.
set -u
. "$DETOUR_VM_SOURCE/tests/vm/net.sh"
. "$DETOUR_VM_SOURCE/tests/vm/check.sh"
set_up_network
describe
link="$DETOUR_VM_SOURCE/tests/vm/link.sh"

# WHAT FAULT: when it happens to both interfaces of rank A, both ranks end and report why.
check_death() {
    local what=$1 fault=$2 start interface
    start_ranks sendrecv -b 64K -n 100000000 --timeout 20
    wait_for_traffic rxa0 rxa1
    check "$what: traffic on both rails" 0 $?
    start=$(date +%s%N)
    for interface in a0 a1; do
        "$link" "$interface" $fault
    done
    wait_ranks
    echo "vm: $what: both ranks have ended $((($(date +%s%N) - start) / 1000000)) ms after it began"
    check "$what: exit codes" "1 1" "$codes"
    # The rank that detects it first ends the other as well; a receiver's flushed receives may come before its own error.
    cat /dev/shm/rank.a /dev/shm/rank.b >/dev/shm/ranks
    check_line "$what: the reason" "queue pair [0-9]* to [0-9]*.*: .* (status \(12\|5\), vendor_err 0x0)" /dev/shm/ranks
    for interface in a0 a1; do
        "$link" "$interface" restore
    done
}

# 17 ms, six times; then three seconds for a path to come back.
export DETOUR_TIMEOUT=12 DETOUR_RETRY_CNT=5 DETOUR_DEAD_MS=3000
check_death "all cables of rank A cut" down
check_death "all that rank A sends is lost" "loss 100"
finish
