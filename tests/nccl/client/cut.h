/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts the control network of the plugin under test: socket() and accept4() of this program stand before the
 * C library's and remember the TCP sockets that the plugin opened, told apart from NCCL's own by the caller's
 * library.
 */
#ifndef DETOUR_TESTS_NCCL_CLIENT_CUT_H
#define DETOUR_TESTS_NCCL_CLIENT_CUT_H

/* Shuts down every TCP connection of the plugin that is open. Returns how many there were. */
int cut_control_network(void);

#endif
