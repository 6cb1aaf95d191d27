"""`forget` on every store: the remains of a deleted note are shown, removed, and looked for afterwards."""

from __future__ import annotations

import pytest

from backends.builtin.backend import open_builtin
from backends.interface import ForgetRequest, SearchRequest, SyncRequest

pytestmark = [pytest.mark.anyio, pytest.mark.every_store]

DAY_MS = 24 * 3600 * 1000


async def test_what_is_gone_is_removed_with_proof_and_what_is_there_stays(home):
    secret = home.write("memory/safe.md", "- The cellar door opens with Xyl0phone-7731.\n")
    old = home.write("memory/2020-01-05.md", "- The kettle was descaled in winter.\n")
    home.write("memory/2020-01-06.md", "- The boiler was serviced in winter.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        for path in (secret, old):
            path.unlink()
        shown = await backend.forget(ForgetRequest(path="memory/safe.md"))
        assert [(one.is_there, one.chunks) for one in shown.kept] == [(False, 1)]
        assert shown.removed == 0
        done = await backend.forget(ForgetRequest(path="memory/safe.md", remove=True))
        assert (done.removed, done.searched_for, done.found) == (1, 1, ())
        is_shared = any("PostgreSQL keeps the deleted rows" in one for one in done.remarks)
        assert is_shared == (done.files == ())
        assert (await backend.forget(ForgetRequest(path="memory/safe.md"))).kept == ()
        age = ForgetRequest(older_than_ms=90 * DAY_MS, remove=True)
        done = await backend.forget(age)
        assert {one.path: one.is_there for one in done.kept} == {
            "memory/2020-01-05.md": False,
            "memory/2020-01-06.md": True,
        }
        assert done.removed == 1
        for years in (3_000, 10**17):
            assert (
                await backend.forget(ForgetRequest(older_than_ms=years * 365 * DAY_MS))
            ).kept == ()
        found = await backend.search(SearchRequest(query="boiler winter kettle Xyl0phone"))
        assert [hit.path for hit in found.hits] == ["memory/2020-01-06.md"]


async def test_a_note_that_is_gone_is_meant_by_every_spelling_of_its_path(home):
    secret = home.write("memory/safe.md", "- The cellar door opens with Xyl0phone-7731.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        secret.unlink()
        for path in ("./memory/safe.md", "memory//safe.md", str(secret), " memory/safe.md"):
            shown = await backend.forget(ForgetRequest(path=path))
            assert [one.path for one in shown.kept] == ["memory/safe.md"]
        done = await backend.forget(ForgetRequest(path=str(secret), remove=True))
        assert done.removed == 1


async def test_a_note_that_is_gone_is_meant_by_its_name_in_either_form_of_unicode(home):
    gone = home.write("memory/Ku\u0308che.md", "- The cellar door opens with Xyl0phone-7731.\n")
    async with home.open() as backend:
        await backend.sync(SyncRequest())
        gone.unlink()
        shown = await backend.forget(ForgetRequest(path="memory/K\u00fcche.md"))
        assert [one.path for one in shown.kept] == ["memory/Ku\u0308che.md"]


async def test_its_vectors_go_at_once_where_no_gateway_runs(embedding_home):
    secret = embedding_home.write(
        "memory/safe.md", "- The cellar door opens with Xyl0phone-7731.\n"
    )
    embedding_home.write("memory/other.md", "- The boiler was serviced in winter.\n")
    async with embedding_home.open() as backend:
        await backend.sync(SyncRequest())
        await backend.embed()
        secret.unlink()
        assert vectors(backend) == 2
    async with open_builtin(embedding_home.settings, background=False) as backend:
        done = await backend.forget(ForgetRequest(path="memory/safe.md", remove=True))
        assert (done.removed, vectors(backend)) == (1, 1)


def vectors(backend):
    with backend._store.view() as view:
        (fingerprint,) = view.embeddings.fingerprints()
        return view.embeddings.coverage(fingerprint).stored
