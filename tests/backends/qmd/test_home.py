"""The home of an agent's QMD: its directories, its environment, its models."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import apsw
import pytest

from backends.qmd.process import (
    QmdHome,
    absent,
    embed_lock,
    missing_models,
    model_file,
    qmd_variables,
)
from backends.qmd.sidecar import home_of, qmd_environment
from fakes.qmd import clean_environment, qmd_settings, write

HF = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"


def test_the_home_lies_where_no_chat_gateway_looks(tmp_path):
    home = home_of(qmd_settings(tmp_path, "qmd", agent="work"))
    assert home.root == tmp_path / "memory-gateway/work/qmd"
    assert home.index == home.root / "xdg-cache/qmd/index.sqlite"


def test_only_listed_variables_pass():
    given = {
        "PATH": "/bin", "HOME": "/h", "OPENAI_API_KEY": "k", "CI": "1", "LC_ALL": "C",
        "QMD_EMBED_MODEL": "/m.gguf", "QMD_CONFIG_DIR": "/theirs", "INDEX_PATH": "/theirs.sqlite",
        "NODE_OPTIONS": "--inspect", "XDG_CACHE_HOME": "/theirs", "PWD": "/elsewhere",
    }  # fmt: skip
    assert qmd_variables(given, QmdHome(Path("/q")), Path("/opt/qmd/bin")) == {
        "PATH": "/opt/qmd/bin:/bin",
        "HOME": "/h",
        "LC_ALL": "C",
        "QMD_EMBED_MODEL": "/m.gguf",
        "XDG_CONFIG_HOME": "/q/xdg-config",
        "XDG_CACHE_HOME": "/q/xdg-cache",
        "QMD_CONFIG_DIR": "/q/xdg-config/qmd",
        "PWD": "/",
        "NO_COLOR": "1",
    }


def test_directories_are_private_and_models_are_shared_by_a_link(tmp_path):
    models = tmp_path / "me/.cache/qmd/models"
    models.mkdir(parents=True)
    home = QmdHome(tmp_path / "agents/main/qmd")
    for _ in range(2):
        home.prepare(clean_environment(tmp_path / "me"))
    assert home.models.resolve() == models
    assert home.root.stat().st_mode & 0o777 == 0o700


def test_own_models_are_not_replaced_by_a_link(tmp_path):
    (tmp_path / "me/.cache/qmd/models").mkdir(parents=True)
    home = QmdHome(tmp_path / "qmd")
    home.models.mkdir(parents=True)
    home.prepare(clean_environment(tmp_path / "me"))
    assert not home.models.is_symlink()


def test_the_embedding_lock_is_one_for_the_user(tmp_path):
    assert embed_lock({"XDG_RUNTIME_DIR": str(tmp_path)}).parent == tmp_path
    for missing in ({}, {"XDG_RUNTIME_DIR": "relative"}, {"XDG_RUNTIME_DIR": "/no/such/place"}):
        assert embed_lock(missing) == embed_lock({})


def test_the_operator_gets_the_variables_also_without_a_program(tmp_path):
    variables = qmd_environment(qmd_settings(tmp_path, "no-such-qmd"), clean_environment(tmp_path))
    assert variables["QMD_CONFIG_DIR"] == str(tmp_path / "memory-gateway/main/qmd/xdg-config/qmd")


def test_a_model_is_found_where_qmd_keeps_it(tmp_path):
    assert model_file(HF, tmp_path) == tmp_path / "hf_ggml-org_embeddinggemma-300M-Q8_0.gguf"
    assert model_file("/models/own.gguf", tmp_path) == Path("/models/own.gguf")


def test_each_search_mode_misses_only_what_it_needs(tmp_path):
    models = {"embed": HF, "rerank": str(tmp_path / "rerank.gguf")}
    assert missing_models("search", {}, tmp_path) == ()
    assert missing_models("query", models, tmp_path) == (HF, models["rerank"])
    write(model_file(HF, tmp_path), "")
    assert missing_models("vsearch", models, tmp_path) == ()
    assert missing_models("query", models, tmp_path) == (models["rerank"],)
    assert missing_models("vsearch", {}, tmp_path) == ("(no embed model)",)


def test_what_is_absent_is_told_in_a_sentence_that_reads_well():
    assert absent(("a.gguf",)) == "a.gguf is not on this machine"
    assert absent(("a.gguf", "b.gguf")) == "a.gguf and b.gguf are not on this machine"


@pytest.fixture
def former(tmp_path):
    """The home of an earlier release, with an index whose last rows are in its log."""
    made = QmdHome(tmp_path / "agents/main/qmd")
    made.prepare(clean_environment(tmp_path))
    made.ledger.write_text('{"version": "2.8.3"}', encoding="utf-8")
    made.config_file.write_text("collections: {}", encoding="utf-8")
    made.models.mkdir()
    (made.models / "model.gguf").write_bytes(b"gigabytes")
    with closing(apsw.Connection(str(made.index))) as connection:
        connection.pragma("journal_mode", "wal")
        connection.execute("CREATE TABLE vectors (x); INSERT INTO vectors VALUES (1), (2)")
        yield made


def vectors_in(home):
    with closing(apsw.Connection(str(home.index))) as connection:
        return connection.execute("SELECT count(*) FROM vectors").get


def test_what_an_earlier_release_made_is_taken_over_and_stays_as_it_is(tmp_path, former):
    assert former.index.with_name("index.sqlite-wal").stat().st_size
    home = QmdHome(tmp_path / "memory-gateway/main/qmd", former.root)
    half = home.root.with_name(".qmd.new") / "xdg-cache"
    half.mkdir(parents=True)  # of a process that was killed over it
    for _ in range(2):
        home.prepare(clean_environment(tmp_path))
        assert vectors_in(home) == 2
        with closing(apsw.Connection(str(former.index))) as connection:
            connection.execute("INSERT INTO vectors VALUES (3)")  # its own user continues
    assert home.ledger.read_bytes() == former.ledger.read_bytes()
    assert home.config_file.read_bytes() == former.config_file.read_bytes()
    assert (home.models / "model.gguf").samefile(former.models / "model.gguf")
    assert vectors_in(former) == 4
    assert [path.name for path in home.root.parent.iterdir()] == ["qmd"]


def test_a_home_that_no_gateway_of_ours_used_is_not_taken_over(tmp_path, former):
    former.ledger.unlink()
    home = QmdHome(tmp_path / "memory-gateway/main/qmd", former.root)
    home.prepare(clean_environment(tmp_path))
    assert not home.index.exists()


def test_a_damaged_index_is_left_behind(tmp_path, former):
    home = QmdHome(tmp_path / "memory-gateway/main/qmd", former.root)
    former.index.with_name("index.sqlite-wal").unlink()
    former.index.write_bytes(b"no database, but long enough to be taken for one" * 100)
    home.prepare(clean_environment(tmp_path))
    assert home.ledger.exists()
    assert not home.index.exists()
