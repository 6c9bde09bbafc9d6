"""What a step needs, and what would make it fit."""

import os
import re
import tempfile

from . import gpu, program, snapshot_file

UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
MOST_ROWS = 12


def text_of(size):
    unit = 0
    while abs(size) >= 1024 and unit + 1 < len(UNITS):
        size, unit = size / 1024, unit + 1
    return f"{size:.0f} B" if unit == 0 else f"{size:.2f} {UNITS[unit]}"


class Estimate:
    """The peaks are those of everything since the GPU of `fake` was made: the model, the optimizer, the iterations.

    peak_allocated, peak_reserved   bytes, by the allocator's rules with its default setting
    least_capacity                  the least memory with which all requests succeed
    by_category, by_module, by_phase, by_frame   bytes of the blocks that are live at the peak
    peak_by_phase                   the highest level in each phase
    timeline                        (event, allocated bytes), one for each event
    notes                           what was assumed
    measured                        the same peaks of the same step on this machine's GPU, with measure=True
    """

    def __init__(self, recorder, version, iterations):
        recorder.show_phase(None)
        recorder.categorize()
        self.events, self.annotations = list(recorder.events), list(recorder.annotations)
        self.card, self.torch_version, self.iterations = recorder.card, version, iterations
        self.notes = list(recorder.notes)
        self.measured = None
        self._walk()
        nothing = {"allocated_bytes": 0, "reserved_bytes": 0, "least_capacity_bytes": 0}
        replayed = self._replay() if self.events else nothing
        self.peak_allocated, self.peak_reserved = replayed["allocated_bytes"], replayed["reserved_bytes"]
        self.least_capacity = replayed["least_capacity_bytes"]

    def _walk(self):
        level, peak, at_peak, self.timeline, self.peak_by_phase = 0, 0, 0, [], {}
        for number, (is_allocation, block) in enumerate(self.events, 1):
            level += snapshot_file.block_bytes(block.size) * (1 if is_allocation else -1)
            self.timeline.append((number, level))
            if is_allocation:
                self.peak_by_phase[block.phase] = max(level, self.peak_by_phase.get(block.phase, 0))
            if level > peak:
                peak, at_peak = level, number
        live = {}
        for is_allocation, block in self.events[:at_peak]:
            live[id(block)] = block
            if not is_allocation:
                del live[id(block)]
        self.peak_event, self.at_peak = at_peak, list(live.values())
        self.by_category = self._shares(lambda block: block.category)
        self.by_module = self._shares(lambda block: block.module or "(outside of modules)")
        self.by_phase = self._shares(lambda block: block.phase)
        self.by_frame = self._shares(user_line)

    def _shares(self, key):
        shares = {}
        for block in self.at_peak:
            shares[key(block)] = shares.get(key(block), 0) + snapshot_file.block_bytes(block.size)
        return dict(sorted(shares.items(), key=lambda share: -share[1]))

    def _replay(self, *words):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "step.pickle")
            self.snapshot(path)
            return program.documents("snapshot", path, "--replay", *(words or ("--allocator", "default")))[0]["replay"]

    def snapshot(self, path):
        """Writes a memory snapshot: pytorch.org/memory_viz and `ridgepoint snapshot` open it."""
        snapshot_file.write(path, self.events, self.annotations, frames_of)

    def replay(self, allocator=None, capacity=None, without=None):
        """The same requests under other settings of the allocator (a value of PYTORCH_CUDA_ALLOC_CONF, or a list of
        them; without any those that people try), with less memory, or without a category or the blocks of a line. One
        record a setting: setting, reserved_bytes, allocated_bytes, least_capacity_bytes, fits, retries."""
        words = []
        for setting in [allocator] if isinstance(allocator, str) else allocator or []:
            words += ["--allocator", setting]
        for name, value in (("--capacity", capacity), ("--without", without)):
            words += [name, value] if value is not None else []
        return self._replay(*(words or ["--top", "15"]))["settings"]

    def fits(self, card=None):
        """Whether the step fits a card ("rtx 4090"), a size ("24GiB"), or the card of the estimate."""
        card = gpu.card(card) if card is not None else self.card
        if card.capacity_bytes is None:
            return None
        return self.replay("default", str(card.capacity_bytes))[0]["fits"]

    def cards(self):
        """The names of the known cards that the step fits, the smallest first."""
        known = sorted(gpu.cards(), key=lambda card: card.capacity_bytes)
        return [card.name for card in known if self.least_capacity and card.capacity_bytes >= self.least_capacity]

    def advice(self, card=None):
        """Sentences: what would make the step fit, each with what the replay says of it. Empty if it fits."""
        card = gpu.card(card) if card is not None else self.card
        if card.capacity_bytes is None or self.fits(card):
            return []
        capacity = str(card.capacity_bytes)
        sentences = []
        for row in self.replay(capacity=capacity):
            if row["fits"]:
                sentences.append(f"PYTORCH_CUDA_ALLOC_CONF={row['setting']} makes it fit: it reserves "
                                 f"{text_of(row['reserved_bytes'])}")
        for category, remedy in REMEDIES.items():
            if not any(block.category == category for _, block in self.events):
                continue
            row = self.replay("default", capacity, category)[0]
            sentences.append(f"{remedy}: without {NAMES[category]} it reserves {text_of(row['reserved_bytes'])}"
                             f"{', which fits' if row['fits'] else ''}")
        if any(block.op.startswith("_foreach") for _, block in self.events):
            row = self.replay("default", capacity, "_foreach_")[0]
            sentences.append("fused=True for the optimizer, or foreach=False: without the temporaries of its foreach "
                             f"functions it reserves {text_of(row['reserved_bytes'])}"
                             f"{', which fits' if row['fits'] else ''}")
        larger = self.cards()
        sentences.append(f"the smallest card that it fits is {larger[0]}" if larger else
                         "it fits no card that is known; divide the model among ranks (fully_shard)")
        return sentences

    def to_dict(self):
        return {"peak_allocated": self.peak_allocated, "peak_reserved": self.peak_reserved,
                "least_capacity": self.least_capacity, "card": self.card.name, "capacity": self.card.capacity_bytes,
                "iterations": self.iterations, "torch": self.torch_version, "peak_event": self.peak_event,
                "by_category": self.by_category, "by_module": self.by_module, "by_phase": self.by_phase,
                "by_frame": self.by_frame, "peak_by_phase": self.peak_by_phase, "notes": self.notes,
                "measured": self.measured}

    def __str__(self):
        lines = [f"peak allocated  {text_of(self.peak_allocated)}", f"peak reserved   {text_of(self.peak_reserved)}"]
        if self.measured:
            for name, label in (("peak_allocated", "allocated"), ("peak_reserved", "reserved")):
                error = getattr(self, name) / self.measured[name] - 1
                lines.append(f"measured        {text_of(self.measured[name])} {label} (the estimate is {error:+.2%})")
        if self.card.capacity_bytes is not None:
            advice = self.advice()
            verdict = "does not fit" if advice else "fits"
            lines.append(f"{self.card.name}: {verdict} {text_of(self.card.capacity_bytes)}")
            lines += [f"  {sentence}" for sentence in advice]
        layers = {}
        for name, size in self.by_module.items():
            name = re.sub(r"(?<=\.)\d+(?=\.|$)", "*", name)
            layers[name] = layers.get(name, 0) + size
        layers = dict(sorted(layers.items(), key=lambda share: -share[1]))
        for title, shares in (("category", self.by_category), ("module", layers), ("line", self.by_frame)):
            lines += ["", f"at the peak, by {title}"]
            lines += [f"{text_of(size):>12}  {name}" for name, size in list(shares.items())[:MOST_ROWS]]
        lines += ["", "the peak of each phase"]
        lines += [f"{text_of(size):>12}  {name}" for name, size in self.peak_by_phase.items()]
        return "\n".join([*lines, *(["", *self.notes] if self.notes else [])])

    def __repr__(self):
        return f"<Estimate: {text_of(self.peak_allocated)} allocated, {text_of(self.peak_reserved)} reserved>"


NAMES = {"activation": "what forward saves for backward", "optimizer_state": "the optimizer's state"}
REMEDIES = {"activation": "Checkpoint activations (torch.utils.checkpoint), or take a smaller batch",
            "optimizer_state": "Take an 8-bit optimizer, shard its state (fully_shard), or train fewer parameters, "
                               "as LoRA does"}


def user_line(block):
    """Of the frames the first outside of PyTorch and Python."""
    for name, file, line in block.frames:
        if "site-packages" not in file and "dist-packages" not in file and os.sep + "torch" + os.sep not in file:
            return f"{name} ({os.path.basename(file)}:{line})"
    return block.op


def frames_of(block):
    """The op and its module first, at the line that called it."""
    file, line = block.frames[0][1:] if block.frames else ("", 0)
    return ((f"{block.op} of {block.module}" if block.module else block.op, file, line), *block.frames)
