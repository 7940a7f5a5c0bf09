"""Exporters whose files have wrong names: two captures share one, or nobody can tell it in advance."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import re
import secrets
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from tests.e2e.exporters.good import Exporter, Replacing, digest, record, slug

if TYPE_CHECKING:
    from pytest_gputrace.fakes import FakeProfile, Job

_LIMIT = 255


class SuperBenchsDump(Exporter):
    """Model and local rank are the whole name, and there is no other file (SuperBench's profiler dump)."""

    def export(self, job: Job, profile: FakeProfile) -> None:
        records = [record(event) for event in profile.events() if event.device_type.name == "CPU"]
        with open(job.legacy_path, "w", encoding="utf-8") as file:
            json.dump(records, file, sort_keys=True)


# Which configuration.


class ConfigurationForgotten(Replacing):
    """One name for all configurations of a model."""

    def configuration(self, job: Job) -> str:
        return "trace"


class LastPartOfTheConfiguration(Replacing):
    """``os.path.basename`` of the configuration, taken for a path."""

    def configuration(self, job: Job) -> str:
        last = os.path.basename(job.configuration)
        return f"{slug(last)}.{digest(last)}"


class ConfigurationWithoutSuffix(Replacing):
    """``Path(configuration).with_suffix("")``, so that another suffix can be put there: two versions are one."""

    def configuration(self, job: Job) -> str:
        stem = os.path.splitext(job.configuration)[0]
        return f"{slug(stem)}.{digest(stem)}"


class CleanedByARegularExpression(Replacing):
    """Every run of unusual characters becomes one underscore; whatever differed in them is equal then."""

    def configuration(self, job: Job) -> str:
        cleaned = re.sub("[^A-Za-z0-9]+", "_", job.configuration)
        return cleaned if len(cleaned) < 100 else digest(cleaned)


class DigestOfTheLowerCase(Replacing):
    """Case is folded before the digest is taken, so that both spellings have one file."""

    def configuration(self, job: Job) -> str:
        return f"{slug(job.configuration)}.{digest(job.configuration.lower())}"


class EscapedAndNoMore(Exporter):
    """Percent escapes are injective, but ``FP16`` and ``fp16`` stay two names that differ in case only."""

    def configuration(self, job: Job) -> str:
        escaped = quote(job.configuration, safe="")
        return escaped if len(escaped) < 100 else digest(job.configuration)


class ColonsKept(Exporter):
    """All that Linux does not take is escaped: the slash. SMB and NTFS do not take the colon."""

    def configuration(self, job: Job) -> str:
        shown = job.configuration.replace("/", "%2F")[:20]
        return f"{shown}.{digest(job.configuration)}"


class FolderWithAFinalDot(Exporter):
    """A folder of its own for each configuration, cleaned of all bad characters; its last one may be a dot or blank."""

    def name(self, job: Job, number: int) -> str:
        cleaned = re.sub(r"[^a-z0-9. ]+", "-", job.configuration.lower())[:40]
        folder = f"{digest(job.configuration)}-{cleaned}"
        (job.trace_dir / folder).mkdir(exist_ok=True)
        return f"{folder}/r{self.rank(job)}.{number}.json"


class RawConfigurationAndFolderRank(Replacing):
    """The rank folder's path gives both: the configuration as it is, slashes too, and a rank that is a local one."""

    def name(self, job: Job, number: int) -> str:
        folder = Path.cwd()
        parts = folder.parts
        configuration = "/".join(parts[parts.index("benchmarks") + 1 : -1])
        return f"{job.model}-{configuration}-{folder.name}.{number}.json"


class CutByCharacters(Replacing):
    """A name may have 255 characters, it is said; what comes after them is cut off."""

    def configuration(self, job: Job) -> str:
        escaped = re.sub(r"[^\w-]", lambda match: f"%{ord(match[0]):02x}", _without_case(job.configuration))
        return escaped[: _LIMIT - 40]


class CutByCharactersWithADigest(Exporter):
    """The digest keeps what is cut apart, but 255 characters may be 765 bytes."""

    def configuration(self, job: Job) -> str:
        return f"{slug_of_any_letters(job.configuration)[: _LIMIT - 50]}.{digest(job.configuration)}"


class CutByBytesWithoutADigest(Replacing):
    """The limit of bytes is kept, and two names that are equal up to it are one."""

    def configuration(self, job: Job) -> str:
        escaped = re.sub(r"[^\w-]", lambda match: f"%{ord(match[0]):02x}", _without_case(job.configuration))
        return escaped.encode()[: _LIMIT - 40].decode(errors="ignore")


class OneByteTooMany(Exporter):
    """A name of 256 bytes is not yet too long for the comparison."""

    def name(self, job: Job, number: int) -> str:
        cleaned = re.sub(r"[^a-z0-9]+", "-", job.configuration.lower())
        end = f".{digest(job.configuration)}.r{self.rank(job)}.{number}.json"
        name = f"{job.model}.{cleaned}{end}"
        return name if len(name) <= _LIMIT + 1 else f"{job.model}{end}"


class LongerTemporaryName(Exporter):
    """The final name just fits; the temporary one beside it is longer."""

    def name(self, job: Job, number: int) -> str:
        cleaned = re.sub(r"[^a-z0-9]+", "-", job.configuration.lower())
        end = f".{digest(job.configuration)}.r{self.rank(job)}.{number}.json"
        return f"{job.model}-{cleaned}"[: _LIMIT - len(end)] + end

    def keep(self, job: Job, data: bytes) -> None:
        private = job.trace_dir / f".{self.name(job, 1)}.tmp"
        try:
            private.write_bytes(data)
            os.link(private, job.trace_dir / self._free(job))
        finally:
            with contextlib.suppress(OSError):
                private.unlink(missing_ok=True)

    def _free(self, job: Job) -> str:
        number = 1
        while (job.trace_dir / self.name(job, number)).exists():
            number += 1
        return self.name(job, number)


def _without_case(text: str) -> str:
    """Injective: what folding would change is written in hexadecimal digits."""
    return "".join(
        letter if (letter == letter.casefold() and letter.isascii()) or ord(letter) > 0x3000 else f"%{ord(letter):x}"
        for letter in text
    )


def slug_of_any_letters(text: str) -> str:
    """As `slug`, with the letters of all languages."""
    return re.sub(r"[\W_]+", "-", text.casefold())


# Which worker.


class FirstRankOnly(Exporter):
    """Rank 0 speaks for all: right for a log, not for a trace."""

    def keep(self, job: Job, data: bytes) -> None:
        if self.rank(job) == "0":
            super().keep(job, data)


class LocalRankOfAnyLauncher(Replacing):
    """Every launcher's variable is known, but it is the local rank that they are asked for."""

    def rank(self, job: Job) -> str:
        variables = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "PROC_RANK")
        return next(os.environ[name] for name in variables if name in os.environ)


class NodeAndLocalRank(Replacing):
    """One folder for all nodes, so the node is named as well; where LOCAL_RANK is 0 for everybody that is not enough."""

    def rank(self, job: Job) -> str:
        variables = ("LOCAL_RANK", "SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "PROC_RANK")
        local_rank = next(os.environ[name] for name in variables if name in os.environ)
        nodes = ("GROUP_RANK", "SLURM_NODEID")
        node = next((os.environ[name] for name in nodes if name in os.environ), socket.gethostname())
        return f"{node}-{local_rank}"


class FirstVariableWins(Replacing):
    """All variables are known, and the first one that is set is believed, whatever the others say."""

    variables: tuple[str, ...] = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PROC_RANK")

    def rank(self, job: Job) -> str:
        return next((os.environ[name] for name in self.variables if name in os.environ), "0")


class RankVariableOnly(FirstVariableWins):
    """``int(os.environ.get("RANK", 0))``: other launchers make everybody rank 0."""

    variables = ("RANK",)


class SlurmUnknown(FirstVariableWins):
    """torchrun and MPI are known, and under Slurm everybody is rank 0."""

    variables = ("RANK", "OMPI_COMM_WORLD_RANK", "PROC_RANK")


class MpiUnknown(FirstVariableWins):
    """torchrun and Slurm are known, and under MPI everybody is rank 0."""

    variables = ("RANK", "SLURM_PROCID", "PROC_RANK")


class ProcRankUnknown(FirstVariableWins):
    """The launchers are known, and in the executor's local mode everybody is rank 0."""

    variables = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK")


class HostAndLocalRank(Replacing):
    """Two pods have one host name."""

    def rank(self, job: Job) -> str:
        variables = ("SLURM_LOCALID", "OMPI_COMM_WORLD_LOCAL_RANK", "PROC_RANK")
        known = next((os.environ[name] for name in variables if name in os.environ), None)
        if known is None:  # not LOCAL_RANK, which lies at times
            known = str(int(os.environ["RANK"]) % int(os.environ["LOCAL_WORLD_SIZE"]))
        return f"{socket.gethostname()}-{known}"


# What is unique at the moment.


class HostProcessAndMillisecond(Replacing):
    """The name that torch's ``tensorboard_trace_handler`` gave for long: unique until hosts, pids or clocks are equal."""

    def name(self, job: Job, number: int) -> str:
        return f"{socket.gethostname()}_{os.getpid()}.{time.time_ns() // 1_000_000}.pt.trace.json"


class TimeInTheName(Exporter):
    """Right in all else; but tomorrow the same capture has another name."""

    def name(self, job: Job, number: int) -> str:
        return f"{time.time_ns()}.{super().name(job, number)}"


class ProcessInTheName(Replacing):
    """The process id in place of the rank: in containers all nodes have the same ones."""

    def rank(self, job: Job) -> str:
        return str(os.getpid())


# Which round, which run.


class SecondRoundReplaces(Replacing):
    """The name does not know of rounds."""

    def name(self, job: Job, number: int) -> str:
        return super().name(job, 1)


class SecondRoundWritesNothing(Exporter):
    """A flag of the first round is never taken back; the second one returns as if all were well."""

    def keep(self, job: Job, data: bytes) -> None:
        if self.round == 1:
            super().keep(job, data)


class FirstRunStays(Replacing):
    """A file that is there was exported already, so there is nothing to do."""

    def keep(self, job: Job, data: bytes) -> None:
        if not (job.trace_dir / self.name(job, self.round)).exists():
            super().keep(job, data)


class CleansTheFolder(Exporter):
    """Every worker removes what lies in the folder before it writes: what its neighbours wrote as well."""

    def keep(self, job: Job, data: bytes) -> None:
        for path in job.trace_dir.glob("*.json"):
            path.unlink()
        super().keep(job, data)


class CleansUpAfterOthers(Exporter):
    """What is no file of this exporter's must be old, so it is removed."""

    def keep(self, job: Job, data: bytes) -> None:
        for path in job.trace_dir.glob("*.pt.trace.json"):
            path.unlink()
        super().keep(job, data)


class RemovesItsOwnEarlierFiles(Exporter):
    """Each worker begins with an empty slate: what it wrote in an earlier run goes."""

    def keep(self, job: Job, data: bytes) -> None:
        if self.round == 1:
            for path in job.trace_dir.glob(f"{job.model}.{self.configuration(job)}.r{self.rank(job)}.*.json"):
                path.unlink()
        super().keep(job, data)


# Several at once.


class LooksThenWrites(Exporter):
    """The next free number for all ranks of a configuration: found by looking, taken by writing, a moment later."""

    def name(self, job: Job, number: int) -> str:
        return f"{job.model}.{self.configuration(job)}.{number}.json"

    def keep(self, job: Job, data: bytes) -> None:
        number = 1
        while (path := job.trace_dir / self.name(job, number)).exists():
            number += 1
        private = job.trace_dir / f".{secrets.token_hex(8)}.tmp"
        try:
            private.write_bytes(data)
            os.replace(private, path)
        finally:
            private.unlink(missing_ok=True)


class SharedTemporaryName(Exporter):
    """All write to ``trace.tmp`` and rename it: good against kills, not against neighbours."""

    def keep(self, job: Job, data: bytes) -> None:
        shared = job.trace_dir / ".trace.tmp"
        shared.write_bytes(data)
        number = 1
        while (job.trace_dir / self.name(job, number)).exists():
            number += 1
        os.replace(shared, job.trace_dir / self.name(job, number))


class FirstFreeNumber(Exporter):
    """The first free number for all configurations of a rank, taken without a race: who comes first has the first."""

    def name(self, job: Job, number: int) -> str:
        return f"{job.model}.r{self.rank(job)}.{number}.json"


class AppendsGzipMembers(Exporter):
    """Each capture is one more gzip stream at the end of the rank's file: it inflates, and is no JSON."""

    def keep(self, job: Job, data: bytes) -> None:
        with gzip.open(job.trace_dir / f"{job.model}.r{self.rank(job)}.json.gz", "ab") as file:
            file.write(data)


class AppendsDocuments(Exporter):
    """One capture a line, as logs have it, in a file called ``.json``."""

    def keep(self, job: Job, data: bytes) -> None:
        with (job.trace_dir / f"{job.model}.{self.configuration(job)}.r{self.rank(job)}.json").open("ab") as file:
            file.write(data + b"\n")
