"""A kernel that is forked from the process that starts it, and so has imported already what that one has."""

import atexit
import json
import os
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from jupyter_client.provisioning import LocalProvisioner


class ForkedKernel:
    """A process that waits, and then becomes a kernel; with what of `subprocess.Popen` a kernel manager uses.

    To be made before this process has any thread. Where this process ends before `begin`, it ends as well.

    Parameters
    ----------
    release : callable
        Called in the new process, to let go of what only this one is to hold.
    """

    stdin = stdout = stderr = None

    def __init__(self, release: Callable[[], object]) -> None:
        self.returncode: int | None = None
        self._line, waiting = socket.socketpair()
        self.pid = os.fork()
        if self.pid == 0:
            self._line.close()
            _become_kernel(waiting, release)
        waiting.close()

    def begin(self, argv: Sequence[str], environment: Mapping[str, str], folder: str, log: int) -> None:
        """Have it become the kernel.

        Parameters
        ----------
        argv : sequence of str
            Arguments of the kernel.
        environment : mapping
            Its whole environment.
        folder : str
            Its working directory.
        log : int
            File descriptor that takes what the process prints.

        Raises
        ------
        RuntimeError
            If it has ended meanwhile: somebody killed it.
        """
        order = json.dumps({"argv": list(argv), "environment": dict(environment), "folder": folder}).encode()
        try:
            with self._line as line:
                socket.send_fds(line, [order[:1]], [log])
                line.sendall(order[1:])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise RuntimeError("The process that was to become the kernel has ended.") from error

    def poll(self) -> int | None:
        """Return how it ended, as `subprocess.Popen.returncode`, or None."""
        return self._look(os.WNOHANG)

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end, and return how it ended; `timeout` is there for the form, nobody here gives one."""
        assert timeout is None
        code = self._look(0)
        assert code is not None
        return code

    def send_signal(self, number: int) -> None:
        """Send it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Ask it to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End it."""
        self.send_signal(signal.SIGKILL)

    def _look(self, options: int) -> int | None:
        if self.returncode is None:
            pid, status = os.waitpid(self.pid, options)
            self.returncode = os.waitstatus_to_exitcode(status) if pid else None
        return self.returncode


def forked_provisioner(kernel: ForkedKernel, **about: Any) -> "LocalProvisioner":
    """Return a provisioner of `jupyter_client` that has `kernel` become the kernel which its manager starts."""
    from jupyter_client.provisioning import LocalProvisioner

    class ForkedProvisioner(LocalProvisioner):
        async def launch_kernel(self, cmd: list[str], **given: Any) -> Any:
            environment = {**given["env"], "JPY_PARENT_PID": str(os.getpid())}
            kernel.begin(cmd[3:], environment, str(given["cwd"]), given["stdout"].fileno())
            self.process = kernel  # type: ignore[assignment]
            self.pid = self.pgid = kernel.pid  # it leads a session of its own
            self.cwd = given["cwd"]
            return self.connection_info

    return ForkedProvisioner(**about)


def _become_kernel(line: socket.socket, release: Callable[[], object]) -> NoReturn:
    """Wait for the order and run the kernel; the process ends with it, and never comes back to what forked it."""
    code = 1
    try:
        release()
        first, files, _, _ = socket.recv_fds(line, 1, 1)
        if not first:
            os._exit(0)
        with line, line.makefile("rb") as rest:
            order = json.loads(first + rest.read())
        _settle(order, files[0])
        from kokoro_nb.reporting.notebook_kernel import main

        main()
        code = 0
    except SystemExit as stop:
        code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        with suppress(BaseException):
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _settle(order: Mapping[str, Any], log: int) -> None:
    """Take on what a process of its own would begin with: session, streams, signals, environment, folder, arguments."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(log)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
    os.environ.clear()
    os.environ.update(order["environment"])
    os.chdir(order["folder"])
    sys.argv = ["notebook_kernel", *order["argv"]]
