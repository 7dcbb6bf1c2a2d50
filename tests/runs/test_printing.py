"""Colour on terminals only; and what becomes of lines that cannot be written."""

import io
import os
import subprocess
import sys
from contextlib import redirect_stdout

import pytest

from spinup_tf2.files.printing import colored, colorize, lose_lines, say
from spinup_tf2.utils.logx import Logger
from tests.cli.closed_pipe import closed_pipe


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_colorize():
    assert colorize("text", "green") == "\x1b[32mtext\x1b[0m"
    assert colorize("text", "cyan", bold=True) == "\x1b[36;1mtext\x1b[0m"
    assert colorize("text", "crimson", bold=True, highlight=True) == "\x1b[48;1mtext\x1b[0m"


def test_colour_only_on_a_terminal(tmp_path):
    for stream, coloured in ((Terminal(), True), (io.StringIO(), False)):
        with redirect_stdout(stream):
            Logger(output_dir=tmp_path / str(coloured)).log("stop", color="red")
            assert colored("x", "red") == ("\x1b[31mx\x1b[0m" if coloured else "x")
        assert ("\x1b[31;1mstop\x1b[0m" in stream.getvalue()) == coloured
        assert ("\x1b[" in stream.getvalue()) == coloured


LINES = """
import sys
from spinup_tf2.files.printing import say, warn

print("waits in the buffer")
say("lost")
print("lost" * 5000)
print("lost", flush=True)
warn("lost")
say("lost", file=sys.stderr)
print("lost", file=sys.stderr, flush=True)
print("waits for the end")
"""


def printing(program, **options):
    # dev: complains at the end of files that could not be written.
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-c", program]
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(command, check=False, env=environ, **options)


def test_a_full_disk_ends_nothing():
    with open("/dev/full", "wb") as full:
        done = printing(LINES, stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (0, "lost\nlost\n")
        assert printing(LINES, stdout=full, stderr=full).returncode == 0


def test_a_pipe_that_nobody_reads_ends_nothing():
    read, write = os.pipe()
    os.close(read)
    done = printing(LINES, stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, "lost\nlost\n")


def test_a_full_disk_is_an_error_until_it_loses_lines_too(monkeypatch):
    with closed_pipe():
        lose_lines(BrokenPipeError)
        print("lost", flush=True)
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr(sys, "__stdout__", full)
        lose_lines(BrokenPipeError)
        with pytest.raises(OSError, match="No space left"):
            print("not lost", flush=True)
        say("lost")
        print("lost", flush=True)


def test_lines_are_written_again_when_there_is_room(tmp_path):
    program = """
import resource
from spinup_tf2.files.printing import say

say("before")
resource.setrlimit(resource.RLIMIT_FSIZE, (7, resource.RLIM_INFINITY))
say("lost")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("after")
"""
    with open(tmp_path / "output.txt", "wb") as file:
        assert printing(program, stdout=file).returncode == 0
    assert (tmp_path / "output.txt").read_text() == "before\nafter\n"


def test_the_stream_of_a_program_stays(capsys):
    """One that it has put in the place of Python's own."""

    class Full(io.StringIO):
        def write(self, text):
            raise OSError("no space left")

    full = Full()
    with redirect_stdout(full):
        say("lost")
        assert sys.stdout is full


@pytest.mark.parametrize("encoding", ["ascii", "gbk"])
def test_characters_that_stdout_cannot_encode(encoding):
    lines = """
from spinup_tf2.files.printing import print_safely, say, warn
for write in (say, print_safely, warn):
    write("a\\u0e01b")
"""
    command = [sys.executable, "-c", lines]
    env = dict(os.environ, PYTHONIOENCODING=encoding)
    done = subprocess.run(command, check=True, env=env, capture_output=True)
    assert done.stdout.decode(encoding).split() == ["a?b", "a?b", "Warning:", "a?b"]


class Tee:
    """As in much research code."""

    def __init__(self, file):
        self.file = file

    def write(self, text):
        self.file.write(text)


class Tty(Tee):
    def isatty(self):
        raise ValueError(self)


@pytest.mark.parametrize("stream", [Tee, Tty])
@pytest.mark.parametrize("closed", [True, False])
def test_replacements_of_stdout_end_nothing(tmp_path, monkeypatch, stream, closed):
    with open(tmp_path / "ascii.txt", "w", encoding="ascii") as file:
        if closed:
            file.close()
        monkeypatch.setattr(sys, "stdout", stream(file))
        say(colored("\u00e9t\u00e9", "red"))
    assert (tmp_path / "ascii.txt").read_text() == ("" if closed else "?t?\n")
