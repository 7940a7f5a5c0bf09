"""2 nodes x 8 ranks x 8 configurations of one model, into one shared folder."""

import json
import os

from pytest_gputrace import export_events

CONFIGURATIONS = [
    "model-benchmarks:experiment/fp16",
    "model-benchmarks:experiment/FP16",
    "model-benchmarks:experiment/bf16",
    "model-benchmarks:baseline",
    "resnet_models",
    "resnet-models",
    "nccl-bw:gdr-only",
    "kernel-launch",
]


def export(job):
    """The exporter under test, as it runs in every worker: a process of its own, in its own rank folder."""
    with job.profiler() as profiler:
        pass  # the benchmark would run here
    return export_events(profiler, model=job.model, trace_dir=job.trace_dir)


def test_every_capture_is_kept(gputrace_cluster, gputrace_fault, gputrace_check):
    cluster = gputrace_cluster(
        nodes=2,
        ranks=8,
        configurations=CONFIGURATIONS,
        faults=[gputrace_fault.truncate_legacy(at="every-open")],
    )
    run = cluster.run(export)
    gputrace_check(run).valid().finite().distinct().complete()


def export_naively(job):
    """What most suites do: the file is named by model and local rank. (It is even careful to replace it at once.)"""
    with job.profiler() as profiler:
        pass
    temporary = job.trace_dir / f"{job.worker.node}-{os.getpid()}.tmp"
    temporary.write_text(json.dumps([{"name": event.name} for event in profiler.events()]))
    temporary.replace(job.trace_dir / f"torch-profiler-sb-{job.model}-{job.worker.local_rank}.json")


def test_a_naive_exporter_keeps_one_capture_per_local_rank(gputrace_cluster, gputrace_fault, gputrace_check):
    cluster = gputrace_cluster(
        label="naive exporter",
        nodes=2,
        ranks=8,
        configurations=CONFIGURATIONS,
        faults=[gputrace_fault.truncate_legacy(at="every-open")],
    )
    run = cluster.run(export_naively)
    assert gputrace_check(run).kept == 8  # of 128: one per local rank
