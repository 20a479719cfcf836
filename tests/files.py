"""Files of the kinds that reducectl reads, written by hand where Debian has no library for them."""
import json
import struct


def tensors(path, entries, header=None):
    """A safetensors file of {name: (type, shape, bytes)}; `header`: what to write as JSON instead."""
    table, data = {}, b""
    for name, (kind, shape, body) in entries.items():
        table[name] = {"dtype": kind, "shape": shape, "data_offsets": [len(data), len(data) + len(body)]}
        data += body
    text = json.dumps(table).encode() if header is None else header
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path
