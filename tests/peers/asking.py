"""The tests' side of `worker.py`: packages of another environment, asked through one long-lived process."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np


class Call:
    """A call to be made over there: ``Call("torch.as_tensor", array)``."""

    def __init__(self, path: str, /, *arguments: Any, **keywords: Any) -> None:
        self.path, self.arguments, self.keywords = path, arguments, keywords


class PeerError(Exception):
    """What the package raised: ``kind`` is the name of its exception."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind


class Peers:
    """``peers("sklearn.metrics.log_loss", y, p, labels=[0, 1])`` gives what that package returns."""

    def __init__(self, python: Path, folder: Path) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            [python, "-I", Path(__file__).with_name("worker.py")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            # packages write settings, and threads would wait for each other beside the other tests
            env=os.environ | {"HOME": str(folder), "MPLBACKEND": "agg", "OMP_NUM_THREADS": "1"},
        )

    def __call__(self, path: str, /, *arguments: Any, **keywords: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(_encode(Call(path, *arguments, **keywords))), file=self._process.stdin, flush=True)
        line = self._process.stdout.readline()
        if not line:
            self._errors.seek(0)
            raise RuntimeError(f"the peers' process ended: {self._errors.read().decode()[-2000:]}")
        answer = json.loads(line)
        if "error" in answer:
            raise PeerError(answer["error"], answer["message"])
        return answer["value"]

    def version(self, distribution: str) -> tuple[int, ...]:
        return tuple(int(part) for part in self("importlib.metadata.version", distribution).split(".")[:3])

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._errors.close()


def _encode(value: Any) -> Any:
    if isinstance(value, Call):
        return {
            "call": value.path,
            "args": [_encode(item) for item in value.arguments],
            "keywords": {name: _encode(item) for name, item in value.keywords.items()},
        }
    if isinstance(value, np.ndarray):
        data = np.ascontiguousarray(value)
        return {
            "array": base64.b64encode(data.tobytes()).decode(),
            "dtype": data.dtype.str,
            "shape": value.shape,
        }
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, (list, tuple)):
        return [_encode(item) for item in value]
    if isinstance(value, dict):
        return {name: _encode(item) for name, item in value.items()}
    return value
