"""Logs as people have them: every form, and every line that is left out is told."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from aotc.base.errors import UsageError
from aotc.commands.profiles import traffic_log as reading
from aotc.commands.profiles.traffic_log import describe_bad, read_traffic
from tests.refusals import error_of

NAMES = ("batch", "seq")


def written(folder: Path, text: str | bytes) -> Path:
    path = folder / "shapes"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def counted(path: Path) -> dict[tuple[int, ...], int]:
    traffic = read_traffic(path, "encode", NAMES)
    return {
        tuple(point): count
        for point, count in zip(traffic.points.tolist(), traffic.counts.tolist(), strict=True)
    }


EXPECTED = {(1, 10): 3, (8, 20): 5}
LINES = '{"batch": 1, "seq": 10}\n' * 3 + '{"seq": 20, "batch": 8, "count": 5, "at": "12:00"}\n'
REPORT = {
    "entry_points": {
        "encode": {
            "shapes": [
                {"sizes": {"batch": 1, "seq": 10}, "count": 3},
                {"sizes": {"batch": 8, "seq": 20}, "count": 5},
            ]
        },
        "decode": {"shapes": [{"sizes": {"batch": 9}, "count": 7}]},
        "init": {},
    }
}


@pytest.mark.parametrize(
    "text",
    [
        LINES,
        LINES.rstrip("\n"),
        LINES.replace("\n", "\r\n"),
        "\ufeff" + LINES,
        '{"sizes": {"batch": 1, "seq": 10}, "count": 3}\n'
        '{"sizes": {"batch": 8, "seq": 20}, "count": 5}',
        '{"batch": }\n' + LINES,
        "seq,batch,count\n10,1,3\n20,8,5\n",
        'batch, seq\n1,10\n1,10\n"1","10"\n' + "8,20\n" * 5,
        json.dumps(REPORT),
        json.dumps(REPORT, indent=2),
        gzip.compress(LINES.encode(), mtime=0),
        gzip.compress(json.dumps(REPORT, indent=1).encode(), mtime=0),
    ],
)
def test_every_form_of_a_log_says_the_same(tmp_path: Path, text: str | bytes) -> None:
    assert counted(written(tmp_path, text)) == EXPECTED


def test_sizes_may_be_as_large_as_a_bundle_holds(tmp_path: Path) -> None:
    line = '{"batch": 1, "seq": 9223372036854775807}\n'
    traffic = read_traffic(written(tmp_path, line), "encode", NAMES)
    assert (traffic.requests, traffic.bad_lines) == (1, 0)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "not JSON"),
        ("[1, 2]", "not a JSON object"),
        ('{"batch": 1}', "no seq"),
        ('{"sizes": [1, 2]}', "sizes is not an object"),
        ('{"batch": 0, "seq": 1}', "batch is 0"),
        ('{"batch": true, "seq": 1}', "batch is True"),
        ('{"batch": 1.5, "seq": 1}', "batch is 1.5"),
        ('{"batch": "1", "seq": 1}', "batch is '1'"),
        ('{"batch": 1, "seq": 1, "count": -2}', "count is -2"),
        ('{"batch": 1, "seq": 9223372036854775808}', "seq is 9223372036854775808"),
        ('{"batch": 1, "seq": "\xff"}', "not JSON"),
    ],
)
def test_a_line_without_sizes_is_left_out_and_told(tmp_path: Path, line: str, reason: str) -> None:
    data = (LINES + line + "\n\n" + LINES).encode("latin-1")
    traffic = read_traffic(written(tmp_path, data), "encode", NAMES)
    assert traffic.requests == 16
    assert traffic.bad_lines == 1
    assert [bad.number for bad in traffic.bad] == [5]
    assert reason in traffic.bad[0].reason


def test_a_bad_row_of_csv_is_told_with_its_line(tmp_path: Path) -> None:
    text = "batch,seq\n1,10\n1\n1,x\n8,20\n"
    traffic = read_traffic(written(tmp_path, text), "encode", NAMES)
    assert [bad.number for bad in traffic.bad] == [3, 4]
    assert traffic.requests == 2


def test_of_many_bad_lines_the_first_are_told_and_all_are_counted(tmp_path: Path) -> None:
    text = LINES + "".join(f"bad {number}\n" for number in range(30))
    traffic = read_traffic(written(tmp_path, text), "encode", NAMES)
    assert [bad.number for bad in traffic.bad] == [5, 6, 7, 8, 9]
    assert list(describe_bad(traffic))[-1] == "30 of 34 lines left out"


def test_lines_of_other_entry_points_are_counted_apart(tmp_path: Path) -> None:
    text = LINES + '{"entry_point": "decode", "batch": 4}\n' * 2
    traffic = read_traffic(written(tmp_path, text), "encode", NAMES)
    assert (traffic.requests, traffic.other, traffic.bad_lines) == (8, 2, 0)
    assert read_traffic(written(tmp_path, json.dumps(REPORT)), "encode", NAMES).other == 7
    rows = "entry_point,batch,seq\nencode,1,2\nscore,3,4\nencode,1,2\n"
    traffic = read_traffic(written(tmp_path, rows), "encode", NAMES)
    assert (traffic.points.tolist(), traffic.requests, traffic.other) == ([[1, 2]], 2, 1)


@pytest.mark.parametrize(
    "data",
    [
        json.dumps(REPORT)[:-9].encode(),
        json.dumps(REPORT, indent=1)[:-9].encode(),
        b'{"entry_points": [1]}',
        b'{"entry_points": {"encode": {"shapes": 7}}}',
        gzip.compress(LINES.encode(), mtime=0)[:-12],
        b"\x1f\x8bno gzip",
        b'{"batch": 1, "seq": ' + b"1" * (reading.LINE_BYTES_MAX + 9),
        b"\xff\xfe,\n1,2\n",
        b'{"a":' + b"[" * 100_000,
        b'{"entry_points":\n{}, "x":' + b"[" * 100_000,
    ],
)
def test_what_is_no_log_is_refused(tmp_path: Path, data: bytes) -> None:
    error = error_of(UsageError, read_traffic, written(tmp_path, data), "encode", NAMES)
    assert error.code == "AOTC-E040"


@pytest.mark.parametrize("sizes", [(3,) * 1100, range(1, 1101), (3, 4)])
def test_too_many_requests_are_refused(tmp_path: Path, sizes: Sequence[int]) -> None:
    lines = [f'{{"batch": {size}, "seq": 1, "count": {2**53 - 1}}}\n' for size in sizes]
    error = error_of(UsageError, counted, written(tmp_path, "".join(lines)))
    assert (error.code, "requests" in error.findings[0].found) == ("AOTC-E040", True)


@pytest.mark.parametrize("text", ["", "\n\n", "a,b\n1,2\n", "oops\n", '{"x": 1}\n', "batch,seq\n"])
def test_a_log_that_says_nothing_of_the_entry_point_is_refused(tmp_path: Path, text: str) -> None:
    error = error_of(UsageError, read_traffic, written(tmp_path, text), "encode", NAMES)
    assert error.code == "AOTC-E041"


def test_lines_and_reports_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    line = '{"batch": 1, "seq": 10}'
    monkeypatch.setattr(reading, "LINE_BYTES_MAX", len(line))
    assert counted(written(tmp_path, line)) == {(1, 10): 1}
    error_of(UsageError, counted, written(tmp_path, line + " "))
    report = json.dumps(REPORT)
    monkeypatch.setattr(reading, "REPORT_BYTES_MAX", len(report))
    assert counted(written(tmp_path, report)) == EXPECTED
    error_of(UsageError, counted, written(tmp_path, report + " "))
