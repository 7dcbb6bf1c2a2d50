"""Q-learning with a table, which finds Q*; and with one weight for two states, which diverges.

python docs/course/q_learning.py
"""

import numpy as np
from gridworld import CORRIDOR, Gridworld

LEFT, RIGHT = 0, 1


def q_learning(env, updates, rng, gamma=0.9, lr=0.5):
    """A table of Q-values `[S, A]`, from steps that a coin has chosen."""
    q = np.zeros_like(env.R)
    s, _ = env.reset(seed=int(rng.integers(2**31)))
    for _ in range(updates):
        a = int(rng.integers(2))
        next_s, rew, terminated, _, _ = env.step(a)
        target = rew + gamma * (0.0 if terminated else q[next_s].max())
        q[s, a] += lr * (target - q[s, a])
        s = env.reset()[0] if terminated else next_s
    return q


def one_weight(updates, both, w=1.0, gamma=0.9, lr=0.1, refresh=1):
    """The weight w of Q(A) = w, Q(B) = 2 w, where A leads to B, and B to the end; rewards are 0.

    Args:
        both: Whether updates are made in A and in B, or in A only.
        refresh: After so many updates the target network is made equal to w.
    """
    for i in range(updates):
        if i % refresh == 0:
            w_target = w
        step = gamma * 2 * w_target - w  # times dQ(A)/dw, which is 1
        if both:
            step += 2 * (0.0 - 2 * w)  # dQ(B)/dw is 2
        w += lr * step
    return w


def report():
    print("Q-values        1 left   1 right    2 left   2 right    3 left   3 right")
    for updates in (10, 100, 1000):
        q = q_learning(Gridworld(CORRIDOR), updates, np.random.default_rng(0))
        row = "".join(f"{x:10.3f}" for x in q[1:4].ravel())
        print(f"{updates:5} updates{row}")
    print("\none weight, 100 updates")
    print(f"updates in A only:                         w = {one_weight(100, False):.4g}")
    print(
        f"the same, target renewed every 20 updates: w = {one_weight(100, False, refresh=20):.4g}"
    )
    print(f"updates in A and B:                        w = {one_weight(100, True):.4g}")


if __name__ == "__main__":
    report()
