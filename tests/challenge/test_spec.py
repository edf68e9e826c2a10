"""What an organiser writes is checked with file and line."""

from __future__ import annotations

import pytest

from handful.challenge.spec_file import TEMPLATE, read
from handful.errors import BadInput


def write(tmp_path, old: str = "", new: str = ""):
    text = TEMPLATE.format(name="demo", title="A demo")
    assert old in text
    path = tmp_path / "challenge.toml"
    path.write_text(text.replace(old, new, 1) if old else text)
    return path


def test_the_template_is_the_published_challenge(tmp_path):
    challenge = read(write(tmp_path))
    assert challenge.tasks.ways == (2, 20) and challenge.tasks.shots == (1, 20) and challenge.tasks.queries == 20
    feedback, final = challenge.phases["feedback"], challenge.phases["final"]
    assert (feedback.tasks_per_dataset, feedback.hours, feedback.log) == (100, 5, "tail")
    assert (final.tasks_per_dataset, final.hours, final.seeds, final.log) == (600, 9, 3, "code")
    assert (challenge.quota.per_day, challenge.quota.total, challenge.scrutiny_days) == (2, 100, 14)
    assert challenge.league("free-style").baseline == 0.587
    assert challenge.league("meta-learning").baseline == 0.361 and not challenge.league("meta-learning").pretrained
    assert [bool(league.members) for league in challenge.leagues] == [False, False, True, True, True]
    assert challenge.limits.times(9).total == 9 * 3600


@pytest.mark.parametrize(
    ("old", "new", "line_has", "word"),
    [
        ("ways = [2, 20]", "ways = [20, 2]", "ways", "larger"),
        ("ways = [2, 20]", "ways = [1, 20]", "ways|tasks", "at least 2"),
        ("per_day = 2", "per_day = 0", "per_day", "greater than or equal to 1"),
        ("per_day = 2", "per_dya = 2", "per_dya", "did you mean per_day"),
        ("memory_mb = 16384", 'memory_mb = "lots"', "memory_mb", "integer"),
        ('log = "code"', 'log = "all"', "log", "full"),
        ('name = "women"', 'name = "free-style"', "leagues", "same name"),
        ("baseline = 0.587", "baseline = 58.7", "baseline", "less than or equal"),
        ('data = "data/final"', 'data = "data/feedback"', "phases", "same data"),
        ("[phases.final]", "[phases.finals]", "phases", ""),
        ('kind = "cross-domain"', 'kind = "any"', "kind", "within-domain"),
        ('rule = "any-way"', 'rule = "any-ways"', "tasks", "did you mean any-way"),
        ("queries = 20", "queires = 20", "tasks|queires", "did you mean queries"),
        ("[phases.feedback]", '[phases.feedback]\nrole = "final"', "phases", "feedback is missing"),
        ("[phases.feedback]", "[phases.feedback]\nbegins = 2026-01-02T00:00:00Z\nends = 2026-01-01", "phases", "order"),
        ("queries = 20", "queries = ", "queries", ""),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path, old, new, line_has, word):
    path = write(tmp_path, old, new)
    with pytest.raises(BadInput) as caught:
        read(path)
    message = str(caught.value)
    assert "challenge.toml" in message and word in message and "\n" not in message
    number = int(message.split("line ")[1].split(":")[0].split(",")[0].split(" ")[0].rstrip(")"))
    shown = path.read_text().splitlines()[number - 1]
    assert any(part in shown for part in line_has.split("|")), (number, shown, message)


def test_a_missing_file_and_a_file_that_is_not_text(tmp_path):
    with pytest.raises(BadInput, match="cannot be read"):
        read(tmp_path / "nothing.toml")
    (tmp_path / "x.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(BadInput, match="UTF-8"):
        read(tmp_path / "x.toml")


def test_another_phase_is_a_few_lines_of_the_file(tmp_path):
    more = '[phases.warm-up]\nrole = "feedback"\ndata = "data/warm-up"\n\n[phases.feedback]'
    challenge = read(write(tmp_path, "[phases.feedback]", more))
    assert list(challenge.phases) == ["public", "warm-up", "feedback", "final"]
    assert challenge.ranked == ["warm-up", "feedback", "final"] and challenge.having("feedback") == [
        "warm-up",
        "feedback",
    ]


def test_dates_are_kept_in_utc(tmp_path):
    dates = '[phases.final]\nbegins = 2026-05-01T12:00:00+02:00\nends = "2026-06-01T00:00"'
    final = read(write(tmp_path, "[phases.final]", dates)).phases["final"]
    assert (str(final.begins), str(final.ends)) == ("2026-05-01 10:00:00", "2026-06-01 00:00:00")
