/* SPDX-License-Identifier: Apache-2.0 */
/* Exit codes of the `detour` command and of the ranks it starts. */
#ifndef DETOUR_BASE_EXIT_H
#define DETOUR_BASE_EXIT_H

enum dt_exit {
    DT_EXIT_OK = 0,
    DT_EXIT_FAILED = 1,  /* the work failed */
    DT_EXIT_USAGE = 2,   /* the input is wrong: options, files, settings */
    DT_EXIT_RESTART = 75 /* the work is to be started again; EX_TEMPFAIL of BSD */
};

#endif
