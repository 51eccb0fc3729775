# SPDX-License-Identifier: Apache-2.0
"""docs/troubleshooting.md and the sources agree on log lines. Each call that logs a WARN or INFO line gives it an id,
which occurs once in the sources and begins one or more rows of the document. Each code span in the first column of a
table matches a format string of the sources; one that begins with "[id]" matches the format of that id."""
import collections
import pathlib
import re
import sys

import tree

STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"((?:\s*(?:PRI[a-zA-Z0-9]+|"(?:[^"\\\n]|\\.)*"))*)')
MORE = re.compile(r'(PRI[a-zA-Z0-9]+)|"((?:[^"\\\n]|\\.)*)"')
CONVERSION = re.compile(r"%(?:%|[-#0-9.*]*(?:hh|h|ll|l|z|j)?[a-zA-Z])")
COMMENT = re.compile(r"/\*.*?\*/", re.S)
LOG_CALL = re.compile(r'\b(?:dt_warn\(|dt_info\(|dt_log\([^"();]*,)\s*"([^"]*)",\s*')
LOG_ID = re.compile(r'DT_LOG_ID\("([^"]*)"\)')
ANY_CALL = re.compile(r"\bdt_(?:warn|info|log|log_write)\(")
LOGGER = ("base/log.h", "base/log.c")
COMPOSED = {"failover/switchover/report.c": "describe() puts the id of the line in front of the text that is logged"}
ID_FORM = re.compile(r"[a-z]+(?:-[a-z]+)*")
ID_IN_SPAN = re.compile(r"\[([a-z-]+)\] ")
SHARE_MIN = 0.3  # of a line's letters that one format string must have itself: "%s: %s" would fit everything


def texts(root):
    """(path, text) of each source file: without comments, multi-line macros joined, DT_LOG_ID in each log call."""
    for _, path, text in tree.relative_sources(root, ".c", ".h"):
        if path not in LOGGER:
            text = COMMENT.sub(lambda match: "\n" * match[0].count("\n"), text).replace("\\\n", "\n")
            yield path, LOG_CALL.sub(r'DT_LOG_ID("\1") ', text)


def formats(root):
    """Every string of the sources, pieces joined, PRIu64 and the like as a conversion, an id as its text."""
    for _, text in texts(root):
        text = LOG_ID.sub(r'"[\1] "', text)
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


def call_problems(root):
    """Calls that log a line without an id: LOG_CALL has not replaced them."""
    for path, text in texts(root):
        for match in ANY_CALL.finditer(text):
            if path not in COMPOSED:
                yield f"{path}:{text.count(chr(10), 0, match.start()) + 1}: a WARN or INFO line needs an id (base/log.h)"


def id_problems(root, document, spans):
    sources = collections.Counter(name for _, text in texts(root) for name in LOG_ID.findall(text))
    explained = {match[1] for _, span in spans if (match := ID_IN_SPAN.match(span))}
    for name, count in sorted(sources.items()):
        if not ID_FORM.fullmatch(name):
            yield f'"{name}": an id is lower-case words joined by hyphens'
        if count > 1:
            yield f'"{name}" is the id of {count} places of the sources: an id belongs to one line'
        if name not in explained:
            yield f'{document}: no row of a table begins with "[{name}]", which the sources log'
    for name in sorted(explained - set(sources)):
        yield f'{document}: "[{name}]": no line of the sources has this id'


def span_problems(root, document, spans):
    patterns = [(letters(CONVERSION.sub("", text)), text, pattern_of(text)) for text in set(formats(root))]
    for number, span in spans:
        name = ID_IN_SPAN.match(span)
        if name:
            is_found = any(text.startswith(name[0]) and pattern.match(span) for _, text, pattern in patterns)
        else:
            is_found = any(own >= SHARE_MIN * letters(span) and pattern.search(span) for own, _, pattern in patterns)
        if not is_found:
            yield f"{document}:{number}: no source writes such a line: {span}"


def find(root):
    """(number of code spans in the document, problems)"""
    document = pathlib.Path(root, "docs/troubleshooting.md")
    spans = list(lines_of(document))
    return len(spans), [*call_problems(root), *span_problems(root, document, spans), *id_problems(root, document, spans)]


def main(root):
    count, problems = find(root)
    assert count > 100, f"docs/troubleshooting.md: only {count} lines found; has its form changed?"
    print("\n".join(problems) or f"messages: all {count} lines match the sources, and each line has an id")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
