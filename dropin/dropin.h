/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside the drop-in library: the software RNIC (softrnic/softrnic.h) under the names, signatures and symbol
 * versions of libibverbs. dropin.map says which name has which version; functions here only translate.
 *
 * What a software RNIC has not answers EOPNOTSUPP in the way of its kind, and sets errno as well.
 */
#ifndef DETOUR_DROPIN_DROPIN_H
#define DETOUR_DROPIN_DROPIN_H

#ifdef __cplusplus
extern "C" {
#endif

#define DT_EXPORT __attribute__((visibility("default")))

/*
 * Reads the settings (DETOUR_SOFT_*), once in a process's life. 0, or EINVAL when one of them cannot be used:
 * that has been said.
 */
int dt_dropin_configure(void);

/* Both set errno to EOPNOTSUPP; the first returns it. */
int dt_dropin_no_int(void);
void *dt_dropin_no_pointer(void);

#ifdef __cplusplus
}
#endif

#endif
