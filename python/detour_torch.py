# SPDX-License-Identifier: Apache-2.0
"""Changes the schedule of a running torch.distributed.pipelining job, between two steps and on all ranks together.

    pipeline = detour_torch.Pipeline(schedule, first=open("schedule.csv").read(), profile=profile, follow="next.csv")
    for inputs, targets in batches:
        pipeline.step(inputs, target=targets)          # the schedule's step(), after one small all_gather

`schedule` is a _PipelineScheduleRuntime. Every rank makes its Pipeline with the same arguments, and calls step() as
often as the others. New schedules come from rank 0, by propose() or from the file that it follows; every rank prepares
the proposed schedule and confirms it by its digest (detour_agreement.py); all ranks adopt it before the same step, or
none does. The stages stay where they are: a schedule that would move one is refused. docs/pytorch.md has an example.

This file needs torch 2.8 or later, and libdetour-sched (detour_sched.py).
"""
import copy
import csv
import hashlib
import io
import json
import logging
import os
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.pipelining import schedules

import detour_agreement
import detour_follow
import detour_sched

__all__ = ["Pipeline", "Refused"]

log = logging.getLogger("detour_torch")
_DIGEST_MAX = (1 << 63) - 1  # parts travel as signed 64-bit integers


class Refused(ValueError):
    """A schedule that this job cannot run; the text is the reason, in one line."""


def _line(error):
    """The first line of an error; AssertionErrors of torch go on with the whole schedule."""
    text = (str(error).splitlines() or [""])[0]
    return text if isinstance(error, ValueError) else f"{type(error).__name__}: {text}"


class _Prepared:
    """A schedule that is ready to run: its text, torch's lowered order, and a digest of the order of all ranks."""

    def __init__(self, text, runtime):
        self.text, self.order, self.lowered = text, runtime.pipeline_order, runtime.pipeline_order_with_comms
        rows = [[str(action) for action in self.lowered[rank]] for rank in sorted(self.lowered)]
        hashed = hashlib.sha256(json.dumps(rows).encode()).digest()
        self.digest = int.from_bytes(hashed[:8], "big") & _DIGEST_MAX or 1


def _prepare(schedule, profile, text):
    """What torch makes of `text` for this schedule, which is not changed. Raises Refused."""
    try:
        detour_sched.check(profile, text)  # order, deadlock, memory; torch runs some wrong files without an error
        rows = [row for row in csv.reader(io.StringIO(text))]
        has_messages = any("SEND_" in cell or "RECV_" in cell for row in rows for cell in row)
        actions = {rank: [schedules._Action.from_str(cell) for cell in row] for rank, row in enumerate(rows)}
        trial = copy.copy(schedule)  # torch's loader changes the runtime and its stages: let it change copies
        trial._stages = [copy.copy(stage) for stage in schedule._stages]
        trial.pipeline_order = actions
        trial._prepare_schedule_with_comms(actions, format="compute_comms" if has_messages else "compute_only")
    except Exception as error:  # torch reports by many types, AssertionError among them
        raise Refused(_line(error)) from None
    if trial.stage_index_to_group_rank != schedule.stage_index_to_group_rank:
        raise Refused(f"the schedule has the stages on ranks {_placement(trial)}; they are on {_placement(schedule)}")
    return _Prepared(text, trial)


def _placement(schedule):
    where = schedule.stage_index_to_group_rank
    return [where[stage] for stage in range(len(where))]


_KINDS = "f", "loss", "b", "w", "bw"


def _now_ns():
    return time.perf_counter_ns()


class _Times:
    """How long the operations of this rank's stages take: CUDA events in the stage's stream, elsewhere the CPU clock.
    Waiting for a message lies outside of what is timed."""

    def __init__(self, schedule):
        self._schedule, self._spans, self._device = schedule, [], schedule._stages[0].device

    def _mark(self):
        if self._device.type != "cuda":
            return _now_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record(torch.cuda.current_stream(self._device))
        return event

    def _wrap(self, owner, name, kind_of, stage_of):
        real = getattr(owner, name)

        def timed(*args, **kwargs):
            begin = self._mark()
            result = real(*args, **kwargs)
            self._spans.append((stage_of(args), kind_of(args, kwargs), begin, self._mark()))
            return result
        setattr(owner, name, timed)

    def attach(self):
        for stage in self._schedule._stages:
            def index(_, number=stage.stage_index):
                return number
            self._wrap(stage, "forward_one_chunk", lambda args, kwargs: "f", index)
            self._wrap(stage, "backward_one_chunk", lambda args, kwargs: "bw" if kwargs.get(
                "full_backward", args[2] if len(args) > 2 else True) else "b", index)
            self._wrap(stage, "backward_weight_one_chunk", lambda args, kwargs: "w", index)
        self._wrap(self._schedule, "_maybe_compute_loss", lambda args, kwargs: "loss", lambda args: args[0].stage_index)

    def detach(self):
        for stage in self._schedule._stages:
            del stage.forward_one_chunk, stage.backward_one_chunk, stage.backward_weight_one_chunk
        del self._schedule._maybe_compute_loss

    def medians_ns(self):
        """For each stage of the job the medians in the order of _KINDS; -1: not measured here."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        samples = {}
        for stage, kind, begin, end in self._spans:
            took = round(begin.elapsed_time(end) * 1e6) if self._device.type == "cuda" else end - begin
            samples.setdefault((stage, kind), []).append(took)
        return [round(statistics.median(samples.get((stage, kind), [-1])))
                for stage in range(self._schedule._num_stages) for kind in _KINDS]


def _stage_profile(stage, medians):
    """A stage of a profile, from the medians of one stage (ns)."""
    f, loss, b, w, bw = medians
    if f < 0 or (bw < 0 and min(b, w) < 0):
        raise Refused(f"stage {stage} has no measured {'F' if f < 0 else 'B and W'}; call measure() and then step()")
    f += max(loss, 0)
    found = {} if bw < 0 else {"bw_ms": bw / 1e6}
    if min(b, w) < 0:  # not split by the schedules that ran: the rule of `detour sched model` (docs/adaptis.md)
        w = min(f, bw // 2)
        b = bw - w
    return {"f_ms": f / 1e6, "b_ms": b / 1e6, "w_ms": w / 1e6, **found}


class Pipeline:
    """A schedule that can be changed while it trains.

    schedule  _PipelineScheduleRuntime, or a schedule of torch that is derived from it
    first     what it runs first: CSV text or a schedule of detour_sched; None: what it has loaded
    profile   of docs/sched-cli.md: limits of memory for all schedules, and times for decisions. None: times are
              unknown, and decisions of the controller are not followed until set_profile()
    follow    what rank 0 watches for new schedules: a CSV file; or "control", the decisions of `detour control`, or
              the path of a decision.json. None: propose() only
    group     the ranks that change together, and over which the rounds go. Default: all ranks of the job, which must
              then have the same pipeline (data and tensor parallelism). With NCCL, give a gloo group of the same ranks:
              rounds then do not wait for the GPU
    """

    def __init__(self, schedule, first=None, *, profile=None, follow=None, group=None):
        if not isinstance(schedule, schedules._PipelineScheduleRuntime):
            raise TypeError(f"schedule is a {type(schedule).__name__}; it must be a _PipelineScheduleRuntime")
        self.schedule, self._group = schedule, group
        self._rank, self._size = dist.get_rank(group), dist.get_world_size(group)
        self._device = torch.device("cpu") if dist.get_backend(group) == "gloo" else schedule._stages[0].device
        self._agreement, self._steps, self._proposal, self._prepared = detour_agreement.Agreement(), 0, None, None
        self._measuring, self._left = None, (0, 0)  # steps to skip, steps to measure
        self.set_profile(profile)
        self._adopt(self._first(first))
        self._ranks = self._exchange([schedule.rank])[:, 0].tolist()  # the device of each rank, for delays
        self._source = detour_follow.source(follow, self._ranks) if follow and self._rank == 0 else None

    def set_profile(self, profile):
        """Replaces the profile. The same on all ranks."""
        self._times = profile
        self._profile = profile or {
            "version": 1, "microbatches": self.schedule._n_microbatches, "placement": _placement(self.schedule),
            "stages": [{"f_ms": 1, "b_ms": 1, "w_ms": 1}] * self.schedule._num_stages,
            "links": [{"forward_ms": 0}] * (self.schedule._num_stages - 1)}

    @property
    def number(self):
        """The number of the schedule in use: 0 for the first, and then the number of its proposal."""
        return self._agreement.adopted

    @property
    def text(self):
        """The schedule in use, as CSV."""
        return self._current.text

    def propose(self, new):
        """Rank 0: all ranks are to run `new` (CSV text or a schedule of detour_sched) from the step after the next one
        on. Raises Refused if rank 0 cannot prepare it. Returns its number; 0: another proposal is pending."""
        if self._rank != 0:
            raise Refused(f"rank {self._rank} cannot propose a schedule; rank 0 of the group does")
        prepared = _prepare(self.schedule, self._profile, self._csv(new))
        number = self._agreement.propose(self._steps + 1)
        if number:
            self._proposal = prepared.text
        return number

    def step(self, *args, **kwargs):
        """The schedule's step(), after the round of this step. An error of either, such as the process group's about a
        rank that has died, is one line of the log and is raised on."""
        number = self._steps
        try:
            self._round()
            self._steps += 1
            return self._run(*args, **kwargs)
        except Exception as error:
            pending = self._agreement.own.number
            log.error("rank %d: step %d with schedule %d failed%s: %s", self._rank, number, self.number,
                      f" while schedule {pending} was proposed" if pending else "", _line(error))
            raise

    def _run(self, *args, **kwargs):
        skip, count = self._left
        if skip or not count:
            self._left = max(0, skip - 1), count
            return self.schedule.step(*args, **kwargs)
        self._left = 0, count - 1
        self._measuring.attach()
        try:
            return self.schedule.step(*args, **kwargs)
        finally:
            self._measuring.detach()

    def measure(self, steps=5, skip=1):
        """Times F, B and W of the stages of this rank during `steps` steps, after `skip` others."""
        self._measuring, self._left = _Times(self.schedule), (skip, steps)

    def profile(self, path=None):
        """All ranks together: the profile with the measured times of all stages, which is used from now on; rank 0 writes
        it to `path`. A stage that several ranks have takes as long as on the slowest. Latencies of links, and limits of
        memory, are those of the profile that was given. F of the last stage includes the loss. Where no schedule split
        the backward pass, B and W are its parts by the rule of `detour sched model`, and not measured."""
        times = self._measuring or _Times(self.schedule)
        slowest = self._exchange(times.medians_ns()).amax(0).reshape(-1, len(_KINDS)).tolist()
        self.set_profile({**self._profile, "stages": [_stage_profile(*stage) for stage in enumerate(slowest)]})
        if path and self._rank == 0:
            with open(f"{path}.new", "w", encoding="utf-8") as file:
                json.dump(self._profile, file)
            os.replace(f"{path}.new", path)
        return self._profile

    def _csv(self, new):
        return new if isinstance(new, str) else detour_sched.convert(self._profile, new, "csv")

    def _first(self, first):
        if first is None:
            out = io.StringIO()
            order = self.schedule.pipeline_order or getattr(self.schedule, "pipeline_order_with_comms", {})
            csv.writer(out, lineterminator="\n").writerows(
                [action for action in order[rank] if action is not None] for rank in sorted(order))
            first = out.getvalue()
        problem, prepared = None, None
        try:
            if isinstance(first, str) and not first.strip():
                raise Refused("the schedule has no actions; give `first`, or load a CSV before")
            prepared = self._load_first(self._csv(first))
        except Exception as error:  # every rank takes part in the exchange, whatever is wrong here
            problem = Refused(_line(error))
        digests = self._exchange([prepared.digest if prepared else 0])[:, 0].tolist()
        if problem:
            raise problem
        if len(set(digests)) > 1:
            raise Refused(f"rank {self._rank} has another first schedule than ranks "
                          f"{[rank for rank, digest in enumerate(digests) if digest != prepared.digest]}")
        return prepared

    def _load_first(self, text):
        """The first schedule may place the stages, as _load_csv() does; each on the rank that has it."""
        where = {}
        for rank, row in enumerate(csv.reader(io.StringIO(text))):
            for action in map(schedules._Action.from_str, row):
                for part in action.sub_actions or (action,):
                    where[part.stage_index] = rank
        mine = {stage.stage_index for stage in self.schedule._stages}
        if mine != {stage for stage, rank in where.items() if rank == self.schedule.rank}:
            raise Refused(f"rank {self.schedule.rank} has the stages {sorted(mine)}, and the schedule places others there")
        self.schedule.stage_index_to_group_rank = where
        for stage in self.schedule._stages:
            stage.stage_index_to_group_rank = where
        self.set_profile(self._times)
        return _prepare(self.schedule, self._profile, text)

    def _exchange(self, values):
        """One row of integers per rank."""
        own = torch.tensor(values, dtype=torch.int64, device=self._device)
        rows = [torch.empty_like(own) for _ in range(self._size)]
        dist.all_gather(rows, own, group=self._group)
        return torch.stack(rows).cpu()

    def _broadcast(self, text, count):
        """Text of rank 0, `count` bytes."""
        data = torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8) if text else torch.empty(count, dtype=torch.uint8)
        data = data.to(self._device)
        dist.broadcast(data, src=dist.get_global_rank(self._group, 0) if self._group else 0, group=self._group)
        return bytes(data.cpu().tolist()).decode()

    def _round(self):
        if self._source and not self._agreement.own.number:
            self._look()
        proposal = self._proposal
        rows = self._exchange([*self._agreement.own, len(proposal.encode()) if proposal else 0]).tolist()
        action = self._agreement.round([detour_agreement.Part(*row[:3]) for row in rows], self._steps)
        if action == detour_agreement.PREPARE:
            self._proposal, self._prepared = None, None
            self._confirm(self._broadcast(proposal, rows[0][3]))
        elif action == detour_agreement.ADOPT:
            self._adopt(self._prepared)
            log.info("schedule %d is in use from step %d on", self.number, self._steps)
        elif action == detour_agreement.DISCARD:
            if self._rank == 0:
                missing = [rank for rank, row in enumerate(rows) if row[2] != rows[0][2] or not row[2]]
                log.warning("schedule %d is discarded on all ranks: not confirmed by ranks %s", rows[0][0], missing)
            self._prepared = None

    def _look(self):
        """Rank 0: a new schedule from what it follows becomes a proposal."""
        new = self._source.look(self._times, self._current.text)
        if new is None:
            return
        try:
            self.propose(new)
        except Refused as error:
            log.warning("%s: ignored: %s", self._source.path, error)

    def _confirm(self, text):
        try:
            self._prepared = _prepare(self.schedule, self._profile, text)
            self._agreement.prepared(self._prepared.digest)
        except Refused as error:
            log.warning("rank %d cannot run schedule %d: %s", self._rank, self._agreement.own.number, error)

    def _adopt(self, prepared):
        self.schedule.pipeline_order, self.schedule.pipeline_order_with_comms = prepared.order, prepared.lowered
        self._current, self._prepared = prepared, None
