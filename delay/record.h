/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The record of injected delays, message by message: a ring that keeps the newest entries until they are
 * fetched, and the table that replays the same delays (`replay=`).
 *
 * Text form, one message per line (the file that `detour inject record` writes):
 *
 *   process,pid,time_ns,connection,id,device,peer,message,bytes,delay_ns,late_ns
 *
 * time_ns is the submission (CLOCK_MONOTONIC); the message was due delay_ns later and was posted late_ns
 * after that. `process` counts the recorded processes from 0, ascending by process number.
 */
#ifndef DETOUR_DELAY_RECORD_H
#define DETOUR_DELAY_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "delay/rule.h"

#ifdef __cplusplus
extern "C" {
#endif

#define DT_DELAY_RECORD_HEADER "process,pid,time_ns,connection,id,device,peer,message,bytes,delay_ns,late_ns"

struct dt_delay_entry {
    uint64_t time_ns;
    uint64_t id;
    uint64_t message; /* its sequence number on the connection */
    uint64_t bytes;
    uint64_t delay_ns;
    uint64_t late_ns;
    uint32_t connection; /* its number */
    char device[DT_DELAY_NAME_BYTES];
    char peer[DT_DELAY_NAME_BYTES];
};

/* "time_ns,connection,...": the columns after the pid. Returns the length, like snprintf(3). */
int dt_delay_entry_print(const struct dt_delay_entry *entry, char *to, size_t bytes);

/* ------------------------------------------------------------------------------------------------------------
 * The ring. Any thread; a lock is held for the copy of one entry.
 */
#define DT_DELAY_RING_ENTRIES 16384u

struct dt_delay_ring;

enum dt_status dt_delay_ring_create(struct dt_delay_ring **ring);
void dt_delay_ring_destroy(struct dt_delay_ring *ring);

void dt_delay_ring_write(struct dt_delay_ring *ring, const struct dt_delay_entry *entry);

/*
 * Copies entry `number` (counted from 0), or the oldest one if that was overwritten, and returns the number
 * of the copied entry; DT_NEVER_NS: not written yet.
 */
uint64_t dt_delay_ring_read(struct dt_delay_ring *ring, uint64_t number, struct dt_delay_entry *entry);

/* ------------------------------------------------------------------------------------------------------------
 * The table: constant after parsing.
 */
struct dt_delay_replay;

/* Parses the messages of one process of a record. DT_INVALID: *error has the position; DT_NO_MEMORY. */
enum dt_status dt_delay_replay_parse(const char *text, size_t bytes, uint32_t process,
                                     struct dt_delay_replay **replay, struct dt_delay_error *error);
void dt_delay_replay_destroy(struct dt_delay_replay *replay);

/* The delay of the message; 0 if it is not in the record. */
uint64_t dt_delay_replay_at(const struct dt_delay_replay *replay, uint32_t connection, uint64_t message);

#ifdef __cplusplus
}
#endif

#endif
