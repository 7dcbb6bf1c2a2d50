"""The joints' motors."""


def speed_limited(
    torques: list[float], speeds: list[float], torque_limit: float, velocity_limit: float
) -> list[float]:
    """Limit torques to what DC motors can do at their current speeds.

    In the direction of motion, the largest torque falls linearly from `torque_limit` at rest to 0
    at `velocity_limit`. For braking, all of `torque_limit` is available.

    Args:
        torques: Desired torques `[12]`, in Nm.
        speeds: Speeds of the joints `[12]`, in rad/s.
        torque_limit: Largest torque of a joint at rest, in Nm.
        velocity_limit: Speed at which no torque is left, in rad/s.
    """
    limited = []
    for torque, speed in zip(torques, speeds, strict=True):
        along = torque_limit * max(1.0 - abs(speed) / velocity_limit, 0.0)
        highest, lowest = (along, -torque_limit) if speed > 0 else (torque_limit, -along)
        limited.append(min(max(torque, lowest), highest))
    return limited
