# SPDX-License-Identifier: Apache-2.0
"""Pipeline schedules that absorb slow links: libdetour-sched from Python.

Profiles and schedules are dictionaries in the formats of docs/sched-cli.md; a schedule may also be the text of
PyTorch's pipelining CSV. No build step: this file needs libdetour-sched.so, which it looks for in
DETOUR_SCHED_LIBRARY (a path), in ../build/lib and ../lib beside it, two folders above (installed), and where the loader looks.

    import detour_sched
    plan = detour_sched.plan(profile, "zb")
    print(plan["makespan_ms"], detour_sched.convert(profile, plan, "text"))
"""
import ctypes
import json
import os
import pathlib

__all__ = ["Error", "plan", "simulate", "check", "convert", "algorithms", "compare", "tolerance", "adapt", "replan"]

_SONAME = "libdetour-sched.so.0"
_FORMATS = ["json", "csv", "csv-comms", "trace", "svg", "text"]


class Error(ValueError):
    """The library's error in one line; `status` is its detour_status."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


# The structs of detour/sched.h and detour/sched_format.h that are passed, field by field; tests/sched/python_test.py
# compares them with the headers.
_I32, _I64, _PTR = ctypes.c_int32, ctypes.c_int64, ctypes.c_void_p


class _Error(ctypes.Structure):
    _fields_ = [("status", ctypes.c_int), ("text", ctypes.c_char * 480)]


class _Stage(ctypes.Structure):
    _fields_ = [("f_ns", _I64), ("b_ns", _I64), ("w_ns", _I64), ("bw_ns", _I64), ("bytes_f", _I64), ("bytes_w", _I64),
                ("offload_ns", _I64), ("device", _I32), ("max_inflight", _I32)]


class _Link(ctypes.Structure):
    _fields_ = [("forward_ns", _I64), ("backward_ns", _I64), ("forward_serial_ns", _I64),
                ("backward_serial_ns", _I64)]


class _Profile(ctypes.Structure):
    _fields_ = [("stage_count", _I32), ("microbatch_count", _I32), ("device_count", _I32), ("release", ctypes.c_int),
                ("stages", ctypes.POINTER(_Stage)), ("links", ctypes.POINTER(_Link)), ("devices", _PTR)]


class _Op(ctypes.Structure):
    _fields_ = [("start_ns", _I64), ("finish_ns", _I64), ("microbatch", _I32), ("stage", ctypes.c_int16),
                ("kind", ctypes.c_uint8), ("flags", ctypes.c_uint8)]


class _Schedule(ctypes.Structure):
    _fields_ = [("stage_count", _I32), ("microbatch_count", _I32), ("device_count", _I32), ("timed", ctypes.c_bool),
                ("op_count", ctypes.c_size_t), ("first", ctypes.POINTER(ctypes.c_size_t)),
                ("ops", ctypes.POINTER(_Op))]

    def span_ns(self):
        """From the first start to the last finish, of all devices and of the longest device."""
        devices = [(self.ops[self.first[d]].start_ns, self.ops[self.first[d + 1] - 1].finish_ns)
                   for d in range(self.device_count)]
        return (max(end for _, end in devices) - min(start for start, _ in devices),
                max(end - start for start, end in devices))


class _Options(ctypes.Structure):
    _fields_ = [("algorithm", ctypes.c_int), ("beam_width", _I32), ("node_budget", ctypes.c_uint64),
                ("should_stop", _PTR), ("should_stop_arg", _PTR), ("warmup", _PTR), ("group_size", _I32)]


class _Plan(ctypes.Structure):
    _fields_ = [("schedule", ctypes.POINTER(_Schedule)), ("algorithm", ctypes.c_int),
                ("proven_optimal", ctypes.c_bool), ("makespan_ns", _I64), ("longest_span_ns", _I64),
                ("lower_bound_ns", _I64), ("nodes", ctypes.c_uint64)]


class _DeviceReport(ctypes.Structure):
    _fields_ = [("first_start_ns", _I64), ("last_finish_ns", _I64), ("busy_ns", _I64), ("idle_ns", _I64),
                ("peak_bytes", _I64)]


class _StageReport(ctypes.Structure):
    _fields_ = [("warmup", _I32), ("peak_inflight", _I32)]


class _Report(ctypes.Structure):
    _fields_ = [("makespan_ns", _I64), ("longest_span_ns", _I64), ("longest_span_device", _I32),
                ("bubble_ratio_makespan", ctypes.c_double), ("bubble_ratio_span", ctypes.c_double),
                ("devices", ctypes.POINTER(_DeviceReport)), ("stages", ctypes.POINTER(_StageReport)), ("links", _PTR)]


class _CurvePoint(ctypes.Structure):
    _fields_ = [("delay_ns", _I64), ("makespan_ns", _I64), ("slope", _I64)]


class _Curve(ctypes.Structure):
    _fields_ = [("point_count", ctypes.c_size_t), ("points", ctypes.POINTER(_CurvePoint))]


class _AdaptOptions(ctypes.Structure):
    _fields_ = [("generate", _Options), ("change_ns_min", _I64), ("change_permille_min", _I32), ("confirm_count", _I32),
                ("gain_permille_min", _I32), ("switch_cost_ns", _I64), ("horizon_iterations", _I32),
                ("allow_offload", ctypes.c_bool)]


class _AdaptState(ctypes.Structure):
    _fields_ = [("changed_count", _I32)]


class _Adaptation(ctypes.Structure):
    _fields_ = [("verdict", ctypes.c_int), ("plan", ctypes.POINTER(_Plan)), ("planned_makespan_ns", _I64),
                ("present_makespan_ns", _I64), ("candidate_makespan_ns", _I64), ("offloaded", _I32)]


class _Ranks(ctypes.Structure):
    _fields_ = [("count", _I32), ("device", ctypes.POINTER(_I32))]


class _Text(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_size_t), ("data", _PTR)]


class _AdaptNote(ctypes.Structure):
    _fields_ = [("adaptation", ctypes.POINTER(_Adaptation)), ("options", ctypes.POINTER(_AdaptOptions)),
                ("started", _PTR), ("now_ns", _I64)]


class _FormatOptions(ctypes.Structure):
    _fields_ = [("ascii", ctypes.c_bool), ("color", ctypes.c_bool), ("columns", _I32), ("torch_minor", _I32),
                ("title", ctypes.c_char_p), ("report", ctypes.POINTER(_Report)), ("adapt", ctypes.POINTER(_AdaptNote)),
                ("measured", _PTR)]


_STRUCTS = {"detour_error": _Error, "detour_stage": _Stage, "detour_link": _Link, "detour_profile": _Profile,
            "detour_op": _Op, "detour_schedule": _Schedule, "detour_options": _Options, "detour_plan": _Plan,
            "detour_device_report": _DeviceReport, "detour_stage_report": _StageReport, "detour_report": _Report,
            "detour_curve_point": _CurvePoint, "detour_curve": _Curve, "detour_adapt_options": _AdaptOptions,
            "detour_adapt_state": _AdaptState, "detour_adaptation": _Adaptation, "detour_ranks": _Ranks,
            "detour_text": _Text, "detour_adapt_note": _AdaptNote, "detour_format_options": _FormatOptions}
_CONSTANTS = {"DETOUR_INVALID": 1, "DETOUR_UNSUPPORTED": 4, "DETOUR_MEMORY_TOO_SMALL": 5, "DETOUR_FORWARD": 1,
              "DETOUR_BACKWARD": 2, "DETOUR_BOTH_WAYS": 3, "DETOUR_ADAPT_KEEP_NO_GAIN": 2, "DETOUR_ADAPT_CHANGE": 3,
              "DETOUR_TIME_MAX_NS": 100000000000}
_DIRECTIONS = {"forward": 1, "backward": 2, "both": 3}


def _ns(time_ms):
    return round(time_ms * 1e6)


def _ms(time_ns):
    return time_ns / 1e6 if time_ns % 1000000 else time_ns // 1000000


def _load():
    here = pathlib.Path(__file__).resolve().parent
    named = os.environ.get("DETOUR_SCHED_LIBRARY")
    places = [named] if named else [str(here.parent / folder / _SONAME) for folder in ("build/lib", "lib", "..")]
    found = [place for place in places if os.path.exists(place)]
    library = ctypes.CDLL(found[0] if found else named or _SONAME)
    library.detour_arena_create.restype = ctypes.c_void_p
    library.detour_arena_destroy.argtypes = [ctypes.c_void_p]
    library.detour_algorithm_name.restype = ctypes.c_char_p
    library.detour_algorithm_find.restype = ctypes.c_bool
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
        text, out = json.dumps(profile).encode(), ctypes.POINTER(_Profile)()
        self.run("detour_profile_from_json", b"profile", text, ctypes.c_size_t(len(text)), ctypes.byref(out))
        return out

    def schedule(self, profile, schedule, planned=None):
        """Sets `planned`, a pointer to a profile, to the profile that the schedule records."""
        text = (schedule if isinstance(schedule, str) else json.dumps(schedule)).encode()
        out = ctypes.POINTER(_Plan)()
        self.run("detour_plan_read", profile, b"schedule", text, ctypes.c_size_t(len(text)), ctypes.byref(out),
                 ctypes.byref(planned) if planned is not None else None)
        return out

    def measured(self, profile, delays, ranks):
        """The profile with the delays added to its links."""
        if delays is None:
            return profile
        text, out = json.dumps(delays).encode(), ctypes.POINTER(_Profile)()
        given = _Ranks(len(ranks), (_I32 * len(ranks))(*ranks)) if ranks else None
        self.run("detour_delays_from_json", profile, ctypes.byref(given) if given else None, b"delays", text,
                 ctypes.c_size_t(len(text)), ctypes.byref(out))
        return out

    def write(self, profile, made, form, options=None):
        text = _Text()
        self.run("detour_plan_write", profile, made, ctypes.c_int(_FORMATS.index(form)),
                 ctypes.byref(options) if options else None, ctypes.byref(text))
        return ctypes.string_at(text.data, text.bytes).decode()

    def time(self, profile, made):
        """Simulates a plan; returns the report."""
        report = ctypes.POINTER(_Report)()
        self.run("detour_simulate", profile, made.contents.schedule, ctypes.byref(report))
        made.contents.makespan_ns = report.contents.makespan_ns
        made.contents.longest_span_ns = report.contents.longest_span_ns
        made.contents.lower_bound_ns = 0
        made.contents.proven_optimal = False
        return report


def algorithms():
    """The algorithm names for plan()."""
    names = [_library.detour_algorithm_name(ctypes.c_int(i)) for i in range(64)]
    return [name.decode() for name in names if name]


def _options(algorithm, node_budget):
    chosen = ctypes.c_int()
    if not _library.detour_algorithm_find(algorithm.encode(), ctypes.byref(chosen)):
        raise Error(1, f"algorithm is {algorithm}; it must be one of {', '.join(algorithms())}")
    return _Options(algorithm=chosen.value, node_budget=node_budget)


def plan(profile, algorithm="auto", node_budget=0):
    """A schedule for the profile by the named algorithm. `node_budget` bounds the search of algorithms that search."""
    options = _options(algorithm, node_budget)
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
        return json.loads(call.write(read, made, "json", _FormatOptions(report=report)))


def check(profile, schedule):
    """Raises Error, with the reason, if the order of the schedule cannot be executed under the profile."""
    with _Call() as call:
        read = call.profile(profile)
        made = call.schedule(read, schedule)
        call.time(read, made)  # times made for other links are no fault of the order
        call.run("detour_validate", read, made.contents.schedule)


def convert(profile, schedule, form, torch_minor=0):
    """The schedule, timed under the profile, as text: "json", "csv", "csv-comms", "trace", "svg" or "text".
    "csv-comms" is for PyTorch 2.N with N = torch_minor, 0 for the newest known form."""
    if form not in _FORMATS:
        raise Error(1, f"form is {form}; it must be one of {', '.join(_FORMATS)}")
    with _Call() as call:
        read = call.profile(profile)
        made = call.schedule(read, schedule)
        call.time(read, made)
        return call.write(read, made, form, _FormatOptions(torch_minor=torch_minor))


def _row(call, profile, name, node_budget):
    """One algorithm's line of compare()."""
    options, made, report = _options(name, node_budget), ctypes.POINTER(_Plan)(), ctypes.POINTER(_Report)()
    try:
        call.run("detour_generate", profile, ctypes.byref(options), ctypes.byref(made))
    except Error as error:
        if error.status not in (_CONSTANTS["DETOUR_UNSUPPORTED"], _CONSTANTS["DETOUR_MEMORY_TOO_SMALL"]):
            raise
        return {"algorithm": name, "problem": str(error)}
    call.run("detour_simulate", profile, made.contents.schedule, ctypes.byref(report))
    best, found, count = made.contents, report.contents, profile.contents
    return {"algorithm": name, "makespan_ms": _ms(best.makespan_ns), "longest_span_ms": _ms(best.longest_span_ns),
            "lower_bound_ms": _ms(best.lower_bound_ns), "proven_optimal": best.proven_optimal,
            "bubble_ratio_makespan": found.bubble_ratio_makespan, "bubble_ratio_span": found.bubble_ratio_span,
            "peak_inflight": max(found.stages[i].peak_inflight for i in range(count.stage_count)),
            "peak_bytes": max(found.devices[d].peak_bytes for d in range(count.device_count))}


def compare(profile, node_budget=0):
    """All algorithms on one profile: a list of dictionaries with makespan, bubbles and memory, or the "problem"."""
    with _Call() as call:
        read = call.profile(profile)
        return [_row(call, read, name, node_budget) for name in algorithms()]


def tolerance(profile, schedule, directions="both", delay_max_ms=None):
    """The extra delay that each link may have: for each a dictionary with tolerable_ms, up to which the iteration
    grows no faster than the delay, and the curve (delay_ms, makespan_ms, and slope from there on). `directions` is
    "forward", "backward" or "both"; the curve ends at delay_max_ms (default: the makespan)."""
    if directions not in _DIRECTIONS:
        raise Error(1, f"directions is {directions}; it must be one of {', '.join(_DIRECTIONS)}")
    with _Call() as call:
        read = call.profile(profile)
        made = call.schedule(read, schedule)
        report = call.time(read, made)
        count, ways = read.contents.stage_count - 1, ctypes.c_int(_DIRECTIONS[directions])
        latest = max([max(link.forward_ns, link.backward_ns) for link in read.contents.links[:count]], default=0)
        limit = _I64(_ns(delay_max_ms) if delay_max_ms is not None else
                     max(1, min(report.contents.makespan_ns, _CONSTANTS["DETOUR_TIME_MAX_NS"] - latest - 1)))
        tolerable, links = ctypes.POINTER(_I64)(), []
        call.run("detour_tolerance", read, made.contents.schedule, ways, limit, ctypes.byref(tolerable))
        for link in range(count):
            curve = ctypes.POINTER(_Curve)()
            call.run("detour_delay_curve", read, made.contents.schedule, _I32(link), ways, limit, ctypes.byref(curve))
            points = curve.contents.points[:curve.contents.point_count]
            links.append({"link": link, "tolerable_ms": _ms(tolerable[link]),
                          "curve": [{"delay_ms": _ms(point.delay_ns), "makespan_ms": _ms(point.makespan_ns),
                                     "slope": point.slope} for point in points]})
        return links


def _decided(call, profile, adaptation, options, made, **replanned):
    note = _AdaptNote(ctypes.pointer(adaptation), ctypes.pointer(options), **replanned)
    return json.loads(call.write(profile, made, "json", _FormatOptions(adapt=ctypes.pointer(note))))


def adapt(profile, schedule, delays=None, ranks=None, planned=None, algorithm="auto", node_budget=0,
          min_gain_percent=1, min_change_ms=0, switch_cost_ms=0, horizon=100, allow_offload=False):
    """The schedule to use from now on: a new one if the gain pays for the change, else the present one; the member
    "adapt" has the decision and its reason. The links are those of the profile plus `delays` (docs/sched-cli.md;
    `ranks` has the device of each rank). `planned` is the profile for which the schedule was made; by default the
    links that it records, else the given profile if `delays` is given, else one without delays."""
    options = _AdaptOptions(_options(algorithm, node_budget), _ns(min_change_ms), 50, 1, round(min_gain_percent * 10),
                            _ns(switch_cost_ms), horizon, allow_offload)
    with _Call() as call:
        healthy, recorded = call.profile(profile), ctypes.POINTER(_Profile)()
        made, state, out = call.schedule(healthy, schedule, recorded), _AdaptState(), ctypes.POINTER(_Adaptation)()
        if planned is not None:
            before = call.profile(planned)
        elif recorded or delays is not None:
            before = recorded or healthy
        else:
            links = [{"forward_ms": 0, "backward_ms": 0}] * (healthy.contents.stage_count - 1)
            before = call.profile({**profile, "links": links})
        measured = call.measured(healthy, delays, ranks)
        call.run("detour_adapt", before, measured, made.contents.schedule, ctypes.byref(options), ctypes.byref(state),
                 ctypes.byref(out))
        if out.contents.plan:
            made = out.contents.plan
        else:
            call.time(measured, made)
        return _decided(call, measured, out.contents, options, made)


def replan(profile, schedule, now_ms, delays=None, ranks=None, started=None, node_budget=0):
    """The best continuation of an iteration that began at 0; the present time is now_ms. Started operations keep the
    (measured) times of the schedule: `started` operations of each device, by default those whose start is before
    now_ms. The rest gets a new order for the present links. "adapt" has the gain."""
    options = _AdaptOptions(_options("auto", node_budget), gain_permille_min=0)
    with _Call() as call:
        healthy = call.profile(profile)
        made, out, going_on = call.schedule(healthy, schedule), ctypes.POINTER(_Plan)(), _I64()
        present, now_ns, count = made.contents.schedule.contents, _I64(_ns(now_ms)), healthy.contents.device_count
        if not present.timed:
            call.time(healthy, made)
        if started is None:
            started = [sum(op.start_ns < now_ns.value for op in present.ops[present.first[d]:present.first[d + 1]])
                       for d in range(count)]
        if len(started) != count:
            raise Error(1, f"started has {len(started)} numbers; the profile has {count} devices")
        done, measured = (ctypes.c_size_t * count)(*started), call.measured(healthy, delays, ranks)
        adaptation = _Adaptation(planned_makespan_ns=present.span_ns()[0])
        call.run("detour_replan", measured, made.contents.schedule, done, now_ns, ctypes.byref(options.generate),
                 ctypes.byref(out))
        call.run("detour_simulate_from", measured, made.contents.schedule, done, now_ns, ctypes.byref(going_on))
        adaptation.present_makespan_ns = going_on.value
        adaptation.candidate_makespan_ns = out.contents.makespan_ns
        better = out.contents.makespan_ns < going_on.value
        adaptation.verdict = _CONSTANTS["DETOUR_ADAPT_CHANGE" if better else "DETOUR_ADAPT_KEEP_NO_GAIN"]
        return _decided(call, measured, adaptation, options, out, started=ctypes.cast(done, _PTR), now_ns=now_ns)
