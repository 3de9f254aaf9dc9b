"""Traces read by the workers of a Dask cluster.

The traces lie on storage that all workers see under the same path; only reports travel.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..core.errors import TraceFileError, UsageError
from .analysis import Options
from .outcomes import Outcome, Work

if TYPE_CHECKING:
    from distributed import Client


CONNECT_S = 6
"""Patience with a scheduler that does not answer, and then with one that has no workers."""


def run_cluster(
    work: Work, paths: Sequence[Path], names: Sequence[str], options: Options, address: str
) -> Generator[tuple[int, Outcome], None, None]:
    """`work` on each path by a worker of the scheduler at `address`; (index, outcome) as they come.

    The work of a lost worker is done again by another. Dask gives up what lay on several lost
    workers, whichever trace cost them: those are done once more, one by one. Raises `UsageError`
    where Dask is not installed or the scheduler cannot be reached.
    """
    with _client(address) as client:
        from distributed import as_completed

        tasks: dict[Any, int] = {}

        def submit(i: int) -> Any:
            task = client.submit(work, paths[i].absolute(), options, names[i], 1, pure=False)
            tasks[task] = i
            return task

        given_up = []
        with client.as_current():
            finished = as_completed([submit(i) for i in range(len(paths))])
        try:
            for future in finished:
                i = tasks.pop(future)
                outcome = _outcome(future)
                if outcome is None:
                    given_up.append(i)
                else:
                    yield i, outcome
            for i in given_up:
                future = submit(i)
                yield i, _outcome(future) or _lost(names[i])
                del tasks[future]
        finally:
            # After Ctrl-C the cluster must not go on with what nobody waits for.
            client.cancel(list(tasks))


def _outcome(future: Any) -> Outcome | None:
    """What came of a task once it is done; None where Dask gave it up for its lost workers."""
    from distributed import KilledWorker

    error = future.exception()
    if error is None:
        outcome: Outcome = future.result()
        return outcome
    if isinstance(error, KilledWorker):
        return None
    if isinstance(error, ImportError):
        raise UsageError(
            f"The Dask workers cannot run nsysoverlap ({error}).",
            "Install the same version of it in their environment.",
        )
    raise error


def _lost(name: str) -> TraceFileError:
    return TraceFileError(
        f"{name}: every Dask worker that read it was lost.",
        "It may need more memory than a worker has.",
    )


async def _greet(address: str) -> None:
    """Shake hands with a scheduler and leave; `Client` waits for a silent one without end."""
    from distributed.comm import connect
    from distributed.security import Security

    arguments = Security().get_connection_args("client")
    comm = await asyncio.wait_for(connect(address, timeout=CONNECT_S, **arguments), CONNECT_S)
    comm.abort()


@contextmanager
def _client(address: str) -> Iterator[Client]:
    try:
        from distributed import Client
    except ImportError as error:
        raise UsageError(
            "--dask needs Dask, which is not installed.", "Run: pip install distributed"
        ) from error
    try:
        # In a thread, for a notebook has a running event loop of its own.
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: asyncio.run(_greet(address))).result()
        client = Client(address, timeout=CONNECT_S, set_as_default=False)
    # Dask takes the answer of a web server for the size of a message: MemoryError.
    except (OSError, ValueError, TypeError, MemoryError) as error:
        raise UsageError(
            f"The Dask scheduler {address} cannot be reached.",
            "Check the address and that it runs, such as tcp://host:8786.",
        ) from error
    with client:
        try:
            client.wait_for_workers(1, timeout=CONNECT_S)
        except TimeoutError as error:
            raise UsageError(
                f"The Dask scheduler {address} has no workers.", "Start `dask worker ADDRESS`."
            ) from error
        yield client
