/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps a lease of the store (store.h) from round to round: it is renewed after a third of its time, and has
 * ended for its holder once that time is over without an answer of the store.
 *
 * Pure: time is an argument. Owner: one thread.
 */
#ifndef DETOUR_CONTROLLER_LEASE_H
#define DETOUR_CONTROLLER_LEASE_H

#include <stdbool.h>
#include <stdint.h>

#include "controller/store.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Besides the first three members all zeros at first. */
struct dt_lease {
    struct dt_store *store;
    char name[DT_STORE_NAME_BYTES];
    uint32_t ms;
    char holder[DT_STORE_NAME_BYTES];
    bool is_held;
    uint64_t fence; /* of the last time that it was acquired */
    uint64_t until_ns;
    uint64_t renew_ns;
};

/* Acquires it: DT_OK, with a new fencing number. DT_AGAIN: another holder has it. Or the store's status. */
enum dt_status dt_lease_acquire(struct dt_lease *lease, uint64_t now_ns);

/* Renews it where that is due. DT_AGAIN: it has ended, or was never held. Or the store's status: it is held
 * until its time is over. */
enum dt_status dt_lease_renew(struct dt_lease *lease, uint64_t now_ns);

/* It is held as far as is known: its time is not over. */
bool dt_lease_is_held(const struct dt_lease *lease, uint64_t now_ns);

/* Ends it, if it is held. */
void dt_lease_release(struct dt_lease *lease);

#ifdef __cplusplus
}
#endif

#endif
