"""How many processes an experiment has, and on which machines."""

import subprocess
import sys
from dataclasses import dataclass
from typing import IO

from spinup_tf2.errors import UserError
from spinup_tf2.parallel import launch, launched, mpi
from spinup_tf2.parallel.threads import available_cores, limited_environment


@dataclass(frozen=True)
class Processes:
    """How many processes an experiment has, and where: see `launch.mpirun_command`."""

    number: int
    hosts: dict[str, int] | None = None
    launcher: str | None = None

    @property
    def are_here(self) -> bool:
        """Whether all of them are sure to be on this machine."""
        return not (self.hosts or self.launcher)

    @property
    def use_mpi(self) -> bool:
        """Whether an MPI launcher starts them."""
        return self.number > 1 or not self.are_here

    @property
    def on_one_machine(self) -> int:
        """How many of them are on the machine that has most."""
        return max((self.hosts or {"": self.number}).values())

    def check_launcher(self) -> None:
        """Raise UserError if what would start them is not there."""
        if self.use_mpi:
            self._mpirun([])

    def run(self, arguments: list[str]) -> int:
        """Run Python with `arguments` in each of them, and return the exit status."""
        if not self.use_mpi:
            return launch.run_to_end([sys.executable, *arguments])
        return launch.run_to_end(
            self._mpirun(arguments),
            mpi=True,
            env=launch.mpirun_environment(self.on_one_machine),
            stdin=subprocess.DEVNULL,  # mpirun reads it, and so would stop in the background
        )

    def start(
        self, arguments: list[str], at_a_time: int, output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start Python with `arguments` in each of them, beside others, and do not wait.

        Args:
            arguments: Those of Python.
            at_a_time: How many experiments share the cores.
            output: The file that gets what they print.
        """
        sharing = at_a_time * self.on_one_machine
        if self.use_mpi:
            command, env = self._mpirun(arguments), launch.mpirun_environment(sharing)
        else:
            command, env = [sys.executable, *arguments], limited_environment(sharing)
        return launch.start(
            command,
            mpi=self.use_mpi,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )

    def _mpirun(self, arguments):
        return launch.mpirun_command(
            self.number, arguments, hosts=self.hosts, launcher=self.launcher
        )


def resolve_processes(
    num_cpu: int | str = 1, hosts: str | None = None, launcher: str | None = None
) -> Processes:
    """What the three arguments stand for; what cannot be had is refused."""
    if (hosts or launcher) and launched.by_mpi():
        raise UserError(
            "hosts and launcher say how to start processes, but an MPI launcher has started them "
            "already; leave both out."
        )
    if launcher is not None:
        launch.parse_launcher(launcher)
    number = resolve_num_cpu(num_cpu)
    if hosts is None:
        if launcher is not None and number == 1:
            raise UserError("launcher is given, but for one process; give num_cpu as well.")
        return Processes(number, None, launcher)
    given = None if num_cpu in (1, "auto") else number
    each = launch.parse_hosts(hosts, given)
    if num_cpu == "auto" and not all(":" in host for host in str(hosts).split(",")):
        raise UserError(
            f"num_cpu is 'auto', but how many cores the hosts {hosts!r} have is not known here; "
            "give each its number of processes, such as node1:2,node2:2, or give num_cpu the "
            "number that they share."
        )
    number = sum(each.values())
    if given not in (None, number):
        raise UserError(f"num_cpu is {given}, but hosts gives {number} processes; leave it out.")
    launch.check_takes_hosts(launcher)
    if launcher is None:
        launch.check_hosts(each)
    return Processes(number, each, launcher)


def resolve_num_cpu(num_cpu: int | str) -> int:
    """The number of processes that `num_cpu` stands for; what cannot be had is refused."""
    started = mpi.num_procs() if launched.by_mpi() else None
    if num_cpu == "auto":
        return started or available_cores()
    if not isinstance(num_cpu, int) or isinstance(num_cpu, bool) or num_cpu < 1:
        raise UserError(f"num_cpu is {num_cpu!r}; it must be a whole number of at least 1 or auto.")
    if started and num_cpu not in (1, started):
        raise UserError(
            f"num_cpu is {num_cpu}, but the MPI launcher started {started} processes; "
            f"leave num_cpu out, or start {num_cpu} processes."
        )
    return started or num_cpu
