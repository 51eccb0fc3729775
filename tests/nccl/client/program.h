/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of sends and receives, launched as a pipeline's framework launches them, and the time at which each
 * of NCCL's kernels leaves its stream: the start of what is queued behind it.
 */
#ifndef DETOUR_TESTS_NCCL_CLIENT_PROGRAM_H
#define DETOUR_TESTS_NCCL_CLIENT_PROGRAM_H

#include "tests/nccl/client/rank.h"

/* Communicators of pairs are kept for later programs; destroys them. */
void close_pairs(struct rank *rank);

/*
 * text: BYTES:STREAMS:KERNEL[,KERNEL]...; a KERNEL is FROM>TO[+FROM>TO]..., messages of one ncclGroup. Each
 * rank launches its ends of the messages in this order. STREAMS:
 *
 *   one    all kernels in one stream, on one communicator
 *   each   a stream for each kernel, on one communicator
 *   pairs  a communicator and a stream for each pair of rank 0 and another rank; every message has rank 0 at
 * one end
 *
 * Prints for each kernel of this rank, when it has left its stream:
 *
 *   rank R: kernel K ended at T ns (of CLOCK_MONOTONIC), D us after the launch
 *
 * K counts all kernels of the text from 0. Checks what arrived. False: the text is not one.
 */
int run_program(struct rank *rank, const char *text);

#endif
