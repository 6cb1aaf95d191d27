"""The states in which memory counts as short."""

import pytest

from backends.builtin.embedding.semantics import memory_is_short


def write(path, percent):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        f"some avg10={percent:.2f} avg60=0.00 avg300=0.00 total=1\n"
        "full avg10=99.00 avg60=0.00 avg300=0.00 total=1\n",
        encoding="utf-8",
    )


@pytest.mark.parametrize(("percent", "short"), [(0, False), (9.99, False), (10, True), (80, True)])
def test_a_tenth_of_the_time_spent_waiting_for_memory_is_too_much(tmp_path, percent, short):
    write(tmp_path / "pressure/memory", percent)
    assert memory_is_short(tmp_path, tmp_path / "none") is short


def test_the_control_group_of_this_process_counts_too(tmp_path):
    write(tmp_path / "pressure/memory", 0)
    (tmp_path / "self").mkdir()
    (tmp_path / "self/cgroup").write_text("0::/user.slice/gateway.service\n", encoding="utf-8")
    group = tmp_path / "cgroup"
    assert not memory_is_short(tmp_path, group)
    write(group / "user.slice/gateway.service/memory.pressure", 50)
    assert memory_is_short(tmp_path, group)


def test_a_system_that_does_not_tell_has_memory(tmp_path):
    assert not memory_is_short(tmp_path, tmp_path)
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure/memory").write_text("nothing known\n", encoding="utf-8")
    assert not memory_is_short(tmp_path, tmp_path)
