"""Notices what Python code does that only reads: what is executed, started, imported or written.

Python reports such events to audit hooks (PEP 578), which cannot be removed, so that there is one
for the whole process, which looks only inside `with watch(...)`. TensorFlow's own files are not
seen by it.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_STARTS = ("os.system", "os.exec", "os.posix_spawn", "os.fork", "os.forkpty", "os.startfile")
_STARTS += ("subprocess.Popen", "pty.spawn", "socket.connect", "webbrowser.open", "ctypes.dlopen")

# Events that change what lies at a path, and which of their arguments are paths.
_CHANGES = {
    **dict.fromkeys(("os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.utime"), 1),
    **dict.fromkeys(("os.truncate", "shutil.rmtree", "shutil.chown"), 1),
    **dict.fromkeys(("os.rename", "os.link", "os.symlink", "shutil.move", "shutil.copyfile"), 2),
}

_watching = None


class _Watch:
    def __init__(self, readable, writable):
        self.foreign = [os.path.realpath(path) for path in readable]
        self.writable = [os.path.realpath(path) for path in writable]
        self.seen = []

    def may_write(self, path):
        if isinstance(path, int):
            return True  # a descriptor: it was noticed when it was opened
        path = os.path.realpath(os.fsdecode(path))
        return any(os.path.commonpath([path, each]) == each for each in self.writable)

    def is_foreign(self, path):
        return any(str(path).startswith(each + os.sep) for each in self.foreign)

    def notice(self, event, args):
        if event in _STARTS or event == "pickle.find_class":
            self.seen.append((event, args))
        elif event == "open":
            path, mode, flags = args
            changes = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC)
            if changes and path not in (None, os.devnull) and not self.may_write(path):
                self.seen.append((event, args))
        elif event in _CHANGES:
            paths = [path for path in args[: _CHANGES[event]] if path is not None]
            if event in ("os.remove", "os.rmdir") and args[1] >= 0:
                return  # relative to an open directory: part of shutil.rmtree, which was noticed
            if not all(map(self.may_write, paths)):
                self.seen.append((event, args))
        elif event == "exec" and self.is_foreign(getattr(args[0], "co_filename", "")):
            self.seen.append((event, args))


def _hook(event, args):
    global _watching
    watch, _watching = _watching, None  # what is done here is not looked at
    if watch is not None:
        try:
            watch.notice(event, args)
        finally:
            _watching = watch


sys.addaudithook(_hook)


@contextmanager
def watch(foreign: Path, writable: tuple[Path, ...] = ()) -> Iterator[list]:
    """What happens inside that should not, as a list of (event, arguments).

    foreign: a directory with files of others, from which nothing may be executed.
    writable: where files may be changed.
    """
    global _watching
    _watching = _Watch([foreign], writable)
    seen = _watching.seen
    try:
        yield seen
    finally:
        _watching = None
