#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A remedy for a job, from a slow link to the remedy's end: `detour control --cluster` beside `detour pipeline`.

Four ranks on software RNICs are two replicas of two stages, each with a runtime directory of its own as if it had a host of
its own; one `detour control` is controller and agents. Before a remedy it holds all messages and starts `detour perf --pairs`
(this script with --measure). Then:

    the messages of the job between the stages of replica 1 take longer, those of other processes do not: the validation
    refutes the finding, and no remedy is taken
    the link is slow for all processes: `detour inject` on both of its hosts, and for the processes of the validation
    the controller names it, and S2 is due when waiting has cost as much; the validation confirms it
    all ranks take fewer microbatches of replica 1, before one iteration
    the link is healthy again: the controller finds it so, and takes the remedy back

With --step S3 the job's file states a cost for the exchange of ranks that is soon reached, and the first part is left out. S2
is taken, and the iterations stay longer than with a healthy link, so that S3 is due: the ranks exchange their positions, with
their parameters, and the slow link has no traffic. The exchange stays when the link is healthy again: to undo it costs a
pause, and an iteration is as short with it as without. Then a link becomes slow that joins two stages only since the exchange:
the schedule is planned anew for it, and the ranks change to that schedule where they are now. At the end all parameters are
compared with those of a run without remedies.

With --step S4 the job's file states a restart as the only remedy that pays, and nothing is validated. The ranks are started by
the loop of docs/pipeline.md: the controller finds the slow link and decides S4, the job ends with a checkpoint and exit code
75, and the loop starts it again, now with a healthy link. It continues from the checkpoint and ends with 0, and its parameters
are those of a run without remedies.

Facts decide about the exit code: the link is named, refuted and confirmed, S2 gives replica 1 fewer microbatches, the ranks
have it in force, it is taken back after the recovery, every message and every sum of gradients is the expected one. Times
decide nothing.

usage: remedy_loop.py BUILD [--iterations N] [--step S3|S4]"""
import argparse
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys

from control_loop import HANG_S, Run, carry_out, free_port

DELAY_MS = 40
SLOW_FACTOR = 3  # of a validation: software RNICs on a busy machine
STAGE_MS = 12  # --times 4,4,4
JOB = {"version": 1, "name": "remedy-loop", "replicas": 2, "stages": 2, "microbatches": 8, "stage_ms": [STAGE_MS, STAGE_MS],
       "message_bytes": 65536, "gradient_bytes": 65536, "bytes_per_s": 0, "latency_ms": 0.1,
       "costs_ms": {"S1": 500, "S2": 500, "S3": 600000, "S4": 1200000}}


JOB_WORDS = ["--devices", "2", "--dp", "2", "--microbatches", "4", "--gradients", "64K"]
EXCHANGE_MS = 2500  # of JOB with --step S3


class RemedyRun(Run):
    slow = (2, 3)
    measures = "none"

    # ---- Set-up. ----
    def job(self):
        return JOB

    def rank_words(self):
        return []

    def start_all(self):
        for host in self.hosts:
            (self.folder / host).mkdir(mode=0o700)
        (self.folder / "job.json").write_text(json.dumps(self.job()))
        words = ["control", "--json", "--do", self.measures, "--cluster", str(self.folder / "job.json"), "--validate",
                 shlex.join([sys.executable, __file__, str(self.build), "--measure", str(self.folder)])]
        for host in self.hosts:
            words += ["--host", f"{host}={self.folder / host}"]
        self.controllers = [self.start(words, "control")]
        self.agents = []
        rendezvous = f"127.0.0.1:{free_port()}"
        self.ranks = []
        more_words = self.rank_words()
        for rank, host in enumerate(self.hosts):
            words = ["pipeline", *JOB_WORDS, "--times", "4,4,4", "--adapt", "control", "-n", str(self.options.iterations),
                     "--timeout", "120", "--rank", str(rank), "--rendezvous", rendezvous, *more_words]
            if rank == 0:
                words += ["--json", str(self.folder / "pipeline.json")]
            self.ranks.append(self.start(words, f"rank{rank}", host))

    def inject(self, is_slow, for_all=True, link=None):
        """The link is slow in both directions, for the job or for all processes."""
        link = link or self.slow
        if is_slow and for_all:
            (self.folder / "slow").touch()
        else:
            (self.folder / "slow").unlink(missing_ok=True)
        for own, other in (link, link[::-1]):
            peer = f"peer={socket.gethostname()}:{self.ranks[other].child.pid}"
            words = ["add", peer, f"latency={DELAY_MS}ms"] if is_slow else ["clear"]
            subprocess.run([self.detour, "inject", *words], check=True, stdout=subprocess.DEVNULL,
                           env=dict(os.environ, DETOUR_RUNTIME_DIR=str(self.folder / self.hosts[own])))
        self.note(f"the link {link[0]}-{link[1]} is {'%d ms slow' % DELAY_MS if is_slow else 'healthy'}"
                  f"{'' if for_all else ' for the job only'}")

    def checkpoints(self, name):
        """One at the end: of each position, the parameters with all sums of gradients."""
        (self.folder / name).mkdir()
        return ["--checkpoint", str(self.folder / name), "--every", str(self.options.iterations)]

    # ---- What is seen. ----
    def remedies(self):
        return [one for _, one in self.records("decision") if one["kind"] == "remedy"]

    def validations(self, result):
        """Those of the link: "confirmed" or "refuted"."""
        return [one for _, one in self.records("finding") if one["kind"] == "validation" and
                one["reason"].startswith(f"{result}: link ") and {one["from_rank"], one["to_rank"]} == set(self.slow)]

    def confirmed(self):
        """Validations of anything: a busy machine may have a slow rank."""
        return [one for _, one in self.records("finding") if one["reason"].startswith("confirmed: ")]

    def right_remedies(self):
        """For the slow link: the other replica gets microbatches of its replica."""
        return [one for one in self.remedies() if one["step"] == 1 and one["microbatches"][1] < one["microbatches"][0]]

    def remedy_in_force(self):
        """Of the last iteration, as rank 0 prints it."""
        lines = [line for _, line in list(self.ranks[0].lines) if line[:1] == " " and line.split()[0].isdigit()]
        return lines[-1].partition("remedy ")[2].split()[:1] if lines else []

    def compare_parameters(self):
        """Those of the folder "job" with a run's without remedies and slow links."""
        plain = self.start(["pipeline", *JOB_WORDS, "--times", "0.1,0.1,0.1", "-n", str(self.options.iterations),
                            *self.checkpoints("plain")], "plain")
        self.check("a run without remedies ends well", plain.child.wait(timeout=HANG_S) == 0)
        names = [f"checkpoint-{position}.{self.options.iterations}" for position in range(len(self.hosts))]
        self.check("the sums of the gradients are those of a run without remedies", all(
            (self.folder / "job" / name).read_bytes() == (self.folder / "plain" / name).read_bytes() for name in names))

    # ---- The story. ----
    def story(self):
        if not self.wait("the pipeline runs", lambda: len(self.iterations()) > 0) or not self.wait_iterations(60):
            return
        self.inject(True, for_all=False)
        if not self.wait("the validation refutes the slow link", lambda: self.validations("refuted")):
            return
        self.inject(False)
        if not self.wait("the controller finds the link healthy", lambda: self.link_findings(1)):
            return
        self.check("nothing is done about a refuted finding", not self.right_remedies() or self.confirmed())
        found = len(self.link_findings(0))
        self.inject(True)
        if not self.wait("the controller names the link again", lambda: len(self.link_findings(0)) > found):
            return
        if not self.wait("the validation confirms the slow link", lambda: self.validations("confirmed")):
            return
        if not self.wait("the controller decides for fewer microbatches of replica 1", self.right_remedies):
            return
        if not self.wait("all ranks have the remedy", lambda: self.remedy_in_force() == ["S2"]):
            return
        self.wait_iterations(5)
        self.inject(False)
        before = len(self.remedies())
        if not self.wait("the controller takes the remedy back", lambda: any(
                one["step"] == 0 for one in self.remedies()[before:])):
            return
        self.wait("all ranks are without it", lambda: self.remedy_in_force() == [])

    # ---- The facts. ----
    def report(self):
        rows = json.loads((self.folder / "pipeline.json").read_text())["iterations"]
        remedies = self.remedies()
        self.check("the link is confirmed before its remedy",
                   self.validations("confirmed")[0]["time_ns"] <= self.right_remedies()[0]["time_ns"])
        holds = [one["kind"] for _, one in self.records("decision") if one["kind"] in ("hold", "release")]
        self.check(f"each hold is released: {holds}", holds == ["hold", "release"] * (len(holds) // 2))
        self.check("the remedy keeps all microbatches", all(sum(one["microbatches"]) == JOB["microbatches"]
                                                            for one in remedies))
        self.check("iterations had the remedy", any(row["remedy"] == "S2" for row in rows))
        self.check("no remedy is in force at the end", rows[-1]["remedy"] in (None, "S1"))
        self.check(f"all {self.options.iterations} iterations are there", len(rows) == self.options.iterations)
        held = [(one["time_ns"], one["kind"]) for _, one in self.records("decision") if one["kind"] in ("hold", "release")]
        seconds = [(held[i + 1][0] - held[i][0]) / 1e9 for i in range(0, len(held) - 1, 2)]
        print(f"validations held the messages for {', '.join(f'{one:.2f}' for one in seconds)} s")
        wrong = len([one for one in remedies if one["step"] > 0]) - len(self.right_remedies())
        print(f"{len(remedies)} decisions about remedies, {wrong} of them for something else than the link")


class ExchangeRun(RemedyRun):
    """S2 does not suffice, and S3 is due; the schedule is planned for the links that the job has then."""
    measures = "migrate,replan"

    def job(self):
        return {**JOB, "costs_ms": {**JOB["costs_ms"], "S3": EXCHANGE_MS}}

    def rank_words(self):
        return self.checkpoints("job")

    def exchanges(self):
        """Those after which the slow link joins no two neighbours of two replicas of two stages."""
        return [one for one in self.remedies() if one["step"] == 2 and not any(
            {one["nodes"][a], one["nodes"][b]} == set(self.slow) for a, b in ((0, 1), (2, 3), (0, 2), (1, 3)))]

    def story(self):
        if not self.wait("the pipeline runs", lambda: len(self.iterations()) > 0) or not self.wait_iterations(40):
            return
        self.inject(True)
        if not self.wait("the controller decides for fewer microbatches of replica 1", self.right_remedies):
            return
        if not self.wait("S2 does not suffice: ranks exchange their positions", self.exchanges):
            return
        if not self.wait("all ranks have the remedy", lambda: self.remedy_in_force() == ["S3"]):
            return
        self.wait_iterations(5)
        self.inject(False)
        if self.wait_iterations(40):
            self.replan()

    def replans(self, link):
        """Since S3."""
        return [one for _, one in self.records("decision") if one["kind"] == "replan" and
                one["number"] > self.exchanges()[0]["number"] and
                any({each["from"], each["to"]} == set(link) for each in one["links"])]

    def replan(self):
        """A link between two stages of a replica that were stages of two replicas before, slow for the job."""
        nodes, schedule = self.exchanges()[-1]["nodes"], self.iterations()[-1][1]
        self.recovered = self.remedies()[-1]["number"]
        self.new_link = next(pair for pair in (tuple(nodes[:2]), tuple(nodes[2:])) if set(pair) not in ({0, 1}, {2, 3}))
        self.inject(True, for_all=False, link=self.new_link)
        if not self.wait("the controller plans a schedule for it", lambda: self.replans(self.new_link)):
            return
        if not self.wait("all ranks have another schedule", lambda: self.iterations()[-1][1] != schedule):
            return
        self.wait_iterations(5)
        self.inject(False, link=self.new_link)

    def report(self):
        rows = json.loads((self.folder / "pipeline.json").read_text())["iterations"]
        self.check("the link is confirmed before its remedy",
                   self.validations("confirmed")[0]["time_ns"] <= self.right_remedies()[0]["time_ns"])
        exchange = self.exchanges()[0]
        self.check("the exchange stays after the recovery", all(
            one["nodes"] == exchange["nodes"] for one in self.remedies()
            if exchange["number"] < one["number"] <= self.recovered))
        self.check("S2 is before S3", self.right_remedies()[0]["time_ns"] < self.exchanges()[0]["time_ns"])
        self.check(f"all {self.options.iterations} iterations are there", len(rows) == self.options.iterations)
        numbers = [row["schedule"] for row in rows if row["remedy"] == "S3"]
        self.check(f"the schedule changes while the exchange is in force: {sorted(set(numbers))}", len(set(numbers)) > 1)
        print("pauses:", ", ".join(f"{row['pause_ms']:.0f} ms ({row['remedy']})" for row in rows if row["pause_ms"]))
        self.compare_parameters()


# The loop of docs/pipeline.md for ranks with a runtime directory each, whose exit code is that of rank 0 as with a launcher. A
# restart is on healthy nodes: it leaves out the two words that make the link slow. Each run has a file of results.
RESTART_LOOP = """detour=$1 folder=$2 slow="$3 $4" run=1
shift 4
run_ranks() {
    DETOUR_RUNTIME_DIR=$folder/b "$detour" "$@" --rank 1 $slow &
    DETOUR_RUNTIME_DIR=$folder/c "$detour" "$@" --rank 2 $slow &
    DETOUR_RUNTIME_DIR=$folder/d "$detour" "$@" --rank 3 $slow &
    DETOUR_RUNTIME_DIR=$folder/a "$detour" "$@" --rank 0 --json "$folder/results.$run" $slow
    code=$?
    wait
    echo "exit code $code"
    return $code
}
while run_ranks "$@"; [ $? -eq 75 ]; do
    slow= run=$((run + 1))
done
exit $code
"""
RESTART_MS = 1500  # of JOB with --step S4
SLOW_FROM = 60  # iterations: the healthy times are known then


class RestartRun(RemedyRun):
    """The ranks are started together, and again after S4."""

    def job(self):
        never = {step: 10 ** 9 for step in ("S1", "S2", "S3")}
        return {**JOB, "costs_ms": {**never, "S4": RESTART_MS}}

    def start_all(self):
        for host in self.hosts:
            (self.folder / host).mkdir(mode=0o700)
        (self.folder / "job.json").write_text(json.dumps(self.job()))
        words = ["control", "--json", "--do", self.measures, "--cluster", str(self.folder / "job.json")]
        for host in self.hosts:
            words += ["--host", f"{host}={self.folder / host}"]
        self.controllers = [self.start(words, "control")]
        self.agents = []
        self.ranks = [self.start([str(self.folder), "--slow-link", f"0@1-1@1={DELAY_MS}ms,from={SLOW_FROM}", "pipeline",
                                  *JOB_WORDS, "--times", "4,4,4", "--adapt", "control", "-n", str(self.options.iterations),
                                  "--timeout", "120", "--rendezvous", f"127.0.0.1:{free_port()}", "--resume",
                                  *self.checkpoints("job")], "ranks", shell=RESTART_LOOP)]

    def clean_up(self):
        for process in getattr(self, "ranks", []):
            if process.child.poll() is None:
                os.killpg(process.child.pid, signal.SIGKILL)
        super().clean_up()

    def restarts(self):
        return [one for one in self.remedies() if one["step"] == 3]

    def exit_codes(self):
        return [int(line.split()[-1]) for _, line in list(self.ranks[0].lines) if line.startswith("exit code ")]

    def story(self):
        if not self.wait("the pipeline runs", lambda: len(self.iterations()) > 0):
            return
        if not self.wait("the controller names the slow link", lambda: self.link_findings(0)):
            return
        if not self.wait("the controller decides for a restart", self.restarts):
            return
        if not self.wait("the job ends for a restart", self.exit_codes):
            return
        ended = len(self.iterations())
        self.wait("the job runs again", lambda: len(self.iterations()) > ended)

    def report(self):
        codes = self.exit_codes()
        self.check(f"the job ends for one restart and then for good: {codes}", codes == [75, 0])
        first, second = (json.loads((self.folder / f"results.{run}").read_text())["iterations"] for run in (1, 2))
        self.check("the last iteration of the first run has S4", first[-1]["remedy"] == "S4")
        self.check("the first run ends with a checkpoint", first[-1]["checkpoint"] == "early")
        numbers = [row["iteration"] for row in first + second]
        self.check(f"the second run continues from that checkpoint, at iteration {second[0]['iteration']}",
                   numbers == list(range(self.options.iterations)))
        self.check("no other remedy is decided", all(one["step"] in (0, 3) for one in self.remedies()))
        print(f"S4 after iteration {first[-1]['iteration']}, {len(self.restarts())} decision")
        self.compare_parameters()


def measure(build, folder):
    """The validation: a process for each rank. The link is slow in them as it is in the job, if it is for all."""
    words = [str(build / "bin/detour"), "perf", "--pairs", os.environ["DETOUR_VALIDATION_PAIRS"], "--ranks",
             os.environ["DETOUR_VALIDATION_RANKS"], "-b", "64K", "-n", "5", "--slow", str(SLOW_FACTOR), "--rendezvous",
             f"127.0.0.1:{free_port()}"]
    ranks = []
    for rank in range(int(os.environ["DETOUR_VALIDATION_RANKS"])):
        environment = dict(os.environ)
        if rank == max(RemedyRun.slow) and (folder / "slow").exists():
            peer = ranks[min(RemedyRun.slow)].pid
            environment["DETOUR_INJECT"] = f"peer={socket.gethostname()}:{peer} latency={DELAY_MS}ms"
        output = ["-J", os.environ["DETOUR_VALIDATION_JSON"]] if rank == 0 else []
        ranks.append(subprocess.Popen([*words, "--rank", str(rank), *output], env=environment))
    return max(rank.wait() for rank in ranks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--iterations", type=int, help="default: 600, with --step S3 400, with S4 140")
    parser.add_argument("--step", choices=["S2", "S3", "S4"], default="S2", help="the last step of the ladder")
    parser.add_argument("--measure", type=pathlib.Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        return measure(pathlib.Path(options.build), options.measure)
    run_class, iterations = {"S2": (RemedyRun, 600), "S3": (ExchangeRun, 400), "S4": (RestartRun, 140)}[options.step]
    options.iterations = options.iterations or iterations
    run = run_class(options)
    return carry_out("remedy_loop", run, run.report)


if __name__ == "__main__":
    sys.exit(main())
