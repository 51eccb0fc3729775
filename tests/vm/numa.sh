# SPDX-License-Identifier: Apache-2.0
# Sourced by a guest's script: a machine of two NUMA nodes whose RNICs are on one or the other, and where the threads of
# the host path and its memory are then.

# DEVICE NODE: gives the device in sysfs what an RNIC in a slot has there, its PCI device with its node. The kernel's
# soft-RoCE devices are in no slot and have none.
put_on_node() {
    local layer=/dev/shm/sysfs.$1
    mkdir -p "$layer/upper/device" "$layer/work"
    echo "$2" >"$layer/upper/device/numa_node"
    mount -t overlay overlay "/sys/devices/virtual/infiniband/$1" \
        -o "lowerdir=/sys/devices/virtual/infiniband/$1,upperdir=$layer/upper,workdir=$layer/work"
}

# PID: the processors of each thread that copies, then the policy of the pool and the pages it has on each node.
placement() {
    local status
    for status in /proc/"$1"/task/*/status; do
        awk '$1 == "Name:" {name = $2} $1 == "Cpus_allowed_list:" && name == "detour-copy" {print $2}' "$status"
    done | sort | tr '\n' ' '
    # The only memory of that many pages: DETOUR_HOSTPATH_BYTES below.
    awk '$3 == "anon='$pool_pages'" {
        printf "%s", $2
        for (i = 3; i <= NF; i++)
            if ($i ~ /^N[0-9]/)
                printf " %s", $i
    }' /proc/"$1"/numa_maps
}

# PID: both its copying threads have slept a hundred times between jobs, so their start is long over.
are_at_work() {
    awk '$1 == "Name:" {name = $2}
         $1 == "voluntary_ctxt_switches:" && name == "detour-copy" && $2 >= 100 {count++}
         END {exit count < 2}' /proc/"$1"/task/*/status
}

# WHAT RANK EXPECTED: right at once, or when the threads have begun to work.
check_placement() {
    local pid found i
    pid=$(awk -v rank="$2" '$2 == "Rank" && $3 == rank {print $5}' /dev/shm/rank.a)
    for i in $(seq $HANG_S); do
        found=$(placement "$pid")
        [ "$found" != "$3" ] && ! are_at_work "$pid" && [ "$(is_running)" = yes ] || break
        sleep 1
    done
    check "$1: copy threads' processors, memory" "$3" "$(placement "$pid")"
}

# The RNICs of rank A are on node 1, those of rank B on node 0.
check_numa() {
    local cpus0 cpus1
    cpus0=$(cat /sys/devices/system/node/node0/cpulist)
    cpus1=$(cat /sys/devices/system/node/node1/cpulist)
    check "the guest's nodes have processors of their own" "0 1" "$cpus0 $cpus1"
    put_on_node rxa0 1
    put_on_node rxa1 1
    put_on_node rxb0 0
    put_on_node rxb1 0
    echo 3 >/proc/sys/vm/drop_caches # both nodes have room, or the kernel takes memory of the other
    pool_pages=3072
    DETOUR_HOSTPATH=on DETOUR_HOSTPATH_BYTES=$((pool_pages * 4096)) start_ranks sendrecv -b 256K -n 100000000 \
        --timeout $HANG_S
    wait_for_traffic rxa0 rxa1
    check "traffic on both rails" 0 $?
    check_placement "RNICs on node 1" 0 "$cpus1 $cpus1 prefer:1 N1=$pool_pages"
    check_placement "RNICs on node 0" 1 "$cpus0 $cpus0 prefer:0 N0=$pool_pages"
    kill "${pids[@]}"
    wait_ranks
}
