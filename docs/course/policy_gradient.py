"""Estimates of one policy gradient from episodes in the corridor, beside the exact gradient.

python docs/course/policy_gradient.py
"""

import numpy as np
from gridworld import CORRIDOR, Gridworld, policy_values

EPISODES = 100_000
START = 2  # the middle of the corridor
PAY = 0.5  # for each step


def softmax(theta):
    """The policy `[S, A]` of logits `[S, A]`."""
    pi = np.exp(theta - theta.max(axis=1, keepdims=True))
    return pi / pi.sum(axis=1, keepdims=True)


def expected_return(env, theta):
    """J: the value of the start, without discounting."""
    return policy_values(env, softmax(theta), gamma=1.0)[START]


def exact_gradient(env, theta, step=1e-6):
    """The derivative of J for each logit, by finite differences."""
    gradient = np.zeros_like(theta)
    for index in np.ndindex(theta.shape):
        up, down = theta.copy(), theta.copy()
        up[index] += step
        down[index] -= step
        gradient[index] = (expected_return(env, up) - expected_return(env, down)) / (2 * step)
    return gradient


def play(env, pi, rng, episodes, start=START):
    """Episodes in a corridor, all at once.

    Returns:
        obs, act, rew, next_obs and alive `[T, episodes]`; alive is False after an episode's end.
    """
    s, steps = np.full(episodes, start), []
    while env.free[s].any():
        a = (rng.random(episodes) < pi[s, 1]).astype(int)  # 1: right
        next_s = np.where(env.free[s], s + 2 * a - 1, s)
        steps.append((s, a, (env.prize[next_s] + env.pay) * env.free[s], next_s, env.free[s]))
        s = next_s
    return [np.stack(x) for x in zip(*steps, strict=True)]


def to_go(x):
    """The sum of this row and all later ones."""
    return x[::-1].cumsum(axis=0)[::-1]


def weights(env, pi, obs, rew, next_obs):
    """What each estimator multiplies the gradients of log pi with, `[T, episodes]`."""
    v = policy_values(env, pi, gamma=1.0)
    return {
        "return of the episode": to_go(rew)[:1] + 0 * rew,
        "reward-to-go": to_go(rew),
        "reward-to-go - V(s)": to_go(rew) - v[obs],
        "R + V(s') - V(s)": rew + v[next_obs] - v[obs],
    }


def estimates(pi, obs, act, alive, weight):
    """The sum over an episode of weight * d log pi(a|s) / d theta[s, right], `[episodes, S]`."""
    # log pi(right) = log sigmoid: its derivative is 1 - pi(right), and that of the other -pi(right)
    grad_logp = np.where(alive, act - pi[obs, 1], 0.0)
    one_hot = obs[..., None] == np.arange(len(pi))
    return ((grad_logp * weight)[..., None] * one_hot).sum(axis=0)


def table(episodes=EPISODES, seed=0):
    """{name: (mean, standard deviation)} of the estimators, each `[S]`."""
    env, rng = Gridworld(CORRIDOR, pay=PAY), np.random.default_rng(seed)
    pi = softmax(np.zeros(env.R.shape))
    obs, act, rew, next_obs, alive = play(env, pi, rng, episodes)
    rows = {}
    for name, weight in weights(env, pi, obs, rew, next_obs).items():
        each = estimates(pi, obs, act, alive, weight)
        rows[name] = each.mean(axis=0), each.std(axis=0)
    return rows


def with_the_package(episodes=EPISODES, seed=0):
    """The same gradient `[S]` from VPG's loss, with the package's advantages (lambda 0.97)."""
    import tensorflow as tf  # here, since it takes its time
    from spinup_tf2.core.trajectories import gae

    from spinup_tf2.algos.vpg import policy_loss

    env, rng = Gridworld(CORRIDOR, pay=PAY), np.random.default_rng(seed)
    theta = np.zeros(env.R.shape)
    obs, act, rew, next_obs, alive = play(env, softmax(theta), rng, episodes)
    v = policy_values(env, softmax(theta), gamma=1.0)
    terminated = alive & ~env.free[next_obs]
    adv, _ = gae(rew, v[obs], v[next_obs], terminated, np.zeros_like(alive), gamma=1.0, lam=0.97)
    logits = tf.Variable(theta)
    with tf.GradientTape() as tape:
        logp = tf.nn.log_softmax(tf.gather(logits, obs[alive]))
        logp = tf.gather(logp, act[alive], batch_dims=1)
        loss, _ = policy_loss(logp, logp, tf.constant(adv[alive], tf.float64))
    # The loss is a mean over steps and is minimized; J is a mean over episodes.
    return -tf.convert_to_tensor(tape.gradient(loss, logits)).numpy()[:, 1] * alive.sum() / episodes


def report():
    env = Gridworld(CORRIDOR, pay=PAY)
    exact = exact_gradient(env, np.zeros(env.R.shape))[:, 1]
    print("derivative of J for theta[s, right]     s = 1    s = 2    s = 3   std")
    print(f"{'exact':36}", *(f"{x:8.3f}" for x in exact[1:4]))
    for name, (mean, std) in table().items():
        print(f"{name:36}", *(f"{x:8.3f}" for x in mean[1:4]), f"{np.linalg.norm(std):7.3f}")


if __name__ == "__main__":
    report()
    gradient = with_the_package()[1:4]
    print(f"{'policy_loss and gae of the package':36}", *(f"{x:8.3f}" for x in gradient))
