"""ridgepoint.torch: what a step under fake tensors asks the allocator for, and what it says of steps that cannot be
estimated. Without PyTorch 2.4 or later only the parts that need none are tested."""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest
import warnings
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools/pytorch"))
if "RIDGEPOINT_PROGRAM" in os.environ:
    os.environ["RIDGEPOINT"] = os.environ["RIDGEPOINT_PROGRAM"]

from torch_estimate import import_package  # noqa: E402

estimator = import_package()
from ridgepoint.torch import attention, gpu, program, snapshot_file, versions, workspaces  # noqa: E402

try:
    import torch
    HAS_TORCH = versions.release(torch.__version__) >= versions.OLDEST
except ImportError:
    HAS_TORCH = False

MIB = 1 << 20


def block(size, category="temporary", phase="forward"):
    return types.SimpleNamespace(size=size, stream=0, category=category, phase=phase, iteration=1)


class Versions(unittest.TestCase):
    def test_that_were_tried_need_no_remark(self):
        self.assertIsNone(versions.remark_on("2.11.0+cu130"))
        self.assertIsNone(versions.remark_on("2.6.0+debian"))
        self.assertIsNone(versions.remark_on("2.14.1+debian"))

    def test_that_were_not_tried_are_named(self):
        self.assertIn("PyTorch 2.9.1 was not tried", versions.remark_on("2.9.1"))

    def test_another_one_is_said_once_a_call(self):
        with mock.patch.dict(sys.modules, {"torch": types.SimpleNamespace(__version__="2.99.0")}), \
                self.assertWarnsRegex(UserWarning, "2.99.0 was not tried"):
            versions.require_torch()

    def test_too_old_is_refused(self):
        with mock.patch.dict(sys.modules, {"torch": types.SimpleNamespace(__version__="1.13.0a0+debian")}), \
                self.assertRaisesRegex(estimator.EstimateError, "1.13.0a0.debian is too old.*2.4 or later"):
            estimator.estimate(lambda: None)

    def test_none_is_a_sentence(self):
        with mock.patch.dict(sys.modules, {"torch": None}), \
                self.assertRaisesRegex(ImportError, "PyTorch is not installed; install torch"):
            estimator.estimate(lambda: None)
        with mock.patch.dict(sys.modules, {"torch": None}), self.assertRaises(ImportError):
            estimator.profile(lambda: None)


class Workspaces(unittest.TestCase):
    def test_of_cublas_depend_on_the_card(self):
        self.assertEqual([workspaces.cublas_bytes(capability) for capability in (80, 89, 90, 100, 120)],
                         [8519680, 8519680, 32 * MIB, 32 * MIB, 8519680])

    def test_of_attention_follow_its_sizes(self):
        sizes = {"batch": 4, "heads": 32, "key_heads": 8, "rows": 2000, "keys": 2000, "width": 72, "is_low": True,
                 "copies_gradient": False, "copies_forward": True}
        self.assertEqual(list(workspaces.rows("flash_attention_backward", 2, **sizes)),
                         [("forward", True, 4 * 32 * 2000 * 72 * 2), ("row_sums", False, 4 * 32 * 2048 * 4),
                          ("sums", False, 4 * 32 * 2048 * 96 * 4), ("to_keys", False, 4 * 32 * 2000 * 72 * 2),
                          ("to_values", False, 4 * 32 * 2000 * 72 * 2)])

    def test_of_few_indices_are_none(self):
        few = dict(count=3072, rows=100, width=64, segments=100)
        self.assertEqual(list(workspaces.rows("embedding_backward", 4, **few)), [])
        self.assertEqual(len(list(workspaces.rows("embedding_backward", 4, **{**few, "count": 3073}))), 7)

    def test_rows_may_have_several_lines(self):
        table = workspaces.parse("TORCH_X(a, first, fp32, n > 1 &&\n        m == 2, (n + 1) * 2)\n"
                                 "TORCH_X(b, after, int64, true, 3)\n")
        self.assertEqual([row[0] for row in table["x"]], ["a", "b"])
        self.assertTrue(workspaces.evaluate(table["x"][0][3], {"n": 2, "m": 2}))

    def test_expressions_are_arithmetic_alone(self):
        for text in ("__import__('os')", "n.m", "[n]"):
            with self.assertRaises((ValueError, KeyError)):
                workspaces.evaluate(workspaces.expression(text), {"n": 1})


class Snapshots(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "step.pickle")

    def test_have_the_levels_and_categories_of_the_events(self):
        first, second = block(5000, "parameter"), block(3 * MIB, "activation")
        snapshot_file.write(self.path, [(True, first), (True, second), (False, second)], [("step", "START", 0)],
                            lambda found: [("op of module", "train.py", 7)])
        found = program.documents("snapshot", self.path)[0]
        self.assertEqual(found["peak"]["allocated_bytes"], 5120 + 3 * MIB)
        self.assertEqual({row["name"]: row["bytes"] for row in found["categories"]},
                         {"parameter": 5120, "activation": 3 * MIB})
        self.assertEqual(found["at_end"]["allocated_bytes"], 5120)

    def test_are_replayed_without_segments(self):
        blocks = [block(30 * MIB), block(40 * MIB)]
        snapshot_file.write(self.path, [(True, blocks[0]), (False, blocks[0]), (True, blocks[1])], [],
                            lambda found: [("op", "train.py", 7)])
        replay = program.documents("snapshot", self.path, "--replay", "--allocator", "default")[0]["replay"]
        self.assertEqual((replay["allocated_bytes"], replay["reserved_bytes"], replay["least_capacity_bytes"]),
                         (40 * MIB, 70 * MIB, 40 * MIB))


class Cards(unittest.TestCase):
    def test_are_those_of_the_program(self):
        card = gpu.card("h100")
        self.assertEqual((card.name, card.capability, card.multiprocessors), ("H100 SXM", 90, 132))
        self.assertEqual(card.memory_bytes - card.capacity_bytes, 1 << 30)
        self.assertGreater(len(gpu.cards()), 20)

    def test_may_be_a_size(self):
        self.assertEqual(gpu.card("24GiB").capacity_bytes, 24 << 30)
        self.assertEqual(gpu.card("80 GB").capacity_bytes, 80 * 10**9)

    def test_that_are_unknown_are_refused_by_the_program(self):
        with self.assertRaisesRegex(estimator.EstimateError, "'h2000' is unknown; did you mean"):
            gpu.card("h2000")

    def test_need_the_program(self):
        program.path.cache_clear()
        self.addCleanup(program.path.cache_clear)
        with mock.patch.dict(os.environ, {"RIDGEPOINT": "/nowhere/ridgepoint"}), \
                mock.patch.dict(sys.modules, {"ridgepoint._core": None}), \
                self.assertRaisesRegex(estimator.EstimateError, "did not start"):
            gpu.card("h100")


def quiet():
    found = warnings.catch_warnings()
    found.__enter__()
    warnings.simplefilter("ignore")
    return found


@unittest.skipUnless(HAS_TORCH, "needs PyTorch 2.4 or later")
class WithTorch(unittest.TestCase):
    def setUp(self):
        caught = quiet()
        self.addCleanup(caught.__exit__, None, None, None)


class Steps(WithTorch):
    def test_of_one_layer_allocate_what_pytorch_does(self):
        def build():
            layer = torch.nn.Linear(1024, 2048, bias=False, device="cuda")
            return layer, torch.randn(512, 1024, device="cuda")

        def step(layer, x):
            y = layer(x)
            y.backward(y.detach())

        found = estimator.estimate(step, build, iterations=1)
        weight, result, workspace = 1024 * 2048 * 4, 512 * 2048 * 4, 32 * MIB
        made = [(owner.op, owner.size, owner.category) for is_allocation, owner in found.events if is_allocation]
        self.assertEqual([(size, category) for _, size, category in made],
                         [(weight, "parameter"), (512 * 1024 * 4, "data"), (result, "activation"),
                          (workspace, "workspace"), (weight, "gradient"), (workspace, "workspace")])
        self.assertEqual([owner.size for is_allocation, owner in found.events if not is_allocation][:1], [result])
        self.assertEqual(found.by_category["workspace"], 2 * workspace)
        self.assertEqual(found.by_module["Linear"], 2 * weight + result)
        self.assertGreaterEqual(found.peak_reserved, found.peak_allocated)

    def test_are_those_of_plan_as_torch(self):
        from torch_memory import Iteration

        sizes = dict(vocab=8000, context=512, d_model=512, d_ff=1024, layers=3, heads=8, batch=8)
        for dtype, attention, kind in (("fp32", "composite", "torch"), ("fp32", "flash", "torch-fused"),
                                       ("bf16", "softmax", "torch-fused"), ("bf16", "flash", "torch")):
            row = {**sizes, "dtype": dtype, "attention": attention, "as": kind, "mode": "step"}
            words = [word for name, value in row.items() for word in ("--" + name.replace("_", "-"), value)]
            planned = program.documents("plan", *words, "--card", "h100")[0]["memory_bytes"]
            with self.subTest(row), mock.patch("torch.cuda.memory_allocated", lambda: 0):
                found = estimator.estimate(lambda iteration: iteration(), lambda: Iteration(row, "cuda"), device="h100",
                                           iterations=3)
                self.assertLess(abs(found.peak_allocated / planned["peak_allocated"] - 1), 0.005)
                self.assertLess(abs(found.peak_reserved / planned["peak_reserved"] - 1), 0.03)

    @staticmethod
    def adamw(**options):
        def build():
            layers = torch.nn.Sequential(*(torch.nn.Linear(512, 512, device="cuda") for _ in range(4)))
            return layers, torch.optim.AdamW(layers.parameters(), **options), torch.randn(8, 512, device="cuda")

        def step(layers, optimizer, x):
            layers(x).sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        return estimator.estimate(step, build)

    def test_with_foreach_and_fused_optimizers(self):
        usual, fused = self.adamw(), self.adamw(fused=True)
        parameters = 4 * (512 * 512 + 512) * 4
        self.assertEqual(usual.peak_by_phase["optimizer"] - fused.peak_by_phase["optimizer"],
                         parameters - 8 * 512)  # the steps of fused are on the GPU
        self.assertTrue(any(owner.op.startswith("_foreach") for _, owner in usual.events))
        self.assertEqual(sum(owner.size for is_allocation, owner in fused.events
                             if is_allocation and owner.category == "optimizer_state"), 2 * parameters + 8 * 4)

    def test_in_autocast_cast_weights_once(self):
        def step(layer, x):
            with torch.autocast("cuda", torch.bfloat16):
                self.assertEqual(layer(layer(x)).dtype, torch.bfloat16)
        found = estimator.estimate(step, lambda: (torch.nn.Linear(256, 256, bias=False).cuda(),
                                                  torch.randn(4, 256, device="cuda")), iterations=1)
        casts = [owner.size for is_allocation, owner in found.events if is_allocation and owner.op == "_to_copy"]
        self.assertEqual(casts.count(256 * 256 * 2), 1)

    def test_checkpoint_what_they_save(self):
        from torch.utils.checkpoint import checkpoint

        def peak(checkpoints):
            def build():
                return torch.nn.Sequential(*(torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(),
                                                                 torch.nn.Linear(2048, 512)) for _ in range(6))).cuda()

            def step(layers):
                x = torch.randn(1024, 512, device="cuda", requires_grad=True)
                for layer in layers:
                    x = checkpoint(layer, x, use_reentrant=False) if checkpoints else layer(x)
                x.sum().backward()
            return estimator.estimate(step, build)
        plain, checkpointed = peak(False), peak(True)
        self.assertLess(checkpointed.peak_allocated, plain.peak_allocated - 50 * MIB)
        self.assertIn("recompute", checkpointed.peak_by_phase)
        self.assertNotIn("recompute", plain.peak_by_phase)

    def test_attend_by_the_kernel_that_the_card_takes(self):
        def kernels(device, dtype, **options):
            def step():
                q = torch.randn(2, 8, 128, 64, device="cuda", dtype=dtype, requires_grad=True)
                torch.nn.functional.scaled_dot_product_attention(q, q, q, **options).sum().backward()
            found = estimator.estimate(step, device=device, iterations=1)
            return {owner.op.split(" ")[0] for _, owner in found.events if "attention" in owner.op}
        flash, cudnn = "_scaled_dot_product_flash_attention", "_scaled_dot_product_cudnn_attention"
        on_hopper = cudnn if versions.release(torch.__version__) >= attention.PREFERS_CUDNN else flash
        efficient = "_scaled_dot_product_efficient_attention"
        self.assertEqual(kernels("h100", torch.bfloat16, is_causal=True), {on_hopper, on_hopper + "_backward"})
        self.assertEqual(kernels("a100", torch.bfloat16, is_causal=True), {flash, flash + "_backward"})
        self.assertEqual(kernels("h100", torch.float32), {efficient, efficient + "_backward"})
        self.assertEqual(kernels("t4", torch.float16), {efficient, efficient + "_backward"})
        self.assertEqual(kernels("h100", torch.float64), set())

    def test_keep_tied_weights_one(self):
        def build():
            model = torch.nn.ModuleDict({"a": torch.nn.Linear(512, 512, bias=False),
                                         "b": torch.nn.Linear(512, 512, bias=False)})
            model["b"].weight = model["a"].weight
            return model.cuda()
        found = estimator.estimate(lambda model: None, build)
        self.assertEqual(found.by_category, {"parameter": 512 * 512 * 4})

    def test_accumulate_and_log(self):
        def step(layer):
            for _ in range(3):
                loss = layer(torch.randn(16, 256).cuda()).pow(2).mean()
                loss.backward()
                self.assertEqual(loss.item(), 0)
            layer.zero_grad()
        found = estimator.estimate(step, lambda: torch.nn.Linear(256, 256).cuda())
        self.assertEqual(len([note for note in found.notes if "taken to be 0" in note]), 1)
        self.assertIn(f"{pathlib.Path(__file__).name}:", found.notes[0])

    def test_read_the_cpu_for_real(self):
        def step():
            rates = torch.linspace(0, 0.5, 3)
            self.assertEqual([round(rate.item(), 2) for rate in rates], [0, 0.25, 0.5])
            self.assertEqual(torch.tensor([1, 2, 3]).sum().item(), 6)
        estimator.estimate(step)

    def test_are_measured_where_there_is_a_gpu(self):
        def step():
            torch.ones(MIB, device="cuda").sum()
        found = estimator.estimate(step, measure=True)
        if not torch.cuda.is_available():
            self.assertIsNone(found.measured)
            return
        self.assertEqual(found.measured["peak_allocated"], found.peak_allocated)
        self.assertIn("measured", str(found))

    def test_leave_pytorch_as_it_was(self):
        before = (torch.cuda.is_available, torch.nn.Parameter.__new__, torch.UntypedStorage.resize_,
                  torch.nn.functional.scaled_dot_product_attention, torch.cuda.Stream)
        with contextlib.suppress(estimator.EstimateError):
            estimator.estimate(lambda: 1 / 0)
        self.assertEqual(before, (torch.cuda.is_available, torch.nn.Parameter.__new__, torch.UntypedStorage.resize_,
                                  torch.nn.functional.scaled_dot_product_attention, torch.cuda.Stream))
        self.assertEqual(torch.ones(2).sum().item(), 2)


class Ranks(WithTorch):
    @staticmethod
    def step(layers, optimizer):
        layers(torch.randn(64, 512, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()

    def test_shard_parameters(self):
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError:
            self.skipTest("no fully_shard")

        def build():
            layers = torch.nn.Sequential(*(torch.nn.Linear(512, 512, bias=False) for _ in range(4))).cuda()
            for layer in layers:
                fully_shard(layer)
            fully_shard(layers)
            return layers, torch.optim.AdamW(layers.parameters())
        found = {ranks: estimator.estimate(self.step, build, ranks=ranks) for ranks in (2, 4)}
        states = {ranks: sum(owner.size for is_allocation, owner in each.events
                             if is_allocation and owner.category == "optimizer_state") for ranks, each in found.items()}
        self.assertEqual(states, {2: 2 * 4 * 512 * 512 * 4 // 2, 4: 2 * 4 * 512 * 512 * 4 // 4})
        self.assertGreater(len({owner.stream for _, owner in found[2].events}), 1)

    def test_reduce_gradients_in_buckets(self):
        def build():
            layers = torch.nn.Sequential(*(torch.nn.Linear(512, 512) for _ in range(4))).cuda()
            layers = torch.nn.parallel.DistributedDataParallel(layers)
            return layers, torch.optim.SGD(layers.parameters(), 0.1)
        found = estimator.estimate(self.step, build, ranks=2)
        self.assertGreaterEqual(max(owner.size for _, owner in found.events), 4 * (512 * 512 + 512) * 4)
        self.assertFalse(torch.distributed.is_initialized())


class Refusals(WithTorch):
    def refuse(self, pattern, step, **options):
        with self.assertRaisesRegex(estimator.EstimateError, pattern):
            estimator.estimate(step, **options)

    def test_of_a_step_that_fails_name_the_op(self):
        self.refuse(r"the step failed under fake tensors after aten\.mm\.default: RuntimeError: .*(reduction dim|size)",
                    lambda: torch.ones(3, 5, device="cuda") @ torch.ones(3, 5, device="cuda"))

    def test_of_an_integer_that_is_read_name_the_line(self):
        self.refuse(r"_local_scalar_dense.default at torch_estimate_test.py:\d+: the step reads a value.*assume=",
                    lambda: torch.ones(3, device="cuda", dtype=torch.int64).sum().item())

    def test_of_sizes_that_depend_on_values(self):
        for step in (lambda x: x.nonzero(), lambda x: x[x > 0], lambda x: torch.masked_select(x, x > 0)):
            with self.subTest(step):
                self.refuse(r"at torch_estimate_test.py:\d+: how large its result is depends on the values.*assume=",
                            lambda: step(torch.ones(8, 8, device="cuda")))

    def test_end_where_a_function_says_the_value(self):
        def step():
            x = torch.ones(8, 8, device="cuda")
            self.assertEqual(x[x > 0].shape, (5,))
            self.assertEqual(x.long().sum().item(), 5)
        estimator.estimate(step, assume=lambda op, tensor: 5)

    def test_of_what_reads_memory_say_what_to_do(self):
        self.refuse(r"the step failed under fake tensors after aten\._to_copy.*A fake tensor has no memory to read: "
                    "leave out .* make a kernel that is called without PyTorch's dispatcher",
                    lambda: torch.ones(8, device="cuda").cpu().numpy())

    def test_end_where_an_op_says_what_it_returns(self):
        library = torch.library.Library("ridgepoint_test", "FRAGMENT")
        library.define("unknown(Tensor x) -> Tensor")
        found = estimator.estimate(lambda: torch.ops.ridgepoint_test.unknown(torch.ones(1000, device="cuda")),
                                   iterations=1)
        self.assertEqual([note for note in found.notes if "ridgepoint_test.unknown" in note
                          and "assumed to be as its first tensor" in note], found.notes)
        self.assertEqual([owner.size for is_allocation, owner in found.events if is_allocation], [4000, 4000])
        torch.library.register_fake("ridgepoint_test::unknown", lambda x: x.new_empty(10), lib=library)
        found = estimator.estimate(lambda: torch.ops.ridgepoint_test.unknown(torch.ones(1000, device="cuda")),
                                   iterations=1)
        self.assertEqual(([owner.size for is_allocation, owner in found.events if is_allocation], found.notes),
                         ([4000, 40], []))

    def test_of_options_of_fake_within_it(self):
        with estimator.fake("24GiB"):
            self.refuse("arguments of fake", lambda: None, device="h100")

    def test_take_checks_to_pass(self):
        found = estimator.estimate(lambda: self.assertTrue((torch.ones(4, device="cuda") == 1).all()))
        self.assertIn("asks whether all() holds", found.notes[0])


class Results(WithTorch):
    @classmethod
    def setUpClass(cls):
        if not HAS_TORCH:
            return
        caught = quiet()

        def build():
            layers = torch.nn.Sequential(*(torch.nn.Linear(1024, 1024) for _ in range(8)))
            return layers.cuda(), torch.optim.AdamW(layers.parameters()), torch.randn(4096, 1024, device="cuda")

        def step(layers, optimizer, x):
            layers(x).relu().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        cls.found = estimator.estimate(step, build, device="h100")
        caught.__exit__(None, None, None)

    def test_say_whether_a_card_suffices(self):
        self.assertTrue(self.found.fits())
        self.assertTrue(self.found.fits("rtx 4090"))
        self.assertFalse(self.found.fits("200MiB"))
        self.assertIn("T4", self.found.cards())
        self.assertEqual(self.found.advice(), [])

    def test_say_what_would_make_it_fit(self):
        sentences = "\n".join(self.found.advice("200MiB"))
        for text in ("8-bit optimizer", "Checkpoint activations", "fused=True", "the smallest card that it fits is"):
            self.assertIn(text, sentences)

    def test_are_replayed_under_other_settings(self):
        row = self.found.replay("expandable_segments:True", "1GiB")[0]
        self.assertEqual((row["setting"], row["fits"]), ("expandable_segments:True", True))
        self.assertEqual(row["allocated_bytes"], self.found.peak_allocated)
        without = self.found.replay("default", without="optimizer_state")[0]
        self.assertLess(without["allocated_bytes"], self.found.peak_allocated - 50 * MIB)
        self.assertGreater(len(self.found.replay()), 3)

    def test_are_snapshots_with_the_lines_of_the_user(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.pickle")
            self.found.snapshot(path)
            read = program.documents("snapshot", path)[0]
        self.assertLess(abs(read["peak"]["allocated_bytes"] / self.found.peak_allocated - 1), 0.01)
        self.assertEqual({row["name"] for row in read["phases"]}, {"build", "step", "forward", "backward", "optimizer"})
        self.assertTrue(any("torch_estimate_test.py" in row["frame"] for row in read["frames"]))

    def test_add_up(self):
        at_peak = sum(self.found.by_category.values())
        for shares in (self.found.by_module, self.found.by_phase, self.found.by_frame):
            self.assertEqual(sum(shares.values()), at_peak)
        self.assertEqual(max(level for _, level in self.found.timeline), at_peak)
        json.dumps(self.found.to_dict())
        self.assertIn("peak reserved", str(self.found))

    def test_of_a_profile_are_those_of_trace(self):
        layer = torch.nn.Linear(64, 64)
        documents = estimator.profile(lambda: layer(torch.randn(8, 64)).sum().backward(), warmup=1, steps=2)
        self.assertEqual(len(documents), 1)
        self.assertIn("steps", documents[0])


if __name__ == "__main__":
    unittest.main()
