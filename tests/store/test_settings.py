from __future__ import annotations

import re
import stat
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from store.settings import BadSetting, local_master_key, read

KEY, OLD_KEY = (urlsafe_b64encode(letter * 32).decode() for letter in (b"k", b"o"))
ENV_EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "env.example"


class Recorded(dict[str, str]):
    """An environment that remembers what was asked of it."""

    def __init__(self, values: Mapping[str, str]) -> None:
        super().__init__(values)
        self.asked: set[str] = set()

    def get(self, key: str, default: str | None = None) -> str:  # type: ignore[override]
        self.asked.add(key)
        return super().get(key, default or "")


def refusal(**environ: str) -> str:
    """The line that refuses `environ`."""
    with pytest.raises(BadSetting) as refused:
        read(environ)
    line = str(refused.value)
    assert "\n" not in line
    return line


def test_an_empty_environment_means_the_defaults() -> None:
    settings = read({})
    assert settings.database_url is None
    assert settings.services_url is None
    assert (settings.port, settings.lease_seconds, settings.heartbeat_seconds) == (8000, 30.0, 2.0)


def test_env_example_lists_every_setting_and_no_other() -> None:
    environ = Recorded({})
    read(environ)
    listed = re.findall(r"^#?([A-Z_]+)=", ENV_EXAMPLE.read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(environ.asked)


def test_env_example_states_the_defaults() -> None:
    stated = dict(re.findall(r"^([A-Z_]+)=(.*)$", ENV_EXAMPLE.read_text(), re.MULTILINE))
    assert read(stated) == read({})


def test_the_examples_that_are_commented_out_are_accepted() -> None:
    shown = dict(re.findall(r"^#([A-Z_]+)=(.*)$", ENV_EXAMPLE.read_text(), re.MULTILINE))
    assert read(shown).database_url == shown["DATABASE_URL"]


def test_an_empty_value_counts_as_not_set() -> None:
    assert read({"PORT": "", "DATABASE_URL": " ", "SLUICE_MASTER_KEYS": "", "LEASE_SECONDS": ""}) == read({})


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_spelling_of_the_database_url_is_one(scheme: str) -> None:
    assert read({"DATABASE_URL": f"{scheme}://me:pw@db/x"}).database_url == "postgresql://me:pw@db/x"


@pytest.mark.parametrize(
    "url", ["mysql://me:hidden@db/x", "postgresql+psycopg2://me:hidden@db/x", "me:hidden", "sqlite:///hidden"]
)
def test_another_database_is_refused_without_showing_its_password(url: str) -> None:
    line = refusal(DATABASE_URL=url)
    assert line.startswith("DATABASE_URL begins with ")
    assert "postgresql://" in line
    assert "hidden" not in line


@pytest.mark.parametrize(
    "password", ["hidden%zz", "hid@hidden", "hid/hidden", "@hidden", "/hidden/", "hidden@", "hid/hid@hidden"]
)
def test_a_password_that_spoils_the_url_is_not_shown(password: str) -> None:
    line = refusal(DATABASE_URL=f"postgresql://me:{password}@db/x")
    assert "percent-encoded" in line
    assert "hid" not in line


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:p%40w%2F@db:5432/x?application_name=a@b",
        "postgresql:///x?host=/var/run/postgresql",
        "postgresql://%2Fvar%2Frun%2Fpostgresql/x",
        "postgresql://me@one:5432,two:5433/x?target_session_attrs=read-write",
    ],
)
def test_what_is_written_as_it_should_be_is_taken(url: str) -> None:
    assert read({"DATABASE_URL": url}).database_url == url


@pytest.mark.parametrize("port", ["0", "65536", "-1", "80a", "8_000", "８０００", "1e3"])
def test_a_port_out_of_range_is_refused(port: str) -> None:
    assert refusal(PORT=port) == f"PORT is {port}: it must be a whole number from 1 to 65535"


@pytest.mark.parametrize("seconds", ["nan", "inf", "soon", "1,5"])
def test_seconds_that_are_no_number_are_refused(seconds: str) -> None:
    assert refusal(LEASE_SECONDS=seconds).startswith(f"LEASE_SECONDS is {seconds}: ")
    assert refusal(HEARTBEAT_SECONDS=seconds).startswith(f"HEARTBEAT_SECONDS is {seconds}: ")


def test_a_lease_below_two_seconds_is_refused() -> None:
    assert refusal(LEASE_SECONDS="1.9") == "LEASE_SECONDS is 1.9: it must be at least 2"


@given(lease=st.floats(2, 600), heartbeat=st.floats(-1, 600))
def test_a_heartbeat_is_always_below_a_third_of_the_lease(lease: float, heartbeat: float) -> None:
    environ = {"LEASE_SECONDS": repr(lease), "HEARTBEAT_SECONDS": repr(heartbeat)}
    if 0 < heartbeat * 3 < lease:
        assert read(environ).heartbeat_seconds == heartbeat
    else:
        assert "below a third of LEASE_SECONDS" in refusal(**environ)


def test_the_address_of_the_services_loses_its_last_slash() -> None:
    assert read({"SLUICE_SERVICES_URL": "http://127.0.0.1:8100/"}).services_url == "http://127.0.0.1:8100"


@pytest.mark.parametrize("url", ["127.0.0.1:8100", "ftp://host", "http://", "http://[::1", "http://host?q=1"])
def test_an_address_that_is_no_http_address_is_refused(url: str) -> None:
    assert refusal(SLUICE_SERVICES_URL=url).startswith(f"SLUICE_SERVICES_URL is {url}: ")


def test_master_keys_keep_their_order() -> None:
    assert read({"SLUICE_MASTER_KEYS": f"{KEY}, {OLD_KEY}"}).master_keys() == (KEY, OLD_KEY)


def test_a_missing_master_key_is_refused_where_a_secret_is_touched() -> None:
    with pytest.raises(BadSetting, match=r"SLUICE_MASTER_KEYS is not set.*generate_key"):
        read({}).master_keys()


@pytest.mark.parametrize("bad", ["short", KEY + "!", KEY[:-1], KEY + ",", "ä" * 44])
def test_a_malformed_master_key_is_refused_by_its_place_and_not_shown(bad: str) -> None:
    line = refusal(SLUICE_MASTER_KEYS=f"{OLD_KEY},{bad}")
    assert line.startswith("SLUICE_MASTER_KEYS: key ")
    assert OLD_KEY not in line
    assert bad.rstrip(",") not in line


def test_secrets_are_not_in_the_repr() -> None:
    shown = repr(read({"SLUICE_MASTER_KEYS": KEY, "DATABASE_URL": "postgresql://me:hidden@db/x"}))
    assert KEY not in shown
    assert "hidden" not in shown


def test_the_local_master_key_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    key = local_master_key(tmp_path / "var")
    assert read({"SLUICE_MASTER_KEYS": key}).master_keys() == (key,)
    assert local_master_key(tmp_path / "var") == key
    (kept,) = (tmp_path / "var").iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600


def test_a_damaged_local_master_key_is_refused_with_its_place(tmp_path: Path) -> None:
    (tmp_path / "master.key").write_text("")
    with pytest.raises(BadSetting, match=r"master\.key: key 1 of 1"):
        local_master_key(tmp_path)
