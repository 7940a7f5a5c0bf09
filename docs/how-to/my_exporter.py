"""Somebody's exporter: one Chrome trace for each rank and configuration. It knows nothing of the kit."""

import hashlib
import os
import re
import tempfile
from pathlib import Path


def save_trace(profile, folder, configuration):
    if not profile.events():
        raise RuntimeError("the profile holds no event: nothing was recorded, or another profiler took the session")
    # Readable, and as different as the configuration itself: cleaning alone makes "a:b" and "a_b" one name.
    readable = re.sub("[^a-z0-9]+", "-", configuration.lower())[:40].strip("-")
    digest = hashlib.sha256(configuration.encode()).hexdigest()[:16]
    stem = f"{readable}~{digest}-rank{os.environ['RANK']}"
    os.makedirs(folder, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".writing-") as private:
        whole = Path(private, "trace.json")
        profile.export_chrome_trace(str(whole))  # says nothing when it fails; link() will
        attempt = 1
        while True:
            name = f"{stem}.json" if attempt == 1 else f"{stem}.{attempt}.json"
            try:
                os.link(whole, Path(folder, name))  # complete or not at all, and never over another file
            except FileExistsError:
                attempt += 1
            else:
                return Path(folder, name)
