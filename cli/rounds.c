/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rounds.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"

static void end_signals(sigset_t *signals)
{
    sigemptyset(signals);
    sigaddset(signals, SIGINT);
    sigaddset(signals, SIGTERM);
}

void dt_rounds_begin(struct dt_rounds *rounds, const char *command, uint32_t period_ms)
{
    sigset_t signals;

    *rounds = (struct dt_rounds){.command = command, .period_ms = period_ms};
    end_signals(&signals);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    setvbuf(stdout, NULL, _IOLBF, 0);
}

bool dt_rounds_wait(const struct dt_rounds *rounds)
{
    const struct timespec period = {.tv_sec = rounds->period_ms / 1000,
                                    .tv_nsec = (long)(rounds->period_ms % 1000) * (long)DT_NS_PER_MS};
    sigset_t signals;

    end_signals(&signals);
    return sigtimedwait(&signals, NULL, &period) < 0 && (errno == EAGAIN || errno == EINTR) &&
           !ferror(stdout);
}

int64_t dt_rounds_time_ns(void)
{
    struct timespec now;

    timespec_get(&now, TIME_UTC);
    return (int64_t)now.tv_sec * (int64_t)DT_NS_PER_S + now.tv_nsec;
}

void dt_rounds_line(const struct dt_rounds *rounds, bool is_error, const char *text)
{
    int64_t time_ns = dt_rounds_time_ns();
    time_t seconds = (time_t)(time_ns / (int64_t)DT_NS_PER_S);
    char clock[16] = "";
    struct tm local;

    if (localtime_r(&seconds, &local))
        strftime(clock, sizeof clock, "%H:%M:%S", &local);
    if (is_error)
        fprintf(stderr, "%s: ", rounds->command);
    fprintf(is_error ? stderr : stdout, "%s.%03d %s\n", clock,
            (int)(time_ns % (int64_t)DT_NS_PER_S / (int64_t)DT_NS_PER_MS), text);
    fflush(stdout); /* into a file too: the command runs as long as the job */
}

void dt_rounds_result(struct dt_rounds *rounds, const struct dt_store *store, enum dt_status status)
{
    char text[DT_STORE_REASON_BYTES + 64];

    if (status != DT_OK && !rounds->is_cut_off) {
        snprintf(text, sizeof text, "%s; trying again", store->reason);
        dt_rounds_line(rounds, true, text);
    } else if (status == DT_OK && rounds->is_cut_off) {
        dt_rounds_line(rounds, true, "the store answers again");
    }
    rounds->is_cut_off = status != DT_OK;
}
