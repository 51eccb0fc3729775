# SPDX-License-Identifier: Apache-2.0
"""An hour of delays with what PipeMorph states of its recorded trace (section 7.5, figure 22), which is not published:
median 13.0 ms, mean 22.3 ms, 99th percentile 79.3 ms, and congestion from 1300 to 2500 s, the worst from 1700 to 2200 s.
The values between are ours. A delay lasts 10 s."""
import random
import statistics

WINDOW_S = 10
CONGESTED_S = (1300, 2500)

# Delay in ms: windows of the hour.
WINDOWS = {4: 25, 6: 30, 8: 40, 10: 45, 12: 35, 13: 16, 16: 30, 20: 25, 25: 20, 30: 13, 40: 22, 50: 19, 60: 22, 70: 12,
           79.3: 4, 84: 2}


def trace():
    """The delay of each window in the order of time: the larger ones in the congested part, otherwise mixed."""
    draw = random.Random(22)
    delays = sorted(delay for delay, count in WINDOWS.items() for _ in range(count))

    def load(window):
        start = window * WINDOW_S
        return draw.random() + 0.7 * (CONGESTED_S[0] <= start < CONGESTED_S[1]) + 0.3 * (1700 <= start < 2200)

    order = sorted(range(len(delays)), key=[load(window) for window in range(len(delays))].__getitem__)
    made = [0] * len(delays)
    for window, delay in zip(order, delays):
        made[window] = delay
    return made


def congested():
    first, last = (second // WINDOW_S for second in CONGESTED_S)
    return trace()[first:last]


_ALL = sorted(trace())
assert len(_ALL) * WINDOW_S == 3600
assert statistics.median(_ALL) == 13.0
assert round(statistics.mean(_ALL), 1) == 22.3
assert _ALL[len(_ALL) * 99 // 100] == 79.3
