"""The quadruped's tasks: initial states, termination, rewards and demonstrations."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from spinup_tf2.envs.quadruped.episode import Motion
from spinup_tf2.envs.quadruped.gait import KEYFRAMES, STANCE, get_up, trot, trot_agreement
from spinup_tf2.envs.quadruped.robot import Base, Robot
from spinup_tf2.errors import UserError


@dataclass(frozen=True)
class Reward:
    """A weighted sum of terms."""

    terms: Callable[[Motion], dict[str, float]]  # by name
    weights: Mapping[str, float]  # by name
    # Further terms by name, which are only computed if they have a weight other than 0.
    optional: Mapping[str, Callable[[Motion], float]] = field(default_factory=dict)

    def with_weights(self, weights: Mapping[str, float]) -> "Reward":
        """Return the same reward with other weights for some of its terms."""
        known = {**self.weights, **self.optional}
        if not {*weights} <= {*known}:
            raise UserError(f"reward_weights is {weights}; the terms are {', '.join(known)}.")
        return replace(self, weights={**self.weights, **weights})

    def __call__(self, motion: Motion) -> dict[str, float]:
        """Return the weighted terms by name."""
        values = self.terms(motion)
        values |= {name: f(motion) for name, f in self.optional.items() if self.weights.get(name)}
        return {name: self.weights[name] * x for name, x in values.items()}


@dataclass(frozen=True)
class Task:
    """A task."""

    rewards: Mapping[str, Reward]  # by name; the first one is the default
    # begin(robot, rng, noise, sim_hz) puts the robot into the initial state of an episode, which is
    # always the same without `noise`.
    begin: Callable[[Robot, np.random.Generator, bool, int], None]
    terminated: Callable[[Motion], bool]  # of the last step
    success: Callable[[Motion], bool]
    # show(t, base) returns the joint angles `[12]`, in rad, at time t of a demonstration, for a
    # robot whose trunk was at `base` when the episode began.
    show: Callable[[float, Base], np.ndarray]
    action_scale: tuple[float, float, float]  # rad, of hip, upper and lower joints for an action 1
    phase_hz: float  # of the clock in the observation
    self_collision: bool  # whether legs and trunk collide with each other
    commanded: bool = False  # whether the robot is given commands how fast to walk and turn
    time_limit: float = 20.0  # s


# ------------------------------------------------------------------------------------------ walk

SLOWEST_WALK = 0.3  # m/s, for a success
STEEPEST = math.cos(math.radians(35))
LOWEST = 0.15  # m


def _walk(motion):
    return {
        "forward": min(max(motion.forward / motion.target_speed, -1.0), 1.0),
        "alive": 1.0,
        "lateral": -abs(motion.sideways),
        "yaw": -abs(motion.rates[2]),
        **_restraint(motion),
    }


def _restraint(motion):
    """Return penalties that apply to any way of walking."""
    return {
        "tilt_rate": -(motion.rates[0] ** 2 + motion.rates[1] ** 2),
        "energy": -motion.power,
        "action_rate": -np.sum(np.square(motion.act - motion.last_act)),
    }


_RESTRAINT_WEIGHTS = {"tilt_rate": 0.02, "energy": 3e-4, "action_rate": 0.0}
_WALK_WEIGHTS = {"forward": 1.0, "alive": 0.2, "lateral": 0.2, "yaw": 0.1, **_RESTRAINT_WEIGHTS}

# Optional terms against hopping.
_FOOTFALL = {
    "gait": lambda motion: trot_agreement(motion.clock, motion.feet()),
    "flight": lambda motion: -float(not any(motion.feet())),
}


def _walk_in_the_park(motion):
    """Reward of Smith, Kostrikov and Levine (2022), full for one to two times the target speed."""
    goal = motion.target_speed
    below, above = goal - motion.forward, motion.forward - 2 * goal
    missed = max(below, above, 0.0) / (2 * goal)
    return {"forward": max(1.0 - missed, 0.0), "yaw": -abs(motion.rates[2])}


def _stand(robot: Robot, rng: np.random.Generator, noise: bool, sim_hz: int) -> None:
    joints = STANCE + (rng.uniform(-0.1, 0.1, 12) if noise else 0.0)
    robot.place((0, 0, 0.30), (0, 0, 0), joints.tolist())
    robot.hold(joints.tolist(), round(0.05 * sim_hz))


def _fallen(motion):
    return motion.up < STEEPEST or motion.height < LOWEST


WALK = Task(
    rewards={
        "linear": Reward(_walk, _WALK_WEIGHTS, _FOOTFALL),
        "walk_in_the_park": Reward(_walk_in_the_park, {"forward": 10.0, "yaw": 1.0}, _FOOTFALL),
    },
    begin=_stand,
    terminated=_fallen,
    success=lambda motion: motion.mean_forward >= SLOWEST_WALK and not _fallen(motion),
    show=lambda t, base: trot(t),
    action_scale=(0.2, 0.4, 0.4),
    phase_hz=2.5,  # that of the trot
    self_collision=False,
)

# --------------------------------------------------------------------------------------- command

TRACKING, TURNING = 0.25, 0.5  # m/s, rad/s: errors at which the reward falls to 1/e
LARGEST_ERROR, LARGEST_ANGLE = 0.15, math.radians(15)  # m/s, and rad off the heading, for a success


def _command(motion):
    """Reward of Rudin and others (2022), full if velocity and turning are as commanded."""
    velocity_error, turning_error, _ = motion.errors
    return {
        "velocity": math.exp(-((velocity_error / TRACKING) ** 2)),
        "turning": math.exp(-((turning_error / TURNING) ** 2)),
        "alive": 1.0,
        **_restraint(motion),
    }


def _follows(motion):
    velocity_error, _, heading_error = motion.tracking.errors
    follows = velocity_error <= LARGEST_ERROR and heading_error <= LARGEST_ANGLE
    return follows and not _fallen(motion)


_COMMAND_WEIGHTS = {"velocity": 1.0, "turning": 0.5, "alive": 0.2, **_RESTRAINT_WEIGHTS}

COMMAND = replace(
    WALK,
    rewards={"tracking": Reward(_command, _COMMAND_WEIGHTS, _FOOTFALL)},
    success=_follows,
    commanded=True,
)

# --------------------------------------------------------------------------------------- recover


def _recover(motion):
    posture = math.exp(-2 * np.mean(np.square(motion.joints - STANCE)))
    upright, high = max(motion.up, 0.0), min(max(motion.height / 0.27, 0.0), 1.0)
    return {
        "upright": 1.0 + motion.up,
        "stance": posture * upright * high,
        "rates": -motion.curriculum * np.sum(np.square(motion.rates)),
        "energy": -motion.curriculum * motion.power,
    }


_RECOVER_WEIGHTS = {"upright": 0.25, "stance": 0.5, "rates": 2e-3, "energy": 1e-4}


def _fall(robot: Robot, rng: np.random.Generator, noise: bool, sim_hz: int) -> None:
    if noise:
        roll, yaw = rng.uniform(-math.pi, math.pi, 2)
        attitude = (roll, rng.uniform(-0.3, 0.3), yaw)
        joints = np.clip(STANCE + rng.uniform(-0.4, 0.4, 12), robot.lower, robot.upper)
    else:
        attitude, joints = (math.pi, 0.0, 0.0), STANCE
    robot.place((0, 0, 0.45), attitude, joints.tolist())
    robot.fall(round(0.6 * sim_hz))


def recovery(t: float, base: Base) -> np.ndarray:
    """Return joint angles `[12]` at time `t` after a fall that ended with the trunk at `base`."""
    _, left, up = base.rotation[2]  # z of the trunk's axes
    keyframes = () if up > 0.85 else KEYFRAMES["side" if up > 0.0 else "back"]  # else on its belly
    return get_up(t, keyframes, mirrored=left < 0)


RECOVER = Task(
    rewards={"bounded": Reward(_recover, _RECOVER_WEIGHTS)},
    begin=_fall,
    terminated=lambda motion: False,
    success=lambda motion: motion.up > 0.9 and motion.height > 0.22,
    show=recovery,
    action_scale=(0.8, 2.0, 1.0),
    phase_hz=0.2,  # one cycle per episode, so that the demonstration is a function of observations
    self_collision=True,
    time_limit=5.0,
)

TASKS = {"walk": WALK, "recover": RECOVER, "command": COMMAND}

# ------------------------------------------------------------------------------------- arguments

CONNECTIONS = {"GUI": "human", "DIRECT": None}  # PyBullet's names of the render modes
RENDER_MODES = ("human", "rgb_array", *CONNECTIONS)


ONLY_FOR = {"straight": "walk", "command_ranges": "command", "terminate_on_success": "recover"}
