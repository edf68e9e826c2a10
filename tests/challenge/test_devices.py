"""GPU workers: which devices the walls show, and the refusal where there are none. No test here runs on a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from handful.challenge import walls
from handful.challenge.sandbox import Session
from handful.cli import main
from handful.errors import Missing

from .test_service import root  # noqa: F401

HERE = not Path("/dev/nvidia0").exists()


@pytest.fixture
def dev(tmp_path) -> Path:
    """A machine with four cards."""
    for name in ("nvidia0", "nvidia1", "nvidia2", "nvidia3", "nvidiactl", "nvidia-uvm", "nvidia-modeset", "sda"):
        (tmp_path / name).touch()
    return tmp_path


def bound(arguments: list[str]) -> dict[str, str]:
    assert arguments[::3] == ["--dev-bind"] * (len(arguments) // 3)
    return dict(zip(arguments[2::3], arguments[1::3], strict=True))


def test_the_walls_show_the_chosen_cards_what_they_share_and_no_other(dev):
    names = ("nvidia1", "nvidia3", "nvidiactl", "nvidia-uvm")
    assert bound(walls.cards((1, 3), dev)) == {f"/dev/{name}": f"{dev}/{name}" for name in names}
    assert walls.cards((), dev) == []


def test_a_card_that_is_not_there_is_refused_by_name(dev):
    with pytest.raises(Missing, match="has no .*/nvidia4;"):
        walls.cards((0, 4), dev)


def test_cards_are_bound_while_dev_can_still_be_written(dev, monkeypatch):
    cards = walls.cards
    monkeypatch.setattr(walls, "cards", lambda devices: cards(devices, dev))
    command = Session("userns", {}, devices=(2,))._command(3, None, [])
    at = command.index(f"{dev}/nvidia2")
    closed = next(i for i in range(len(command)) if command[i : i + 2] == ["--remount-ro", "/dev"])
    assert command.index("/dev") < at < closed and f"{dev}/nvidia0" not in command


def test_a_submission_counts_its_cards_from_zero_and_sees_none_unless_chosen():
    assert Session("userns", {}, devices=(2, 3)).environment()["CUDA_VISIBLE_DEVICES"] == "0,1"
    assert Session("none", {}, devices=(2, 3)).environment()["CUDA_VISIBLE_DEVICES"] == "2,3"
    assert Session("userns", {}).environment()["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.skipif(not HERE, reason="this machine has a GPU")
@pytest.mark.parametrize(("devices", "word"), [("0,1", "has no /dev/nvidia0"), ("0;1", "not a list of numbers")])
def test_a_worker_without_the_cards_does_not_start(root, tmp_path, capsys, devices, word):  # noqa: F811
    with pytest.raises(SystemExit) as end:
        main(["challenge", "work", str(root), "--state", str(tmp_path / "s"), "--devices", devices])
    said = capsys.readouterr().err
    assert end.value.code == 2 and word in " ".join(said.split()) and not (tmp_path / "s").exists()
