# SPDX-License-Identifier: Apache-2.0
"""Each check finds what it is for in a small tree that has it, and nothing in one that has not."""
import contextlib
import io
import pathlib
import tempfile
import unittest

import c_source
import check_cycles
import check_folders
import check_includes
import check_length
import check_messages
import check_readmes
import check_units
import findings
import tree

FUNCTION = "/* SPDX */\n{includes}\nint {name}(void)\n{{\n    return {call};\n}}\n"


def source(name, call="0", *includes):
    return FUNCTION.format(includes="\n".join(f'#include "{header}"' for header in includes), name=name, call=call)


class Tree(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def write(self, path, text):
        self.root.joinpath(path).parent.mkdir(parents=True, exist_ok=True)
        self.root.joinpath(path).write_text(text, encoding="utf-8")


class Includes(Tree):
    def test_a_lower_header_may_be_included(self):
        self.write("verbs/a.c", source("dt_a", "0", "base/list.h", "verbs/b.h", "detour/stat.h", "infiniband/verbs.h"))
        self.assertEqual(check_includes.find(self.root), {})

    def test_a_higher_a_neighboring_a_reserved_and_a_relative_header_may_not(self):
        self.write("base/a.c", source("dt_a", "0", "verbs/a.h"))
        self.write("obs/a.c", source("dt_a", "0", "delay/a.h"))
        self.write("sched/a.c", source("dt_a", "0", "infiniband/verbs.h"))
        self.write("verbs/a.c", source("dt_a", "0", "../base/list.h"))
        self.assertEqual(list(check_includes.find(self.root)), [
            "base/a.c -> verbs/a.h", "obs/a.c -> delay/a.h", "sched/a.c -> infiniband/verbs.h",
            "verbs/a.c -> ../base/list.h"])


class Cycles(Tree):
    def test_a_call_downwards_is_good(self):
        self.write("base/a.c", source("dt_a"))
        self.write("verbs/b.c", source("dt_b", "dt_a()"))
        self.assertEqual(check_cycles.find(self.root), {})

    def test_a_call_upwards_is_found_without_an_include(self):
        self.write("base/a.c", source("dt_a", "dt_b()"))
        self.write("verbs/b.c", source("dt_b"))
        self.assertEqual(list(check_cycles.find(self.root)), ["base/a.c calls verbs"])

    def test_a_call_in_a_comment_or_of_a_name_with_two_definitions_is_not_found(self):
        self.write("base/a.c", source("dt_a", "dt_b() /* dt_c() */"))
        for module in ("verbs", "obs"):
            self.write(f"{module}/b.c", source("dt_b"))
        self.write("verbs/c.c", source("dt_c"))
        self.assertEqual(check_cycles.find(self.root), {})

    def test_a_public_function_may_be_called_but_makes_no_cycle(self):
        self.write("include/detour/sched.h", "int detour_plan(void);\nint detour_watch(void);\n")
        self.write("sched/plan.c", source("detour_plan"))
        self.write("cli/sched.c", source("dt_main", "detour_plan()"))
        self.assertEqual(check_cycles.find(self.root), {})
        self.write("base/a.c", source("dt_a", "detour_plan()"))
        self.assertIn("cycle of modules base sched", " ".join(check_cycles.find(self.root)))

    def circle(self, files):
        for i in range(files):
            self.write(f"base/f{i}.c", source(f"dt_f{i}", "0", f"base/f{i}.h", f"base/f{(i + 1) % files}.h"))
            self.write(f"base/f{i}.h", f"int dt_f{i}(void);\n")

    def test_five_files_that_need_each_other_are_good_and_six_are_not(self):
        self.circle(5)
        self.assertEqual(check_cycles.find(self.root), {})
        self.circle(6)
        self.assertEqual(check_cycles.find(self.root), {"files in cycles of base": 6})

    def test_files_that_call_each_other_are_a_cycle_too(self):
        for i in range(6):
            self.write(f"base/f{i}.c", source(f"dt_f{i}", f"dt_f{(i + 1) % 6}()"))
        self.assertEqual(check_cycles.find(self.root), {"files in cycles of base": 6})

    def test_the_table_itself_has_no_cycle(self):
        self.assertEqual(check_cycles.components(tree.MAY_INCLUDE), [])
        self.assertEqual(check_cycles.components({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}), [["a", "b", "c"]])


class Length(Tree):
    def body(self, lines):
        return "    x++;\n" * lines

    def test_the_longest_function_of_each_language(self):
        self.write("base/a.c", f"static void a(int x)\n{{\n{self.body(67)}}}\n")
        self.write("tests/a_test.cc", f"TEST(A, B)\n{{\n{self.body(67)}}}\n")
        self.write("scripts/a.sh", f"a() {{\n{self.body(68)}}}\n")
        self.write("scripts/a.py", f"def a(x):\n{'    x = 1' + chr(10)}" + "    x = 2\n" * 68)
        self.assertEqual(check_length.find(self.root), {})

    def test_one_line_more_is_found_in_each_language(self):
        self.write("base/a.c", f"static void a(int x)\n{{\n{self.body(68)}}}\n")
        self.write("tests/a_test.cc", f"TEST(A, B)\n{{\n{self.body(68)}}}\n\nstruct x {{\n    int f(int x)\n    {{\n"
                   f"{'    ' + self.body(68).replace(chr(10), chr(10) + '    ')}}}\n}};\n")
        self.write("scripts/a.sh", f"a() {{\n{self.body(69)}}}\n")
        self.write("scripts/a.py", "def a(x):\n" + "    x = 2\n" * 70)
        self.assertEqual(list(check_length.find(self.root)), [
            "base/a.c a", "scripts/a.py a", "scripts/a.sh a", "tests/a_test.cc A.B", "tests/a_test.cc f"])

    def test_a_file_of_600_lines_is_good_and_601_are_not(self):
        self.write("tests/a.py", "\n" * 600)
        self.write("build/made.c", "\n" * 700)
        self.assertEqual(check_length.find(self.root), {})
        self.write("tests/b.sh", "\n" * 601)
        self.assertEqual(list(check_length.find(self.root)), ["tests/b.sh"])


class Units(Tree):
    def test_a_source_without_a_test_is_found(self):
        self.write("base/a.c", source("dt_a"))
        self.write("base/inline.h", "static inline int dt_b(void)\n{\n    return 1;\n}\n")
        self.write("base/only_data.c", "const int dt_c = 1;\n")
        self.assertLessEqual({"base/a.c", "base/inline.h"}, check_units.find(self.root).keys())
        self.assertNotIn("base/only_data.c", check_units.find(self.root))

    def test_its_name_its_header_or_a_call_of_a_function_without_a_header_covers_it(self):
        for name in ("a", "b", "c", "d"):
            self.write(f"base/{name}.c", source(f"dt_{name}"))
        self.write("base/b.h", "int dt_b(void);\n")
        self.write("base/d.h", "int dt_d(void);\n")
        self.write("tests/base/a_test.cc", "TEST(A, A)\n{\n}\n")
        self.write("tests/base/x_test.cc", '#include "base/b.h"\nTEST(A, A)\n{\n    dt_c();\n    dt_d();\n}\n')
        self.write("tests/verbs/y_test.cc", '#include "base/d.h"\n')  # the test of another module
        found = check_units.find(self.root)
        self.assertEqual({name for name in found if name.startswith("base/") and "exception" not in name}, {"base/d.c"})


    def test_an_exception_without_its_file_or_without_the_test_that_it_names_is_found(self):
        found = " ".join(check_units.find(self.root))
        self.assertIn("cli/main/main.c is an exception, but has a test or does not exist", found)
        self.assertIn("cli/main/main.c is an exception, but there is no tests/process", found)


class Readmes(Tree):
    def test_a_readme_with_another_heading_or_none_is_found(self):
        for module in [*tree.MAY_INCLUDE, *check_readmes.TESTS]:
            self.write(f"{module}/README.md", f"# `{module}/`\n\nWhat it is.\n")
        self.assertEqual(check_readmes.find(self.root), {})
        self.write("verbs/README.md", "# base/\n\nWhat it is.\n")
        self.write("obs/README.md", "# obs/\n" + "\n" * check_readmes.MODULE_LINES_MAX)
        self.root.joinpath("base/README.md").unlink()
        self.assertEqual(check_readmes.find(self.root).keys(), {"verbs/README.md", "obs/README.md", "base/README.md"})


class Folders(Tree):
    def document(self, **cells):
        rows = "".join(f"| `{module}/` | text | {cells.get(module) or ', '.join(f'`{m}/`' for m in may)} |\n"
                       for module, may in tree.MAY_INCLUDE.items())
        self.write("docs/architecture.md", "| folder | what | may include |\n| --- | --- | --- |\n" + rows)

    def test_the_same_table_is_good_and_a_cell_or_a_row_that_differs_is_found(self):
        for module in tree.MAY_INCLUDE:
            self.write(f"{module}/a.c", source("dt_a"))
        self.document(dropin="`obs/`, `verbs/` and below")
        self.assertEqual(check_folders.find(self.root), {})
        self.document(verbs="`obs/`")
        self.assertEqual(list(check_folders.find(self.root)), ["docs/architecture.md: verbs/ differs in base obs softrnic"])
        self.write("docs/architecture.md", "| `base/` | text |  |\n")
        self.assertEqual(len(check_folders.find(self.root)), 1)

    def test_a_module_without_sources_is_found(self):
        self.document()
        self.assertIn("base/ has no source file", check_folders.find(self.root))


class Findings(Tree):
    def report(self, found):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            failed = findings.run([self.root], "x", lambda root: found, "no x", "no x at all")
        return failed, output.getvalue()

    def test_each_is_a_line_and_fails_the_check(self):
        self.assertEqual(self.report({"b": 7, "a": None}), (True, "a\nb = 7\nx: the rule: no x\n"))
        self.assertEqual(self.report({}), (False, "x: no x at all\n"))


class Messages(Tree):
    ROWS = "| line | meaning |\n| --- | --- |\n| `[no-disk] soft0: no disk 7` | |\n| `[path-up] path 1 is up` | |\n"
    CALLS = ('dt_warn("no-disk",\n    "%s: no "\n    "disk %u", name, 7);\n'
             'dt_log(x ? DT_LOG_WARN : DT_LOG_INFO, "path-up", "path %u is up", 1);\n')

    def problems(self, calls, rows):
        self.write("verbs/a.c", calls)
        self.write("docs/troubleshooting.md", rows)
        return [problem.split(": ", 1)[-1] for problem in check_messages.find(self.root)[1]]

    def test_lines_with_ids_and_their_rows_agree(self):
        self.assertEqual(self.problems(self.CALLS, self.ROWS), [])

    def test_a_line_without_an_id_and_an_id_without_a_row_are_problems(self):
        self.assertEqual(self.problems(self.CALLS + 'dt_info(text);\n', self.ROWS),
                         ["a WARN or INFO line needs an id (base/log.h)"])
        self.assertEqual(self.problems(self.CALLS + 'dt_info("New_id", "new");\n', self.ROWS),
                         ["an id is lower-case words joined by hyphens",
                          'no row of a table begins with "[New_id]", which the sources log'])

    def test_an_id_at_two_places_is_a_problem(self):
        self.assertEqual(self.problems(self.CALLS * 2, self.ROWS), ["an id belongs to one line"] * 2)

    def test_a_row_of_another_text_or_of_no_line_is_a_problem(self):
        self.assertEqual(self.problems(self.CALLS, self.ROWS.replace("no disk 7", "out of paper")),
                         ["no source writes such a line: [no-disk] soft0: out of paper"])
        self.assertEqual(self.problems(self.CALLS, self.ROWS + "| `[gone] x` | |\n"),
                         ["no source writes such a line: [gone] x", '"[gone]": no line of the sources has this id'])


class Functions(unittest.TestCase):
    def test_macros_that_loop_and_namespaces_are_none(self):
        text = ("namespace\n{\nstatic int f(struct x *x, int y,\n             int z)\n{\n    dt_list_for_each(x, y)\n    {\n"
                "        g(\"}\");\n    }\n}\n} // namespace\n")
        self.assertEqual([(f.name, f.is_static, f.first_line, f.last_line) for f in c_source.functions(text)],
                         [("f", True, 3, 10)])
        self.assertEqual(c_source.calls(next(c_source.functions(text))), {"dt_list_for_each", "g"})


if __name__ == "__main__":
    unittest.main()
