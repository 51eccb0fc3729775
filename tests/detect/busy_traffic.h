// SPDX-License-Identifier: Apache-2.0
// Recorded traffic of a busy machine: `detour pipeline --devices 4 --microbatches 8 --times 4,4,4` on two
// cores at a load of 16. One of the third device's connections, eight messages in an iteration: the
// pauses between its first 161 messages, in 10 us.
#ifndef DETOUR_TESTS_DETECT_BUSY_TRAFFIC_H
#define DETOUR_TESTS_DETECT_BUSY_TRAFFIC_H

#include <cstdint>

namespace detour_test
{
const int kBusyMessages = 8;
const uint32_t kBusyPauses[] = {
    772,  889,  1253, 1224, 1187, 1218, 827,  4243,  826,  833,  1315, 1149, 1213, 1180, 1059, 4347,
    810,  874,  1212, 1204, 1212, 1190, 903,  4188,  775,  879,  1247, 1256, 1190, 1202, 855,  4132,
    797,  848,  1225, 1245, 1196, 1198, 863,  4060,  839,  833,  1229, 1200, 1199, 1200, 844,  4076,
    802,  907,  1195, 1201, 1197, 1205, 847,  4090,  827,  851,  1198, 1206, 1217, 1196, 869,  4084,
    1336, 951,  1269, 1349, 1264, 1240, 1180, 6531,  503,  3017, 1480, 3567, 714,  2203, 832,  8761,
    810,  898,  1345, 1297, 1220, 1416, 828,  4655,  801,  921,  1537, 1399, 1103, 1186, 932,  4564,
    799,  1023, 1211, 1298, 1110, 4760, 908,  12554, 5,    3763, 3431, 6002, 5,    3988, 404,  11990,
    13,   3266, 2807, 3520, 613,  5780, 650,  5297,  1084, 1783, 1585, 1207, 2015, 1026, 1061, 5354,
    660,  1466, 4366, 3702, 3704, 3174, 906,  7168,  993,  3777, 1764, 2528, 1404, 1205, 810,  7283,
    1005, 5058, 5563, 1182, 1890, 1108, 1109, 5585,  848,  1321, 2046, 1194, 1747, 1281, 1295, 4901};
} // namespace detour_test

#endif
