"""The training loop of the off-policy algorithms: act, store, update, evaluate, log, save."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtr

from spinup_tf2.core.nets.acting import Actor
from spinup_tf2.core.nets.checks import check_no_variable_in_both, class_for, make_q_actor_critic
from spinup_tf2.core.nets.layers import first_weights, initial_weights_from
from spinup_tf2.core.nets.q_actor_critic import QActorCritic
from spinup_tf2.core.replay_buffer import ReplayBuffer, batch_rows
from spinup_tf2.core.update_block import UpdateBlock
from spinup_tf2.core.vector_env import VectorEnv, lost
from spinup_tf2.envs.spaces import ActionSpec
from spinup_tf2.parallel.mpi import beat, num_procs

XLA_PAYS_AFTER = 5000  # updates; with fewer, XLA saves less time than it takes to compile


@dataclass(frozen=True)
class Schedule:
    """When an off-policy algorithm acts at random, when it learns, and from how much data.

    The attributes are the arguments of the same names; `arguments.table` describes them.
    """

    replay_size: int
    batch_size: int
    start_steps: int
    update_after: int
    update_every: int
    num_updates: int | None = None

    @property
    def block_length(self) -> int:
        """How many updates a block consists of."""
        return self.num_updates or self.update_every

    def updates_due(self, end: int) -> int:
        """Return how many blocks of updates are due after the interactions 0 to `end - 1`.

        As in Spinning Up, which counts interactions one by one, a block follows each interaction
        whose number is a multiple of update_every and at least update_after.
        """
        if end <= self.update_after:
            return 0
        return (end - 1) // self.update_every - (self.update_after - 1) // self.update_every


def networks(
    actor_critic: Callable[..., QActorCritic],
    ac_kwargs: dict | None,
    envs: VectorEnv,
    init: str | None,
    *,
    num_q: int,
    stochastic: bool = False,
) -> tuple[QActorCritic, QActorCritic]:
    """Create an actor-critic and its target networks, check them, and draw the initial weights.

    Args:
        actor_critic, ac_kwargs: The function or class that creates the networks, and its arguments.
        envs: The environments.
        init: Weight initialization; None: 'torch', or for an actor_critic of the user's, the
            weights that it comes with.
        num_q: How many Q-functions the algorithm trains.
        stochastic: Whether the policy is a distribution; only then are Discrete action spaces
            supported.

    Raises:
        UserError: The networks do not meet these requirements.
    """
    spaces = envs.observation_space, envs.prototype.action_space
    make = partial(make_q_actor_critic, actor_critic, *spaces, ac_kwargs, stochastic, num_q)
    with initial_weights_from(envs.randomness.seed):
        ac, target = make(), make()
        both = "the networks and the target networks"
        check_no_variable_in_both(ac.variables, target.variables, both)
        first_weights(ac, class_for(actor_critic, envs.observation_space), init, "torch")
    return ac, target


def pays_to_compile(settings: Any, schedule: Schedule, ac: QActorCritic) -> bool:
    """Return whether to compile updates with XLA: in long runs whose networks it can compile."""
    steps = settings.epochs * settings.steps_per_epoch - schedule.update_after
    updates = steps * schedule.block_length / schedule.update_every
    return updates >= XLA_PAYS_AFTER and ac.jit_compile


def replay_buffer(envs: VectorEnv, schedule: Schedule, settings: Any) -> ReplayBuffer:
    """Return this process's share of the replay buffer, empty: no larger than the run can fill."""
    spec = envs.action_spec
    size = min(schedule.replay_size, settings.epochs * settings.steps_per_epoch)
    return ReplayBuffer(
        *(envs.observation_space.shape, spec.shape, spec.dtype),
        size // (envs.num_envs * num_procs()),
        envs.randomness.generators(),
        obs_dtype=envs.obs_dtype,
    )


def train(
    run: Any,
    target: QActorCritic,
    update: UpdateBlock,
    buffer: ReplayBuffer,
    schedule: Schedule,
    *,
    noise: Sequence[str] = (),
    explore: Callable[[np.ndarray, np.ndarray, int], np.ndarray] | None = None,
) -> None:
    """Train until the last epoch is over.

    Args:
        run: The open run (`training.run.Run`). It owns epochs, rows of the log, saves and stops.
        target: The target networks.
        update: The block of updates. It is called with the minibatches `[updates, batch, ...]` that
            ReplayBuffer.sample returns and the number of the first update, and returns a dict of
            arrays to log.
        buffer: The replay buffer.
        schedule: When to act at random and when to learn.
        noise: Names under which minibatches hold standard normal noise `[updates, batch,
            *noise_shape]`.
        explore: Function `explore(act, noise, t)` that returns the action to take where the policy
            chose `act`, given noise `[n, *noise_shape]` and the number of interactions so far;
            None: the policy has used the noise itself and `act` is taken.
    """
    envs, settings = run.envs, run.settings
    num_envs = envs.num_envs * num_procs()  # of all processes
    actor = Actor(run.ac)
    episodes = EpisodesOfEpoch(run)
    rows_of = partial(batch_rows, schedule.batch_size, num_envs, envs.indices)
    shapes = dict.fromkeys(noise, envs.action_spec.noise_shape)
    # Networks that are already trained act from the beginning.
    start_steps = schedule.start_steps if settings.init_from is None else -1
    look_every = max(1, schedule.update_every // num_envs)  # steps between checks for a stop
    if run.epoch == run.first_step == 0:
        target.set_weights(run.ac.variables)  # including variables that are not trained
    actor.refresh()  # the weights may be those of a checkpoint
    total = settings.epochs * settings.steps_per_epoch
    if not schedule.updates_due(total):
        run.logger.warn_once(
            f"nothing will be learned: the {total} interactions of this run end before the first "
            f"update (update_after is {schedule.update_after}, update_every "
            f"{schedule.update_every})."
        )

    obs = None
    for epoch in run.epochs():
        act_noise = envs.randomness.noise(epoch, settings.local_steps)
        for step in range(run.first_step, settings.local_steps):
            beat()
            obs = run.observations(obs, step)  # of new episodes, when these are due
            t = epoch * settings.steps_per_epoch + step * num_envs  # interactions so far
            if t > start_steps:
                act, _ = actor(obs, act_noise[step])
                act = act if explore is None else explore(act, act_noise[step], t)
            else:
                act = uniform(envs.action_spec, act_noise[step])
            next_obs, rew, terminated, truncated, final_obs = envs.step(act)
            run.check_step(step + 1, next_obs, rew, final_obs)
            episodes.store(step, rew, terminated | truncated, lost(final_obs))
            buffer.store(obs, act, rew, terminated, next_obs, final_obs)
            obs = next_obs  # critical: the policy must see the result of this step
            for block in range(schedule.updates_due(t), schedule.updates_due(t + num_envs)):
                first = block * schedule.block_length  # the number of the first update
                rows = rows_of(range(first, first + schedule.block_length))
                run.record(update(buffer.sample(rows, shapes), first))
                actor.refresh()
            if (step + 1) % look_every == 0 and run.asked_to_stop():
                episodes.log(step + 1)
                run.leave(step + 1)
        episodes.log(settings.local_steps)
        run.finish_epoch()


class EpisodesOfEpoch:
    """Collects the rewards and episode ends of an epoch, and logs the episodes that ended."""

    def __init__(self, run: Any):
        envs, steps = run.envs, run.settings.local_steps
        self.run = run
        self.rew = np.zeros((steps, envs.num_envs))
        self.ends, self.lost = np.zeros((2, steps, envs.num_envs), bool)

    def store(self, step: int, rew: np.ndarray, ends: np.ndarray, lost_by: list[int]) -> None:
        """Store rewards and episode ends `[n]` of step `step` of the epoch.

        `lost_by` lists the environments that lost the step.
        """
        self.rew[step], self.ends[step], self.lost[step] = rew, ends, False
        self.lost[step, lost_by] = True

    def log(self, end: int) -> None:
        """Log the episodes that ended before step `end`.

        They are counted from the step at which the epoch began, or was resumed.
        """
        new = slice(self.run.first_step, end)
        self.run.count_episodes(self.rew[new], self.ends[new], self.lost[new])


class ActionNoise:
    """Noise x that is added to the policy's actions, whose sum is clipped to [-1, 1].

    x_t = (1 - theta) x_(t-1) + act_noise * N(0, 1), where theta is 1 for independent noise,
    'normal', and 0.15 for the Ornstein-Uhlenbeck process 'ou' (Lillicrap et al. 2016, section 7).
    The process is that of an environment: it continues from one episode to the next.

    Args:
        noise: 'normal' or 'ou'.
        act_noise: Standard deviation of what is drawn in each step.
        envs: The training environments.
    """

    def __init__(self, noise: str, act_noise: float, envs: VectorEnv):
        self.kept = {"normal": 0.0, "ou": 0.85}[noise]
        self.act_noise = act_noise
        self.x = np.zeros((envs.num_envs, *envs.action_spec.noise_shape), np.float32)

    def __call__(self, act: np.ndarray, noise: np.ndarray, t: int) -> np.ndarray:
        """Return the actions to take for the policy's `act`, both `[n, *act_shape]`."""
        self.x = self.kept * self.x + self.act_noise * noise
        return np.clip(act + self.x, -1, 1)

    def env_state(self, i: int) -> dict[str, np.ndarray]:
        return dict(x=self.x[i])

    def set_env_state(self, i: int, state: Mapping[str, np.ndarray]) -> None:
        self.x[i] = state["x"]


def uniform(spec: ActionSpec, noise: np.ndarray) -> np.ndarray:
    """Return uniformly distributed actions `[n, *act_shape]`, computed from a policy's noise."""
    if spec.num_choices is not None:
        return noise.argmax(-1)
    # The cumulative distribution function of the normal makes the noise uniform in [0, 1].
    return (2 * ndtr(noise) - 1).astype(spec.dtype)
