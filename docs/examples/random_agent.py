"""Acts at random, and logs the returns."""

from spinup_tf2.utils.logx import EpochLogger


def random_agent(env_fn, seed=0, episodes=10, logger_kwargs=None):
    """Plays with actions at random.

    Args:
        episodes (int): Number of episodes. Each of them is an epoch.
    """
    logger = EpochLogger(**(logger_kwargs or {}))
    logger.save_config(locals())
    env = env_fn()
    env.action_space.seed(seed)
    steps = 0
    for epoch in range(episodes):
        env.reset(seed=seed if epoch == 0 else None)
        ret, over = 0.0, False
        while not over:
            _, rew, terminated, truncated, _ = env.step(env.action_space.sample())
            ret, steps, over = ret + float(rew), steps + 1, terminated or truncated
        logger.log_tabular("Epoch", epoch)
        logger.log_tabular("AverageEpRet", ret)
        logger.log_tabular("TotalEnvInteracts", steps)
        logger.dump_tabular()
    env.close()
