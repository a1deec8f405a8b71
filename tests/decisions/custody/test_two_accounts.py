"""The whole exchange by the command line between two accounts of one machine, of which neither is root."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from decisions.support import World, cli

from .people import Two

PAIR = "pair-ferries"


@dataclass(frozen=True)
class Account:
    uid: int
    home: Path

    def does(self, act: Callable[[], None]) -> None:
        """Run ``act`` as this user, in this user's home, and fail with it."""
        pid = os.fork()
        if pid == 0:
            code = 1
            try:
                os.setgroups([])
                os.setgid(self.uid)
                os.setuid(self.uid)
                world = World(self.home)
                os.environ.update(
                    HOME=str(self.home), XDG_CONFIG_HOME=str(world.config), XDG_STATE_HOME=str(world.state)
                )
                os.chdir(self.home)
                tempfile.tempdir = str(self.home)
                act()
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                os._exit(code)
        _, status = os.waitpid(pid, 0)
        assert status == 0, "see the output of the other account's process"


@pytest.fixture
def desk() -> Iterator[Path]:
    """A folder of everybody, with the sticky bit: where files are handed over."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o1777)
        yield Path(folder)


@pytest.fixture
def accounts(desk: Path, ferries: Path) -> tuple[Account, Account]:
    if os.geteuid() != 0:
        pytest.skip("two accounts can be had by root only")
    made = (Account(65533, desk / "custodian"), Account(65534, desk / "evaluator"))
    for account in made:
        for folder in (account.home, account.home / "config", account.home / "state"):
            folder.mkdir(mode=0o700)
    shutil.copytree(ferries, made[0].home / "cases")
    for account in made:
        for path in (account.home, *account.home.rglob("*")):
            os.chown(path, account.uid, account.uid)
    return made


def done(*arguments: str | Path) -> str:
    outcome = cli(*arguments)
    assert outcome.code == 0, outcome.err
    return outcome.out


def handed_over(path: Path) -> None:
    """Readable for the other account, as a copy on a stick would be."""
    for item in (path, *path.rglob("*")):
        item.chmod(0o755 if item.is_dir() else 0o644)


def own_key_id() -> str:
    return next(line for line in done("keys", "show").split() if line.startswith("sha256:")).rstrip(",")


def test_the_evaluators_account_cannot_read_what_is_kept_and_gets_it_by_a_release_only(
    accounts: tuple[Account, Account], desk: Path, stages: dict[str, Two]
) -> None:
    assert stages, "every module is loaded: these accounts cannot read root's Python"
    custodian, evaluator = accounts

    def make_keys(role: str) -> Callable[[], None]:
        def act() -> None:
            done("keys", "init", "--no-passphrase", "--role", role)
            (desk / f"{role}.json").write_text(done("keys", "export", own_key_id()))
            handed_over(desk / f"{role}.json")

        return act

    def seal() -> None:
        done("keys", "pin", desk / "evaluator.json")
        done("custodian", "seal", "cases", "--pair", PAIR, "--out", desk / "bundle")
        handed_over(desk / "bundle")

    def evaluate() -> None:
        done("keys", "pin", desk / "custodian.json")
        done("decisions", "precommit", desk / "bundle", "--out", "run")
        done("decisions", "evaluate", "run", "--write-run")
        refused = cli("decisions", "reveal", "run", "--write-calibration")
        assert refused.code == 2
        assert "evalkit custodian request" in refused.err
        world = World(custodian.home)
        for path in (
            custodian.home / "cases" / "mapping.json",
            world.places.signing_key,
            world.places.unsealing_key,
            world.places.trust,
        ):
            with pytest.raises(PermissionError):
                path.read_bytes()
        for folder in (custodian.home / "cases", world.places.ledgers, custodian.home):
            with pytest.raises(PermissionError):
                list(folder.iterdir())
        done("custodian", "request", "run", "--out", desk / "request")
        handed_over(desk / "request")

    def release() -> None:
        with pytest.raises(PermissionError):
            list(evaluator.home.iterdir())
        said = done("custodian", "open", desk / "request", "--out", desk / "opening", "--json")
        assert json.loads(said)["phase"] == "released"
        handed_over(desk / "opening")

    def reveal() -> None:
        done("decisions", "reveal", "run", "--opening", desk / "opening", "--write-calibration")
        assert "the custodian's key signed that it releases these openings" in done("verify", "run")

    custodian.does(make_keys("custodian"))
    evaluator.does(make_keys("evaluator"))
    custodian.does(seal)
    evaluator.does(evaluate)
    custodian.does(release)
    evaluator.does(reveal)
