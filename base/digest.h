/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FNV-1a with 64 bits (Fowler, Noll, Vo): tells apart what two processes of a job were given. Not for hostile
 * input: collisions are easy to construct.
 */
#ifndef DETOUR_BASE_DIGEST_H
#define DETOUR_BASE_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#define DT_DIGEST_EMPTY 0xcbf29ce484222325ull

/* The digest of what `digest` stands for, followed by these bytes. */
static inline uint64_t dt_digest_add(uint64_t digest, const void *data, size_t bytes)
{
    const unsigned char *at = (const unsigned char *)data;

    while (bytes--)
        digest = (digest ^ *at++) * 0x100000001b3ull;
    return digest;
}

#endif
