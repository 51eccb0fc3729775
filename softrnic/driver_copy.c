/* SPDX-License-Identifier: Apache-2.0 */
/* Measures which of the two ways to move a segment is faster on this machine. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "softrnic/driver.h"
#include "softrnic/local_copy.h"
#include "softrnic/local_ring.h"

/* Moves DT_LOCAL_SEGMENT_BYTES_MAX as the wire does it: by fetch, or by the sender's copy; each with the
 * landing. */
static int move(uint8_t *from, uint8_t *through, uint8_t *to, bool by_fetch)
{
    const uint64_t bytes = DT_LOCAL_SEGMENT_BYTES_MAX;
    struct iovec iov = {.iov_base = from, .iov_len = bytes};
    int error = 0;

    if (!by_fetch) {
        dt_copy_out(through, from, bytes);
        dt_copy_ascending(to, through, bytes);
    }
    for (uint64_t at = 0; by_fetch && at < bytes && !error; at += DT_FETCH_PIECE_BYTES) {
        error = dt_fetch(getpid(), &iov, 1, at, through, DT_FETCH_PIECE_BYTES);
        dt_copy_ascending(to + at, through, DT_FETCH_PIECE_BYTES);
    }
    return error;
}

/* The shortest of some tries. */
static uint64_t measure_move_ns(uint8_t *from, uint8_t *through, uint8_t *to, bool by_fetch)
{
    uint64_t best_ns = DT_NEVER_NS;

    for (int i = 0; i < 4; i++) {
        uint64_t start_ns = dt_clock_now_ns();

        if (move(from, through, to, by_fetch))
            return DT_NEVER_NS;
        best_ns = dt_earlier_ns(best_ns, dt_clock_now_ns() - start_ns);
    }
    return best_ns;
}

bool dt_driver_copies_are_faster(void)
{
    static int answer = -1;
    const uint64_t bytes = DT_LOCAL_SEGMENT_BYTES_MAX;
    uint8_t *memory = answer < 0 ? malloc(3 * bytes) : NULL;

    if (memory) {
        memset(memory, 1, 3 * bytes);
        uint64_t fetch_ns = measure_move_ns(memory, memory + bytes, memory + 2 * bytes, true);
        uint64_t copies_ns = measure_move_ns(memory, memory + bytes, memory + 2 * bytes, false);
        answer = copies_ns < fetch_ns;
        dt_trace("software RNIC: %u KiB moved in %" PRIu64 " ns by fetch, %" PRIu64 " ns by two copies",
                 DT_LOCAL_SEGMENT_BYTES_MAX >> 10, fetch_ns, copies_ns);
        free(memory);
    }
    return answer > 0;
}
