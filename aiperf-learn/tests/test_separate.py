"""Lessons made in a process of their own."""

import subprocess

import pytest

from aiperf_core.errors import AiperfError
from aiperf_core.plugins import load_plugins
from aiperf_learn.pages import separate


def target_of(name):
    return next(target for target in load_plugins().targets if target.name == name)


def test_a_lesson_is_made_once_until_its_package_changes(monkeypatch):
    made = separate.fragment(target_of("practice.sum_rows"))
    assert made.startswith('<div class="lesson">')
    assert "sum_rows" in made
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("it was made again"))
    assert separate.fragment(target_of("practice.sum_rows")) == made


def test_what_the_process_says_is_told(monkeypatch):
    separate._made.cache_clear()
    failed = subprocess.CompletedProcess([], 1, "", "Traceback\nValueError: no \x1b[31msuch thing\n")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(AiperfError, match="'practice.matmul' cannot be shown: ValueError: no"):
        separate.fragment(target_of("practice.matmul"))


def test_a_process_that_takes_too_long(monkeypatch):
    separate._made.cache_clear()
    monkeypatch.setattr(separate, "MOST_S", 0.01)
    with pytest.raises(AiperfError, match="took longer than 0.01 s; write it by: aiperf page"):
        separate.fragment(target_of("practice.matmul"))
