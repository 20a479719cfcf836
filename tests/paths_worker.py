"""The process of test_paths.py that loads libreduce:  paths_worker.py URL FILE

Five threads reduce the file by every path while the parent kills the daemon and starts another one. Prints "ready", reads
lines from its standard input until that ends, and prints how many rounds were done."""
import ctypes
import os
import pathlib
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from libreduce import Client, Fault  # noqa: E402

url, path = sys.argv[1:]
data = bytearray(pathlib.Path(path).read_bytes())
size, where, fd = len(data), ctypes.addressof(ctypes.c_char.from_buffer(data)), os.open(path, os.O_RDONLY)
over = threading.Event()
rounds, wrong = [], []


def work(c, want):
    try:
        work_on(c, want)
    except Fault as e:
        wrong.append(e)


def work_on(c, want):
    while not over.is_set() or not rounds:
        memory = c.alloc(size)
        ctypes.memmove(memory, where, size)
        answers = [c.run_at("stats", "u8", at, size)[0] for at in (where, memory)] + [c.file("stats", "u8", fd, 0, size)[0]]
        try:
            answers.append(c.file("stats", "u8", fd, 0, size, deadline_ms=1)[0])
        except Fault as e:
            wrong.extend([] if e.code == "DEADLINE" else [e])
        c.free(memory)
        wrong.extend(a for a in answers if a != want)
        rounds.append(1)


with Client(url) as client:
    threads = [threading.Thread(target=work, args=(client, client.run_at("stats", "u8", where, size, path=1)[0])) for _ in range(5)]
    for t in threads:
        t.start()
    print("ready", flush=True)
    sys.stdin.read()
    over.set()
    for t in threads:
        t.join()
sys.exit(f"wrong: {wrong[:3]}" if wrong else print(len(rounds)))
