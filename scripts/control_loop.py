#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The control loop of a job on four hosts, from a slow link to a new schedule and back.

A host is a name and a runtime directory of its own; all are on this machine. Each runs one rank of `detour pipeline
--adapt control` on software RNICs and one `detour agent`; a `detour control` decides and a second one waits; they share
a redis-server with a password, for a user that may reach the keys of the job only. Then:

    the link from rank 2 to rank 3 becomes slow: `detour inject` on host c
    the controller names it, and all ranks change to another schedule at the same iteration
    all messages are held for a moment: `detour control hold` and `release`
    Redis is killed; a while later it starts again         (--redis stop: it is stopped, which no client sees at once)
    the link is healthy again: the schedule of the beginning returns

What is printed at the end are facts, and each decides about the exit code: both ends of the link are named, the schedule
changes once there and once back on all ranks (each iteration of `detour pipeline` compares them), every message has its
content (that, too), every host has executed every decision exactly once. Times are measured and decide nothing.

usage: control_loop.py BUILD [--redis keep|kill|stop] [--svg FILE] [--json FILE] [--iterations N]"""
import argparse
import json
import os
import pathlib
import secrets
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

HOSTS = "abcd"
SLOW = (2, 3)
DELAY_MS = 25
JOB = "loop"
PASSWORD = "a-password-for-one-run"
ALLOWED = ["~detour:{%s}:*" % JOB, "+eval", "+xadd", "+xread", "+hset", "+hget", "+get", "+set", "+del", "+incr", "+time",
           "+expire", "+pexpire"]
HANG_S = 120  # without any progress


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Process:
    """A child and the lines of its standard output with the time of their arrival."""

    def __init__(self, words, log, **more):
        self.lines = []
        self.log = log
        with open(log, "ab") as errors:
            self.child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors, text=True, **more)
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.child.stdout:
            self.lines.append((time.time(), line.rstrip("\n")))

    def end(self, number=signal.SIGTERM):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
            self.child.send_signal(number)
        code = self.child.wait(timeout=HANG_S)
        self.reader.join()
        return code


class Redis:
    """A redis-server that keeps its data over a kill."""

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.start()

    def start(self):
        # With "user default off", Redis 7.0 refuses the transactions in its own file when it starts again, and goes on
        # without them. A password that is not known protects as well.
        rules = " ".join(["detour", "on", ">" + PASSWORD, *ALLOWED])
        (self.folder / "redis.conf").write_text(
            f"bind 127.0.0.1\nport {self.port}\ndir {self.folder}\nsave \"\"\nappendonly yes\nappendfsync always\n"
            f"user default on >{secrets.token_hex(16)} ~* +@all\nuser {rules}\n")
        self.process = Process(["redis-server", str(self.folder / "redis.conf")], self.folder / "redis.log")

    def url(self):
        return f"redis://detour:{PASSWORD}@127.0.0.1:{self.port}"


class Run:
    hosts = HOSTS
    slow = SLOW

    def __init__(self, options):
        self.options = options
        self.build = pathlib.Path(options.build).resolve()
        self.detour = str(self.build / "bin/detour")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="detour-loop-"))
        self.processes = []
        self.events = []  # (time, text)
        self.failures = []
        self.shown = {}

    # ---- Set-up. ----
    def start(self, words, name, host=None, shell=None):
        """The command, or with `shell` a shell script whose parameters are the command's words, in a session of its own."""
        environment = dict(os.environ, DETOUR_VERBS="soft", DETOUR_SOCKET_IFNAME="=lo")
        if host:
            environment["DETOUR_RUNTIME_DIR"] = str(self.folder / host)
        command = ["sh", "-c", shell, "sh"] if shell else []
        process = Process([*command, self.detour, *words], self.folder / f"{name}.err", env=environment,
                          start_new_session=bool(shell))
        self.processes.append(process)
        return process

    def start_all(self):
        for host in HOSTS:
            (self.folder / host).mkdir(mode=0o700)
        self.redis = Redis(self.folder)
        store = ["--redis", self.redis.url(), "--job", JOB]
        self.control_ports = [free_port() for _ in range(2)]
        self.controllers = [self.start(["control", *store, "--json", "--listen", str(port)], f"control{i}")
                            for i, port in enumerate(self.control_ports)]
        self.ports = [free_port() for _ in HOSTS]
        self.agents = [self.start(["agent", *store, "--host", host, "--listen", str(port), "--textfile",
                                   str(self.folder / f"{host}.prom")], f"agent-{host}", host)
                       for host, port in zip(HOSTS, self.ports)]
        rendezvous = f"127.0.0.1:{free_port()}"
        self.ranks = []
        for rank, host in enumerate(HOSTS):
            words = ["pipeline", "--devices", "4", "--microbatches", "8", "--times", "4,4,4", "--adapt", "control",
                     "-n", str(self.options.iterations), "--timeout", "120", "--rank", str(rank), "--rendezvous", rendezvous]
            if rank == 0:
                words += ["--json", str(self.folder / "pipeline.json")]
            self.ranks.append(self.start(words, f"rank{rank}", host))

    # ---- What is seen. ----
    def iterations(self):
        """(time, schedule) of each iteration so far, from rank 0's lines."""
        rows = [(when, line.split()) for when, line in list(self.ranks[0].lines) if line[:1] == " "]
        return [(when, int(words[6])) for when, words in rows if len(words) > 6 and words[0].isdigit()]

    def records(self, kind):
        found = []
        for controller in self.controllers:
            for when, line in list(controller.lines):
                if line.startswith("{"):
                    record = json.loads(line)
                    if record["type"] == kind:
                        found.append((when, record))
        return sorted(found, key=lambda one: one[0])

    def link_findings(self, ended):
        return [(when, one) for when, one in self.records("finding") if one["kind"] == "link" and one["ended"] == ended and
                {one["from_rank"], one["to_rank"]} == set(self.slow)]

    def wait(self, what, condition):
        """Until the condition is true; a job without progress, and one that has ended, end the wait."""
        seen, since = -1, time.monotonic()
        while not condition():
            self.show_records()
            if len(self.iterations()) != seen:
                seen, since = len(self.iterations()), time.monotonic()
            if self.ranks[0].child.poll() is not None or time.monotonic() > since + HANG_S:
                self.failures.append(f"waited in vain: {what}")
                return False
            time.sleep(0.02)
        self.show_records()
        self.note(what)
        return True

    def show_records(self):
        """What has been found and decided since the last call. Both controllers judge: the same within two seconds is
        shown once."""
        for kind in ("finding", "decision"):
            records = self.records(kind)
            for when, one in records[self.shown.get(kind, 0):]:
                what = f"{one['number']}, fencing number {one['fence']}: {one['kind']}" if kind == "decision" else one["kind"] + (f" of host {one['from_host']}" if one["kind"] == "processor" else
                                      f" {one['from_rank']} to {one['to_rank']}")
                key = (what, one.get("ended"))
                if when > self.shown.get(key, 0) + 2:
                    print(f"    {kind}: {what}{' ended' if one.get('ended') else ''}: {one['reason']}", flush=True)
                self.shown[key] = when
            self.shown[kind] = len(records)

    def wait_iterations(self, count):
        until = len(self.iterations()) + count
        return self.wait(f"{count} more iterations", lambda: len(self.iterations()) >= until)

    def note(self, text):
        self.events.append((time.time(), text))
        print(f"{time.strftime('%H:%M:%S')} iteration {len(self.iterations()):4}: {text}", flush=True)

    # ---- The story. ----
    def inject(self, is_slow):
        peer = self.ranks[SLOW[1]].child.pid
        words = ["add", f"peer={socket.gethostname()}:{peer}", f"latency={DELAY_MS}ms"] if is_slow else ["clear"]
        subprocess.run([self.detour, "inject", *words], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, DETOUR_RUNTIME_DIR=str(self.folder / HOSTS[SLOW[0]])))
        self.note(f"detour inject {' '.join(words)} on host {HOSTS[SLOW[0]]}")
        return time.time()

    def disturb_redis(self):
        if self.options.redis == "keep":
            return
        if self.options.redis == "kill":
            self.redis.process.end(signal.SIGKILL)
        else:
            self.redis.process.child.send_signal(signal.SIGSTOP)
        self.note(f"redis-server: {self.options.redis}")
        self.wait_iterations(40)
        if self.options.redis == "kill":
            self.redis.start()
        else:
            self.redis.process.child.send_signal(signal.SIGCONT)
        self.note("redis-server answers again")

    def has_job_metrics(self):
        """One of the controllers has the lease; the link was found, planned for, and planned for again when it was healthy."""
        texts = []
        for port in self.control_ports:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANG_S) as answer:
                texts.append(answer.read().decode())
        samples = {}
        for line in "".join(texts).splitlines():
            name, _, value = line.rpartition(" ")
            if not line.startswith("#"):
                samples.setdefault(name, []).append(float(value))

        def of(metric, more=""):
            return samples.get(f'detour_job_{metric}{{job="{JOB}"{more}}}', [])
        return (sorted(of("has_lease")) == [0, 1] and of("hosts") == [len(HOSTS)] * 2 and len(of("iteration_seconds")) == 2 and
                sum(of("findings_total", ',kind="link"')) >= 1 and sum(of("decisions_total", ',kind="replan"')) >= 2 and
                len(of("in_force", ',kind="replan"')) == 1)

    def has_metrics(self):
        """Each agent answers Prometheus and has written its file, both with the links of its host's process."""
        for host, port in zip(HOSTS, self.ports):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=HANG_S) as answer:
                text = answer.read().decode()
            path = self.folder / f"{host}.prom"
            for metrics in (text, path.read_text() if path.exists() else ""):
                if f'job="{JOB}"' not in metrics or "detour_is_slow{" not in metrics:
                    return False
        return True

    def hold(self):
        """Holds the messages of all hosts and releases them; both commands wait for every host."""
        store = ["--redis", self.redis.url(), "--job", JOB, "--timeout", str(HANG_S)]
        for words in (["hold", "--for", "60s"], ["release"]):
            done = subprocess.run([self.detour, "control", *words, *store], stdout=subprocess.PIPE, text=True)
            self.check(f"detour control {words[0]} has reached every host: {done.stdout}",
                       done.returncode == 0 and len(done.stdout.splitlines()) == len(HOSTS))
            self.note(f"detour control {words[0]}")

    def schedules(self):
        """The schedule of each iteration, without repetitions."""
        numbers = [number for _, number in self.iterations()]
        return [number for i, number in enumerate(numbers) if i == 0 or number != numbers[i - 1]]

    def story(self):
        if not self.wait("the pipeline runs", lambda: len(self.iterations()) > 0) or not self.wait_iterations(60):
            return
        self.slow_time = self.inject(True)
        if not self.wait("the controller names the link", lambda: self.link_findings(0)):
            return
        self.named_time = self.link_findings(0)[0][0]
        if not self.wait("all ranks have another schedule", lambda: len(self.schedules()) > 1):
            return
        self.wait_iterations(20)
        self.hold()
        self.disturb_redis()
        self.wait_iterations(20)
        self.healthy_time = self.inject(False)
        self.wait("the controller finds the link healthy", lambda: any(
            when > self.healthy_time for when, _ in self.link_findings(1)))
        self.wait("the controller decides for the schedule of the beginning", self.planned_again)
        decided, schedule = len(self.iterations()), self.schedules()[-1]
        self.wait("every agent has the metrics of its host", self.has_metrics)
        self.wait("the controllers have the metrics of the job", self.has_job_metrics)
        self.wait("all ranks have it", lambda: self.schedules()[-1] > schedule or len(self.iterations()) > decided + 60)

    def planned_again(self):
        return any(when > self.healthy_time and one["kind"] == "replan" and not one["links"]
                   for when, one in self.records("decision"))

    def finish(self):
        codes = [rank.child.wait(timeout=HANG_S * 4) for rank in self.ranks]
        self.check(f"the ranks have ended with exit codes {codes}", codes == [0] * len(codes))
        text = "\n".join(line for _, line in self.ranks[0].lines)
        self.show_records()
        self.check("every message had the expected identity and content",
                   "every message had the expected identity and content" in text)
        time.sleep(1)  # an agent's last round
        for process in self.agents + self.controllers:
            self.check(f"{pathlib.Path(process.log).stem} ends when it is asked to", process.end() == 0)

    # ---- The facts. ----
    def check(self, text, is_true):
        if not is_true:
            self.failures.append(text)

    def read_stream(self, name):
        """A stream of the job as Redis has it now."""
        out = subprocess.run(["redis-cli", "-p", str(self.redis.port), "--user", "detour", "--pass", PASSWORD,
                              "--no-auth-warning", "--json", "XREAD", "STREAMS", "detour:{%s}:stream:%s" % (JOB, name), "0"],
                             check=True, stdout=subprocess.PIPE, text=True).stdout
        streams = json.loads(out) or {}
        entries = list(streams.values())[0] if streams else []
        return [json.loads(fields[1]) for _, fields in entries]

    def check_facts(self):
        slow = [one for _, one in self.link_findings(0)]
        self.check("the finding names the hosts of both ends", slow and all(
            (one["from_host"], one["to_host"]) == (HOSTS[one["from_rank"]], HOSTS[one["to_rank"]]) for one in slow))
        others = [one for _, one in self.records("finding") if one["kind"] in ("link", "NIC") and
                  {one["from_rank"], one["to_rank"]} != set(SLOW)]
        records = self.read_stream("decisions")
        decisions = {one["number"]: one for one in records}
        self.check("Redis has the decisions that the controllers have made", {one["number"] for _, one in
                                                                              self.records("decision")} == set(decisions))
        self.check("each number is one decision", all(one == decisions[one["number"]] for one in records))
        plans = [decisions[number] for number in sorted(decisions) if decisions[number]["kind"] == "replan"]
        self.check("the first re-plan is for the slow link, the last one for none",
                   plans and not plans[-1]["links"] and
                   {(one["from"], one["to"]) for one in plans[0]["links"]} <= {SLOW, SLOW[::-1]})
        answers = self.read_stream("acknowledgements")
        for number in decisions:
            for host in HOSTS:
                count = sum(one["number"] == number and one["host"] == host for one in answers)
                self.check(f"host {host} has executed decision {number} once, not {count} times", count == 1)
        self.check("all decisions succeeded", all(one["status"] == 0 for one in answers))
        return others, decisions, answers

    def report(self):
        pipeline = json.loads((self.folder / "pipeline.json").read_text())["iterations"]
        times = [one["time_ms"] for one in pipeline]
        whens = [when for when, _ in self.iterations()]
        others, decisions, answers = self.check_facts()
        self.check("the schedule has changed for the slow link and back", len(set(one["schedule"] for one in pipeline)) >= 3)
        if self.failures:
            return None
        changes = [i for i in range(1, len(pipeline)) if pipeline[i]["schedule"] != pipeline[i - 1]["schedule"]]
        first_slow = next(i for i, when in enumerate(whens) if when > self.slow_time) + 1
        first_healthy = next(i for i, when in enumerate(whens) if when > self.healthy_time) + 1
        result = {
            "named_after_s": self.named_time - self.slow_time,
            "decisions": sorted(decisions), "acknowledgements": len(answers), "other_findings": len(others),
            "schedule_changes": changes, "iterations": len(times),
            "before_ms": statistics.median(times[20:first_slow - 1]),
            "slow_ms": statistics.median(times[first_slow:changes[0]]),
            "replanned_ms": statistics.median(times[changes[0]:first_healthy]),
            "after_ms": statistics.median(times[changes[-1]:]),
            "times_ms": times, "schedules": [one["schedule"] for one in pipeline],
            "events": [(sum(when < at for when in whens), text) for at, text in self.events],
        }
        print(f"named after {result['named_after_s']:.2f} s; iterations: before {result['before_ms']:.1f} ms, slow "
              f"{result['slow_ms']:.1f} ms, with the new schedule {result['replanned_ms']:.1f} ms, after "
              f"{result['after_ms']:.1f} ms")
        print(f"schedule changes at the iterations {changes}; {len(decisions)} decisions, {len(answers)} acknowledgements, "
              f"each host once; findings about other links and RNICs: {len(others)}")
        return result

    def clean_up(self):
        for process in self.processes + ([self.redis.process] if hasattr(self, "redis") else []):
            if process.child.poll() is None:
                process.child.kill()
                process.child.wait()
        if self.failures:
            for log in sorted(self.folder.glob("*.err")) + sorted(self.folder.glob("*.log")):
                print(f"--- {log.name}\n{log.read_text()[-3000:]}", file=sys.stderr)
        shutil.rmtree(self.folder)


# ---- The picture. ----
def draw(result, path, title):
    """Iteration time over iterations; bands for schedules, lines for events."""
    left, top, width, height = 60, 60, 860, 300
    times = result["times_ms"]
    high = sorted(times)[len(times) * 95 // 100] * 1.4  # a few longer ones are cut off

    def x(iteration):
        return left + width * iteration / len(times)

    def y(value):
        return top + height * (1 - min(value, high) / high)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 30} {top + height + 60}" '
           'font-family="sans-serif" font-size="12">', '<rect width="100%" height="100%" fill="white"/>',
           f'<text x="{left}" y="20" font-size="14">{title}</text>']
    changes = [0, *result["schedule_changes"], len(times)]
    for i in range(len(changes) - 1):
        number = result["schedules"][changes[i]]
        fill = "#ffffff" if i % 2 == 0 else "#e3edf7"
        out.append(f'<rect x="{x(changes[i]):.1f}" y="{top}" width="{x(changes[i + 1]) - x(changes[i]):.1f}" '
                   f'height="{height}" fill="{fill}"/>')
        out.append(f'<text x="{x(changes[i]) + 4:.1f}" y="{top + height - 6}" fill="#456">schedule {number}</text>')
    step = 10 ** len(str(int(high / 5))) // 10 or 1
    step = next(step * k for k in (1, 2, 5, 10) if high / (step * k) <= 6)
    for value in range(0, int(high) + 1, step):
        out.append(f'<line x1="{left}" x2="{left + width}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>')
        out.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value}</text>')
    for iteration in range(0, len(times) + 1, 50):
        out.append(f'<text x="{x(iteration):.1f}" y="{top + height + 16}" text-anchor="middle">{iteration}</text>')
    shown = [(at, text) for at, text in result["events"] if "iterations" not in text and "runs" not in text]
    for i, (at, text) in enumerate(shown):
        mark = chr(ord("A") + i)
        out.append(f'<line x1="{x(at):.1f}" x2="{x(at):.1f}" y1="{top - 4 - 12 * (i % 2)}" y2="{top + height}" '
                   f'stroke="#b33" stroke-dasharray="3 3"><title>{text}</title></line>')
        out.append(f'<text x="{x(at):.1f}" y="{top - 6 - 12 * (i % 2)}" text-anchor="middle" fill="#b33">{mark}</text>')
    points = " ".join(f"{x(i):.1f},{y(value):.1f}" for i, value in enumerate(times))
    out.append(f'<polyline points="{points}" fill="none" stroke="#235" stroke-width="1.2"/>')
    out.append(f'<text x="{left + width / 2}" y="{top + height + 34}" text-anchor="middle">iteration</text>')
    out.append(f'<text x="14" y="{top + height / 2}" text-anchor="middle" transform="rotate(-90 14 {top + height / 2})">'
               'time of the iteration (ms)</text>')
    legend = top + height + 52
    for i, (_, text) in enumerate(shown):
        out.append(f'<text x="{left}" y="{legend + 16 * i}"><tspan fill="#b33">{chr(ord("A") + i)}</tspan>  {text}</text>')
    out[0] = out[0].replace(f"{top + height + 60}", f"{legend + 16 * len(shown)}")
    path.write_text("\n".join([*out, "</svg>", ""]))


def carry_out(name, run, report):
    """The story of `run`, and report() if it came to its end. Returns the exit code."""
    try:
        run.start_all()
        run.story()
        if not run.failures:
            run.finish()
        if not run.failures:
            report()
        for failure in run.failures:
            print(f"{name}: not so: {failure}", file=sys.stderr)
        return 1 if run.failures else 0
    finally:
        run.clean_up()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build")
    parser.add_argument("--redis", choices=["keep", "kill", "stop"], default="kill")
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--iterations", type=int, default=420)
    options = parser.parse_args()
    if not shutil.which("redis-server") or not shutil.which("redis-cli"):
        print("control_loop: redis-server and redis-cli (Debian: redis-server, redis-tools) are not installed")
        return 77
    run = Run(options)

    def report():
        result = run.report()
        if options.json and result:
            options.json.write_text(json.dumps(result, indent=1))
        if options.svg and result:
            draw(result, options.svg, f"Four ranks; the link {SLOW[0]}-{SLOW[1]} is {DELAY_MS} ms slow from A on; "
                 f"{time.strftime('%Y-%m-%d')}")

    return carry_out("control_loop", run, report)


if __name__ == "__main__":
    sys.exit(main())
