"""Finds the keyframes of getting up, by trial and error, and writes them as JSON:

    python -m spinup_tf2.envs.quadruped.search spinup_tf2/envs/quadruped/keyframes.json

It is an evolution strategy: variations of the best plan so far are tried on several falls, and the
one that gets up from most of them becomes the next plan; the variations become smaller over time.
Front and hind legs move alike, as the robot rolls over along its length. The result is tested on
other falls.
"""

import argparse
import itertools
import json
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from spinup_tf2.envs.quadruped.env import QuadrupedEnv
from spinup_tf2.envs.quadruped.gait import KEYFRAME_SECONDS, STANCE
from spinup_tf2.envs.quadruped.tasks import RECOVER, lies_on, recovery

KEYFRAMES = 4
CANDIDATES = 24  # per iteration
FALLS, TEST_FALLS = 5, 20
UPRIGHT = 0.95  # the cosine of 18 degrees


def keyframes_of(plan: np.ndarray, env: QuadrupedEnv) -> np.ndarray:
    """Return the joint angles `[k, 12]`, in rad, for a plan `[k, 6]` in units of actions.

    The six numbers are for the three joints of a right and of a left leg.
    """
    actions = np.tile(np.clip(plan, -1, 1), 2)
    angles = STANCE + actions * np.tile(RECOVER.action_scale, 4)
    return np.clip(angles, env.robot.lower, env.robot.upper)


def attempt(
    env: QuadrupedEnv, keyframes: Mapping[str, np.ndarray], fall: int, seconds: float
) -> tuple[float, bool]:
    """Try to get up from the fall with the seed `fall`.

    Returns:
        How upright the trunk is in the last half second (1 is fully upright), and whether the robot
        stands at the end.
    """
    env.reset(seed=fall)
    base = env.robot.base()
    up = []
    while env.t < seconds:
        *_, info = env.step(env.action_of(recovery(env.t, base, keyframes)))
        up.append(env.robot.base().rotation[2, 2])
    return np.mean(up[-10:]), info["is_success"]


def falls_on(env: QuadrupedEnv, place: str) -> Iterator[int]:
    """Yield seeds of falls after which the robot lies on `place`: "belly", "side" or "back"."""
    for seed in itertools.count():
        env.reset(seed=seed)
        if lies_on(env.robot.base()) == place:
            yield seed


def search(env: QuadrupedEnv, place: str, iterations: int, rng: np.random.Generator):
    """Return keyframes `[k, 12]`, in rad, for falls onto `place` ("side" or "back")."""
    seeds = falls_on(env, place)
    falls, tests = ([*itertools.islice(seeds, number)] for number in (FALLS, TEST_FALLS))
    rolled_over = KEYFRAME_SECONDS * (KEYFRAMES + 1)  # time by which the robot should crouch
    best, best_score, std = np.zeros((KEYFRAMES, 6)), -np.inf, 0.7
    for iteration in range(iterations):
        for plan in np.clip(best + std * rng.normal(size=(CANDIDATES, *best.shape)), -1, 1):
            score, keyframes = 0.0, {place: keyframes_of(plan, env)}
            for fall in falls:  # stops at the first one from which it does not get up
                up, _ = attempt(env, keyframes, fall, rolled_over)
                score += up
                if up < UPRIGHT:
                    break
            if score > best_score:
                best, best_score = plan, score
        print(f"{place} {iteration}: {best_score:.2f} of {FALLS}", flush=True)
        if best_score > UPRIGHT * FALLS:
            break
        std = max(0.85 * std, 0.15)
    keyframes = keyframes_of(best, env)
    standing = [attempt(env, {place: keyframes}, each, rolled_over + 1.5)[1] for each in tests]
    print(f"gets up from {np.mean(standing):.0%} of {TEST_FALLS} other falls", flush=True)
    return keyframes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("path", help="the file to write")
    parser.add_argument("--iterations", type=int, default=15, help="at most, for each of the two")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    env = QuadrupedEnv("recover")
    rng = np.random.default_rng(args.seed)
    found = {place: search(env, place, args.iterations, rng) for place in ("side", "back")}
    env.close()
    legs = {place: keyframes[:, :6].round(2).tolist() for place, keyframes in found.items()}
    Path(args.path).write_text(json.dumps(legs, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
