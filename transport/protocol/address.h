/* SPDX-License-Identifier: Apache-2.0 */
/* The address at which a process accepts set-up and control channels: IP address and TCP port. */
#ifndef DETOUR_TRANSPORT_PROTOCOL_ADDRESS_H
#define DETOUR_TRANSPORT_PROTOCOL_ADDRESS_H

#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

enum dt_address_family { DT_ADDRESS_NONE = 0, DT_ADDRESS_IPV4 = 4, DT_ADDRESS_IPV6 = 6 };

struct dt_address {
    uint8_t family; /* enum dt_address_family */
    uint8_t ip[16]; /* network byte order; IPv4: the first four */
    uint16_t port;  /* host byte order; 0: any */
    uint32_t scope; /* of an IPv6 link-local address: index of this host's interface (RFC 4007); never sent */
    /* Random identity of the process that listens there, known to holders of its handles (session/pair.h); 0:
     * it has none. */
    uint64_t process;
};

#define DT_ADDRESS_TEXT_BYTES 64

/* "10.0.0.1:1234", "[fd00::1]:1234" or "[fe80::1%eth0]:1234"; returns `text`. */
const char *dt_address_text(const struct dt_address *address, char text[DT_ADDRESS_TEXT_BYTES]);

/* The address of a peer, as received: a link-local one is valid on the link of `own`, this host's address. */
struct dt_address dt_address_on_link_of(const struct dt_address *own, const struct dt_address *peer);

/* ------------------------------------------------------------------------------------------------------------
 * Which of the host's interfaces to listen on.
 */
struct dt_interface {
    char name[32];
    struct dt_address address; /* port 0 */
    uint8_t is_up;             /* and has a link */
    uint8_t is_loopback;
};

/*
 * Index of the interface to use, or -1. `filter` (name_filter.h) decides when it is not empty: the first that
 * it lets through. Else the first that is up and neither loopback nor a bridge of this host's containers and
 * virtual machines (docker*, virbr*), else loopback. IPv4 before IPv6 where `family` is NONE; else that one.
 * An IPv6 link-local address comes after the others: only hosts on the same link reach it.
 */
int dt_interface_choose(const struct dt_interface *interfaces, size_t count, const char *filter,
                        enum dt_address_family family);

/*
 * The address of this host to listen on, chosen as above; `name` is set to the interface's. DT_NOT_FOUND with
 * one WARN that lists what there is; DT_SYSTEM when the interfaces cannot be listed.
 */
enum dt_status dt_interface_find(const char *filter, enum dt_address_family family,
                                 struct dt_address *address, char name[32]);

/* DETOUR_SOCKET_FAMILY: AF_INET, AF_INET6, or empty for NONE, which any other text is after one WARN. */
enum dt_address_family dt_address_family_of(const char *text);

#ifdef __cplusplus
}
#endif

#endif
