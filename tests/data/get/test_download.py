"""Archives come whole and right over networks that do not."""

from __future__ import annotations

import hashlib
import json
import os

import pytest

from handful.data.get.download import download
from handful.data.get.fetch import Download
from handful.data.get.web import Patience
from handful.errors import Missing

from .parcel import BODY, CALM, HASTY, SHA, archive, bare, get
from .server import (
    changes,
    changes_silently,
    corrupt,
    cut,
    drips,
    fails,
    honest,
    ignores_ranges,
    leaves,
    longer,
    misplaced,
    page,
    redirects,
    stalls,
    unmeasured,
)


def test_a_file_comes_with_its_checksum(shop, tmp_path):
    done = get(archive(shop.put("a.zip", BODY)), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == BODY
    assert (done.sha256, done.checked, done.bytes) == (SHA, "sha256", len(BODY))


def test_md5_is_used_where_only_that_is_published(shop, tmp_path):
    md5 = hashlib.md5(BODY).hexdigest()
    assert get(archive(shop.put("a.zip", BODY), sha256=None, md5=md5), tmp_path).checked == "md5"
    with pytest.raises(Missing, match="not the published"):
        download(archive(shop.put("a.zip", BODY), sha256=None, md5="0" * 32), tmp_path / "b.zip", CALM)


@pytest.mark.parametrize("what", [archive, bare])
def test_a_connection_that_is_cut_again_and_again_is_continued(shop, tmp_path, what):
    url = shop.put("a.zip", BODY, cut(70_000))
    get(what(url), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == BODY
    asked = shop.ranges("a.zip")
    assert asked[0] is None and all(r is not None for r in asked[1:])
    starts = [int(r[6:-1]) for r in asked[1:]]
    assert starts == sorted(set(starts)) and len(starts) == 4


def test_a_killed_get_goes_on_where_it_stopped(shop, tmp_path):
    with pytest.raises(Missing, match="404"):
        download(archive(shop.put("a.zip", BODY, leaves(1000))), tmp_path / "a.zip", CALM)
    assert Download(tmp_path / "a.zip").size == 1000
    shop.behaviours.clear()
    get(archive(shop.put("a.zip", BODY)), tmp_path)
    assert shop.ranges("a.zip")[-1] == "bytes=1000-"
    assert (tmp_path / "a.zip").read_bytes() == BODY


def test_a_server_that_ignores_ranges_starts_over(shop, tmp_path):
    get(bare(shop.put("a.zip", BODY, ignores_ranges(70_000))), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == BODY


def test_a_file_that_changed_meanwhile_is_not_glued_to_its_old_beginning(shop, tmp_path):
    for behave in (changes, changes_silently):
        for length in (len(BODY), len(BODY) + 7):
            old = b"PK\x03\x04" + bytes(length - 4)
            get(bare(shop.put("a.zip", BODY, behave(90_000, old))), tmp_path)
            assert (tmp_path / "a.zip").read_bytes() == BODY


def test_without_tag_or_checksum_nothing_is_continued(shop, tmp_path):
    get(bare(shop.put("a.zip", BODY, cut(90_000, 1, etag=None))), tmp_path)
    assert shop.ranges("a.zip") == [None, None]


def test_a_weak_tag_is_not_trusted_to_continue(shop, tmp_path):
    get(bare(shop.put("a.zip", BODY, cut(90_000, 1, etag='W/"x"'))), tmp_path)
    assert shop.ranges("a.zip") == [None, None]


def test_a_wrong_continuation_is_noticed_and_fetched_from_the_beginning(shop, tmp_path):
    get(archive(shop.put("a.zip", BODY, misplaced(90_000))), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == BODY
    assert shop.ranges("a.zip") == [None, "bytes=90000-", None]


def test_a_beginning_from_one_mirror_is_continued_at_the_next(shop, tmp_path):
    first = shop.put("one.zip", BODY, leaves(100_000))
    get(archive(first, shop.put("two.zip", BODY)), tmp_path)
    assert shop.ranges("two.zip") == ["bytes=100000-"]
    assert (tmp_path / "a.zip").read_bytes() == BODY


def test_corrupt_bytes_are_refused_and_the_next_mirror_serves(shop, tmp_path):
    bad = shop.put("bad.zip", BODY, corrupt)
    done = get(archive(bad, shop.put("good.zip", BODY)), tmp_path)
    assert done.source.endswith("good.zip")
    with pytest.raises(Missing, match=r"sha256 .* not the published"):
        download(archive(bad), tmp_path / "b.zip", CALM)
    assert not (tmp_path / "b.zip").exists() and not (tmp_path / "b.zip.part").exists()


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/octet-stream", "application/zip"])
def test_a_quota_page_is_refused_whatever_it_calls_itself(shop, tmp_path, kind):
    url = shop.put("a.zip", BODY, page(kind))
    for what in (archive(url, size=None, sha256=None), archive(url)):
        with pytest.raises(Missing, match="web page instead of the file|but the file has") as told:
            download(what, tmp_path / "a.zip", CALM)
        assert "\n" not in str(told.value)
    assert not list(tmp_path.iterdir())


def test_a_quota_page_does_not_cost_what_was_fetched(shop, tmp_path):
    url = shop.put("a.zip", BODY, leaves(5000))
    with pytest.raises(Missing):
        download(archive(url), tmp_path / "a.zip", CALM)
    shop.behaviours["/a.zip"] = page()
    with pytest.raises(Missing, match="web page"):
        download(archive(url), tmp_path / "a.zip", CALM)
    assert Download(tmp_path / "a.zip").size == 5000
    shop.behaviours["/a.zip"] = honest
    get(archive(url), tmp_path)
    assert shop.ranges("a.zip")[-1] == "bytes=5000-"


def test_something_that_is_no_zip_is_refused_at_its_first_bytes(shop, tmp_path):
    with pytest.raises(Missing, match="not a zip file"):
        download(bare(shop.put("a.zip", b"plain text " * 100)), tmp_path / "a.zip", CALM)


def test_redirects_are_followed_within_limits(shop, tmp_path):
    goal = shop.put("real.zip", BODY)
    for i in range(6):
        url = shop.put(f"hop{i}", b"", redirects(goal if i == 0 else shop.put(f"hop{i - 1}", b"")))
        shop.behaviours[f"/hop{i}"] = redirects(goal if i == 0 else f"/hop{i - 1}", (301, 302, 303, 307, 308)[i % 5])
    get(archive(shop.put("hop4", b"")), tmp_path)
    with pytest.raises(Missing, match="more than 5 times"):
        download(archive(url), tmp_path / "b.zip", CALM)


@pytest.mark.parametrize("goal", ["file:///etc/passwd", "ftp://host/a.zip", "data:,x", ""])
def test_redirects_to_other_schemes_are_refused(shop, tmp_path, goal):
    with pytest.raises(Missing, match="redirects to"):
        download(archive(shop.put("a.zip", BODY, redirects(goal))), tmp_path / "a.zip", CALM)


@pytest.mark.parametrize("behaviour", [stalls(0), stalls(2000), drips], ids=["silent", "midway", "drip"])
def test_a_server_that_stalls_is_left_for_the_next(shop, tmp_path, behaviour):
    slow = shop.put("slow.zip", BODY, behaviour)
    done = get(archive(slow, shop.put("good.zip", BODY)), tmp_path, HASTY)
    assert done.source.endswith("good.zip")
    assert (tmp_path / "a.zip").read_bytes() == BODY


def test_a_server_in_trouble_is_asked_again_and_a_missing_file_is_not(shop, tmp_path):
    get(archive(shop.put("a.zip", BODY, fails(503, 1))), tmp_path)
    with pytest.raises(Missing, match="404"):
        download(archive(shop.put("gone", b"", fails(404))), tmp_path / "b.zip", CALM)
    assert len(shop.ranges("gone")) == 1


def test_an_answer_without_length_is_taken_whole(shop, tmp_path):
    get(bare(shop.put("a.zip", BODY, unmeasured)), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == BODY


def test_more_or_other_bytes_than_published_are_refused_before_they_fill_the_disk(shop, tmp_path):
    with pytest.raises(Missing, match="more than the"):
        download(archive(shop.put("a.zip", BODY, longer)), tmp_path / "a.zip", CALM)
    with pytest.raises(Missing, match="but the file has"):
        download(archive(shop.put("b.zip", BODY[:-5])), tmp_path / "b.zip", CALM)
    assert not (tmp_path / "b.zip.part").exists()


def test_a_host_that_is_not_there_is_one_sentence_with_every_mirror(tmp_path):
    nowhere = [f"http://127.0.0.1:9/{i}.zip" for i in range(2)]
    with pytest.raises(Missing) as told:
        download(archive(*nowhere), tmp_path / "a.zip", Patience(stall=5, tries=1, pause=0))
    assert str(told.value).count("cannot be reached") == 2 and "\n" not in str(told.value)


def test_the_part_says_whose_it_is(shop, tmp_path):
    with pytest.raises(Missing):
        download(bare(shop.put("a.zip", BODY, leaves(700))), tmp_path / "a.zip", CALM)
    facts = json.loads((tmp_path / "a.zip.part.json").read_text())
    assert facts["url"].endswith("/a.zip") and facts["total"] == len(BODY)
    os.truncate(tmp_path / "a.zip.part", 300)
    shop.behaviours.clear()
    get(bare(shop.put("a.zip", BODY)), tmp_path)
    assert (tmp_path / "a.zip").read_bytes() == BODY
