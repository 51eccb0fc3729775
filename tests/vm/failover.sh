# SPDX-License-Identifier: Apache-2.0
# In the guest: a rail stops under running ranks and comes back, once by its cable and once by losing everything.
# Every byte is compared in every iteration; the pauses are reported.
set -u
. "$DETOUR_VM_SOURCE/tests/vm/net.sh"
. "$DETOUR_VM_SOURCE/tests/vm/check.sh"
set_up_network
describe
link="$DETOUR_VM_SOURCE/tests/vm/link.sh"

# INTERFACE FAULT DEVICE OTHER: the fault, the switch, its end and the return, while the data flows; false if it ends before.
fault() {
    wait_for_traffic rxa0 rxa1 || return
    "$link" "$1" $2
    wait_for_line "path 0, $3 to .* is settled" || return
    wait_for_traffic "$4" || return
    "$link" "$1" restore
    wait_for_line "path 0, $3 to .* is in use again" && wait_for_traffic "$3"
}

# WHAT INTERFACE FAULT DEVICE OTHER SECONDS: all that under ranks that run for this time, and their data was right.
switch() {
    local what=$1 seen
    start_ranks sendrecv -b 64K -n 20 --seconds "$6" -c 2 --timeout 60
    fault "$2" "$3" "$4" "$5"
    seen=$?
    wait_ranks
    "$link" "$2" restore
    check "$what: exit codes" "0 0" "$codes"
    cat /dev/shm/rank.a /dev/shm/rank.b >/dev/shm/ranks
    check "$what: wrong elements" 0 "$(awk '$1 == 65536 {print $9}' /dev/shm/ranks)"
    sed -n 's/.*\(path [0-9], .*\) epoch .* is settled.* \([0-9]*\) us in all.*/\1 \2/p' /dev/shm/ranks |
        while read -r line; do echo "vm: $what: pause in us: $line"; done
    return $seen
}

# 17 ms, six times; half a second without trouble before a rail is used again.
export DETOUR_TIMEOUT=12 DETOUR_RETRY_CNT=5 DETOUR_STABLE_MS=500 NCCL_DEBUG=INFO
under_ranks "a pulled cable" switch "a pulled cable" a0 down rxa0 rxa1
under_ranks "a rail that loses everything" switch "a rail that loses everything" a1 "loss 100" rxa1 rxa0
finish
