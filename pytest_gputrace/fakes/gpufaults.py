"""Faults of what a trace holds: the GPU half is missing or thin, nothing was recorded, or the profiler says so itself."""

from __future__ import annotations

from pytest_gputrace.fakes.textedit import small
from pytest_gputrace.fakes.traceedit import (
    drop_gpu_work,
    flow_end,
    flow_start,
    gpu_rows,
    launch,
    pair,
    retime,
    without,
)
from pytest_gputrace.fakes.tracefault import Case, fault
from pytest_gputrace.fakes.traces import FakeTrace

__all__ = ["SECRET", "bare"]

SECRET = "hush-9f2c51"
"""Stands in every value that no report may repeat."""
_HOST_WORK = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver", "fwdbwd")


def bare(trace: FakeTrace) -> FakeTrace:
    """The trace as torch writes it when nothing ran: rows about the process and the profile only."""
    without(trace, lambda row: row["ph"] != "M" and row.get("cat") not in (None, "Trace"))
    return trace


@fault("gpu", near="kernels without a launch: a profile of the GPU alone")
def no_kernels() -> Case:
    """There are launches, and nothing that ran on a GPU: its collection failed."""
    bad, good = FakeTrace(), FakeTrace("rocm")
    drop_gpu_work(bad, gpu_rows(bad))
    without(good, lambda row: row.get("cat") in _HOST_WORK or row.get("cat") in ("ac2g", "gpu_user_annotation"))
    return pair(bad, good)


@fault("gpu", near="one copy, and no kernel")
def no_gpu_work() -> Case:
    """Nothing in it is of a GPU."""
    good = small()
    kernel = gpu_rows(good)[0]
    gone = [kernel, flow_end(good, kernel), flow_start(good, kernel), launch(good, kernel)]
    without(good, lambda row: any(row is each for each in gone))
    return pair(FakeTrace("cpu"), good)


@fault("gpu", near="a graph: launches of its capture, then one that starts many kernels")
def launches_without_kernels() -> Case:
    """Of twelve launches, three have a kernel: those after a graph was captured have none."""
    bad, good = FakeTrace(steps=4, kernels_per_step=3), FakeTrace(steps=2, kernels_per_step=4)
    kernels = [row for row in gpu_rows(bad) if row["cat"] == "kernel"]
    first = launch(bad, kernels[3])
    drop_gpu_work(bad, kernels[3:])
    kernels = [row for row in gpu_rows(good) if row["cat"] == "kernel"]
    graph = kernels[2]
    launch(good, graph)["name"] = "cudaGraphLaunch"
    for row in kernels[3:6]:  # their launches were captured; the graph's launch starts them
        end = flow_end(good, row)
        end["id"] = row["args"]["correlation"] = graph["args"]["correlation"]
    return pair(bad, good, bad.events.index(first))


@fault("gpu", near="kernels of a step run after the step has ended on the host")
def steps_without_gpu() -> Case:
    """Of three steps, the first two have kernels, the last has launches only."""
    bad, good = FakeTrace(steps=3, kernels_per_step=2), FakeTrace(steps=3, kernels_per_step=2)
    drop_gpu_work(bad, gpu_rows(bad)[-2:])
    step_us = (
        good.events[good.index(1, cat="user_annotation")]["ts"] - good.events[good.index(cat="user_annotation")]["ts"]
    )
    retime(good, lambda ts: ts + 1.5 * step_us)
    return pair(bad, good, bad.index(2, cat="user_annotation"))


@fault("gpu", near="the last launch has none: the window was cut there")
def head_kernels_missing() -> Case:
    """The first three launches have no kernel, the other five do."""
    bad, good = FakeTrace(kernels_per_step=4), FakeTrace(kernels_per_step=4)
    gone = gpu_rows(bad)[:3]
    event = bad.events.index(launch(bad, gone[0]))
    drop_gpu_work(bad, gone)
    drop_gpu_work(good, gpu_rows(good)[-1:])
    return pair(bad, good, event)


@fault("gpu", near="a root with one kernel below it", filename="trace.hatchet")
def empty_tree() -> Case:
    """A tree of Proton has a root and nothing else."""
    bad, good = FakeTrace.proton_tree(steps=0), FakeTrace.proton_tree(steps=1, kernels_per_step=1)
    bad.document[1] = {}
    good.document[0]["children"] = good.document[0]["children"][0]["children"]
    return pair(bad, good)


@fault("gpu", near="a kernel and its launch besides")
def nothing_recorded() -> Case:
    """A Kineto trace has rows about the process and the profile only: nothing ran, or the session was lost."""
    return pair(bare(FakeTrace()), small())


@fault("gpu", near="one scope and its kernel", filename="trace.chrome_trace")
def no_events() -> Case:
    """A trace of Proton has an empty list of events, and therefore no base."""
    bad = FakeTrace.proton(steps=0)
    bad.document["traceEvents"] = []
    del bad.document["baseTimeNanoseconds"]
    return pair(bad, FakeTrace.proton(steps=1, kernels_per_step=1))


@fault("gpu", near="half of them do: their clock counts whole microseconds")
def no_gpu_timing() -> Case:
    """Everything on the GPU lasts 0 us, each at its own time."""
    bad, good = FakeTrace(), FakeTrace()
    for row in gpu_rows(bad):
        row["dur"] = 0.0
    for row in gpu_rows(good)[::2]:
        row["dur"] = 0.0
    return pair(bad, good, bad.index(cat="kernel"))


@fault("gpu", near="it was not")
def buffer_overflow() -> Case:
    """VizTracer's buffer was full, `overflow` says; the oldest events are lost."""
    bad = FakeTrace.viztracer()
    bad.document["viztracer_metadata"]["overflow"] = True
    return pair(bad, FakeTrace.viztracer())


@fault("gpu", near="lines of information, and an empty list of errors")
def profiler_errors() -> Case:
    """Kineto wrote two lines of its log into the file, under `ERROR`."""
    bad, good = small(), small()
    line = f"ERROR:2026-11-30 10:00:00 4000:4000 CuptiActivityProfiler.cpp:512] {SECRET} GPU buffers dropped"
    bad.document = {**bad.document, "ERROR": [line, line]}
    good.document = {**good.document, "INFO": [line.replace("ERROR", "INFO")], "ERROR": []}
    return pair(bad, good)


@fault("gpu", near="nothing was left out")
def repaired_file() -> Case:
    """The file was repaired, and nobody knows how many events are missing."""
    bad, good = small(), small()
    account = {"events_kept": len(bad.events), "events_lost": None, "changes": 1}
    bad.document = {**bad.document, "gputrace_repaired": account}
    good.document = {**good.document, "gputrace_repaired": {**account, "events_lost": 0}}
    return pair(bad, good)


@fault("secrets", near="metadata of the user's own, and arguments with such words")
def environment_inside() -> Case:
    """The producer's whole environment stands at the root, under `metadata`."""
    bad, good = small(), small()
    environment = {"PATH": "/usr/bin", "HOME": "/root", "USER": "root", "PWD": "/root", "HUB_TOKEN": SECRET}
    bad.document = {**bad.document, "metadata": {"environment": environment, "packages": ["torch==2.13.0"]}}
    good.document = {**good.document, "metadata": {"model": "bert", "batch_size": 8, "environment": "staging"}}
    good.events[good.index(cat="cpu_op")]["args"]["PATH"] = "the path through the network"
    return pair(bad, good)


@fault("secrets", near="no text in file_info")
def source_text_inside() -> Case:
    """A VizTracer report holds the text of the program."""
    bad, good = FakeTrace.viztracer(sources=True), FakeTrace.viztracer()
    files = bad.document["file_info"]["files"]
    files["train.py"] = [f"KEY = '{SECRET}'\n{files['train.py'][0]}", files["train.py"][1] + 1]
    good.document["file_info"] = {"files": {}, "functions": {}}
    return pair(bad, good)
