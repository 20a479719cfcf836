#!/usr/bin/env python3
"""Write the seed inputs of the fuzzers of files: corpus/zip, safetensors, hdf5_records, csv, streams."""
import gzip
import io
import json
import pathlib
import struct
import zipfile
import zlib

HERE = pathlib.Path(__file__).parent


def write(fuzzer, **seeds):
    folder = HERE / "corpus" / fuzzer
    folder.mkdir(parents=True, exist_ok=True)
    for name, data in seeds.items():
        (folder / name).write_bytes(data)


def archive(method, *names, zip64=False):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as z:
        for name in names:
            with z.open(name, "w", force_zip64=zip64) as f:
                f.write(name.encode() * 9)
    return out.getvalue()


def zip64():
    ones, local = 2**32 - 1, b"PK\3\4" + bytes(26)
    extra = struct.pack("<HH3Q", 1, 24, 9, 9, 0)
    central = struct.pack("<4s6H3L5H2L", b"PK\1\2", 45, 45, 0, 0, 0, 0, 0, ones, ones, 1, len(extra), 0, 0, 0, 0, ones) + b"a" + extra
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\6\6", 44, 45, 45, 0, 0, 1, 1, len(central), len(local))
    locator = struct.pack("<4sLQL", b"PK\6\7", 0, len(local) + len(central), 1)
    return local + central + end64 + locator + struct.pack("<4s4H2LH", b"PK\5\6", 0, 0, 0xFFFF, 0xFFFF, ones, ones, 0)


def tensors(table, data):
    text = json.dumps(table).encode()
    return struct.pack("<Q", len(text)) + text + data


def record(name, dtype, flags, shape, offset, kind):
    return struct.pack("<4L32QQ32s", len(name), dtype, flags, len(shape), *shape, *[0] * (32 - len(shape)), offset, kind) + name


def main():
    write("zip", stored=archive(zipfile.ZIP_STORED, "a.npy", "b.npy"), deflated=archive(zipfile.ZIP_DEFLATED, "a.npy"), empty=archive(zipfile.ZIP_STORED),
          forced=archive(zipfile.ZIP_STORED, "a.npy", zip64=True), zip64=zip64())
    write("safetensors", two=tensors({"__metadata__": {"format": "pt"}, "w": {"dtype": "F32", "shape": [1, 2], "data_offsets": [0, 8]},
                                      "q": {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [8, 11]}}, bytes(11)),
          scalar=tensors({"s": {"dtype": "I64", "shape": [], "data_offsets": [0, 8]}}, bytes(8)), gguf=b"GGUF\3\0\0\0", text=b"a,b\n1,2\n")
    write("hdf5_records", two=b"\x40\2" + record(b"/a", 12, 2, [3], 64, b"f64") + record(b"/g/b", 0, 0, [2, 2], 0, b"string"))
    write("csv", commas=b"\1\x0b\3day,price\n1,2.5\n2,\n", quotes=b'\2\x0b\0a,b\n"x\n""y""","3e1"\n', tabs=b"\1\6\x011\t2\n-3\t4\r\n", none=b"\x40\x0b\0a;b\n",
          words=b"\1\x0b\4inf\nNaN\nN/A\n0x1p3\n1e400\n")
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15)
    frame = b"\x28\xb5\x2f\xfd\x00\x58" + struct.pack("<L", 5 << 3 | 1)[:3] + b"hello"
    write("streams", gzip=b"\0\xff" + gzip.compress(b"hello " * 50, 9, mtime=0), two=b"\0\3" + gzip.compress(b"a" * 300, mtime=0) + gzip.compress(b"b", mtime=0),
          member=b"\1\x40" + deflate.compress(bytes(4096)) + deflate.flush(), zstd=b"\2\x20" + frame + frame)


if __name__ == "__main__":
    main()
