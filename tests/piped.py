"""Inputs that can be read once: arguments of `ctl` whose bytes a thread writes while the command runs."""
import contextlib
import itertools
import os
import socket
import threading

NUMBERS = itertools.count()


class Piped:
    """A pipe or a socket by its number in /dev/fd, or a FIFO; `column` follows the name."""

    def __init__(self, data, kind="pipe", column=""):
        self.data, self.kind, self.column, self.name = data, kind, column, None

    def __str__(self):
        return self.name + self.column

    def write(self, open_end):
        with contextlib.suppress(OSError), open(open_end, "wb", buffering=0) as f:  # the command may leave before the end
            f.write(self.data)

    @contextlib.contextmanager
    def opened(self, folder):
        """Yields the descriptors that the command inherits."""
        if self.kind == "fifo":
            self.name, read = f"{folder}/fifo{next(NUMBERS)}", None
            os.mkfifo(self.name)
            write = self.name
        else:
            read, write = os.pipe() if self.kind == "pipe" else (s.detach() for s in socket.socketpair())
            self.name = f"/dev/fd/{read}"
        thread = threading.Thread(target=self.write, args=(write,))
        thread.start()
        try:
            yield [] if read is None else [read]
        finally:
            os.close(os.open(self.name, os.O_RDONLY | os.O_NONBLOCK) if read is None else read)  # who still waits for a reader has had one
            thread.join()


@contextlib.contextmanager
def all_of(args, folder):
    """Opens what is to be piped among the arguments, each once. Yields descriptors."""
    with contextlib.ExitStack() as stack:
        yield [fd for pipe in dict.fromkeys(a for a in args if isinstance(a, Piped)) for fd in stack.enter_context(pipe.opened(folder))]
