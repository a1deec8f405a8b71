"""Every threat against sealing, and the tests that show what stands against it.

The table is checked: each test exists, and the threat model (docs/threat-model.md) names at least one
of them for each threat.  The other way round, each test that the threat model names exists.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
MODEL = TESTS.parent / "docs" / "threat-model.md"

COMMIT = "sealing/test_commit.py::"
RECOVERY = "sealing/test_recovery.py::"
CANONICAL = "sealing/test_canonical.py::"
ENVELOPE = "sealing/test_envelope.py::"
PACKET = "sealing/test_packet.py::"
LEDGER = "sealing/test_ledger.py::"
TRUST = "sealing/test_trust.py::"
KEYS = "sealing/test_keys.py::"
FLOW = "decisions/test_flow.py::"
TAMPERING = "decisions/test_tampering.py::"
MUTATIONS = "decisions/test_mutations.py::"

THREATS: dict[str, tuple[str, ...]] = {
    # the file system
    "what was checked is not what is used": (
        "sealing/test_files.py::test_a_file_swapped_after_the_check_is_not_read",
        "sealing/test_files.py::test_a_folder_swapped_after_it_was_opened_does_not_matter",
        COMMIT + "test_a_name_that_appears_late_is_not_replaced",
    ),
    "a symbolic link as a file": (
        RECOVERY + "test_a_phase_with_a_bad_entry_is_refused",
        LEDGER + "test_ledgers_that_others_could_write_are_refused",
        MUTATIONS + "test_no_file_can_be_replaced_by_another_kind_or_name",
    ),
    "a symbolic link as the run": (
        COMMIT + "test_run_directories_that_are_not_ours_are_refused",
        TAMPERING + "test_a_run_folder_behind_a_link_is_refused",
    ),
    "a hard link that is kept": (
        RECOVERY + "test_a_phase_with_a_bad_entry_is_refused",
        MUTATIONS + "test_no_file_can_be_replaced_by_another_kind_or_name",
    ),
    "a pipe or a device as a file": (
        RECOVERY + "test_a_phase_with_a_bad_entry_is_refused",
        RECOVERY + "test_device_as_file_is_refused",
        COMMIT + "test_a_run_holds_only_folders_and_files",
    ),
    "a file cut at any length": (
        CANONICAL + "test_truncation_at_every_length_is_refused",
        ENVELOPE + "test_truncation_at_every_length",
        LEDGER + "test_truncation_at_every_length_is_quarantined_or_tampering",
        RECOVERY + "test_truncation_at_every_length_of_both_files",
        MUTATIONS + "test_a_file_cut_at_any_length_is_refused",
    ),
    "any byte changed after signing": (
        ENVELOPE + "test_every_changed_byte_is_refused",
        MUTATIONS + "test_any_changed_byte_is_refused",
        MUTATIONS + "test_no_mutation_of_any_file_is_accepted",
        MUTATIONS + "test_no_two_files_can_change_places",
    ),
    "files added, renamed or left out": (
        RECOVERY + "test_extra_and_missing_entries_of_the_run",
        TAMPERING + "test_verify_finds_an_extra_file_in_any_folder",
        MUTATIONS + "test_no_folder_takes_anything_more_or_changes",
    ),
    # JSON that two readers read differently
    "a key that occurs twice, also escaped": (CANONICAL + "test_duplicate_keys_are_refused",),
    "keys that look alike (NFC, NFD)": (
        CANONICAL + "test_nfc_and_nfd_keys_stay_two_keys",
        COMMIT + "test_phase_names_are_plain",
        FLOW + "test_a_run_id_is_a_plain_name",
    ),
    "floats written otherwise": (
        CANONICAL + "test_floats_without_canonical_form_are_refused",
        "sealing/test_vectors.py::test_es6_number_sequence",
    ),
    "integers beyond 2^53": (CANONICAL + "test_ints_beyond_2_53_are_refused",),
    "NaN that becomes null": (CANONICAL + "test_floats_without_canonical_form_are_refused",),
    "lone surrogates": (
        CANONICAL + "test_lone_surrogates_are_refused",
        CANONICAL + "test_lone_surrogates_are_refused_however_they_are_escaped",
    ),
    "keys ordered by code point": (CANONICAL + "test_key_order_fb33_against_emoji",),
    "nesting, 65 and more deep": (CANONICAL + "test_nesting_64_passes_65_and_2000_and_a_million_do_not",),
    # signatures
    "another key under a pinned key's id": (
        ENVELOPE + "test_key_substitution_with_a_pinned_keyid_claimed",
        TAMPERING + "test_w35_a_foreign_key_that_claims_to_be_the_pinned_one",
    ),
    "a key of small order": (
        KEYS + "test_small_order_key_is_refused",
        TRUST + "test_small_order_key_is_refused_when_pinned_and_when_loaded",
        "sealing/test_vectors_crypto.py::test_speccheck",
    ),
    "another algorithm": (
        ENVELOPE + "test_algorithm_confusion",
        "sealing/test_signer.py::test_the_process_signs_envelopes_only",
        "sealing/test_vectors_crypto.py::test_an_ssh_signature_is_no_envelope_signature",
        "sealing/test_vectors_crypto.py::test_dsse_specification",
    ),
    "one phase's signature for another's": (
        ENVELOPE + "test_phase_confusion_all_phases_against_all",
        TAMPERING + "test_the_precommit_attestation_cannot_stand_in_for_the_run",
    ),
    "an old attestation in another run": (
        ENVELOPE + "test_replay_of_an_old_attestation_in_another_run",
        RECOVERY + "test_a_phase_from_another_run",
    ),
    "the attestation of run A beside run B": (
        TAMPERING + "test_an_attestation_of_another_run",
        TAMPERING + "test_a_whole_ex_ante_phase_of_another_run",
    ),
    # time and number
    "a clock that is set back": (
        LEDGER + "test_clock_rollback_is_refused_and_a_small_correction_is_not",
        FLOW + "test_w40_a_clock_that_fell_behind_cannot_reveal",
    ),
    "a plan made after the outcome, dated before": (
        LEDGER + "test_backdated_entries_in_a_rebuilt_chain_are_refused",
    ),
    "many plans, the best one shown": (
        FLOW + "test_rival_precommits_stay_visible_in_one_ledger",
        "decisions/test_verify_refusals.py::test_plans_of_the_same_signer_are_counted",
    ),
    "a kill before the commit, to lose a bad score": (
        COMMIT + "test_killed_at_any_step_leaves_the_verified_pair_or_nothing",
        "sealing/test_syscall_kills.py::test_killed_at_each_system_call_of_a_commit",
        "sealing/test_random_kills.py::test_a_thousand_random_kills",
        RECOVERY + "test_a_lost_attempt_does_not_come_back",
        "faults/test_kills.py::test_killed_twice_and_the_cap_still_holds",
    ),
    "a crash in the middle of recovering": (
        "sealing/test_syscall_kills.py::test_killed_at_each_system_call_of_a_recovery",
        COMMIT + "test_killed_in_recovery_after_a_kill",
    ),
    "a disk that fails or is full": (
        COMMIT + "test_a_failed_fsync_aborts_and_is_not_tried_again",
        "sealing/test_disk_errors.py::test_the_disk_fails_in_a_commit",
        "sealing/test_disk_errors.py::test_the_disk_fails_in_a_recovery",
    ),
    "two committers at once": (
        COMMIT + "test_sixteen_racing_committers_have_one_winner",
        "faults/test_rivals.py::test_processes_that_race_commit_one_pair",
    ),
    # sealed packets
    "a mapping that is rewritten": (
        PACKET + "test_another_ciphertext_than_the_committed_one",
        PACKET + "test_mapping_rewrite_one_packet_two_plaintexts",
    ),
    "one packet, two texts, two keys": (
        PACKET + "test_mapping_rewrite_one_packet_two_plaintexts",
        PACKET + "test_two_keys",
    ),
    "guessing an outcome from its digest": (PACKET + "test_outcome_brute_force_finds_nothing",),
    "the length of a ciphertext": (PACKET + "test_ciphertext_length_does_not_tell_the_branch",),
    "the pair turned round": (
        FLOW + "test_w1_the_order_is_that_of_content",
        TAMPERING + "test_w36_reveal_refuses_and_names_the_binding",
    ),
    # leaks
    "Part B in a notebook or a traceback": (
        "notebooks/test_notebooks.py::test_run_notebook_shows_nothing_of_part_b",
        CANONICAL + "test_an_error_shows_no_content",
        PACKET + "test_payload_must_be_canonical",
    ),
    "a key as a notebook parameter": (
        "reports/test_parameters.py::test_secrets_are_refused_and_not_repeated",
        "reports/test_parameters.py::test_secrets_inside_values_and_as_defaults_are_refused",
    ),
    "pickle or vars() of what hides its content": (
        PACKET + "test_no_plaintext_on_the_object",
        "faults/test_memory.py::test_evaluate_and_verify_hold_nothing_of_part_b_in_memory",
        "faults/test_memory.py::test_the_same_search_finds_part_b_after_a_reveal",
    ),
    "an environment that redirects trust": (
        KEYS + "test_a_relative_xdg_folder_cannot_move_trust_into_the_workspace",
        "cli/test_decisions_commands.py::test_verify_prints_path_and_digest_of_the_trust_it_used",
    ),
    "an environment that the analyst inherits": (
        "faults/test_environment.py::test_the_environment_is_not_handed_to_the_analyst",
        "models/test_openai.py::test_the_key_goes_into_the_header_and_nowhere_else",
        "sealing/test_signer.py::test_the_environment_cannot_put_code_into_the_process",
    ),
    # ledger and trust
    "a ledger whose tail is cut": (
        LEDGER + "test_truncation_at_every_length_is_quarantined_or_tampering",
        RECOVERY + "test_ledger_tail_cut_edited_or_reordered",
    ),
    "a ledger that is edited or reordered": (
        LEDGER + "test_edited_or_reordered_or_cut",
        LEDGER + "test_hashchain_vectors",
        RECOVERY + "test_ledger_tail_cut_edited_or_reordered",
    ),
    "a trust file in the workspace": (
        TRUST + "test_trust_file_in_the_workspace_is_refused",
        TAMPERING + "test_a_trust_file_inside_the_run_is_refused",
    ),
    "a trust file that others may write": (
        TRUST + "test_trust_files_that_others_could_have_made_are_refused",
    ),
    # Until timestamps can be checked, a trust file that speaks of them is refused.
    "a forged chain of a time-stamping authority": (
        "sealing/test_timestamp.py::test_vectors_made_locally",
        "sealing/test_timestamp.py::test_vectors_of_the_library",
        "sealing/test_timestamp.py::test_a_defect_is_refused_and_named",
    ),
    "a phase replaced after its commit": (
        COMMIT + "test_a_committed_phase_is_never_replaced",
        RECOVERY + "test_replace_after_commit",
        RECOVERY + "test_replace_after_commit_with_another_signed_pair",
    ),
    "a scorer edited after the plan": (
        TAMPERING + "test_w36_an_edited_scorer_is_refused",
        TAMPERING + "test_w36_an_edited_scorer_stops_evaluate_before_an_attempt",
    ),
    "permissions that root does not feel": (
        COMMIT + "test_another_users_run_is_refused",
        "sealing/test_signer.py::test_an_unreadable_key_is_a_clear_error",
    ),
}


@cache
def functions_of(module: str) -> frozenset[str]:
    """The test functions of a module below tests/, read and not imported."""
    path = TESTS / module
    if not path.is_file():
        return frozenset()
    tree = ast.parse(path.read_text())
    return frozenset(
        node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name[:5] == "test_"
    )


@cache
def named_in_the_model() -> frozenset[str]:
    """The tests that the threat model names; ``::test`` continues the module before it."""
    found = set()
    for line in MODEL.read_text().splitlines():
        module = ""
        for name in re.findall(r"`([\w/.-]*::\w+)`", line):
            module = name.partition("::")[0] or module
            found.add(f"{module}::{name.partition('::')[2]}")
    return frozenset(found)


@pytest.mark.parametrize("threat", THREATS)
def test_each_threat_has_tests_and_a_line_in_the_model(threat: str) -> None:
    for test in THREATS[threat]:
        module, _, name = test.partition("::")
        assert name in functions_of(module), f"there is no test {test}"
    assert set(THREATS[threat]) & named_in_the_model(), f"the threat model names no test of: {threat}"


def test_every_test_that_the_model_names_exists() -> None:
    named = named_in_the_model()
    assert len(named) > 100
    missing = [t for t in named if t.partition("::")[2] not in functions_of(t.partition("::")[0])]
    assert not missing


def test_no_threat_was_lost() -> None:
    """One who takes a threat away must say so here."""
    assert len(THREATS) == 47
