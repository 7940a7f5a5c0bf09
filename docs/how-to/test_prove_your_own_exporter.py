"""The exporter of ``my_exporter.py`` is held to the whole contract."""

import pytest
from my_exporter import save_trace

from pytest_gputrace import ExporterContract


def export(job):
    """What the kit calls in every simulated worker: hand the job's words on to the exporter."""
    for _ in range(job.rounds):
        with job.profiler() as profile:
            pass  # the code that is profiled would run here
        save_trace(profile, job.trace_dir, job.configuration)


class TestMyExporter(ExporterContract):
    unclaimed = {
        "layout": "the configuration is handed over by the caller",
        "legacy": "no older consumer reads our files",
        "mpi": "we start workers with torchrun only",
        "proc_rank": "we start workers with torchrun only",
        "slurm": "we start workers with torchrun only",
    }

    @pytest.fixture
    def exporter(self):
        return export
