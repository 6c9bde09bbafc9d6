"""Recorded allocations as a memory snapshot: the file that pytorch.org/memory_viz and `ridgepoint snapshot` read."""

import pickle

FIRST_ADDRESS = 0x7F00_0000_0000
ALIGNMENT = 512


def block_bytes(size):
    """What the caching allocator counts for a request, but for the rest of a block that is too small to split."""
    return (max(size, 1) + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def document(events, annotations, frames_of, configuration=""):
    """`events`: (is_allocation, block) in order; a block has size, stream, category, phase and iteration.
    `annotations`: (name, "START" or "END", number of events before it). `frames_of(block)`: (name, file, line) from the
    innermost on. An event is a microsecond."""
    frames, stacks, addresses, trace = {}, {}, {}, []
    next_address = FIRST_ADDRESS

    def stack(block):
        key = tuple(frames_of(block))
        if key not in stacks:
            stacks[key] = [frames.setdefault(frame, {"name": frame[0], "filename": frame[1], "line": frame[2]})
                           for frame in key]
        return stacks[key]

    for time, (is_allocation, block) in enumerate(events, 1):
        if is_allocation:
            addresses[id(block)] = next_address
            next_address += block_bytes(block.size)
        entry = {"addr": addresses[id(block)], "size": block.size, "stream": block.stream, "time_us": time,
                 "compile_context": "N/A", "category": block.category,
                 "user_metadata": f"iteration {block.iteration}, phase: {block.phase}, category: {block.category}"}
        if is_allocation:
            trace.append({"action": "alloc", "frames": stack(block), **entry})
        else:
            trace += ({"action": action, "frames": [], **entry} for action in ("free_requested", "free_completed"))
    return {"segments": [], "device_traces": [trace],
            "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": configuration},
            "external_annotations": [{"name": name, "stage": stage, "device": 0, "time_us": time}
                                     for name, stage, time in annotations]}


def write(path, *parts, **settings):
    with open(path, "wb") as file:
        pickle.dump(document(*parts, **settings), file, protocol=4)
