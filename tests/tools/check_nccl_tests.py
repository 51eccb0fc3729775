# SPDX-License-Identifier: Apache-2.0
"""nccl-tests-patches/: the patches follow from each other, apply.sh applies them whole or says why not, and plot.py joins
an iteration log with a record of `detour inject record`. The real source of nccl-tests is not needed: a tree is made up
that has the patches' context lines where they are, and filler elsewhere.

usage: check_nccl_tests.py [unittest's options]"""
import importlib.util
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import unittest

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "nccl-tests-patches"
PATCHES = sorted(FOLDER.glob("0*.patch"))
VERSION, LINES = "2.19.6", 2000
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@")


class Tree:
    """Files of which only what patches show is known. A line is a list of one text, or of none, shared between the
    file as it `was` and as it is `now`: what a later patch shows of a line is then known of the first, too."""

    def __init__(self):
        self.was, self.now = {}, {}

    def patch(self, text):
        lines = iter(text.splitlines())
        for line in lines:
            if line.startswith("--- "):
                name = next(lines)[len("+++ b/"):]
                if line == "--- /dev/null":
                    assert name not in self.now, f"{name} is there already"
                    self.now[name] = []
                elif name not in self.now:
                    self.was[name] = [[] for _ in range(LINES)]
                    self.now[name] = list(self.was[name])
                shift = 0
            elif found := HUNK.match(line):
                at, old, new = int(found[1]), int(found[2] or 1), int(found[3] or 1)
                begin = at - 1 + shift if old else 0
                self.now[name][begin:begin + old] = self._hunk(name, self.now[name][begin:begin + old], new, lines)
                shift += new - old

    @staticmethod
    def _hunk(name, old, new_count, lines):
        new, old = [], list(old)
        while old or len(new) < new_count:
            line = next(lines)
            if line[:1] == "+":
                new.append([line[1:]])
                continue
            cell = old.pop(0)
            if not cell:
                cell.append(line[1:])
            assert cell == [line[1:]], f"{name}: '{cell[0]}' is '{line[1:]}' in a later patch"
            if line[:1] != "-":
                new.append(cell)
        return new

    def write(self, folder, files):
        for name, cells in files.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("".join(f"{cell[0] if cell else '/* not in the patches */'}\n" for cell in cells))
        header = pathlib.Path(folder, "src/common.h")
        assert not header.exists(), "the patches are not expected to change common.h"
        header.write_text(f'#define NCCL_TESTS_VERSION "{VERSION}"\n')


def texts(folder):
    return {str(path.relative_to(folder)): path.read_text() for path in pathlib.Path(folder).rglob("*") if path.is_file()}


class Patches(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="detour-nccl-tests-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.tree = Tree()
        for patch in PATCHES:
            self.tree.patch(patch.read_text())
        self.source, self.wanted = self.folder / "nccl-tests", self.folder / "wanted"
        self.tree.write(self.source, self.tree.was)
        self.tree.write(self.wanted, self.tree.now)

    def apply(self, *words):
        done = subprocess.run([FOLDER / "apply.sh", *words], cwd=self.folder, capture_output=True, text=True)
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    def pack(self):
        with tarfile.open(self.folder / "nccl-tests.tar.gz", "w:gz") as tar:
            tar.add(self.source, "nccl-tests-" + VERSION)
        return "nccl-tests.tar.gz"

    def test_a_tree_is_checked_and_then_patched(self):
        before = texts(self.source)
        self.assertEqual((0, "the patches apply to nccl-tests", ""), self.apply("--check", "nccl-tests"))
        self.assertEqual(before, texts(self.source))
        self.assertEqual((0, "patched: nccl-tests", ""), self.apply("nccl-tests"))
        self.assertEqual(texts(self.wanted), texts(self.source))
        self.assertEqual((1, "", "apply.sh: nccl-tests has the patches already"), self.apply("nccl-tests"))

    def test_a_tarball_is_unpacked_and_patched(self):
        name = self.pack()
        self.assertEqual((0, f"the patches apply to {name}", ""), self.apply("--check", name))
        self.assertEqual((0, f"patched: nccl-tests-{VERSION}-detour", ""), self.apply(name))
        self.assertEqual(texts(self.wanted), texts(self.folder / f"nccl-tests-{VERSION}-detour"))
        code, _, error = self.apply(name)
        self.assertEqual((1, f"apply.sh: nccl-tests-{VERSION}-detour is there already: name another OUT"), (code, error))
        self.assertEqual((0, "patched: other", ""), self.apply(name, "other"))

    def test_another_version_is_refused(self):
        (self.source / "src/common.h").write_text('#define NCCL_TESTS_VERSION "2.18.0"\n')
        expected = f"apply.sh: nccl-tests is nccl-tests 2.18.0; the patches are for {VERSION}"
        self.assertEqual((1, "", expected), self.apply("nccl-tests"))
        (self.source / "src/common.h").unlink()
        expected = f"apply.sh: nccl-tests is nccl-tests of an unknown version; the patches are for {VERSION}"
        self.assertEqual((1, "", expected), self.apply("nccl-tests"))

    def test_a_tree_is_patched_whole_or_not_at_all(self):
        # The last hunk of the last patch finds something else.
        name = [line[6:] for line in PATCHES[-1].read_text().splitlines() if line.startswith("+++ ")][-1]
        file = self.source / name
        lines = file.read_text().splitlines()
        shown = max(i for i, cell in enumerate(self.tree.was[name]) if cell)
        lines[shown] = "something else"
        file.write_text("\n".join(lines) + "\n")
        before = texts(self.source)
        code, out, error = self.apply("nccl-tests")
        self.assertEqual((1, ""), (code, out))
        self.assertRegex(error, rf"^apply.sh: 000\d-[a-z-]+\.patch does not apply: [^$]*{name}")
        self.assertEqual(before, texts(self.source))

    def test_what_is_no_source_is_refused(self):
        (self.folder / "empty").mkdir()
        (self.folder / "garbage.tar.gz").write_bytes(b"garbage")
        for word, error in (("none", "none: no such file or directory"),
                            ("empty", "empty: there is no src/ in it: expected the source of nccl-tests"),
                            ("garbage.tar.gz", "garbage.tar.gz: tar cannot unpack it")):
            self.assertEqual((1, "", "apply.sh: " + error), self.apply(word))
        self.assertEqual(2, self.apply()[0])

    def test_each_patch_has_a_readme_and_its_option_in_it(self):
        readme = (FOLDER / "README.md").read_text()
        self.assertEqual(3, len(PATCHES))
        for patch in PATCHES:
            self.assertIn(f"]({patch.stem}.md)", readme)
            option = re.search(rf"\]\({patch.stem}\.md\) \| `--(\w+)", readme)[1]
            self.assertIn(f'{{"{option}", ', patch.read_text())
            self.assertIn(f"--{option}", patch.with_suffix(".md").read_text())


class Plot(unittest.TestCase):
    LOG = [{"start_ns": 1000, "process": 0, "thread": 0, "bytes": 8, "in_place": 0, "iteration": 0},
           {"start_ns": 1100, "process": 1, "thread": 0, "bytes": 8, "in_place": 0, "iteration": 0},
           {"end_ns": 4000, "process": 0, "thread": 0, "bytes": 8, "in_place": 0, "iteration": 0},
           {"mark_ns": 4500, "text": "30 ms"},
           {"stall_ns": 9000, "since_ns": 5000, "gpus": 8}, {"stall_ns": 9500, "since_ns": 5000, "gpus": 0}]
    RECORD = ("process,pid,time_ns,connection,id,device,peer,message,bytes,delay_ns,late_ns\n"
              "0,7,2000,0,b0c8777a27daea94,soft0,vm:8,3,64,30000000,118462\n")

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="detour-plot-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.log, self.record = self.folder / "log.jsonl", self.folder / "record.csv"
        self.log.write_text("".join(json.dumps(line) + "\n" for line in self.LOG))
        self.record.write_text(self.RECORD)

    def plot(self, out="out.svg"):
        done = subprocess.run([sys.executable, FOLDER / "plot.py", "log.jsonl", "record.csv", out], cwd=self.folder,
                              capture_output=True, text=True)
        return done.returncode, done.stderr.strip()

    def test_both_files_are_on_one_clock(self):
        spec = importlib.util.spec_from_file_location("plot", FOLDER / "plot.py")
        plot = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(plot)
        done, unfinished, marks, stalls = plot.read_log(self.log)
        self.assertEqual([(1000, 3000)], done)
        self.assertEqual([1100], unfinished)
        self.assertEqual([(4500, "30 ms")], marks)
        self.assertEqual([(5000, 9500)], stalls)
        self.assertEqual([(2000, 30000000)], plot.read_record(self.record))

    @unittest.skipUnless(importlib.util.find_spec("matplotlib"), "python3-matplotlib is not installed")
    def test_the_picture_has_the_marks(self):
        self.assertEqual((0, ""), self.plot())
        picture = (self.folder / "out.svg").read_text()
        for text in ("30 ms", "iteration (ms)", "injected delay (ms)", "time (s)"):
            self.assertIn(f"<!-- {text} -->", picture)

    def test_bad_input_is_one_line(self):
        self.log.write_text('{"start_ns": 1\n')
        self.assertEqual((2, "plot.py: log.jsonl: line 1, column 15: Expecting ',' delimiter"), self.plot())
        self.log.write_text("")
        self.assertEqual((2, "plot.py: log.jsonl: there is no iteration in it"), self.plot())
        self.record.write_text("a,b\n1,2\n")
        self.assertEqual((2, "plot.py: record.csv: line 1: expected a record of `detour inject record`"), self.plot())
        self.record.unlink()
        self.assertEqual((2, "plot.py: record.csv: No such file or directory"), self.plot())


if __name__ == "__main__":
    unittest.main()
