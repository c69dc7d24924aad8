"""The copies of the catalog and of the priors in use, for workers that are restarted."""

import shutil

import numpy as np
import pytest
from recommending import films

import thali
from thali.service.http.app import make_recommender, set_up
from thali.service.http.kept_catalog import KeptCatalog
from thali.service.http.settings import LearnerSetting, Settings


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
    """A worker that is restarted then uses the file. The copy that another worker has kept stays."""
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
    assert kept.path.exists() == (problem == "no copy")
    assert ("no copy of the catalog file can be kept" in caplog.text) == (problem == "no folder")


@pytest.mark.parametrize("copies", ["kept", "lost", "never made"])
def test_a_worker_uses_a_copy_of_the_prior_file_as_long_as_there_is_one(tmp_path, caplog, copies):
    def prior(mean):
        return thali.Prior(mean, np.eye(4), films().topics)

    folder = tmp_path / "kept"
    if copies != "never made":
        folder.mkdir()
    prior(0.25).save(tmp_path / "own.json")
    learners = (LearnerSetting("default", K=3), LearnerSetting("own", K=3, prior=str(tmp_path / "own.json")))
    settings = set_up(Settings(saved(tmp_path / "a", 20), f"sqlite:///{tmp_path}/taste.db", learners), folder)
    if copies == "lost":
        shutil.rmtree(folder)
    prior(0.75).save(tmp_path / "own.json")
    with make_recommender(settings) as rec:
        assert rec.learners["own"].policy.prior == prior(0.25 if copies == "kept" else 0.75)
        assert rec.learners["default"].policy.prior is None
    assert ("no copy of the prior of learner 'own' can be kept" in caplog.text) == (copies == "never made")
