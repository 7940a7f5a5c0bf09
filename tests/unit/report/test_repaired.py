"""What a repair says."""

from __future__ import annotations

import textwrap
from pathlib import Path

from pytest_gputrace.repair.outcome import Change, Repaired
from pytest_gputrace.report.repaired import as_text

PATH, OUT = Path("a.json"), Path("b.json")


def test_everything_that_was_changed_or_lost() -> None:
    changes = (Change(9, 12, "NaN", "null", more=1016), Change(50, None, 'a quote in "x\n"', "an escape"))
    lost = ("event 13: cut", "documents 2 and 3")
    assert as_text(Repaired(PATH, OUT, 1300, 1, 4200, changes, lost, documents=3)) == textwrap.dedent("""\
        a.json: 1,300 events saved to b.json; lost: 1 event, 4.20 kB of text
        changed:
          event 12, byte 9: NaN -> null (1,016 more like it)
          byte 50: a quote in "x\\n" -> an escape
        lost:
          event 13: cut
          documents 2 and 3
        the file holds 3 documents; each is saved by itself: --document N""")


def test_what_nobody_can_know_is_not_given_as_a_number() -> None:
    text = as_text(Repaired(PATH, OUT, 1, None, 7, (), ("the rest",)))
    assert text.startswith("a.json: 1 event saved to b.json; lost: nobody knows how many events, 7 B of text\n")


def test_a_good_file() -> None:
    good = Repaired(PATH, OUT, 2, 0, 0, (), ())
    assert as_text(good) == "a.json: 2 events saved to b.json; there was nothing to repair"


def test_nothing_saved() -> None:
    text = as_text(Repaired(PATH, None, 0, None, 9, (), ("no event is whole",)))
    assert text == "a.json: nothing could be saved\nlost:\n  no event is whole"
