#!/usr/bin/env python3
"""Measures everything that docs/performance.md says of several ranks, on the cards or the processor of this machine.

    tools/predictions/measure_ranks.py --ranks 4 --device cuda --card h100 --output four_cards --peer 'torchrun --nproc-per-node 4 bench/peers/data_parallel.py'
    tools/predictions/measure_ranks.py --ranks 8 --device null --card h100 --output planned        plans the same steps on a laptop
    tools/predictions/measure_ranks.py --ranks 4 --device cpu --quick --output quick               the same code at toy size

Writes into the folder, line by line, so that a stopped run keeps what it has:

    rows.jsonl          weak scaling of four models with every sharding; with copy engines (on cards) and without
    collectives.jsonl   collectives of 1 KiB to 1 GiB in turns with direct calls of NCCL (bench/peers/nccl_direct.py)
    checks.txt          ranks against one rank on the joined batch, repeated steps, a killed and a stopped rank, and
                        planned memory and time of each row (compare_plan.py; --card says of which card)
    peer.txt            what the peer's command printed
    summary.md          the tables

The parts are collectives, scaling, equality, endings, plans and peer; --only chooses. The exit code is 1 if a check failed.
"""

import argparse
import json
import os
import pathlib
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
FAST = ["--dtype", "bf16", "--compile", "full", "--attention", "flash"]
SHARDINGS = ("none", "optimizer", "gradients", "parameters")
MODELS = [["--model", "small", "--batch", "16", "--context", "512"], ["--model", "large", "--batch", "16", "--context", "512"],
          ["--model", "xl", "--batch", "8", "--context", "512"], ["--model", "llama-3.2-1b", "--batch", "4", "--context", "2048"]]
QUICK_MODELS = [["--model", "tiny", "--batch", "1", "--context", "16"]]
# Weights of 4 to 46 MiB, which copy engines send, and some that they do not; the vocabulary divides into no whole vectors.
VERIFIED = ["--layers", "3", "--d-model", "1024", "--d-ff", "2816", "--heads", "16", "--vocab", "5003", "--context", "64"]
QUICK_VERIFIED = ["--layers", "2", "--d-model", "64", "--d-ff", "96", "--heads", "4", "--vocab", "509", "--context", "16"]
ENDLESS = ["--model", "tiny", "--batch", "1", "--context", "16", "--steps", "3,1000000"]
SECONDS_TO_END = 10
COLLECTIVE_LIMIT_S = 3


class Measurement:
    def __init__(self, options):
        self.options = options
        self.folder = pathlib.Path(options.output)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.ranks = str(options.ranks)
        self.runs = options.device != "null"
        # How messages are sent: as usual, large ones by copy engines, or all by NCCL's kernels.
        ways = {"usual": None, **({"kernels": {"NCCL_WIN_ENABLE": "0"}} if options.device == "cuda" else {})}
        self.ways = {way: ways[way] for way in ways if way in options.ways.split(",")}
        self.failed = 0

    def words(self, command, *more):
        """A command line of the program on all ranks, or of its plan."""
        if not self.runs:
            return [self.options.program, "plan", *more, "--card", self.options.card]
        return [self.options.program, command, *more, "--device", self.options.device, "--ranks", self.ranks]

    def run(self, words, environment=None):
        return subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, **(environment or {})})

    def append(self, name, text):
        with open(self.folder / name, "a", encoding="utf-8") as file:
            file.write(text if text.endswith("\n") or not text else text + "\n")

    def check(self, is_right, text):
        self.failed += not is_right
        self.append("checks.txt", f"{'ok' if is_right else 'FAILED'}: {text}")

    def rows(self, words, way, environment=None):
        """Appends the records of a run, each with the way in which messages were sent."""
        result = self.run([*words, "--format", "jsonl"], environment)
        if result.returncode != 0:
            self.check(False, f"{shlex.join(words)}: {result.stderr.strip()}")
        for line in result.stdout.splitlines():
            self.append("rows.jsonl", json.dumps({**json.loads(line), "way": way}))

    def scaling(self):
        models = QUICK_MODELS if self.options.quick else MODELS
        steps = ["--warmup", "1", "--steps", "3"] if self.options.quick else ["--warmup", "5", "--steps", "30"]
        steps = [*steps, "--no-phases"] if self.runs else []
        chosen = [model for model in models if self.options.models is None or model[1] in self.options.models.split(",")]
        for _ in range(self.options.repeats):
            for model in chosen:
                for way, environment in self.ways.items():
                    step = ["--mode", "step", *FAST, *model, *steps, "--parallel", "data=" + self.ranks]
                    self.rows(self.words("bench", *step, "--shard", self.options.shard), way, environment)

    def collectives(self):
        if not self.runs:
            return
        sizes = ["--size", "1KiB:64KiB:*8"] if self.options.quick else []
        for _ in range(1 if self.options.quick else 3):
            result = self.run(self.words("collectives", *sizes, "--format", "jsonl"))
            self.check(result.returncode == 0, f"collectives have no wrong element {result.stderr.strip()}")
            rows = [{**json.loads(line), "by": "ridgepoint"} for line in result.stdout.splitlines()]
            self.append("collectives.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
            if self.options.device == "cuda":
                direct = self.run([sys.executable, str(ROOT / "bench/peers/nccl_direct.py"), "--ranks", self.ranks])
                self.check(direct.returncode == 0, f"direct calls of NCCL {direct.stderr.strip()}")
                self.append("collectives.jsonl", direct.stdout)

    def endings(self):
        if self.runs:
            self.end(signal.SIGKILL, "killed")
            self.end(signal.SIGSTOP, "stopped")

    def plans(self):
        rows = self.folder / "rows.jsonl"
        if rows.exists():
            card = ["--card", self.options.card] if self.options.card else []
            plans = self.run([sys.executable, str(ROOT / "tools/predictions/compare_plan.py"), "--program", self.options.program, *card, str(rows)])
            self.check(plans.returncode == 0, f"plans of rows.jsonl\n{plans.stdout}{plans.stderr}".strip())

    def equality(self):
        """Three steps, of which the last two are captured, against one rank on the joined batch; and again, to the bit."""
        if self.runs:
            with tempfile.TemporaryDirectory(dir=self.folder) as folder:
                self.equal_one_rank_in(folder)

    def equal_one_rank_in(self, folder):
        model = ["verify", *(QUICK_VERIFIED if self.options.quick else VERIFIED), "--attention", "flash", "--compile", "full"]
        path = {name: os.path.join(folder, name) for name in ("weights", "tokens", "one", "first", "again")}
        batch = str(2 * self.options.ranks)
        one = self.options.device + (":0" if self.options.device == "cuda" else "")
        steps = ["--optimizer-steps", "3"]
        ran = self.run([self.options.program, *model, *steps, "--batch", batch, "--device", one, "--save-weights", path["weights"],
                        "--save-tokens", path["tokens"], "--dump", path["one"]])
        self.check(ran.returncode == 0, f"one rank {ran.stderr.strip()}")
        given = [*model, *steps, "--weights", path["weights"], "--tokens", path["tokens"], "--parallel", "data=" + self.ranks]
        for shard in self.options.shard.split(","):
            for way, environment in self.ways.items():
                words = [*given, "--shard", shard]
                against = self.run(self.words(*words, "--against", path["one"]), environment)
                said = " ".join(against.stdout.partition("The file ")[2].split()) or last_line(against.stderr)
                self.check(against.returncode == 0, f"{self.ranks} ranks equal one, sharded {shard}, messages {way}: the file {said}")
                dumped = [self.run(self.words(*words, "--dump", path[name]), environment) for name in ("first", "again")]
                same = all(run.returncode == 0 for run in dumped) and \
                    pathlib.Path(path["first"]).read_bytes() == pathlib.Path(path["again"]).read_bytes()
                self.check(same, f"repeated to the bit, sharded {shard}, messages {way}")

    def end(self, number, how):
        """A rank gets a signal in the second row: the run ends soon and keeps the first row."""
        rows = self.folder / f"{how}.json"
        rows.unlink(missing_ok=True)
        words = self.words("bench", *ENDLESS, "--parallel", "data=" + self.ranks, "--output", str(rows))
        environment = {**os.environ, "RIDGEPOINT_COLLECTIVE_TIMEOUT": str(COLLECTIVE_LIMIT_S)}
        with subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment) as run:
            while not rows.exists() and run.poll() is None:
                time.sleep(0.05)
            time.sleep(2)
            ranks = processes_with(str(rows))
            if ranks:
                os.kill(ranks[-1], number)
            begin = time.monotonic()
            try:
                error = run.communicate(timeout=60)[1]
            except subprocess.TimeoutExpired:
                run.kill()
                error = "did not end within 60 s"
            seconds = time.monotonic() - begin
        for process in processes_with(str(rows)):
            os.kill(process, signal.SIGKILL)
        kept = len(json.loads(rows.read_text(encoding="utf-8"))) if rows.exists() else 0
        rows.unlink(missing_ok=True)
        is_right = len(ranks) == self.options.ranks and seconds < SECONDS_TO_END and kept == 1 and run.returncode != 0
        self.check(is_right, f"a rank that is {how}: the run ended after {seconds:.1f} s with {kept} row; {last_line(error)}")

    def peer(self):
        if self.options.peer:
            result = self.run(shlex.split(self.options.peer))
            self.append("peer.txt", result.stdout + result.stderr[-2000:])

    def summary(self):
        tables = [scaling_table(lines_of(self.folder / "rows.jsonl")), collective_table(lines_of(self.folder / "collectives.jsonl"))]
        (self.folder / "summary.md").write_text("\n".join(table for table in tables if table), encoding="utf-8")


def processes_with(text):
    """The ranks that have the text in their command line, by rank."""
    ranks = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if text.encode() in (folder / "cmdline").read_bytes():
                variables = dict(word.partition(b"=")[::2] for word in (folder / "environ").read_bytes().split(b"\0"))
                if b"OMPI_COMM_WORLD_RANK" in variables:
                    ranks[int(variables[b"OMPI_COMM_WORLD_RANK"])] = int(folder.name)
        except OSError:
            pass  # it ended meanwhile
    return [ranks[rank] for rank in sorted(ranks)]


def last_line(text):
    return text.strip().rpartition("\n")[2]


def lines_of(path):
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def groups(rows, key):
    found = {}
    for row in rows:
        found.setdefault(key(row), []).append(row)
    return found


def median(rows, *path):
    """The median of a field over rows; None if no row has it."""
    values = []
    for row in rows:
        for name in path:
            row = row[name] if row is not None else None
        values += [row] if row is not None else []
    return statistics.median(values) if values else None


def figure(value, form):
    return "" if value is None else format(value, form)


def markdown(heading, rows):
    lines = ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def scaling_table(records):
    heading = ["model", "batch x context", "messages", "`--shard`", "step, ms", "alone, ms", "efficiency", "hidden", "peak, GB",
               "planned bytes", "predicted, ms"]
    key = lambda r: (r["model"]["name"], f"{r['batch']} x {r['context']}", r["way"], r["parallel"]["shard"])
    rows = []
    for names, same in groups([r for r in records if r["status"] == "ok"], key).items():
        planned = median(same, "memory_bytes", "planned_peak")
        peak = median(same, "memory_bytes", "peak_allocated")
        difference = "" if planned is None or peak is None else "equal" if planned == peak else f"{planned - peak:+.0f}"
        rows.append([*names, figure(median(same, "parallel", "slowest_ms"), ".2f"), figure(median(same, "parallel", "alone_ms"), ".2f"),
                     figure(median(same, "parallel", "efficiency"), ".1%"), figure(median(same, "parallel", "hidden"), ".0%"),
                     "" if peak is None else f"{peak / 1e9:.2f}", difference, figure(median(same, "predicted_ms"), ".2f")])
    return markdown(heading, rows) if rows else ""


def collective_table(lines):
    heading = ["op", "bytes", "us", "bus GB/s", "NCCL called directly, us", "ratio"]
    rows = []
    for (op, size), same in groups(lines, lambda line: (line["op"], line["bytes"])).items():
        ours, direct = (median([line for line in same if line["by"] == by], "time_us") for by in ("ridgepoint", "nccl"))
        bus = median([line for line in same if line["by"] == "ridgepoint"], "bus_gb_per_second")
        rows.append([op, str(size), figure(ours, ".1f"), figure(bus, ".0f"), figure(direct, ".1f"),
                     "" if ours is None or direct is None else f"{ours / direct:.2f}"])
    return markdown(heading, rows) if rows else ""


def main():
    parts = ("collectives", "scaling", "equality", "endings", "plans", "peer")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("--device", choices=("cuda", "cpu", "null"), default="cuda")
    parser.add_argument("--card", help="the card, as plan takes it: for planned rows, and to compare rows with their plans")
    parser.add_argument("--output", default="ranks", help="the folder [ranks]")
    parser.add_argument("--program", default=str(ROOT / "build/ridgepoint"), help="[build/ridgepoint]")
    parser.add_argument("--only", default=",".join(parts), help="parts [%(default)s]")
    parser.add_argument("--models", help="models of the scaling rows [small,large,xl,llama-3.2-1b]")
    parser.add_argument("--shard", default=",".join(SHARDINGS), help="shardings [%(default)s]")
    parser.add_argument("--ways", default="usual,kernels", help="how messages are sent [%(default)s]")
    parser.add_argument("--repeats", type=int, default=1, help="of the scaling rows [1]")
    parser.add_argument("--peer", help="a command whose output is kept")
    parser.add_argument("--quick", action="store_true", help="toy sizes, to check the script and the program")
    options = parser.parse_args()
    if options.ranks < 2:
        parser.error("--ranks is at least 2")
    if options.device == "null" and not options.card:
        parser.error("--device null needs --card")
    unknown = set(options.only.split(",")) - set(parts)
    if unknown:
        parser.error(f"--only: unknown part '{min(unknown)}'; the parts are {', '.join(parts)}")
    measurement = Measurement(options)
    for part in parts:
        if part in options.only.split(","):
            getattr(measurement, part)()
    measurement.summary()
    print((measurement.folder / "summary.md").read_text(encoding="utf-8"))
    print(f"{measurement.failed} checks failed")
    sys.exit(1 if measurement.failed else 0)


if __name__ == "__main__":
    main()
