/* SPDX-License-Identifier: Apache-2.0 */
#include "transport/protocol/address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/name_filter.h"
#include "transport/protocol/codec.h"

#define INTERFACES_MAX 64

/* fe80::/10 */
static bool is_link_local(const struct dt_address *address)
{
    return address->family == DT_ADDRESS_IPV6 && address->ip[0] == 0xfe && (address->ip[1] & 0xc0) == 0x80;
}

const char *dt_address_text(const struct dt_address *address, char text[DT_ADDRESS_TEXT_BYTES])
{
    char ip[INET6_ADDRSTRLEN] = "?";
    char link[IF_NAMESIZE];
    bool is_ipv6 = address->family == DT_ADDRESS_IPV6;

    if (address->family != DT_ADDRESS_NONE)
        inet_ntop(is_ipv6 ? AF_INET6 : AF_INET, address->ip, ip, sizeof ip);
    if (is_link_local(address) && if_indextoname(address->scope, link))
        snprintf(text, DT_ADDRESS_TEXT_BYTES, "[%.39s%%%.15s]:%u", ip, link, address->port);
    else
        snprintf(text, DT_ADDRESS_TEXT_BYTES, is_ipv6 ? "[%s]:%u" : "%s:%u", ip, address->port);
    return text;
}

struct dt_address dt_address_on_link_of(const struct dt_address *own, const struct dt_address *peer)
{
    struct dt_address address = *peer;

    address.scope = is_link_local(peer) ? own->scope : 0;
    return address;
}

/* The lower the better; negative: not this one. */
static int rank_of(const struct dt_interface *interface, const char *filter, enum dt_address_family family)
{
    int rank = is_link_local(&interface->address) ? 2 : interface->address.family == DT_ADDRESS_IPV4 ? 0 : 1;

    if (!interface->is_up || !dt_name_filter_match(filter, interface->name, 0) ||
        (family != DT_ADDRESS_NONE && interface->address.family != family))
        return -1;
    if (*filter)
        return rank;
    if (interface->is_loopback)
        return rank + 4;
    return dt_name_filter_match("docker,virbr", interface->name, 0) ? -1 : rank;
}

int dt_interface_choose(const struct dt_interface *interfaces, size_t count, const char *filter,
                        enum dt_address_family family)
{
    int best = -1;
    int best_rank = 0;

    for (size_t i = 0; i < count; i++) {
        int rank = rank_of(&interfaces[i], filter, family);

        if (rank >= 0 && (best < 0 || rank < best_rank)) {
            best = (int)i;
            best_rank = rank;
        }
    }
    return best;
}

/* False for other families. */
static bool read_address(const struct sockaddr *from, struct dt_address *to)
{
    memset(to, 0, sizeof *to);
    if (from && from->sa_family == AF_INET) {
        to->family = DT_ADDRESS_IPV4;
        memcpy(to->ip, &((const struct sockaddr_in *)(const void *)from)->sin_addr, 4);
        return true;
    }
    if (from && from->sa_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = (const struct sockaddr_in6 *)(const void *)from;

        to->family = DT_ADDRESS_IPV6;
        memcpy(to->ip, &ipv6->sin6_addr, 16);
        to->scope = ipv6->sin6_scope_id;
        return true;
    }
    return false;
}

static size_t list_interfaces(const struct ifaddrs *all, struct dt_interface *out)
{
    size_t count = 0;

    for (const struct ifaddrs *i = all; i && count < INTERFACES_MAX; i = i->ifa_next) {
        if (!read_address(i->ifa_addr, &out[count].address))
            continue;
        snprintf(out[count].name, sizeof out[count].name, "%s", i->ifa_name);
        out[count].is_up = (i->ifa_flags & IFF_UP) && (i->ifa_flags & IFF_RUNNING);
        out[count].is_loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
        count++;
    }
    return count;
}

/* An interface has an entry for each of its addresses. */
static bool is_repeated(const struct dt_interface *interfaces, size_t index)
{
    bool is_found = false;

    for (size_t i = 0; i < index; i++)
        is_found |= strcmp(interfaces[i].name, interfaces[index].name) == 0;
    return is_found;
}

static void warn_none(const struct dt_interface *interfaces, size_t count, const char *filter)
{
    char names[256] = "";
    struct dt_writer w = {(uint8_t *)names, sizeof names - 1, 0, false};

    for (size_t i = 0; i < count; i++) {
        if (is_repeated(interfaces, i))
            continue;
        dt_put_bytes(&w, " ", 1);
        dt_put_bytes(&w, interfaces[i].name, strlen(interfaces[i].name));
    }
    dt_warn("no-interface",
            "no network interface for set-up: DETOUR_SOCKET_IFNAME or NCCL_SOCKET_IFNAME=\"%s\" lets none "
            "through of those with an address:%s",
            filter, *names ? names : " none");
}

enum dt_address_family dt_address_family_of(const char *text)
{
    if (strcmp(text, "AF_INET") == 0)
        return DT_ADDRESS_IPV4;
    if (strcmp(text, "AF_INET6") == 0)
        return DT_ADDRESS_IPV6;
    if (*text)
        dt_warn("setting-socket-family",
                "DETOUR_SOCKET_FAMILY or NCCL_SOCKET_FAMILY=%s: expected AF_INET or AF_INET6; it is ignored",
                text);
    return DT_ADDRESS_NONE;
}

enum dt_status dt_interface_find(const char *filter, enum dt_address_family family,
                                 struct dt_address *address, char name[32])
{
    struct dt_interface interfaces[INTERFACES_MAX];
    struct ifaddrs *all;
    size_t count;
    int chosen;

    if (getifaddrs(&all) != 0) {
        dt_warn("interface-list", "cannot list the network interfaces: %s", strerror(errno));
        return DT_SYSTEM;
    }
    count = list_interfaces(all, interfaces);
    freeifaddrs(all);
    chosen = dt_interface_choose(interfaces, count, filter, family);
    if (chosen < 0) {
        warn_none(interfaces, count, filter);
        return DT_NOT_FOUND;
    }
    *address = interfaces[chosen].address;
    snprintf(name, 32, "%s", interfaces[chosen].name);
    return DT_OK;
}
