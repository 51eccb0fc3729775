/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What libibverbs reads of a device in sysfs, as a tree of files in a folder of this process. libibverbs
 * looks there because SYSFS_PATH names it (rdma-core 44, libibverbs/sysfs.c). The GIDs are those of the
 * process' software RNICs.
 */
#ifndef DETOUR_TESTS_PROVIDER_TREE_H
#define DETOUR_TESTS_PROVIDER_TREE_H

#ifdef __cplusplus
extern "C" {
#endif

/* Character device numbers: 231 is infiniband_verbs', whose minors begin at 192 and end below 1000. */
#define DT_UVERBS_MAJOR 231
#define DT_UVERBS_MINOR 1092

/* Names a folder in SYSFS_PATH, which does not exist until dt_uverbs_tree_make(). */
void dt_uverbs_tree_begin(void);
/* Makes the folder and its files, once. */
void dt_uverbs_tree_make(void);
/* Removes the folder, in the process that made it. */
void dt_uverbs_tree_end(void);

#ifdef __cplusplus
}
#endif

#endif
