"""Without the extra, or with other releases of its packages, one line says what to install."""

import sys

import gymnasium as gym
import pytest

import spinup_tf2  # noqa: F401  (registers its environments)
from spinup_tf2.envs.mario import emulator, is_mario
from spinup_tf2.errors import UserError
from spinup_tf2.run import main
from spinup_tf2.utils.run_utils import EnvFn
from tests.envs.mario.consoles import emulator_marks

pytestmark = emulator_marks  # only with the others can each one be missed

ENV = "SuperMarioBros-1-1-v0"
INSTALL = r'pip install "spinup_tf2\[mario\]"'
PACKAGES = {
    "gym_super_mario_bros": "gym-super-mario-bros",
    "nes_py": "nes-py",
    "cv2": "opencv-python",
}


@pytest.fixture
def nothing_loaded(monkeypatch):
    monkeypatch.delitem(sys.modules, "spinup_tf2.envs.mario.env", raising=False)
    emulator._library.cache_clear()
    yield
    emulator._library.cache_clear()


@pytest.fixture(params=PACKAGES)
def missing(request, monkeypatch, nothing_loaded):
    """As if a package were not installed: the name of its distribution."""
    monkeypatch.setitem(sys.modules, request.param, None)
    return PACKAGES[request.param]


def test_a_package_is_missing(missing, capsys, tmp_path):
    message = f"^Super Mario Bros needs {missing}, which is not installed; .*: {INSTALL}$"
    for make in (gym.make, lambda env_id: EnvFn(env_id)()):
        with pytest.raises(UserError, match=message):
            make(ENV)
    with pytest.raises(SystemExit) as ended:
        main(["ppo", "--env", ENV, "--data_dir", str(tmp_path / "data")])
    assert ended.value.code == 2
    told = capsys.readouterr().err
    assert told.startswith(f"spinup_tf2: error: Super Mario Bros needs {missing}")
    assert told.count("\n") == 1
    assert not [*tmp_path.iterdir()]
    assert is_mario(ENV)
    assert EnvFn("CartPole-v1")().spec.id == "CartPole-v1"


@pytest.mark.usefixtures("nothing_loaded")
@pytest.mark.parametrize(
    ("package", "message"),
    [
        ("nes_py", "needs nes-py 8, which is not installed"),
        ("gym_super_mario_bros", r"has no game super-mario-bros\.nes"),
    ],
)
def test_another_release_is_installed(package, message, monkeypatch, tmp_path):
    (tmp_path / package).mkdir()
    (tmp_path / package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UserError, match=f"{message}.*: {INSTALL}$"):
        gym.make(ENV)
