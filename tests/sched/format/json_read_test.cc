// SPDX-License-Identifier: Apache-2.0
#include "sched/format/json_read.h"

#include <gtest/gtest.h>

#include <string>

#include "detour/sched_format.h"

namespace
{
/* A document and the reader of it. */
struct Document {
    struct detour_error error = {};
    struct dt_json_reader reader = {"d.json", &error, DETOUR_OK};
    struct dt_json_at root = {};
    bool parsed;

    explicit Document(const std::string &text)
    {
        parsed = dt_json_parse(&reader, text.data(), text.size(), &root);
    }

    ~Document()
    {
        json_decref(const_cast<json_t *>(root.value));
    }

    struct dt_json_at Member(const char *key)
    {
        struct dt_json_at member = {};
        EXPECT_TRUE(dt_json_member(&root, key, &member)) << error.text;
        return member;
    }
};

TEST(JsonRead, ValuesArriveInTheirTypes)
{
    Document d(R"({"version": 1, "int": -7, "ms": 1.5, "yes": true, "name": "two", "list": [10, 20]})");
    ASSERT_TRUE(d.parsed) << d.error.text;
    EXPECT_TRUE(dt_json_version(&d.root));
    int64_t value = 0, time_ns = 0;
    bool yes = false;
    size_t index = 9, count = 0;
    const char *const names[] = {"one", "two", nullptr};
    struct dt_json_at at = d.Member("int");
    EXPECT_TRUE(dt_json_int(&at, "a number", -10, 10, &value));
    EXPECT_EQ(value, -7);
    at = d.Member("ms");
    EXPECT_TRUE(dt_json_time(&at, 2000000, &time_ns));
    EXPECT_EQ(time_ns, 1500000);
    at = d.Member("yes");
    EXPECT_TRUE(dt_json_bool(&at, &yes) && yes);
    at = d.Member("name");
    EXPECT_TRUE(dt_json_choice(&at, names, &index));
    EXPECT_EQ(index, 1u);
    at = d.Member("list");
    EXPECT_TRUE(dt_json_array(&at, 2, &count));
    struct dt_json_at second = dt_json_element(&at, 1);
    EXPECT_TRUE(dt_json_int(&second, "a number", 0, 100, &value));
    EXPECT_EQ(value, 20);
    EXPECT_EQ(dt_json_optional(&d.root, "missing").value, nullptr);
    EXPECT_EQ(d.reader.status, DETOUR_OK);
}

TEST(JsonRead, AnErrorHasTheNameAndThePath)
{
    Document d(R"({"stages": [{"f": 1}, {"f": 2.5}]})");
    ASSERT_TRUE(d.parsed);
    struct dt_json_at stages = d.Member("stages"), stage = dt_json_element(&stages, 1), f = {};
    ASSERT_TRUE(dt_json_member(&stage, "f", &f));
    int64_t value = 0;
    EXPECT_FALSE(dt_json_int(&f, "a stage", 0, 5, &value));
    EXPECT_EQ(std::string(d.error.text).rfind("d.json: stages[1].f is 2.5; it must be", 0), 0u)
        << d.error.text;
    EXPECT_NE(d.reader.status, DETOUR_OK);
}

/* The first error stands; what is read after it reports nothing. */
TEST(JsonRead, TheFirstErrorStands)
{
    Document d(R"({"a": "x", "b": "y"})");
    ASSERT_TRUE(d.parsed);
    int64_t value = 0;
    struct dt_json_at a = d.Member("a"), b = d.Member("b");
    EXPECT_FALSE(dt_json_int(&a, "a number", 0, 5, &value));
    std::string first = d.error.text;
    EXPECT_FALSE(dt_json_int(&b, "a number", 0, 5, &value));
    EXPECT_EQ(d.error.text, first);
}

TEST(JsonRead, AFileThatIsNoDocumentIsRefused)
{
    for (const char *text : {"", "{", "{\"a\": 1, \"a\": 2}", "{\"a\": 1} x", "nonsense"}) {
        Document d(text);
        EXPECT_FALSE(d.parsed) << text;
        EXPECT_EQ(std::string(d.error.text).rfind("d.json", 0), 0u) << d.error.text;
    }
}

TEST(JsonRead, MembersMustBeKnownAndThere)
{
    const char *const keys[] = {"a", nullptr};
    Document d(R"({"a": 1, "b": 2})");
    EXPECT_FALSE(dt_json_object(&d.root, keys));
    EXPECT_NE(std::string(d.error.text).find("b"), std::string::npos) << d.error.text;
    Document missing(R"({"a": 1})");
    struct dt_json_at member = {};
    EXPECT_FALSE(dt_json_member(&missing.root, "c", &member));
    EXPECT_NE(std::string(missing.error.text).find("c"), std::string::npos) << missing.error.text;
    Document array("[1]");
    EXPECT_FALSE(dt_json_object(&array.root, keys));
    Document version(R"({"version": 2})");
    EXPECT_FALSE(dt_json_version(&version.root));
    Document few(R"({"list": [1]})");
    struct dt_json_at list = few.Member("list");
    EXPECT_FALSE(dt_json_array_of(&list, 2, "one for each stage"));
    EXPECT_NE(std::string(few.error.text).find("one for each stage"), std::string::npos) << few.error.text;
}

TEST(JsonRead, TimesKeepTheirLimits)
{
    Document d(R"({"low": -1, "high": 3, "exact": 2, "text": "2"})");
    int64_t time_ns = 77;
    for (const char *key : {"low", "high", "text"}) {
        struct dt_json_at at = d.Member(key);
        d.reader.status = DETOUR_OK;
        EXPECT_FALSE(dt_json_time(&at, 2000000, &time_ns)) << key;
    }
    EXPECT_EQ(time_ns, 77);
    d.reader.status = DETOUR_OK;
    EXPECT_TRUE(dt_json_time_optional(&d.root, "none", 2000000, &time_ns));
    EXPECT_EQ(time_ns, 77) << "a missing time changes nothing";
    EXPECT_TRUE(dt_json_time_optional(&d.root, "exact", 2000000, &time_ns));
    EXPECT_EQ(time_ns, 2000000);
}
} // namespace
