"""Result files are written whole or not at all."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.core.results import GateRecord, ResultDocument
from pytest_specdec.reporting.result_file import read_result, replace_file, write_result

ROOT = Path(__file__).parents[2]


def document(nodeid: str = "t.py::test_x[a]", created_unix_s: float = 1.8e9) -> ResultDocument:
    gate = GateRecord(nodeid, "a", "passed")
    return ResultDocument(created_unix_s=created_unix_s, environment={}, comparisons={}, gates=(gate,))


def test_written_document_is_read_back(tmp_path: Path) -> None:
    write_result(document("t.py::test_x[größe]"), tmp_path / "results.json")
    assert read_result(tmp_path / "results.json") == document("t.py::test_x[größe]")


def test_folder_is_created(tmp_path: Path) -> None:
    write_result(document(), tmp_path / "a" / "b" / "results.json")
    assert (tmp_path / "a" / "b" / "results.json").is_file()


def test_earlier_result_is_replaced_and_nothing_else_is_left(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_result(document("t.py::test_old"), path)
    write_result(document("t.py::test_new"), path)
    assert read_result(path).gates[0].nodeid == "t.py::test_new"
    assert list(tmp_path.iterdir()) == [path]


def test_file_is_as_readable_as_other_files(tmp_path: Path) -> None:
    (tmp_path / "other").touch()
    write_result(document(), tmp_path / "results.json")
    assert (tmp_path / "results.json").stat().st_mode == (tmp_path / "other").stat().st_mode


def fail(*_: object) -> None:
    raise OSError(28, "No space left on device")


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_failed_write_keeps_the_earlier_result_and_nothing_half_written(
    call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "results.json"
    write_result(document("t.py::test_old"), path)
    monkeypatch.setattr(os, call, fail)
    with pytest.raises(
        ResultFileError, match=r"results\.json: cannot be written: No space left on device\n.*--specdec-dir"
    ):
        write_result(document("t.py::test_new"), path)
    assert read_result(path).gates[0].nodeid == "t.py::test_old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_a_killed_run_had_half_written_is_removed(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    (tmp_path / f".results.json.{ended.pid}.partial").touch()
    being_written = tmp_path / f".results.json.{os.getppid()}.partial"
    being_written.touch()
    write_result(document(), tmp_path / "results.json")
    assert sorted(tmp_path.iterdir()) == [being_written, tmp_path / "results.json"]


def test_what_is_no_file_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(
        [sys.executable, "-c", f"print(open({str(pipe)!r}).read())"], stdout=subprocess.PIPE
    ) as reader:
        replace_file(pipe, "a report")
        assert reader.communicate()[0] == b"a report\n"
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]


def test_standard_output_is_written_to_whatever_it_is(tmp_path: Path) -> None:
    code = """
import os
from pathlib import Path
from pytest_specdec.reporting.result_file import replace_file

os.replace = None  # whatever this test finds, it destroys nothing
replace_file(Path({!r}), "a report\\n")
print("written")
"""
    output = tmp_path / "output"
    for name in ("/dev/stdout", "/proc/self/fd/1", "/dev/fd/1"):
        with output.open("wb") as file:
            subprocess.run([sys.executable, "-c", code.format(name)], stdout=file, cwd=ROOT, check=True)
        assert output.read_text() == "a report\nwritten\n"


def test_a_device_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "replace", fail)  # as above
    replace_file(Path(os.devnull), "a report")
    assert Path(os.devnull).is_char_device()
    with pytest.raises(ResultFileError, match="/dev/full: cannot be written: No space left on device"):
        replace_file(Path("/dev/full"), "a report")


def test_folder_that_is_a_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "taken").touch()
    with pytest.raises(ResultFileError, match=r"taken/results\.json: cannot be written"):
        write_result(document(), tmp_path / "taken" / "results.json")


def test_number_that_is_not_finite_leaves_the_earlier_result(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_result(document(), path)
    with pytest.raises(ResultFileError, match=r"\$\.created_unix_s"):
        write_result(document(created_unix_s=float("nan")), path)
    assert read_result(path) == document()


def test_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ResultFileError, match=r"nothing\.json: cannot be read: No such file"):
        read_result(tmp_path / "nothing.json")


def test_cut_off_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    write_result(document(), path)
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(ResultFileError, match=r"results\.json: is not JSON"):
        read_result(path)


def test_documented_way_to_read_a_file_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (ROOT / "docs" / "reference" / "results.md").read_text(encoding="utf-8")
    example = page.partition("```python\n")[2].partition("```")[0]
    (tmp_path / ".specdec").mkdir()
    shutil.copy(ROOT / "tests" / "data" / "results" / "schema_1.json", tmp_path / ".specdec" / "results.json")
    monkeypatch.chdir(tmp_path)
    exec(example, {})  # noqa: S102 - our own page
    assert "eagle3/chat 1.26" in capsys.readouterr().out
