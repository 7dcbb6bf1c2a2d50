"""Two agents for one robot: whose turn it is."""

from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("pybullet", reason='needs pip install ".[quadruped]"')

from spinup_tf2.examples import quadruped_switch
from spinup_tf2.examples.quadruped_switch import SwitchedEnv


class Scripted(SimpleNamespace):
    """An environment that says what its script says, step by step, and remembers its resets."""

    def __init__(self, name, script, **more):
        super().__init__(name=name, script=script, dt=0.1, t=0.0, phase_hz=0.5, began=[], **more)
        self.metadata, self.render_mode = {}, None

    def reset(self, *, seed=None, options=None):
        self.t = 0.0
        self.began.append((options or {}).get("take_over", seed))
        return f"{self.name} begins", {}

    def step(self, action):
        self.t += self.dt
        terminated, stands = self.script.pop(0)
        return f"{self.name} {action}", 1.0, terminated, False, {"is_success": stands}


FALLEN, ON_ITS_FEET, NEITHER = (True, False), (False, True), (False, False)


def test_it_walks_when_it_has_stood_for_half_a_second_and_gets_up_when_it_has_fallen():
    script = [NEITHER, ON_ITS_FEET, ON_ITS_FEET, NEITHER, *[ON_ITS_FEET] * 5]
    recover = Scripted("recover", script)
    walk = Scripted("walk", [*[ON_ITS_FEET] * 8, NEITHER, FALLEN])
    env = SwitchedEnv(walk, recover)
    assert env.reset(seed=7)[0] == "recover begins"
    for _ in range(8):
        assert env.step(0)[0] == "recover 0"
        assert env.mode == "recover"
    assert env.step(0)[0] == "walk begins"
    assert env.mode == "walk"
    for _ in range(9):
        assert env.step(1)[0] == "walk 1"
    assert env.falls == 0
    obs, reward, terminated, truncated, _ = env.step(1)
    assert (obs, reward, terminated, truncated) == ("recover begins", 1.0, False, False)
    assert (env.mode, env.falls) == ("recover", 1)
    assert recover.began == [7, walk]
    assert walk.began == [recover]


def test_getting_up_is_tried_again_when_its_clock_has_gone_round():
    recover = Scripted("recover", [NEITHER] * 41)
    env = SwitchedEnv(Scripted("walk", []), recover)
    env.reset(seed=0)
    observed = [env.step(0)[0] for _ in range(40)]
    again = [i for i, obs in enumerate(observed) if obs == "recover begins"]
    assert len(again) == 2
    assert again[0] in (19, 20)  # two seconds
    assert again[1] - again[0] in (20, 21)
    assert recover.began[1:] == [recover] * 2


def test_a_video_that_is_there_stays(tmp_path, capsys):
    (tmp_path / "switch-episode-0.mp4").write_text("precious")
    with pytest.raises(SystemExit):
        quadruped_switch.main(["--seconds", "1", "--record", str(tmp_path)])
    assert "switch-episode-0.mp4 is there already" in capsys.readouterr().err
    assert (tmp_path / "switch-episode-0.mp4").read_text() == "precious"


@pytest.mark.learning
def test_the_kept_agents_are_pushed_over_and_walk_on(capsys, tmp_path):
    pytest.importorskip("imageio_ffmpeg")
    flags = ["--push", "150", "--seconds", "30", "--seed", "1", "--record", str(tmp_path)]
    quadruped_switch.main(flags)
    lines = capsys.readouterr().out.splitlines()
    told = [line.split(" s: ")[1] for line in lines if " s: " in line]
    assert told[:3] == ["gets up", "walks", "gets up"]
    times = [float(line.split(" s: ")[0]) for line in lines if " s: " in line]
    assert np.all(np.diff(times) > 0)
    assert "walks" in told[3:]
    # How often it falls depends on the last digits of sums, which processors round differently.
    falls, rest = lines[-1].split(maxsplit=1)
    assert int(falls) == told.count("gets up") - 1
    assert rest in ("falls; it walks at the end.", "falls; it lies at the end.")
    assert (tmp_path / "switch-episode-0.mp4").stat().st_size > 10_000
