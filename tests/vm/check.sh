# SPDX-License-Identifier: Apache-2.0
# Sourced by the guest's scripts after net.sh: ranks, and what was expected of them.
failures=0
# Ends what hangs, and decides nothing else: a machine with other work is ten times slower for a while.
HANG_S=600

# WHAT EXPECTED ACTUAL
check() {
    if [ "$2" = "$3" ]; then
        echo "vm: ok: $1: $3"
    else
        echo "vm: FAILED: $1: expected '$2', found '$3'"
        failures=$((failures + 1))
    fi
}

# WHAT NUMBER LEAST
check_more() {
    if [ "$2" -ge "$3" ]; then
        echo "vm: ok: $1: $2"
    else
        echo "vm: FAILED: $1: expected at least $3, found '$2'"
        failures=$((failures + 1))
    fi
}

# WHAT PATTERN FILE: a line of the file matches.
check_line() {
    local line
    if line=$(grep -m 1 -e "$2" "$3"); then
        echo "vm: ok: $1: $line"
    else
        echo "vm: FAILED: $1: no line with '$2' in:"
        cat "$3"
        failures=$((failures + 1))
    fi
}

# What this guest is, for the log.
describe() {
    echo "vm: Linux $(uname -r), $(rdma -V), devices:"
    rdma link
}

# OPTIONS...: starts `detour perf` as rank A and rank B, each with the two devices of its own; their output goes
# to /dev/shm/rank.a and rank.b.
start_ranks() {
    local rank letters=(a b)
    export DETOUR_VERBS=system DETOUR_POSTING=std DETOUR_SOCKET_IFNAME==lo NCCL_DEBUG=${NCCL_DEBUG:-WARN}
    pids=()
    for rank in 0 1; do
        DETOUR_HCA=rx${letters[rank]} timeout -k 5 $HANG_S "$DETOUR_VM_BUILD/bin/detour" perf "$@" --ranks 2 \
            --rendezvous 127.0.0.1:5000 --rank $rank >"/dev/shm/rank.${letters[rank]}" 2>&1 &
        pids+=($!)
    done
}

# Packets that a device has sent.
sent() {
    cat "/sys/class/infiniband/$1/ports/1/hw_counters/sent_pkts"
}

# Does rank A run?
is_running() {
    kill -0 "${pids[0]}" 2>/dev/null && echo yes || echo no
}

# DEVICES...: until each of them has sent some more; false if rank A has ended before.
wait_for_traffic() {
    local device target i
    for device in "$@"; do
        target=$(($(sent "$device") + 20))
        for i in $(seq $((HANG_S * 5))); do
            [ "$(sent "$device")" -lt $target ] || continue 2
            [ "$(is_running)" = yes ] || return 1
            sleep 0.2
        done
        return 1
    done
}

# Waits for both, shows their output; their exit codes are then in `codes`.
wait_ranks() {
    local pid
    codes=""
    for pid in "${pids[@]}"; do
        wait "$pid"
        codes="$codes $?"
    done
    codes=${codes# }
    cat /dev/shm/rank.a /dev/shm/rank.b
}

# PATTERN: until a rank logs it; false if rank A has ended before.
wait_for_line() {
    local i
    for i in $(seq $((HANG_S * 5))); do
        ! grep -q -e "$1" /dev/shm/rank.a /dev/shm/rank.b || return 0
        [ "$(is_running)" = yes ] || break
        sleep 0.2
    done
    return 1
}

# How long ranks run whose rails stop: as long as this guest took to boot, which shows how busy the machine is.
read -r run_s _ </proc/uptime
run_s=${run_s%.*}
[ "$run_s" -ge 10 ] || run_s=10

# WHAT COMMAND...: COMMAND SECONDS starts ranks that run for this time, does something to them, and is false when they were
# through before it was. Then it is done once more, with twice the time, which is kept for what follows.
under_ranks() {
    local what=$1
    shift
    until "$@" $run_s; do
        [ $failures = 0 ] || return
        echo "vm: $what: not done when the ranks were through, after $run_s s"
        run_s=$((run_s * 2))
        if [ $run_s -gt $HANG_S ]; then
            check "$what: done while the ranks ran" yes no
            return
        fi
    done
    check "$what: done while the ranks ran" yes yes
}

# The end of a script.
finish() {
    echo "vm: $failures failures"
    exit $((failures > 0))
}
