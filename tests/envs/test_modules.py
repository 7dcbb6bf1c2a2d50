"""A file's word imports what installed packages register environments with, and nothing else."""

import json
import os
import sys
from importlib.util import find_spec

import gymnasium as gym
import pytest

from spinup_tf2.envs import atari, modules
from spinup_tf2.envs.making import EnvFn
from spinup_tf2.envs.modules import (
    ModuleRefused,
    check_environment_arguments,
    forget_current_directory,
    import_flag,
    import_for_file,
    import_named,
    import_registering,
)
from spinup_tf2.errors import UserError
from spinup_tf2.files.env_spec import register_for_file

REGISTERS = "import gymnasium\n\ndef register():\n    gymnasium.register('Shop-v0', '{}')\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    """The current directory, in which Python looks for modules before all others."""
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.chdir(tmp_path)
    atari.is_atari("ALE/Pong-v5")  # registers the games, which it would not do again
    known = {*gym.registry}
    yield tmp_path
    for name, module in [*sys.modules.items()]:
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]
    for env_id in [name for name in gym.registry if name not in known]:
        del gym.registry[env_id]


def write(folder, name, code=""):
    path = folder / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code or REGISTERS.format("spinup_tf2.envs:ProbeReward"))


def write_package(
    folder, entry="shop_of_envs:register", editable=None, name="shop-of-envs", inside="__root__"
):
    """What installing a package leaves beside its modules; without an entry point if it is ""."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    if entry:
        (info / "entry_points.txt").write_text(f"[gymnasium.envs]\n{inside} = {entry}\n")
    if editable:
        url = dict(url=editable.as_uri(), dir_info=dict(editable=True))
        (info / "direct_url.json").write_text(json.dumps(url))


def install(place, entry="shop_of_envs:register"):
    site = place / "venv" / "site-packages"
    write_package(site, entry)
    sys.path.append(str(site))
    return site


@pytest.mark.parametrize("entry", ["shop_of_envs:register", "shop_of_envs.__init__:register"])
def test_an_installed_package_registers_its_environments(place, entry):
    write(install(place, entry), "shop_of_envs/__init__")
    assert import_flag("shop_of_envs:Shop-v0") == ""
    with EnvFn("Shop-v0")() as env:  # found without its module, as in the process of a run
        assert env.spec.id == "Shop-v0"
    assert import_for_file("shop_of_envs") is sys.modules["shop_of_envs"]


REGISTERS_AT_ONCE = "import gymnasium\ngymnasium.register('{}', 'spinup_tf2.envs:ProbeReward')\n"


@pytest.mark.parametrize(
    ("package", "module", "env_id"),
    [
        ("gym-pusht", "gym_pusht", "gym_pusht/PushT-v0"),
        ("Panda_Gym", "panda_gym", "PandaReach-v3"),
        ("PyFlyt", "PyFlyt.gym_envs", "PyFlyt/QuadX-Hover-v4"),
        pytest.param(
            *("MinAtar", "minatar.gym", "MinAtar/Test-v1"),
            marks=pytest.mark.skipif(find_spec("minatar") is not None, reason="it is installed"),
        ),
    ],
)
def test_environments_of_well_known_packages_need_no_module(place, package, module, env_id):
    """Nor are other packages imported to find them."""
    site = place / "venv" / "site-packages"
    parent, _, _ = module.partition(".")
    sys.path.append(str(site))
    write_package(site, "", name=package)
    write(site, f"{parent}/__init__", " ")
    code = REGISTERS_AT_ONCE.format(env_id)
    if parent == "minatar":
        code = REGISTERS.replace("register()", "register_envs()").replace("Shop-v0", env_id)
        code = code.format("spinup_tf2.envs:ProbeReward")
    write(site, f"{parent}/gym_envs" if package == "PyFlyt" else module.replace(".", "/"), code)
    if module == parent:
        (site / f"{module}.py").rename(site / module / "__init__.py")
    for other in ("shimmy", "myosuite"):
        write_package(site, "", name=other)
        write(site, other, "raise SystemExit('executed')")
    write_package(site, "elsewhere:register", name="elsewhere", inside="elsewhere")
    if "/" in env_id:
        write(site, "elsewhere", "raise SystemExit('executed')")
    assert register_for_file(env_id) == env_id
    with EnvFn(env_id)() as env:
        assert env.spec.id == env_id
    assert import_flag(env_id) == import_flag(f"{parent}:{env_id}") == ""


def test_a_well_known_package_that_cannot_be_imported_says_why(place):
    site = place / "venv" / "site-packages"
    sys.path.append(str(site))
    write_package(site, "", name="panda-gym")
    write(site, "panda_gym/__init__", "raise OSError('no display')")
    with pytest.raises(UserError, match=r"panda_gym cannot be imported \(OSError: no display\)"):
        EnvFn("PandaReach-v3")()


def test_an_id_names_the_installed_module_that_is_its_namespace(place):
    """If it is the user's word; a file's is not enough."""
    site = place / "venv" / "site-packages"
    sys.path.append(str(site))
    code = "from spinup_tf2.envs import ProbeReward as Shop\n"
    code += REGISTERS_AT_ONCE.replace("spinup_tf2.envs:ProbeReward", "corner:Shop")
    write(site, "corner", code.format("corner/Shop-v0"))
    write(place, "beside", "raise SystemExit('executed')")
    for env_id in ("corner/Shop-v0", "beside/Shop-v0"):
        with pytest.raises(UserError, match="--import my_envs"):
            register_for_file(env_id)
    with EnvFn("corner/Shop-v0")() as env:
        assert env.spec.id == "corner/Shop-v0"
    assert import_flag("corner/Shop-v0") == " --import corner"
    with pytest.raises(UserError, match="environment of another package as package:EnvId"):
        EnvFn("beside/Shop-v0")()


def test_of_an_installed_package_only_what_registers_is_imported(place):
    site = install(place, "shop_of_envs.registration:register")
    for name in ("__init__", "registration", "train"):
        write(site, f"shop_of_envs/{name}")
    import_for_file("shop_of_envs.registration")
    with pytest.raises(ModuleRefused, match=r"import shop_of_envs\.train, which"):
        import_for_file("shop_of_envs.train")


@pytest.mark.parametrize("shadow", ["shop_of_envs", "shop_of_envs/__init__"])
def test_what_lies_in_the_current_directory_takes_no_package_s_place(place, shadow):
    write(install(place), "shop_of_envs", "")
    write(place, shadow, "raise SystemExit('executed')")
    import_registering("Shop-v0")
    with pytest.raises(ModuleRefused, match="asks to import shop_of_envs"):
        import_for_file("shop_of_envs")


def test_a_folder_that_looks_like_an_installed_package_is_none(place):
    write_package(place)
    write(place, "shop_of_envs")
    with pytest.raises(ModuleRefused):
        import_for_file("shop_of_envs")
    assert import_flag("shop_of_envs:Shop-v0") == " --import shop_of_envs"


def test_a_package_that_is_installed_where_it_is_edited(place):
    project, site = place / "project", place / "site-packages"
    write(project, "src/shop_of_envs")
    write_package(site, editable=project)
    sys.path[:0] = [str(site), str(project / "src")]
    assert import_for_file("shop_of_envs").__file__.startswith(str(project))


def test_a_project_is_found_from_within(place, monkeypatch):
    project, site = place / "project", place / "site-packages"
    write(project, "shop_of_envs")
    write_package(site, editable=project)
    sys.path[:0] = [str(site), str(project)]
    monkeypatch.chdir(project)
    forget_current_directory()
    with EnvFn("Shop-v0")() as env:
        assert env.spec.id == "Shop-v0"


def test_the_emulator_of_atari_games_is_what_is_installed(place, monkeypatch):
    for name in [name for name in sys.modules if name.partition(".")[0] == "ale_py"]:
        monkeypatch.delitem(sys.modules, name)
    for env_id in [name for name in gym.registry if name.startswith("ALE/Pong")]:
        monkeypatch.delitem(gym.registry, env_id)
    write(place, "ale_py", "raise SystemExit('executed')")
    with pytest.raises(UserError, match="the emulator cannot be loaded"):
        atari.is_atari("ALE/Pong-v5")


@pytest.mark.parametrize(
    "name",
    [
        "",
        ".",
        "a..b",
        ".a",
        "venv.__main__",
        "__main__",
        "gymnasium.__init__",
        "a b",
        "../a",
        "a:b",
    ],
)
def test_names_that_are_none(name):
    with pytest.raises(UserError, match="no name of a module"):
        import_for_file(name)


@pytest.mark.parametrize("code", ["1 / 0", "raise SystemExit(3)", "import no_such_thing"])
def test_modules_of_the_user_that_cannot_be_imported(place, code):
    write(place, "my_envs", code)
    with pytest.raises(UserError, match="'my_envs', which you name, cannot be imported"):
        import_named("my_envs")


@pytest.mark.parametrize(
    "arguments",
    [
        {"env_id": "deploy:X-v0"},
        {"nested": [{"a": ["deploy:main"]}]},
        {"f": "os:system"},
        {"f": "gymnasium.wrappers:no_such"},
        {"f": "antigravity:X"},
        {"f": "venv.__main__:main"},
        # gymnasium.make imports what is before the colon, and only then looks at the rest.
        *({"env_id": f"deploy:{name}"} for name in ("", "1", " X", "-", "X\n", ":")),
        {"env_id": "my-envs:X-v0"},
    ],
    ids=str,
)
def test_arguments_that_stand_for_code(place, arguments):
    for name in ("deploy", "my-envs"):
        write(place, name, "raise SystemExit('executed')")
    with pytest.raises(UserError, match=r"asks (for|to import)|neither an environment nor"):
        check_environment_arguments(arguments)


def test_arguments_that_stand_for_environments_and_those_that_are_texts():
    check_environment_arguments(
        {
            "env": "gymnasium:CartPole-v1",
            "wrapper": "gymnasium.wrappers:TimeLimit",
            "texts": [
                "cuda:0",
                "12:30",
                "https://example.org",
                "a: b",
                "unheard_of:thing",
                ":",
                "",
            ],
            "numbers": [1, 2.5, None, True],
        }
    )


def test_the_current_directory_is_forgotten(tmp_path, monkeypatch):
    paths = ["", str(tmp_path), "/somewhere", f"{tmp_path}/."]
    monkeypatch.setattr(sys, "path", [*paths])
    monkeypatch.chdir(tmp_path)
    forget_current_directory()
    assert sys.path == ["/somewhere"]
    # The package may lie there, if it is not installed.
    monkeypatch.setattr(sys, "path", [*paths])
    monkeypatch.setattr(modules, "__file__", f"{tmp_path}/spinup_tf2/envs/modules.py")
    forget_current_directory()
    assert sys.path == paths
    assert os.getcwd() == str(tmp_path)
