"""What a notebook may be given: its ``parameters`` cell, read without running it.

Rules
- A notebook has at most one cell tagged ``parameters``.  Each of its lines is one annotated assignment
  of a JSON value, ``samples: int = 200  # how many resamples``; imports of type names may precede them.
- The cell is read with `ast` and never executed.  papermill's own inspection is a regular expression:
  it misses ``float | None``, ``Literal[...]`` and dotted types, and an unknown name only warns.
- What is given is checked as JSON against a pydantic model built from the annotations: nothing unknown,
  no silent conversions, and what comes back is JSON again (papermill would turn a tuple into a string).
- Parameters are written into the executed notebook, so nothing secret may be one.  An error about a
  secret never repeats it.
"""

from __future__ import annotations

import ast
import datetime
import decimal
import io
import itertools
import json
import pathlib
import re
import tokenize
import typing
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.errors import EvalkitError

TAG = "parameters"

# Types an annotation may name.  A closed list: annotations are looked up, never evaluated.
_BUILTINS: dict[str, Any] = {t.__name__: t for t in (str, int, float, bool, list, dict)}
_TYPING = ("Any", "Literal", "Optional", "Union")
_MODULES: dict[str, dict[str, Any]] = {
    "typing": {name: getattr(typing, name) for name in _TYPING},
    "datetime": {"date": datetime.date, "datetime": datetime.datetime, "timedelta": datetime.timedelta},
    "pathlib": {"Path": pathlib.Path},
    "decimal": {"Decimal": decimal.Decimal},
    "uuid": {"UUID": uuid.UUID},
}

_SECRET_WORDS = frozenset(
    (
        "passphrase",
        "password",
        "passwd",
        "pwd",
        "secret",
        "secrets",
        "credential",
        "credentials",
        "apikey",
        "privatekey",
    )
)
_SECRET_KEYS = frozenset({"api", "private", "secret", "access", "signing", "ssh", "encryption"})
# ``max_tokens`` and ``token_budget`` count; ``token`` alone opens something.
_COUNTING = frozenset(
    (
        "max",
        "min",
        "budget",
        "limit",
        "limits",
        "count",
        "counts",
        "price",
        "cost",
        "rate",
        "per",
        "n",
        "number",
    )
)
# ``api_key_env`` and ``passphrase_file`` say where a secret is, which is what people should do instead.
_POINTERS = frozenset({"file", "path", "env", "variable"})
_SECRET_VALUES = re.compile(
    r"""-----BEGIN[ A-Z0-9]*PRIVATE\ KEY            # PEM and OpenSSH
      | AGE-SECRET-KEY-1
      | (?<![A-Za-z0-9])sk-[A-Za-z0-9_-]{12,}         # model providers
      | (?<![A-Za-z0-9])(?:ghp|gho|ghs|github_pat)_[A-Za-z0-9_]{20,}
      | (?<![A-Za-z0-9])hf_[A-Za-z0-9]{20,}
      | (?<![A-Za-z0-9])xox[abprs]-[A-Za-z0-9-]{10,}
      | (?<![A-Za-z0-9])AKIA[0-9A-Z]{16}
      | (?<![A-Za-z0-9])AIza[0-9A-Za-z_-]{30,}
      | ://[^/\s@:]+:[^/\s@]+@                        # user and password in a URL
      | [?&](?:api[_-]?key|key|token|secret|password|sig|signature)=  # and in its query
      | (?<![A-Za-z0-9])gsk_[A-Za-z0-9]{20,}
      | eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.  # JSON web tokens
    """,
    re.VERBOSE,
)


@dataclass(frozen=True)
class Parameter:
    """One line of the parameters cell: ``annotation`` is its source text, ``default`` a JSON value."""

    name: str
    annotation: str
    default: Any
    help: str


def read_parameters(nb_path: Path | str) -> list[Parameter]:
    """The parameters of a notebook in order; empty where it has no parameters cell.

    Raises `EvalkitError` for an unreadable notebook, a second parameters cell, or a line that is not an
    annotated JSON assignment.
    """
    return [parameter for parameter, _ in _declared(Path(nb_path))]


def validate_parameters(nb_path: Path | str, given: Mapping[str, Any]) -> dict[str, Any]:
    """All parameters of the notebook as JSON values: those given, checked, and the defaults of the rest.

    Paths, dates, tuples and numpy scalars become their JSON spelling first.  Raises `EvalkitError` that
    names each unknown parameter, each bad value with the type it should have, and every secret (unseen).
    """
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

    path = Path(nb_path)
    declared = _declared(path)
    names = [parameter.name for parameter, _ in declared]
    for name, value in given.items():
        refuse_secrets(name, value, where=path.name)
    unknown = sorted(set(given) - set(names))
    if unknown:
        raise EvalkitError(
            f"{path.name} has no parameter {', '.join(map(repr, unknown))}",
            where=str(path),
            expected=f"one of {', '.join(names)}" if names else "no parameters: it has no parameters cell",
            do=f"evalkit notebooks params {path.stem}",
        )
    # Fields are numbered and aliased, because a parameter may have a name that pydantic keeps for
    # itself (``schema``, ``copy``) or refuses (``_x``).
    fields: dict[str, Any] = {
        f"p{i}": (kind, Field(alias=parameter.name)) for i, (parameter, kind) in enumerate(declared)
    }
    model: type[BaseModel] = create_model("Parameters", __config__=ConfigDict(extra="forbid"), **fields)
    values = {parameter.name: parameter.default for parameter, _ in declared}
    values |= {name: _as_json(name, value, path) for name, value in given.items()}
    try:
        checked = model.model_validate_json(json.dumps(values), strict=True)
    except ValidationError as error:
        by_name = {parameter.name: parameter for parameter, _ in declared}
        problems: dict[str, str] = {}
        for item in error.errors(include_url=False):
            name = str(item["loc"][0])
            at = ".".join(map(str, item["loc"][1:]))
            problems.setdefault(name, item["msg"] + (f" (at {at})" if at else ""))
        raise EvalkitError(
            "; ".join(
                f"parameter {name!r} is {_short(values[name])}: {problem}"
                for name, problem in problems.items()
            ),
            where=str(path),
            expected="; ".join(f"{name}: {by_name[name].annotation}" for name in problems),
            do=f"evalkit notebooks params {path.stem}",
        ) from None
    return checked.model_dump(mode="json", by_alias=True)


def refuse_secrets(name: str, value: Any, *, where: str) -> None:
    """Raise `EvalkitError` if the name or any string inside the value looks like a secret."""
    if _secret_name(name):
        reason = "its name says that it is a secret"
    elif any(_SECRET_VALUES.search(text) for text in _strings(value)):
        reason = "its value looks like a key or token"
    elif any(_secret_name(key) for key in _keys(value)):
        reason = "one of its keys says that it holds a secret"
    else:
        return
    raise EvalkitError(
        f"parameter {name!r} is refused: {reason} (the value is not repeated here)",
        where=where,
        expected="parameters that may be written into the executed notebook",
        do="pass the name of an environment variable or the path of a file that holds it, "
        f"for example {name}_env or {name}_file",
    )


def _declared(path: Path) -> list[tuple[Parameter, Any]]:
    """Parameters with their resolved types."""
    cells = [cell for cell in _cells(path) if TAG in cell.get("metadata", {}).get("tags", [])]
    if len(cells) > 1:
        raise EvalkitError(
            f"{path.name} has {len(cells)} cells tagged {TAG!r}", where=str(path), expected="at most one"
        )
    if not cells:
        return []
    source = "".join(cells[0]["source"])
    try:
        body = ast.parse(source).body
    except SyntaxError as error:
        raise EvalkitError(
            f"the parameters cell is not Python: {error.msg}",
            where=f"{path}, parameters cell, line {error.lineno}",
            expected="one annotated assignment a line",
        ) from None
    comments = _comments(source)
    scope: dict[str, Any] = dict(_BUILTINS)
    found: list[tuple[Parameter, Any]] = []
    for statement in body:
        where = f"{path}, parameters cell, line {statement.lineno}"
        if isinstance(statement, ast.Import | ast.ImportFrom):
            _import(statement, scope)
            continue
        if (
            not isinstance(statement, ast.AnnAssign)
            or not isinstance(statement.target, ast.Name)
            or statement.value is None
        ):
            raise EvalkitError(
                f"not a parameter: {ast.unparse(statement)}",
                where=where,
                expected="an annotated assignment such as `samples: int = 200  # how many resamples`",
            )
        name = statement.target.id
        if any(name == parameter.name for parameter, _ in found):
            raise EvalkitError(f"parameter {name!r} is assigned twice", where=where, expected="once")
        try:
            default = ast.literal_eval(statement.value)
            if json.loads(json.dumps(default, allow_nan=False)) != default:
                raise ValueError("JSON would change it")
        except (ValueError, TypeError, SyntaxError):
            raise EvalkitError(
                f"the default of parameter {name!r} is not a JSON value: {ast.unparse(statement.value)}",
                where=where,
                expected="a literal: text, number, true or false, None, list, or dict with text keys",
            ) from None
        refuse_secrets(name, default, where=where)
        help_text = comments.get(statement.end_lineno or statement.lineno, "")
        kind = _resolve(statement.annotation, scope, where)
        found.append((Parameter(name, ast.unparse(statement.annotation), default, help_text), kind))
    return found


def _cells(path: Path) -> list[dict[str, Any]]:
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvalkitError(
            f"cannot read the notebook {path.name}: {error}",
            where=str(path),
            expected="a Jupyter notebook of format 4",
        ) from None
    return typing.cast("list[dict[str, Any]]", cells)


def _comments(source: str) -> dict[int, str]:
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {t.start[0]: t.string.lstrip("#").strip() for t in tokens if t.type == tokenize.COMMENT}


def _import(statement: ast.Import | ast.ImportFrom, scope: dict[str, Any]) -> None:
    """Make the type names of an import known; other imports are none of our business."""
    if isinstance(statement, ast.Import):
        for alias in statement.names:
            if alias.name in _MODULES:
                scope[alias.asname or alias.name] = _MODULES[alias.name]
    else:
        for alias in statement.names:
            kind = _MODULES.get(statement.module or "", {}).get(alias.name)
            if kind is not None:
                scope[alias.asname or alias.name] = kind


def _resolve(node: ast.expr, scope: Mapping[str, Any], where: str) -> Any:
    """The type that an annotation names."""
    kind: Any = None
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str(text)):
            try:
                return _resolve(ast.parse(text, mode="eval").body, scope, where)
            except SyntaxError:
                pass
        case ast.Name(id=name):
            kind = scope.get(name, _MODULES["typing"].get(name))
        case ast.Attribute(value=ast.Name(id=module), attr=attribute):
            members = scope.get(module, _MODULES.get(module))
            kind = members.get(attribute) if isinstance(members, dict) else None
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return typing.Union[_resolve(left, scope, where), _resolve(right, scope, where)]  # noqa: UP007
        case ast.Subscript(value=outer, slice=inner):
            generic = _resolve(outer, scope, where)
            items = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            try:
                if generic is typing.Literal:
                    return typing.Literal[tuple(ast.literal_eval(item) for item in items)]
                return generic[tuple(_resolve(item, scope, where) for item in items)]
            except (TypeError, ValueError):
                pass
    if kind is None or isinstance(kind, dict):
        known = [*_BUILTINS, *_TYPING, *(f"{m}.{n}" for m in list(_MODULES)[1:] for n in _MODULES[m])]
        raise EvalkitError(
            f"the type {ast.unparse(node)} is not one a parameter can have",
            where=where,
            expected=f"a type made of {', '.join(known)}",
        )
    return kind


def _as_json(name: str, value: Any, path: Path) -> Any:
    def spell(item: Any) -> Any:
        if isinstance(item, pathlib.PurePath | uuid.UUID | decimal.Decimal):
            return str(item)
        if isinstance(item, datetime.date | datetime.datetime):
            return item.isoformat()
        if hasattr(item, "tolist"):  # numpy scalars and arrays
            return item.tolist()
        raise TypeError(f"{type(item).__name__} is not a JSON type")

    try:
        return json.loads(json.dumps(value, default=spell, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise EvalkitError(
            f"parameter {name!r} is {_short(value)}: {error}",
            where=str(path),
            expected="a value that JSON can hold (no NaN or infinity)",
        ) from None


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _secret_name(name: str) -> bool:
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    words = [word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if word]
    if words and words[-1] in _POINTERS:
        return False
    if _SECRET_WORDS.intersection(words):
        return True
    if any(a in _SECRET_KEYS and b in ("key", "keys") for a, b in itertools.pairwise(words)):
        return True
    return "token" in words and not _COUNTING.intersection(words)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("latin-1")
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _strings(key)
            yield from _strings(item)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _strings(item)


def _keys(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(key, str):
                yield key
            yield from _keys(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _keys(item)
