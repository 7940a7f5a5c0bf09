"""Whether a page that somebody only looks at made their browser ask: by a foreign name, or across sites."""

from __future__ import annotations

import ipaddress
import re

__all__ = ["foreign_page", "is_loopback"]


def is_loopback(host: str) -> bool:
    """Whether a name or address means this machine, whoever is asked; ``localhost`` is the only such name."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def foreign_page(host: str | None, origin: str | None, site: str = "none", *, any_host: bool) -> str:
    """Why a request is not answered; empty where it may be one of ours.

    Args:
        host: the header ``Host``. A page whose own name leads to this machine sends that name.
        origin: the header ``Origin``, which browsers send with every ``POST``.
        site: the header ``Sec-Fetch-Site``, by which they say the same; ``none`` where it is not there.
        any_host: a token protects, so that any name will do.
    """
    if host is not None and not any_host and not is_loopback(_without_port(host)):
        return (
            "without a token only requests to localhost, 127.0.0.1 or [::1] are answered; set a token for other names"
        )
    if site not in ("none", "same-origin"):
        return "a page of another site asked; requests from other sites are not answered"
    if origin is not None and (host is None or origin.partition("://")[2].lower() != host.lower()):
        return "a page of another site asked; requests from other sites are not answered"
    return ""


def _without_port(host: str) -> str:
    parts = re.fullmatch(r"(\[[^\]]*\]|[^:\[\]]*)(:[0-9]*)?", host)
    return parts[1] if parts else ""
