"""Python frames by VizTracer and scopes by Proton, recorded together: ``viztracer_proton.py FOLDER``.

Leaves ``viztracer.json`` and ``proton.chrome_trace``. Each frame opens one scope, and the report has an arrow to it that
starts before the scope, as TokenSpeed's have. Proton's library is loaded without its Python package, which wants a GPU.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

STEPS = 9
LINK = {"ph": "s", "name": "viztracer->proton", "cat": "tokenspeed.proton"}
# By name: neither package is there where types are checked.
VizTracer: Any = importlib.import_module("viztracer").VizTracer


def load_proton() -> Any:
    spec = importlib.util.find_spec("tokenspeed_triton")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    path = str(Path(next(iter(spec.submodule_search_locations)), "_C", "libproton.so"))
    loader = importlib.machinery.ExtensionFileLoader("libproton", path)
    library_spec = importlib.util.spec_from_loader("libproton", loader)
    assert library_spec is not None
    library = importlib.util.module_from_spec(library_spec)
    loader.exec_module(library)
    return library.proton


def step(proton: Any, tracer: Any, name: str) -> None:
    before_us = tracer.getts()
    sum(range(500))  # about 10 us before the scope and after it: more than the two clocks may differ by
    scope = proton.record_scope()
    proton.enter_scope(scope, name)
    tracer.add_raw(LINK | {"id": scope, "ts": before_us})
    sum(range(50_000))
    proton.exit_scope(scope, name)
    sum(range(500))


def main(folder: Path) -> None:
    proton = load_proton()
    # On a machine with no GPU this backend records the scopes alone.
    session = proton.start(str(folder / "proton"), "shadow", "trace", "instrumentation", "cuda")
    tracer = VizTracer(output_file=str(folder / "viztracer.json"), verbose=0)
    tracer.start()
    for number in range(STEPS):
        step(proton, tracer, f"scope {number}")
        sum(range(50_000))
    tracer.stop()
    tracer.save()
    proton.finalize(session, "chrome_trace")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
