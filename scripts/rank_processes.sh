# SPDX-License-Identifier: Apache-2.0
# Sourced by scripts that start the ranks of a job: $work is a folder for their files, and at the script's end the
# processes in the array `pids` are killed and the folder is removed.
work=$(mktemp -d)
pids=()
clean_up() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    rm -rf "$work"
}
trap clean_up EXIT

# Waits for all of them; returns the exit status of the last one that failed.
wait_for_ranks() {
    local pid status=0
    for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
    pids=()
    return "$status"
}
