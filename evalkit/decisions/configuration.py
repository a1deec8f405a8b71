"""Which model answers, as a precommit seals it, and the provider that this configuration stands for.

``baseline`` is the deterministic floor, ``openai:NAME`` an OpenAI-compatible service, and a replay file
stands in for a model that was called before.  A configuration holds no secret and no code: the same
configuration always makes the same provider.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.decisions.packet import load_user_json
from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.models import Provider
from evalkit.models.replay import Recorded, ReplayProvider, read_replay, replay_file
from evalkit.sealing.exchange import read_named

BASELINE = "baseline"
REPLAY_FILE = "model/replay.json"


@dataclass(frozen=True)
class Model:
    """A sealed configuration, and for a replay the canonical bytes of its records.

    ``stated``: fields that a caller chose, where the others are defaults.
    """

    configuration: dict[str, Any]
    replay: bytes | None = None
    stated: frozenset[str] = frozenset()

    def is_named_by(self, other: Model) -> bool:
        """Does what ``other`` states agree with this configuration?  What it leaves open is this one's."""
        stated = {"adapter", "model", "version", "source_digest", "replay_digest", *other.stated}
        return all(self.configuration.get(k) == other.configuration.get(k) for k in stated)

    @property
    def label(self) -> str:
        return f"{self.configuration['adapter']}:{self.configuration['model']}"


def configure(
    model: str | None = None,
    *,
    base_url: str | None = None,
    replay: Path | None = None,
    api_key_variable: str | None = None,
    temperature: str | None = None,
    max_output_tokens: int = 16_000,
) -> Model:
    """The model that these choices name.  Raises `EvalkitError` where they name none, or two."""
    if replay is not None:
        if model is not None or base_url is not None:
            raise EvalkitError(
                "--replay and --model exclude each other",
                where="model",
                expected="one of the two",
                do="leave one out",
            )
        data = replay_bytes(replay)
        return Model(ReplayProvider(data).configuration(), data)
    if model is None or model == BASELINE:
        if base_url is not None:
            raise EvalkitError(
                "--base-url goes with --model openai:NAME",
                where="--base-url",
                expected="a model that is called over HTTP",
                do="name the model",
            )
        return Model(_baseline().configuration())
    adapter, _, name = model.partition(":")
    if adapter != "openai" or not name:
        raise EvalkitError(
            f"{model!r} is no model",
            where="--model",
            expected="baseline, or openai:NAME",
            do="for a service that speaks the OpenAI protocol: --model openai:NAME --base-url URL",
        )
    from evalkit.models.openai import DEFAULT_BASE_URL, OpenAIProvider

    provider = OpenAIProvider(
        name,
        base_url=base_url or DEFAULT_BASE_URL,
        api_key_variable=api_key_variable or "OPENAI_API_KEY",
        temperature=temperature,
        max_output_tokens=max_output_tokens,
    )
    chosen = {"base_url": base_url, "api_key_variable": api_key_variable, "temperature": temperature}
    return Model(provider.configuration(), stated=frozenset(k for k, v in chosen.items() if v is not None))


def provider_for(model: Model) -> Provider:
    """The provider of a sealed configuration.

    Raises `BindingError` ``configuration`` where this installation would build another one.
    """
    wanted = model.configuration
    built: Provider
    if wanted.get("adapter") == "openai":
        from evalkit.models.openai import OpenAIProvider

        built = OpenAIProvider(
            wanted["model"],
            base_url=wanted["base_url"],
            api_key_variable=wanted["api_key_variable"],
            temperature=wanted["temperature"],
            max_output_tokens=wanted["max_output_tokens"],
            timeout=wanted["timeout_seconds"],
        )
    elif wanted.get("adapter") == "replay" and model.replay is not None:
        built = ReplayProvider(model.replay)
    else:
        built = _baseline()
    if built.configuration() != wanted:
        raise BindingError(
            Binding.CONFIGURATION,
            f"the plan seals model {wanted}, and this installation builds {built.configuration()}",
            where="plan.json",
            expected="the sealed configuration",
            do="use the version of evalkit that the plan names",
        )
    return built


def _baseline() -> Provider:
    from evalkit.decisions.baseline import VERSION, analyse
    from evalkit.models.local import CallableProvider

    return CallableProvider(analyse, name="evalkit-baseline", version=VERSION)


def replay_bytes(path: Path) -> bytes:
    """Canonical replay file from a replay file or from the ``run.json`` of an evaluated run."""
    try:
        value = load_user_json(read_named(path), str(path))
    except OSError as error:
        raise EvalkitError(
            f"cannot read {path.name} ({error.strerror})",
            where=str(path),
            expected="a replay file or a run's ex-ante/run.json",
            do="check the path",
        ) from None
    if isinstance(value, dict) and value.get("phase") == "ex_ante_scored":
        try:
            records = [
                Recorded(c["prompt_digest"], c["response"]["raw"], c["trace"]["served_model"])
                for c in value["cases"]
                if c["response"]["raw_encoding"] == "utf-8"
            ]
        except (KeyError, TypeError):
            raise EvalkitError(
                "this is no complete ex-ante run",
                where=str(path),
                expected="the run.json of a run",
                do="pass it unchanged",
            ) from None
        return replay_file(records)
    return replay_file(read_replay(value, where=str(path)))
