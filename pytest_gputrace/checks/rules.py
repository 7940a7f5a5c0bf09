"""The registry: every rule about traces, by its code. Each has a page in ``explained/``."""

from __future__ import annotations

from dataclasses import replace

from pytest_gputrace.checks import causality, clocks, gpu, numbers, secrets, sets, streams, structure
from pytest_gputrace.checks.rule import Rule
from pytest_gputrace.model import Severity

__all__ = ["RULES"]

_E, _W, _I = Severity.ERROR, Severity.WARNING, Severity.INFO

_TEXT = (
    Rule("GT201", "broken-grammar", "the text is not JSON", _E),
    Rule("GT202", "cut-short", "the text, or the gzip stream around it, ends too early", _E),
    Rule("GT203", "empty-file", "the file holds nothing", _E),
    Rule("GT204", "not-finite", "a number that no double holds: NaN, Infinity, 1e999", _E),
    Rule("GT205", "control-character", "a control character as it is inside a text", _E),
    Rule("GT206", "not-utf8", "bytes that are not UTF-8", _E),
    Rule("GT207", "half-surrogate", "an escape that is half a surrogate pair", _E),
    Rule("GT208", "bad-escape", "a backslash before what no JSON escape has", _E),
    Rule("GT209", "duplicate-key", "a key twice in one object", _E),
    Rule("GT210", "byte-order-mark", "a byte order mark before the text", _E),
    Rule("GT211", "several-documents", "more than one JSON document in the file", _E),
    Rule("GT212", "trailing-bytes", "bytes after the end of the document", _E),
    Rule("GT213", "damaged-gzip", "a gzip stream that is damaged, or bytes after it", _E),
    Rule("GT214", "wrong-wrapping", "compressed under a plain name, or plain under the name of a compressed file", _E),
    Rule("GT215", "not-a-trace", "JSON, but no list of events", _E),
    Rule("GT216", "not-an-event", "something in the list of events that is no event, or a value of a wrong type", _E),
    Rule("GT217", "windows-path", "a Windows path whose backslashes read as escapes", _W),
    Rule("GT218", "nested-too-deep", "values nested deeper than readers follow", _E),
    Rule("GT219", "too-large", "the text is longer than --max-bytes", _E),
    Rule("GT220", "unreadable-file", "the file cannot be read", _E),
)

_FILE = (
    Rule("GT301", "negative-duration", "an event ends before it begins", _E, numbers.negative_duration),
    Rule("GT302", "impossible-duration", "an event lasts longer than a day", _E, numbers.impossible_duration),
    Rule("GT303", "no-duration", "a range without a duration", _E, numbers.no_duration),
    Rule("GT304", "bad-time", "an event without a time, or at a negative one", _E, numbers.bad_time),
    Rule("GT307", "nanoseconds-as-microseconds", "times beyond the year 2080", _E, numbers.nanoseconds),
    Rule("GT308", "stream-overlap", "work on one stream overlaps", _W, streams.stream_overlap),
    Rule("GT309", "missing-base", "times count from nowhere known", _W, numbers.missing_base),
    Rule("GT311", "flow-ends-first", "an arrow ends before it begins", _W, structure.flow_ends_first),
    Rule("GT312", "odd-id", "an id that viewers misread, or that contradicts the arguments", _W, structure.odd_id),
    Rule("GT313", "unknown-phase", "an event of no known phase", _W, structure.unknown_phase),
    Rule("GT314", "open-range", "a range that begins and never ends", _W, structure.open_range),
    Rule("GT315", "no-name", "a range without a name", _W, structure.no_name),
    Rule("GT316", "merged-file", "several traces as one; rules about one rank do not look", _I, structure.merged),
    Rule("GT406", "empty-tree", "a Proton tree of a root and nothing else", _E, gpu.empty_tree),
    Rule("GT407", "empty-trace", "no event that is work", _E, gpu.empty_trace),
    Rule("GT409", "buffer-overflow", "the profiler's buffer was full", _W, gpu.buffer_overflow),
    Rule("GT410", "profiler-errors", "the profiler logged errors into the trace", _W, gpu.profiler_errors),
    Rule("GT411", "repaired-file", "the file was repaired, and events are missing", _W, gpu.repaired),
    Rule("GT601", "carries-environment", "an environment is in the trace", _W, secrets.carries_environment),
    Rule("GT602", "carries-source", "source code is in the trace", _W, secrets.carries_source),
)

# Correlation ids and steps are told apart within one rank only, and "some of the GPU is there" may be another rank's.
_ONE_RANK = (
    Rule("GT305", "no-timing-collected", "events at 0 that last 0, among others at real times", _E, numbers.no_timing),
    Rule("GT306", "kernel-before-launch", "a kernel begins before its launch", _E, causality.kernel_before_launch),
    Rule("GT310", "repeated-flow-start", "two arrows begin under one id", _W, structure.repeated_flow_start),
    Rule("GT401", "no-kernels", "kernels were launched, none was recorded", _E, gpu.no_kernels),
    Rule("GT402", "no-gpu-work", "nothing of a GPU; an error with --expect-gpu", _I, gpu.no_gpu_work),
    Rule("GT403", "launches-without-kernels", "most launches have no kernel", _W, gpu.launches_without_kernels),
    Rule("GT404", "steps-without-gpu", "some steps have GPU work, others none", _W, gpu.steps_without_gpu),
    Rule("GT405", "head-kernels-missing", "the first launches have no kernel", _W, gpu.head_kernels_missing),
    Rule("GT408", "no-gpu-timing", "no GPU event lasts any time", _E, gpu.no_gpu_timing),
)

_SET = (
    Rule("GT501", "missing-rank", "an expected rank has no file", _E, compare=sets.missing_rank),
    Rule("GT502", "double-rank", "two files of one rank record the same time", _E, compare=sets.double_rank),
    Rule(
        "GT503",
        "rank-disagrees",
        "the rank inside is another than name or folder tell",
        _E,
        compare=sets.rank_disagrees,
    ),
    Rule("GT504", "same-capture", "two files hold one capture", _E, compare=sets.same_capture),
    Rule("GT505", "empty-rank", "a rank without GPU events among full ones", _E, compare=sets.empty_rank),
    Rule("GT506", "uneven-steps", "ranks differ in their steps with GPU work", _W, compare=sets.uneven_steps),
    Rule(
        "GT507",
        "uneven-completeness",
        "far fewer launches of a rank have a kernel",
        _W,
        compare=sets.uneven_completeness,
    ),
    Rule("GT508", "clock-skew", "a collective ends before it begins on another rank", _W, compare=clocks.clock_skew),
    Rule("GT509", "apart-in-time", "a rank recorded at another time than the others", _W, compare=clocks.apart_in_time),
    Rule("GT510", "mixed-jobs", "files of worlds of different sizes", _E, compare=sets.mixed_jobs),
)

_ALL = (*_TEXT, *_FILE, *(replace(rule, one_rank=True) for rule in _ONE_RANK), *_SET)
RULES: dict[str, Rule] = {rule.code: rule for rule in sorted(_ALL, key=lambda rule: rule.code)}
