/* SPDX-License-Identifier: Apache-2.0 */
/* Link rates by their number in an address handle: in Mbit/s, and in multiples of 2.5 Gbit/s. */
#include "base/util.h"
#include "dropin/dropin.h"

#include <infiniband/verbs.h>

/*
 * FDR lanes carry 14.0625 Gbit/s, EDR lanes 25.78125, HDR lanes 53.125, NDR lanes 106.25. FDR and EDR have no
 * multiplier; that of the later ones comes from their names, rounded down.
 */
static const struct {
    enum ibv_rate rate;
    int mbps;
    int mult; /* 0: none */
} rates[] = {
    {IBV_RATE_2_5_GBPS, 2500, 1},     {IBV_RATE_5_GBPS, 5000, 2},         {IBV_RATE_10_GBPS, 10000, 4},
    {IBV_RATE_20_GBPS, 20000, 8},     {IBV_RATE_30_GBPS, 30000, 12},      {IBV_RATE_40_GBPS, 40000, 16},
    {IBV_RATE_60_GBPS, 60000, 24},    {IBV_RATE_80_GBPS, 80000, 32},      {IBV_RATE_120_GBPS, 120000, 48},
    {IBV_RATE_14_GBPS, 14062, 0},     {IBV_RATE_56_GBPS, 56250, 0},       {IBV_RATE_112_GBPS, 112500, 0},
    {IBV_RATE_168_GBPS, 168750, 0},   {IBV_RATE_25_GBPS, 25781, 0},       {IBV_RATE_100_GBPS, 103125, 0},
    {IBV_RATE_200_GBPS, 206250, 0},   {IBV_RATE_300_GBPS, 309375, 0},     {IBV_RATE_28_GBPS, 28125, 11},
    {IBV_RATE_50_GBPS, 53125, 20},    {IBV_RATE_400_GBPS, 425000, 160},   {IBV_RATE_600_GBPS, 637500, 240},
    {IBV_RATE_800_GBPS, 850000, 320}, {IBV_RATE_1200_GBPS, 1275000, 480},
};

DT_EXPORT int ibv_rate_to_mbps(enum ibv_rate rate)
{
    for (size_t i = 0; i < DT_COUNT_OF(rates); i++)
        if (rates[i].rate == rate)
            return rates[i].mbps;
    return -1;
}

DT_EXPORT enum ibv_rate mbps_to_ibv_rate(int mbps)
{
    for (size_t i = 0; i < DT_COUNT_OF(rates); i++)
        if (rates[i].mbps == mbps)
            return rates[i].rate;
    return IBV_RATE_MAX;
}

DT_EXPORT int ibv_rate_to_mult(enum ibv_rate rate)
{
    for (size_t i = 0; i < DT_COUNT_OF(rates); i++)
        if (rates[i].rate == rate && rates[i].mult)
            return rates[i].mult;
    return -1;
}

DT_EXPORT enum ibv_rate mult_to_ibv_rate(int mult)
{
    for (size_t i = 0; i < DT_COUNT_OF(rates); i++)
        if (rates[i].mult && rates[i].mult == mult)
            return rates[i].rate;
    return IBV_RATE_MAX;
}
