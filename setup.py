"""Build script: `pip install .` or `pip install -e ".[dev]"`."""

from pathlib import Path
from runpy import run_path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = run_path(str(HERE / "spinup_tf2" / "version.py"))["__version__"]

EXTRAS = {
    "mpi": ["mpich"],
    "mujoco": ["gymnasium[mujoco]"],
    "atari": ["ale-py>=0.10"],
    "box2d": ["gymnasium[box2d]"],
    "minatar": ["minatar>=1.0.15"],
    # The game comes with 7, later releases have other rewards and not all levels; nes-py is built
    # while it is installed, by a C++ compiler. gymnasium brings pygame, for the window.
    "mario": [
        "gym-super-mario-bros>=7.4,<8",
        "nes-py>=8.2.1,<9",
        "opencv-python>=4.8",
        "gymnasium[classic-control]",
    ],
    "quadruped": ["pybullet"],
    # With it comes all of EnvPool. On Linux the games also need Qt 5, which no wheel brings.
    "procgen": ['envpool>=1.2.5; python_version >= "3.11"'],
    "video": ["imageio-ffmpeg", "gymnasium[classic-control]"],
    "tensorboard": ["tensorboard"],
    "wandb": ["wandb>=0.20"],  # reinit="create_new"
    # The client; sqlalchemy and the others are for its own database, where there is no server.
    "mlflow": ["mlflow-skinny>=2.14", "sqlalchemy>=2", "alembic", "sqlparse"],
    "tuning": ["optuna>=4"],
    "notebook": ["ipykernel", "nbclient", "nbformat"],
    "docs": ["sphinx>=8", "furo", "myst-parser>=4", "ziamath>=0.12"],
}
EXTRAS["tracking"] = EXTRAS["tensorboard"] + EXTRAS["wandb"] + EXTRAS["mlflow"]
# Everything that the tests use.
IN_DEV = ["mpi", "mujoco", "atari", "box2d", "minatar", "mario", "video", "notebook", "docs"]
IN_DEV += ["tracking", "tuning"]
EXTRAS["dev"] = [
    'pybullet; python_version < "3.12" and platform_machine == "x86_64"',  # others compile it
    "pytest>=7",
    "pytest-xdist>=3",  # two processes run the tests
    "hypothesis>=6.100",  # makes the inputs of the fuzz tests
    "ruff>=0.6",
    "codespell>=2.4",
    "mypy>=1.11",
    "moviepy>=1.0",  # of gymnasium's own recorder, which other programs use
    *(package for name in IN_DEV for package in EXTRAS[name]),
]
EXTRAS["all"] = sorted({package for packages in EXTRAS.values() for package in packages})

setup(
    name="spinup_tf2",
    version=VERSION,
    description="Spinning Up's deep reinforcement learning algorithms on TensorFlow 2",
    long_description=(HERE / "README.md").read_text(encoding="utf-8"),
    long_description_content_type="text/markdown",
    license="MIT",
    license_files=["LICENSE"],
    classifiers=[
        "Intended Audience :: Education",
        "Intended Audience :: Science/Research",
        "Operating System :: POSIX :: Linux",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Topic :: Scientific/Engineering :: Artificial Intelligence",
    ],
    packages=find_packages(include=["spinup_tf2", "spinup_tf2.*"]),
    package_data={
        "spinup_tf2": ["py.typed", "presets/*.toml", "envs/mario/*.toml", "envs/quadruped/*.json"]
    },
    python_requires=">=3.10,<3.14",
    install_requires=[
        # tensorflow-probability is built on tf-keras, of which each minor release needs the one of
        # tensorflow with the same number. Both are raised together, when both are there.
        "tensorflow>=2.16,<2.22",
        "tf-keras>=2.16,<2.22",
        "tensorflow-probability>=0.24",
        "mpi4py>=4.1",
        "gymnasium>=1.1,<2",  # 1.1 brought SAME_STEP autoreset
        "numpy>=1.26",
        "scipy>=1.15",  # bootstrap takes rng
        "joblib>=1.3",
        "cloudpickle>=3.0",
        "pandas>=2.0",
        "seaborn>=0.13",
        "matplotlib>=3.7",
        "tqdm>=4.65",
        "psutil>=5.9",
        "typing-extensions>=4.6",  # Unpack, of Python 3.11
        'tomli>=2; python_version < "3.11"',  # is tomllib, of Python 3.11
    ],
    extras_require=EXTRAS,
    entry_points={
        "console_scripts": ["spinup_tf2 = spinup_tf2.run:main"],
        # gymnasium 1.x registers by import; the entry point is for tools that look for plugins.
        "gymnasium.envs": ["__root__ = spinup_tf2.envs:register_envs"],
    },
)
