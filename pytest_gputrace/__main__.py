"""``python -m pytest_gputrace``: the ``gputrace`` command."""

from __future__ import annotations

import sys

from pytest_gputrace.cli import main

sys.exit(main())
