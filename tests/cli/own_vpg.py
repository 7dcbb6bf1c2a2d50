"""A copy of VPG with another name and an argument more, as somebody makes it who tries an idea."""

from importlib.util import find_spec
from pathlib import Path

source = Path(find_spec("spinup_tf2.algos.vpg").origin).read_text(encoding="utf-8")
source = source.replace("def vpg(", "def copied(")
source = source.replace("save_freq: int = 10,", "save_freq: int = 10,\n    my_arg: float = 1.0,")
exec(source)
