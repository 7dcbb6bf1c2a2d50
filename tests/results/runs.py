"""Run directories made by hand, of this package and of Spinning Up itself."""

import json

HEADER = ("Epoch", "AverageEpRet", "TotalEnvInteracts")

# The env_fn of a grid in Spinning Up, whose call_experiment has taken env_name out.
LAMBDA = "<function call_experiment.<locals>.thunk_plus.<locals>.<lambda> at 0x7f8e2c0b1d08>"
LOGGER = {"<spinup.utils.logx.EpochLogger object at 0x7f8e2c0b3f98>": {"exp_name": "x"}}


def add_run(path, returns=(1.0, 2.0, 3.0), steps=4000, header=HEADER, **config):
    """A run with these returns (None is blank); its config.json has these entries."""
    path.mkdir(parents=True)
    if config:
        text = json.dumps(config, separators=(",", ":\t"), indent=4, sort_keys=True)
        (path / "config.json").write_text(text)
    rows = [
        f"{epoch}\t{'' if ret is None else ret}\t{steps * (epoch + 1)}"
        for epoch, ret in enumerate(returns)
    ]
    (path / "progress.txt").write_text("\n".join(["\t".join(header), *rows]) + "\n")
    return path


def spinning_up_run(path, returns=(1.0, 2.0, 3.0), **config):
    """A run of ppo in the original."""
    common = dict(ac_kwargs={}, clip_ratio=0.2, epochs=3, logger=LOGGER, seed=0)
    return add_run(path, returns, **common | dict(env_fn=LAMBDA) | config)
