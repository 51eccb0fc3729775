# SPDX-License-Identifier: Apache-2.0
# In the guest: `detour inject` makes a device of the kernel fail under running ranks (docs/injection.md, "Faults") and lets it
# work again: by removing the rule, and by the end of its window. Every byte is compared in every iteration.
set -u
. "$DETOUR_VM_SOURCE/tests/vm/net.sh"
. "$DETOUR_VM_SOURCE/tests/vm/check.sh"
set_up_network
describe
export DETOUR_RUNTIME_DIR=/dev/shm/detour DETOUR_TIMEOUT=12 DETOUR_RETRY_CNT=5 DETOUR_STABLE_MS=500 NCCL_DEBUG=INFO
detour="$DETOUR_VM_BUILD/bin/detour"

# Of the rules of both ranks.
acted() {
    "$detour" inject list | awk '$3 ~ /^[0-9]+$/ {sum += $5} END {print sum + 0}'
}

# A device that goes down and recovers; then an error in the place of a success. False if the data ends before: what was
# found then proves nothing.
inject_faults() {
    wait_for_traffic rxa0 rxa1 || return
    # Only rank A has a device of this name: the other reports that, and it is the exit code.
    "$detour" inject add device=rxa0 down >/dev/shm/order 2>&1
    wait_for_line "rxa0 to .* is settled" || return
    "$detour" nic list >/dev/shm/nics
    down_acted=$(acted)
    wait_for_traffic rxa1 || return
    "$detour" inject clear >/dev/null
    wait_for_line "rxa0 to .* is in use again" && wait_for_traffic rxa0 || return

    "$detour" inject add device=rxb1 status=retry_exceeded count=1 >/dev/null 2>&1
    wait_for_line "rxb1.*transport retry count exceeded" || return
    error_acted=$(acted)
    wait_for_line "rxb1 to .* is in use again" && wait_for_traffic rxa0 rxa1
}

# SECONDS: that under ranks that run for this time, whose data was right; and the effect followed the rules.
inject() {
    local seen
    start_ranks sendrecv -b 64K -n 20 --seconds "$1" -c 2 --timeout 60
    inject_faults
    seen=$?
    wait_ranks
    check "exit codes" "0 0" "$codes"
    cat /dev/shm/rank.a /dev/shm/rank.b >/dev/shm/ranks
    check "wrong elements" 0 "$(awk '$1 == 65536 {print $9}' /dev/shm/ranks)"
    [ $seen = 0 ] || return
    check_line "rank A takes the order" "rule 1 device=\"rxa0\" down" /dev/shm/order
    check_more "down: queue pairs that the rule has failed" "$down_acted" 2
    check_line "down: it shows" "rxa0 .* down" /dev/shm/nics
    check "an error in the place of a success: the rule has acted" 1 "$error_acted"
}

under_ranks "a device that is down, and an error" inject
finish
