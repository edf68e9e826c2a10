"""Tables as text: every sign of the target language is escaped; numbers are shown on their own scale."""

from __future__ import annotations

import csv
import io

import numpy as np
import polars as pl
import pytest

from handful.errors import BadInput
from handful.metrics.base import Estimate
from handful.metrics.pairs import PairAccuracy
from handful.report.page import Figure, Section, Table, page, unique
from handful.report.tables import Sheet, latex, markdown
from handful.runs import Run

HOSTILE = "a_b & 50% $x$ #1 {y} ~z^2 \\end{tabular} | <b>|`*"


def sheet(name: str = HOSTILE) -> Sheet:
    frame = pl.DataFrame({"method": [name, "plain"], "value": [0.5, 0.25]})
    shown = pl.DataFrame({"method": [name, "plain"], HOSTILE: ["50.00 ± 1.00", "25.00 ± 2.00"]})
    return Sheet("t", frame, shown, f"about {HOSTILE}", frozenset({(0, 1)}))


def test_latex_escapes_each_sign_once():
    text = latex(pl.DataFrame({"m": ["a_b & 50% $ # { } ~ ^ \\ < >"]}))
    assert (
        r"a\_b \& 50\% \$ \# \{ \} \textasciitilde{} \textasciicircum{} \textbackslash{} \textless{} \textgreater{} \\"
        in text.splitlines()
    )
    assert latex(pl.DataFrame({"m": ["1 ± 2"]})).splitlines()[4] == r"1 $\pm$ 2 \\"


def test_a_hostile_name_cannot_end_the_latex_table():
    lines = sheet().text("latex").splitlines()
    assert lines[0].startswith("% about") and sum(r"\end{tabular}" in line for line in lines[1:]) == 1
    assert lines[-1] == r"\end{tabular}" and lines[1] == r"\begin{tabular}{lr}"
    assert r"\textbf{50.00 $\pm$ 1.00} \\" in lines[5]
    body = [line for line in lines[3:8] if not line.startswith("\\")]
    assert all(line.replace(r"\&", "").count("&") == 1 for line in body)


def test_a_caption_of_several_lines_stays_a_comment():
    text = Sheet("t", sheet().frame, sheet().shown, "one\n\\input{evil}").text("latex")
    assert text.splitlines()[0] == "% one \\input{evil}"


def test_markdown_keeps_its_columns():
    lines = sheet("a|b\nc").text("markdown").splitlines()[2:]
    assert all(line.replace("\\|", "").count("|") == 3 for line in lines)
    assert "a\\|b c" in lines[2] and "**50.00 ± 1.00**" in lines[2]
    assert "a|b" in markdown(pl.DataFrame({"m": ["a|b"]}))


def test_csv_gives_names_and_numbers_back():
    rows = list(csv.DictReader(io.StringIO(sheet('say "x", y\nz').text("csv"))))
    assert rows[0]["method"] == 'say "x", y\nz' and float(rows[0]["value"]) == 0.5


def test_an_unknown_format_is_refused(tmp_path):
    with pytest.raises(BadInput, match="latex"):
        sheet().write(tmp_path, ("latx",))
    assert [p.name for p in sheet().write(tmp_path)] == ["t.csv", "t.tex", "t.md"]


def test_html_escapes_names_everywhere():
    evil = '"><script>alert(1)</script>'
    table = Table(pl.DataFrame({evil: [evil]}), evil, frozenset({(0, 0)}))
    text = page(evil, evil, [Section(evil, [evil], [table], inner=[Section(evil)])], evil, {evil: evil})
    assert "<script" not in text and "&lt;script&gt;" in text


def test_sections_of_one_title_get_anchors_of_their_own():
    text = page("t", "", [Section("Same"), Section("Same")])
    assert 'id="same"' in text and 'id="same-2"' in text and 'href="#same-2"' in text
    assert unique(["a", "a", "a-2", "a", ""]) == ["a", "a-2", "a-2-2", "a-3", "part"]


def pair_run() -> Run:
    rng = np.random.default_rng(0)
    n = 12
    unseen, seen = rng.uniform(0.2, 0.4, n), rng.uniform(0.5, 0.7, n)
    to_seen = rng.uniform(0.3, 0.5, n)
    frame = pl.DataFrame(
        {
            "repeat": [0] * n,
            "task": range(n),
            "ways": [25] * n,
            "shots": [5] * n,
            "unseen": unseen,
            "seen": seen,
            "u_to_s": to_seen,
            "u_to_u": 1 - unseen - to_seen,
            "hm": 2 * unseen * seen / (unseen + seen),
            "confusion": to_seen / (1 - unseen - to_seen),
        }
    )
    identity = {"metrics": ["pairs"], "method": "pair-protonet", "part": "p", "rule": {"rule": "pairs"}, "seed": 0}
    return Run(frame, {**identity, "tasks_id": "x"})


def test_a_ratio_is_not_a_percentage():
    run = pair_run()
    ratio = float(run.frame["u_to_s"].mean() / run.frame["u_to_u"].mean())
    assert run.estimate("confusion").value == pytest.approx(ratio)
    assert str(run.estimate("confusion")).startswith(f"{ratio:.2f} ± ")
    assert str(run.estimate("unseen")).startswith(f"{100 * run.frame['unseen'].mean():.2f} ± ")
    line = next(line for line in str(run).splitlines() if "confusion" in line)
    assert f" {ratio:.2f} ± " in line
    assert str(run.compare(run, "confusion").difference) == "0.00 ± 0.00"
    assert PairAccuracy.scales == {"confusion": 1.0} and run.scale("hm") == 100


def test_the_scale_changes_what_is_shown_not_what_is():
    plain, ratio = Estimate(0.5, 0.4, 0.6, "tasks", 9), Estimate(0.5, 0.4, 0.6, "tasks", 9, scale=1.0)
    assert (str(plain), str(ratio)) == ("50.00 ± 10.00", "0.50 ± 0.10")
    assert plain.as_dict() == ratio.as_dict()


def test_only_a_drawing_that_is_wider_than_high_is_spread_over_the_page():
    def shown(width: int, height: int) -> str:
        return Figure(f'<svg viewBox="0 0 {width} {height}"></svg>', "a drawing").html()

    assert 'class="tall"' in shown(194, 270) and 'class="tall"' not in shown(374, 123)
