# SPDX-License-Identifier: Apache-2.0
# In the guest: `detour perf` between two ranks with two rails each, on the kernel's RDMA stack. Every byte is
# compared (docs/perf.md); both rails must have carried their share. At last: where the host path
# copies, and where its memory is (numa.sh).
set -u
. "$DETOUR_VM_SOURCE/tests/vm/net.sh"
. "$DETOUR_VM_SOURCE/tests/vm/check.sh"
set_up_network
describe

# WHAT OPTIONS...: two ranks, and the check of both.
check_perf() {
    local what=$1 a0 a1
    shift
    a0=$(sent rxa0) a1=$(sent rxa1)
    start_ranks "$@" --timeout $HANG_S
    wait_ranks
    check "$what: exit codes" "0 0" "$codes"
    check_more "$what: packets on the first rail" $(($(sent rxa0) - a0)) 50
    check_more "$what: packets on the second rail" $(($(sent rxa1) - a1)) 50
}

. "$DETOUR_VM_SOURCE/tests/vm/numa.sh"

check_perf "sendrecv" sendrecv -b 8 -e 2M -f 8 -n 2
check_perf "all_reduce" all_reduce -b 8 -e 2M -f 8 -n 2
check_perf "whole messages up to 4 MiB" sendrecv --raw -b 64K -e 4M -f 8 -n 2 --window 4 --flush
check_numa
finish
