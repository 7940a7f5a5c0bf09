from __future__ import annotations

import pytest

from pytest_gputrace.conformance.portable import why_refused


@pytest.mark.parametrize(
    "parts",
    [
        (),
        ("a.json",),
        ("folder", "a.json"),
        ("a b-c_d~e%f+g=h.json",),
        ("console.json",),
        ("xcon",),
        ("com0",),
        ("com10.json",),
        ("\u6f22.json",),
        (".hidden",),
        ("x" * 255,),
    ],
)
def test_names_that_every_file_system_takes(parts: tuple[str, ...]) -> None:
    assert why_refused(parts) == ""


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        *((f"a{letter}b", f"holds {letter!r}, which NTFS, SMB and exFAT refuse") for letter in '<>:"/\\|?*\n\0'),
        ("a.", "ends in a dot or a space, which NTFS and SMB drop"),
        ("a ", "ends in a dot or a space, which NTFS and SMB drop"),
        ("con", "is 'con' to NTFS and SMB, the name of a device"),
        ("NUL.json", "is 'NUL' to NTFS and SMB, the name of a device"),
        ("nul.tar.gz", "is 'nul' to NTFS and SMB, the name of a device"),
        ("Com1.x", "is 'Com1' to NTFS and SMB, the name of a device"),
        ("lpt\u00b2", "is 'lpt\u00b2' to NTFS and SMB, the name of a device"),
        ("aux .json", "is 'aux ' to NTFS and SMB, the name of a device"),
        ("x" * 256, "is longer than 255 bytes or UTF-16 units"),
        ("\u6f22" * 86, "is longer than 255 bytes or UTF-16 units"),
    ],
)
def test_names_that_some_refuse(parts: str, why: str) -> None:
    assert why_refused([parts]) == why
    assert why_refused(["fine", parts, "fine.json"]) == why, "one part is enough"


def test_the_first_reason_is_given() -> None:
    assert why_refused(["a.", "b:c"]).startswith("ends in a dot")
