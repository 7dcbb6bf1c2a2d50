"""Colour on terminals only."""

import io
from contextlib import redirect_stdout

from spinup_tf2.runs.printing import colored, colorize
from spinup_tf2.utils.logx import Logger


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
            logger = Logger(output_dir=tmp_path / str(coloured))
            logger.log("stop", color="red")
            assert colored("x", "red") == ("\x1b[31mx\x1b[0m" if coloured else "x")
        assert ("\x1b[31;1mstop\x1b[0m" in stream.getvalue()) == coloured
        assert ("\x1b[" in stream.getvalue()) == coloured
