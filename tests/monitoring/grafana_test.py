# SPDX-License-Identifier: Apache-2.0
"""Debian's promtool accepts the metrics of a running job and of its controller, and evaluates each panel's query of
monitoring/grafana.json on recorded metrics (record.py, record_job.py) to the value that this program computes from them.
Skipped (77) without promtool."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
SKIP = 77
WINDOW_S = 60  # $__rate_interval: four scrapes
LABELS = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')


class Recording:
    def __init__(self, path):
        document = json.loads(path.read_text(encoding="utf-8"))
        self.step_s = document["step_s"]
        self.series = document["series"]
        self.count = len(next(iter(self.series.values())))
        self.parsed = [(name.partition("{")[0], dict(LABELS.findall(name)), values)
                       for name, values in self.series.items()]

    def group(self, metric, by, value, **match):
        """{labels `by`: sum of value(values)} over the series of the metric that have a value."""
        sums = {}
        for name, labels, values in self.parsed:
            if name == metric and all(labels.get(key, "") == text for key, text in match.items()):
                one = value(values)
                if one is not None:
                    key = tuple(labels.get(label, "") for label in by)
                    sums.setdefault(key, []).append(one)
        return sums

    def increase(self, at):
        """Prometheus' increase() over the window that ends at sample `at`: extrapolated to the window's ends, at most
        half a step beyond the first and last sample, and not below zero."""
        def value(values):
            first = at - WINDOW_S // self.step_s
            known = [(i * self.step_s, values[i]) for i in range(max(first, 0), at + 1) if values[i] is not None]
            if len(known) < 2:
                return None
            delta = sum(b - a if b >= a else b for (_, a), (_, b) in zip(known, known[1:]))
            span = known[-1][0] - known[0][0]
            step = span / (len(known) - 1)
            to_start, to_end = known[0][0] - first * self.step_s, (at * self.step_s) - known[-1][0]
            if delta > 0 and known[0][1] >= 0:
                to_start = min(to_start, span * known[0][1] / delta)
            whole = span
            whole += to_start if to_start < step * 1.1 else step / 2
            whole += to_end if to_end < step * 1.1 else step / 2
            return delta * whole / span
        return value

    @staticmethod
    def last(at):
        """The present value; a series that is gone stays for five minutes unless its scrape marks it stale."""
        return lambda values: values[at]


def by_sum(groups):
    return {key: sum(values) for key, values in groups.items()}


def by_max(groups):
    return {key: max(values) for key, values in groups.items()}


def over_time(groups):
    return {key: value / WINDOW_S for key, value in by_sum(groups).items()}


def quantile(buckets, share):
    """histogram_quantile() of {le: rate}."""
    bounds = sorted((float(bound), count) for bound, count in buckets.items())
    rank = share * bounds[-1][1]
    index = next(i for i, (_, count) in enumerate(bounds) if count >= rank)
    if index == len(bounds) - 1:
        return bounds[-2][0]
    low, below = bounds[index - 1] if index else (0, 0)
    return low + (bounds[index][0] - low) * (rank - below) / (bounds[index][1] - below)


def link_means(r, at):
    by = ["host", "from", "to"]
    sums, counts = (by_sum(r.group("detour_service_seconds_" + part, by, r.increase(at))) for part in ("sum", "count"))
    return {key: sums[key] / counts[key] for key in sums if counts[key]}


def p99(r, at):
    groups = by_sum(r.group("detour_service_seconds_bucket", ["host", "le"], r.increase(at)))
    hosts = {host for host, _ in groups}
    return {host: quantile({le.replace("+Inf", "inf"): v for (h, le), v in groups.items() if h == host}, 0.99)
            for host in hosts}


def increases(metric):
    return lambda r, at: by_sum(r.group(metric, ["host"], r.increase(at)))


def test_of(metric, test, **match):
    return lambda r, at: {(): sum(test(v) for values in r.group(metric, [], r.last(at), **match).values()
                                  for v in values)}


LINK = ["host", "from", "to", "nic", "peer_nic"]

# panel: one function per query, from a recording and the number of a sample to {labels: value}.
PANELS = {
    "Processes that use Detour": [test_of("detour_process_start_time_seconds", bool)],
    "Slow senders now": [test_of("detour_is_slow", float)],
    "Connections without a path": [test_of("detour_path", lambda v: v == -1, direction="send")],
    "Connections on a backup": [test_of("detour_path", lambda v: v > 0, direction="send")],
    "Sent, per NIC": [lambda r, at: over_time(r.group("detour_bytes_total", ["host", "nic"], r.increase(at),
                                                      direction="send"))],
    "Messages, per rank": [lambda r, at: over_time(r.group("detour_messages_total", ["host", "rank"], r.increase(at),
                                                           direction="send"))],
    "Mean service time, per link": [link_means],
    "99th percentile of the service time": [p99],
    "Factor of the network time": [lambda r, at: by_max(r.group("detour_slow_factor", LINK, r.last(at)))],
    "Additional time of a transfer": [
        lambda r, at: {key: value for key, value in by_max(r.group("detour_slow_delay_seconds", LINK,
                                                                   r.last(at))).items() if value > 0}],
    "Path failures and recoveries": [increases("detour_switches_total"), increases("detour_recoveries_total")],
    "Messages sent again, and time of switchovers": [increases("detour_retries_total"),
                                                     increases("detour_failover_seconds_total")],
}


def over_controllers(metric, by):
    return lambda r, at: by_max(r.group(metric, by, r.last(at)))


def grown(metric, combine):
    return lambda r, at: {key: value for key, value in combine(r.group(metric, ["kind"], r.increase(at))).items() if value > 0}


def age(r, at):
    times = r.group("detour_job_last_decision_time_seconds", [], r.last(at))
    return {key: at * r.step_s - value for key, value in by_max(times).items()}


FINDING = ["kind", "host", "rank", "nic", "peer_host", "peer_rank", "peer_nic"]

# The same for panels about the job, from the recording of its controllers.
JOB_PANELS = {
    "Controllers with the lease": [test_of("detour_job_has_lease", float)],
    "Open findings": [lambda r, at: {(): sum(over_controllers("detour_job_open_findings", ["kind"])(r, at).values())}],
    "Hosts that report": [lambda r, at: over_controllers("detour_job_hosts", [])(r, at)],
    "Time since the last decision": [age],
    "Factors of open findings": [over_controllers("detour_job_finding", FINDING)],
    "Iteration time of the job": [over_controllers("detour_job_iteration_seconds", [])],
    "Findings and decisions": [grown("detour_job_findings_total", by_max), grown("detour_job_decisions_total", by_sum)],
    "Losses of the controllers": [lambda r, at: by_max(r.group("detour_job_overruns_total", ["job"], r.increase(at))),
                                  lambda r, at: by_max(r.group("detour_job_dropped_reports_total", ["job"], r.increase(at)))],
    "Decisions in force": [lambda r, at: by_sum(r.group("detour_job_in_force", ["kind"], r.last(at)))],
}


def query_of(target):
    """For some host: `.*` would also match series without this label, which no host of the list would show."""
    query = target["expr"].replace("$__rate_interval", f"{WINDOW_S}s").replace("$job", "recorded").replace("$host", ".+")
    assert "$" not in query, query
    return query


def checks_of(dashboard, panels, recording, at):
    """Queries that are 1 when a panel's query gives the expected number of series, and the expected sum."""
    for panel in dashboard["panels"]:
        if panel["title"] not in panels:
            continue
        expectations = panels[panel["title"]]
        assert len(panel["targets"]) == len(expectations), panel["title"]
        for target, expected in zip(panel["targets"], expectations):
            query, values = query_of(target), expected(recording, at)
            total = sum(values.values())
            yield panel["title"], f"count({query}) or vector(0)", len(values)
            yield (panel["title"], f"abs((sum({query}) or vector(0)) - {total!r}) <= bool {abs(total) * 1e-9 + 1e-12!r}",
                   1)


def promtool_values(values):
    """A series that ends is stale, as after a scrape without it."""
    words, was_there = [], False
    for value in values:
        words.append(repr(value) if value is not None else "stale" if was_there else "_")
        was_there = value is not None
    return " ".join(words)


def group_of(dashboard, panels, recording):
    tests = [{"expr": query, "eval_time": f"{at * recording.step_s}s", "exp_samples": [{"labels": "{}", "value": value}]}
             for at in range(4, recording.count) for _, query, value in checks_of(dashboard, panels, recording, at)]
    series = [{"series": name, "values": promtool_values(values)} for name, values in recording.series.items()]
    return {"interval": f"{recording.step_s}s", "input_series": series, "promql_expr_test": tests}


def check_variables(dashboard, recordings):
    """Each list of values comes from a metric with that label."""
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            metric, label = re.fullmatch(r"label_values\((\w+), (\w+)\)", variable["definition"]).groups()
            assert variable["query"]["query"] == variable["definition"], variable
            assert any(name == metric and labels.get(label) for _, recording in recordings
                       for name, labels, _ in recording.parsed), f"no {metric} has a label {label}"


def lose(recording):
    """No recorded run loses reports: here the counters of losses grow."""
    for name, values in recording.series.items():
        if name.startswith(("detour_job_overruns_total", "detour_job_dropped_reports_total")):
            assert not any(values), "the recording has losses of its own"
            values[:] = [value if value is None else float(i * i) for i, value in enumerate(values)]


def check_panels(dashboard, recordings, path):
    """True: each query has the expected value, and has one at all at some time of its recording."""
    groups = [group_of(dashboard, panels, recording) for panels, recording in recordings]
    for panels, recording in recordings:
        for title, expectations in panels.items():
            for expected in expectations:
                assert any(expected(recording, at) for at in range(4, recording.count)), f"{title}: never a value"
    document = {"evaluation_interval": "15s", "tests": groups}
    path.write_text(json.dumps(document), encoding="utf-8")  # JSON is YAML
    result = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
    print((result.stdout + result.stderr)[:6000] if result.returncode else
          f"{sum(len(group['promql_expr_test']) for group in groups)} queries on "
          f"{sum(len(group['input_series']) for group in groups)} series")
    return not result.returncode


def check_text(text):
    promtool = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, check=False)
    assert promtool.returncode == 0 and not promtool.stdout + promtool.stderr, promtool.stdout + promtool.stderr


def shapes(names):
    return {(name.partition("{")[0], tuple(label for label, _ in LABELS.findall(name) if label != "instance")) for name in names}


def live_shapes(text):
    return shapes(line.rpartition(" ")[0] for line in text.splitlines() if line and line[0] != "#")


def check_live_job(detour, recording, folder):
    """promtool accepts the metrics of a controller, whose names and labels are among those of the recording."""
    path = pathlib.Path(folder, "job.prom")
    control = subprocess.Popen([detour, "control", "--host", f"a={folder}", "--textfile", str(path)], stdout=subprocess.DEVNULL)
    try:
        while not path.exists():
            assert control.poll() is None, "the controller ended"
            time.sleep(0.1)
    finally:
        control.terminate()
        control.wait()
    text = path.read_text(encoding="utf-8")
    check_text(text)
    assert live_shapes(text) and live_shapes(text) <= shapes(recording.series), "record_job.py is to run again"


def check_live(detour, recording, folder):
    """promtool accepts the metrics of two running ranks, whose names and labels are those of the recording."""
    env = {**os.environ, "DETOUR_RUNTIME_DIR": str(folder), "DETOUR_VERBS": "soft", "DETOUR_SOCKET_IFNAME": "=lo"}
    job = subprocess.Popen([detour, "perf", "sendrecv", "-b", "4K", "-n", "4000000000", "--channels", "1"], env=env,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        text = ""
        while "detour_path{" not in text:
            assert job.poll() is None, "the job ended"
            time.sleep(0.1)
            text = subprocess.run([detour, "stat", "--metrics", "--job", "recorded"], env=env, capture_output=True,
                                  text=True, check=False).stdout
    finally:
        job.terminate()
        job.wait()
    check_text(text)
    live = live_shapes(text)
    assert live == shapes(recording.series), f"record.py is to run again: {live ^ shapes(recording.series)}"


def main(detour):
    if not shutil.which("promtool"):
        print("promtool is not installed")
        return SKIP
    dashboard = json.loads((HERE.parent.parent / "monitoring/grafana.json").read_text(encoding="utf-8"))
    recording, of_job = Recording(HERE / "recorded.json"), Recording(HERE / "recorded_job.json")
    page = (HERE.parent.parent / "docs/control.md").read_text(encoding="utf-8")
    missing = {name for name, _, _ in of_job.parsed if f"| `{name}` |" not in page}
    assert not missing, f"docs/control.md has no row of {missing}"
    titles = [panel["title"] for panel in dashboard["panels"]]
    assert sorted(titles) == sorted([*PANELS, *JOB_PANELS]), set(titles) ^ {*PANELS, *JOB_PANELS}
    check_variables(dashboard, [(PANELS, recording), (JOB_PANELS, of_job)])
    lose(of_job)
    with tempfile.TemporaryDirectory() as folder:
        if not check_panels(dashboard, [(PANELS, recording), (JOB_PANELS, of_job)], pathlib.Path(folder, "panels.json")):
            return 1
        check_live(detour, recording, folder)
        check_live_job(detour, of_job, folder)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
