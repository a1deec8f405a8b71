"""The trust file: who may vouch for what, and the files that are refused."""

from __future__ import annotations

import ctypes
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import (
    PREDICATES,
    Places,
    Trust,
    TrustedKey,
    canonical_json,
    key_id,
    pin,
    pin_authority,
    pinning,
    trust_path,
)
from evalkit.sealing import trust as trust_module
from evalkit.sealing.keys import SMALL_ORDER
from evalkit.sealing.trust import FORMAT

from .conftest import names
from .timestamping import make_authority

PLAN, RUN = PREDICATES["decisions/precommit"], PREDICATES["decisions/ex-ante"]
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


@pytest.fixture
def key(make_signer: Callable[..., Any]) -> TrustedKey:
    return TrustedKey.of(make_signer().public_key, predicate_types=(PLAN,), roles=("owner",), comment="mine")


@pytest.fixture
def path(tmp_path: Path, key: TrustedKey) -> Path:
    path = tmp_path / "config" / "trust.json"
    pin(path, key)
    return path


def refused(path: Path, *workspace: Path, match: str | None = None) -> None:
    with pytest.raises(BindingError, match=match) as caught:
        Trust.load(path, workspace)
    assert caught.value.binding is Binding.AUTHORITY
    assert caught.value.expected
    assert caught.value.do


def test_pin_and_load(path: Path, key: TrustedKey, tmp_path: Path) -> None:
    trust = Trust.load(path, [tmp_path / "run"])
    assert trust.keys == (key,)
    assert trust.key(key.key_id) == key
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    from evalkit.sealing import digest

    assert trust.digest == digest(path.read_bytes())


def test_every_field_survives(tmp_path: Path, make_signer: Callable[..., Any]) -> None:
    key = TrustedKey.of(
        make_signer().public_key,
        roles=("grader", "second-reader"),
        predicate_types=(PLAN, RUN),
        valid_from=NOW,
        valid_until=NOW + timedelta(days=1, microseconds=5),
        custody="second_party",
        ephemeral=True,
        runs=("r1", "r2"),
        comment="ü",
    )
    pin(tmp_path / "c" / "trust.json", key)
    assert Trust.load(tmp_path / "c" / "trust.json", []).keys == (key,)


def test_pin_twice_changes_nothing_and_other_rights_are_refused(path: Path, key: TrustedKey) -> None:
    before = path.read_bytes()
    pin(path, key)
    assert path.read_bytes() == before
    with pytest.raises(EvalkitError, match="pinned already"):
        pin(path, TrustedKey.of(key.public_key, predicate_types=(PLAN, RUN)))
    assert path.read_bytes() == before


def test_pins_at_the_same_time_all_stay(tmp_path: Path, make_signer: Callable[..., Any]) -> None:
    path = tmp_path / "c" / "trust.json"
    keys = [TrustedKey.of(make_signer().public_key) for _ in range(12)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda key: pin(path, key), keys))
    assert {key.key_id for key in Trust.load(path, []).keys} == {key.key_id for key in keys}


# --- what a key may sign -------------------------------------------------------------------------


def test_rights_of_a_key(make_signer: Callable[..., Any]) -> None:
    key = TrustedKey.of(
        make_signer().public_key,
        predicate_types=(PLAN,),
        runs=("r1",),
        valid_from=NOW,
        valid_until=NOW + timedelta(hours=1),
    )
    trust = Trust(Path("t"), "sha256:" + "0" * 64, (key,))
    assert trust.keys_for(PLAN, "r1", NOW) == (key,)
    assert trust.keys_for(RUN, "r1", NOW) == ()
    assert trust.keys_for(PLAN, "r2", NOW) == ()
    assert trust.keys_for(PLAN, None, NOW) == ()
    assert trust.keys_for(PLAN, "r1", NOW - timedelta(microseconds=1)) == ()
    assert trust.keys_for(PLAN, "r1", NOW + timedelta(hours=1)) == ()
    with pytest.raises(EvalkitError, match="time zone"):
        trust.keys_for(PLAN, "r1", datetime(2026, 1, 1))


@pytest.mark.parametrize(
    "fields",
    [
        {"ephemeral": True},
        {"ephemeral": True, "runs": ()},
        {"runs": ("../r1",)},
        {"custody": "blind"},
        {"predicate_types": ("decisions/plan",)},
        {"predicate_types": PLAN},
        {"roles": ("Owner!",)},
        {"valid_from": datetime(2026, 1, 1)},
    ],
)
def test_a_key_cannot_exist_with_rights_that_make_no_sense(
    make_signer: Callable[..., Any], fields: dict[str, Any]
) -> None:
    with pytest.raises(EvalkitError):
        TrustedKey.of(make_signer().public_key, **fields)


def test_a_key_id_of_another_key_is_refused(make_signer: Callable[..., Any]) -> None:
    """Key substitution inside the trust file."""
    with pytest.raises(BindingError, match="key id"):
        TrustedKey(key_id=make_signer().key_id, public_key=make_signer().public_key)


def test_small_order_key_is_refused_when_pinned_and_when_loaded(path: Path) -> None:
    for public in SMALL_ORDER:
        with pytest.raises(BindingError, match="small order"):
            TrustedKey.of(public)
    record = json.loads(path.read_bytes())
    public = min(SMALL_ORDER)
    record["keys"][0] |= {"public_key": public.hex(), "key_id": key_id(public)}
    path.write_bytes(canonical_json(record))
    refused(path, match="small order")


# --- the file ------------------------------------------------------------------------------------


def _symlink(path: Path) -> None:
    path.rename(path.with_name("real.json"))
    path.symlink_to("real.json")


def _symlinked_folder(path: Path) -> None:
    path.parent.rename(path.parent.with_name("real"))
    path.parent.symlink_to("real")


def _hard_link(path: Path) -> None:
    os.link(path, path.with_name("second"))


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _device(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can make a device")
    path.unlink()
    try:
        os.mknod(path, 0o600 | 0o020000, os.makedev(1, 3))
    except OSError:
        pytest.skip("devices cannot be made here")


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _missing(path: Path) -> None:
    path.unlink()


def _foreign(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a file away")
    os.chown(path, 12345, -1)


def _foreign_folder(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(path.parent, 12345, -1)


def _mode(mode: int) -> Callable[[Path], None]:
    return lambda path: path.chmod(mode)


def _folder_mode(mode: int) -> Callable[[Path], None]:
    return lambda path: path.parent.chmod(mode)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_symlink, id="symlinked file"),
        pytest.param(_symlinked_folder, id="symlinked folder"),
        pytest.param(_hard_link, id="hard link kept"),
        pytest.param(_fifo, id="FIFO as file"),
        pytest.param(_device, id="device as file"),
        pytest.param(_folder, id="folder as file"),
        pytest.param(_missing, id="missing"),
        pytest.param(_foreign, id="foreign-owned"),
        pytest.param(_foreign_folder, id="foreign-owned folder"),
        pytest.param(_mode(0o620), id="group-writable"),
        pytest.param(_mode(0o602), id="world-writable"),
        pytest.param(_folder_mode(0o770), id="group-writable folder"),
        pytest.param(_folder_mode(0o707), id="world-writable folder"),
    ],
)
def test_trust_files_that_others_could_have_made_are_refused(
    path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(path)
    refused(path)


def test_a_trust_file_that_others_may_only_read_is_fine(path: Path) -> None:
    path.chmod(0o644)
    path.parent.chmod(0o755)
    assert Trust.load(path, []).keys


def test_trust_file_in_the_workspace_is_refused(path: Path, tmp_path: Path) -> None:
    refused(path, path.parent, match="inside the workspace")
    refused(path, tmp_path, match="inside the workspace")
    # The run need not exist yet for its git tree to count.
    (tmp_path / ".git").write_text("gitdir: elsewhere")
    refused(path, tmp_path / "runs" / "r1", match="inside the workspace")
    refused(tmp_path / "runs" / ".." / "config" / "trust.json", tmp_path / "runs", match="workspace")


def test_trust_file_in_the_workspace_is_refused_through_a_link_above_it(path: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    path.parent.rename(run / "config")
    (tmp_path / "alias").symlink_to(run)
    refused(tmp_path / "alias" / "config" / "trust.json", run, match="inside the workspace")


def test_pin_refuses_the_workspace(tmp_path: Path, key: TrustedKey) -> None:
    with pytest.raises(BindingError, match="inside the workspace"):
        pin(tmp_path / "run" / "trust.json", key, workspace=[tmp_path / "run"])
    assert not (tmp_path / "run").exists()


def test_environment_redirecting_trust_into_the_workspace(
    tmp_path: Path, key: TrustedKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An absolute XDG folder counts, so what it points into is judged like any other place."""
    run = tmp_path / "run"
    pin(run / "evalkit" / "trust.json", key)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(run))
    places = Places.from_environment()
    refused(trust_path(None, places), run, match="inside the workspace")


@pytest.fixture
def bind_mount(tmp_path: Path) -> Iterator[Callable[[Path, Path], None]]:
    """``bind_mount(source, target)``: the same folder under a second name, taken away afterwards."""
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("only root on Linux can bind a folder to a second place")
    mounted: list[Path] = []

    def bind(source: Path, target: Path) -> None:
        ms_bind = 4096
        if libc.mount(os.fsencode(source), os.fsencode(target), None, ms_bind, None):
            pytest.skip(f"mount(2) is not allowed here ({os.strerror(ctypes.get_errno())})")
        mounted.append(target)

    yield bind
    for target in reversed(mounted):
        assert libc.umount2(os.fsencode(target), 0) == 0


def test_a_bind_mount_does_not_hide_the_workspace(
    path: Path, tmp_path: Path, bind_mount: Callable[[Path, Path], None]
) -> None:
    """The run under a second name, with the trust file in it; names and ``..`` tell nothing."""
    run, alias = tmp_path / "run", tmp_path / "elsewhere" / "alias"
    run.mkdir()
    alias.mkdir(parents=True)
    path.parent.rename(run / "config")
    bind_mount(run, alias)
    assert alias.resolve() == alias
    assert Trust.load(alias / "config" / "trust.json", [tmp_path / "other"]).keys
    refused(alias / "config" / "trust.json", run, match="inside the workspace")
    refused(run / "config" / "trust.json", alias, match="inside the workspace")
    with pytest.raises(BindingError, match="inside the workspace"):
        pin(alias / "config" / "trust.json", TrustedKey.of(b"\x05" + bytes(31)), workspace=[run])


def test_files_of_another_user_are_refused(
    as_another_user: Callable[[Callable[[Path], None]], None], make_signer: Callable[..., Any]
) -> None:
    """As an unprivileged user: what group or others may write, and what is another's."""
    key = TrustedKey.of(make_signer().public_key)

    def attempt(folder: Path) -> None:
        path = folder / "config" / "trust.json"
        pin(path, key)
        for target, mode in ((path, 0o660), (path, 0o602), (path.parent, 0o770), (path.parent, 0o702)):
            before = target.stat().st_mode
            target.chmod(mode)
            refused(path, match="others have access")
            with pytest.raises(BindingError, match="others have access"):
                pin(path, TrustedKey.of(b"\x05" + bytes(31)))
            target.chmod(before)
        assert Trust.load(path, []).keys == (key,)
        # /etc belongs to root, whom this process is not
        refused(Path("/etc/hostname"), match="belongs to user|cannot be opened|no trust file")
        path.chmod(0)
        refused(path, match="cannot be opened")

    as_another_user(attempt)


# --- its size -------------------------------------------------------------------------------------


def many(count: int) -> list[TrustedKey]:
    """Entries as precommit makes them; no private key is behind them."""
    from evalkit.sealing.keys import key_id

    return [
        TrustedKey(
            key_id=key_id(n.to_bytes(32, "big")),
            public_key=n.to_bytes(32, "big"),
            roles=("evaluator", "instructor"),
            predicate_types=(PLAN, RUN, PREDICATES["decisions/reveal"]),
            ephemeral=True,
            runs=(f"{n:032x}",),
            comment="made by precommit because no signing key was configured",
        )
        for n in range(1000, 1000 + count)
    ]


def test_ephemeral_keys_may_pile_up(path: Path, key: TrustedKey) -> None:
    """Ten thousand runs: beyond the megabyte that used to be the end."""
    record = json.loads(path.read_bytes())
    record["keys"] += [entry.record() for entry in many(10_000)]
    path.write_bytes(canonical_json(record))
    assert path.stat().st_size > 5 * 1024 * 1024
    before = time.process_time()
    pin(path, many(10_001)[-1])
    assert time.process_time() - before < 20
    trust = Trust.load(path, [])
    assert len(trust.keys) == 10_002
    assert trust.key(key.key_id) == key


def test_a_file_that_would_be_too_large_is_not_written(
    path: Path, make_signer: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the next reader would refuse is never put in the place of what it accepts."""
    assert trust_module.MAX_TRUST_FILE == 16 * 1024 * 1024
    before = path.read_bytes()
    monkeypatch.setattr(pinning, "MAX_TRUST_FILE", len(before) + 100)
    monkeypatch.setattr(trust_module, "MAX_TRUST_FILE", len(before) + 100)
    other = TrustedKey.of(make_signer().public_key)
    with pytest.raises(EvalkitError, match="would have") as caught:
        pin(path, other)
    assert "ephemeral" in caught.value.do
    assert path.read_bytes() == before
    assert names(path.parent) == ["trust.json"]
    monkeypatch.setattr(trust_module, "MAX_TRUST_FILE", len(before) - 1)
    refused(path, match="bytes")
    # As much as the limit is written and read.
    monkeypatch.undo()
    pin(path, other)
    whole = path.read_bytes()
    path.write_bytes(before)
    for limit in (len(whole) - 1, len(whole)):
        monkeypatch.setattr(pinning, "MAX_TRUST_FILE", limit)
        monkeypatch.setattr(trust_module, "MAX_TRUST_FILE", limit)
        if limit < len(whole):
            with pytest.raises(EvalkitError, match="would have"):
                pin(path, other)
        else:
            pin(path, other)
    assert path.read_bytes() == whole
    assert Trust.load(path, []).keys[-1] == other


@pytest.mark.parametrize(
    "change",
    [
        {"format": "https://evalkit.dev/trust/v2"},
        {"unknown": 1},
        {"rotations": [{}]},
        {"revocations": [{}]},
        {"timestamp_authorities": [{"leaf": ""}]},
        {"keys": {}},
    ],
)
def test_what_this_version_cannot_check_is_refused(path: Path, change: dict[str, Any]) -> None:
    path.write_bytes(canonical_json(json.loads(path.read_bytes()) | change))
    refused(path)


@pytest.mark.parametrize(
    "change",
    [
        {"unknown": 1},
        {"public_key": "AB" * 32},
        {"public_key": "ab"},
        {"key_id": "sha256:" + "0" * 64},
        {"ephemeral": 0},
        {"runs": "r1"},
        {"roles": ["a", "a"]},
        {"valid_from": "2026-02-30T00:00:00Z"},
        {"valid_from": "2026-02-03"},
        {"valid_until": 1},
        {"comment": None},
    ],
)
def test_malformed_entries_are_refused(path: Path, change: dict[str, Any]) -> None:
    record = json.loads(path.read_bytes())
    record["keys"][0] |= change
    path.write_bytes(canonical_json(record))
    refused(path)


def test_missing_fields_duplicates_and_bad_json_are_refused(path: Path) -> None:
    good = json.loads(path.read_bytes())
    assert good["format"] == FORMAT
    for field in good["keys"][0]:
        entry = {k: v for k, v in good["keys"][0].items() if k != field}
        path.write_bytes(canonical_json(good | {"keys": [entry]}))
        refused(path, match="missing or unknown")
    path.write_bytes(canonical_json(good | {"keys": good["keys"] * 2}))
    refused(path, match="pinned twice")
    path.write_bytes(b'{"format": 1, "format": 2}')
    refused(path, match="occurs twice")


def test_a_person_may_lay_the_file_out(path: Path, key: TrustedKey) -> None:
    path.write_text(json.dumps(json.loads(path.read_bytes()), indent=2))
    assert Trust.load(path, []).keys == (key,)


def test_the_explicit_path_wins() -> None:
    places = Places(Path("/c"), Path("/s"))
    assert trust_path(None, places) == Path("/c/trust.json")
    assert trust_path(Path("/x/t.json"), places) == Path("/x/t.json")


# --- timestamp authorities -----------------------------------------------------------------------


def test_authorities_and_keys_leave_each_other_alone(
    path: Path, key: TrustedKey, make_signer: Callable[..., Any]
) -> None:
    first, second = make_authority().pinned("first"), make_authority(between=1).pinned("second")
    pin_authority(path, first)
    assert Trust.load(path, []).keys == (key,)
    other = TrustedKey.of(make_signer().public_key)
    pin(path, other)
    pin_authority(path, second)
    trust = Trust.load(path, [])
    assert trust.keys == (key, other)
    assert trust.timestamp_authorities == (first, second)
    assert path.stat().st_mode & 0o777 == 0o600


def test_an_authority_is_pinned_once(path: Path, tmp_path: Path) -> None:
    authority = make_authority()
    pin_authority(path, authority.pinned("one"))
    before = path.read_bytes()
    pin_authority(path, authority.pinned("one"))
    assert path.read_bytes() == before
    for rival in (
        make_authority().pinned("one"),
        authority.pinned("two"),
        authority.pinned("one", comment="x"),
    ):
        with pytest.raises(EvalkitError, match="pinned already"):
            pin_authority(path, rival)
    assert path.read_bytes() == before
    # twice by hand is refused as well
    record = json.loads(before)
    (entry,) = record["timestamp_authorities"]
    for second in (entry, entry | {"name": "two"}, make_authority().pinned("one").record()):
        path.write_bytes(canonical_json(record | {"timestamp_authorities": [entry, second]}))
        refused(path, match="pinned twice")


def test_pinning_an_authority_makes_the_file_and_refuses_the_workspace(tmp_path: Path) -> None:
    authority = make_authority().pinned()
    pin_authority(tmp_path / "c" / "trust.json", authority)
    assert Trust.load(tmp_path / "c" / "trust.json", []).timestamp_authorities == (authority,)
    with pytest.raises(BindingError, match="inside the workspace"):
        pin_authority(tmp_path / "run" / "trust.json", authority, workspace=[tmp_path / "run"])
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(_symlink, id="symlinked file"),
        pytest.param(_hard_link, id="hard link kept"),
        pytest.param(_mode(0o620), id="group-writable"),
        pytest.param(_folder_mode(0o770), id="group-writable folder"),
    ],
)
def test_an_authority_is_not_pinned_where_others_could_have_written(
    path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(path)
    before = path.read_bytes()
    with pytest.raises(BindingError) as caught:
        pin_authority(path, make_authority().pinned())
    assert caught.value.binding is Binding.AUTHORITY
    assert path.read_bytes() == before


def test_pins_of_both_kinds_at_the_same_time_all_stay(
    tmp_path: Path, make_signer: Callable[..., Any]
) -> None:
    path = tmp_path / "c" / "trust.json"
    keys = [TrustedKey.of(make_signer().public_key) for _ in range(5)]
    authorities = [make_authority().pinned(f"a{n}") for n in range(5)]
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(lambda f: f(), [lambda k=k: pin(path, k) for k in keys]
                      + [lambda a=a: pin_authority(path, a) for a in authorities]))  # fmt: skip
    trust = Trust.load(path, [])
    assert {k.key_id for k in trust.keys} == {k.key_id for k in keys}
    assert {a.name for a in trust.timestamp_authorities} == {a.name for a in authorities}


def test_a_key_is_found_by_the_beginning_of_its_id(tmp_path: Path, make_signer: Callable[..., Any]) -> None:
    """Never by less than 8 digits, and never one of several: else a revocation could hit another key."""
    keys = [TrustedKey.of(make_signer().public_key) for _ in range(3)]
    trust = Trust(tmp_path / "trust.json", "sha256:" + "0" * 64, tuple(keys))
    for key in keys:
        digits = key.key_id.removeprefix("sha256:")
        for text in (key.key_id, digits, digits[:8], "sha256:" + digits[:8]):
            assert trust.find(text) is key
        for text in (
            digits[:7],
            "sha256:",
            "",
            digits.upper(),
            digits + "0",
            digits[8:],
            "sha256" + digits[:8],
        ):
            with pytest.raises(EvalkitError, match=r"not a key id|no pinned key"):
                trust.find(text)
    twice = Trust(trust.path, trust.digest, (keys[0], keys[0]))
    with pytest.raises(EvalkitError, match="names 2 pinned keys"):
        twice.find(keys[0].key_id)
    lone = Trust(trust.path, trust.digest, (keys[0],))
    with pytest.raises(EvalkitError, match="not a key id"):
        lone.find(keys[0].key_id[7:14])


def test_a_key_is_made_from_lists_too_and_keeps_none_of_them(make_signer: Callable[..., Any]) -> None:
    """A list could be changed after it was checked."""
    given = {"roles": ["evaluator"], "predicate_types": ["https://x/1"], "runs": ["r-1"]}
    key = TrustedKey.of(make_signer().public_key, **given)
    for name, value in given.items():
        assert getattr(key, name) == tuple(value)
    given["roles"].append("custodian")
    assert key.roles == ("evaluator",)
    assert hash(key) == hash(TrustedKey.of(key.public_key, **(given | {"roles": ["evaluator"]})))


def test_unpinning_takes_one_entry_and_only_as_it_was_pinned(
    tmp_path: Path, make_signer: Callable[..., Any]
) -> None:
    path = tmp_path / "config" / "trust.json"
    first, second = (TrustedKey.of(make_signer().public_key) for _ in range(2))
    pin(path, first)
    pin(path, second)
    before = path.read_bytes()
    pinning.unpin(path, dataclasses.replace(first, comment="another"))
    assert path.read_bytes() == before
    pinning.unpin(path, first)
    assert Trust.load(path, []).keys == (second,)
    pinning.unpin(path, first)
    assert Trust.load(path, []).keys == (second,)


def test_a_key_that_could_not_sign_is_refused_before_the_work(
    tmp_path: Path, make_signer: Callable[..., Any]
) -> None:
    moment, wanted = datetime(2026, 11, 30, 12, tzinfo=UTC), "https://x/1"
    key = TrustedKey.of(
        make_signer().public_key, predicate_types=(wanted,), runs=("r-1",), valid_until=moment
    )
    trust = Trust(tmp_path / "trust.json", "sha256:" + "0" * 64, (key,))
    before = moment - timedelta(microseconds=1)
    trust.refuse_unable(key.key_id, wanted, "r-1", before)
    assert trust.keys_for(wanted, "r-1", before) == (key,)
    for who, kind, run, at, match in (
        ("sha256:" + "0" * 64, wanted, "r-1", before, "not pinned"),
        (key.key_id, wanted + "x", "r-1", before, "not pinned for"),
        (key.key_id, wanted, "r-2", before, "other runs"),
        (key.key_id, wanted, "r-1", moment, "valid only until"),
    ):
        with pytest.raises(BindingError, match=match) as caught:
            trust.refuse_unable(who, kind, run, at)
        assert caught.value.binding is Binding.AUTHORITY
        assert caught.value.where == who
        assert who != key.key_id or trust.keys_for(kind, run, at) == ()
