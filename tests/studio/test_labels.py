"""Labels: written at each change, found again after any end, undone without end."""

from __future__ import annotations

import csv
import random

import pytest

from handful.errors import BadInput
from handful.studio.labels import LOG, TABLE, Labels


@pytest.fixture
def opened(tmp_path):
    """Open the folder's labels; one at a time, as a process would."""
    held: list[Labels] = []

    def open_() -> Labels:
        while held:
            held.pop().close()
        held.append(Labels(tmp_path))
        return held[-1]

    yield open_
    for labels in held:
        labels.close()


def table(folder) -> dict[str, str]:
    with open(folder / TABLE, encoding="utf-8", newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["file", "label"]
    return dict(rows[1:])


def test_every_change_is_in_the_table_at_once_and_found_again(opened, tmp_path):
    labels = opened()
    labels.set({"a.png": "wren", 'odd, "name".png': "robin"})
    assert table(tmp_path) == {"a.png": "wren", 'odd, "name".png': "robin"}
    labels.set({"a.png": None})
    assert table(tmp_path) == {'odd, "name".png': "robin"} == opened().now
    assert opened().classes == ["wren", "robin"], "a class stays where it was, for the keys that it has"


def test_undo_goes_back_to_the_beginning_even_after_a_restart(opened):
    labels, draw, states = opened(), random.Random(0), [{}]
    for _ in range(30):
        names = draw.sample("abcdefgh", draw.randint(1, 4))
        if labels.set({n: draw.choice(["x", "y", None]) for n in names}):
            states.append(dict(labels.now))
    labels = opened()
    for wanted in reversed(states[:-1]):
        labels.undo()
        assert labels.now == wanted
    assert labels.undo() == [] and labels.now == {}


def test_undo_keeps_what_another_tab_has_labelled_since(opened):
    labels = opened()
    labels.set({"a": "x", "b": "x"})
    labels.set({"a": "y"})
    labels.undo()
    assert labels.now == {"a": "x", "b": "x"}
    labels.undo()
    assert labels.now == {}


@pytest.mark.parametrize("cut", [1, 10, 25])
def test_a_line_cut_off_by_a_kill_is_passed_over(opened, tmp_path, cut):
    opened().set({"a": "x"})
    opened().set({"b": "y"})
    whole = (tmp_path / LOG).read_bytes()
    (tmp_path / LOG).write_bytes(whole + whole.splitlines()[-1][:cut])
    labels = opened()
    assert labels.now == {"a": "x", "b": "y"}
    labels.set({"c": "x"})
    assert opened().now == {"a": "x", "b": "y", "c": "x"}


def test_a_kill_between_log_and_table_loses_nothing(opened, tmp_path):
    opened().set({"a": "x"})
    before = (tmp_path / TABLE).read_bytes()
    opened().set({"a": "y", "b": "y"})
    (tmp_path / TABLE).write_bytes(before)
    assert opened().now == {"a": "y", "b": "y"} == table(tmp_path)


def test_a_table_edited_by_hand_is_taken_over_and_can_be_undone(opened, tmp_path):
    opened().set({"a": "x", "b": "x"})
    (tmp_path / TABLE).write_text("file,label\na,z\nc,x\n", encoding="utf-8")
    labels = opened()
    assert labels.now == {"a": "z", "c": "x"} and "z" in labels.classes
    labels.undo()
    assert labels.now == {"a": "x", "b": "x"} == table(tmp_path)


@pytest.mark.parametrize("text", ["photo,kind\na,b\n", "file,label\na,b,c\n", "\x00\x00", "file,label\na\n"])
def test_a_strangers_table_is_refused_and_left_alone(opened, tmp_path, text):
    (tmp_path / TABLE).write_text(text)
    with pytest.raises(BadInput, match=TABLE):
        opened()
    assert (tmp_path / TABLE).read_text() == text


@pytest.mark.parametrize(
    "line", [b"{}", b"[1]", b'{"do": "undo", "was": {}, "now": {}}', b"\xff", b'{"now": 3, "do": 1}']
)
def test_a_damaged_log_is_named_with_its_line(opened, tmp_path, line):
    opened().set({"a": "x"})
    with open(tmp_path / LOG, "ab") as log:
        log.write(b'{"do": "undo", "was": {"a": "x"}, "now": {"a": null}}\n' + line + b"\n")
    with pytest.raises(BadInput, match=f"{LOG}, line 3 is damaged"):
        opened()


@pytest.mark.parametrize("label", ["", "   ", "x" * 101, "a\x00b", "a\u202eb"])
def test_a_name_that_is_none_is_refused(opened, label):
    with pytest.raises(BadInput, match="name of 1 to 100 characters"):
        opened().set({"a": label})


def test_two_studios_do_not_write_to_one_folder(tmp_path):
    pytest.importorskip("fcntl")
    first = Labels(tmp_path)
    with pytest.raises(BadInput, match="another studio"):
        Labels(tmp_path)
    first.close()
    Labels(tmp_path).close()


def test_a_full_disk_changes_nothing(opened, tmp_path, monkeypatch):
    labels = opened()
    labels.set({"a": "x"})
    before = (tmp_path / LOG).read_bytes()
    monkeypatch.setattr("os.fsync", lambda handle: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(BadInput, match="No space left"):
        labels.set({"a": "y"})
    assert labels.now == {"a": "x"} and (tmp_path / LOG).read_bytes() == before
