# SPDX-License-Identifier: Apache-2.0
"""The manual pages: one for each command and verb that the program lists, formatted without a warning, found by
whatis, and with every option of the command's --help."""
import os
import pathlib
import re
import shutil
import subprocess
import sys

SKIPPED = 77


def run(*command):
    done = subprocess.run([str(word) for word in command], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "100"})
    return done.returncode, done.stdout, done.stderr


def commands(detour, *words):
    """The words of every command: of `detour`, of each in its list, of each in theirs."""
    _, text, _ = run(detour, *words, "--help")
    yield words, text
    table = re.search(r"\n(?:Commands|Verbs):\n((?: +[^\n]+\n)+)", text)
    for name in re.findall(r"(?m)^  ([a-z0-9-]+) ", table[1]) if table else []:
        yield from commands(detour, *words, name)


def lint(page):
    problems = []
    if shutil.which("man"):
        _, _, warnings = run("man", "--warnings=w", "-E", "UTF-8", "-l", "-Tutf8", "-Z", page)
        problems += [f"man: {line}" for line in warnings.splitlines()]
    if shutil.which("mandoc"):
        _, errors, more = run("mandoc", "-T", "lint", "-W", "error", page)
        problems += (errors + more).splitlines()
    if shutil.which("lexgrog"):
        code, out, _ = run("lexgrog", page)
        if code or f'"{page.stem} - ' not in out:
            problems.append(f"lexgrog: no NAME that whatis could show: {out.strip()}")
    return problems


def plain(page):
    """The text of a page, or None without a formatter."""
    if shutil.which("man"):
        text = run("man", "-E", "UTF-8", "-l", "-Tutf8", page)[1]
    elif shutil.which("mandoc"):
        text = run("mandoc", "-T", "utf8", page)[1]
    else:
        return None
    return re.sub(r".\x08|\x1b\[[0-9;]*m", "", text)


def main(folder, detour):
    problems = []
    pages = {page.stem: page for page in pathlib.Path(folder).glob("*.1")}
    wanted = {"-".join(["detour", *words]): text for words, text in commands(detour)}
    if set(pages) != set(wanted):
        problems.append(f"pages and commands differ: {set(pages) ^ set(wanted)}")
    for name in sorted(set(pages) & set(wanted)):
        text = plain(pages[name])
        if text is None:
            print("man: skipped: neither man nor mandoc is installed (scripts/setup.sh ci)")
            return SKIPPED
        problems += [f"{name}.1: {problem}" for problem in lint(pages[name])]
        missing = [option for option in set(re.findall(r"(?m)^ +(?:-., )?(--[a-z_-]+)", wanted[name]))
                   if option not in text]
        problems += [f"{name}.1: {option} is missing" for option in missing]
        for other in re.findall(r"(?m)^\.BR (\S+) \(1\)", pages[name].read_text(encoding="utf-8")):
            if other not in pages:
                problems.append(f"{name}.1: see also {other}: no such page")
    print("\n".join(problems) or f"man: {len(pages)} pages are right")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
