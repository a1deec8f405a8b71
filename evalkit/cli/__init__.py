"""The command line: one thin module a protocol, loaded when its command is used.

Errors that a user can mend are printed as what, where, expected, do, and end with their exit code (see
`evalkit.errors`).  A traceback means a defect of evalkit.
"""

from __future__ import annotations

import importlib
import io
import sys

import click

import evalkit
from evalkit.errors import EvalkitError
from evalkit.visible import visible

#: command -> (module, attribute, one line of help)
COMMANDS = {
    "custodian": ("custodian", "custodian", "Keep outcomes for an evaluator, and release them once."),
    "decisions": ("decisions", "decisions", "Sealed decisions: import, precommit, evaluate, reveal, export."),
    "demo": ("demo", "demo", "Evaluate two real pairs of cases end to end, and report."),
    "keys": ("keys", "keys", "Make and show signing keys."),
    "ledger": ("ledger", "ledger", "Check the ledgers of plans and attempts."),
    "notebooks": ("notebooks", "notebooks", "List, inspect and run the notebooks that come with evalkit."),
    "report": ("notebooks", "report", "Write the HTML report of a run."),
    "score": ("score", "score", "Score forecasts: a table, and a report as one HTML page."),
    "timestamps": (
        "timestamps",
        "timestamps",
        "Have attestations stamped by a timestamp authority (RFC 3161).",
    ),
    "verify": ("verify", "verify", "Check a run with your own trust file, and nothing else."),
}
#: those that begin attempts
_COUNTING = {"decisions", "demo", "notebooks"}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for, so that --help stays fast."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f"evalkit.cli.{module}"), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][2]) for name in self.list_commands(ctx)])


@click.group(
    cls=LazyGroup,
    epilog="Exit codes: 0 done, 1 a defect of evalkit, 2 bad input, 3 a notebook cell failed, 4 timeout or dead kernel, 5 blocked, 6 no answer from "
    "the model's service or the timestamp authority, "
    "10 attestation, 11 authority, 12 precommit, 13 Part A, 14 prompt, 15 configuration, 16 response, "
    "17 score, 18 sealed packet, 19 run, 20 timestamp, 130 interrupted.",
)
@click.version_option(evalkit.__version__, prog_name="evalkit")
def app() -> None:
    """Honest evaluation of AI agents: sealed decisions, process scores and calibration."""


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit."""
    for stream in (sys.stdout, sys.stderr):
        # what cannot be encoded (a path that is not UTF-8, a letter that the terminal lacks) is escaped, no defect
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        app.main(args=arguments, prog_name="evalkit", standalone_mode=False)
    except EvalkitError as error:
        click.echo(f"evalkit: {error.message()}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        error.message = visible(error.message)  # type: ignore[misc]
        error.show()
        sys.exit(2)
    except click.exceptions.Exit as stop:
        sys.exit(stop.exit_code)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
    except OSError as error:
        # what no module foresaw of files and disks: still one message, and no traceback
        problem = EvalkitError(
            f"the system refused: {error.strerror or error}",
            where=str(error.filename or "input or output"),
            expected="a place that can be read, or written and has room",
            do="check the path, its permissions and the free space; nothing counts that was not reported as written",
        )
        click.echo(f"evalkit: {problem.message()}", err=True)
        sys.exit(problem.exit_code)
    except (click.Abort, KeyboardInterrupt):
        given = sys.argv[1:] if arguments is None else arguments
        counts = _COUNTING & {word for word in given if not word.startswith("-")}
        stays = "; an attempt that was begun stays counted" if counts else ""
        click.echo(f"evalkit: interrupted{stays}", err=True)
        sys.exit(130)
