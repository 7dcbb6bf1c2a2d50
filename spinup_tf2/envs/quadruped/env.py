"""The quadruped as a gymnasium environment."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType, SimpleNamespace
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import EzPickle

from spinup_tf2.arguments.rules import check, one_of, optional
from spinup_tf2.envs.quadruped import conditions, episode
from spinup_tf2.envs.quadruped.episode import Episode, Motion, Observer, finite_numbers
from spinup_tf2.envs.quadruped.gait import LEGS, STANCE
from spinup_tf2.envs.quadruped.robot import Model, Robot
from spinup_tf2.envs.quadruped.tasks import CONNECTIONS, ONLY_FOR, RENDER_MODES, TASKS
from spinup_tf2.errors import UserError

KEPT = 0.03  # s, the length of `history_buffer`


class QuadrupedEnv(gym.Env, EzPickle):
    """A Unitree A1 robot, with four legs of three joints each, simulated by PyBullet.

    Args:
        task: "walk", to walk forward, "command", to walk and turn as commanded, or "recover", to
            get up after a fall.
        render_mode: None, "rgb_array", or "human" for PyBullet's window. "DIRECT" and "GUI" are
            other names for None and "human".
        sim_hz: Substeps of the simulation per second. The PD controller acts in each of them.
        action_repeat: Substeps per step. The default of 25, at 500 substeps per second, makes 20
            steps per second.
        kp: Gain of the PD controller on the error of the joint angle, in Nm/rad.
        kd: Gain of the PD controller on the joint's speed, in Nms/rad. With 500 substeps per
            second, the control of a joint is unstable from 3.3 on.
        torque_limit: Largest torque of a joint, in Nm.
        velocity_limit: Speed in rad/s at which a joint can accelerate no further. Its largest
            torque falls linearly up to there; with None it is constant. An A1 has 21 rad/s.
        action_scale: Displacement, in rad, of the targets of hip, upper and lower joints for an
            action of 1. None means (0.2, 0.4, 0.4) for "walk" and "command", (0.8, 2.0, 1.0) for
            "recover".
        absolute_actions: Whether actions are joint angles in rad.
        residual_gait: Whether actions are added to those of the demonstration.
        action_filter: Cut-off frequency, in Hz, of a low-pass filter for the joints' targets; None
            for no filter.
        target_speed: Speed in m/s above which walking faster earns no more reward.
        straight: Whether "forward" is the direction in which the robot faced at the beginning of
            the episode, instead of the step. Observations then also contain how far it has turned
            since. For "walk" only.
        reward: "linear" or "walk_in_the_park" for "walk", "tracking" for "command", "bounded" for
            "recover". None means the first one of the task.
        reward_weights: Weights of terms of the reward, by name, that replace the default ones.
        phase_hz: Frequency of the clock in the observation, in Hz; 0 for no clock. None means 2.5
            for "walk" and "command", which is the frequency of the trot, and 0.2 for "recover", one
            cycle per episode.
        history: Whether observations contain the joints' errors and speeds of 10 and 20 ms ago.
        base_velocity: Whether observations contain the linear velocity of the trunk, which a real
            robot cannot measure.
        reset_noise: Whether initial states are random.
        domain_randomization: Whether to draw friction, mass and gains for each episode, and push
            the robot every five seconds. Or a dict that says what to draw: a number, or a pair
            (low, high), for any of `friction`, `mass`, `gains`, `torque_limit` (Nm), `latency`
            (s), `sensor_noise`, `push` (N), `push_speed` (m/s), `slope` (degrees) and
            `roughness` (m).
        command_ranges: Ranges from which commands are drawn: a number, or a pair (low, high), for
            any of `forward`, `sideways` (m/s), `turning` (rad/s), and `standing`, the share of
            commands to stand. For "command" only.
        terminate_on_success: Whether an episode ends when the robot has got up. For "recover" only.
        time_limit: Seconds after which an episode is truncated, whatever `action_repeat` is. None
            means 20 for "walk" and "command", 5 for "recover".
        prev_epochs: Number of epochs completed before; the curriculum starts from there.

    An **action** moves the joints' targets away from those of a standing robot, in the order of
    `gait.JOINTS`: Box(-1, 1, (12,)).

    **Info**: `x_position` (m), `x_velocity` (m/s; forward, mean over the step), `energy` (W, mean
    power of the joints over the step), `is_success` and, after a step, the weighted terms of the
    reward as `reward_forward` and so on.

    For "command" it also has `velocity_error` (m/s), `turning_error` (rad/s) and `heading_error`
    (rad), means over the episode that leave out the first second after each new command.

    **Options** of `reset`: `from_backup=True` begins at the state saved by `backup`; `take_over`,
    another QuadrupedEnv, continues with its robot in its current state; `command`, three numbers,
    is the command for the whole episode: m/s forward and to the left, from -3 to 3, and rad/s to
    the left, from -5 to 5.
    """

    metadata = {"render_modes": [*RENDER_MODES], "render_fps": 20}  # noqa: RUF012

    def __init__(
        self,
        task: str = "walk",
        render_mode: str | None = None,
        *,
        sim_hz: int = 500,
        action_repeat: int = 25,
        kp: float = 60.0,
        kd: float = 2.0,
        torque_limit: float = 33.5,
        velocity_limit: float | None = None,
        action_scale: Sequence[float] | None = None,
        absolute_actions: bool = False,
        residual_gait: bool = False,
        action_filter: float | None = None,
        target_speed: float = 0.5,
        straight: bool = False,
        reward: str | None = None,
        reward_weights: Mapping[str, float] | None = None,
        phase_hz: float | None = None,
        history: bool = True,
        base_velocity: bool = True,
        reset_noise: bool = True,
        domain_randomization: bool | Mapping[str, Any] = False,
        command_ranges: Mapping[str, Any] | None = None,
        terminate_on_success: bool = False,
        time_limit: float | None = None,
        prev_epochs: int = 0,
    ):
        arguments = {name: x for name, x in locals().items() if name not in ("self", "__class__")}
        EzPickle.__init__(self, **arguments)
        self.robot = None  # until everything has been checked
        check(one_of(*TASKS), task=task)
        check(optional(one_of(*RENDER_MODES)), render_mode=render_mode)
        for name, only in ONLY_FOR.items():
            if arguments[name] and task != only:
                raise UserError(f"{name} is for the task {only!r} only.")
        if absolute_actions and residual_gait:
            raise UserError("absolute_actions and residual_gait exclude each other.")
        self.render_mode = CONNECTIONS.get(render_mode, render_mode)
        self.sim_hz, self.action_repeat = int(sim_hz), int(action_repeat)
        self.dt = self.action_repeat / self.sim_hz
        self.metadata = self.metadata | {"render_fps": max(1, round(1 / self.dt))}

        self.task = TASKS[task]
        self.phase_hz = float(self.task.phase_hz if phase_hz is None else phase_hz)
        self.target_speed = float(target_speed)
        limit = self.task.time_limit if time_limit is None else float(time_limit)
        self._most_steps = max(1, round(limit / self.dt))
        self.absolute_actions, self.residual_gait = absolute_actions, residual_gait
        self.reset_noise = reset_noise
        self._randomized = conditions.randomization(domain_randomization)
        self._commands = episode.command_ranges(command_ranges) if self.task.commanded else None
        self.terminate_on_success = terminate_on_success
        rewards = self.task.rewards
        changed = {} if reward_weights is None else reward_weights
        self._reward = rewards[reward or next(iter(rewards))].with_weights(changed)
        if self._reward.weights.get("gait") and not self.phase_hz:
            raise UserError("The reward's term gait needs a clock; give a phase_hz other than 0.")
        scale = self.task.action_scale if action_scale is None else action_scale
        self._scale = np.tile(np.array(scale, float), len(LEGS))
        self._filter_share = 1.0  # share of the way to its goal that a target moves per step
        if action_filter is not None:
            self._filter_share -= math.exp(-2 * math.pi * float(action_filter) * self.dt)
        self._observer = Observer(
            sim_hz=self.sim_hz,
            dt=self.dt,
            phase_hz=self.phase_hz,
            history=history,
            base_velocity=base_velocity,
            straight=straight,
            target_speed=self.target_speed,
            commanded=self.task.commanded,
        )
        self._push_steps = max(1, round(conditions.PUSH_EVERY / self.dt))
        self._command_steps = max(1, round(episode.COMMAND_EVERY / self.dt))
        self.set_epoch(int(prev_epochs))

        self._model = Model(
            sim_hz=self.sim_hz,
            kp=float(kp),
            kd=float(kd),
            torque_limit=float(torque_limit),
            velocity_limit=None if velocity_limit is None else float(velocity_limit),
            roughness=max(self._randomized.get("roughness", (0.0,))),
            window=1 + max([round(KEPT * self.sim_hz), *self._observer.taps]),
            self_collision=self.task.self_collision,
            gui=self.render_mode == "human",
            visible=self.render_mode == "rgb_array",
        )
        self.robot = Robot(self._model)
        self._episode = self._backup = None
        self._shown = 0.0  # time at which the window was last updated
        limits = (self.robot.lower, self.robot.upper) if absolute_actions else (-1.0, 1.0)
        low, high = (np.full(12, limit, np.float32) for limit in limits)
        self.action_space = gym.spaces.Box(low, high)
        self.observation_space = self._observer.space(low, high)

    # ------------------------------------------------------------------------------- gymnasium

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict]:
        options = self._checked_options(options or {})
        if options.get("from_backup"):
            self.restore()
        super().reset(seed=seed)
        if not options.get("from_backup"):
            if options.get("take_over") is None:
                self._place()
            else:
                self._take_over(options["take_over"])
            self._begin(options.get("command"))
        if self.render_mode == "human":
            self.render()
        now = self._episode
        now.before, now.last_act, now.power = now.base, now.act, 0.0
        now.last = now.steps + self._most_steps  # a backup may be of any step
        return now.obs.copy(), self._info(self._motion())

    def step(self, action: np.ndarray) -> tuple[np.ndarray, float, bool, bool, dict]:
        now = self._episode
        act = finite_numbers(action, 12)
        if act is None:
            raise UserError(f"The action is {action!r}; it must be 12 finite numbers.")
        now.last_act = now.act
        now.act = np.clip(act, self.action_space.low, self.action_space.high)
        now.target = self._target(now.act)
        is_pushed = self.robot.conditions.push or self.robot.conditions.push_speed
        if is_pushed and now.steps and now.steps % self._push_steps == 0:
            self.robot.disturb(self.np_random.uniform(-math.pi, math.pi))
        now.power = self.robot.hold(now.target.tolist(), self.action_repeat)
        now.steps += 1
        now.before, now.base = now.base, self.robot.base()
        if self.render_mode == "human":
            self.render()
        motion = self._motion()
        if now.tracking is not None:
            now.tracking = now.tracking.after(motion.errors, self.dt)
            motion.tracking = now.tracking
            if not now.tracking.fixed and now.steps % self._command_steps == 0:
                command = episode.draw_command(self._commands, self.np_random)
                now.tracking = replace(now.tracking, command=command, steps=0)
        now.obs, info = self._obs(), self._info(motion)
        obs = now.obs.copy()
        if not np.isfinite(obs).all():  # the simulation has failed
            now.broken = True
            info["is_success"] = False
            return np.zeros_like(obs), 0.0, True, now.steps >= now.last, info
        terms = self._reward(motion)
        info |= {f"reward_{name}": x for name, x in terms.items()}
        over = self.task.terminated(motion) or (self.terminate_on_success and info["is_success"])
        return obs, float(sum(terms.values())), over, now.steps >= now.last, info

    def render(self) -> np.ndarray | None:
        """Return the frame, uint8 `[360, 480, 3]`; in mode "human" the window follows the robot."""
        if self.render_mode == "rgb_array":
            return self.robot.picture()
        if self.render_mode == "human":
            self.robot.look()
            time.sleep(max(0.0, self._shown + self.dt - time.monotonic()))
            self._shown = time.monotonic()
        return None

    def close(self) -> None:
        if self.robot is not None:
            self.robot.close()
        self._episode = self._backup = None

    @property
    def robustness(self) -> dict[str, dict[str, Any]]:
        """Conditions for evaluation: for each name, the arguments of the environment to change."""
        return conditions.robustness(self.task.commanded)

    # -------------------------------------------------------- interface of the original environment

    @property
    def t(self) -> float:
        """Seconds since the episode began."""
        return 0.0 if self._episode is None else self._episode.steps * self.dt

    @property
    def history_buffer(self) -> Mapping[str, Any]:
        """The last action, and the states of the joints in the last 30 ms.

        A dict of `last_action` `[12]` and `joint_state`, which holds `time` `[n]` in s, the newest
        last, and, each `[n, 12]`, `position` and `position_error` in rad and `velocity` in rad/s.
        It is a copy, which can only be read.
        """
        act, samples = self._episode.act, self.robot.samples
        position, velocity, target, _ = (np.array(each) for each in zip(*samples, strict=True))
        ago = np.arange(len(samples))[::-1] / self.sim_hz
        joint_state = _read_only(
            time=self.t - ago,
            position=position,
            velocity=velocity,
            position_error=position - target,
        )
        return _read_only(last_action=act.copy(), joint_state=joint_state)

    @property
    def feet_on_ground(self) -> list[bool]:
        """Whether each foot touches the ground, `[4]`, in the order of `gait.LEGS`."""
        return self.robot.feet_on_ground()

    @property
    def curriculum_factor(self) -> float:
        """Factor of the penalties in "recover", 0.3 at first, 0.48 after 100 epochs, finally 1."""
        return 0.3 ** (0.995**self.epoch)

    def add_epoch(self) -> None:
        """Tell the environment that an epoch of training has ended."""
        self.set_epoch(self.epoch + 1)

    addEpoch = add_epoch  # the original's name

    def set_epoch(self, epoch: int) -> None:
        """Set the number of completed epochs, including `prev_epochs`."""
        self.epoch = epoch

    def target_policy(self, t: float) -> np.ndarray:
        """Return the action of a demonstration (a trot, or getting up) at time `t` in seconds."""
        return self.action_of(self.task.show(t, self._episode.began))

    def action_of(self, angles: np.ndarray) -> np.ndarray:
        """Return the action that is currently closest to joint angles `[12]` in rad."""
        action = angles if self.absolute_actions else (angles - self._middle()) / self._scale
        return np.clip(action, self.action_space.low, self.action_space.high).astype(np.float32)

    # -------------------------------------------------------------------------- save and restore

    def backup(self) -> None:
        """Save the current state for `restore`, replacing the previously saved one."""
        now = self._episode
        if self._backup is not None:
            self.robot.forget_saved(self._backup.robot)
        self._backup = SimpleNamespace(
            robot=self.robot.save(), episode=replace(now), random=self.np_random.bit_generator.state
        )

    def restore(self) -> None:
        """Return to the state saved by `backup`; the same actions then lead to the same results.

        To begin an episode there, call `reset(options={"from_backup": True})`, so that wrappers are
        reset, too.
        """
        self.robot.restore(self._backup.robot)
        self._episode = replace(self._backup.episode)
        self.np_random.bit_generator.state = self._backup.random

    # --------------------------------------------------------------------------------- internals

    def _checked_options(self, options):
        """Return the options of `reset`, the command as floats `[3]`, after checking them."""
        known = ["from_backup", "take_over"] + ["command"] * self.task.commanded
        if not {*options} <= {*known} or (options.get("from_backup") and len(options) > 1):
            raise UserError(
                f"The options are {options}; they may be {', '.join(known)}, and from_backup "
                "excludes the others."
            )
        if options.get("command") is None:
            return options
        return options | {"command": episode.checked_command(options["command"])}

    def _take_over(self, other):
        """Use the robot of another environment from now on."""
        if other._model != self._model:
            raise UserError(
                f"take_over needs environments whose robots are alike, and these are "
                f"{self._model} and {other._model}. Make them with the same arguments."
            )
        if self.robot is not other.robot:
            self.robot.close()
            self.robot, self._backup = other.robot, None

    def _place(self):
        """Put the robot into the initial state of an episode."""
        rng = self.np_random
        if self._episode is not None and self._episode.broken:
            self.robot.close()
            self.robot, self._backup = Robot(self._model), None
        # Done even if nothing is drawn: the robot may have been taken over with other conditions.
        self.robot.set_conditions(conditions.draw_conditions(self._randomized, rng))
        self.task.begin(self.robot, rng, self.reset_noise, self.sim_hz)

    def _begin(self, command):
        """Begin an episode in the robot's current state.

        Args:
            command: The only command of the episode; None to draw commands.
        """
        base, act = self.robot.base(), STANCE if self.absolute_actions else np.zeros(12)
        target = np.array(self.robot.samples[-1].target)
        self._episode = Episode(base, base, base, act, act, target)
        if self.task.commanded:
            drawn = (
                episode.draw_command(self._commands, self.np_random) if command is None else command
            )
            self._episode.tracking = episode.at_rest(drawn, base.yaw, fixed=command is not None)
        self._episode.obs = self._obs()

    def _middle(self):
        """Return the joint angles that an action of 0 currently stands for."""
        return self.task.show(self.t, self._episode.began) if self.residual_gait else STANCE

    def _target(self, act):
        goal = act if self.absolute_actions else self._middle() + self._scale * act
        goal = np.clip(goal, self.robot.lower, self.robot.upper)
        return goal + (1 - self._filter_share) * (self._episode.target - goal)

    def _obs(self):
        """Return the observation, float32 `[n]`; see the table in the docs."""
        obs = self._observer(self.robot, self._episode, self.np_random)
        space = self.observation_space
        return obs.astype(np.float32).clip(space.low, space.high)

    def _motion(self):
        return Motion(self.robot, self._episode, self._observer, self.curriculum_factor)

    def _info(self, motion):
        info = dict(
            x_position=float(motion.position[0]),
            x_velocity=float(motion.forward),
            energy=motion.power,
            is_success=bool(self.task.success(motion)),
        )
        if motion.tracking is not None:
            names = ("velocity_error", "turning_error", "heading_error")
            info |= zip(names, motion.tracking.errors, strict=True)
        return info


def _read_only(**values):
    """Return a dict that cannot be changed, nor its arrays: a change would have no effect."""
    for x in values.values():
        if isinstance(x, np.ndarray):
            x.setflags(write=False)
    return MappingProxyType(values)
