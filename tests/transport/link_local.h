/* SPDX-License-Identifier: Apache-2.0 */
/* An IPv6 link-local address of this host: a link-local one is only of use with its interface. */
#ifndef DETOUR_TESTS_TRANSPORT_LINK_LOCAL_H
#define DETOUR_TESTS_TRANSPORT_LINK_LOCAL_H

#ifdef __cplusplus
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "transport/protocol/address.h"

namespace detour_test
{
/* False where no interface has one that can be bound. */
inline bool FindLinkLocal(dt_address *address)
{
    ifaddrs *all = nullptr;
    bool is_found = false;
    if (getifaddrs(&all))
        return false;
    for (ifaddrs *i = all; i && !is_found; i = i->ifa_next) {
        const auto *from = reinterpret_cast<const sockaddr_in6 *>(i->ifa_addr);
        if (!from || from->sin6_family != AF_INET6 || !IN6_IS_ADDR_LINKLOCAL(&from->sin6_addr))
            continue;
        int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        is_found = fd >= 0 && bind(fd, i->ifa_addr, sizeof *from) == 0;
        if (fd >= 0)
            close(fd);
        *address = {};
        address->family = DT_ADDRESS_IPV6;
        memcpy(address->ip, &from->sin6_addr, 16);
        address->scope = if_nametoindex(i->ifa_name);
    }
    freeifaddrs(all);
    return is_found;
}
} // namespace detour_test
#endif

#endif
