"""Reads tensors of a safetensors file without the package of that name. The file is mapped, not copied."""

import json
import struct

import torch

DTYPES = {"F32": torch.float32, "I64": torch.int64}


class SafetensorsFile:
    """The tensors of a file that Ridgepoint wrote, by name: fp32 and int64."""

    def __init__(self, path):
        with open(path, "rb") as file:
            (header_bytes,) = struct.unpack("<Q", file.read(8))
            self.entries = json.loads(file.read(header_bytes))
        self.entries.pop("__metadata__", None)
        self.data_offset = 8 + header_bytes
        size = self.data_offset + max((entry["data_offsets"][1] for entry in self.entries.values()), default=0)
        self.bytes = torch.from_file(path, shared=False, size=size, dtype=torch.uint8)

    def names(self):
        return list(self.entries)

    def __contains__(self, name):
        return name in self.entries

    def __getitem__(self, name):
        entry = self.entries[name]
        begin, end = (self.data_offset + offset for offset in entry["data_offsets"])
        # The writer aligns the data of every tensor to its element.
        return self.bytes[begin:end].view(DTYPES[entry["dtype"]]).view(entry["shape"])
