/* SPDX-License-Identifier: Apache-2.0 */
#ifndef DETOUR_TESTS_PROCESS_REMEDY_FILE_H
#define DETOUR_TESTS_PROCESS_REMEDY_FILE_H

#include <filesystem>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

namespace detour_test
{
/* As an agent writes it: whole. */
inline void WriteDecision(const std::string &folder, const std::string &name, const std::string &kind,
                          int number, const std::string &links, const std::string &more)
{
    std::ofstream(folder + "/new") << "{\"version\":1,\"type\":\"decision\",\"kind\":\"" << kind
                                   << "\",\"number\":" << number
                                   << ",\"fence\":1,\"time_ns\":0,\"reason\":\"a test\",\"host\":\"\","
                                      "\"from_rank\":-1,\"to_rank\":-1,\"connection\":\"0000000000000000\","
                                      "\"nic\":\"\",\"hold_ns\":0,\"request\":\"\",\"links\":["
                                   << links << "]" << more << "}";
    std::filesystem::rename(folder + "/new", folder + "/" + name);
}

inline void WriteRemedy(const std::string &folder, int number, int step, const std::string &counts,
                        const std::string &nodes)
{
    WriteDecision(folder, "remedy.json", "remedy", number, "",
                  ",\"step\":" + std::to_string(step) + ",\"microbatches\":" + counts +
                      ",\"nodes\":" + nodes);
}

/* Messages between these ranks take 40 ms longer, in both directions. */
inline void WriteReplan(const std::string &folder, int number, const std::vector<std::pair<int, int>> &links)
{
    std::string list;
    auto add = [&](int from, int to) {
        list += std::string(list.empty() ? "" : ",") + "{\"from\":" + std::to_string(from) +
                ",\"to\":" + std::to_string(to) + ",\"delay_ms\":40.0}";
    };
    for (const auto &link : links) {
        add(link.first, link.second);
        add(link.second, link.first);
    }
    WriteDecision(folder, "decision.json", "replan", number, list, "");
}
} // namespace detour_test

#endif
