# SPDX-License-Identifier: Apache-2.0
"""Counters of the running processes that use Detour, and which of their links are slow: libdetour-stat from Python.

No build step: this file needs libdetour-stat.so, which it looks for in DETOUR_STAT_LIBRARY (a path), in ../build/lib and
../lib beside it, two folders above (installed), and where the loader looks.

    import detour_stat
    for process in detour_stat.read():
        for c in process["connections"]:
            print(process["pid"], c["from_rank"], c["to_rank"], c["verdict"], c["delay_ns"])

Members are named as the fields in detour/stat.h; an event has "step" as well, S1 to S4 of a remedy. What is not known or
does not apply is None.
"""
import ctypes
import os
import pathlib
import time

__all__ = ["Error", "Processes", "follow", "read", "slow_links"]

_SONAME = "libdetour-stat.so.0"
_ERROR_BYTES = 512
_I32, _I64, _U64, _TEXT = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_char_p


class Error(RuntimeError):
    """The library's error in one line; `status` is its detour_stat_status."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


# The structs of detour/stat.h, field by field; tests/obs/python_test.py compares them with the header.
class _Connection(ctypes.Structure):
    _fields_ = [("id", _U64), ("opened_ns", _I64), ("peer", _TEXT), ("nic", _TEXT), ("peer_nic", _TEXT),
                ("is_send", ctypes.c_bool), ("from_rank", _I32), ("to_rank", _I32), ("path", _I32)] + [
        (name, _U64) for name in ("messages", "bytes", "service_ns", "refused", "staged_messages", "staged_bytes",
                                  "flushes", "takeovers", "errors", "switches", "recoveries", "retries",
                                  "failover_ns")] + [
        ("service_count", _U64 * 28), ("verdict", _I32), ("cause", _I32), ("since_ns", _I64),
        ("factor", ctypes.c_double), ("delay_ns", _U64), ("transfer_bytes", _U64), ("samples", _U64), ("merged", _U64),
        ("pool_full", _U64), ("held", _U64), ("held_ns", _U64)]


class _Event(ctypes.Structure):
    _fields_ = [("time_ns", _I64), ("kind", _TEXT), ("text", _TEXT), ("value", _I64), ("number", _U64),
                ("rank", _I32), ("peer_rank", _I32), ("connection", _U64), ("is_send", ctypes.c_bool),
                ("from_rank", _I32), ("to_rank", _I32), ("peer", _TEXT), ("nic", _TEXT), ("peer_nic", _TEXT),
                ("path", _I32), ("verdict", _I32), ("cause", _I32), ("since_ns", _I64), ("factor", ctypes.c_double),
                ("delay_ns", _U64), ("next_nic", _TEXT)]


class _Process(ctypes.Structure):
    _fields_ = [("pid", _I32), ("rank", _I32), ("start_ns", _I64), ("name", _TEXT), ("version", _TEXT),
                ("connection_count", ctypes.c_size_t), ("event_count", ctypes.c_size_t), ("host", _TEXT),
                ("job_rank", _I32), ("iteration_ns", _U64), ("compute_ns", _U64), ("iterations", _U64),
                ("compute_verdict", _I32), ("compute_factor", ctypes.c_double), ("compute_since_ns", _I64)]


class _Link(ctypes.Structure):
    _fields_ = [("from_rank", _I32), ("to_rank", _I32), ("is_slow", ctypes.c_bool), ("cause", _I32), ("delay_ns", _U64),
                ("factor", ctypes.c_double), ("connection", ctypes.POINTER(_Connection))]


_STRUCTS = {"detour_stat_link": _Link, "detour_stat_connection": _Connection, "detour_stat_event": _Event, "detour_stat_process": _Process}


def _load():
    here = pathlib.Path(__file__).resolve().parent
    named = os.environ.get("DETOUR_STAT_LIBRARY")
    places = [named] if named else [here / "../build/lib" / _SONAME, here / "../lib" / _SONAME, here / "../.." / _SONAME, _SONAME]
    problem = None
    for place in places:
        try:
            library = ctypes.CDLL(str(place))
        except OSError as error:
            problem = problem or error
            continue
        pointer, size = ctypes.c_void_p, ctypes.c_size_t
        for name, result, arguments in [
                ("detour_stat_read", ctypes.c_int, [_TEXT, ctypes.c_int, ctypes.POINTER(pointer), _TEXT]),
                ("detour_stat_free", None, [pointer]), ("detour_stat_process_count", size, [pointer]),
                ("detour_stat_get_process", ctypes.POINTER(_Process), [pointer, size]),
                ("detour_stat_get_connection", ctypes.POINTER(_Connection), [ctypes.POINTER(_Process), size]),
                ("detour_stat_get_event", ctypes.POINTER(_Event), [ctypes.POINTER(_Process), size]),
                ("detour_stat_links", ctypes.POINTER(_Link), [pointer, ctypes.POINTER(size)]),
                ("detour_stat_verdict_text", _TEXT, [ctypes.c_int]), ("detour_stat_cause_text", _TEXT, [ctypes.c_int])]:
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
        return library
    raise ImportError(f"{_SONAME} was not found; build Detour, or name it in DETOUR_STAT_LIBRARY ({problem})")


_library = _load()
_free = ctypes.CDLL(None).free
_free.restype, _free.argtypes = None, [ctypes.c_void_p]


def _dictionary(struct):
    row = {}
    for name, kind in struct._fields_:
        value = getattr(struct, name)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        elif name.endswith("rank"):
            value = value if value >= 0 else None
        elif kind is _U64 * 28:
            value = list(value)
        row[name] = value
    return row


def _connection(struct):
    row = _dictionary(struct)
    row["verdict"] = _library.detour_stat_verdict_text(struct.verdict).decode()
    row["cause"] = _library.detour_stat_cause_text(struct.cause).decode()
    return row


def _process(pointer):
    row = _dictionary(pointer.contents)
    connections, events = row.pop("connection_count"), row.pop("event_count")
    row["compute_verdict"] = _library.detour_stat_verdict_text(pointer.contents.compute_verdict).decode()
    for name in ("iteration_ns", "compute_ns", "compute_since_ns"):
        row[name] = row[name] or None
    row["connections"] = [_connection(_library.detour_stat_get_connection(pointer, i).contents)
                          for i in range(connections)]
    row["events"] = [_event(_library.detour_stat_get_event(pointer, i).contents) for i in range(events)]
    return row


def _event(struct):
    row = _dictionary(struct)
    has = struct.connection != 0
    for name in ("connection", "is_send", "peer", "peer_nic", "path"):
        row[name] = row[name] if has and row[name] not in ("", -1) else None
    is_verdict = struct.verdict >= 0
    row["verdict"] = _library.detour_stat_verdict_text(struct.verdict).decode() if is_verdict else None
    row["cause"] = _library.detour_stat_cause_text(struct.cause).decode() if struct.cause else None
    row["step"] = f"S{struct.value}" if row["kind"] == "remedy" else None
    for name in ("nic", "next_nic", "since_ns", "factor", "delay_ns"):
        row[name] = row[name] or None
    return row


def _links(snapshot):
    count = ctypes.c_size_t()
    links = _library.detour_stat_links(snapshot, ctypes.byref(count))
    if not links:
        raise MemoryError("detour_stat_links")
    rows = []
    for link in links[:count.value]:
        row = _dictionary(link)
        row["cause"] = _library.detour_stat_cause_text(link.cause).decode()
        row["connection"] = link.connection.contents.id
        rows.append(row)
    _free(links)
    return rows


class Processes(list):
    """The result of read(). `links`: a dictionary for each pair of ranks whose messages have a verdict, as
    detour_stat_links() has it; "connection" is the id of the worst one."""

    def __init__(self, processes=(), links=()):
        super().__init__(processes)
        self.links = list(links)


def read(pid=0, folder=None):
    """This user's processes on this host that use Detour, or the one with this number: a list of dictionaries, each
    with its "connections" and "events"; and its `links`."""
    snapshot, error = ctypes.c_void_p(), ctypes.create_string_buffer(_ERROR_BYTES)
    folder = folder or os.environ.get("DETOUR_RUNTIME_DIR") or ""
    status = _library.detour_stat_read(os.fsencode(folder), pid, ctypes.byref(snapshot), error)
    if status:
        raise Error(status, error.value.decode(errors="replace"))
    try:
        return Processes((_process(_library.detour_stat_get_process(snapshot, i))
                          for i in range(_library.detour_stat_process_count(snapshot))), _links(snapshot))
    finally:
        _library.detour_stat_free(snapshot)


def follow(pid=0, folder=None, every_s=0.1):
    """Endless: the events of all processes, or of one, in the order of time, those of the past first; each with the
    "pid", "process" and "host" of its process. None whenever there is nothing new, so that a caller can do other work
    or end. A gap in the "number" of a process: events that were overwritten before they were read."""
    seen = {}
    while True:
        fresh, now = [], {}
        for process in read(pid, folder):
            key = process["pid"], process["start_ns"]
            now[key] = seen.get(key, 0)
            for event in process["events"]:
                if event["number"] >= now[key]:
                    fresh.append({"pid": key[0], "process": process["name"], "host": process["host"], **event})
            if process["events"]:
                now[key] = process["events"][-1]["number"] + 1
        seen = now
        yield from sorted(fresh, key=lambda event: (event["time_ns"], event["pid"], event["number"]))
        yield None
        time.sleep(every_s)


def slow_links(processes):
    """The slow links in the result of read(): {(from_rank, to_rank): additional seconds per transfer}."""
    return {(link["from_rank"], link["to_rank"]): link["delay_ns"] / 1e9 for link in processes.links if link["is_slow"]}
