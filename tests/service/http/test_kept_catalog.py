"""The copy of the catalog in use, for workers that are restarted."""

import shutil

import pytest
from recommending import films

import thali
from thali.service.http.kept_catalog import KeptCatalog


def saved(path, L):
    thali.save_catalog(films(L), path)
    return str(path)


def test_only_a_catalog_that_was_put_into_use_is_kept(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir()
    kept = KeptCatalog(folder / "catalog")
    first, refused = kept.load(saved(tmp_path / "a", 20)), kept.load(saved(tmp_path / "b", 30))
    kept.keep(first)
    assert (first.catalog.L, refused.catalog.L) == (20, 30)
    assert thali.load_catalog(kept.path).L == 20
    (tmp_path / "c").write_text("no catalog")
    for path in (tmp_path / "c", tmp_path / "missing"):
        with pytest.raises((ValueError, OSError), match=str(path)):
            kept.load(str(path))
    assert {file.name for file in folder.iterdir()} == {"catalog", refused.copy.rpartition("/")[2]}


@pytest.mark.parametrize("problem", ["no folder", "no copy"])
def test_a_catalog_is_loaded_even_if_no_copy_can_be_kept(tmp_path, caplog, problem):
    """A worker that is restarted then uses the file, and never a copy of an earlier catalog."""
    folder = tmp_path / "kept"
    folder.mkdir()
    kept = KeptCatalog(folder / "catalog")
    kept.keep(kept.load(saved(tmp_path / "a", 20)))
    loaded = kept.load(saved(tmp_path / "b", 30))
    if problem == "no folder":
        shutil.rmtree(folder)
        loaded = kept.load(str(tmp_path / "b"))
    else:
        loaded = loaded._replace(copy=None)
    kept.keep(loaded)
    assert loaded.catalog.L == 30
    assert not kept.path.exists()
    assert ("no copy of the catalog file can be kept" in caplog.text) == (problem == "no folder")
