/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETOUR_TESTS_PROCESS_REMEDY_FILE_H
#define DETOUR_TESTS_PROCESS_REMEDY_FILE_H

#include <filesystem>
#include <fstream>
#include <string>

namespace detour_test
{
/* As an agent writes it: whole. */
inline void WriteRemedy(const std::string &folder, int number, int step, const std::string &counts,
                        const std::string &nodes)
{
    std::ofstream(folder + "/new") << "{\"version\":1,\"type\":\"decision\",\"kind\":\"remedy\",\"number\":"
                                   << number
                                   << ",\"fence\":1,\"time_ns\":0,\"reason\":\"a test\",\"host\":\"\","
                                      "\"from_rank\":-1,\"to_rank\":-1,\"connection\":\"0000000000000000\","
                                      "\"nic\":\"\",\"hold_ns\":0,\"request\":\"\",\"links\":[],\"step\":"
                                   << step << ",\"microbatches\":" << counts << ",\"nodes\":" << nodes << "}";
    std::filesystem::rename(folder + "/new", folder + "/remedy.json");
}
} // namespace detour_test

#endif
