# SPDX-License-Identifier: Apache-2.0
"""Pipeline schedules that absorb slow links: libdetour-sched from Python.

Profiles and schedules are dictionaries in the formats of docs/sched-cli.md; a schedule may also be the text of
PyTorch's pipelining CSV. No build step: this file needs libdetour-sched.so, which it looks for in
DETOUR_SCHED_LIBRARY (a path), in ../build/lib and ../lib beside it, and where the loader looks.

    import detour_sched
    plan = detour_sched.plan(profile, "zb")
    print(plan["makespan_ms"], detour_sched.convert(profile, plan, "text"))
"""
import ctypes
import json
import os
import pathlib

__all__ = ["Error", "plan", "simulate", "check", "convert", "algorithms"]

_SONAME = "libdetour-sched.so.0"
_FORMATS = ["json", "csv", "csv-comms", "trace", "svg", "text"]


class Error(ValueError):
    """What the library says about an input it refuses, in one line; `status` is its detour_status."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


# The structs of detour/sched.h and detour/sched_format.h that are passed, field by field.
class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char * 480)]


class _Options(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_int), ("beam_width", ctypes.c_int32), ("node_budget", ctypes.c_uint64),
                ("should_stop", ctypes.c_void_p), ("should_stop_arg", ctypes.c_void_p), ("warmup", ctypes.c_void_p),
                ("group_size", ctypes.c_int32)]


class _Plan(ctypes.Structure):
    _fields_ = [("schedule", ctypes.c_void_p), ("algorithm", ctypes.c_int), ("proven_optimal", ctypes.c_bool),
                ("makespan_ns", ctypes.c_int64), ("longest_span_ns", ctypes.c_int64),
                ("lower_bound_ns", ctypes.c_int64), ("nodes", ctypes.c_uint64)]


class _Report(ctypes.Structure):  # its beginning
    _fields_ = [("makespan_ns", ctypes.c_int64), ("longest_span_ns", ctypes.c_int64)]


class _Text(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("data", ctypes.c_void_p)]


class _FormatOptions(ctypes.Structure):
    _fields_ = [("ascii", ctypes.c_bool), ("color", ctypes.c_bool), ("columns", ctypes.c_int32),
                ("title", ctypes.c_char_p), ("report", ctypes.c_void_p)]


def _load():
    here = pathlib.Path(__file__).resolve().parent
    named = os.environ.get("DETOUR_SCHED_LIBRARY")
    places = [named] if named else [str(here.parent / folder / _SONAME) for folder in ("build/lib", "lib")]
    found = [place for place in places if os.path.exists(place)]
    library = ctypes.CDLL(found[0] if found else named or _SONAME)
    library.detour_arena_create.restype = ctypes.c_void_p
    library.detour_arena_destroy.argtypes = [ctypes.c_void_p]
    library.detour_algorithm_name.restype = ctypes.c_char_p
    return library


_library = _load()


class _Call:
    """One arena, and calls that raise."""

    def __enter__(self):
        self.arena = ctypes.c_void_p(_library.detour_arena_create())
        if not self.arena:
            raise MemoryError
        return self

    def __exit__(self, *_):
        _library.detour_arena_destroy(self.arena)

    def run(self, name, *arguments):
        error = _Error()
        status = getattr(_library, name)(self.arena, *arguments, ctypes.byref(error))
        if status:
            raise Error(status, error.text.decode(errors="replace"))

    def profile(self, profile):
        text, out = json.dumps(profile).encode(), ctypes.c_void_p()
        self.run("detour_profile_from_json", b"profile", text, ctypes.c_size_t(len(text)), ctypes.byref(out))
        return out

    def schedule(self, profile, schedule):
        text = (schedule if isinstance(schedule, str) else json.dumps(schedule)).encode()
        out = ctypes.POINTER(_Plan)()
        self.run("detour_plan_read", profile, b"schedule", text, ctypes.c_size_t(len(text)), ctypes.byref(out), None)
        return out

    def write(self, profile, made, form, options=None):
        text = _Text()
        self.run("detour_plan_write", profile, made, ctypes.c_int(_FORMATS.index(form)),
                 ctypes.byref(options) if options else None, ctypes.byref(text))
        return ctypes.string_at(text.data, text.bytes).decode()

    def time(self, profile, made):
        """Simulates a plan; returns the report."""
        report = ctypes.POINTER(_Report)()
        self.run("detour_simulate", profile, ctypes.c_void_p(made.contents.schedule), ctypes.byref(report))
        made.contents.makespan_ns = report.contents.makespan_ns
        made.contents.longest_span_ns = report.contents.longest_span_ns
        made.contents.lower_bound_ns = 0
        made.contents.proven_optimal = False
        return report


def algorithms():
    """The names that plan() takes."""
    names = [_library.detour_algorithm_name(ctypes.c_int(i)) for i in range(64)]
    return [name.decode() for name in names if name]


def plan(profile, algorithm, node_budget=0):
    """A schedule for the profile by the named algorithm. `node_budget` bounds the search of algorithms that search."""
    chosen = ctypes.c_int()
    if not _library.detour_algorithm_find(algorithm.encode(), ctypes.byref(chosen)) & 1:
        raise Error(1, f"algorithm is {algorithm}; it must be one of {', '.join(algorithms())}")
    options = _Options(algorithm=chosen.value, node_budget=node_budget)
    with _Call() as call:
        read, made = call.profile(profile), ctypes.POINTER(_Plan)()
        call.run("detour_generate", read, ctypes.byref(options), ctypes.byref(made))
        return json.loads(call.write(read, made, "json"))


def simulate(profile, schedule):
    """The schedule with its times under the profile, and a member "report": bubbles, memory, slack of links."""
    with _Call() as call:
        read = call.profile(profile)
        made = call.schedule(read, schedule)
        report = call.time(read, made)
        return json.loads(call.write(read, made, "json",
                                     _FormatOptions(report=ctypes.cast(report, ctypes.c_void_p))))


def check(profile, schedule):
    """Raises Error, with the reason, if the order of the schedule cannot be executed under the profile."""
    with _Call() as call:
        read = call.profile(profile)
        made = call.schedule(read, schedule)
        call.time(read, made)  # times made for other links are no fault of the order
        call.run("detour_validate", read, ctypes.c_void_p(made.contents.schedule))


def convert(profile, schedule, form):
    """The schedule, timed under the profile, as text: "json", "csv", "csv-comms", "trace", "svg" or "text"."""
    if form not in _FORMATS:
        raise Error(1, f"form is {form}; it must be one of {', '.join(_FORMATS)}")
    with _Call() as call:
        read = call.profile(profile)
        made = call.schedule(read, schedule)
        call.time(read, made)
        return call.write(read, made, form)
