"""Success rates in the log, if environments report successes."""

from collections.abc import Iterable, Sequence

from spinup_tf2.core.vector_env import VectorEnv
from spinup_tf2.files.logger import EpochLogger
from spinup_tf2.parallel.mpi import mpi_op


def log_successes(
    logger: EpochLogger, names: Sequence[str], envs: Iterable[VectorEnv | None]
) -> None:
    """Log success rates, if environments report successes. Collective.

    The first row determines whether there are such columns: only if any environment of any rank has
    reported `is_success` by then. Successes that are first reported later are not logged.

    Args:
        logger: The run's logger.
        names: Keys under which successes have been stored.
        envs: The environments of this rank; None values are ignored.
    """
    told = any(each is not None and each.episodes.tells_success for each in envs)
    told = told or any(logger.stored()[name].size for name in names)  # before a stop
    if logger.first_row:
        logged = bool(mpi_op(float(told), "MAX"))
    else:
        logged = names[0] in logger.log_headers
    for name in names:
        if logged:
            logger.log_tabular(name, average_only=True)
        else:
            del logger.epoch_dict[name]
    if told and not logged:
        logger.warn_once(
            "An environment has told is_success for the first time after the first row of the log, "
            "which settles the columns; there is no SuccessRate. Make epochs long enough for an "
            "episode to end in the first one, or tell is_success in every step."
        )
