"""Python frames by VizTracer and scopes by Proton, recorded together: ``viztracer_proton.py FOLDER``.

Leaves ``viztracer.json`` and ``proton.chrome_trace``. Each frame opens one scope, and leaves an arrow to it in the report
as TokenSpeed does. Proton's library is loaded without its Python package, which wants a GPU.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import sys
from pathlib import Path
from typing import Any

STEPS = 9
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
    return library.proton  # type: ignore[attr-defined]


def step(proton: Any, tracer: Any, name: str) -> None:
    sum(range(500))  # about 10 us from the frame to its scope: what nests here nests whatever clocks make of one
    scope = proton.record_scope()
    proton.enter_scope(scope, name)
    tracer.add_raw({
        "ph": "s", "name": "viztracer->proton", "cat": "tokenspeed.proton", "id": scope, "ts": tracer.getts(),
    })  # fmt: skip
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
