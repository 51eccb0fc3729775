/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the drop-in library: the software RNIC (softrnic/softrnic.h) under the names, signatures and
 * symbol versions of libibverbs. dropin.map lists each name with its version; the functions here only
 * translate.
 *
 * An unsupported call answers EOPNOTSUPP in the way of its kind, and also sets errno.
 */
#ifndef DETOUR_DROPIN_DROPIN_H
#define DETOUR_DROPIN_DROPIN_H

#ifdef __cplusplus
extern "C" {
#endif

#define DT_EXPORT __attribute__((visibility("default")))

/*
 * Reads the settings (DETOUR_SOFT_*), once per process. 0, or EINVAL when one of them is invalid (one WARN).
 */
int dt_dropin_configure(void);

/* Both set errno to EOPNOTSUPP; the first returns it. */
int dt_dropin_no_int(void);
void *dt_dropin_no_pointer(void);

#ifdef __cplusplus
}
#endif

#endif
