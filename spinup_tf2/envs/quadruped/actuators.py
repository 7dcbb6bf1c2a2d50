"""The joints' motors."""


def speed_limited(
    torques: list[float], speeds: list[float], torque_limit: float, velocity_limit: float
) -> list[float]:
    """Torques within what a DC motor can do at its present speed.

    In the direction in which a joint moves, the largest torque falls linearly from `torque_limit`
    at rest to 0 at `velocity_limit`; a motor that brakes has all of `torque_limit`.

    torques: `[12]`, Nm. speeds: `[12]`, rad/s.
    """
    limited = []
    for torque, speed in zip(torques, speeds, strict=True):
        along = torque_limit * max(1.0 - abs(speed) / velocity_limit, 0.0)
        highest, lowest = (along, -torque_limit) if speed > 0 else (torque_limit, -along)
        limited.append(min(max(torque, lowest), highest))
    return limited
