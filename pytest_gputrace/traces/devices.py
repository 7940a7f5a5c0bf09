"""The GPUs that a trace names, from what stands around its events."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Device", "Vendor", "devices"]

Vendor = Literal["cuda", "rocm", ""]

_ROCM_KEYS = ("roctracer_version", "hip_runtime_version", "hip_driver_version")
_CUDA_KEYS = ("cupti_version", "cuda_runtime_version", "cuda_driver_version")
_ROCM_NAME = re.compile(r"\b(?:AMD|Radeon|Instinct|MI\d{2,3}X?)\b")
_CUDA_NAME = re.compile(r"\b(?:NVIDIA|Tesla|GeForce|Quadro)\b")
# Of a device's properties, those that only one vendor's have. `warpSize` 64 is AMD's alone, 32 is both's.
_ROCM_PROPERTY, _CUDA_PROPERTY, _ROCM_WARP = "maxSharedMemoryPerMultiProcessor", "sharedMemPerBlockOptin", 64
_NUMBER = re.compile(r"[0-9]{1,18}")
_TREE_VENDORS: dict[str, Vendor] = {"CUDA": "cuda", "HIP": "rocm"}


@dataclass(frozen=True)
class Device:
    """One GPU: its number and its name as the file has them (a Proton tree gives its architecture)."""

    id: int
    name: str
    vendor: Vendor


def devices(metadata: dict[str, Any]) -> tuple[Device, ...]:
    """The devices in ``metadata``: Kineto's ``deviceProperties``, or the map that follows a Proton tree."""
    listed = metadata.get("deviceProperties")
    if isinstance(listed, list):
        return tuple(_listed(listed, metadata))
    return tuple(_mapped(metadata))


def _listed(listed: list[Any], metadata: dict[str, Any]) -> Iterator[Device]:
    for properties in listed:
        if isinstance(properties, dict) and type(number := properties.get("id")) is int:
            name = properties.get("name")
            name = name if isinstance(name, str) else ""
            yield Device(number, name, _vendor(name, properties, metadata))


def _vendor(name: str, properties: dict[str, Any], metadata: dict[str, Any]) -> Vendor:
    if _ROCM_NAME.search(name) or any(key in metadata for key in _ROCM_KEYS):
        return "rocm"
    if _CUDA_NAME.search(name) or any(key in metadata for key in _CUDA_KEYS):
        return "cuda"
    if properties.get("warpSize") == _ROCM_WARP or _ROCM_PROPERTY in properties:
        return "rocm"
    return "cuda" if _CUDA_PROPERTY in properties else ""


def _mapped(metadata: dict[str, Any]) -> Iterator[Device]:
    for word, vendor in _TREE_VENDORS.items():
        numbered = metadata.get(word)
        for number, properties in numbered.items() if isinstance(numbered, dict) else ():
            if _NUMBER.fullmatch(number) and isinstance(properties, dict):
                arch = properties.get("arch")
                name = f"sm_{arch}" if isinstance(arch, str) and arch.isdecimal() else arch
                yield Device(int(number), name if isinstance(name, str) else "", vendor)
