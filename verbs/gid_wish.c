/* SPDX-License-Identifier: Apache-2.0 */
#include "verbs/gid_wish.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "base/param.h"

#define IPV4_AT   12 /* of an IPv4 address in a GID, behind ::ffff: */
#define IPV4_BITS 32
#define GID_BITS  128

static const uint8_t ipv4_prefix[IPV4_AT] = {[10] = 0xff, [11] = 0xff};

static bool parse_family(const char *text, int *family)
{
    *family = strcmp(text, "AF_INET") == 0 ? AF_INET : strcmp(text, "AF_INET6") == 0 ? AF_INET6 : 0;
    if (*family)
        return true;
    dt_warn("setting-family",
            "DETOUR_ADDR_FAMILY or NCCL_IB_ADDR_FAMILY=%s: expected AF_INET or AF_INET6; it "
            "is ignored",
            text);
    return false;
}

/* "10.0.0.0/8" */
static bool read_range(const char *text, int family, struct dt_gid_wish *wish)
{
    bool is_ipv4 = family == AF_INET;
    const char *slash = strchr(text, '/');
    char address[INET6_ADDRSTRLEN];
    uint64_t bits;

    if (!slash || (size_t)(slash - text) >= sizeof address)
        return false;
    snprintf(address, sizeof address, "%.*s", (int)(slash - text), text);
    if (dt_parse_number(slash + 1, false, &bits) != DT_OK || bits > (is_ipv4 ? IPV4_BITS : GID_BITS) ||
        inet_pton(family, address, wish->address + (is_ipv4 ? IPV4_AT : 0)) != 1)
        return false;
    if (is_ipv4)
        memcpy(wish->address, ipv4_prefix, sizeof ipv4_prefix);
    wish->bits = (uint32_t)bits + (is_ipv4 ? IPV4_AT * 8 : 0);
    return true;
}

bool dt_gid_wish_parse(uint32_t version, const char *family, const char *range, struct dt_gid_wish *wish)
{
    bool is_good = true;

    memset(wish, 0, sizeof *wish);
    wish->version = version;
    if (family && *family)
        is_good = parse_family(family, &wish->family);
    if (!range || !*range || read_range(range, wish->family ? wish->family : AF_INET, wish))
        return is_good;
    dt_warn(
        "setting-range",
        "DETOUR_ADDR_RANGE or NCCL_IB_ADDR_RANGE=%s: expected ADDRESS/BITS of %s, as in 10.0.0.0/8; it is "
        "ignored",
        range, wish->family == AF_INET6 ? "AF_INET6" : "AF_INET");
    return false;
}

static bool is_in_range(const struct dt_gid_wish *wish, const uint8_t gid[16])
{
    uint32_t bytes = wish->bits / 8, rest = wish->bits % 8;

    return memcmp(wish->address, gid, bytes) == 0 &&
           (rest == 0 || ((wish->address[bytes] ^ gid[bytes]) >> (8 - rest)) == 0);
}

bool dt_gid_wish_is_met(const struct dt_gid_wish *wish, const uint8_t gid[16], uint32_t version)
{
    int family = memcmp(gid, ipv4_prefix, sizeof ipv4_prefix) ? AF_INET6 : AF_INET;

    return (!wish->version || wish->version == version) && (!wish->family || wish->family == family) &&
           is_in_range(wish, gid);
}
