"""A real model, real torch.profiler, 2 real gloo ranks under torchrun, two configurations, one folder."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_gputrace import Capture, ExportResult

TRAIN = Path(__file__).with_name("train.py")
CONFIGURATIONS = ["mlp:train/fp32", "mlp:train/bf16"]


def test_every_rank_of_every_configuration_is_kept(gputrace_dir, gputrace_check):
    pytest.importorskip("torch", reason="needs torch: trains a small model")
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(TRAIN)]
    for configuration in CONFIGURATIONS:
        command = [*torchrun, configuration, str(gputrace_dir)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=120)
        results = [ExportResult(**result) for result in json.loads(done.stdout)]
        assert len(results) == 2

    # torchrun's only node has the index 0. What the ranks of the last run wrote is what the legacy files hold.
    expected = [Capture("0", rank, configuration) for rank in range(2) for configuration in CONFIGURATIONS]
    gputrace_check(gputrace_dir, expected).valid().finite().distinct().complete().legacy(results)
