/* SPDX-License-Identifier: Apache-2.0 */
/* A report with the questions that tests ask of it, and an environment that the test makes. */
#ifndef DETOUR_TESTS_DOCTOR_EXAMINATION_H
#define DETOUR_TESTS_DOCTOR_EXAMINATION_H

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "doctor/doctor.h"

namespace detour_test
{
struct Examination {
    std::map<std::string, std::string> environment;
    dt_doctor_options options = {};
    dt_report report;

    Examination()
    {
        options.root = "";
        options.get = Get;
        options.get_arg = this;
        options.memlock_bytes = DT_MEMLOCK_UNLIMITED;
        dt_report_init(&report);
    }
    ~Examination()
    {
        dt_report_free(&report);
    }
    Examination(const Examination &) = delete;

    static const char *Get(void *arg, const char *name)
    {
        auto *self = static_cast<Examination *>(arg);
        auto found = self->environment.find(name);
        return found == self->environment.end() ? nullptr : found->second.c_str();
    }

    dt_params Params()
    {
        dt_params params;
        char error[256] = "";
        EXPECT_EQ(DT_OK, dt_params_load(&params, Get, this, error, sizeof error)) << error;
        return params;
    }

    const json_t *Fact(const char *list, size_t index) const
    {
        return json_array_get(json_object_get(report.document, list), index);
    }

    static std::string Text(const json_t *object, const char *key)
    {
        const char *text = json_string_value(json_object_get(object, key));
        return text ? text : "";
    }

    static long long Number(const json_t *object, const char *key)
    {
        const json_t *value = json_object_get(object, key);
        return json_is_integer(value) ? json_integer_value(value) : -1000;
    }

    /* "a b c" */
    static std::string Words(const json_t *object, const char *key)
    {
        std::string words;
        size_t index;
        json_t *item;
        json_array_foreach(json_object_get(object, key), index, item)
        {
            words += (index ? " " : "") + std::string(json_string_value(item));
        }
        return words;
    }

    /* All findings, a line each: "warning memlock: text". */
    std::string Findings() const
    {
        std::string lines;
        size_t index;
        json_t *item;
        json_array_foreach(json_object_get(report.document, "findings"), index, item)
        {
            lines += Text(item, "level") + " " + Text(item, "topic") + ": " + Text(item, "text") + "\n";
            EXPECT_EQ(Text(item, "level") == "ok", Text(item, "advice").empty())
                << lines << "names the right form";
        }
        return lines;
    }

    bool Has(const std::string &part) const
    {
        return Findings().find(part) != std::string::npos;
    }
};
} // namespace detour_test

#endif
