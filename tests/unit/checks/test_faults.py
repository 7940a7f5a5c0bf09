"""Every fault the fakes can write is found by the rule it is meant for, where it is; its look-alike stays clean."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from pytest_gputrace.checks.check import check
from pytest_gputrace.checks.rules import RULES
from pytest_gputrace.fakes import trace_faults
from pytest_gputrace.fakes.tracefaults import SECRET
from pytest_gputrace.model import Severity

if TYPE_CHECKING:
    from pathlib import Path

    from pytest_gputrace.checks.outcome import Report
    from pytest_gputrace.fakes import TraceFault
    from pytest_gputrace.model import Finding


class Expected(NamedTuple):
    """The code, part of the message, and another code that the same fault has by right."""

    code: str
    message: str
    also: str = ""


EXPECTED = {
    "unescaped_quote": Expected(
        "GT201",
        '"say ": found "hello" to all"," where "," or "}" must come; is a quote in the text before it not escaped?',
    ),
    "control_byte": Expected(
        "GT205", '"two\\u0001parts": control character 0x01 as it is; inside a text it must be escaped'
    ),
    "raw_newline": Expected(
        "GT205", '"two\\u000alines": control character 0x0a as it is; inside a text it must be escaped'
    ),
    "not_utf8": Expected("GT206", '"caf\\xe9 au lait": byte 0xe9 is not UTF-8; write the file as UTF-8'),
    "surrogate_bytes": Expected(
        "GT206", '"half \\xed\\xa0\\x80 pair": byte 0xed is not UTF-8; write the file as UTF-8'
    ),
    "half_surrogate": Expected(
        "GT207", '"half \\ud83d pair": \\ud83d is half a surrogate pair; no UTF-8 text can hold it'
    ),
    "swapped_surrogates": Expected(
        "GT207", '"pair \\ude00\\ud83d": \\ude00 is half a surrogate pair; no UTF-8 text can hold it (1 more like it)'
    ),
    "bad_escape": Expected(
        "GT208", '"C:\\Users\\me": "\\U" is no JSON escape; write a backslash as two (1 more like it)'
    ),
    "windows_path": Expected(
        "GT217",
        '"C:\\u0009emp\\u000aew.py": "C:\\temp\\new.p": a Windows path whose backslashes read as escapes? Write each as two',
    ),
    "nan": Expected("GT204", '"loss": NaN: JSON has no such number; write null'),
    "infinity": Expected(
        "GT204", '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": Infinity: JSON has no such number; write null'
    ),
    "minus_infinity": Expected("GT204", '"aten::mm": -Infinity: JSON has no such number; write null'),
    "overflowing_number": Expected(
        "GT204", '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": 1e999: no double holds it, readers get Infinity'
    ),
    "non_finite_argument": Expected(
        "GT204", '"Memcpy HtoD (Pinned -> Device)": inf: JSON has no such number; write null'
    ),
    "overflowing_argument": Expected(
        "GT204", '"Memcpy HtoD (Pinned -> Device)": -1E+400: no double holds it, readers get Infinity'
    ),
    "endless_digits": Expected(
        "GT204",
        '"Memcpy HtoD (Pinned -> Device)": a number of 400 characters: no double holds it, readers get Infinity',
    ),
    "non_finite_metadata": Expected("GT204", "NaN: JSON has no such number; write null"),
    "duplicate_key": Expected(
        "GT209",
        '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": key "ts" twice in one object; readers keep one of the values; write each key once',
    ),
    "duplicate_key_escaped": Expected(
        "GT209", '"twice": key "name" twice in one object; readers keep one of the values; write each key once'
    ),
    "duplicate_argument": Expected(
        "GT209",
        '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": key "External id" twice in one object; readers keep one of the values; write each key once',
    ),
    "duplicate_root_key": Expected(
        "GT209", "a key twice in one object; readers keep one of the values; write each key once"
    ),
    "stray_comma": Expected("GT201", '"ac2g": found "}," where a key in quotes must come; is there a comma too many?'),
    "stray_comma_in_list": Expected(
        "GT201",
        'after event 34 ("Record Window End"): found "]" where a value must come; is there a comma too many?',
    ),
    "missing_comma": Expected("GT201", 'after event 21 ("ac2g"): found "{" where "," or "]" must come'),
    "bare_na": Expected("GT201", '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": found "N/A" where a value must come'),
    "plus_sign": Expected("GT201", '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": found "+12.5" where a value must come'),
    "python_spelling": Expected("GT201", "something else where a key in quotes must come"),
    "number_root": Expected(
        "GT215",
        'a number with no list of events; expected a list of objects with "name", or an object with "traceEvents"',
    ),
    "no_list_of_events": Expected(
        "GT215",
        "the JSON of rocprofiler-sdk, which is no Chrome trace; expected a Chrome trace (Kineto, Proton, VizTracer), a SuperBench event list or a Proton tree",
    ),
    "events_not_a_list": Expected(
        "GT215",
        'an object without a list "traceEvents"; expected a Chrome trace (Kineto, Proton, VizTracer), a SuperBench event list or a Proton tree',
    ),
    "number_in_list": Expected(
        "GT216",
        'after event 21 ("ac2g"): a number in the list of events; expected a list of objects with "name", or an object with "traceEvents"',
    ),
    "null_in_list": Expected(
        "GT216",
        'after event 21 ("ac2g"): null in the list of events; expected a list of objects with "name", or an object with "traceEvents"',
    ),
    "nameless_event": Expected("GT315", 'a range (ph X) of "cpu_op" without a name'),
    "number_as_name": Expected("GT216", "'name' is int 17"),
    "text_as_time": Expected("GT216", "\"aten::mm\": 'ts' is str '5171577480671'"),
    "list_as_arguments": Expected("GT216", "\"aten::mm\": 'args' is a list"),
    "nested_too_deep": Expected(
        "GT218", '"aten::mm": values nested 100004 deep; readers give up there; was a value written into itself?'
    ),
    "unclosed_list": Expected(
        "GT202",
        'after event 34 ("Record Window End"): the text ends with {[ still open; was its writer killed, the disk full?',
    ),
    "unclosed_object": Expected(
        "GT202",
        'after event 34 ("Record Window End"): the text ends with { still open; was its writer killed, the disk full?',
    ),
    "cut_in_name": Expected(
        "GT202", 'after event 21 ("ac2g"): the text ends with {[{ still open; was its writer killed, the disk full?'
    ),
    "cut_in_number": Expected(
        "GT202",
        '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": the text ends with {[{ still open; was its writer killed, the disk full?',
    ),
    "unclosed_root_list": Expected(
        "GT202", 'after event 2 ("aten::mm"): the text ends with [ still open; was its writer killed, the disk full?'
    ),
    "trailing_nuls": Expected(
        "GT212",
        'after event 34 ("Record Window End"): zero bytes after the end of the document; two writers? Each needs a file of its own',
    ),
    "leftover_end": Expected(
        "GT212",
        'after event 34 ("Record Window End"): something after the end of the document; two writers? Each needs a file of its own',
    ),
    "two_writers": Expected(
        "GT201", '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": found "{" where a key in quotes must come'
    ),
    "two_documents": Expected(
        "GT211", 'after event 5 ("aten::mm"): a second JSON document begins; two writers? Each needs a file of its own'
    ),
    "document_per_line": Expected(
        "GT211",
        'after event 21 ("matmul_kernel"): a second JSON document begins; two writers? Each needs a file of its own',
    ),
    "byte_order_mark": Expected("GT210", "a byte order mark; JSON has none, write the file as plain UTF-8"),
    "empty_file": Expected("GT203", "an empty file, 0 bytes; was its writer killed, the disk full?"),
    "only_whitespace": Expected(
        "GT203", "nothing: the file holds no JSON value; was its writer killed, the disk full?"
    ),
    "empty_gzip": Expected("GT203", "nothing: the file holds no JSON value; was its writer killed, the disk full?"),
    "empty_file_named_gzip": Expected("GT203", "an empty file, 0 bytes; was its writer killed, the disk full?"),
    "truncated_gzip": Expected(
        "GT202", '"cudaLaunchKernel": the gzip stream ends too early; was its writer killed, the disk full?'
    ),
    "gzip_without_trailer": Expected("GT202", "the gzip stream ends too early; was its writer killed, the disk full?"),
    "bad_gzip_trailer": Expected(
        "GT213",
        "the gzip stream is damaged (Error -3 while decompressing data: incorrect data check); two writers, or a copy that went wrong?",
    ),
    "damaged_gzip": Expected(
        "GT213",
        'after event 16 ("fwdbwd"): the gzip stream is damaged (Error -3 while decompressing data: invalid block type); two writers, or a copy that went wrong?',
    ),
    "bytes_after_gzip": Expected("GT213", "8 bytes or more after the end of the gzip stream; two writers?"),
    "appended_gzip_members": Expected(
        "GT211",
        'after event 34 ("Record Window End"): a second JSON document begins; two writers? Each needs a file of its own; every member of this gzip file holds a document of its own: did each rank append its stream?',
    ),
    "plain_named_gzip": Expected("GT214", "not compressed, though the name ends with .gz; call it .json"),
    "gzip_named_plain": Expected("GT214", "compressed by gzip under a plain name; call it .json.gz"),
    "too_large": Expected(
        "GT219", '"aten::mm": more text than the 100000 bytes it is limited to; nothing was read after them'
    ),
    "unreadable_file": Expected("GT220", "cannot be read: Too many levels of symbolic links"),
    "negative_duration": Expected(
        "GT301", '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n" lasts -1 us; 1 of 35 events: -1 means that it never ended'
    ),
    "unfinished_frame": Expected(
        "GT301", '"monitor.py(7): run" lasts -1 us; 1 of 36 events: -1 means that it never ended'
    ),
    "wrapped_duration_63": Expected(
        "GT302",
        '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n" lasts 292.3 years; 1 of 35 events above a day, the longest near 2^63 ns: a counter that ran below zero?',
    ),
    "wrapped_duration_64": Expected(
        "GT302",
        '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n" lasts 584.5 years; 1 of 35 events above a day, the longest near 2^64 ns: a counter that ran below zero?',
    ),
    "no_duration": Expected("GT303", '"aten::mm": a range (ph X) without dur'),
    "no_time": Expected("GT304", '"aten::mm": no ts, so it happened at no time'),
    "negative_time": Expected("GT304", '"aten::mm": ts is negative, down to -5 us; viewers drop such events'),
    "no_timing_collected": Expected(
        "GT305",
        '9 of 9 GPU events are at ts 0 with dur 0, others at 59.86 days: their timing was not collected; first: "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n"',
    ),
    "half_without_timing": Expected(
        "GT305",
        '4 of 9 GPU events are at ts 0 with dur 0, others at 59.86 days: their timing was not collected; first: "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n"',
    ),
    "kernel_before_launch": Expected(
        "GT306",
        '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n" begins 50 us before its launch; 1 of 7 do (largest 50 us, median 50 us): times of these kernels cannot be right',
    ),
    "gpu_clock_behind": Expected(
        "GT306",
        "\"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n\" begins 491 us before its launch; 7 of 7 do (largest 491 us, median 491 us): the GPU's clock is behind the host's by a constant",
    ),
    "gpu_clock_drifts": Expected(
        "GT306",
        "\"Memcpy HtoD (Pinned -> Device)\" begins 11 us before its launch; 5 of 7 do (largest 71 us, median 36 us): the GPU's clock drifts against the host's, 3.33e+05 us in a second",
    ),
    "nanoseconds_as_microseconds": Expected(
        "GT307",
        "ts 5171577480660661 lies beyond the year 2080; 35 of 35 events: were nanoseconds written as microseconds, or a base added twice?",
    ),
    "epoch_nanoseconds": Expected(
        "GT307",
        "ts 1796028603480660992 lies beyond the year 2080; 35 of 35 events: were nanoseconds written as microseconds, or a base added twice?",
    ),
    "early_start": Expected(
        "GT308",
        '1 of 4 GPU events overlap the next on their stream, and it alone, by up to 2.5 us: looks like programmatic dependent launch; longest: "sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n"',
    ),
    "runaway_duration": Expected(
        "GT308",
        '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n" runs 5 s into what follows on its stream, over 6 events: looks like a corrupt duration, or streams written as one',
    ),
    "flow_ends_first": Expected("GT311", 'flow 1 of "fwdbwd" ends before it begins; viewers drop such arrows'),
    "missing_base": Expected(
        "GT309",
        "no baseTimeNanoseconds, and times are not since 1970: write the report by VizTracer.save() in the process; the viztracer command leaves it out",
    ),
    "proton_without_base": Expected(
        "GT309", "no baseTimeNanoseconds, and times are not since 1970: Proton writes it since triton 3.9"
    ),
    "repeated_flow_start": Expected("GT310", 'flow 102 of "ac2g" begins once more; viewers join arrows of one id'),
    "device_differs": Expected(
        "GT312", '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": args.device is another than its pid'
    ),
    "stream_differs": Expected(
        "GT312", '"sm90_xmma_gemm_f32f32_tf32f32_f32_tn_n": args.stream is another than its tid'
    ),
    "text_flow_id": Expected(
        "GT312", '"fwdbwd": a flow id that is a text and no 0x number; viewers refuse it (1 more like it)'
    ),
    "large_flow_id": Expected(
        "GT312", '"fwdbwd": id above 2^53, which JavaScript cannot tell from the next (1 more like it)'
    ),
    "large_pid": Expected("GT312", '"aten::copy_": pid above 2^31, which viewers cut off'),
    "unknown_phase": Expected("GT313", '"queue": ph is "Q"; viewers drop the event'),
    "open_range": Expected(
        "GT314", '"outer": of ranges here 1 begin (ph B) and never end, 0 end (ph E) and never begin'
    ),
    "no_kernels": Expected(
        "GT401",
        "6 launches, no kernel; of the GPU there is nothing: did the profiler lose the GPU? Another profiler in the process, its driver's rights",
    ),
    "no_gpu_work": Expected("GT402", "no kernel, copy or launch: nothing of a GPU is in this trace"),
    "launches_without_kernels": Expected(
        "GT403", "9 of 12 launches have no kernel; were they captured into a graph, or was a buffer lost?", "GT404"
    ),
    "steps_without_gpu": Expected(
        "GT404", "1 of 3 steps have no GPU work: 2; was recording on the GPU late, or its buffer full?"
    ),
    "head_kernels_missing": Expected(
        "GT405",
        "the first 3 of 8 launches have no kernel, nearly all later ones do: was recording on the GPU not on yet? Give the profile a warm-up step",
    ),
    "empty_tree": Expected(
        "GT406", "a tree of a root and nothing else: nothing ran between start and finalize, or nothing was seen"
    ),
    "nothing_recorded": Expected(
        "GT407", "16 events, none of them work: only names of tracks and the profiler's own marks"
    ),
    "no_events": Expected("GT407", "no event at all"),
    "no_gpu_timing": Expected("GT408", "all 7 GPU events have dur 0; was the timing of kernels not collected?"),
    "buffer_overflow": Expected(
        "GT409", "VizTracer's buffer was full: the oldest events are lost; raise tracer_entries"
    ),
    "profiler_errors": Expected("GT410", 'the profiler logged 2 errors, see the list "ERROR" at the root'),
    "repaired_file": Expected("GT411", "repaired: nobody knows how many events are missing, 1 places were changed"),
    "environment_inside": Expected(
        "GT601",
        "an environment of 5 variables is in the metadata, 1 named like a token or a password; remove it before you hand the file on",
    ),
    "source_text_inside": Expected(
        "GT602", "the source text of 1 file is in the metadata; remove file_info before you hand the file on"
    ),
    "missing_rank": Expected("GT501", "1 of 3 ranks have no file: 1"),
    "double_rank": Expected(
        "GT502",
        "rank 0 is in files of the same time: /node0_4000.1796028603480.pt.trace.json, /node0_4002.1796028603481.pt.trace.json",
    ),
    "rank_folder_disagrees": Expected(
        "GT503",
        "the file says rank 1, its name or folder rank 0; was it copied, or written under another worker's name?",
    ),
    "rank_name_disagrees": Expected(
        "GT503",
        "the file says rank 2, its name or folder rank 1; was it copied, or written under another worker's name?",
    ),
    "same_capture": Expected(
        "GT504",
        "2 files hold one capture: /copy-of-rank1.json.gz, /rank1.json; is one a copy, under another rank's name?",
    ),
    "empty_rank": Expected("GT505", "rank 1 has no GPU event, 2 of 3 files of its recording have up to 5", "GT407"),
    "rank_without_kernels": Expected(
        "GT401",
        "4 launches, no kernel; of the GPU there is nothing: did the profiler lose the GPU? Another profiler in the process, its driver's rights",
        "GT505",
    ),
    "uneven_steps": Expected("GT506", "rank 1 has 2 steps with GPU work, the others 3"),
    "uneven_completeness": Expected("GT507", "rank 1: 4 of 8 launches have a kernel (50%), on the other ranks 100%"),
    "clock_skew": Expected(
        "GT508",
        "2 collectives of one rank end before others of them begin (largest 72.5 us, median 72.5 us): the ranks' clocks differ by as much at least, most that of rank 1",
    ),
    "quarter_year_apart": Expected(
        "GT509",
        "rank 1 begins 91.31 days after the others; that is 1 of the steps to which Kineto rounds its base: was a base taken from another rank?",
    ),
    "ranks_of_two_runs": Expected(
        "GT509", "rank 1 begins 2 h after the others; are files of two runs together, or is a clock wrong?"
    ),
    "mixed_worlds": Expected("GT510", "its world has 4 ranks, that of others 2; are files of two jobs in one folder?"),
    "rank_outside_world": Expected("GT510", "rank 5 is not in its world of 2"),
    "cut_rank": Expected(
        "GT202",
        'after event 26 ("cudaLaunchKernel"): the text ends with {[{ still open; was its writer killed, the disk full?',
    ),
    "one_base_missing": Expected("GT309", "no baseTimeNanoseconds, and times are not since 1970: write the report"),
    "merged_among_ranks": Expected(
        "GT316", "merged of 2 inputs; the rules about one rank did not look; check the inputs"
    ),
    "clocks_of_two_nodes": Expected(
        "GT508", "3 collectives of one rank end before others of them begin (largest 1.5 s, median 1.5 s)"
    ),
}
LEGAL = [fault for fault in trace_faults.values() if fault.family == "merge" and fault.name not in EXPECTED]
"""Files with which nothing is wrong, until somebody merges them."""
OPTIONS: dict[str, dict[str, Any]] = {
    "too_large": {"max_bytes": 100_000},
    "missing_rank": {"expect_ranks": 3},
    "no_gpu_work": {"expect_gpu": True},
}


def of(fault: TraceFault, path: Path) -> Report:
    return check([path], **OPTIONS.get(fault.name, {}))


def told(report: Report, fault: TraceFault) -> list[Finding]:
    """The findings that are more than information, and those of the fault's own rule where that tells no more."""
    own = EXPECTED[fault.name].code if fault.name in EXPECTED else ""
    only_told = own if own and RULES[own].severity is Severity.INFO else ""
    return [one for one in report.all_findings if one.severity is not Severity.INFO or one.code == only_told]


@pytest.mark.parametrize("fault", [trace_faults[name] for name in EXPECTED], ids=str)
def test_a_fault_is_found_where_it_is(fault: TraceFault, tmp_path: Path) -> None:
    expected = EXPECTED[fault.name]
    findings = told(of(fault, fault.write(tmp_path / fault.filename)), fault)
    assert {finding.code for finding in findings} == {expected.code, expected.also} - {""}
    found = [finding for finding in findings if finding.code == expected.code]
    assert any(expected.message in finding.message.replace(str(tmp_path / fault.filename), "") for finding in found)
    place = fault.place
    for key in ("event", "byte", "rank"):
        if (wanted := getattr(place, key)) is not None:
            assert wanted in [getattr(finding, key) for finding in found]
    if place.file is not None:
        assert any(place.file in f"{finding.file} {finding.message}" for finding in found)


@pytest.mark.parametrize("fault", trace_faults.values(), ids=str)
def test_its_look_alike_is_clean(fault: TraceFault, tmp_path: Path) -> None:
    report = of(fault, fault.near_miss(tmp_path / fault.filename))
    assert told(report, fault) == []
    assert report.ok


@pytest.mark.parametrize("fault", LEGAL, ids=str)
def test_what_only_a_merge_can_get_wrong_is_no_finding(fault: TraceFault, tmp_path: Path) -> None:
    report = of(fault, fault.write(tmp_path / fault.filename))
    assert told(report, fault) == []
    assert report.ok


def test_every_fault_is_found_or_legal() -> None:
    assert EXPECTED.keys() | {fault.name for fault in LEGAL} == trace_faults.keys()


def test_every_rule_has_a_fault() -> None:
    assert {expected.code for expected in EXPECTED.values()} == RULES.keys()


def test_secrets_are_never_told(tmp_path: Path) -> None:
    for fault in trace_faults.values():
        path = fault.write(tmp_path / fault.name / fault.filename if fault.is_set else tmp_path / fault.filename)
        assert SECRET not in repr(of(fault, path))
