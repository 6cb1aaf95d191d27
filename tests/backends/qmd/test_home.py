"""The home of an agent's QMD: its directories, its environment, its models."""

from __future__ import annotations

from pathlib import Path

from backends.qmd.environment import qmd_variables
from backends.qmd.home import QmdHome, embed_lock
from backends.qmd.models import absent, missing_models, model_file
from backends.qmd.sidecar import home_of, qmd_environment
from fakes.qmd import clean_environment, qmd_settings, write

HF = "hf:ggml-org/embeddinggemma-300M-GGUF/embeddinggemma-300M-Q8_0.gguf"


def test_the_home_lies_at_the_documented_place(tmp_path):
    home = home_of(qmd_settings(tmp_path, "qmd", agent="work"))
    assert home.root == tmp_path / "agents/work/qmd"
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
    assert variables["QMD_CONFIG_DIR"] == str(tmp_path / "agents/main/qmd/xdg-config/qmd")


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
