"""Searches for PPO's hyperparameters with Optuna."""

import optuna

from spinup_tf2 import ppo
from spinup_tf2.callbacks import Prune


def objective(trial):
    prune = Prune(trial)
    searched = dict(
        lam=trial.suggest_float("lam", 0.8, 1.0),
        pi_lr=trial.suggest_float("pi_lr", 1e-4, 1e-2, log=True),
    )
    output = dict(output_dir=f"data/tuned/trial{trial.number}", quiet=True)
    ppo("CartPole-v1", epochs=10, callbacks=[prune], logger_kwargs=output, **searched)
    if prune.pruned:
        raise optuna.TrialPruned
    return prune.score


if __name__ == "__main__":
    database = dict(storage="sqlite:///tuned.db", study_name="ppo", load_if_exists=True)
    study = optuna.create_study(direction="maximize", **database)
    study.optimize(objective, n_trials=20)
    optuna.visualization.matplotlib.plot_optimization_history(study).figure.savefig("tuned.png")
