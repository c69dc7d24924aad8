"""Files are written completely or not at all, and an error names the file that the caller asked for."""

import numpy as np
import pytest

import thali
from thali.tools.files import atomic_file, atomic_path


def by_open(path):
    with atomic_file(path) as file:
        file.write(b"new")


def by_path(path):
    with atomic_path(path) as part:
        part.write_bytes(b"new")


def catalog(path):
    thali.save_catalog(thali.Catalog(np.eye(2)), path)


def half_written(path):
    with atomic_file(path) as file:
        file.write(b"half")
        raise FileNotFoundError("another file")


@pytest.mark.parametrize("write", [by_open, by_path, catalog])
def test_a_refused_write_names_the_file_that_was_asked_for(write, tmp_path):
    (tmp_path / "folder").mkdir()
    for target, kind in ((tmp_path / "none" / "x.parquet", FileNotFoundError), (tmp_path / "folder", OSError)):
        with pytest.raises(kind) as caught:
            write(target)
        assert str(caught.value).startswith(f"{target} cannot be written: ")
        assert f".{target.name}." not in str(caught.value)
    assert [path.name for path in tmp_path.rglob("*")] == ["folder"]


def test_after_an_error_the_old_file_is_unchanged(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    with pytest.raises(FileNotFoundError, match="another file"):
        half_written(path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
    by_open(path)
    assert path.read_bytes() == b"new"
