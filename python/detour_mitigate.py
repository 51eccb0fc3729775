# SPDX-License-Identifier: Apache-2.0
"""Remedies for slow links and nodes (FALCON): libdetour-sched from Python.

Jobs and events are dictionaries in the formats of docs/mitigate.md. Beside this file it needs detour_sched.py, which
finds the library.

    import detour_mitigate
    plan = detour_mitigate.plan(job, event)
    print(plan["due"], plan["S2"]["microbatches"], plan["S3"]["nodes"])
"""
import ctypes
import json

import detour_sched
from detour_sched import Error

__all__ = ["Error", "plan", "microbatches", "iteration_ms"]

STEPS = ("S1", "S2", "S3", "S4")

# The structs of detour/mitigate.h that are passed, field by field; tests/planner/mitigate/python_test.py compares them
# with the header.
_I32, _I64 = ctypes.c_int32, ctypes.c_int64
_I32S = ctypes.POINTER(_I32)


class _Replica(ctypes.Structure):
    _fields_ = [("microbatch_ns", _I64), ("fixed_ns", _I64)]


class _Microbatches(ctypes.Structure):
    _fields_ = [("time_ns", _I64), ("counts", _I32S), ("weights", ctypes.POINTER(ctypes.c_double))]


class _Cluster(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("replica_count", _I32), ("stage_count", _I32), ("microbatch_count", _I32),
                ("stage_ns", ctypes.POINTER(_I64)), ("message_bytes", _I64), ("gradient_bytes", _I64),
                ("bytes_per_s", _I64), ("latency_ns", _I64), ("nodes", _I32S), ("cost_ns", _I64 * 4),
                ("state_bytes", _I64), ("copy_bytes_per_s", _I64), ("machines", _I32S)]


class _Slowness(ctypes.Structure):
    _fields_ = [("node_count", _I32), ("link_count", _I32), ("nodes", ctypes.c_void_p), ("links", ctypes.c_void_p)]


class _Event(ctypes.Structure):
    _fields_ = [("slowness", _Slowness), ("slow_iterations", _I64)]


class _Iteration(ctypes.Structure):
    _fields_ = [("iteration_ns", _I64), ("pipeline_ns", _I64), ("gradients_ns", _I64)]


class _Topology(ctypes.Structure):
    _fields_ = [("nodes", _I32S), ("counts", _I32S), ("iteration", _Iteration), ("bound_ns", _I64),
                ("optimal", ctypes.c_bool), ("moved_count", _I32), ("straggler_stages", _I32),
                ("uses", ctypes.c_void_p), ("tried", ctypes.c_uint64), ("ended_early", ctypes.c_bool)]


class _Step(ctypes.Structure):
    _fields_ = [("cost_ns", _I64), ("iteration", _Iteration), ("due_iterations", _I64)]


class _Mitigation(ctypes.Structure):
    _fields_ = [("healthy", _Iteration), ("steps", _Step * 4), ("microbatches", _Microbatches),
                ("topology", _Topology), ("due", ctypes.c_int)]


class _Options(ctypes.Structure):
    _fields_ = [("noise_permille", _I32), ("budget", ctypes.c_uint64)]


_STRUCTS = {"detour_replica": _Replica, "detour_microbatches": _Microbatches, "detour_cluster": _Cluster,
            "detour_slowness": _Slowness, "detour_event": _Event, "detour_iteration": _Iteration,
            "detour_topology": _Topology, "detour_mitigation_step": _Step, "detour_mitigation": _Mitigation,
            "detour_mitigate_options": _Options}


def _read(call, job, event):
    """Pointers to the job and the event, in the arena of the call."""
    cluster, found = ctypes.POINTER(_Cluster)(), ctypes.POINTER(_Event)()
    text = json.dumps(job).encode()
    call.run("detour_cluster_from_json", b"job", text, ctypes.c_size_t(len(text)), ctypes.byref(cluster))
    text = json.dumps(event).encode()
    call.run("detour_event_from_json", cluster, b"event", text, ctypes.c_size_t(len(text)), ctypes.byref(found))
    return cluster, found


def _integers(values, count):
    return (_I32 * count)(*values) if values is not None else None


def plan(job, event, noise_percent=0, budget=0):
    """Every step with its cost and what it brings, as `detour mitigate --json`; 0 stands for the defaults.

    `steps` has cost_ms, iteration_ms and taken_after (slow iterations, None: never) of S1 to S4; `due` is the last step
    that the ladder has taken after the event's slow_iterations. An iteration that is longer by up to noise_percent (0:
    10) is a jitter, for which no step is taken. S2 has microbatches and weights of the replicas, S3 the node of each
    position and the microbatches with them."""
    with detour_sched._Call() as call:
        cluster, found = _read(call, job, event)
        options, made = _Options(round(10 * noise_percent), budget), _Mitigation()
        call.run("detour_mitigate", cluster, found, ctypes.byref(options), ctypes.byref(made))
        replicas, topology = cluster.contents.replica_count, made.topology
        positions = replicas * cluster.contents.stage_count
        steps = {name: {"cost_ms": step.cost_ns / 1e6, "iteration_ms": step.iteration.iteration_ns / 1e6,
                        "taken_after": step.due_iterations if step.due_iterations >= 0 else None}
                 for name, step in zip(STEPS, made.steps)}
        return {"healthy_ms": made.healthy.iteration_ns / 1e6, "due": STEPS[made.due], "steps": steps,
                "S2": {"microbatches": made.microbatches.counts[:replicas],
                       "weights": made.microbatches.weights[:replicas]},
                "S3": {"nodes": topology.nodes[:positions], "microbatches": topology.counts[:replicas],
                       "moved": topology.moved_count, "bound_ms": topology.bound_ns / 1e6, "optimal": topology.optimal,
                       "ended_early": topology.ended_early}}


def microbatches(times_ms, count, fixed_ms=None):
    """S2 alone: `count` microbatches for replicas that need times_ms for each, and fixed_ms (None: nothing) once.

    Returns the counts that make the slowest replica's time smallest, that time and the weights of the gradients."""
    fixed_ms = fixed_ms or [0] * len(times_ms)
    if len(fixed_ms) != len(times_ms):
        raise Error(1, f"fixed_ms has {len(fixed_ms)} times; it must have {len(times_ms)}, as times_ms")
    pairs = [_Replica(round(1e6 * ms), round(1e6 * fixed)) for ms, fixed in zip(times_ms, fixed_ms)]
    with detour_sched._Call() as call:
        made = _Microbatches()
        call.run("detour_microbatches_assign", (_Replica * len(pairs))(*pairs), _I32(len(pairs)), _I32(count),
                 ctypes.byref(made))
        return {"time_ms": made.time_ns / 1e6, "microbatches": made.counts[:len(pairs)],
                "weights": made.weights[:len(pairs)]}


def iteration_ms(job, event, nodes=None, counts=None):
    """The estimated iteration with the nodes of all positions and the microbatches of all replicas; None: the job's
    nodes, equal numbers."""
    with detour_sched._Call() as call:
        cluster, found = _read(call, job, event)
        replicas = cluster.contents.replica_count
        for name, values, length in (("nodes", nodes, replicas * cluster.contents.stage_count),
                                     ("counts", counts, replicas)):
            if values is not None and len(values) != length:
                raise Error(1, f"{name} has {len(values)} numbers; it must have {length}")
        made = _Iteration()
        call.run("detour_iteration_estimate", cluster, ctypes.byref(found.contents.slowness),
                 _integers(nodes, len(nodes or [])), _integers(counts, len(counts or [])), ctypes.byref(made))
        return made.iteration_ns / 1e6
