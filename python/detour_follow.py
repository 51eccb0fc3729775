# SPDX-License-Identifier: Apache-2.0
"""Where a training job gets its next schedule from: a CSV file that a user replaces, or the decisions of `detour
control`, which the agent of the host writes to decision.json in the runtime folder.

A source is looked at between two steps, by rank 0 alone. It never raises and never blocks: a file that is missing,
being written, no regular file, too large or malformed gives nothing, and one warning for each of its versions.
"""
import json
import logging
import os
import stat
import time

import detour_sched

__all__ = ["CsvFile", "Decisions", "source"]

log = logging.getLogger("detour_torch")
_CSV_BYTES, _DECISION_BYTES = 1 << 26, 1 << 20


def runtime_dir():
    """Where the processes of this user and `detour agent` meet on this host."""
    return os.environ.get("DETOUR_RUNTIME_DIR") or f"/dev/shm/detour-{os.geteuid()}"


def source(follow, ranks):
    """`follow`: a CSV file; "control"; or the path of a decision.json. `ranks`: the device of each rank."""
    if follow == "control":
        return Decisions(os.path.join(runtime_dir(), "decision.json"), ranks)
    return Decisions(follow, ranks) if str(follow).endswith(".json") else CsvFile(follow)


class _Watched:
    """A file of at most `bytes_max` bytes, of which each version is read once."""

    def __init__(self, path, bytes_max):
        self.path, self._bytes_max, self._seen = os.fspath(path), bytes_max, None

    def _version(self):
        """None: there is no file."""
        try:
            found = os.stat(self.path)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size

    def _new_text(self):
        """The text of a version that was not read before, else None."""
        version = self._version()
        is_new, self._seen = version not in (None, self._seen), version
        if not is_new:
            return None
        try:
            return self._read()
        except (OSError, ValueError) as error:
            log.warning("%s: ignored: %s", self.path, error)
            return None

    def _read(self):
        with os.fdopen(os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise ValueError("it is not a regular file")
            data = file.read(self._bytes_max + 1)
        if len(data) > self._bytes_max:
            raise ValueError(f"it has more than {self._bytes_max} bytes")
        return data.decode()


class CsvFile(_Watched):
    """A schedule as CSV. Replace it by rename, so that it is never read half written."""

    def __init__(self, path):
        super().__init__(path, _CSV_BYTES)

    def look(self, profile, current):
        text = self._new_text()
        return None if text == current else text


def _constant(name):
    raise ValueError(f"{name} is not a number of JSON")


def _integer(decision, name):
    value = decision.get(name)
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise ValueError(f"{name} is {json.dumps(value)[:40]}; it must be an integer from 0 to 2^63-1")
    return value


def _decision(text):
    """A decision, or ValueError with the reason in one line. Its links are validated by libdetour-sched."""
    try:
        decision = json.loads(text, parse_constant=_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    if not isinstance(decision, dict):
        raise ValueError("it must be an object")
    if _integer(decision, "version") != 1:
        raise ValueError(f"version is {decision['version']}; it must be 1")
    _integer(decision, "fence"), _integer(decision, "number")
    if decision.get("kind") == "replan" and not isinstance(decision.get("links"), list):
        raise ValueError("links is missing; it must be a list of objects with from, to and delay_ms")
    return decision


def _start_ns():
    """When this process started, since 1970."""
    with open("/proc/self/stat", encoding="utf-8", errors="replace") as file:
        ticks = int(file.read().rpartition(")")[2].split()[19])
    age_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME) - ticks * 1000000000 // os.sysconf("SC_CLK_TCK")
    return time.time_ns() - age_ns


class Decisions(_Watched):
    """decision.json: the controller found delays of links, for which the schedule may have to change. A decision that was
    written before this process started is about the links of another job. Its number is no bound for later ones, because
    the controller of another job counts from 1."""

    def __init__(self, path, ranks):
        super().__init__(path, _DECISION_BYTES)
        version = self._version()
        self._seen = version if version and version[2] < _start_ns() else None
        self._ranks, self._last, self._made = ranks, (-1, -1), ("", None)

    def look(self, profile, current):
        text = self._new_text()
        if text is None:
            return None
        try:
            return self._follow(_decision(text), profile, current)
        except ValueError as error:
            log.warning("%s: ignored: %s", self.path, error)
            return None

    def _follow(self, decision, profile, current):
        order = (decision["fence"], decision["number"])
        if order <= self._last:
            log.info("%s: decision %d.%d is not newer than %d.%d", self.path, *order, *self._last)
            return None
        self._last = order
        if decision.get("kind") != "replan":
            return None
        if profile is None:
            raise ValueError("there is no profile yet, without which no schedule can be made")
        # A plan of an earlier decision records the links for which it was made, and the CSV does not.
        present = self._made[1] if self._made[0] == current else current
        plan = detour_sched.adapt(profile, present, {"version": 1, "links": decision["links"]}, self._ranks)
        log.info("decision %d.%d: %s", *order, plan["adapt"]["reason"])
        if plan["adapt"]["decision"] != "change":
            return None
        self._made = (detour_sched.convert(profile, plan, "csv"), plan)
        return self._made[0]
