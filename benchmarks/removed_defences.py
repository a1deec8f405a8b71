"""One defence of sealing removed at a time, and the test that notices.

    python benchmarks/removed_defences.py

Chosen by hand, one for each of the threats below (docs/threat-model.md has them all); run as the mutants of
`mutation` are, each against one test only.  Prints a Markdown table; exit code 1 where a test does not fail.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from mutation import ROOT, SEALING, Worker

# (threat, module, what is there, what stands there instead, test below tests/sealing)
REMOVED = [
    (
        "a symbolic link as a file",
        "files",
        "_READ = os.O_RDONLY | os.O_NOFOLLOW | ",
        "_READ = os.O_RDONLY | ",
        "test_recovery.py::test_a_phase_with_a_bad_entry_is_refused",
    ),
    (
        "a hard link that is kept",
        "files",
        "    if found.st_nlink != 1:\n",
        "    if False:\n",
        "test_recovery.py::test_a_phase_with_a_bad_entry_is_refused",
    ),
    (
        "what was checked is not what is used",
        "files",
        "    fd = os.open(name, _READ, dir_fd=dir_fd)\n    except FileNotFoundError",
        "    fd = os.open(where, _READ)\n    except FileNotFoundError",
        "test_files.py::test_a_folder_swapped_after_it_was_opened_does_not_matter",
    ),
    (
        "a key that occurs twice, also escaped",
        "canonical",
        "            if key in seen:\n",
        "            if False:\n",
        "test_canonical.py::test_duplicate_keys_are_refused",
    ),
    (
        "lone surrogates",
        "canonical",
        "    if _SURROGATE_ESCAPE.search(text) or ",
        "    if ",
        "test_canonical.py::test_lone_surrogates_are_refused_however_they_are_escaped",
    ),
    (
        "keys ordered by code point",
        "canonical",
        "sorted(value, key=_utf16)",
        "sorted(value)",
        "test_canonical.py::test_key_order_fb33_against_emoji",
    ),
    (
        "one signature written in several ways",
        "envelope",
        "    if data is None or base64.b64encode(data).decode() != text:\n",
        "    if data is None:\n",
        "test_envelope.py::test_base64_has_one_spelling",
    ),
    (
        "another key under a pinned key's id",
        "envelope",
        "        if _holds(key.public_key, signature, message):\n",
        "        if key.key_id == hint or _holds(key.public_key, signature, message):\n",
        "test_envelope.py::test_key_substitution_with_a_pinned_keyid_claimed",
    ),
    (
        "a key of small order",
        "keys",
        "    if bytes(public_key) in SMALL_ORDER:\n",
        "    if False:\n",
        "test_keys.py::test_small_order_key_is_refused",
    ),
    (
        "another algorithm",
        "signing_process",
        "        if message.startswith(PAE_PREFIX):\n",
        "        if True:\n",
        "test_signer.py::test_the_process_signs_envelopes_only",
    ),
    (
        "one phase's signature for another's",
        "envelope",
        '    if statement["predicateType"] != predicate_type:\n',
        "    if False:\n",
        "test_envelope.py::test_phase_confusion_all_phases_against_all",
    ),
    (
        "a clock that is set back",
        "ledger",
        "        if now + CLOCK_TOLERANCE < datetime.fromisoformat(last):\n",
        "        if False:\n",
        "test_ledger.py::test_clock_rollback_is_refused_and_a_small_correction_is_not",
    ),
    (
        "a plan made after the outcome, dated before",
        "hash_chain",
        "            if times[0] < self.time or times != sorted(times):\n",
        "            if False:\n",
        "test_ledger.py::test_backdated_entries_in_a_rebuilt_chain_are_refused",
    ),
    (
        "a ledger whose tail is cut",
        "hash_chain",
        "    if found != signed.digest:\n",
        "    if False:\n",
        "test_ledger.py::test_truncation_at_every_length_is_quarantined_or_tampering",
    ),
    (
        "a kill before the commit, to lose a bad score",
        "recovery",
        '        if a.state == "intent" and (settled',
        "        if False and (settled",
        "test_recovery.py::test_a_lost_attempt_does_not_come_back",
    ),
    (
        "a disk that fails or is full",
        "files",
        "        os.fsync(fd)\n    except OSError as error:\n        raise EvalkitError(",
        "        os.fsync(fd)\n    except OSError as error:\n        return\n        raise EvalkitError(",
        "test_disk_errors.py::test_the_disk_fails_in_a_commit",
    ),
    (
        "two committers at once; a late name",
        "rename",
        "_RENAME_NOREPLACE = 1 ",
        "_RENAME_NOREPLACE = 0 ",
        "test_commit.py::test_a_name_that_appears_late_is_not_replaced",
    ),
    (
        "a mapping that is rewritten",
        "packet",
        "        if not hmac.compare_digest(found, self.commitment):\n",
        "        if False:\n",
        "test_packet.py::test_mapping_rewrite_one_packet_two_plaintexts",
    ),
    (
        "guessing an outcome from its digest",
        "packet",
        "sha256(COMMIT_DOMAIN + salt + payload)",
        "sha256(COMMIT_DOMAIN + payload)",
        "test_packet.py::test_outcome_brute_force_finds_nothing",
    ),
    (
        "the length of a ciphertext",
        "packet",
        '.ljust(bucket, b"\\0")',
        "",
        "test_packet.py::test_ciphertext_length_does_not_tell_the_branch",
    ),
    (
        "pickle or vars() of what hides its content",
        "packet",
        '        raise TypeError("a sealed packet is not pickled',
        '        return object.__reduce__(self)\n        raise TypeError("a sealed packet is not pickled',
        "test_packet.py::test_no_plaintext_on_the_object",
    ),
    (
        "an environment that the analyst inherits",
        "signer",
        'sys.executable, "-I", "-c", _BOOT',
        'sys.executable, "-c", _BOOT',
        "test_signer.py::test_the_environment_cannot_put_code_into_the_process",
    ),
    (
        "a trust file in the workspace",
        "trust",
        '        refuse_inside(path, workspace, what="trust file")\n',
        "",
        "test_trust.py::test_trust_file_in_the_workspace_is_refused",
    ),
    (
        "a trust file that others may write",
        "files",
        "    excess = stat.S_IMODE(found.st_mode) & forbidden_mode\n",
        "    excess = 0\n",
        "test_trust.py::test_trust_files_that_others_could_have_made_are_refused",
    ),
]


def main() -> None:
    failed = []
    print("| threat | removed | instead | test that fails |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="mutation-") as folder:
        Path(folder).chmod(0o755)
        worker = Worker(Path(folder) / "0")
        for threat, module, old, new, test in REMOVED:
            source = (ROOT / SEALING / f"{module}.py").read_text()
            assert source.count(old) == 1, f"{module} has changed: {old!r}"
            path = [f"tests/sealing/{test}"]
            before, _ = worker.run(path, 120)
            after, _ = worker.try_mutant(module, source.replace(old, new).encode(), path, 120)
            noticed = before == 0 and after in (1, -1)
            failed += [] if noticed else [(threat, before, after)]
            shown = [" ".join(text.split()).replace("|", "\\|") or "(nothing)" for text in (old, new)]
            print(
                f"| {threat} | `{module}.py`: `{shown[0]}` | `{shown[1]}` | `{test}`{'' if noticed else ' PASSES'} |",
                flush=True,
            )
        worker.close()
    if failed:
        sys.exit(f"not noticed (threat, exit before, exit after): {failed}")


if __name__ == "__main__":
    main()
