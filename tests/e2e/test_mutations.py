"""Deliberate breakages of the package, each with the tests that must turn red for it.

A guarantee without an entry here is a guarantee that could be lost unseen. Each mutation is one replacement in one
file of a copy of the package; the tests named run against that copy in a process of their own.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import pytest_gputrace

ROOT = Path(__file__).parents[2]
PACKAGE = Path(pytest_gputrace.__file__).parent

EXPORTER = "tests/unit/export/test_exporter.py::"
PUBLISH = "tests/unit/test_publish.py::"
NAMING = "tests/unit/test_naming.py::"
LAYOUT = "tests/unit/test_layout.py::"
IDENTITY = "tests/unit/test_identity.py::"
ENCODE = "tests/unit/export/test_encode.py::"
KINETO = "tests/unit/export/test_kineto.py::"
RAW_READING = "tests/unit/export/test_reading.py::"
GARBAGE = "tests/unit/export/test_garbage.py::"
COMPILED = "tests/unit/traces/test_compiled.py::"
CAPTURES = "tests/unit/checks/test_captures.py::"
READING = "tests/unit/checks/test_reading.py::"
CHECK_LEGACY = "tests/unit/checks/test_legacy.py::"
CLUSTER = "tests/unit/fakes/test_cluster.py::"
DEATHS = "tests/unit/fakes/test_deaths.py::"
FAULTS = "tests/unit/fakes/test_faults.py::"
CHECKING = "tests/plugin/test_checking.py::"
SUMMARY = "tests/plugin/test_summary.py::"
CHECK_MERGED = "tests/unit/checks/test_merged.py::"
ANCHORS = "tests/unit/timeline/test_anchors.py::"
IDS = "tests/unit/timeline/test_ids.py::"
TRACKS = "tests/unit/timeline/test_tracks.py::"
REWRITING = "tests/unit/timeline/test_rewriting.py::"
MERGE = "tests/unit/timeline/test_merge.py::"
SESSION = "tests/unit/control/test_session.py::"
WINDOW = "tests/unit/control/test_window.py::"
COORDINATOR = "tests/unit/control/test_coordinator.py::"


@dataclass(frozen=True)
class Mutation:
    name: str
    file: str
    old: str
    new: str
    red: tuple[str, ...]


MUTATIONS = [
    Mutation(
        "the qualified file is copied from the legacy one",
        "export/exporter.py",
        "        self.legacy.publish()\n        result",
        "        self.legacy.publish()\n"
        "        if self.qualified.path and self.legacy.path:\n"
        "            self.qualified.path.write_bytes(self.legacy.path.read_bytes())\n"
        "        result",
        (EXPORTER + "test_non_finite_values_are_null_in_the_qualified_file_and_unchanged_in_the_legacy_one",),
    ),
    Mutation(
        "one half's error stops the other",
        "export/exporter.py",
        "            except GputraceError as error:\n                self.file, self.error = None, error",
        "            except GputraceError:\n                raise",
        (EXPORTER + "test_one_file_that_breaks_in_the_middle_leaves_the_other",),
    ),
    Mutation(
        "an empty profile is a success",
        "export/exporter.py",
        "        if not self._records:\n            raise",
        "        if False:\n            raise",
        (EXPORTER + "test_an_empty_profile_is_not_a_success",),
    ),
    Mutation(
        "a stolen session is exported",
        "torchdoor.py",
        "return start == 0 or",
        "return start < 0 or",
        (EXPORTER + "test_a_stolen_session_is_said_before_anything_is_touched",),
    ),
    Mutation(
        "a legacy name may replace a capture",
        "export/exporter.py",
        'if is_capture_name(name.rsplit("/", 1)[-1]):',
        "if False:",
        (EXPORTER + "test_a_model_whose_legacy_name_is_a_capture_does_not_replace_it",),
    ),
    Mutation(
        "the CPU filter is dropped",
        "export/records.py",
        'if event.device_type.name == "CPU":',
        "if True:",
        (
            EXPORTER + "test_only_cpu_events_are_kept_with_positive_gpu_times",
            EXPORTER + "test_both_files_hold_the_bytes_of_superbench",
        ),
    ),
    Mutation(
        "the deprecated time is read",
        "export/records.py",
        "event.device_time,",
        "event.cuda_time,",
        (EXPORTER + "test_both_files_hold_the_bytes_of_superbench",),
    ),
    Mutation(
        "non-finite numbers stay in the qualified file",
        "export/plain.py",
        "return (value, 0) if math.isfinite(value) else (None, 1)",
        "return (value, 0)",
        (ENCODE + "test_a_non_finite_number_is_null_in_the_qualified_file_only",),
    ),
    Mutation(
        "small numbers are spelled by orjson",
        "export/encode.py",
        '_SMALL = (b"0.000", b"e", b"E")',
        "_SMALL = ()",
        (ENCODE + "test_finite_records_are_the_bytes_of_json_dump_in_both_files",),
    ),
    Mutation(
        "every chunk is encoded for both files apart",
        "export/encode.py",
        "            body = (lead",
        "            raise _NotStrict\n            body = (lead",
        (ENCODE + "test_a_finite_chunk_is_encoded_once",),
    ),
    Mutation(
        "all events are encoded at once",
        "export/encode.py",
        "CHUNK_RECORDS = 1024",
        "CHUNK_RECORDS = 1 << 30",
        (EXPORTER + "test_memory_above_the_events_is_bounded",),
    ),
    Mutation(
        "a plain write under the final name",
        "publish.py",
        'path = folder / f"{PRIVATE_PREFIX}{secrets.token_hex(8)}.tmp"',
        'path = folder / "capture.a2.json"',
        (PUBLISH + "test_killed_at_any_moment_only_complete_files_have_final_names",),
    ),
    Mutation(
        "the file is not brought to the disk",
        "publish.py",
        "            _sync(self._fd)\n            path",
        "            path",
        (PUBLISH + "test_data_reaches_the_disk_before_the_name_and_the_name_before_the_return",),
    ),
    Mutation(
        "publishing replaces what is there",
        "publish.py",
        "        os.link(private, path)\n    except FileExistsError:",
        "        os.replace(private, path)\n        return\n    except FileExistsError:",
        (PUBLISH + "TestQualified::test_a_capture_that_exists_is_kept_and_this_one_is_the_next_attempt",),
    ),
    Mutation(
        "the claim is the final name itself",
        "publish.py",
        'claim = path.with_name(f"{PRIVATE_PREFIX}{digest}.claim")',
        "claim = path",
        (PUBLISH + "test_killed_at_any_moment_only_complete_files_have_final_names",),
    ),
    Mutation(
        "the claim is taken without a look at the name",
        "publish.py",
        "if os.path.lexists(path):",
        "if False:",
        (PUBLISH + "test_the_claim_gives_way_to_a_file_that_exists",),
    ),
    Mutation(
        "the legacy file is written in place",
        "publish.py",
        "or status.st_nlink > 1\n",
        "or status.st_nlink > 0\n",
        (PUBLISH + "TestLegacy::test_it_is_replaced_at_once_for_whoever_has_it_open",),
    ),
    Mutation(
        "the legacy file replaces a symbolic link",
        "publish.py",
        "return not stat.S_ISREG(status.st_mode) or",
        "return",
        (PUBLISH + "TestLegacy::test_a_symbolic_link_stays_one",),
    ),
    Mutation(
        "a link to a capture is written through",
        "publish.py",
        "and not self._leads_to_a_capture(status):",
        "and True:",
        (
            PUBLISH + "TestLegacy::test_a_link_to_a_capture_is_replaced_and_the_capture_kept",
            EXPORTER + "test_a_legacy_file_linked_to_a_capture_does_not_write_into_it",
        ),
    ),
    Mutation(
        "a numpy scalar is taken for a number of the same bytes",
        "export/encode.py",
        " or not _is_builtin(value):",
        ":",
        (ENCODE + "test_a_buffer_is_not_taken_for_a_number_of_the_same_bytes",),
    ),
    Mutation(
        "files of an earlier run prove a later one",
        "plugin/checking.py",
        "if is_new(each.path, self._before)]",
        "]",
        (CHECKING + "test_a_run_that_writes_nothing_is_not_proved_by_an_earlier_one",),
    ),
    Mutation(
        "the node is dropped from the name",
        "naming.py",
        "node = encode_field(worker.node,",
        'node = encode_field("node",',
        (NAMING + "test_twins_never_meet", NAMING + "test_a_long_node_keeps_the_tail_whole"),
    ),
    Mutation(
        "the local rank stands in the name",
        "naming.py",
        'end = f"-{worker.rank}.a{attempt}{_SUFFIX}" if attempt > 1 else f"-{worker.rank}{_SUFFIX}"',
        'end = f"-{worker.local_rank}.a{attempt}{_SUFFIX}" if attempt > 1 else f"-{worker.local_rank}{_SUFFIX}"',
        (NAMING + "test_a_plain_capture_reads_as_itself",),
    ),
    Mutation(
        "names are cleaned and nothing else",
        "naming.py",
        'return f"{head}~{_digest(text)}"',
        "return head",
        (NAMING + "test_twins_never_meet",),
    ),
    Mutation(
        "the hash is taken over the folded text",
        "naming.py",
        'text.encode("utf-8", "surrogatepass")',
        'unicodedata.normalize("NFC", text.casefold()).encode("utf-8", "surrogatepass")',
        (NAMING + "test_folded_and_normalised_twins_never_share_a_name",),
    ),
    Mutation(
        "the limit counts characters of the configuration only",
        "naming.py",
        "configuration_field = encode_field(configuration, limit=room - len(model_field))",
        "configuration_field = encode_field(configuration)",
        (NAMING + "test_boundary_with_ascii", NAMING + "test_boundary_with_multibyte"),
    ),
    Mutation(
        "the limit of the destination is not asked",
        "naming.py",
        "    return limit if 0 < limit",
        "    return DEFAULT_LIMIT if 0 < limit",
        (NAMING + "test_the_limit_is_asked_of_the_destination",),
    ),
    Mutation(
        "any folder above is the layout",
        "layout.py",
        "if ancestors[index] == _BENCHMARKS:",
        "if True:",
        (LAYOUT + "test_any_other_folder_is_not_the_layout",),
    ),
    Mutation(
        "the rank of a folder may be any digit of Unicode",
        "layout.py",
        'r"rank(0|[1-9][0-9]{0,17})"',
        'r"rank(\\d+)"',
        (LAYOUT + "test_any_other_folder_is_not_the_layout",),
    ),
    Mutation(
        "the folder's configuration wins silently",
        "layout.py",
        "if explicit is not None and explicit != folder.configuration:",
        "if False:",
        (LAYOUT + "test_two_different_configurations_are_an_error_naming_both",),
    ),
    Mutation(
        "an outer launcher's world disagrees",
        "identity.py",
        "    if not same_world or (one_agent_each",
        "    if (one_agent_each",
        (IDENTITY + "test_srun_torchrun_has_one_slurm_task_per_node",),
    ),
    Mutation(
        "two ranks in one world are settled in silence",
        "identity.py",
        '    if reference.name == "explicit":',
        "    if True:",
        (IDENTITY + "test_two_ranks_in_one_world_are_an_error_naming_both",),
    ),
    Mutation(
        "LOCAL_RANK=0 contradicts the executor",
        "identity.py",
        "    is_zero = zero.local_rank == 0 and",
        "    is_zero = False and",
        (IDENTITY + "test_local_rank_0_on_every_worker_is_no_claim_against_the_executor",),
    ),
    Mutation(
        "the host name alone is the node",
        "identity.py",
        'text = "\\0".join((_machine_id(), name, namespace))',
        "text = name",
        (IDENTITY + "test_two_nodes_that_differ_in_one_thing_have_two_labels",),
    ),
    Mutation(
        "marks do not tell the rounds apart",
        "model.py",
        "_quoted(self.configuration), self.round",
        "_quoted(self.configuration), 0",
        (CLUSTER + "test_profiles_carry_the_workers_marks_round_by_round",),
    ),
    Mutation(
        "the parent's environment stays",
        "fakes/workerproc.py",
        "    os.environ.clear()\n",
        "",
        (CLUSTER + "test_the_environment_is_replaced",),
    ),
    Mutation(
        "a deadline is not kept",
        "fakes/supervisor.py",
        "if self.plan.left_s() == 0:",
        "if self.plan.left_s() == 0 and not self.agents:",
        # One identity of two: without a deadline each waits for as long as the worker of that test sleeps.
        (DEATHS + "test_the_deadline_names_whom_it_waited_for_and_leaves_nobody[patched]",),
    ),
    Mutation(
        "a fault strikes every worker",
        "fakes/workerproc.py",
        "for fault in plan.faults if fault.selects(job)]",
        "for fault in plan.faults]",
        (FAULTS + "test_who_selects",),
    ),
    Mutation(
        "nothing looked at is fine",
        "checks/captures.py",
        "    if looked_at == 0:\n",
        "    if False:\n",
        (CAPTURES + "test_nothing_looked_at_is_an_error", CAPTURES + "test_judge_of_nothing_is_not_ok"),
    ),
    Mutation(
        "a broken file keeps its capture",
        "checks/captures.py",
        "if reading.marks and reading.whole(reading.captures[0])]",
        "if reading.marks]",
        (CAPTURES + "test_a_capture_with_a_bad_number_is_not_kept",),
    ),
    Mutation(
        "legacy copies count as kept",
        "checks/captures.py",
        "own = [reading for reading in readings if not reading.legacy]\n    return own or",
        "own = list(readings)\n    return own or",
        (CAPTURES + "test_legacy_files_count_for_nothing_beside_any_other_file",),
    ),
    Mutation(
        "duplicate keys pass",
        "traces/strict.py",
        "if len(value) != len(pairs):",
        "if False:",
        (READING + "test_bad_file",),
    ),
    Mutation(
        "two spellings of a text are two texts",
        "traces/compiled/__init__.py",
        'str(json.loads(b\'"%b"\' % spelled)) if b"\\\\" in spelled else spelled.decode()',
        "spelled.decode()",
        (COMPILED + "test_a_text_has_one_number_however_it_is_spelled_and_whoever_reads_it",),
    ),
    Mutation(
        "any writer may have been the last",
        "checks/legacy.py",
        "write.ended_ns is None or write.ended_ns >= latest]",
        "True]",
        (CHECK_LEGACY + "test_the_last_writer",),
    ),
    Mutation(
        "evidence is told before the test has ended",
        "plugin/recording.py",
        'elif call.when == "call" or call.excinfo is not None:',
        "elif False:",
        (SUMMARY + "test_a_folder_is_judged_before_its_test_is_torn_down",),
    ),
    Mutation(
        "a test that never reported is forgotten",
        "plugin/recording.py",
        "        if evidence is not None:\n            died",
        "        if False:\n            died",
        (SUMMARY + "test_a_test_that_never_reported",),
    ),
    Mutation(
        "an operator keeps its kernels beside those of the child that it takes in",
        "export/kineto.py",
        "rows.kernels[parent] = rows.kernels.get(row, [])",
        "rows.kernels.setdefault(parent, []).extend(rows.kernels.get(row, []))",
        (KINETO + "test_an_operator_takes_the_kernels_of_the_only_child_of_its_name_and_loses_its_own",),
    ),
    Mutation(
        "durations are taken from nanoseconds",
        "export/kineto.py",
        "[self.end_us[row] - self.start_us[row] for row in rows]",
        "[(self.end_ns[row] - self.start_ns[row]) / 1000 for row in rows]",
        (KINETO + "test_a_duration_carries_the_rounding_of_both_ends",),
    ),
    Mutation(
        "memory that an operator holds is told once more",
        "export/kineto.py",
        "if not before or latest_ends[before - 1] < time_ns:",
        "if True:",
        (KINETO + "test_memory_stands_alone_where_no_cpu_event_holds_it",),
    ),
    Mutation(
        "events that cross threads have children",
        "export/kineto.py",
        "on_cpu and not crossing and first == last",
        "on_cpu",
        (KINETO + "test_an_event_that_crosses_threads_has_no_gpu_time_and_no_children",),
    ),
    Mutation(
        "a subclass of torch's profile is read raw",
        "export/proven.py",
        'type(profile) is not getattr(profiler, "profile", None)',
        "not isinstance(profile, profiler.profile)",
        (RAW_READING + "test_everything_else_is_read_by_events",),
    ),
    Mutation(
        "events that their user changed are read raw",
        "export/proven.py",
        "and inner._function_events is None\n",
        "",
        (RAW_READING + "test_everything_else_is_read_by_events",),
    ),
    Mutation(
        "a torch with other code is read raw",
        "export/proven.py",
        "if fingerprint() != proof.code:",
        "if False:",
        (RAW_READING + "test_a_build_with_other_code_under_a_proven_number_is_read_by_events",),
    ),
    Mutation(
        "a torch that someone patched is read raw",
        "export/proven.py",
        "if type(function) is not FunctionType or function.__globals__ is not namespace:",
        "if False:",
        (RAW_READING + "test_a_torch_that_someone_patched_is_read_by_events",),
    ),
    Mutation(
        "the collector stays off after an export",
        "export/garbage.py",
        "        if not _holders and _was_on:\n            gc.enable()",
        "        pass",
        (
            GARBAGE + "test_it_is_given_back_whatever_happens",
            GARBAGE + "test_it_is_held_while_events_are_made_and_read",
        ),
    ),
    Mutation(
        "the collector works during an export",
        "export/garbage.py",
        "        gc.disable()\n",
        "",
        (GARBAGE + "test_it_is_held_while_events_are_made_and_read",),
    ),
    Mutation(
        "the base of an input is ignored",
        "timeline/anchors.py",
        'return own_ns, ""',
        'return 0, ""',
        (ANCHORS + "test_each_file_has_its_own_base",),
    ),
    Mutation(
        "a timeline does not begin at its earliest event",
        "timeline/deciding.py",
        "decision.base_time_ns = min(begins.values())",
        "decision.base_time_ns = max(begins.values())",
        (MERGE + "test_every_event_keeps_its_time_since_1970",),
    ),
    Mutation(
        "metadata of the inputs stays, with its times",
        "timeline/rewriting.py",
        "kept = [event for event, phase in zip(events, phases, strict=True) if phase != _METADATA]",
        "kept = events",
        (REWRITING + "test_metadata_is_left_out_and_the_others_are_parted_by_lines[pure-1]",),
    ),
    Mutation(
        "ids of two inputs are not kept apart",
        "timeline/ids.py",
        "IdMap(first - each[0], prefix)",
        "IdMap(0, prefix)",
        (IDS + "test_ids_are_moved_one_input_behind_the_other",),
    ),
    Mutation(
        "ids get new numbers by the compiled function only",
        "timeline/rewriting.py",
        "if not isinstance(old, int | str) or isinstance(old, bool):",
        "if True:",
        (REWRITING + "test_ids_get_new_numbers[pure-ids0-1]",),
    ),
    Mutation(
        "drift moves where a range starts and not where it ends",
        "timeline/rewriting.py",
        "clock.at(floor_ns(_CONTEXT.add(time_us, dur_us))) - start_ns",
        "floor_ns(dur_us)",
        (REWRITING + "test_a_range_is_stretched_to_the_nanosecond[pure-10000000.0000000000005-0-50000001]",),
    ),
    Mutation(
        "a GPU and a process of the host of one number are one",
        "timeline/processes.py",
        "is_gpu = lane == ON_GPU\n",
        "is_gpu = False\n",
        (TRACKS + "test_python_frames_on_the_number_of_a_gpu_are_not_on_the_gpu",),
    ),
    Mutation(
        "ranks share the processes that are texts",
        "timeline/tracks.py",
        "key = (member.worker, survey.format, process)",
        "key = (type(member.worker)() if process.is_text else member.worker, survey.format, process)",
        (TRACKS + "test_two_ranks_with_equal_numbers_share_no_process",),
    ),
    Mutation(
        "thread 0 keeps its number",
        "timeline/tracks.py",
        "and 0 < tid < _PIDS_END",
        "and 0 <= tid < _PIDS_END",
        (TRACKS + "test_no_thread_is_0_or_a_text_or_the_number_of_its_process",),
    ),
    Mutation(
        "an absent rank, a broken one, an input that would be replaced: nothing stops a merge",
        "timeline/merge.py",
        "allow_missing=allow_missing,\n    )\n",
        "allow_missing=True,\n    )\n    seen.lost.clear()\n    seen.refused.clear()\n",
        (
            MERGE + "TestNotMerged::test_an_absent_rank",
            MERGE + "TestNotMerged::test_a_cut_rank",
            MERGE + "test_a_trace_is_never_replaced_by_the_timeline",
        ),
    ),
    Mutation(
        "a timeline is an input of another",
        "timeline/placing.py",
        'if survey.format == "merged":\n',
        "if False:\n",
        (MERGE + "TestNotMerged::test_a_merged_file",),
    ),
    Mutation(
        "links end before they start",
        "timeline/links.py",
        "max(Decimal(0), min(late_us, dur_us))",
        "Decimal(0)",
        (MERGE + "test_a_link_ends_no_sooner_than_it_starts[3-3]",),
    ),
    Mutation(
        "source code is kept unasked",
        "timeline/merge.py",
        "sources=keep_source)",
        "sources=True)",
        (MERGE + "test_sources_are_dropped_unless_they_are_wanted",),
    ),
    Mutation(
        "rules about one rank look at merged files",
        "checks/one.py",
        "Looked(0) if rule.one_rank and view.merged else ",
        "",
        (CHECK_MERGED + "test_nothing_is_wrong_with_ranks_as_one",),
    ),
    Mutation(
        "a profile begins in whatever thread asked for it",
        "control/session.py",
        "            if recording.window.at_once and self._stepper in (0, threading.get_ident()):",
        "            if recording.window.at_once:",
        (SESSION + "TestThreads::test_a_profile_begins_in_the_thread_that_works",),
    ),
    Mutation(
        "a profiler that cannot start leaves the others recording",
        "control/recording.py",
        "                    self.undo()\n                    return False",
        "                    return False",
        (SESSION + "TestFailures::test_who_started_before_is_undone",),
    ),
    Mutation(
        "a file that fails costs the others theirs",
        "control/recording.py",
        "                interrupts += [] if isinstance(error, Exception) else [error]\n                continue",
        "                break",
        (SESSION + "TestFailures::test_one_that_fails_costs_the_others_nothing[save]",),
    ),
    Mutation(
        "nothing recorded is a success",
        "control/recording.py",
        "        if not self._windows and not self.reasons:",
        "        if False:",
        (SESSION + "TestFailures::test_a_window_that_never_began_is_no_success",),
    ),
    Mutation(
        "a window closes with the next step alone",
        "control/session.py",
        "            if time.monotonic() >= self._end_s:",
        "            if False:",
        (SESSION + "TestWindows::test_close_at_the_deadline_though_no_step_comes",),
    ),
    Mutation(
        "SIGTERM in the middle of a stop ends the process at once",
        "control/section.py",
        "if os.getpid() == self._pid and self._owner == threading.get_ident():",
        "if False:",
        (SESSION + "TestEndOfTheProcess::test_sigterm_in_the_middle_of_a_stop_waits_for_the_file",),
    ),
    Mutation(
        "a forked process goes on with its parent's profile",
        "control/section.py",
        "            self._forked()\n",
        "",
        (SESSION + "TestThreads::test_a_forked_process_leaves_its_parents_profile_alone",),
    ),
    Mutation(
        "files go where a link leads that came meanwhile",
        "control/output.py",
        "        if self.real and ",
        "        if False and ",
        (SESSION + "TestFolder::test_a_link_in_its_place_does_not_lead_the_files_elsewhere",),
    ),
    Mutation(
        "SIGTERM goes round for ever",
        "control/watch.py",
        "        if self._is_held or not _in_main_thread():",
        "        if not _in_main_thread() or signal.getsignal(signal.SIGTERM) == self._handle:",
        (SESSION + "TestEndOfTheProcess::test_a_handler_that_calls_ours_is_called_once",),
    ),
    Mutation(
        "a child of multiprocessing loses its window",
        "control/watch.py",
        "        if process is not None and process.parent_process() is not None:",
        "        if False:",
        (SESSION + "TestEndOfTheProcess::test_a_child_of_multiprocessing_closes_its_window",),
    ),
    Mutation(
        "a file of another job is taken for a worker's",
        "control/judging.py",
        " or self._told_of_others(expected):",
        ":",
        ("tests/unit/control/test_collecting.py::test_what_another_job_wrote_under_the_same_name_is_not_a_workers",),
    ),
    Mutation(
        "the steps of another stage fill a window",
        "control/window.py",
        "        if self.is_open and (self._waiting is None or stage == self.stage):",
        "        if self.is_open:",
        (WINDOW + "test_stages_that_alternate_leave_the_last_window_its_count",),
    ),
    Mutation(
        "an answer is believed, the disk is not looked at",
        "control/judging.py",
        "        if self._unfinished() or self._lacking(expected) or self._told_of_others(expected):",
        "        if self.reply is None:",
        (COORDINATOR + "test_one_that_never_writes_is_missing",),
    ),
    Mutation(
        "a profile that some refused goes on with the others",
        "control/coordinator.py",
        "        undone = self._undo([worker for worker in started if worker.tag not in deaths])",
        "        undone: dict[str, str] = {}",
        (COORDINATOR + "test_where_one_refuses_the_others_keep_nothing",),
    ),
]


def run(folder: Path, tests: list[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-rfE", "--no-header", "-p", "no:cacheprovider"]
    # No colours, no short lines: the names of the failed tests are read off the output.
    environment = {**os.environ, "PYTHONPATH": str(folder), "COLUMNS": "500", "NO_COLOR": "1", "PY_COLORS": "0"}
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "COVERAGE_PROCESS_START", "COVERAGE_PROCESS_CONFIG"):
        environment.pop(name, None)
    return subprocess.run(
        [*command, f"--rootdir={ROOT}", "-c", str(ROOT / "pyproject.toml"), *(str(ROOT / test) for test in tests)],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip


def copy(folder: Path) -> Path:
    """The package in ``folder``."""
    return shutil.copytree(PACKAGE, folder / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))


def test_the_copy_without_a_mutation_passes(tmp_path: Path) -> None:
    """What turns red below is red for its mutation."""
    copy(tmp_path)
    done = run(tmp_path, sorted({test for mutation in MUTATIONS for test in mutation.red}))
    assert done.returncode == 0, done.stdout[-3000:]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_turns_its_tests_red(mutation: Mutation, tmp_path: Path) -> None:
    file = copy(tmp_path) / mutation.file
    source = file.read_text()
    assert source.count(mutation.old) == 1, f"{mutation.file} no longer holds, once, what this mutation replaces"
    file.write_text(source.replace(mutation.old, mutation.new))
    done = run(tmp_path, list(mutation.red))
    if "needs compiled" in done.stdout:
        pytest.skip("needs compiled: what this mutation breaks is not there")
    failed = re.findall(r"^(?:FAILED|ERROR) (\S+?\.py::\S+)", done.stdout, re.MULTILINE)
    green = [test for test in mutation.red if not any(test in name for name in failed)]
    assert not green, f"still green: {green}\n{done.stdout[-2000:]}"
