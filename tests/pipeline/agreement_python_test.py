# SPDX-License-Identifier: Apache-2.0
"""python/detour_agreement.py decides as pipeline/agreement.c does, and no rank of a job adopts what another discards.
Usage: agreement_python_test.py CC"""
import ctypes
import pathlib
import random
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))
import detour_agreement  # noqa: E402
from detour_agreement import Agreement, Part  # noqa: E402

SEQUENCES, ROUNDS = 2000, 20


class CPart(ctypes.Structure):
    _fields_ = [("number", ctypes.c_uint32), ("iteration", ctypes.c_uint32), ("digest", ctypes.c_uint64)]


class CAgreement(ctypes.Structure):
    _fields_ = [("state", ctypes.c_int), ("own", CPart), ("adopted", ctypes.c_uint32), ("last", ctypes.c_uint32)]


def fields(agreement):
    own = agreement.own
    return (agreement.state, own.number, own.iteration if isinstance(own, CPart) else own.step, own.digest,
            agreement.adopted, agreement.last)


class SameAsC(unittest.TestCase):
    def step(self, draw, own, theirs, step):
        """One random call on both; returns what both answered."""
        call = draw.random()
        if call < 0.15:
            due = step + draw.randint(0, 3)
            return own.propose(due), library.dt_agreement_propose(ctypes.byref(theirs), ctypes.c_uint32(due))
        if call < 0.4:
            own.prepared(digest := draw.randint(1, 2))
            library.dt_agreement_prepared(ctypes.byref(theirs), ctypes.c_uint64(digest))
            return None, None
        number = draw.choice([0, own.own.number, own.own.number, own.last, own.last + 1])
        parts = [own.own] + [Part(number, step + draw.randint(-1, 2), draw.randint(0, 2)) for _ in range(2)]
        if draw.random() < 0.3:  # another rank's view: rank 0 is not this one
            parts.reverse()
        given = (CPart * len(parts))(*parts)
        return own.round(parts, step), library.dt_agreement_round(ctypes.byref(theirs), given,
                                                                  ctypes.c_size_t(len(parts)), ctypes.c_uint32(step))

    def test_every_decision(self):
        seen = set()
        for seed in range(SEQUENCES):
            draw, own, theirs = random.Random(seed), Agreement(), CAgreement()
            for step in range(1, ROUNDS):
                answer, expected = self.step(draw, own, theirs, step)
                self.assertEqual(answer, expected, f"seed {seed}, step {step}")
                self.assertEqual(fields(own), fields(theirs), f"seed {seed}, step {step}")
                seen.add((own.state, answer))
        self.assertTrue({(detour_agreement.IDLE, detour_agreement.ADOPT), (detour_agreement.IDLE, detour_agreement.DISCARD),
                         (detour_agreement.PROPOSED, detour_agreement.PREPARE)} <= seen)


class Job(unittest.TestCase):
    def test_all_ranks_adopt_the_same_schedule_before_the_same_step(self):
        outcomes = {"adopted": 0, "discarded": 0}
        for seed in range(SEQUENCES):
            draw, ranks = random.Random(seed), [Agreement() for _ in range(4)]
            ranks[0].propose(1 + draw.randint(0, 4))
            for step in range(ROUNDS):
                actions = {rank.round(parts, step) for parts in [[rank.own for rank in ranks]] for rank in ranks}
                self.assertEqual(len(actions), 1, f"seed {seed}, step {step}")
                for rank in ranks:
                    if draw.random() < 0.7:
                        rank.prepared(1 if draw.random() < 0.97 else 2)
            self.assertEqual(len({rank.adopted for rank in ranks}), 1)
            self.assertEqual({rank.state for rank in ranks}, {detour_agreement.IDLE})  # bounded: decided by then
            outcomes["adopted" if ranks[0].adopted else "discarded"] += 1
        self.assertGreater(min(outcomes.values()), SEQUENCES // 20)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        built = pathlib.Path(folder, "agreement.so")
        subprocess.run([sys.argv.pop(1), "-shared", "-fPIC", f"-I{ROOT}", ROOT / "pipeline/agreement.c",
                        ROOT / "base/check.c", "-o", built], check=True)
        library = ctypes.CDLL(str(built))
    unittest.main()
