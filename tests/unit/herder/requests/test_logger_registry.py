"""Levels of Python loggers, with log4j's level names."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from uuid import uuid4

import pytest

from fencepost.herder.entities import LoggerLevel
from fencepost.herder.errors import BadRequestError, NotFoundError
from fencepost.herder.requests.logger_registry import LoggerRegistry


@pytest.fixture
def name() -> Iterator[str]:
    name = f"registry.{uuid4().hex}"
    yield name
    for logger in (name, f"{name}.child", f"{name}x"):
        logging.getLogger(logger).setLevel(logging.NOTSET)


def test_setting_a_level_reaches_the_loggers_below(name: str):
    registry = LoggerRegistry(now_ms=lambda: 7)
    child, other = logging.getLogger(f"{name}.child"), logging.getLogger(f"{name}x")
    assert registry.set_level(name, "warn") == [name, f"{name}.child"]
    assert child.level == logging.WARNING
    assert other.level == logging.NOTSET
    assert registry.level(f"{name}.child") == LoggerLevel("WARN", 7)
    assert {name, f"{name}.child", "root"} <= set(registry.levels())


def test_a_logger_without_a_level_has_the_effective_one(name: str):
    registry = LoggerRegistry()
    logging.getLogger(f"{name}.child")
    registry.set_level(name, "TRACE")
    logging.getLogger(f"{name}.child").setLevel(logging.NOTSET)
    assert registry.level(f"{name}.child").level == "TRACE"
    assert f"{name}.child" not in registry.levels()


@pytest.mark.parametrize("level", ["ALL", "TRACE", "DEBUG", "INFO", "WARN", "ERROR", "FATAL", "OFF"])
def test_every_level_reads_back_as_it_was_set(name: str, level: str):
    registry = LoggerRegistry()
    registry.set_level(name, level)
    assert registry.level(name).level == level


def test_the_level_off_disables_all_messages(name: str):
    LoggerRegistry().set_level(name, "OFF")
    assert not logging.getLogger(name).isEnabledFor(logging.CRITICAL)


def test_unknown_levels_and_loggers_are_refused(name: str):
    with pytest.raises(BadRequestError, match="LOUD"):
        LoggerRegistry().set_level(name, "LOUD")
    with pytest.raises(NotFoundError):
        LoggerRegistry().level(f"{name}.never")
