"""How `fencepost connectors` finds workers, and how workers know each other's addresses."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import quote

import pytest

from fencepost.cli import main
from tests.support.model_herder import ModelHerder
from tests.support.rest import RestApis
from tests.support.security import make_certificate
from tests.unit.cli.conftest import RebalancingHerder, Run


def test_the_next_worker_is_asked_if_one_cannot_be_reached(run: Run, file: Path, url: str) -> None:
    away = "http://me:secret@127.0.0.1:1"
    assert run("create", file, "--url", away, "--url", url)[0] == 0

    assert "lines" in run("list", "--url", url, "--url", away)[1]
    code, _, err = run("list", "--url", away, "--url", "http://127.0.0.1:2")
    assert code == 1
    assert "http://127.0.0.1:2 cannot be reached" in err


def test_several_workers_may_be_named_in_the_environment(run: Run, monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("FENCEPOST_URL", f"http://127.0.0.1:1 {url}")
    assert run("list")[0] == 0


@pytest.mark.parametrize("url", ["127.0.0.1:8083", "http://", "ftp://127.0.0.1", "http://[::1"])
def test_an_invalid_address_is_reported(run: Run, url: str) -> None:
    code, _, err = run("list", "--url", url)
    assert code == 2
    assert "is not an address of a worker" in err


def test_the_message_says_how_to_trust_a_worker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, key_store = make_certificate(tmp_path)
    properties = {"listeners": "https://127.0.0.1:0", "listeners.https.ssl.keystore.location": str(key_store)}
    with RestApis() as apis:
        url = apis.serve(ModelHerder(), properties).url
        assert apis.call(asyncio.to_thread(main.run, ["connectors", "list", "--url", url])) == 1
    assert "is not trusted" in (told := capsys.readouterr().err)
    assert "SSL_CERT_FILE" in told


def test_an_unreachable_worker_is_reported_without_the_password(run: Run) -> None:
    code, _, err = run("list", "--url", "http://me:secret@127.0.0.1:1")
    assert code == 1
    assert "http://127.0.0.1:1 cannot be reached" in err
    assert "ssl" not in err
    assert "secret" not in err


@pytest.mark.parametrize(("user", "password"), [("me", "secret"), ("ümit", "ge#heim:ö"), ("人", "€/%40 @")])
def test_a_user_and_a_password_are_sent(
    herder: RebalancingHerder, tmp_path: Path, capsys: pytest.CaptureFixture[str], user: str, password: str
) -> None:
    (tmp_path / "users").write_text(f"{user}={password}\n", encoding="utf-8")
    named = f"//{quote(user, safe='')}:{quote(password, safe='')}@"
    with RestApis() as apis:
        url = apis.serve(herder, {"rest.basic.auth.credentials.file": str(tmp_path / "users")}).url
        for given, code in ((url, 1), (url.replace("//", named), 0)):
            assert apis.call(asyncio.to_thread(main.run, ["connectors", "list", "--url", given])) == code
    assert "status 401" in capsys.readouterr().err
