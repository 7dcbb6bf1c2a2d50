"""What the arguments mean that several algorithms share, said once.

An algorithm's docstring describes its own arguments; `documented` adds the shared ones, in the
order of the signature, for `help()`, the docs and `--help` on the command line. Imports no
TensorFlow.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import TypeVar

SHARED = """
env_fn: A function that makes a new copy of the environment (gymnasium's API); or the id of an
    environment, as `--env` of the command line takes it, such as 'CartPole-v1'.

actor_critic: A function or class called as
    `actor_critic(observation_space, action_space, **ac_kwargs)`. What it returns has

    ===========  ================  ==================================================
    Attribute    Output            Description
    ===========  ================  ==================================================
    `pi(obs)`    distribution      Of tensorflow_probability, over the actions for
                                   observations of shape (batch, obs_dim).
    `v(obs)`     (batch,)          Value estimates for these observations. (Critical:
                                   make sure that the shape is not (batch, 1)!)
    ===========  ================  ==================================================

    `pi` and `v` are Keras models.

ac_kwargs (dict): Arguments of the actor-critic: for the default MLPActorCritic
    `hidden_sizes` (64, 64) and `activation` 'tanh'. Where observations are images, the default
    is CNNActorCritic with `conv` 'nature', `hidden_sizes` (512,), `activation` 'relu' and
    `shared`, whether policy and value function have these layers in common.

seed (int): Seed of the networks, the environments and the actions.

steps_per_epoch (int): Steps of interaction in each epoch, of all environments of all
    processes together.

epochs (int): Number of epochs, each one policy update. (Always at least 1.)

gamma (float): Discount factor. (Always between 0 and 1.)

pi_lr (float): Learning rate of the policy.

vf_lr (float): Learning rate of the value function.

train_v_iters (int): Gradient steps on the value function in each epoch.

lam (float): Lambda of generalised advantage estimation. (Always between 0 and 1, close
    to 1.)

max_ep_len (int): A time limit on episodes, on top of the environment's own.

logger_kwargs (dict): Arguments of EpochLogger.

save_freq (int): How often (in epochs) to save the policy; the last epoch always does.

ent_coef (float): Weight of the entropy bonus, which keeps the policy from becoming certain too
    early. (0 to 0.01.)

max_grad_norm (float): A gradient with a longer norm, over all parameters that are trained
    together, is shortened to this length. None: never. (0.5 if at all.)

lr_schedule (str): 'constant', or 'linear' for learning rates that fall in equal steps, to 0 at
    the end of the last epoch.

orthogonal_init (bool): Whether networks start from orthogonal kernels, scaled by sqrt(2), in
    the policy's last layer by 0.01 and in the value function's by 1, instead of Glorot-uniform
    ones. This replaces the weights of an actor_critic of your own, too.

num_envs (int): Environments in each process. Together they take steps_per_epoch steps.

vectorization (str): 'sync' steps the environments of a process in turn, 'async' gives each
    of them a process of its own, which pays when a step takes longer than about 0.1 ms.
    'threads' steps several at a time in threads of the process, which pays for environments that
    release the GIL, such as the emulator of Super Mario Bros.

behavior_policy: A function `behavior_policy(t, obs)` that is asked for a demonstration before
    each step: t counts the steps of the episode from 0, obs is the observation as a flat vector
    or an image, not normalised. It returns the action that is taken instead of the policy's, in
    the form that the environment's `step` takes, or None to let the policy act.

num_test_episodes (int): Episodes in which the policy is evaluated, without noise, at the end of
    every epoch, or of some of them (test_freq). Each starts from the same seed every time, in
    environments that serve nothing else: as many as num_envs, or fewer. With noise a policy may
    seem to do what it cannot, and the other way round. 0: there is no evaluation.

test_freq (int): How often (in epochs) the policy is evaluated; after the last epoch in any case.

init_from (str): Directory of an earlier run, with whose trained networks (those of its last save)
    this one begins. They must have the same layers. Nothing else is taken over: no optimizer's
    state, no experience, no settings. None: networks begin with random weights.

resume (bool): Whether to go on from the newest checkpoint in the run's directory. If the directory
    holds no run yet, the training starts from its beginning.

checkpoint_freq (int): How often (in epochs) to write a checkpoint, from which the run can be
    resumed; at most once a minute, and in any case after the last epoch and when the run is
    interrupted. 0: never.

keep_checkpoints (int): How many of the latest checkpoints to keep.

deterministic_resume (bool): Whether a run that is interrupted and resumed is to give exactly the
    numbers of one that is not. To this end all environments begin new episodes, from seeds of
    their own, before every epoch whose number is a multiple of checkpoint_freq.

env_retries (int): How often an environment that raises an exception is made anew, each of them.
    Nothing is learned from the step that failed. With 0 an exception ends the run.

stall_timeout (float): Seconds after which a run of several MPI processes ends itself if one of
    them neither takes a step nor hears from the others. None: never.
"""

OFF_POLICY = """
actor_critic: A function or class called as
    `actor_critic(observation_space, action_space, **ac_kwargs)`, twice: the second time for the
    target networks. It returns a QActorCritic, which has

    ====================  ================  =============================================
    Attribute             Output            Description
    ====================  ================  =============================================
    `pi(obs)`             (batch, act_dim)  The policy's actions in [-1, 1], for
                                            observations of shape (batch, obs_dim).
    `q_values(obs, act)`  list of (batch,)  What each of the Q-functions `qs` gives for
                                            these observations and actions in [-1, 1]: one
                                            for DDPG, two for TD3.
    ====================  ================  =============================================

    `pi` and the elements of `qs` are Keras models. What lies in [-1, 1] here is scaled to each
    dimension's own low and high for the environment.

ac_kwargs (dict): Arguments of the actor-critic: for the default MLPQActorCritic `hidden_sizes`
    (256, 256) and `activation` 'relu'. Where observations are images, the default is
    CNNQActorCritic, which has `conv` 'nature' before these layers; the Q-functions have it in
    common.

steps_per_epoch (int): Steps of interaction in each epoch, of all environments of all
    processes together. An epoch is the time between two rows of the log.

epochs (int): Number of epochs. (Always at least 1.)

replay_size (int): How many of the latest interactions are kept to learn from, of all
    environments of all processes together. Memory is claimed as they come.

polyak (float): How slowly the target networks follow: after each update
    target = polyak * target + (1 - polyak) * variable. (Always between 0 and 1, close to 1.)

q_lr (float): Learning rate of the Q-functions.

batch_size (int): Interactions in a minibatch, of all processes together.

start_steps (int): Up to the interaction of this number, counted from 0, actions are drawn
    uniformly, and the policy does not act. Networks that are trained already (init_from) act from
    the beginning.

update_after (int): Number of the interaction, counted from 0, after which updates may begin, so
    that there is something to learn from.

update_every (int): Interactions between two blocks of updates. A block consists of update_every
    updates, so that there is one for each interaction.

act_noise (float): Standard deviation of the Gaussian noise that is added to the policy's actions
    while training, as a fraction of half of each dimension's range.

num_test_episodes (int): Episodes in which the policy is evaluated at the end of each epoch,
    without noise. Each starts from the same seed every time. They take place in environments that
    serve nothing else: as many as num_envs, or fewer (processes if vectorization is 'async').
"""

OUTCOME = """
Returns the trained actor-critic. Raises UserError (a ValueError), before anything is written,
for an argument or an environment that cannot be used.
"""

Function = TypeVar("Function", bound=Callable)

_ENTRY = re.compile(r"^(\w+)(?: \(.*?\))?: ", re.MULTILINE)


def documented(function: Function) -> Function:
    """Decorator: complete the docstring of an algorithm with what it shares with others."""
    names = inspect.signature(function).parameters
    function.__doc__ = complete_docstring(inspect.cleandoc(function.__doc__ or ""), names)
    return function


def complete_docstring(doc: str, names: Iterable[str]) -> str:
    """A docstring in which every argument in `names` has its entry, in that order.

    doc: the docstring, cleaned; what it has under "Args:" goes before the shared descriptions.
    Raises KeyError for an argument that is described nowhere.
    """
    summary, _, own = doc.partition("\n\nArgs:\n")
    shared = SHARED + OFF_POLICY if "replay_size" in names else SHARED
    entries = _entries(shared) | _entries(textwrap.dedent(own))
    arguments = textwrap.indent("\n\n".join(entries[name] for name in names), "    ")
    return f"{summary}\n\nArgs:\n{arguments}\n\n{OUTCOME.strip()}"


def _entries(text):
    """{name: entry} of the text of an "Args:" section."""
    starts = [match.start() for match in _ENTRY.finditer(text)]
    pieces = (text[i:j].strip() for i, j in zip(starts, [*starts, len(text)][1:], strict=True))
    return {_ENTRY.match(piece)[1]: piece for piece in pieces}
