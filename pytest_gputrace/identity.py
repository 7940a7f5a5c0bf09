"""Who am I: the launchers' environment, a live process group and the rank folder -> one ``WorkerId``.

Every source that was seen is kept, so that a wrong answer can be explained. Two sources that claim different things
about one worker of one world are an error, never a silent choice. It must not import torch: a process group can be
live only where torch already is.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import itertools
import os
import socket
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from pytest_gputrace.errors import IdentityError
from pytest_gputrace.model import WorkerId

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

__all__ = ["Identity", "Role", "Source", "identify"]

Role = Literal["used", "agrees", "overruled", "outer", "local", "incomplete", "node"]
"""What became of a source.

``used``: it gives the rank, or was given explicitly. ``agrees``: it says the same about the same world. ``overruled``:
it says otherwise, and an explicit rank beats it. ``outer``: it counts another world (launchers nest). ``local``: it
gives a local rank only. ``incomplete``: a set without all its variables, unreadable beside an explicit rank, or no
Slurm step of several tasks. ``node``: it gives the node label only.
"""


@dataclass(frozen=True)
class Source:
    """One place that says something about this worker, and what became of it (``role``).

    ``variables`` are the ``NAME=value`` texts it was read from. The other fields are what it claims, ``None`` where it
    claims nothing.
    """

    name: str
    variables: tuple[str, ...]
    role: Role
    rank: int | None = None
    world_size: int | None = None
    local_rank: int | None = None
    local_world_size: int | None = None
    node: str | None = None

    def __str__(self) -> str:
        return f"{self.name} ({' '.join(self.variables)})" if self.variables else self.name


@dataclass(frozen=True)
class Identity:
    """Who this worker is, and every source that was seen, the used one first."""

    worker: WorkerId
    sources: tuple[Source, ...]

    def describe(self) -> str:
        """Lines for people: the worker, then each source with its role and its variables."""
        worker = self.worker
        of = "" if worker.local_world_size is None else f" of {worker.local_world_size}"
        text = f"rank {worker.rank} of {worker.world_size}, local rank {worker.local_rank}{of}, node {worker.node}"
        text += f", coordinates {worker.tag}" if worker.tag else ""
        text += f", restart {worker.restart}" if worker.restart else ""
        return "\n".join([text, *(f"  {source.role:<10} {source}" for source in self.sources)])


_SLURM_MAX_NORMAL_STEP_ID = 0xFFFFFFF0  # slurm.h; above it lie the batch, interactive, extern and pending "steps"
_SLURM_TASKS = ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")


def _is_slurm_step(environ: Mapping[str, str]) -> bool:
    # A batch script has SLURM_PROCID=0 beside the allocation's SLURM_NTASKS, a rank 0 that is no rank at all. It may
    # have a step id too, one of the reserved ones, as the interactive step of salloc has.
    step, tasks = environ.get("SLURM_STEP_ID", ""), environ.get(_first_set(environ, _SLURM_TASKS), "1")
    normal = _is_number(step) and int(step) <= _SLURM_MAX_NORMAL_STEP_ID
    return normal and not (_is_number(tasks) and int(tasks) <= 1)


@dataclass(frozen=True)
class _Launcher:
    """The variables of one launcher; of several names for one thing, the first that is set and not empty counts."""

    name: str
    rank: tuple[str, ...] = ()
    world_size: tuple[str, ...] = ()
    local_rank: tuple[str, ...] = ()
    local_world_size: tuple[str, ...] = ()
    node: tuple[str, ...] = ()
    full_name: str = ""  # what a set with all five is called
    needs_local_rank: bool = False  # whether a set without it is incomplete
    usable: Callable[[Mapping[str, str]], bool] = lambda environ: True
    also_shown: tuple[str, ...] = ()


# In the order of belief. Where the formats come from: torch/distributed/run.py ("Environment Variables"), mpirun(1) of
# Open MPI ("Exported Environment Variables"), srun(1) ("OUTPUT ENVIRONMENT VARIABLES"); for PROC_RANK, a local rank,
# SuperBench's superbench/executor/executor.py.
_LAUNCHERS = (
    _Launcher(
        "RANK",
        rank=("RANK",),
        world_size=("WORLD_SIZE",),
        local_rank=("LOCAL_RANK",),
        local_world_size=("LOCAL_WORLD_SIZE",),
        node=("GROUP_RANK",),
        full_name="torchrun",
        needs_local_rank=True,  # a training operator gives a pod RANK=<node> WORLD_SIZE=<nodes> and no LOCAL_RANK
        also_shown=("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT"),
    ),
    _Launcher(
        "OpenMPI",
        rank=("OMPI_COMM_WORLD_RANK",),
        world_size=("OMPI_COMM_WORLD_SIZE",),
        local_rank=("OMPI_COMM_WORLD_LOCAL_RANK",),
        local_world_size=("OMPI_COMM_WORLD_LOCAL_SIZE",),
    ),
    _Launcher(
        "Slurm",
        rank=("SLURM_PROCID",),
        world_size=_SLURM_TASKS,
        local_rank=("SLURM_LOCALID",),
        node=("SLURM_NODEID",),
        usable=_is_slurm_step,
        also_shown=("SLURM_STEP_ID",),
    ),
    _Launcher("PROC_RANK", local_rank=("PROC_RANK",)),
)
_FIELDS = ("rank", "world_size", "local_rank", "local_world_size", "node")
_LOCAL_RANK_VARIABLES = frozenset(name for launcher in _LAUNCHERS for name in launcher.local_rank)
_RANK_SET = ("torchrun", "RANK")  # the two names of the first launcher's sets
_EXECUTOR = ("PROC_RANK", "rank folder")
_DIMENSIONS = ("DP", "PP", "CP", "TP", "EP")
# With LOCAL_RANK before OpenMPI's this is the order SuperBench names its own trace by.
_LOCAL_RANK_ORDER = ("PROC_RANK", "used", "agrees", "local", "incomplete", "overruled", "rank folder", "outer")


def identify(environ: Mapping[str, str] | None = None, *, folder_rank: int | None = None) -> Identity:
    """Say which worker of the job this process is.

    Args:
        environ: the variables to read, ``os.environ`` when not given. An empty value counts as unset.
        folder_rank: the N of the executor's ``rank<N>`` folder that this process runs in (``layout.recognise``).

    Raises:
        IdentityError: two sources disagree about one worker of one world, or a variable cannot be read.
    """
    environ = os.environ if environ is None else environ
    explicit = _explicit(environ)
    # With both ranks explicit no launcher can decide one, so a set that cannot be read must not stand in the way.
    lenient = explicit.rank is not None and explicit.local_rank is not None
    seen = [*_live_group(), *_launchers(environ, lenient)]
    if folder_rank is not None:
        seen.append(Source("rank folder", (f"rank{folder_rank}",), "local", local_rank=folder_rank))
    rank, world_size, sources = _settle(explicit, seen, one_agent_each=_has_one_agent_per_worker(environ, seen))
    local_rank = _local_rank(sources) if explicit.local_rank is None else explicit.local_rank

    same_world = [each for each in sources if each.world_size == world_size and each.role != "outer"]
    sized = next((each for each in same_world if each.local_world_size), None)
    per_node = (sized and sized.local_world_size) or 0
    node = explicit.node or next((each.node for each in same_world if each.node is not None), None)
    # The launcher's own local rank counts too: the worker's may be LOCAL_RANK=0 as everywhere.
    if node is None and sized and world_size % per_node == 0 and rank % per_node in (local_rank, sized.local_rank):
        node = str(rank // per_node)
    node = node or _node_around(sources, world_size)
    if node is None:
        host = _host()
        node, sources = str(host.node), [*sources, host]
    worker = WorkerId(
        node=node,
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        local_world_size=per_node if local_rank < per_node else None,  # too small: the two came from different hands
        restart=_number(environ, "TORCHELASTIC_RESTART_COUNT") or 0,
        coordinates=_coordinates(environ),
    )
    return Identity(worker, tuple(sources))


def _settle(explicit: Source, seen: Sequence[Source], *, one_agent_each: bool) -> tuple[int, int, list[Source]]:
    """The global rank, its world, and all sources with their final roles, the used one first."""
    best = _best(seen)
    rank = (best.rank or 0) if explicit.rank is None else explicit.rank
    # A world is at least the smallest that holds the rank: PROC_RANK=3 alone is 3 of 4.
    world_size = max(best.world_size or 0, rank + 1) if explicit.world_size is None else explicit.world_size
    if rank >= world_size:
        claim = (best if explicit.rank is None else explicit).variables[:1] or (f"rank {rank}",)
        raise _outside_world(claim[0], f"GPUTRACE_WORLD_SIZE={world_size}")
    given = [explicit] if explicit.variables else []
    if explicit.rank is None:
        others = [_judge(each, best, one_agent_each) for each in seen if each.name != best.name]
        return rank, world_size, [*given, best, *others]
    reference = replace(explicit, world_size=world_size)
    return rank, world_size, [*given, *(_judge(each, reference, one_agent_each) for each in seen)]


def _best(seen: Sequence[Source]) -> Source:
    """The source of the global rank, in the order of belief; a local rank only where nothing gives a global one."""
    complete = (each for each in seen if each.role == "agrees")
    local = sorted((each for each in seen if each.role == "local"), key=lambda each: each.name not in _EXECUTOR)
    best = next(itertools.chain(complete, local), Source("default", (), "used", rank=0, world_size=1))
    return replace(best, role="used", rank=best.local_rank if best.rank is None else best.rank)


def _judge(source: Source, reference: Source, one_agent_each: bool) -> Source:
    """The source with its role beside the one that gives the rank; only within one world can two disagree."""
    same_world = source.world_size == reference.world_size
    if source.role != "agrees" or (same_world and source.rank == reference.rank):
        return source
    if not same_world or (one_agent_each and source.name not in ("torch.distributed", *_RANK_SET)):
        return replace(source, role="outer")
    if reference.name == "explicit":
        return replace(source, role="overruled")
    raise IdentityError(
        f"two sources disagree about this worker's global rank in a world of {reference.world_size}: {reference} "
        f"says {reference.rank}, {source} says {source.rank}; unset the variables of the wrong one, or set "
        "GPUTRACE_RANK, which comes before every other source",
        sources=[_variable(reference.variables[0]), _variable(source.variables[0])],
    )


def _has_one_agent_per_worker(environ: Mapping[str, str], seen: Sequence[Source]) -> bool:
    # `srun torchrun --nproc-per-node=1`: Slurm counts torchrun's agents, and there are as many of them as workers, but
    # the rendezvous numbers the workers as it likes. Equal worlds then are two worlds all the same.
    return "TORCHELASTIC_RUN_ID" in environ and any(s.name == "torchrun" and s.local_world_size == 1 for s in seen)


def _local_rank(sources: Sequence[Source]) -> int:
    """The local rank by the order above; an overruled or outer source is asked last and compared with nothing."""
    claims = [each for each in sources if each.local_rank is not None]
    claims.sort(key=lambda each: _LOCAL_RANK_ORDER.index(each.name if each.name in _EXECUTOR else each.role))
    compared = [each for each in claims if each.role not in ("overruled", "outer")]
    for one, other in itertools.combinations(compared, 2):
        if one.local_rank != other.local_rank and not (_is_silent(one, other) or _is_silent(other, one)):
            ours, theirs = _local_variable(one), _local_variable(other)
            raise IdentityError(
                f"two sources disagree about this worker's local rank: {one.name} says {one.local_rank} ({ours}), "
                f"{other.name} says {other.local_rank} ({theirs}); correct the wrong one, or set GPUTRACE_LOCAL_RANK",
                sources=[_variable(ours), _variable(theirs)],
            )
    return (claims[0].local_rank or 0) if claims else 0


def _is_silent(zero: Source, other: Source) -> bool:
    # Some launchers and wrappers set LOCAL_RANK=0 for every worker, each seeing one GPU. So a launcher's 0 is no claim
    # against the executor, and that of LOCAL_RANK none against anybody.
    is_zero = zero.local_rank == 0 and zero.name not in _EXECUTOR
    return is_zero and (other.name in _EXECUTOR or _local_variable(zero).startswith("LOCAL_RANK="))


def _local_variable(source: Source) -> str:
    return next((text for text in source.variables if _variable(text) in _LOCAL_RANK_VARIABLES), source.variables[0])


def _variable(text: str) -> str:
    return text.partition("=")[0]


def _node_around(sources: Sequence[Source], world_size: int) -> str | None:
    # `srun` with one task per node that started the workers itself: its node index is theirs. Not so GROUP_RANK, which
    # counts the agents of its own job, and not the index of a larger job that this one is a small part of.
    around = (each for each in sources if each.role == "outer" and each.name not in _RANK_SET)
    return next((each.node for each in around if each.node is not None and (each.world_size or 0) < world_size), None)


def _host() -> Source:
    """The node label of last resort: the host name, and what tells two hosts or containers of one name apart.

    Stable over reboots, as baselines are paired by name: no boot id, no process id, no clock. A missing file gives an
    empty part (machine-id(5), pid_namespaces(7)).
    """
    name, namespace = socket.gethostname(), ""
    with contextlib.suppress(OSError):
        namespace = str(os.stat("/proc/self/ns/pid").st_ino)
    text = "\0".join((_machine_id(), name, namespace))
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()
    label = f"{name or 'host'}-{base64.b32encode(digest)[:10].decode().lower()}"
    return Source("hostname", (f"hostname={name}",), "node", node=label)


def _machine_id() -> str:
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id"):
        with contextlib.suppress(OSError), open(path, encoding="utf-8", errors="backslashreplace") as file:
            if text := file.read().strip():
                return text
    return ""


def _live_group() -> list[Source]:
    """The process group that is initialised in this process, if torch is imported at all."""
    try:
        distributed = getattr(sys.modules.get("torch"), "distributed", None)
        if distributed is None or distributed.is_available() is not True or distributed.is_initialized() is not True:
            return []
        rank, world_size = distributed.get_rank(), distributed.get_world_size()
    except (AttributeError, ImportError, RuntimeError, TypeError, ValueError):
        return []  # half imported, just destroyed, or a stand-in: it says nothing, the launchers may
    if type(rank) is not int or type(world_size) is not int or not 0 <= rank < world_size:
        return []  # a mock answers with mocks, a process outside the group has rank -1
    variables = (f"get_rank()={rank}", f"get_world_size()={world_size}")
    return [Source("torch.distributed", variables, "agrees", rank=rank, world_size=world_size)]


def _launchers(environ: Mapping[str, str], lenient: bool) -> list[Source]:
    sources = []
    for launcher in _LAUNCHERS:
        names = {field: name for field in _FIELDS if (name := _first_set(environ, getattr(launcher, field)))}
        if not names:
            continue
        shown = [*names.values(), *(name for name in launcher.also_shown if environ.get(name))]
        source = Source(launcher.name, tuple(f"{name}={environ[name]}" for name in shown), "incomplete")
        try:
            sources.append(_read(launcher, environ, names, source) if launcher.usable(environ) else source)
        except IdentityError:
            if not lenient:
                raise
            sources.append(source)
    return sources


def _read(launcher: _Launcher, environ: Mapping[str, str], names: Mapping[str, str], source: Source) -> Source:
    """The set of one launcher: complete (``agrees``, until it is judged), local or incomplete."""
    numbers = {field: _number(environ, name) for field, name in names.items()}
    rank, world_size, local_rank = (numbers.get(field) for field in _FIELDS[:3])
    if rank is None or world_size is None or (local_rank is None and launcher.needs_local_rank):
        lone = rank is None and world_size is None and local_rank is not None
        named = replace(source, local_rank=local_rank)
        return replace(named, name=names["local_rank"], role="local") if lone else named
    if rank >= world_size:
        raise _outside_world(f"{names['rank']}={rank}", f"{names['world_size']}={world_size}")
    return Source(
        (launcher.full_name if len(numbers) == len(_FIELDS) else "") or launcher.name,
        source.variables,
        "agrees",
        rank=rank,
        world_size=world_size,
        local_rank=local_rank,
        local_world_size=numbers.get("local_world_size"),
        node=str(numbers["node"]) if "node" in numbers else None,
    )


def _explicit(environ: Mapping[str, str]) -> Source:
    """What the user says with ``GPUTRACE_*`` variables; any of them may be given alone."""
    names = ("GPUTRACE_RANK", "GPUTRACE_WORLD_SIZE", "GPUTRACE_LOCAL_RANK", "GPUTRACE_NODE_ID", "GPUTRACE_COORDINATES")
    rank, world_size, local_rank = (_number(environ, name) for name in names[:3])
    variables = tuple(f"{name}={environ[name]}" for name in names if environ.get(name))
    node = environ.get("GPUTRACE_NODE_ID") or None
    return Source("explicit", variables, "used", rank, world_size, local_rank, node=node)


def _coordinates(environ: Mapping[str, str]) -> dict[str, int]:
    """``GPUTRACE_COORDINATES="DP=1,CP=0,TP=2"`` in the fixed order; one that is not given is absent, never 0."""
    text = environ.get("GPUTRACE_COORDINATES", "")
    found: dict[str, int] = {}
    for part in text.split(",") if text else ():
        name, _, value = part.partition("=")
        if name not in _DIMENSIONS or name in found or not _is_number(value):
            raise IdentityError(
                f"GPUTRACE_COORDINATES={text!r}: {part!r} is not one of {', '.join(_DIMENSIONS)}, given once and with "
                "a decimal number; write for example DP=1,CP=0,TP=2",
                sources=["GPUTRACE_COORDINATES"],
            )
        found[name] = int(value)
    return {name: found[name] for name in _DIMENSIONS if name in found}


def _first_set(environ: Mapping[str, str], names: Sequence[str]) -> str:
    return next((name for name in names if environ.get(name)), "")


def _is_number(text: str) -> bool:
    # isdigit() alone takes "²" and int() takes "٣", "1_0" and " 3 "; 18 digits are far above any rank.
    return text.isascii() and text.isdigit() and len(text) <= 18


def _number(environ: Mapping[str, str], name: str) -> int | None:
    text = environ.get(name)
    if text and not _is_number(text):
        raise IdentityError(
            f"{name}={text!r} cannot be read: expected a number in the digits 0 to 9; correct it or unset it",
            sources=[name],
        )
    return int(text) if text else None


def _outside_world(rank: str, world_size: str) -> IdentityError:
    return IdentityError(
        f"{rank} is not in the world of {world_size}: ranks count from 0; correct one of the two, or set "
        "GPUTRACE_RANK and GPUTRACE_WORLD_SIZE, which come before every other source",
        sources=[_variable(rank), _variable(world_size)],
    )
