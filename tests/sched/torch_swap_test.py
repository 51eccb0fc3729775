# SPDX-License-Identifier: Apache-2.0
"""python/detour_torch.py in a job of four processes under gloo: whatever happens to schedules, every step has exactly the
gradients of a plain run of the model, and all ranks run the same schedule.

Usage: torch_swap_test.py DETOUR. Exit code 77 (skipped) where torch 2.8 or later is not installed; PYTHON in the
environment names another interpreter that has it. gloo's messages do not go through Detour's plugin."""
import json
import logging
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

try:
    import torch
    from torch.autograd import Function as torch_function
    from torch.nn import Module
except ImportError:
    torch_function = Module = object  # the tests are skipped

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
RANKS, WIDTH, MICROBATCHES, STEPS = 4, 8, 8, 7
LINE = [0, 1, 2, 3]
V = [0, 1, 2, 3, 3, 2, 1, 0]


def profile(placement, delay_ms=0):
    return {"version": 1, "microbatches": MICROBATCHES, "placement": placement,
            "stages": [{"f_ms": 10, "b_ms": 11, "w_ms": 9}] * len(placement),
            "links": [{"forward_ms": delay_ms, "backward_ms": delay_ms}] * (len(placement) - 1)}


def plan(algorithm, placement=None, form="csv", delay_ms=0):
    made = profile(placement or LINE, delay_ms)
    return detour_sched.convert(made, detour_sched.plan(made, algorithm), form, torch_minor=max(version[1], 10))


def decision(number, links, fence=1, **other):
    return json.dumps({"version": 1, "fence": fence, "number": number, "kind": "replan", "reason": "a test",
                       "links": links, **other})


def slow(delay_ms, first=0, second=1):
    return [{"from": a, "to": b, "delay_ms": delay_ms} for a, b in [(first, second), (second, first)]]


class Case:
    """What happens in a job. `before(step)` runs on every rank before each step."""
    placement, algorithm, form, follow, with_profile = LINE, "1f1b", "csv", None, False

    def __init__(self, rank, folder):
        self.rank, self.folder, self.pipeline, self.refusals = rank, folder, None, []

    def before(self, step):
        pass

    def wrap(self, stage, module):
        return module

    def propose(self, new):
        if self.rank == 0:
            try:
                return self.pipeline.propose(new)
            except detour_torch.Refused as refusal:
                self.refusals.append(str(refusal))

    def write(self, name, text):
        if self.rank == 0:
            pathlib.Path(self.folder, name + ".new").write_text(text)
            os.replace(f"{self.folder}/{name}.new", f"{self.folder}/{name}")


class Swapped(Case):
    def before(self, step):
        if step in (1, 3):
            self.propose(plan("zb-h1" if step == 1 else "adaptra", delay_ms=0 if step == 1 else 25))


class SwappedV(Case):
    placement, algorithm = V, "gpipe"

    def before(self, step):
        if step == 1:
            self.propose(plan("zb-v", V))


class SwappedWithMessages(Case):
    form = "csv-comms"

    def before(self, step):
        if step == 1:
            self.propose(plan("zb-h2", form="csv-comms"))


class Refusals(Case):
    def before(self, step):
        good = plan("zb-h1")
        rows = good.splitlines()
        wrong = {0: "\n".join([rows[1], rows[0], *rows[2:]]) + "\n",  # stages on other ranks
                 1: good.replace(",2W7", ""), 2: "0F0,garbage\n", 3: good.replace("1F0,1F1", "1F1,1F0,1F0"),
                 4: plan("zb-v", V)}
        if step in wrong:
            self.propose(wrong[step])


class OneRankFails(Case):
    def before(self, step):
        if step == 1 and self.rank == 2:
            self.real = detour_torch._prepare

            def fail(*_):
                raise detour_torch.Refused("no memory in this test")
            detour_torch._prepare = fail
        if step == 3 and self.rank == 2:
            detour_torch._prepare = self.real
        if step in (1, 3):
            self.propose(plan("zb-h1"))


class OneRankDiffers(Case):
    def before(self, step):
        if step == 1:
            self.propose(plan("zb-h1"))
        if step == 2 and self.rank == 1:  # as by another version of torch
            self.pipeline._agreement.own = self.pipeline._agreement.own._replace(digest=5)


class FollowsAFile(Case):
    follow = "next.csv"

    def before(self, step):
        name = self.follow
        if step == 0:
            self.write(name, plan("zb-h1")[:100])
        if step == 1:
            self.write(name, plan("zb-h1"))  # proposed now, adopted before step 2
        if step == 2 and self.rank == 0:
            os.unlink(f"{self.folder}/{name}")
        if step == 3:
            self.write(name, plan("zb-h2"))
        if step == 4:
            self.write(name, plan("gpipe"))  # while the other one is being agreed on


class FollowsDecisions(Case):
    follow, with_profile, algorithm = "decision.json", True, "zb"

    def before(self, step):
        name = self.follow
        if step == 0:
            self.write(name, decision(1, slow(40)))
        if step == 1:
            self.write(name, decision(2, slow(40, 5, 6), fence=0))  # of a controller that is not in charge any more
        if step == 2:
            self.write(name, '{"version": 1, "fence": 1, "number": NaN}')
        if step == 3:
            self.write(name, decision(2, slow(40, 2, 99)))
        if step == 4:
            self.write(name, decision(3, slow(300, 2, 3)))


class FollowsAController(Case):
    follow, with_profile, algorithm = "decision.json", True, "zb"
    # As the agent wrote it in a run of scripts/control_loop.py.
    recorded = """{"version":1,"type":"decision","kind":"replan","number":1,"fence":1795559614535,\
"time_ns":1795559628590310074,"reason":"1460 % (24.869 ms a transfer) slower than its kind; other links of both NICs are not",\
"host":"","from_rank":-1,"to_rank":-1,"connection":"0000000000000000","nic":"","hold_ns":0,"request":"",\
"links":[{"from":2,"to":3,"delay_ms":24.869212}]}"""

    def __init__(self, rank, folder):
        super().__init__(rank, folder)
        self.write(self.follow, decision(7, slow(300, 0, 1), fence=1795559614536))  # of another job's controller
        if rank == 0:
            os.utime(f"{folder}/{self.follow}", (1, 1))

    def before(self, step):
        if step == 2:
            self.write(self.follow, self.recorded)


class Restarted(Case):
    """The controller decides the re-plan in force again for the new process of rank 0, before rank 0 has a pipeline."""
    follow, with_profile, algorithm = "decision.json", True, "zb"

    def __init__(self, rank, folder):
        super().__init__(rank, folder)
        self.write(self.follow, decision(2, slow(40)))


class Delayed(torch_function):
    """The identity, which takes time of a clock that nothing else moves."""
    clock_ns = 0

    @staticmethod
    def forward(ctx, x, forward_ns, backward_ns):
        Delayed.clock_ns += forward_ns
        ctx.backward_ns = backward_ns
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        Delayed.clock_ns += ctx.backward_ns
        return gradient, None, None


class Slow(Module):
    """F takes 10 ms and 1 ms per stage number (and the loss 3 ms), B 5 ms, and W of each parameter 2 ms."""

    def __init__(self, module, stage):
        super().__init__()
        self.module, self.forward_ns = module, (10 + stage) * 1000000
        for parameter in module.parameters():
            parameter.register_hook(self.weight)

    @staticmethod
    def weight(gradient):
        Delayed.clock_ns += 2000000

    def forward(self, x):
        return self.module(Delayed.apply(x, self.forward_ns, 5000000))


class Measured(Case):
    algorithm, profiles = "zb-h1", None

    def before(self, step):
        if step == 0:
            self.real, self.profiles = detour_torch._now_ns, []
            detour_torch._now_ns = lambda: Delayed.clock_ns
            try:
                self.pipeline.profile()
            except detour_torch.Refused as refusal:
                self.refusals.append(str(refusal))
            self.pipeline.measure(2)
        if step in (3, 6):
            self.profiles.append(self.pipeline.profile(f"{self.folder}/measured.json"))
        if step == 3:
            self.pipeline.measure(1)
            self.propose(plan("1f1b"))
        if step == 6:
            detour_torch._now_ns = self.real
            dist.barrier()
            with open(f"{self.folder}/measured.json") as file:
                self.profiles.append(json.load(file))

    def wrap(self, stage, module):
        return Slow(module, stage)


CASES = [Measured, Swapped, SwappedV, SwappedWithMessages, Refusals, OneRankFails, OneRankDiffers, FollowsAFile, FollowsDecisions,
         FollowsAController, Restarted]


class Lines(logging.Handler):
    def __init__(self):
        super().__init__(logging.INFO)
        self.lines = []

    def emit(self, record):
        self.lines.append(f"{record.levelname} {record.getMessage()}")


def layers(stages):
    torch.manual_seed(7)
    return [torch.nn.Sequential(torch.nn.Linear(WIDTH, WIDTH), torch.nn.Tanh()) for _ in range(stages)]


def batch(step):
    torch.manual_seed(100 + step)
    return torch.randn(2 * MICROBATCHES, WIDTH), torch.randn(2 * MICROBATCHES, WIDTH)


def loss(output, target):
    Delayed.clock_ns += 3000000
    return torch.nn.functional.mse_loss(output, target, reduction="sum")


def learn(modules):
    """One step of the optimizer: a wrong gradient stays in all steps after it."""
    for module in modules:
        for p in module.parameters():
            p.data.add_(p.grad, alpha=-0.01)
            p.grad = None


def train(case):
    """Some steps; for each the number of the schedule, and whether the gradients are those of the plain run."""
    count, heard = len(case.placement), Lines()
    detour_torch.log.addHandler(heard)
    detour_torch.log.setLevel(logging.INFO)
    mine, plain = layers(count), layers(count)
    owned = [i for i in range(count) if case.placement[i] == case.rank]
    schedule = schedules._PipelineScheduleRuntime(
        [PipelineStage(case.wrap(i, mine[i]), i, count, torch.device("cpu")) for i in owned], MICROBATCHES, loss_fn=loss, scale_grads=False)
    case.pipeline = detour_torch.Pipeline(
        schedule, plan(case.algorithm, case.placement, case.form), follow=case.follow and f"{case.folder}/{case.follow}",
        profile=profile(case.placement) if case.with_profile else None)
    numbers, texts, equal = [], [], []
    for step in range(STEPS):
        dist.barrier()
        case.before(step)
        inputs, targets = batch(step)
        case.pipeline.step(*([inputs] if 0 in owned else []), **({"target": targets} if count - 1 in owned else {}))
        for x, y in zip(inputs.chunk(MICROBATCHES), targets.chunk(MICROBATCHES)):
            loss(torch.nn.Sequential(*plain)(x), y).backward()
        equal.append(all(torch.equal(a.grad, b.grad) for i in owned
                         for a, b in zip(mine[i].parameters(), plain[i].parameters())))
        learn([mine[i] for i in owned]), learn(plain)
        numbers.append(case.pipeline.number)
        texts.append(case.pipeline.text)
    detour_torch.log.removeHandler(heard)
    return {"numbers": numbers, "equal": equal, "texts": texts, "log": heard.lines, "refusals": case.refusals,
            "profiles": getattr(case, "profiles", None)}


def run_rank(rank, folder):
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    results = {}
    for case in CASES:
        os.makedirs(f"{folder}/{case.__name__}", exist_ok=True)
        results[case.__name__] = train(case(rank, f"{folder}/{case.__name__}"))
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps(results))
    dist.barrier()
    dist.destroy_process_group()


def run_dying(rank, folder):
    """Rank 2 dies while it prepares the next schedule; the others find that out by an error in this or the next round."""
    dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=rank, world_size=RANKS)
    logging.basicConfig(format="LINE %(message)s")

    class Dies(Case):
        follow = "next.csv"

        def before(self, step):
            if step == 1:
                self.write("next.csv", plan("zb-h1"))
                if self.rank == 2:
                    detour_torch._prepare = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
    train(Dies(rank, folder))


def run_restarted(rank, folder):
    """After the restart the same file is followed from the first round on."""
    class Restarted(Case):
        follow = "next.csv"
    dist.init_process_group("gloo", init_method=f"file://{folder}/store2", rank=rank, world_size=RANKS)
    result = train(Restarted(rank, folder))
    pathlib.Path(folder, f"rank{rank}.json").write_text(json.dumps(result))
    dist.barrier()
    dist.destroy_process_group()


def start_ranks(folder, what):
    env = {**os.environ, "GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    return [subprocess.Popen([sys.executable, __file__, what, str(rank), folder], env=env, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, text=True) for rank in range(RANKS)]


class Death(unittest.TestCase):
    def test_a_rank_that_dies_in_a_swap_ends_the_others_and_a_restart_follows_the_file(self):
        with tempfile.TemporaryDirectory() as folder:
            for what, codes in ("--dying", [1, 1, -signal.SIGKILL, 1]), ("--restarted", [0] * RANKS):
                running = start_ranks(folder, what)
                try:
                    outputs = [process.communicate(timeout=240)[0] for process in running]
                finally:
                    for process in running:
                        process.kill()
                self.assertEqual([process.returncode for process in running], codes, outputs)
                for rank in (0, 1, 3) if what == "--dying" else ():
                    lines = [line for line in outputs[rank].splitlines() if line.startswith("LINE rank")]
                    self.assertEqual(len(lines), 1, outputs[rank])
                    self.assertIn(f"rank {rank}: step 1 with schedule 0 failed while schedule 1 was proposed: ", lines[0])
            results = [json.loads(pathlib.Path(folder, f"rank{rank}.json").read_text()) for rank in range(RANKS)]
            for result in results:
                self.assertEqual(result["numbers"], [0] + [1] * (STEPS - 1), result["log"])
                self.assertEqual(result["equal"], [True] * STEPS)


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        running = start_ranks(folder.name, "--rank")
        try:
            for process in running:
                output, _ = process.communicate(timeout=240)
                if process.returncode:
                    raise AssertionError(output)
        finally:
            for process in running:
                process.kill()
        cls.results = [json.loads(pathlib.Path(folder.name, f"rank{rank}.json").read_text()) for rank in range(RANKS)]

    def check(self, case, numbers):
        """All ranks have these numbers and the same schedules, and no step a wrong gradient. Returns their results."""
        found = [result[case.__name__] for result in self.results]
        for result in found:
            self.assertEqual(result["equal"], [True] * STEPS, result["log"])
            self.assertEqual(result["numbers"], numbers, result["log"])
            self.assertEqual(result["texts"], found[0]["texts"])
        self.assertEqual(len(set(found[0]["texts"])), len(set(numbers)))
        return found

    def warnings(self, found):
        return [[line for line in result["log"] if line.startswith("WARNING")] for result in found]

    def test_gradients_are_bit_identical_before_at_and_after_swaps(self):
        self.assertEqual(self.warnings(self.check(Swapped, [0, 0, 1, 1, 2, 2, 2])), [[]] * RANKS)

    def test_times_are_measured_where_they_are_spent(self):
        found = self.check(Measured, [0, 0, 0, 0, 1, 1, 1])
        for result in found:
            self.assertEqual(result["refusals"], ["stage 0 has no measured F; call measure() and then step()"])
            self.assertEqual(result["profiles"], found[0]["profiles"])
        split, fused, written = found[0]["profiles"]
        # PyTorch computes no input gradient for stage 0, and all of its backward pass in W.
        self.assertEqual(split["stages"], [{"f_ms": 10, "b_ms": 0, "w_ms": 4}] + [
            {"f_ms": 10 + stage + 3 * (stage == RANKS - 1), "b_ms": 5, "w_ms": 4} for stage in range(1, RANKS)])
        self.assertEqual(fused["stages"][1:], [{"f_ms": 10 + stage + 3 * (stage == RANKS - 1), "bw_ms": 9, "b_ms": 4.5,
                                                "w_ms": 4.5} for stage in range(1, RANKS)])
        self.assertEqual(written, fused)
        detour_sched.plan(written, "zb")

    def test_two_stages_per_rank(self):
        self.check(SwappedV, [0, 0] + [1] * 5)

    def test_schedules_with_messages(self):
        self.check(SwappedWithMessages, [0, 0] + [1] * 5)

    def test_wrong_schedules_are_refused_with_one_line(self):
        found = self.check(Refusals, [0] * STEPS)
        self.assertEqual(len(found[0]["refusals"]), 5)
        for line, part in zip(found[0]["refusals"], ["stage", "microbatch", "garbage", "1F0 is there already", "stage"]):
            self.assertNotIn("\n", line)
            self.assertIn(part, line)

    def test_a_rank_that_cannot_prepare_discards_on_all(self):
        found = self.check(OneRankFails, [0, 0, 0, 0, 2, 2, 2])
        self.assertEqual(self.warnings(found), [
            ["WARNING schedule 1 is discarded on all ranks: not confirmed by ranks [2]"], [],
            ["WARNING rank 2 cannot run schedule 1: no memory in this test"], []])

    def test_ranks_with_different_digests_discard_on_all(self):
        found = self.check(OneRankDiffers, [0] * STEPS)
        self.assertEqual(self.warnings(found), [
            ["WARNING schedule 1 is discarded on all ranks: not confirmed by ranks [1]"], [], [], []])

    def test_a_file_is_followed(self):
        found = self.check(FollowsAFile, [0, 0, 1, 1, 2, 2, 3])
        self.assertEqual([len(lines) for lines in self.warnings(found)], [1, 0, 0, 0])
        self.assertIn("next.csv: ignored: schedule: has 2 rows", self.warnings(found)[0][0])

    def test_decisions_are_followed(self):
        found = self.check(FollowsDecisions, [0, 1, 1, 1, 1, 2, 2])
        self.assertEqual([len(lines) for lines in self.warnings(found)], [2, 0, 0, 0])
        for line, part in zip(self.warnings(found)[0], ["NaN", "99"]):
            self.assertIn("decision.json: ignored: ", line)
            self.assertIn(part, line)
        self.assertTrue(any("1.1: change" in line for line in found[0]["log"]))

    def test_a_recorded_decision_of_a_controller_is_followed_and_an_earlier_one_is_not(self):
        found = self.check(FollowsAController, [0, 0, 0, 1, 1, 1, 1])
        self.assertEqual(self.warnings(found), [[]] * RANKS)
        changed = [line for line in found[0]["log"] if line.startswith("INFO decision ")]
        self.assertEqual(len(changed), 1)
        self.assertIn("1795559614535.1: change", changed[0])

    def test_a_decision_for_a_job_that_has_restarted_is_followed_from_its_first_round_on(self):
        self.assertEqual(self.warnings(self.check(Restarted, [0] + [1] * (STEPS - 1))), [[]] * RANKS)


if __name__ == "__main__":
    runs = {"--rank": run_rank, "--dying": run_dying, "--restarted": run_restarted}
    run = runs.get(sys.argv[1]) if len(sys.argv) == 4 else None  # else this is the test itself
    if os.environ.get("PYTHON") and not run:
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
    if not run:
        os.environ["DETOUR_SCHED_LIBRARY"] = sys.argv.pop(1)
    import detour_sched
    import detour_torch
    if run:
        run(int(sys.argv[2]), sys.argv[3])
    else:
        unittest.main()
