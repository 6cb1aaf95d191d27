from backends.files.roots import MARKDOWN_SUFFIX
from gateway.watching.directories import WATCH, Place, plan_watches


def watched(path, *, selective):
    plan = plan_watches([Place(path, MARKDOWN_SUFFIX, 1.0, WATCH, selective)])
    return {place for place in plan if place.startswith(str(path))}


def test_hidden_and_vendor_directories_of_a_folder_of_notes_are_not_watched(tmp_path):
    folder = tmp_path.resolve() / "notes"
    for name in (".git/objects/ab", "node_modules/p", "deep/er"):
        (folder / name).mkdir(parents=True)
    kept = {str(folder), str(folder / "deep"), str(folder / "deep/er")}
    assert watched(folder, selective=True) == kept
    assert watched(folder, selective=False) > kept
