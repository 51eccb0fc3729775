# SPDX-License-Identifier: Apache-2.0
"""How the ranks of a job change the schedule together: the table of pipeline/agreement.h in Python.

Each rank has one Agreement. Between two steps of the training every rank gives a Part, gets the parts of all ranks, and
passes them to round(): all ranks decide on the same parts, and so they all adopt a schedule before the same step or all
discard it. A proposal that a rank has not confirmed when its step begins, or that two ranks confirmed with different
digests, is discarded. Pure: no clock, no communication. tests/pipeline/agreement_python_test.py compares every decision
with those of the C code.
"""
import typing

__all__ = ["ADOPT", "DISCARD", "KEEP", "PREPARE", "Agreement", "Part"]

KEEP, PREPARE, ADOPT, DISCARD = range(4)  # actions, numbered as enum dt_agreement_action
IDLE, PROPOSED, AGREED = range(3)  # states, numbered as enum dt_agreement_state
_NOTHING, _PROPOSAL, _MISSING, _CONFIRMED, _DUE, _FAILED = range(6)  # what the parts of a round mean

_TABLE = {  # state: the next state and the action for each of the events above
    IDLE: [(IDLE, KEEP), (PROPOSED, PREPARE), (IDLE, KEEP), (IDLE, KEEP), (IDLE, KEEP), (IDLE, KEEP)],
    PROPOSED: [(IDLE, DISCARD), (PROPOSED, PREPARE), (PROPOSED, KEEP), (AGREED, KEEP), (IDLE, ADOPT), (IDLE, DISCARD)],
    AGREED: [(AGREED, KEEP), (AGREED, KEEP), (AGREED, KEEP), (AGREED, KEEP), (IDLE, ADOPT), (IDLE, DISCARD)],
}


class Part(typing.NamedTuple):
    """A rank's contribution to a round. Zeros: nothing is proposed or confirmed."""
    number: int = 0  # of the proposal; counted from 1
    step: int = 0  # before which it is to be adopted
    digest: int = 0  # of the prepared schedule, not 0; 0: not prepared


class Agreement:
    """One rank's view. `own` is its part for the next round, `adopted` the number of the schedule in use."""

    def __init__(self):
        self.state, self.own, self.adopted, self.last = IDLE, Part(), 0, 0

    def propose(self, step):
        """Rank 0: puts a proposal into the next round. Returns its number; 0: one is pending."""
        if self.own.number:
            return 0
        self.own = Part(self.last + 1, step)
        return self.own.number

    def prepared(self, digest):
        """The schedule of the pending proposal is prepared. No effect unless one is pending."""
        if self.state == PROPOSED:
            self.own = self.own._replace(digest=digest)

    def _event(self, parts, next_step):
        proposal = parts[0]
        if not proposal.number:
            return _NOTHING
        if proposal.number > self.last:
            return _PROPOSAL if proposal.step > next_step else _FAILED
        digests = [part.digest for part in parts if part.number == proposal.number and part.digest]
        complete = len(digests) == len(parts)
        if len(set(digests)) > 1 or next_step > proposal.step or (not complete and next_step == proposal.step):
            return _FAILED
        if not complete:
            return _MISSING
        return _DUE if next_step == proposal.step else _CONFIRMED

    def round(self, parts, next_step):
        """The action after the round before step `next_step`, in which the ranks gave these parts, by rank."""
        event = self._event(parts, next_step)
        self.state, action = _TABLE[self.state][event]
        if event == _PROPOSAL and action == PREPARE:
            self.own = Part(parts[0].number, parts[0].step)
        self.last = max(self.last, parts[0].number)
        if action == ADOPT:
            self.adopted = self.own.number
        if self.state == IDLE:
            self.own = Part()
        return action
