"""State files: a file is complete, or it is refused. (The policy contract tests that a loaded state continues.)"""

import json
import zipfile

import numpy as np
import pytest

import thali

policy = thali.CascadeLSB(thali.Catalog(np.eye(3)), 2)


def test_a_file_contains_no_pickle_and_replaces_the_old_file_completely(tmp_path):
    path = tmp_path / "taste.thali"
    state = policy.init(2)
    state.save(path)
    policy.update(state, [[0, 1], [1, 2]], [[True, False], [False, False]])
    state.save(path)
    assert [p.name for p in tmp_path.iterdir()] == ["taste.thali"]
    with zipfile.ZipFile(path) as archive:
        assert json.loads(archive.read("header.json"))["learner"] == "CascadeLSB"
    with np.load(path, allow_pickle=False) as file:  # readable without thali
        np.testing.assert_array_equal(file["M"], state.M)
    np.testing.assert_array_equal(thali.load_state(path).M, state.M)


def test_a_failed_save_leaves_the_old_file(tmp_path):
    path = tmp_path / "taste.thali"
    state = policy.init(1)
    state.save(path)
    state.settings["sigma"] = object()  # cannot be written as JSON
    with pytest.raises(TypeError):
        state.save(path)
    assert thali.load_state(path).settings["sigma"] == 0.1
    assert [p.name for p in tmp_path.iterdir()] == ["taste.thali"]


@pytest.mark.parametrize("harm", ["cut", "text", "empty", "strange archive", "newer format"])
def test_a_damaged_or_foreign_file_is_refused(tmp_path, harm):
    path = tmp_path / "taste.thali"
    policy.init(2).save(path)
    whole = path.read_bytes()
    if harm == "cut":
        path.write_bytes(whole[: len(whole) // 2])
    elif harm == "text":
        path.write_text("hello")
    elif harm == "empty":
        path.write_bytes(b"")
    elif harm == "strange archive":
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("a.txt", "hello")
    else:
        header = {"format": "thali-state-9", "family": "linear", "learner": "CascadeLSB", "settings": {}}
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("header.json", json.dumps(header))
    with pytest.raises(ValueError, match="path of load_state must"):
        thali.load_state(path)


def test_the_message_names_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="but .*nowhere does not exist"):
        thali.load_state(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "harm",
    [
        lambda a: a.update(M=a["M"][:, :2, :2]),
        lambda a: a.update(M=a["M"] * np.nan),
        lambda a: a.update(M=a["M"] * 0.5),
        lambda a: a.update(M=a["M"].astype(int)),
        lambda a: a.update(M=a["M"] + np.triu(np.full((3, 3), 0.1), 1)),
        lambda a: a.update(B=a["B"][:1]),
        lambda a: a.pop("B"),
        lambda a: a.update(extra=np.zeros(2)),
    ],
)
def test_a_file_with_impossible_arrays_is_refused(tmp_path, harm):
    state = policy.init(2)
    harm(state.arrays)
    state.save(tmp_path / "bad")
    with pytest.raises(ValueError, match="path of load_state must be a complete file"):
        thali.load_state(tmp_path / "bad")


class Levels(thali.Policy):
    """A policy with a setting that JSON changes (a tuple), unusual array names, and an array that learn replaces."""

    @property
    def settings(self):
        return {**super().settings, "levels": (1, 2)}

    def start(self, users):
        return self.new_state(header=np.zeros((users, 1)), file=np.zeros((users, 1)))

    def choose(self, state, rng):
        return np.tile(np.arange(self.K), (state.users, 1))

    def learn(self, state, lists, clicks, gains):
        state.header = state.header * 0.9 + 1


class OwnState(thali.State):
    """A subclass without a separate family. It must not replace State when a file is loaded."""


def test_the_arrays_of_a_custom_policy_are_kept_saved_and_loaded(tmp_path):
    own = Levels(policy.catalog, 2)
    state = own.init(1)
    own.update(state, [[0, 1]], [[True, False]])
    own.update(state, [[0, 1]], [[True, False]])
    state.save(tmp_path / "own")
    for other in (thali.load_state(tmp_path / "own"), state.copy()):
        assert type(other) is thali.State
        assert other.header[0, 0] == pytest.approx(1.9)
        own.update(other, [[0, 1]], [[True, False]])


@pytest.mark.parametrize("name", ["users", "copy", "settings", "take"])
def test_arrays_must_not_have_the_names_of_attributes(name):
    with pytest.raises(
        ValueError, match=f"arrays of State must not have the name of an attribute of State, got '{name}'"
    ):
        thali.State("Own", {}, **{name: np.zeros(2)})


def test_changes_to_the_statistics_take_effect_after_refresh():
    state = policy.init(1)
    state.B[0] = [0.0, 0.0, 0.02]
    state.refresh()
    np.testing.assert_allclose(policy.estimate(state), [[0.0, 0.0, 2.0]])


def test_a_part_with_other_settings_is_refused_before_anything_is_written():
    catalog = thali.Catalog(np.eye(3))
    whole = thali.CascadeLSB(catalog, 2, window=10)
    state = whole.init(2)
    whole.update(state, [[0, 1], [1, 2]], [[True, False], [False, True]])
    before = state.copy()
    for other in ({"window": 20}, {"window": 10, "sigma": 0.5}, {"discount": 0.9}):
        with pytest.raises(ValueError, match="argument 'part' of put must be a state of the same policy with 1 users"):
            state.put([0], thali.CascadeLSB(catalog, 2, **other).init(1))
    for name, array in before.arrays.items():
        np.testing.assert_array_equal(state.arrays[name], array)


def test_a_file_whose_window_is_not_finite_is_refused(tmp_path):
    state = thali.CascadeLSB(thali.Catalog(np.eye(3)), 2, window=4).init(1)
    state.sums[0, 0, 0, 0] = np.nan
    state.save(tmp_path / "bad")
    with pytest.raises(ValueError, match="path of load_state must be a complete file .* sums must be finite"):
        thali.load_state(tmp_path / "bad")
