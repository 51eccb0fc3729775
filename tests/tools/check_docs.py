# SPDX-License-Identifier: Apache-2.0
"""What documents and comments name is there: files, headings, settings, and the options of commands. And every
--help fits its lines, which argp would break anywhere."""
import functools
import pathlib
import re
import subprocess
import sys

import tree

FILE = re.compile(r"(?<![\w/.<-])((?:[\w.-]+/)*[\w-]+\.(?:c|h|cc|py|sh|md|pml|cmake))(?![\w/])")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
LINK = re.compile(r"\]\(([^)#\s]*)(?:#([^)\s]*))?\)")
SETTING = re.compile(r"\bDETOUR_[A-Z0-9_]+\b")
OTHERS = {"mlx5dv.h", "train.py", "pan.c", "model.py", "measure.py", "swap.py"}  # files of others, or of the reader, without a folder


def documents(root):
    modules = [root / module / "README.md" for module in [*tree.MAY_INCLUDE, "tests", "tests/sim", "tests/tools"]]
    return [root / "README.md", root / "CONTRIBUTING.md", *sorted((root / "docs").rglob("*.md")),
            *(path for path in modules if path.exists())]


def tracked(root):
    """Every file, without those that are made."""
    skipped = {".git", "__pycache__"}
    folders = [path for path in root.iterdir()
               if path.is_dir() and path.name not in skipped and not path.name.startswith("build")]
    return {path.relative_to(root).as_posix() for folder in folders for path in folder.rglob("*") if path.is_file()} | \
           {path.name for path in root.iterdir() if path.is_file()}


@functools.cache
def parts(files):
    """(the top folders, the names without folders)"""
    return {name.split("/")[0] for name in files if "/" in name}, {name.rsplit("/", 1)[-1] for name in files}


def lost_files(root, path, text, files):
    """Names of files of ours that are not there. One in capitals stands for several."""
    folders, names = parts(files)
    for name in set(FILE.findall(text)):
        own = path.parent.joinpath(name).resolve()
        first, bare = name.split("/")[0], "/" not in name
        if re.search(r"[A-Z]{2}", name.rsplit(".", 1)[0].replace("README", "").replace("CONTRIBUTING", "")):
            continue
        if name in files or f"include/{name}" in files or own.exists() or name in OTHERS:
            continue
        if (bare and name not in names) or (not bare and first in folders):
            yield f"{path}: there is no {name}"


def anchors(path):
    """As GitHub makes them of headings."""
    for heading in re.findall(r"(?m)^#+ (.+)$", path.read_text(encoding="utf-8")):
        yield re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def lost_links(path, text):
    for name, anchor in LINK.findall(text):
        if name.startswith(("http:", "https:", "mailto:")):
            continue
        target = path.parent / name if name else path
        if not target.exists():
            yield f"{path}: the link to {name} leads nowhere"
        elif anchor and anchor not in anchors(target):
            yield f"{path}: {name} has no heading #{anchor}"


def helps(detour, *words):
    """(words, --help) of every command and verb."""
    text = subprocess.run([detour, *words, "--help"], text=True, capture_output=True, check=True).stdout
    yield words, text
    table = re.search(r"\n(?:Commands|Verbs):\n((?: +[^\n]+\n)+)", text)
    for name in re.findall(r"(?m)^  ([a-z0-9-]+) ", table[1]) if table else []:
        yield from helps(detour, *words, name)


def broken_lines(words, text):
    """A line of a table that did not fit: its rest stands at the margin."""
    lines = text.splitlines()
    for line, behind in zip(lines, lines[1:]):
        if line.startswith("  ") and not line.startswith("  or:") and re.match(r"\S", behind):
            yield f"{' '.join(words)} --help: too long for a line: {line.strip()} {behind}"


def unknown_options(path, text, known):
    """Options on lines of documents that call `detour`, and in code within a text."""
    for line in re.findall(r"(?m)^ {4}(?:\$ )?(?:.*\| *)?(detour [a-z].*)$", text) + \
            re.findall(r"`(?:\w+=\S+ )*(detour [a-z][^`]*)`", text):
        for command in re.split(r" *(?:\||&&|;) *", re.sub(r"'[^']*'", "X", line).split(" #")[0]):
            words = command.split()
            if words[:1] != ["detour"] or len(words) < 2 or words[1].endswith(":"):
                continue  # another program, or what detour says
            name = tuple(words[1:3]) if words[1] == "sched" or tuple(words[1:3]) in known else tuple(words[1:2])
            if name[-1].endswith(":") or name[-1].startswith("-") or name[-1].isupper():
                continue  # what detour says, an option of detour itself, or a word that stands for several
            if name not in known:
                yield f"{path}: there is no command: {command}"
                continue
            for option in words[2:]:
                option = option.split("=")[0]
                if re.match(r"--?[A-Za-z]", option) and not re.search(rf"(?m)(^| ){option}(?![\w-])", known[name]):
                    yield f"{path}: `detour {' '.join(name)}` has no {option}: {command}"


def wrong_counts(root):
    """Numbers of planted bugs in docs/testing.md that are not the length of the list."""
    listed = len(re.findall(r"(?m)^ +X\([A-Z]", (root / "failover/planted.h").read_text(encoding="utf-8")))
    path = root / "docs/testing.md"
    text = path.read_text(encoding="utf-8")
    for count in re.findall(r"failover/planted\.h` lists (\d+) bugs|sim\.planted \((\d+) bugs\)", text):
        if int(count[0] or count[1]) != listed:
            yield f"{path}: {count[0] or count[1]} planted bugs, and failover/planted.h lists {listed}"


def main(root, detour):
    root = pathlib.Path(root).resolve()
    files = frozenset(tracked(root))
    code = "".join(path.read_text(encoding="utf-8", errors="replace") for path in map(root.joinpath, files)
                   if path.suffix in (".c", ".h", ".cc", ".py", ".sh", ".cmake", ".txt") and "docs" not in path.relative_to(root).parts)
    settings = set(SETTING.findall(code))
    known = dict(helps(detour))
    problems = [*wrong_counts(root)]
    for path in documents(root):
        text = path.read_text(encoding="utf-8")
        problems += lost_files(root, path, text, files)
        problems += lost_links(path, text)
        problems += unknown_options(path, text, known)
        problems += [f"{path}: nothing reads {name}" for name in sorted(set(SETTING.findall(text)) - settings)]
    for _, path in tree.sources(root, ".c", ".h"):
        for comment in COMMENT.findall(path.read_text(encoding="utf-8")):
            problems += lost_files(root, path, comment, files)
    for words, text in known.items():
        problems += broken_lines(words, text)
    print("\n".join(problems) or f"docs: what {len(documents(root))} documents and the comments name is there")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
