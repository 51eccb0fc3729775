# SPDX-License-Identifier: Apache-2.0
"""Our CSV in PyTorch's own hands: parsed and validated by torch.distributed.pipelining, and run by it. A small model
trained by gloo processes from our schedule must have the gradients of a plain run.

Usage: torch_csv_test.py DETOUR. Exit code 77 (skipped) where torch 2.8 or later is not installed; PYTHON in the
environment names another interpreter that has it."""
import copy
import csv
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

DETOUR = None
WIDTH = 8


def profile(stages, microbatches, placement=None, delay_ms=5):
    made = {"version": 1, "microbatches": microbatches,
            "stages": [{"f_ms": 10, "b_ms": 11, "w_ms": 9}] * stages,
            "links": [{"forward_ms": delay_ms * (i % 2), "backward_ms": 1} for i in range(stages - 1)]}
    if placement:
        made["placement"] = placement
    return made


def plan(description, algorithm, form):
    """A schedule in the words of the installed torch."""
    return subprocess.run([DETOUR, "sched", "plan", "--profile", "-", "--algo", algorithm, "--format", form,
                           "--torch", f"2.{max(version[1], 10)}"],
                          input=json.dumps(description), capture_output=True, text=True, check=True).stdout


V = [0, 1, 2, 3, 3, 2, 1, 0]
LOOP = [0, 1, 2, 3, 0, 1, 2, 3]
CASES = [(profile(4, 12), "gpipe"), (profile(4, 12), "1f1b"), (profile(4, 12), "zb-h1"), (profile(4, 12), "zb-h2"),
         (profile(4, 12), "zb"), (profile(4, 12), "adaptra"), (profile(4, 12), "adaptra-initial"),
         (profile(8, 32, delay_ms=25), "adaptra"), (profile(8, 16, V, 0), "zb-v"), (profile(8, 16, V), "gpipe"),
         (profile(8, 8, LOOP), "interleaved"), (profile(1, 4), "zb")]


class Grammar(unittest.TestCase):
    """What torch makes of the files."""

    def each(self, form):
        for description, algorithm in CASES:
            text = plan(description, algorithm, form)
            rows = list(csv.reader(io.StringIO(text)))
            stages = len(description["stages"])
            ranks = max(description.get("placement", range(stages))) + 1
            with self.subTest(algorithm=algorithm, stages=stages, form=form):
                actions = {rank: [schedules._Action.from_str(cell) for cell in row] for rank, row in enumerate(rows)}
                self.assertEqual([[str(action) for action in actions[rank]] for rank in actions], rows)
                where = schedules._validate_schedule(actions, ranks, stages, description["microbatches"])
                self.assertEqual([where[stage] for stage in range(stages)],
                                 list(description.get("placement", range(stages))))
                yield actions, where, stages

    def test_compute_only_can_be_lowered_and_simulated(self):
        for actions, where, stages in self.each("csv"):
            lowered = schedules._add_send_recv(copy.deepcopy(actions), stage_to_rank=where.get, num_stages=stages)
            schedules._simulate_comms_compute(lowered, where.get, stages)

    def test_compute_comms_can_be_simulated(self):
        for actions, where, stages in self.each("csv-comms"):
            reduced = [a.stage_index for row in actions.values() for a in row
                       if a.computation_type == schedules.REDUCE_GRAD]
            self.assertEqual(sorted(reduced), list(range(stages)))
            known = {rank: [a for a in row if "REDUCE_GRAD" not in str(a)] for rank, row in actions.items()}
            if hasattr(schedules, "_validate_send_waits"):
                schedules._validate_send_waits(known)
            schedules._simulate_comms_compute(known, where.get, stages)

    def test_what_torch_writes_is_read(self):
        description = profile(4, 12)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        path = pathlib.Path(folder.name, "profile.json")
        path.write_text(json.dumps(description))
        text = plan(description, "zb-h1", "csv")
        rows = csv.reader(io.StringIO(text))
        actions = {rank: [None] * rank + [schedules._Action.from_str(cell) for cell in row]  # idle cells, as torch has
                   for rank, row in enumerate(rows)}
        where = schedules._validate_schedule(actions, 4, 4, 12)
        lowered = schedules._add_send_recv(copy.deepcopy(actions), stage_to_rank=where.get, num_stages=4)
        for form in (actions, lowered):
            out = io.StringIO()
            writer = csv.writer(out)
            for rank in sorted(form):
                writer.writerow(form[rank])
            again = subprocess.run([DETOUR, "sched", "check", "--profile", str(path), "--schedule", "-"],
                                   input=out.getvalue(), capture_output=True, text=True)
            self.assertEqual((again.returncode, again.stderr), (0, ""))


def data(stages, microbatches):
    """The same model and batch on every rank."""
    torch.manual_seed(7)
    layers = [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(stages)]
    return layers, torch.randn(2 * microbatches, WIDTH), torch.randn(2 * microbatches, WIDTH)


def run_rank(rank, ranks, stages, microbatches, form, folder):
    """One process of the pipeline: trains one step from FOLDER/schedule.csv and saves its gradients."""
    layers, inputs, targets = data(stages, microbatches)
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=ranks)
    rows = list(csv.reader(open(f"{folder}/schedule.csv")))
    mine = sorted({schedules._Action.from_str(cell).stage_index for cell in rows[rank]})
    runtime = schedules._PipelineScheduleRuntime(
        [PipelineStage(layers[i], i, stages, torch.device("cpu")) for i in mine], microbatches,
        loss_fn=torch.nn.MSELoss(reduction="sum"), scale_grads=False)
    runtime._load_csv(f"{folder}/schedule.csv", format=form)
    losses = []
    runtime.step(*([inputs] if 0 in mine else []),
                 **({"target": targets, "losses": losses} if stages - 1 in mine else {}))
    torch.save({"gradients": {(i, name): p.grad for i in mine for name, p in layers[i].named_parameters()},
                "losses": losses}, f"{folder}/rank{rank}")
    dist.barrier()
    dist.destroy_process_group()


class Training(unittest.TestCase):
    """A step under gloo against the same step without a pipeline."""

    def check(self, description, algorithm, form):
        stages, microbatches = len(description["stages"]), description["microbatches"]
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        text = plan(description, algorithm, form)
        pathlib.Path(folder.name, "schedule.csv").write_text(text)
        ranks = text.count("\n")
        torch_form = {"csv": "compute_only", "csv-comms": "compute_comms"}[form]
        env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
        running = [subprocess.Popen([sys.executable, __file__, "--rank", str(rank), str(ranks), str(stages),
                                     str(microbatches), torch_form, folder.name], env=env) for rank in range(ranks)]
        try:
            self.assertEqual([process.wait(timeout=240) for process in running], [0] * ranks)
        finally:
            for process in running:
                process.kill()

        layers, inputs, targets = data(stages, microbatches)
        outputs = torch.nn.Sequential(*layers)(inputs)
        torch.nn.MSELoss(reduction="sum")(outputs, targets).backward()
        found, losses = {}, []
        for rank in range(ranks):
            saved = torch.load(f"{folder.name}/rank{rank}")
            found.update(saved["gradients"])
            losses += saved["losses"]
        self.assertEqual(len(losses), microbatches)
        for i, layer in enumerate(layers):
            for name, parameter in layer.named_parameters():
                torch.testing.assert_close(found[i, name], parameter.grad)

    def test_one_stage_per_rank_with_split_gradients(self):
        self.check(profile(4, 8), "adaptra", "csv")

    def test_sends_and_receives_of_our_own(self):
        self.check(profile(4, 8), "zb-h2", "csv-comms")

    def test_two_stages_per_rank_in_a_v(self):
        self.check(profile(4, 6, [0, 1, 1, 0], 0), "zb-v", "csv")

    def test_interleaved_with_sends_and_receives_of_our_own(self):
        self.check(profile(4, 4, [0, 1, 0, 1]), "interleaved", "csv-comms")


def main():
    global DETOUR
    if sys.argv[1] == "--rank":
        rank, ranks, stages, microbatches = map(int, sys.argv[2:6])
        run_rank(rank, ranks, stages, microbatches, sys.argv[6], sys.argv[7])
        return
    DETOUR = sys.argv.pop(1)
    unittest.main()


if __name__ == "__main__":
    if os.environ.get("PYTHON") and "--rank" not in sys.argv:
        os.execvp(os.environ["PYTHON"], [os.environ.pop("PYTHON"), *sys.argv])
    try:
        import numpy  # noqa: F401 (torch sends objects between ranks through it)
        import torch
        import torch.distributed as dist
        from torch.distributed.pipelining import PipelineStage, schedules
        version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
        if version < (2, 8) or not dist.is_gloo_available():
            raise ImportError(f"torch {torch.__version__} is too old, or was built without gloo")
    except ImportError as error:
        print(f"skipped: {error}")
        sys.exit(77)
    main()
