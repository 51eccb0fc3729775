# SPDX-License-Identifier: Apache-2.0
"""`detour sched plan --algo exact` against an independent solver: the same small problems as mixed-integer programs,
solved by HiGHS (scipy.optimize.milp), must have the same optimum. Seeds are fixed and printed.

Usage: cross_check.py DETOUR [COUNT]. Exit code 77 (skipped) where no Python with scipy 1.9 or later is found; PYTHON in
the environment names one, and Debian's python3-scipy is found by itself."""
import json
import os
import random
import subprocess
import sys

SEED = 5
TIME_LIMIT_S = 15


def find_scipy():
    """Goes on in an interpreter that has scipy.optimize.milp."""
    try:
        from scipy.optimize import milp  # noqa: F401
        return
    except ImportError:
        pass
    tried = os.environ.get("DETOUR_CROSS_CHECK_TRIED", "").split(":")
    for python in (os.environ.get("PYTHON"), "/usr/bin/python3"):
        if python and python not in tried and os.access(python, os.X_OK):
            os.environ["DETOUR_CROSS_CHECK_TRIED"] = ":".join([*tried, python])
            os.execv(python, [python, *sys.argv])
    print("skipped: no Python with scipy.optimize.milp (Debian: python3-scipy); PYTHON=... names one")
    sys.exit(77)


def draw(rng):
    """A problem with whole milliseconds, small enough for branch and cut."""
    stages, microbatches = rng.choice([(2, 4), (2, 6), (3, 3), (3, 4), (3, 5), (4, 3), (4, 4)])
    profile = {"version": 1, "microbatches": microbatches,
               "stages": [{key: rng.randint(1, 12) for key in ("f_ms", "b_ms", "w_ms")} for _ in range(stages)],
               "links": [{key: rng.choice([0, rng.randint(0, 15)]) for key in ("forward_ms", "backward_ms")}
                         for _ in range(stages - 1)]}
    if rng.random() < 0.6:
        profile["memory"] = {"max_inflight": [rng.randint(1, 2 * stages - 1) for _ in range(stages)],
                             "release": rng.choice("BW")}
    if stages == 4 and rng.random() < 0.4:
        profile["placement"] = rng.choice([[0, 1, 0, 1], [0, 1, 1, 0]])
    return profile


class Model:
    """Operations (kind, stage, microbatch), what precedes what and by how much, and who shares a device. Each kind of
    a stage runs in the order of the microbatches, which loses nothing: they are interchangeable."""

    def __init__(self, profile):
        stages, self.count = profile["stages"], profile["microbatches"]
        self.place = profile.get("placement", list(range(len(stages))))
        self.ops = [(kind, i, j) for kind in "FBW" for i in range(len(stages)) for j in range(self.count)]
        self.time = {op: stages[op[1]][op[0].lower() + "_ms"] for op in self.ops}
        self.before = []  # (a, b, lag): b starts at least lag after a has finished
        for kind, i, j in self.ops:
            if j + 1 < self.count:
                self.before.append(((kind, i, j), (kind, i, j + 1), 0))
        for i in range(len(stages)):
            for j in range(self.count):
                self.before += [(("F", i, j), ("B", i, j), 0), (("B", i, j), ("W", i, j), 0)]
                if i + 1 < len(stages):
                    local = self.place[i] == self.place[i + 1]
                    link = profile["links"][i]
                    self.before += [(("F", i, j), ("F", i + 1, j), 0 if local else link["forward_ms"]),
                                    (("B", i + 1, j), ("B", i, j), 0 if local else link["backward_ms"])]
        for i, limit in enumerate(profile.get("memory", {}).get("max_inflight", [])):
            for j in range(self.count - limit):
                self.before.append(((profile["memory"]["release"], i, j), ("F", i, j + limit), 0))

    def windows(self, horizon):
        """Earliest and latest starts within the horizon."""
        early = dict.fromkeys(self.ops, 0)
        late = {op: horizon - self.time[op] for op in self.ops}
        for _ in self.ops:
            changed = False
            for a, b, lag in self.before:
                if early[a] + self.time[a] + lag > early[b]:
                    early[b], changed = early[a] + self.time[a] + lag, True
                if late[b] - lag - self.time[a] < late[a]:
                    late[a], changed = late[b] - lag - self.time[a], True
            if not changed:
                break
        return early, late


def solve(profile, horizon):
    """(status, makespan, bound) of the best schedule within the horizon; status 0 is optimal, 2 infeasible."""
    import numpy as np
    from scipy.optimize import Bounds, LinearConstraint, milp
    from scipy.sparse import lil_matrix
    model = Model(profile)
    early, late = model.windows(horizon)
    pairs = [(a, b) for n, a in enumerate(model.ops) for b in model.ops[n + 1:]
             if model.place[a[1]] == model.place[b[1]] and a[:2] != b[:2]]
    number = {op: n for n, op in enumerate(model.ops)}
    columns = len(model.ops) + 1 + len(pairs)  # starts, the makespan, "a before b" for each pair
    rows, low = [], []

    def at_least(terms, value):
        rows.append(terms)
        low.append(value)

    for a, b, lag in model.before:
        at_least({number[b]: 1, number[a]: -1}, model.time[a] + lag)
    for op in model.ops:
        at_least({len(model.ops): 1, number[op]: -1}, model.time[op])
    for n, (a, b) in enumerate(pairs):
        choice = len(model.ops) + 1 + n
        m_ab = model.time[a] + late[a] - early[b]  # switches "b after a" off
        m_ba = model.time[b] + late[b] - early[a]
        at_least({number[b]: 1, number[a]: -1, choice: -m_ab}, model.time[a] - m_ab)
        at_least({number[a]: 1, number[b]: -1, choice: m_ba}, model.time[b])
    if any(early[op] > late[op] for op in model.ops):
        return 2, None, None
    matrix = lil_matrix((len(rows), columns))
    for n, terms in enumerate(rows):
        for column, value in terms.items():
            matrix[n, column] = value
    cost = np.zeros(columns)
    cost[len(model.ops)] = 1
    bounds = Bounds([early[op] for op in model.ops] + [0] + [0] * len(pairs),
                    [late[op] for op in model.ops] + [horizon] + [1] * len(pairs))
    integer = np.array([0] * (len(model.ops) + 1) + [1] * len(pairs))
    found = milp(cost, constraints=LinearConstraint(matrix.tocsr(), low, np.inf), bounds=bounds, integrality=integer,
                 options={"time_limit": TIME_LIMIT_S, "mip_rel_gap": 0})
    return found.status, found.fun, found.mip_dual_bound


def plan(detour, profile):
    made = subprocess.run([detour, "sched", "plan", "--profile", "-", "--algo", "exact"], input=json.dumps(profile),
                          capture_output=True, text=True, check=True)
    return json.loads(made.stdout)


def main():
    detour, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40
    rng = random.Random(SEED)
    same = unfinished = 0
    print(f"seed {SEED}, {count} problems", flush=True)
    for n in range(count):
        profile = draw(rng)
        made = plan(detour, profile)
        # The horizon is what exact claims to be optimal: a smaller optimum is found, a larger one is infeasible.
        status, makespan, bound = solve(profile, made["makespan_ms"])
        where = f"problem {n}: {json.dumps(profile)}"
        if not made["proven_optimal"]:
            sys.exit(f"exact has not proved its schedule: {made['lower_bound_ms']}..{made['makespan_ms']} ms, {where}")
        if status == 0 and abs(makespan - made["makespan_ms"]) < 1e-4:
            same += 1
        elif status == 1:
            unfinished += 1
            if bound is not None and bound > made["makespan_ms"] + 1e-4:
                sys.exit(f"HiGHS proves more than {bound} ms, exact has {made['makespan_ms']} ms, {where}")
        else:
            sys.exit(f"HiGHS: status {status}, {makespan} ms; exact: {made['makespan_ms']} ms, {where}")
    print(f"{same} optima agree, {unfinished} not finished by HiGHS within {TIME_LIMIT_S} s")
    if same < count * 3 // 4:
        sys.exit("too few problems were finished for this test to mean anything")


if __name__ == "__main__":
    find_scipy()
    main()
