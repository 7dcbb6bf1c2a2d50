"""On-policy training once more, slowly: from what environments have written down, in float64.

Nothing of the package is used here but the weights that a run begins with, the noise and the
minibatches that it has drawn, and what its environments have seen.
"""

from collections.abc import Callable
from types import SimpleNamespace

import gymnasium as gym
import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from spinup_tf2.core.nets.actor_critic import ActorCritic, MLPActorCritic
from spinup_tf2.core.nets.heads import CategoricalPolicy, ValueFunction
from spinup_tf2.core.workers.randomness import Randomness
from spinup_tf2.training.run import Run
from tests.on_policy_runs import train

BOX, DISCRETE = spaces.Box(-1, 1, (2,), np.float32), spaces.Discrete(3)


class Diarist(gym.Env):
    """Random observations and rewards; episodes end at random, half of them by a time limit.

    What is observed is of different size in its dimensions, far from 0 on average, and very far for
    once. diary: a list to which a list of steps is added for each episode.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (3,), np.float32)

    def __init__(self, diary: list, action_space: spaces.Space):
        self.diary = diary
        self.action_space = action_space
        self.t = 0

    def _see(self):
        self.obs = self.np_random.normal([1, 0.2, -2], [1, 0.3, 2]).astype(np.float32)
        self.t += 1
        if self.t == 40:
            self.obs[1] = 20.0
        return self.obs

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.diary.append([])
        return self._see(), {}

    def step(self, action):
        obs, rew, chance = self.obs, self.np_random.normal(2, 3), self.np_random.uniform()
        terminated, truncated = bool(chance < 0.15), bool(0.15 <= chance < 0.3)
        step = dict(obs=obs, act=np.copy(action), rew=rew, next_obs=self._see())
        self.diary[-1].append(SimpleNamespace(**step, terminated=terminated))
        return self.obs, rew, terminated, truncated, {}


class Networks:
    """The actor-critic of a run, and the parameters that it began with.

    start: its parameters, each once, float64. pi, v: which of these are the kernels and biases of
    the policy and of the value function. log_std: which is the logarithm of the deviations.
    """

    def __init__(self, shared: bool = False):
        self.shared, self.start = shared, None

    def __call__(self, observation_space, action_space):
        make = self._shared if self.shared else MLPActorCritic
        kwargs = {} if self.shared else dict(hidden_sizes=(4,))
        ac = make(observation_space, action_space, **kwargs)
        variables = ac.trainable_variables
        if self.start is None:  # not where a run is resumed
            self.start = [variable.numpy().astype(float) for variable in variables]
        number = {id(variable): i for i, variable in enumerate(variables)}
        self.pi, self.v = (
            [number[id(x)] for layer in net.layers for x in (layer.kernel, layer.bias)]
            for net in (ac.pi.net, ac.v.net)
        )
        self.log_std = [i for i, x in enumerate(variables) if x.name == "log_std"]
        return ac

    @staticmethod
    def _shared(observation_space, action_space):
        body = keras.layers.Dense(4, "tanh")

        def net(outputs):
            inputs = keras.Input(observation_space.shape)
            return keras.Sequential([inputs, body, keras.layers.Dense(outputs)])

        pi = CategoricalPolicy(net(int(action_space.n)), [int(action_space.n)], single=True)
        return ActorCritic(pi, ValueFunction(net(1)), action_space)

    def output(self, which: list[int], params: list, x: np.ndarray) -> tf.Tensor:
        """What a network with tanh in its hidden layers makes of `[batch, obs_dim]`."""
        *hidden, kernel, bias = [params[i] for i in which]
        for hidden_kernel, hidden_bias in zip(hidden[::2], hidden[1::2], strict=True):
            x = tf.tanh(x @ hidden_kernel + hidden_bias)
        return x @ kernel + bias

    def value(self, params: list, x: np.ndarray) -> tf.Tensor:
        """V, `[batch]`."""
        return self.output(self.v, params, x)[:, 0]

    def policy(self, params: list, x: np.ndarray) -> "Gaussian | Categorical":
        """pi(.|s) for `[batch, obs_dim]`."""
        out = self.output(self.pi, params, x)
        return Gaussian(out, params[self.log_std[0]]) if self.log_std else Categorical(out)


class Gaussian:
    """N(mean, exp(log_std)^2) for each of the dimensions."""

    def __init__(self, mean, log_std):
        self.mean, self.log_std = mean, log_std

    def act(self, noise):
        return self.mean + tf.exp(self.log_std) * noise

    def log_prob(self, act):
        z = (act - self.mean) / tf.exp(self.log_std)
        return tf.reduce_sum(-0.5 * z**2 - self.log_std - 0.5 * np.log(2 * np.pi), axis=1)

    def entropy(self):
        per_state = tf.reduce_sum(self.log_std + 0.5 * np.log(2 * np.pi * np.e))
        return per_state * tf.ones(len(self.mean), tf.float64)

    def divergence_to(self, other):
        """KL(self || other)."""
        var, other_var = tf.exp(2 * self.log_std), tf.exp(2 * other.log_std)
        terms = (var + (self.mean - other.mean) ** 2) / (2 * other_var) - 0.5
        return tf.reduce_sum(other.log_std - self.log_std + terms, axis=1)


class Categorical:
    """A choice with probabilities exp(logits) / sum exp(logits)."""

    def __init__(self, logits):
        self.log_p = logits - tf.math.log(tf.reduce_sum(tf.exp(logits), axis=1, keepdims=True))

    def act(self, noise):
        return np.argmax(self.log_p + noise, axis=1)

    def log_prob(self, act):
        return tf.reduce_sum(self.log_p * np.eye(self.log_p.shape[1])[act.astype(int)], axis=1)

    def entropy(self):
        return -tf.reduce_sum(tf.exp(self.log_p) * self.log_p, axis=1)

    def divergence_to(self, other):
        """KL(self || other)."""
        return tf.reduce_sum(tf.exp(self.log_p) * (self.log_p - other.log_p), axis=1)


# ------------------------------------------------------------------------ from diaries to batches


class Diaries:
    """What the environments of a run have seen, `[T, n]`, and which steps were the last."""

    def __init__(self, diaries: list[list], num_envs: int):
        columns = [[] for _ in range(num_envs)]
        for number, diary in enumerate(diaries):  # of all environments; where resumed, once more
            for episode in diary:
                for step in episode:
                    step.ends = step is episode[-1] and episode is not diary[-1]
                    step.left = False
                columns[number % num_envs] += episode
            columns[number % num_envs][-1].left = True  # the episode does not go on
        self.num_envs = num_envs
        self.steps = list(zip(*columns, strict=True))

    def __getitem__(self, times: slice) -> SimpleNamespace:
        """obs, act, rew, next_obs, terminated, ends and left of these steps, `[T, n, ...]`."""
        names = ("obs", "act", "rew", "next_obs", "terminated", "ends", "left")
        rows = self.steps[times]
        return SimpleNamespace(
            **{
                name: np.array([[getattr(step, name) for step in row] for row in rows])
                for name in names
            }
        )

    def episodes(self, first: int, end: int) -> list[tuple[float, int]]:
        """(return, length) of those that have ended in the steps `first` to `end - 1`."""
        found = []
        for i in range(self.num_envs):
            ret, length = 0.0, 0
            for t, row in enumerate(self.steps[:end]):
                ret, length = ret + row[i].rew, length + 1
                if row[i].ends and t >= first:
                    found.append((ret, length))
                if row[i].ends or row[i].left:
                    ret, length = 0.0, 0
        return found


def gae_by_double_loop(rew, val, next_val, terminated, ends, gamma, lam):
    """Advantages and rewards-to-go `[T, n]`, each a sum over all the steps that follow it."""
    adv, ret = np.zeros(rew.shape), np.zeros(rew.shape)
    steps, num_envs = rew.shape
    for i in range(num_envs):
        for t in range(steps):
            for k in range(t, steps):
                future = 0.0 if terminated[k, i] else gamma * next_val[k, i]
                delta = rew[k, i] + future - val[k, i]
                adv[t, i] += (gamma * lam) ** (k - t) * delta
                ret[t, i] += gamma ** (k - t) * rew[k, i]
                if ends[k, i] or k == steps - 1:
                    ret[t, i] += gamma ** (k - t) * future
                    break
    return adv, ret


def standardized(x):
    return (x - np.mean(x)) / np.std(x)


class Normalizer:
    """Of observations: by mean and variance of those that it was given, as far as it went there."""

    def __init__(self):
        self.mean, self.var, self.share, self.seen = 0.0, 1.0, 0.0, []

    def __call__(self, obs):
        return np.clip((obs - self.mean) / np.sqrt(self.var + 1e-8), -10, 10)

    def take_in(self, obs):
        self.seen.append(obs.reshape(-1, obs.shape[-1]).astype(float))

    def moved(self):
        """As it is after `share` of the way to what it has seen."""
        after, seen = Normalizer(), np.concatenate(self.seen)
        after.mean = (1 - self.share) * self.mean + self.share * seen.mean(axis=0)
        after.var = (1 - self.share) * self.var + self.share * seen.var(axis=0)
        after.seen = self.seen
        return after


class RewardNormalizer:
    """Divides by the deviation of all discounted returns so far, each up to its step."""

    def __init__(self, num_envs, gamma):
        self.ret, self.gamma, self.seen = np.zeros(num_envs), gamma, []

    def __call__(self, rew, over):
        for t in range(len(rew)):
            self.ret = self.gamma * self.ret + rew[t]
            self.seen += [*self.ret]
            self.ret[over[t]] = 0.0
        return np.clip(rew / np.sqrt(np.var(self.seen) + 1e-8), -10, 10)


# ------------------------------------------------------------------------------- gradient steps


def loss_and_gradient(loss: Callable, params: list) -> tuple[float, list[np.ndarray]]:
    """Of a function of all parameters; 0 for those that it does not use."""
    params = [tf.constant(p, tf.float64) for p in params]
    with tf.GradientTape() as tape:
        tape.watch(params)
        value = loss(params)
    zero = tf.UnconnectedGradients.ZERO
    return float(value), [
        g.numpy() for g in tape.gradient(value, params, unconnected_gradients=zero)
    ]


class RMSprop:
    """s = rho s + (1 - rho) g^2;  x -= lr g / sqrt(s + rms_eps), with rho = rms_decay."""

    def __init__(self, lr, rms_decay, rms_eps, rms_init):
        self.lr, self.rho, self.eps, self.squares = lr, rms_decay, rms_eps, rms_init

    def __call__(self, params, grads):
        grads = np.array([*grads, None], object)[:-1]
        self.squares = self.rho * self.squares + (1 - self.rho) * grads**2
        pairs = zip(params, grads, self.squares, strict=True)
        return [p - self.lr * g / np.sqrt(s + self.eps) for p, g, s in pairs]


class Descent:
    """Gradient steps on some of the parameters, of a gradient that is no longer than a maximum.

    shortened: for each step, whether it was longer.
    """

    def __init__(self, optimizer: Callable, which: list[int], max_grad_norm: float | None = None):
        self.optimizer, self.which, self.max_norm = optimizer, which, max_grad_norm
        self.lr, self.shortened = optimizer.lr, []

    def decay(self, progress: float) -> None:
        self.optimizer.lr = self.lr * (1 - progress)

    def __call__(self, loss: Callable, params: list) -> list:
        _, grads = loss_and_gradient(loss, params)
        grads = [grads[i] for i in self.which]
        norm = np.sqrt(sum(np.sum(g**2) for g in grads))
        self.shortened.append(self.max_norm is not None and norm > self.max_norm)
        if self.shortened[-1]:
            grads = [g * self.max_norm / norm for g in grads]
        params = list(params)
        moved = self.optimizer([params[i] for i in self.which], grads)
        for i, p in zip(self.which, moved, strict=True):
            params[i] = p
        return params


def rows_of(batch: SimpleNamespace, index: np.ndarray) -> SimpleNamespace:
    return SimpleNamespace(**{name: x[index] for name, x in vars(batch).items()})


# ----------------------------------------------------------------------------------- whole runs


class HandRun:
    """A run of which all is known, to be computed again.

    o: all its options. networks: a Networks. diaries: a Diaries. noise: of all epochs,
    `[T, n, ...]`. minibatches: for each epoch, those of its passes; None: there are none.
    """

    def __init__(self, options, networks, diaries, noise, minibatches):
        self.o = SimpleNamespace(**options)
        self.networks, self.diaries = networks, diaries
        self.noise, self.minibatches = noise, minibatches
        self.params = networks.start
        self.normalizer = Normalizer() if self.o.normalize_obs else None
        self.reward_normalizer = RewardNormalizer(diaries.num_envs, self.o.gamma)

    def run(self, update: Callable, epochs: int, n_steps: int | None = None) -> list[dict]:
        """Train with `update(hand_run, batch) -> columns`; returns the rows of progress.txt.

        Afterwards `params` are those that training should end with.
        """
        steps = len(self.diaries.steps) // epochs  # of each environment in an epoch
        n_steps = n_steps or steps
        rows = []
        for epoch in range(epochs):
            self.epoch, infos, values, targets = epoch, [], [], []
            for first in range(epoch * steps, (epoch + 1) * steps, n_steps):
                self.progress = first / (epochs * steps)
                if self.normalizer is not None and first > 0:
                    self.normalizer = self.normalizer.moved()
                batch, val = self.batch(slice(first, first + n_steps))
                values += [*val]
                targets += [*batch.ret]
                infos.append(update(self, batch))
                if self.normalizer is not None:
                    infos[-1]["NormKL"] = self._choose_share(batch.raw)
            row = {name: np.mean([info[name] for info in infos]) for name in infos[0]}
            episodes = self.diaries.episodes(epoch * steps, (epoch + 1) * steps)
            returns, lengths = zip(*episodes, strict=True)
            row |= dict(AverageEpRet=np.mean(returns), StdEpRet=np.std(returns))
            row |= dict(MaxEpRet=max(returns), MinEpRet=min(returns), EpLen=np.mean(lengths))
            row |= dict(AverageVVals=np.mean(values), StdVVals=np.std(values))
            row |= dict(MaxVVals=max(values), MinVVals=min(values))
            unexplained = np.var(np.subtract(targets, values)) / np.var(targets)
            row |= dict(ExplainedVariance=1 - unexplained)
            rows.append(row)
        return rows

    def batch(self, times: slice) -> tuple[SimpleNamespace, np.ndarray]:
        """obs, act, adv and ret `[T * n, ...]`, and the values that were logged."""
        o, seen = self.o, self.diaries[times]
        flat = lambda x: x.reshape(-1, *x.shape[2:])  # noqa: E731
        self._check_actions(seen, self.noise[times], flat)
        rew = seen.rew
        if o.normalize_reward:
            rew = self.reward_normalizer(rew, seen.ends | seen.left)
        adv, ret, val = self._estimates(seen, rew, flat)
        # With the networks as they are when it is called.
        self.estimates_again = lambda: map(flat, self._estimates(seen, rew, flat)[:2])
        if o.normalize_obs:
            first = not self.normalizer.seen
            self.normalizer.take_in(seen.obs)
            if first:  # is adopted at once, after values and advantages
                self.normalizer.share = 1.0
                self.normalizer = self.normalizer.moved()
        batch = dict(obs=self._seen(seen.obs), act=seen.act, adv=adv, ret=ret, raw=seen.obs)
        return SimpleNamespace(**{name: flat(x) for name, x in batch.items()}), flat(val)

    def _estimates(self, seen, rew, flat):
        """Advantages, what values are fitted to, and values, `[T, n]`."""
        o = self.o
        val, next_val = (
            self.networks.value(self.params, flat(x)).numpy().reshape(rew.shape)
            for x in (self._seen(seen.obs), self._seen(seen.next_obs))
        )
        known = (rew, val, next_val, seen.terminated, seen.ends, o.gamma)
        adv, ret = gae_by_double_loop(*known, o.lam if o.lam1 is None else o.lam1)
        if o.value_target == "lambda_return":
            ret = adv + val
        if o.coeff is not None:
            other, _ = gae_by_double_loop(*known, o.lam2)
            adv = o.coeff * standardized(adv) + (1 - o.coeff) * standardized(other)
        elif o.normalize_adv and o.adv_normalization == "epoch":
            adv = standardized(adv)
        return adv, ret, val

    def _seen(self, obs):
        """Observations as the networks see them."""
        return obs.astype(float) if self.normalizer is None else self.normalizer(obs)

    def _choose_share(self, obs):
        """How far the next statistics go: a power of 1/2, of a divergence of 0.001 at most."""
        pi = self.networks.policy(self.params, self.normalizer(obs))
        for power in range(21):
            self.normalizer.share = 0.5**power
            after = self.networks.policy(self.params, self.normalizer.moved()(obs))
            kl = np.mean(pi.divergence_to(after))
            if kl <= 0.001:
                return kl
        raise AssertionError("No share is small enough.")

    def _check_actions(self, seen, noise, flat):
        """The environments were given what the present policy makes of the noise."""
        pi = self.networks.policy(self.params, flat(self._seen(seen.obs)))
        act = pi.act(flat(noise))
        np.testing.assert_allclose(flat(seen.act), act, rtol=1e-3, atol=1e-3)


def recorded_run(
    algorithm, path, monkeypatch, action_space, shared=False, resumed_after=None, **kwargs
):
    """A run on Diarists: `(rows, parameters at the end, what HandRun needs but its options)`.

    resumed_after: a number of epochs, after which it is stopped and resumed.
    """
    made, noise, minibatches = [], [], []
    draw, cut = Randomness.noise, Run.minibatches

    def env_fn():
        made.append([])
        return Diarist(made[-1], action_space)

    def remember_noise(self, *args):
        noise.append(draw(self, *args))
        return noise[-1]

    def remember_minibatches(self, *args):
        minibatches.append(cut(self, *args))
        return minibatches[-1]

    networks = Networks(shared)

    def actor_critic(*spaces):
        return networks(*spaces)

    kwargs |= dict(actor_critic=actor_critic)
    with monkeypatch.context() as patch:
        patch.setattr(Randomness, "noise", remember_noise)
        patch.setattr(Run, "minibatches", remember_minibatches)
        if resumed_after is not None:
            train(algorithm, path, env_fn, **(kwargs | dict(epochs=resumed_after)))
            kwargs |= dict(resume=True)
        ac, rows = train(algorithm, path, env_fn, **kwargs)
    diaries = Diaries([diary for diary in made if diary], kwargs["num_envs"])
    ours = [variable.numpy() for variable in ac.trainable_variables]
    return rows, ours, (networks, diaries, np.concatenate(noise), minibatches)
