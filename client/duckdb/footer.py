#!/usr/bin/env python3
"""footer.py SHARED_LIBRARY EXTENSION VERSION PLATFORM: what DuckDB reads at the end of an extension's file.

Eight fields of 32 bytes, the last one first, and 256 bytes for a signature, which is not there: the extension is loaded with
allow_unsigned_extensions. In front of them stands the head of a custom section of WebAssembly, which DuckDB's own have, too.
"""
import sys

library, extension, version, platform = sys.argv[1:]
fields = ["4", platform, "v1.2.0", "v" + version, "C_STRUCT", "", "", ""]  # of the format; of the C interface that is needed
head = bytes([0, 147, 4, 16]) + b"duckdb_signature" + bytes([128, 4])
tail = b"".join(f.encode().ljust(32, b"\0") for f in reversed(fields)) + bytes(256)
with open(library, "rb") as f, open(extension, "wb") as out:
    out.write(f.read() + head + tail)
