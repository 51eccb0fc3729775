# SPDX-License-Identifier: Apache-2.0
"""The lines that docs/troubleshooting.md explains are lines that the sources write: each code span in the first
column of its tables must fit a format string of theirs."""
import pathlib
import re
import sys

import tree

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"((?:\s*(?:PRI[a-zA-Z0-9]+\s*)?"(?:[^"\\\n]|\\.)*")*)')
MORE = re.compile(r'(PRI[a-zA-Z0-9]+)|"((?:[^"\\\n]|\\.)*)"')
CONVERSION = re.compile(r"%(?:%|[-#0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z])")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
SHARE_MIN = 0.3  # of a line's letters that one format string must have itself: "%s: %s" would fit everything


def formats(root):
    """Every string of the sources, pieces joined, PRIu64 and the like as a conversion."""
    for _, path in tree.sources(root, ".c", ".h"):
        # In macros of several lines as well.
        text = COMMENT.sub("", path.read_text(encoding="utf-8")).replace("\\\n", "\n")
        for match in STRING.finditer(text):
            parts = [match[1]] + ["d" if macro else piece for macro, piece in MORE.findall(match[2])]
            yield "".join(parts).replace('\\"', '"').strip()


def letters(text):
    return len(re.findall("[a-zA-Z]", text))


def pattern_of(text):
    parts, at = [], 0
    for match in CONVERSION.finditer(text):
        parts.append(re.escape(text[at:match.start()]))
        parts.append("%" if match[0] == "%%" else ".*")
        at = match.end()
    return re.compile("".join(parts) + re.escape(text[at:]))


def lines_of(document):
    """(line number, code span) of the first cells of tables. A span in two backquotes holds some itself."""
    for number, line in enumerate(document.read_text(encoding="utf-8").splitlines(), 1):
        if not line.startswith("| `"):
            continue
        for double, single in re.findall(r"``(.+?)``|`([^`]+)`", line[2:].split(" | ")[0]):
            yield number, (double or single).strip()


def main(root):
    document = pathlib.Path(root, "docs/troubleshooting.md")
    patterns = [(letters(CONVERSION.sub("", text)), pattern_of(text)) for text in set(formats(root))]
    spans = list(lines_of(document))
    assert len(spans) > 30, f"{document}: only {len(spans)} lines found; has its form changed?"
    problems = [f"{document}:{number}: no source writes such a line: {span}" for number, span in spans
                if not any(own >= SHARE_MIN * letters(span) and pattern.search(span) for own, pattern in patterns)]
    print("\n".join(problems) or f"messages: all {len(spans)} lines are the sources' own")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
