"""The processes of an experiment: how many there are, and on which machines."""

import subprocess
import sys
from dataclasses import dataclass
from typing import IO

from spinup_tf2.errors import UserError
from spinup_tf2.parallel import launch, launched, mpi
from spinup_tf2.parallel.threads import available_cores, limited_environment


@dataclass(frozen=True)
class Processes:
    """The processes of an experiment. See `launch.mpirun_command` for the attributes."""

    number: int
    hosts: dict[str, int] | None = None
    launcher: str | None = None

    @property
    def are_here(self) -> bool:
        """Whether all processes are certain to run on this machine."""
        return not (self.hosts or self.launcher)

    @property
    def use_mpi(self) -> bool:
        """Whether an MPI launcher starts the processes."""
        return self.number > 1 or not self.are_here

    @property
    def on_one_machine(self) -> int:
        """Number of processes on the machine that has the most."""
        return max((self.hosts or {"": self.number}).values())

    def check_launcher(self) -> None:
        """Raise UserError if the MPI launcher that is needed is missing."""
        if self.use_mpi:
            self._mpirun([])

    def run(self, arguments: list[str]) -> int:
        """Run Python with `arguments` in each process, and return the exit status."""
        if not self.use_mpi:
            return launch.run_to_end([sys.executable, *arguments])
        return launch.run_to_end(
            self._mpirun(arguments),
            mpi=True,
            env=launch.mpirun_environment(self.on_one_machine),
            stdin=subprocess.DEVNULL,  # mpirun reads stdin, which would stop it in the background
        )

    def start(
        self, arguments: list[str], at_a_time: int, output: IO[bytes]
    ) -> subprocess.Popen[bytes]:
        """Start Python with `arguments` in each process, without waiting for the end.

        Args:
            arguments: Command-line arguments for Python.
            at_a_time: Number of experiments that share the cores.
            output: File for the output of the processes.
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
        return launch.mpirun_command(self.number, arguments, launcher=self.launcher)


def resolve_processes(
    num_cpu: int | str = 1, hosts: str | None = None, launcher: str | None = None
) -> Processes:
    """Return the processes that the three arguments describe.

    Raises:
        UserError: They are invalid, contradict each other, or cannot be satisfied.
    """
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
    raise UserError("machines are for the launcher: launcher='mpirun -hosts node1:2,node2:2'.")


def resolve_num_cpu(num_cpu: int | str) -> int:
    """Return the number of processes for `num_cpu`: a number, or "auto" for one per core.

    Inside an MPI world it is the number of processes that the launcher started.

    Raises:
        UserError: `num_cpu` is invalid, or the MPI world has another number of processes.
    """
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
