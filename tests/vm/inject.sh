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

calibrate 90
start_ranks sendrecv -b 64K -n $iterations -c 2 --timeout 60
wait_for_traffic
check "traffic on both rails" 0 $?

# Only rank A has a device of this name: the other says so, and that is the exit code.
"$detour" inject add device=rxa0 down >/dev/shm/order 2>&1
check_line "rank A takes the order" "rule 1 device=\"rxa0\" down" /dev/shm/order
wait_for_line "rxa0 to .* is settled"
check "down: a path over it is settled" 0 $?
check_more "down: queue pairs that the rule has failed" "$(acted)" 2
"$detour" nic list >/dev/shm/nics
check_line "down: it shows" "rxa0 .* down" /dev/shm/nics
check "down: the ranks go on meanwhile" yes "$(is_running)"
"$detour" inject clear >/dev/null
wait_for_line "rxa0 to .* is in use again"
check "down: the rail is used again" 0 $?

"$detour" inject add device=rxb1 status=retry_exceeded count=1 >/dev/null 2>&1
wait_for_line "rxb1.*transport retry count exceeded"
check "an error in the place of a success: noticed" 0 $?
check "an error in the place of a success: the rule has acted" 1 "$(acted)"
wait_for_line "rxb1 to .* is in use again"
check "an error in the place of a success: the rail is used again" 0 $?

wait_ranks
check "exit codes" "0 0" "$codes"
cat /dev/shm/rank.a /dev/shm/rank.b >/dev/shm/ranks
check "wrong elements" 0 "$(awk '$1 == 65536 {print $9}' /dev/shm/ranks)"
finish
