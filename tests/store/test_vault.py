"""Secrets are sealed, opened with any master key of the list, and known by a fingerprint."""

from __future__ import annotations

import pytest
from cryptography.fernet import Fernet

from store.vault import Locked, Vault, fingerprint

OLD, NEW = (Fernet.generate_key().decode() for _ in range(2))


def test_a_sealed_secret_shows_nothing_and_opens_again() -> None:
    vault = Vault([OLD])
    sealed = vault.seal("sk-Ünlocked")
    assert b"locked" not in sealed
    assert vault.seal("sk-Ünlocked") != sealed
    assert vault.open(sealed) == "sk-Ünlocked"


def test_master_keys_rotate_the_first_seals_and_all_open() -> None:
    sealed = Vault([OLD]).seal("secret")
    rotating = Vault([NEW, OLD])
    assert rotating.open(sealed) == "secret"
    assert Vault([NEW]).open(rotating.seal("secret")) == "secret"


def test_what_is_resealed_needs_only_the_first_master_key() -> None:
    sealed = Vault([OLD]).seal("secret")
    assert Vault([NEW]).open(Vault([NEW, OLD]).reseal(sealed)) == "secret"
    with pytest.raises(Locked, match="SLUICE_MASTER_KEYS"):
        Vault([NEW]).reseal(sealed)


def test_without_the_master_key_the_error_says_what_to_do_and_gives_nothing_away() -> None:
    sealed = Vault([OLD]).seal("hush")
    with pytest.raises(Locked, match="SLUICE_MASTER_KEYS") as locked:
        Vault([NEW]).open(sealed)
    assert "hush" not in str(locked.value)
    assert locked.value.__cause__ is None


@pytest.mark.parametrize("spoil", [lambda sealed: sealed[:-1], lambda _: b"", lambda _: b"no token at all"])
def test_a_spoilt_secret_is_locked(spoil: object) -> None:
    assert callable(spoil)
    with pytest.raises(Locked):
        Vault([OLD]).open(spoil(Vault([OLD]).seal("secret")))


def test_a_fingerprint_tells_secrets_apart() -> None:
    assert fingerprint("a") == fingerprint("a") != fingerprint("b")
    assert len(fingerprint("a")) == 12
    assert int(fingerprint("a"), 16) >= 0
