"""Rules about flows, ids, phases and ranges that do not close (family D, F): what viewers link wrongly or drop."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np

from pytest_gputrace.checks.causality import PROTON_FLOW, launch_gaps
from pytest_gputrace.checks.rule import Hit, Looked
from pytest_gputrace.checks.words import more, number, shown
from pytest_gputrace.traces import vocabulary
from pytest_gputrace.traces.columns import NO_ID

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from pytest_gputrace.checks.rule import Settings
    from pytest_gputrace.checks.view import View

__all__ = ["flow_ends_first", "merged", "no_name", "odd_id", "open_range", "repeated_flow_start", "unknown_phase"]

_PHASES = frozenset("BEXIiCbneSTpFstfPNODMVvRc()")
# Where kernels begin before their launch, so do their arrows; that is told once, by the rule about kernels.
_LAUNCH_FLOWS = ("ac2g", "async_cpu_to_gpu")
_HEXADECIMAL = re.compile(r"0x[0-9a-fA-F]{1,16}")
_ROUNDING_US = 0.01


def repeated_flow_start(view: View, settings: Settings) -> Looked:
    """GT310: two arrows begin under one id, so viewers join what does not belong together."""
    if view.trace.format != "kineto":  # Proton repeats the begin for each kernel of a launch
        return Looked(0)
    columns = view.columns
    begins = np.flatnonzero(vocabulary.of_phase(columns, "s"))
    looked = Looked(len(begins))
    again = []
    for rows in _alike(view, begins):
        _, first = np.unique(columns.flow[rows], return_index=True)
        again.append(np.delete(rows, first))
    repeated = np.sort(np.concatenate(again)) if again else begins[:0]
    if len(repeated):
        row = int(repeated[0])
        what = f"flow {columns.text_of(int(columns.flow[row]))} of {_category(view, row)} begins once more"
        looked.hits.append(Hit(f"{what}{more(len(repeated))}; viewers join arrows of one id", row))
    return looked


def flow_ends_first(view: View, settings: Settings) -> Looked:
    """GT311: an arrow that ends before it begins; viewers drop it in silence."""
    columns = view.columns
    others = np.ones(len(columns), np.bool_)
    if (launch_gaps(view)[1] < 0).any() or not (columns.ts_us[view.work] > 0).all():
        others = vocabulary.of_category(columns, lambda category: category not in _LAUNCH_FLOWS)
        others &= vocabulary.named(columns, lambda name: name != PROTON_FLOW)
    looked = Looked(0)
    early = []
    for rows in _alike(view, np.flatnonzero(vocabulary.of_phase(columns, "sf") & others)):
        starts = vocabulary.of_phase(columns, "s")[rows]
        ids, begun = _earliest(columns.flow[rows[starts]], columns.ts_us[rows[starts]])
        ends = rows[~starts]
        if not len(ids) or not len(ends):
            continue
        at = np.minimum(np.searchsorted(ids, columns.flow[ends]), len(ids) - 1)
        paired = ids[at] == columns.flow[ends]
        ends, begins = ends[paired], begun[at[paired]]
        looked.at += len(ends)
        early.append(ends[columns.ts_us[ends] < begins - np.maximum(_ROUNDING_US, 4 * np.spacing(np.abs(begins)))])
    found = np.sort(np.concatenate(early)) if early else np.empty(0, np.intp)
    if len(found):
        row = int(found[0])
        what = f"flow {columns.text_of(int(columns.flow[row]))} of {_category(view, row)} ends before it begins"
        looked.hits.append(Hit(f"{what}{more(len(found))}; viewers drop such arrows", row))
    return looked


def _earliest(ids: NDArray[np.int64], times: NDArray[np.float64]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Each id once, and the earliest of its times."""
    order = np.lexsort((times, ids))
    ids, times = ids[order], times[order]
    first = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 1))
    return ids[first], times[first]


def odd_id(view: View, settings: Settings) -> Looked:
    """GT312: ids that viewers read as other ones, or that contradict the arguments beside them."""
    columns, work = view.columns, view.work
    looked = Looked(int((columns.pid != NO_ID).sum() + (columns.flow != NO_ID).sum()))
    if view.trace.format == "kineto":
        for argument, lane in (("device", "pid"), ("stream", "tid")):
            told, placed = getattr(columns, argument)[work], getattr(columns, lane)[work]
            wrong = work[(told != NO_ID) & (told != placed)]
            _note(looked, view, wrong, f"args.{argument} is another than its {lane}")
    for lane in ("pid", "tid"):
        _note(
            looked, view, np.flatnonzero(getattr(columns, lane) >= 2**31), f"{lane} above 2^31, which viewers cut off"
        )
    _note(
        looked, view, np.flatnonzero(columns.flow > 2**53), "id above 2^53, which JavaScript cannot tell from the next"
    )
    texts = np.array([_HEXADECIMAL.fullmatch(text) is None and not _is_integer(text) for text in columns.ids], np.bool_)
    flows = np.flatnonzero((columns.flow < NO_ID) & vocabulary.of_phase(columns, "stf"))
    if len(flows):
        _note(
            looked,
            view,
            flows[texts[-2 - columns.flow[flows]]],
            "a flow id that is a text and no 0x number; viewers refuse it",
        )
    return looked


def unknown_phase(view: View, settings: Settings) -> Looked:
    """GT313: an event whose phase is none of the format's."""
    if view.trace.format in ("superbench", "proton-tree"):
        return Looked(0)
    columns = view.columns
    looked = Looked(len(columns))
    unknown = vocabulary.chosen(columns.phases, columns.phase, lambda phase: phase not in _PHASES)
    rows = np.flatnonzero(unknown & ~_placeholders(view))
    if len(rows):
        phase = columns.phases[columns.phase[rows[0]]]
        what = f"ph is {shown(phase)}" if phase else "no ph"
        looked.hits.append(
            Hit(f"{view.name(int(rows[0]))}: {what}{more(len(rows))}; viewers drop the event", int(rows[0]))
        )
    return looked


def no_name(view: View, settings: Settings) -> Looked:
    """GT315: a range without a name: nobody can tell what ran."""
    columns = view.columns
    if view.trace.format in ("superbench", "proton-tree") or view.lost_values:
        return Looked(0)
    looked = Looked(int(view.ranges.sum()))
    rows = np.flatnonzero(view.ranges & vocabulary.named(columns, lambda name: not name))
    if len(rows):
        what = f"a range (ph X) of {_category(view, int(rows[0]))} without a name{more(len(rows))}"
        looked.hits.append(Hit(what, int(rows[0])))
    return looked


def merged(view: View, settings: Settings) -> Looked:
    """GT316: several traces in one file. Not what is in it: rules about one rank, or one profiler, do not look at it."""
    if not view.merged:
        return Looked(0)
    about = view.trace.metadata["gputrace_merge"]
    inputs = about.get("inputs") if isinstance(about, dict) else None
    of = number(len(inputs), "input") if isinstance(inputs, list) else "nobody knows what"
    missing, left_out = (about.get(key) if isinstance(about, dict) else None for key in ("missing_ranks", "left_out"))
    without = (
        f", without {number(len(missing), 'rank')} that should be there"
        if isinstance(missing, list) and missing
        else ""
    )
    and_not = f", {number(len(left_out), 'file')} left out" if isinstance(left_out, list) and left_out else ""
    return Looked(
        1, [Hit(f"merged of {of}{without}{and_not}; the rules about one rank did not look; check the inputs")]
    )


def open_range(view: View, settings: Settings) -> Looked:
    """GT314: ranges that begin (B) and never end (E), or the reverse."""
    columns = view.columns
    rows = np.flatnonzero(vocabulary.of_phase(columns, "BE"))
    looked = Looked(len(rows))
    if not len(rows) or not view.whole:
        return Looked(0)
    signs = np.where(vocabulary.of_phase(columns, "B")[rows], 1, -1)
    lanes, inverse = np.unique(np.stack([columns.pid[rows], columns.tid[rows]]), axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    balance = np.bincount(inverse, weights=signs, minlength=lanes.shape[1])
    if balance.any():
        begun, ended = int(balance[balance > 0].sum()), -int(balance[balance < 0].sum())
        of_lane = inverse == np.flatnonzero(balance)[0]
        row = _unmatched(rows[of_lane], signs[of_lane])
        what = f"of ranges here {begun} begin (ph B) and never end, {ended} end (ph E) and never begin"
        looked.hits.append(Hit(f"{view.name(row)}: {what}", row))
    return looked


def _unmatched(rows: NDArray[np.intp], signs: NDArray[np.int_]) -> int:
    """The first range of a lane that does not close, or was never open."""
    open_: list[int] = []
    for row, sign in zip(rows.tolist(), signs.tolist(), strict=True):
        if sign > 0:
            open_.append(row)
        elif open_:
            open_.pop()
        else:
            return int(row)
    return open_[0]


def _note(looked: Looked, view: View, rows: NDArray[np.intp], what: str) -> None:
    if len(rows):
        looked.hits.append(Hit(f"{view.name(int(rows[0]))}: {what}{more(len(rows))}", int(rows[0])))


def _placeholders(view: View) -> NDArray[np.bool_]:
    """What stands for things in the list that are no events at all; reading has named them."""
    columns = view.columns
    nameless = vocabulary.named(columns, lambda name: not name) & vocabulary.of_category(columns, lambda word: not word)
    missing: NDArray[np.bool_] = nameless & np.isnan(columns.ts_us) & (columns.pid == NO_ID)
    return missing


def _alike(view: View, rows: NDArray[np.intp]) -> Iterator[NDArray[np.intp]]:
    """The rows of each category and name by themselves: what viewers join by, besides the id."""
    columns = view.columns
    kinds = columns.category[rows].astype(np.int64) * len(columns.names) + columns.name[rows]
    order = np.argsort(kinds, kind="stable")
    yield from np.split(rows[order], np.flatnonzero(np.diff(kinds[order])) + 1)


def _category(view: View, row: int) -> str:
    return shown(view.columns.categories[view.columns.category[row]])


def _is_integer(text: str) -> bool:
    return text.lstrip("-").isascii() and text.lstrip("-").isdigit()
